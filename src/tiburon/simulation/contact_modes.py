"""Modes of contact points in a step, and how far they are from changing."""

import numpy as np

from tiburon.contact.rigid import MIN_SLIP_SHARE, ContactProblem
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.primitives.contact_phases import for_contacts

MIN_DIVISOR = 1e-300
"""Keeps quotients of zeros finite."""


def contact_modes(
    problem: ContactProblem, p: Scalars, least: Scalars, u: Scalars, h: Scalar
) -> tuple[list[Scalar], list[Scalar]]:
    """Return the mode of each contact (0 open, 1 sticking, 2 sliding), and its margin.

    Normal and tangential velocities are relative to the largest without impulses of contacts that
    touch, impulses to the largest, friction to its limit; margins are at most 1.

    Args:
        problem: The contact problem of the step.
        p: Impulses, three per point [N s].
        least: Least normal impulses [N s].
        u: Velocities after the impulses, three per point [m/s].
        h: Length of the step [s].
    """
    touching = [normal > 0.0 for normal in p[2::3]]
    slips = [np.sqrt(x * x + y * y) for x, y in zip(problem.b[0::3], problem.b[1::3], strict=True)]
    normal_speed, sliding = (
        np.maximum(
            _largest([np.where(one, x, 0.0) for one, x in zip(touching, of, strict=True)]),
            MIN_DIVISOR,
        )
        for of in (problem.after, slips)
    )
    # at rest there is no slip to compare with
    sliding = np.maximum(sliding, normal_speed)
    impulse = np.maximum(_largest(p), MIN_DIVISOR)

    def mode_and_margin(
        p: list[Scalar],
        u: list[Scalar],
        least: Scalar,
        mu: Scalar,
        bound: Scalar,
        after: Scalar,
        end: Scalar,
    ) -> tuple[Scalar, Scalar]:
        x, y, normal = p
        friction = np.sqrt(x * x + y * y)
        slip = np.sqrt(u[0] * u[0] + u[1] * u[1])
        # the normal velocity on which Signorini's condition is set
        leaving = u[2] - after + bound
        closed = normal > 0.0
        speed = np.maximum(normal_speed, np.abs(after))
        slides = closed & (slip > MIN_SLIP_SHARE * sliding)
        limit = mu * normal
        room = np.where(limit > 0.0, 1.0 - friction / np.where(limit > 0.0, limit, 1.0), 1.0)
        above = normal - least
        pressed = np.where(above > 0.0, above / impulse, leaving / speed)
        # a gap that just closes at the end of the step
        late = np.abs(2.0 * end / h) / speed
        stays = np.minimum(np.minimum(pressed, late), np.where(slides, slip / sliding, room))
        margin = np.where(closed, stays, leaving / speed)
        # without friction nothing sticks
        frictionless = closed & (mu <= 0.0)
        mode = np.where(slides | frictionless, 2.0, np.where(closed, 1.0, 0.0))
        return mode, np.minimum(np.maximum(margin, 0.0), 1.0)

    given = [
        (
            list(p[3 * k : 3 * k + 3]),
            list(u[3 * k : 3 * k + 3]),
            least[k],
            problem.mu[k],
            problem.b[3 * k + 2],
            problem.after[k],
            end,
        )
        for k, end in enumerate(problem.ends)
    ]
    found = for_contacts(mode_and_margin, given)
    return [mode for mode, _ in found], [margin for _, margin in found]


def _largest(values: Scalars) -> Scalar:
    found: Scalar = 0.0
    for value in values:
        found = np.maximum(found, np.abs(value))
    return found
