"""Steps that compliant contact allows: no longer than an integrator is stable on its springs.

Symbols:
    J       Jacobian of contact points, three rows each; W = J H^-1 J^T
    K, B    stiffness and damping of the rows, diagonal
    y, w    modes of contact points that stay closed: K^1/2 W K^1/2 y = w^2 y

Points that touch and stick move by d'' = -W (K d + B d') about their rest. Each mode is an
oscillator, y'' = -w^2 (y + t y'), with the time constant t = y^T B K^-1 y. A step of the method is
taken on it; if its amplification matrix has a spectral radius above 1, motion grows from step to
step. Drives, stops and controllers add stiffness of their own: steps that are accepted here can
still be too long for them.
"""

import itertools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiburon.actuation.compliant_contact import CompliantContactElement
from tiburon.actuation.contact_element import ContactElement
from tiburon.algorithms.crba import crba
from tiburon.algorithms.tape_calls import JointVector
from tiburon.arrays import Array
from tiburon.contact.candidates import numbers_of, surfaces_of
from tiburon.contact.rows import PointRows, contact_rows
from tiburon.errors import DomainError
from tiburon.loops.constraints import constraints
from tiburon.model import Body, Inertia, Model, Plan, Prismatic
from tiburon.simulation.integrators.manifold import Manifold
from tiburon.simulation.integrators.method import Method
from tiburon.simulation.system import System
from tiburon.spatial import Scalar, Scalars

ACCEPTED_STARTS = 64
"""Starts of a system that are remembered as accepted."""

GROWTH_TOLERANCE = 1e-9
"""Growth per step that counts as rounding."""

STEP_RATIO = 0.98
"""Ratio of the steps that are tried one after the other."""

MIN_STEP_SHARE = 1e-4
"""Share of a step below which none is looked for."""


class Oscillator(NamedTuple):
    """A mode of contact points that stay closed."""

    point: str
    """Contact point that moves most in it."""

    frequency: float
    """w [rad/s]."""

    time_constant: float
    """t [s]."""


def contact_modes(
    system: System, q: Sequence[float], time: float, own: Sequence[float] | None = None
) -> list[Oscillator]:
    """Return the stiffest modes of compliant contact in a configuration.

    Points are looked at one by one; together, where they touch; and together, where they belong to
    one body.

    Args:
        system: The system, with compliant contact.
        q: Position [m or rad], nq numbers.
        time: Time [s].
        own: Run-time parameters of the contacts; their own by default.
    """
    contact = system.find(ContactElement)
    assert contact is not None
    element = contact.element
    position: tuple[Scalar, ...] = tuple(float(x) for x in q)
    plan = system.plan_at(position, (0.0,) * system.model.nv, time)
    candidates = element.candidates
    numbers = numbers_of(candidates)
    if own is not None:
        numbers = (*own, *numbers[len(own) :])
    points = contact_rows(plan, position, candidates, numbers)
    surfaces = surfaces_of(candidates, numbers, [point.geometry for point in points])
    J = _dense(points, plan)
    W = J @ _mobility(system, plan, position) @ J.T
    K, B = (
        np.array(
            [
                x
                for surface in surfaces
                for x in (
                    *[getattr(surface, f"planar_{quantity}") * bool(surface.static_friction)] * 2,
                    getattr(surface, f"normal_{quantity}"),
                )
            ]
        )
        for quantity in ("stiffness", "damping")
    )
    bodies: dict[tuple[str, str], list[int]] = {}
    start = 0
    for candidate in candidates:
        if candidate.point_count == 1:
            bodies.setdefault((candidate.first.body, candidate.second.body), []).append(start)
        start += candidate.point_count
    touching = [k for k, point in enumerate(points) if point.geometry.gap <= 0.0]
    groups = [touching, *bodies.values(), *([k] for k in range(len(points)))]
    names = element.point_names
    return [mode for group in groups if group for mode in _modes(W, K, B, group, names)]


