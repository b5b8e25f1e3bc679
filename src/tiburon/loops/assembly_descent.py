"""Damped Newton steps that close loops from rough guesses, many starts at a time.

Gaps and Jacobian come from native code for all starts at once; steps are those of
`tiburon.algorithms.levenberg_marquardt` (damping in proportion to the squared gap, Yamashita and
Fukushima 2001) on the manifold of positions, written over arrays because the number of loops may be
large.

Symbols: r errors, J their rate per free joint velocity, lam damping.
"""

from collections.abc import Mapping, Sequence
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.algorithms.jacobian import frame_jacobian
from tiburon.algorithms.kinematics import forward_kinematics
from tiburon.algorithms.levenberg_marquardt import (
    EASE,
    FIRST_DAMPING,
    LEAST_DAMPING,
    MOST_DAMPING,
    ROUNDING,
    TIGHTEN,
)
from tiburon.loops.constraints import binds_velocity
from tiburon.loops.dynamics import constraint_residual, loop_jacobian
from tiburon.model import Model, Pose

__all__ = ["Closing", "Descended", "descend_all"]

Array = NDArray[np.float64]

STALLED = 1e-9
"""A step that lowers the squared error by less than this part has arrived."""


class Closing(NamedTuple):
    """What is to be brought to zero, and by which joints."""

    model: Model
    free: NDArray[np.intp]
    """Velocity variables that may change."""
    places: Mapping[str, Pose]
    """Frames that are to lie somewhere in the world."""

    def errors(self, q: Array) -> Array:
        """Return gaps of loops, then turns and shifts of frames [rad, m], shape (n, rows)."""
        found = [constraint_residual(self.model, q)] if self.model.loops else []
        for frame, pose in self.places.items():
            R, p = forward_kinematics(self.model, q, frame)
            E = R @ np.array(pose.rotation).T
            twice = np.sqrt(np.maximum(1.0 + np.trace(E, axis1=-2, axis2=-1), 1e-12))
            vector = np.stack(
                [E[:, 2, 1] - E[:, 1, 2], E[:, 0, 2] - E[:, 2, 0], E[:, 1, 0] - E[:, 0, 1]], axis=-1
            )
            found += [vector / twice[:, None], p - np.array(pose.translation)]
        return np.concatenate(found, axis=-1)

    def rates(self, q: Array) -> Array:
        """Return how the errors change with the free variables, shape (n, rows, free)."""
        found = [loop_jacobian(self.model, q)] if self.model.loops else []
        if found:
            # what binds velocities alone does not bind where a robot may be put
            found[0] = np.where(np.array(binds_velocity(self.model))[:, None], 0.0, found[0])
        found += [frame_jacobian(self.model, q, frame) for frame in self.places]
        return np.asarray(np.concatenate(found, axis=-2)[..., self.free])


class Descended(NamedTuple):
    """Where the steps led, one entry per start."""

    q: Array
    errors: Array
    """Shape (n, rows)."""

    @property
    def gap(self) -> Array:
        """Largest error of each [m or rad], shape (n,)."""
        return np.asarray(np.abs(self.errors).max(axis=-1, initial=0.0))


def descend_all(
    closing: Closing, starts: Array, tolerance: float, max_iterations: int
) -> Descended:
    """Lower the errors from many starts, until each is small enough or no step helps.

    Args:
        closing: What is to be closed.
        starts: Positions [m or rad], shape (n, nq).
        tolerance: Largest error that counts as closed [m or rad].
        max_iterations: Most steps.
    """
    model = closing.model
    q = np.array(starts, dtype=np.float64)
    r = closing.errors(q)
    mu = np.full(len(q), FIRST_DAMPING)
    active = np.abs(r).max(axis=-1, initial=0.0) > tolerance
    for _ in range(max_iterations):
        if not active.any() or not closing.free.size:
            break
        now = np.flatnonzero(active)
        square = (r[now] ** 2).sum(axis=-1)
        step = np.zeros((len(now), model.nv))
        step[:, closing.free] = _damped(closing.rates(q[now]), r[now], mu[now] * square)
        # no joint should turn round and round in one step
        step /= np.maximum(1.0, np.abs(step).max(axis=-1))[:, None]
        trial = model.normalize(model.integrate(q[now], step))
        new = closing.errors(trial)
        new_square = (new**2).sum(axis=-1)
        better = new_square < square
        gained = square - new_square > STALLED * square
        q[now[better]], r[now[better]] = trial[better], new[better]
        mu[now] = np.where(better, np.maximum(mu[now] * EASE, LEAST_DAMPING), mu[now] * TIGHTEN)
        done = np.abs(r[now]).max(axis=-1) <= tolerance
        stuck = (better & ~gained) | (mu[now] > MOST_DAMPING)
        active[now] = ~(done | stuck)
    return Descended(q, r)


def _damped(J: Array, r: Array, lam: Array) -> Array:
    """Return the steps -(J^T J + lam)^-1 J^T r by the smaller of the two matrices."""
    rows, columns = J.shape[-2:]
    wide = rows <= columns
    J_t = np.swapaxes(J, -1, -2)
    gram = J @ J_t if wide else J_t @ J
    damping = lam + ROUNDING * np.trace(gram, axis1=-2, axis2=-1) + 1e-300
    gram = gram + damping[:, None, None] * np.eye(gram.shape[-1])
    right = r if wide else (J_t @ r[..., None])[..., 0]
    solved = np.linalg.solve(gram, right[..., None])
    return -np.asarray(J_t @ solved if wide else solved)[..., 0]


def spread_starts(
    model: Model, guess: Array, free: Sequence[int], count: int, rng: np.random.Generator
) -> Array:
    """Return starts near and far: half of them around a guess, half anywhere, held joints kept.

    Random positions of joints with limits stay within these.
    """
    steps = np.zeros((count, model.nv))
    around = rng.uniform(0.1, 1.5, (count, 1)) * rng.standard_normal((count, len(free)))
    steps[:, list(free)] = around
    starts = model.integrate(np.broadcast_to(guess, (count, model.nq)), steps)
    anywhere, _ = model.random_state(rng, (count - count // 2,))
    own = set(free)
    for joint in model.joints:
        v, q = model.slice(joint.name, of="v"), model.slice(joint.name)
        if joint.follows is not None or not joint.nv or not own.issuperset(range(v.start, v.stop)):
            continue
        starts[count // 2 :, q] = anywhere[:, q]
    return starts
