"""Small motions of a robot with loops: along what its loops allow, and nowhere else.

States near one with closed loops have steps dq with J dq = 0 and velocities with J dv + (dJ dq) v
= 0. Coordinates of both are taken in the metric of the mass matrix, in which a mechanism is a set
of unit masses:

    dq = N a,   dv = N b + C a,   N^T H N = 1,   J N = 0

(independent speeds; Laulusa and Bauchau 2008, "Review of classical approaches for constraint
enforcement in multibody systems"). Accelerations and their derivatives are those of
`tiburon.loops.derivatives`, which keep such states on the loops. Constraints that bind velocities
alone leave more steps than velocities: N of steps then has further columns.

Symbols:
    J       Jacobian of the constraints
    Z       orthonormal basis of what J maps to zero, N = Z K
    K       with Z^T (dvd/dtau) Z = K K^T = (Z^T H Z)^-1
    B       rate of J v along a step, for a velocity v
"""

from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.algorithms.derivatives.dynamics import (
    ForwardDynamicsDerivatives,
    forward_dynamics_derivatives,
)
from tiburon.loops.start import DEPENDENT
from tiburon.simulation.closed_states import ClosedStates
from tiburon.simulation.eigenmodes import EigenModes, modes_within
from tiburon.simulation.equilibrium import Balance, SmallMotion
from tiburon.simulation.system import System

__all__ = ["ClosedMotion"]

Array = NDArray[np.float64]


class _Here(NamedTuple):
    """What acts and what is allowed in a state."""

    balance: Balance
    by: ForwardDynamicsDerivatives
    Z: Array
    """Of velocities, shape (nv, freedoms)."""
    K: Array
    """Shape (freedoms, freedoms)."""


class ClosedMotion(SmallMotion):
    """How a system with loops moves at given velocities and commands, exactly and near a state."""

    def __init__(self, system: System, v: Array, u: Array, time: float) -> None:
        """Hold what does not change; see `SmallMotion`."""
        super().__init__(system, v, u, time)
        self.loops = ClosedStates(system, v, time)
        self._last: tuple[bytes, _Here] | None = None

    def directions(self, q: Array) -> Array:
        """Return an orthonormal basis of the steps that keep loops closed, shape (nv, steps)."""
        return self.loops.steps(q)

    def moved(self, q: Array, step: Array) -> Array | None:
        """Return the position after a step, brought back onto the loops."""
        return self.loops.closed(self.model.integrate(q, step))

    def _at(self, q: Array, x: Array) -> _Here:
        key = q.tobytes() + x.tobytes()
        if self._last is None or self._last[0] != key:
            here = self.balance(q, x)
            now: dict[str, Any] = {"time": self.time} if self.system.time_matters else {}
            by = forward_dynamics_derivatives(
                self.model, q, self.v, here.force, world=self.world, **now
            )
            Z = self.loops.freedoms(q)
            K = np.linalg.cholesky(Z.T @ by.by_tau @ Z)
            self._last = key, _Here(here, by, Z, np.asarray(K, dtype=np.float64))
        return self._last[1]

    def rates(self, q: Array, x: Array) -> Array:
        """Return accelerations and rates of inner states, shape (nv + nx,)."""
        here = self._at(q, x)
        return np.concatenate([here.by.vd, here.balance.rates])

    def unbalanced(self, q: Array, x: Array) -> tuple[Array, Array]:
        """Return what acts along the freedoms [N or N m], and rates of inner states."""
        here = self._at(q, x)
        return _forces(here, here.by.vd), here.balance.rates

    def by_joint(self, q: Array, force: Array) -> Array:
        """Return what acts along the freedoms as joint forces [N or N m], shape (nv,)."""
        Z = self.loops.freedoms(q)
        return np.asarray(Z @ force)

    def slopes(self, q: Array, x: Array) -> tuple[Array, Array]:
        """Return how `unbalanced` changes with steps along `directions` and inner states.

        Forces are those of accelerations; that the freedoms turn on the way changes nothing where
        there are none.
        """
        nv, here = self.model.nv, self._at(q, x)
        directions = self.directions(q)
        lower = self._change(here)
        rows = np.hstack([here.balance.by_step[nv:] @ directions, here.balance.by_w[nv:, nv:]])
        accelerations = np.hstack([lower[:, :nv] @ directions, lower[:, 2 * nv :]])
        return _forces(here, accelerations), rows

    def matrix(self, q: Array, x: Array) -> Array:
        """Return A, shape (2 nv + nx, 2 nv + nx): with gaps that stay as they are off the loops."""
        here, nv = self._at(q, x), self.model.nv
        rates = np.hstack([here.balance.by_step[nv:], here.balance.by_w[nv:]])
        return self._stacked(self._change(here), rates)

    def _change(self, here: _Here) -> Array:
        """Return how accelerations change with [dq, v, x], shape (nv, 2 nv + nx)."""
        nv = self.model.nv
        found = here.by.by_tau @ np.hstack([here.balance.by_step[:nv], here.balance.by_w[:nv]])
        found[:, :nv] += here.by.by_q
        found[:, nv : 2 * nv] += here.by.by_v
        return np.asarray(found)

    def members(self, A: Array, q: Array, x: Array, slowest: float) -> EigenModes:
        """Return eigenvalues of A on the loops, but for zeros, and vectors of [dq, v, x]."""
        here, nv = self._at(q, x), self.model.nv
        steps, freedoms = self.directions(q), here.Z.shape[1]
        # in the metric of the mass matrix; further steps, which carry no energy, of like size
        scale = np.eye(steps.shape[1]) * (np.abs(here.K).max(initial=0.0) or 1.0)
        scale[:freedoms, :freedoms] = here.K
        N = steps @ scale
        count = steps.shape[1]
        into = np.zeros((len(A), count + freedoms + len(x)))
        into[:nv, :count] = N
        into[nv : 2 * nv, :count] = self._turned(q, N)
        into[nv : 2 * nv, count : count + freedoms] = here.Z @ here.K
        into[2 * nv :, count + freedoms :] = np.eye(len(x))
        # C has no part along Z, so that coordinates are read off apart
        back = np.zeros(into.T.shape)
        back[:count, :nv] = np.linalg.solve(scale, steps.T)
        back[count : count + freedoms, nv : 2 * nv] = np.linalg.solve(here.K, here.Z.T)
        back[count + freedoms :, 2 * nv :] = np.eye(len(x))
        unit = np.eye(freedoms)
        return modes_within(back @ A @ into, np.eye(count), unit, into, slowest)

    def _turned(self, q: Array, steps: Array) -> Array:
        """Return C N: changes of velocity that go with steps, so that loops stay closed.

        Along a step d, J v changes by B(v, d) + J [d, v] / 2, B being the form of which the bias is
        the square: its values for v + d and v - d tell it exactly.
        """
        found = np.zeros(steps.shape)
        if not self.v.any():
            return found
        J = self.loops.jacobian(q)
        turned = self._turning() @ steps
        for k, step in enumerate(steps.T):
            ahead, behind = (
                np.array(self.loops.held(q, self.v + sign * step).bias, dtype=np.float64)
                for sign in (1.0, -1.0)
            )
            change = 0.25 * (ahead - behind) + 0.5 * J @ turned[:, k]
            found[:, k] = -np.linalg.lstsq(J, change, rcond=DEPENDENT)[0]
        return found


def _forces(here: _Here, accelerations: Array) -> Array:
    """Return Z^T H times accelerations that keep loops closed."""
    along = np.linalg.solve(here.K, here.Z.T @ accelerations)
    return np.asarray(np.linalg.solve(here.K.T, along))