def _modes(
    W: Array, K: Array, B: Array, group: Sequence[int], names: Sequence[str]
) -> list[Oscillator]:
    """Return the modes of highest frequency and of strongest damping of some points."""
    rows = np.array([3 * k + i for k in group for i in range(3)])
    root = np.sqrt(K[rows])
    values, vectors = np.linalg.eigh(root[:, None] * W[np.ix_(rows, rows)] * root)
    ratio = np.divide(B[rows], K[rows], out=np.zeros(len(rows)), where=K[rows] > 0.0)
    times = np.sum(vectors * ratio[:, None] * vectors, axis=0)
    found = []
    for k in {int(np.argmax(values)), int(np.argmax(values * times))}:
        if values[k] > 0.0:
            point = group[int(np.argmax(np.abs(vectors[:, k]))) // 3]
            found.append(Oscillator(names[point], float(np.sqrt(values[k])), float(times[k])))
    return found


def _dense(points: Sequence[PointRows], plan: Plan) -> Array:
    found = np.zeros((3 * len(points), plan.nv))
    rows = itertools.chain.from_iterable(point.rows for point in points)
    for k, row in enumerate(rows):
        for i, x in row.items():
            found[k, i] = x
    return found


def _mobility(system: System, plan: Plan, q: tuple[Scalar, ...]) -> Array:
    """Return the inverse mass matrix, without what closed loops do not allow."""
    H = np.array(crba(plan, q), dtype=np.float64)
    found: Array = np.asarray(np.linalg.pinv(H, hermitian=True), dtype=np.float64)
    if not system.model.loops:
        return found
    jacobian = constraints(system.model, plan, JointVector(q)).jacobian
    rows = np.array([[row.get(i, 0.0) for i in range(plan.nv)] for row in jacobian])
    held = found @ rows.T
    return np.asarray(found - held @ np.linalg.pinv(rows @ held, hermitian=True) @ held.T)


def _slider() -> Manifold:
    inertia = Inertia(1.0, (0.0, 0.0, 0.0), (1.0, 0.0, 0.0, 1.0, 0.0, 1.0))
    return Manifold(Model("slider", [Body("slider", joint=Prismatic("x"), inertia=inertia)]))


def _growth(method: Method, slider: Manifold, mode: Oscillator, dt: float) -> float:
    """Return the spectral radius of a step on an oscillator."""
    square = mode.frequency * mode.frequency

    def rates(q: Scalars, w: Scalars, *_: Scalar) -> tuple[Scalar, ...]:
        return (-square * (q[0] + mode.time_constant * w[0]),)

    columns = []
    # lengths of about 1 in units of the oscillation
    for q, w in (((1.0,), (0.0,)), ((0.0,), (mode.frequency,))):
        (x,), (v,) = method.step(slider, rates, q, w, dt, 0.0)
        columns.append((x, v / mode.frequency))
    return float(np.abs(np.linalg.eigvals(np.array(columns, dtype=np.float64).T)).max())


def largest_step(method: Method, mode: Oscillator, dt: float) -> float:
    """Return the longest step up to dt [s] with which a method is stable on a mode; 0 for none."""
    found, slider = dt, _slider()
    while _growth(method, slider, mode, found) > 1.0 + GROWTH_TOLERANCE:
        found *= STEP_RATIO
        if found < MIN_STEP_SHARE * dt:
            return 0.0
    return found


def refuse_long_contact_steps(
    system: System,
    method: Method,
    dt: float,
    positions: Array,
    time: float,
    rows: Array | None = None,
) -> None:
    """Refuse steps with which a method is not stable on the springs of compliant contact.

    Laws of users and implicit methods are not looked at.

    Args:
        system: The system.
        method: The integrator.
        dt: Length of a step [s].
        positions: Start positions of all cases, shape (cases, nq); the first one is looked at.
        time: Time at the start [s].
        rows: Run-time parameters of the elements in each case, or the same in all; the stiffest
            case is looked at.

    Raises:
        DomainError: If a step is too long; the message names the contact and the largest step.
    """
    contact = system.find(CompliantContactElement)
    if contact is None or contact.element.law is not None or method.is_implicit:
        return
    accepted = system.kept.setdefault("contact steps", {})
    key = (method.name, dt, time, positions[0].tobytes())
    if rows is None and key in accepted:
        return
    own = None
    if rows is not None:
        # the sum is that of stiffnesses, next to which other numbers are small
        mine = np.atleast_2d(rows)[:, contact.p]
        own = mine.reshape(-1, mine.shape[-1])[int(np.argmax(mine.sum(axis=-1)))].tolist()
    modes = contact_modes(system, positions[0], time, own)
    worst = min(
        ((largest_step(method, mode, dt), mode) for mode in _stiffest(modes)),
        key=lambda pair: pair[0],
        default=None,
    )
    if worst is not None and worst[0] < dt:
        raise _refusal(method, dt, *worst)
    accepted[key] = True
    if len(accepted) > ACCEPTED_STARTS:
        del accepted[next(iter(accepted))]


def _refusal(method: Method, dt: float, step: float, mode: Oscillator) -> DomainError:
    """Return the error of a step that is too long for a mode."""
    others = (
        f"method=tb.Rosenbrock.fixed({dt:g}), a smaller stiffness, or contact=tb.RigidContact()"
    )
    if not step:
        return DomainError(
            f"method with compliant contact {mode.point!r}",
            f"one that holds its springs, which vibrate at {mode.frequency:.3g} rad/s with the "
            "mass they carry",
            f"{method.name!r}, which adds energy to them at every step",
            advice=f"write method=tb.RK4(dt={dt:g}), pass damping, {others}",
        )
    # two digits, rounded down
    unit = 10.0 ** np.floor(np.log10(step) - 1.0)
    shorter = f"{np.floor(step / unit) * unit:.2g}"
    return DomainError(
        f"dt with compliant contact {mode.point!r}",
        f"steps of at most {shorter} s, with which {method.name!r} holds its springs (they "
        f"vibrate at {mode.frequency:.3g} rad/s with the mass they carry)",
        f"{dt:g} s",
        advice=f"write method=tb.RK4(dt={shorter}), {others}",
    )


def _stiffest(modes: Sequence[Oscillator]) -> list[Oscillator]:
    """Return the modes that can limit a step: highest frequency, strongest damping."""
    if not modes:
        return []
    damped = max(modes, key=lambda mode: mode.frequency**2 * mode.time_constant)
    least = min(modes, key=lambda mode: (mode.time_constant, -mode.frequency))
    return [max(modes, key=lambda mode: mode.frequency), damped, least]
