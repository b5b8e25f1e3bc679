"""Where a system stays as it is, and how it moves near there.

Symbols:
    z = [dq, v, x]   steps of position, velocities, inner states
    A                rate of z per z
    Q                joint forces of commands and elements, wrenches on bodies included

Inverse dynamics Q = ID(q, v, vd) has derivatives in closed form, the mass matrix H among them;
those of Q and of the rates of inner states are taken of their graph. An equilibrium, Q =
ID(q, v, 0) with constant inner states, is found by Newton's method with steps that are halved until
they help (Nocedal and Wright 2006, "Numerical optimization", sec. 11.2). Directions in which
nothing drives back make the equations singular: of all steps that solve them, the smallest is
taken. Robots with loops step along what their loops allow: see `closed_motion`.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tiburon.algorithms.derivatives.dynamics import (
    InverseDynamicsDerivatives,
    inverse_dynamics_derivatives,
)
from tiburon.algorithms.external import forces_on_bodies
from tiburon.algorithms.library import scalars
from tiburon.algorithms.water.thrusters import projected
from tiburon.errors import DomainError
from tiburon.simulation.eigenmodes import EigenModes, eigen_modes
from tiburon.simulation.linearization import movable_joints
from tiburon.simulation.system import ELEMENTS, System
from tiburon.trace.derivative import jacobian
from tiburon.trace.interpret import interpret
from tiburon.trace.program import Input, Program

__all__ = ["Balance", "SmallMotion", "settle"]

Array = NDArray[np.float64]

LONGEST = 0.5
"""Longest step of one iteration [rad or m]: beyond, sines and cosines are no straight lines."""

HALVINGS = 30
"""After so many a step has left no digit of the position."""

ROUNDING = 1e-15
"""Forces below this fraction of the weight are rounding."""

ITERATIONS = 100
"""Steps of at most half a radian; the last ones double the digits."""

LEAST = 1e-300
"""Stands for sizes of what nothing depends on: a division by it changes nothing."""

RANK = 1e-10
"""Singular values below this fraction of the largest are rounding: nothing drives back there."""


class Balance(NamedTuple):
    """What acts in a state, and how that changes."""

    force: Array
    """Q [N or N m], shape (nv,)."""

    rates: Array
    """Rates of inner states, shape (nx,)."""

    by_step: Array
    """Change of both by steps of position, shape (nv + nx, nv)."""

    by_w: Array
    """Change of both by velocities and inner states, shape (nv + nx, nv + nx)."""


class SmallMotion:
    """How a system moves at given velocities and commands, exactly and near a state."""

    def __init__(self, system: System, v: Array, u: Array, time: float) -> None:
        """Hold what does not change.

        Args:
            system: What moves.
            v: Joint velocity [m/s or rad/s], shape (nv,).
            u: Commands, shape (commands,).
            time: When [s].
        """
        self.system, self.v, self.u, self.time = system, v, u, time
        self.model, self.world = system.model, system.world

    @cached_property
    def _program(self) -> Program:
        """What acts, of position, (v, x) and commands, with its Jacobian."""
        system, model = self.system, self.model

        def run(given: Mapping[str, Any]) -> Any:
            q, w, u = (scalars(given[name]) for name in ("q", "w", "u"))
            time = given["when"]
            q, v, x = system._parts(q, w)
            here = system._setting(q, v, time)
            own: tuple[Any, ...] = ()
            if system.control is not None:
                decided, own = system.decide(q, v, x, u, time)
                u = type(u)(decided)
            p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
            driving = system.drive(here, q, v, x, u, time, p)
            force = driving.force
            for frame, wrench in driving.wrenches:
                acting = forces_on_bodies(here.plan, q, {frame: wrench}, "frame")
                if acting is not None:
                    pushed = projected(here.plan, q, acting)
                    force = [a + b for a, b in zip(force, pushed, strict=True)]
            return [*force, *driving.rates, *own]

        inputs = [
            Input("q", (model.nq,)),
            Input("w", (model.nv + system.nx,)),
            Input("u", (len(system.command_names),)),
            Input("when", ()),
        ]
        program = system.trace(run, inputs, "balance")
        return jacobian(program, by=("q", "w"), values=True)

    def balance(self, q: Array, x: Array) -> Balance:
        """Return what acts at a position with given inner states."""
        nv, nx = self.model.nv, self.system.nx
        if not self.system.elements and self.system.control is None:
            change = np.zeros((nv, nv))
            return Balance(self.u[:nv], np.zeros(0), change, change)
        given: dict[str, Any] = {
            "q": q,
            "w": np.concatenate([self.v, x]),
            "u": self.u,
            "when": self.time,
            **self.system.parameters(),
        }
        items = [given.get(item.name, 0.0) for item in self._program.inputs]
        values, by_q, by_w = interpret(self._program, items)
        values = np.asarray(values, dtype=np.float64)
        by_q = np.asarray(by_q, dtype=np.float64).reshape(nv + nx, self.model.nq)
        by_w = np.asarray(by_w, dtype=np.float64).reshape(nv + nx, nv + nx)
        return Balance(values[:nv], values[nv:], by_q @ self._rate_matrix(q), by_w)

    def _rate_matrix(self, q: Array) -> Array:
        """Return the rate of the numbers q per velocity, shape (nq, nv)."""
        found = np.zeros((self.model.nq, self.model.nv))
        for joint in self.model.joints:
            if joint.nv:
                rows = self.model.slice(joint.name, of="q")
                columns = self.model.slice(joint.name, of="v")
                units = np.eye(joint.nv).tolist()
                found[rows, columns] = np.array(
                    [joint.position_rate(q[rows].tolist(), unit) for unit in units]
                ).T
        return found

    def _needed(self, q: Array, vd: Array) -> InverseDynamicsDerivatives:
        """Return the joint forces of an acceleration, and how they change."""
        now: dict[str, Any] = {"time": self.time} if self.system.time_matters else {}
        return inverse_dynamics_derivatives(self.model, q, self.v, vd, world=self.world, **now)

    def rates(self, q: Array, x: Array) -> Array:
        """Return accelerations and rates of inner states, shape (nv + nx,)."""
        force, rates = self.unbalanced(q, x)
        return np.concatenate([np.linalg.solve(self.mass(q), force), rates])

    def unbalanced(self, q: Array, x: Array) -> tuple[Array, Array]:
        """Return Q less the joint forces that keep v [N or N m], and rates of inner states."""
        here = self.balance(q, x)
        return here.force - self._needed(q, np.zeros(self.model.nv)).tau, here.rates

    def directions(self, q: Array) -> Array:
        """Return the steps of position that are open, one column each, shape (nv, steps)."""
        return np.eye(self.model.nv)

    def moved(self, q: Array, step: Array) -> Array | None:
        """Return the position after a step; None if there is none."""
        return self.model.integrate(q, step)

    def by_joint(self, q: Array, force: Array) -> Array:
        """Return the first part of `unbalanced` as joint forces [N or N m], shape (nv,)."""
        return force

    def slopes(self, q: Array, x: Array) -> tuple[Array, Array]:
        """Return how `unbalanced` changes with steps along `directions` and inner states."""
        nv, here = self.model.nv, self.balance(q, x)
        whole = np.hstack([here.by_step, here.by_w[:, nv:]])
        whole[:nv, :nv] -= self._needed(q, np.zeros(nv)).by_q
        return whole[:nv], whole[nv:]

    def matrix(self, q: Array, x: Array) -> Array:
        """Return A, shape (2 nv + nx, 2 nv + nx).

        Q = ID(q, v, vd) gives H dvd = (dQ/dq - dID/dq) dq + (dQ/dv - dID/dv) dv + dQ/dx dx. Seen
        from a body that turns, steps change even at constant velocity: see `linearize`.
        """
        nv, here = self.model.nv, self.balance(q, x)
        needed = self._needed(q, self.rates(q, x)[:nv])
        change = np.hstack([here.by_step, here.by_w])
        change[:nv, :nv] -= needed.by_q
        change[:nv, nv : 2 * nv] -= needed.by_v
        return self._stacked(np.asarray(np.linalg.solve(needed.by_vd, change[:nv])), change[nv:])

    def _stacked(self, accelerations: Array, rates: Array) -> Array:
        """Return A from its lower rows."""
        nv = self.model.nv
        A = np.zeros((accelerations.shape[1],) * 2)
        A[:nv, :nv] = self._turning()
        A[:nv, nv : 2 * nv] = np.eye(nv)
        A[nv : 2 * nv] = accelerations
        A[2 * nv :] = rates
        return A

    def _turning(self) -> Array:
        """Return how steps change at constant velocity, seen from bodies that turn."""
        found = np.zeros((self.model.nv,) * 2)
        for joint, _, own in movable_joints(self.model):
            for k, unit in enumerate(np.eye(joint.nv).tolist(), start=own.start):
                found[own, k] = joint.bracket(unit, self.v[own].tolist())
        return found

    def members(self, A: Array, q: Array, x: Array, slowest: float) -> EigenModes:
        """Return eigenvalues of A, but for zeros, and vectors of [dq, v, x]."""
        return eigen_modes(A, self.mass(q), slowest)

    def mass(self, q: Array) -> Array:
        """Return the mass matrix, shape (nv, nv)."""
        return self._needed(q, np.zeros(self.model.nv)).by_vd

    @property
    def weight(self) -> float:
        """Weight of the robot, at least 1 N."""
        mass = sum(body.inertia.mass for body in self.model.bodies)
        return max(1.0, float(np.linalg.norm(self.world.gravity)) * mass)


def settle(motion: SmallMotion, q: Array, x: Array, tolerance: float) -> tuple[Array, Array]:
    """Return the equilibrium nearest a position: position and inner states.

    Args:
        motion: How the system moves.
        q: Where to start [m or rad], shape (nq,).
        x: Inner states to start from, shape (nx,).
        tolerance: Largest force missing, relative to the weight of the robot and at least 1 N.

    Raises:
        DomainError: If none is found.
    """
    model, nv = motion.model, motion.model.nv

    def missing(q: Array, x: Array, scale: Array) -> Array:
        force, rates = motion.unbalanced(q, x)
        return np.concatenate([force / motion.weight, rates * scale])

    for _ in range(ITERATIONS):
        forces, rows = motion.slopes(q, x)
        directions = motion.directions(q)
        count = directions.shape[1]
        # rates of inner states count by the changes of state that would undo them
        size = np.abs(rows[:, count:]).max(axis=1, initial=0.0)
        size = np.where(size > 0.0, size, np.abs(rows).max(axis=1, initial=LEAST))
        scale = 1.0 / size
        left = missing(q, x, scale)
        if float(np.linalg.norm(left)) <= ROUNDING:
            break
        slopes = np.vstack([forces / motion.weight, rows * scale[:, None]])
        columns = np.ones(count + len(x))
        columns[count:] = 1.0 / np.maximum(
            np.abs(slopes[:, count:]).max(axis=0, initial=0.0), LEAST
        )
        step = -np.linalg.lstsq(slopes * columns, left, rcond=RANK)[0] * columns
        length = float(np.linalg.norm(step[:count]))
        step *= min(1.0, LONGEST / length) if length > 0.0 else 1.0
        for _ in range(HALVINGS):
            there, inner = motion.moved(q, directions @ step[:count]), x + step[count:]
            if there is not None:
                after = missing(there, inner, scale)
                if np.linalg.norm(after) < 0.999 * np.linalg.norm(left):
                    break
            step = 0.5 * step
        else:
            # no step helps: the last digit is reached, or there is nothing to reach
            break
        q, x = there, inner
    borne = len(left) - len(x)
    left = np.concatenate([motion.by_joint(q, left[:borne]), left[borne:]])
    worst = int(np.argmax(np.abs(left))) if len(left) else 0
    if float(np.abs(left).max(initial=0.0)) > tolerance:
        name = (*model.v_names, *motion.system.x_names)[worst]
        much = f"{left[worst] * motion.weight:.3g} N or N m" if worst < nv else "a rate"
        raise DomainError(
            f"modes of model {model.name!r}",
            "a start near an equilibrium",
            f"{much} left at {name!r}",
            advice="start nearer, hold the robot with tau= or commands= (trim finds them), take "
            "gravity away, or pass solve=False",
        )
    return q, x
