"""Equilibrium of a system, and its linearized motion there.

Symbols:
    z = [dq, v, x]   changes of configuration, velocities, continuous states
    A                rate of z per z
    Q                joint forces of commands and elements, wrenches on bodies included

Inverse dynamics Q = ID(q, v, vd) has derivatives in closed form, the mass matrix H among them;
those of Q and of the rates of continuous states come from their graph. An equilibrium, Q =
ID(q, v, 0) with constant continuous states, is found by Newton's method with step halving (Nocedal
and Wright 2006, "Numerical optimization", sec. 11.2). Directions without restoring force make the
equations singular: the solution of least norm is used. Steps of robots with loops satisfy the
constraints to first order: see `ClosedMotion`.
"""

from collections.abc import Mapping
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np

from tiburon.algorithms.setting import forces_on_bodies
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.algorithms.water.thrusters import projected
from tiburon.arrays import Array, NDArray
from tiburon.errors import DomainError, ModelError
from tiburon.functions.assembly import (
    LEAST_SINGULAR_VALUE,
    LONGEST_STEP,
    MOST_STEPS,
    RANK_TOLERANCE,
    assemble,
    loop_names,
)
from tiburon.functions.derivatives import (
    ForwardDynamicsDerivatives,
    InverseDynamicsDerivatives,
    forward_dynamics_derivatives,
    inverse_dynamics_derivatives,
)
from tiburon.loops.constraints import (
    Constraints,
    constraints,
    is_velocity_constraint,
    jacobian_pattern,
)
from tiburon.loops.projection import CLOSURE_TOLERANCE, START_TOLERANCE
from tiburon.simulation.control_calls import decide
from tiburon.simulation.eigenmodes import EigenModes, eigen_modes, modes_within
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.linearization import movable_joints
from tiburon.simulation.system import System
from tiburon.trace.derivative import jacobian
from tiburon.trace.interpret import interpret
from tiburon.trace.program import Input, Program

MAX_NEWTON_STEP = 0.5
"""Longest step of one iteration [rad or m]: sines and cosines are nearly linear over it."""

MAX_HALVINGS = 30
"""Halvings of a step after which it no longer changes the configuration in float64."""

ROUNDING = 1e-15
"""Forces below this fraction of the weight count as rounding errors."""

MAX_ITERATIONS = 100
"""Maximum number of Newton iterations."""

SMALLEST_SIZE = 1e-300
"""Lower bound of scales in divisions, for states that nothing depends on."""

RANK_CUT = 1e-10
"""Singular values below this fraction of the largest are rounding errors: directions without
restoring force."""


class Balance(NamedTuple):
    """Generalized forces in a state, and their derivatives."""

    force: Array
    """Q [N or N m], shape (nv,)."""

    rates: Array
    """Rates of continuous states, shape (nx,)."""

    by_step: Array
    """Derivative of both by changes of configuration, shape (nv + nx, nv)."""

    by_w: Array
    """Derivative of both by velocities and continuous states, shape (nv + nx, nv + nx)."""


class SmallMotion:
    """Motion of a system at given velocities and commands, and its linearization."""

    def __init__(self, system: System, v: Array, u: Array, time: float) -> None:
        """Store velocity [m/s or rad/s], commands and time [s]."""
        self.system, self.v, self.u, self.time = system, v, u, time
        self.model, self.world = system.model, system.world

    @cached_property
    def _program(self) -> Program:
        """Generalized forces as a function of q, (v, x) and commands, with its Jacobian."""
        system, model = self.system, self.model

        def run(given: Mapping[str, Any]) -> Any:
            q, w, u = (scalars(given[name]) for name in ("q", "w", "u"))
            time = given["when"]
            q, v, x = system.split(q, w)
            here = system.setting(q, v, time)
            own: Any = ()
            if system.control is not None:
                decided, own, _ = decide(system, q, v, x, u, time)
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
        """Return the generalized forces in a configuration with given continuous states."""
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
        """Return the matrix that maps v to the rate of q, shape (nq, nv)."""
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
        """Return the joint forces of an acceleration, and their derivatives."""
        now: dict[str, Any] = {"time": self.time} if self.system.time_matters else {}
        return inverse_dynamics_derivatives(self.model, q, self.v, vd, world=self.world, **now)

    def rates(self, q: Array, x: Array) -> Array:
        """Return accelerations and rates of continuous states, shape (nv + nx,)."""
        force, rates = self.unbalanced(q, x)
        return np.concatenate([np.linalg.solve(self.mass(q), force), rates])

    def unbalanced(self, q: Array, x: Array) -> tuple[Array, Array]:
        """Return Q less the joint forces that keep v [N or N m], and rates of continuous states."""
        here = self.balance(q, x)
        return here.force - self._needed(q, np.zeros(self.model.nv)).tau, here.rates

    def directions(self, q: Array) -> Array:
        """Return a basis of the permitted changes of configuration, shape (nv, columns)."""
        return np.eye(self.model.nv)

    def moved(self, q: Array, step: Array) -> Array | None:
        """Return the configuration after a step; None if there is none."""
        return self.model.integrate(q, step)

    def by_joint(self, q: Array, force: Array) -> Array:
        """Return the first part of `unbalanced` as joint forces [N or N m], shape (nv,)."""
        return force

    def slopes(self, q: Array, x: Array) -> tuple[Array, Array]:
        """Return the derivative of `unbalanced` by steps along `directions` and by x."""
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
        """Return the rate of changes of configuration at constant velocity, in rotating frames."""
        found = np.zeros((self.model.nv,) * 2)
        for joint, _, own in movable_joints(self.model):
            for k, unit in enumerate(np.eye(joint.nv).tolist(), start=own.start):
                found[own, k] = joint.bracket(unit, self.v[own].tolist())
        return found

    def members(self, A: Array, q: Array, x: Array, slowest: float) -> EigenModes:
        """Return the nonzero eigenvalues of A, and eigenvectors [dq, v, x]."""
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
    """Find an equilibrium near a configuration; return its configuration and continuous states.

    Args:
        motion: The motion of the system.
        q: Initial guess [m or rad], shape (nq,).
        x: Continuous states to start from, shape (nx,).
        tolerance: Largest residual force, relative to the weight of the robot and at least 1 N.

    Raises:
        DomainError: If none is found.
    """
    model, nv = motion.model, motion.model.nv

    def missing(q: Array, x: Array, scale: Array) -> Array:
        force, rates = motion.unbalanced(q, x)
        return np.concatenate([force / motion.weight, rates * scale])

    for _ in range(MAX_ITERATIONS):
        forces, rows = motion.slopes(q, x)
        directions = motion.directions(q)
        count = directions.shape[1]
        # rates of continuous states count by the changes of state that would undo them
        size = np.abs(rows[:, count:]).max(axis=1, initial=0.0)
        size = np.where(size > 0.0, size, np.abs(rows).max(axis=1, initial=SMALLEST_SIZE))
        scale = 1.0 / size
        left = missing(q, x, scale)
        if float(np.linalg.norm(left)) <= ROUNDING:
            break
        slopes = np.vstack([forces / motion.weight, rows * scale[:, None]])
        columns = np.ones(count + len(x))
        columns[count:] = 1.0 / np.maximum(
            np.abs(slopes[:, count:]).max(axis=0, initial=0.0), SMALLEST_SIZE
        )
        step = -np.linalg.lstsq(slopes * columns, left, rcond=RANK_CUT)[0] * columns
        length = float(np.linalg.norm(step[:count]))
        step *= min(1.0, MAX_NEWTON_STEP / length) if length > 0.0 else 1.0
        for _ in range(MAX_HALVINGS):
            there, inner = motion.moved(q, directions @ step[:count]), x + step[count:]
            if there is not None:
                after = missing(there, inner, scale)
                if np.linalg.norm(after) < 0.999 * np.linalg.norm(left):
                    break
            step = 0.5 * step
        else:
            # no step reduces the residual: converged to rounding, or no equilibrium
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


PROBE_STEP = 1e-3
"""Length of trial steps along the null space of J, which detect singular configurations
[m or rad]."""

CURVATURE_TOLERANCE = 0.1
"""Largest residual after closing the loops, relative to the trial step; that of a smooth constraint
manifold is of second order."""

PROBES = 3
"""Number of random trial directions: a blocked direction shows in almost any combination."""


class ClosedStates:
    """States of a system that satisfy its loop constraints."""

    def __init__(self, system: System, v: Array, time: float) -> None:
        """Store velocity [m/s or rad/s] and time [s]; refuse switched loops."""
        switched = next(iter(system.held_loops.switch_places), None)
        if switched is not None:
            raise ModelError(
                "elements: modes are those of loops that stay as they are, got a LoopSwitch of "
                f"loop {switched!r}; leave it out, and where its loop is "
                "open leave the loop out of the model"
            )
        self.system, self.model, self.v, self.time = system, system.model, v, time
        self._is_velocity = np.array(is_velocity_constraint(self.model), dtype=bool)

    def start(self, q: Array, *, is_guess: bool) -> Array:
        """Return an initial configuration with closed loops: near a guess, or the given one.

        Raises:
            LoopError: If loops cannot be closed near a guess.
            DomainError: If a given configuration violates the constraints at this time.
        """
        gaps = np.abs(self._gaps(self.held(self.model.normalize(q), self.v)))
        found = self.closed(q) if is_guess or gaps.max(initial=0.0) <= START_TOLERANCE else None
        if found is None and is_guess:
            # assembled with `Driven` joints where they are at time zero
            found = self.closed(assemble(self.model, q).q)
        if found is not None:
            return found
        row = int(np.argmax(gaps))
        raise DomainError(
            "q",
            f"a position with closed loops, to {START_TOLERANCE:g} m or rad",
            f"loop {loop_names(self.model)[row]!r} open by {gaps[row]:.3g} m or rad",
            advice="close them with tb.assemble(model, q), or from nearby with "
            "tb.project_configuration(model, q)",
        )

    def held(self, q: Array, v: Array) -> Constraints:
        """Return the constraints in a state."""
        position, rate = q.tolist(), v.tolist()
        plan = self.system.plan_at(position, rate, self.time)
        return constraints(self.model, plan, JointVector(position), JointVector(rate))

    def jacobian(self, q: Array) -> Array:
        """Return J, shape (constraints, nv)."""
        return self._dense(self.held(q, self.v))

    def permitted(self, q: Array) -> Array:
        """Return an orthonormal basis of the null space of J, one column each."""
        return self._allowed(self.jacobian(q))

    def _dense(self, held: Constraints) -> Array:
        J = np.zeros((len(held.jacobian), self.model.nv))
        for k, row in enumerate(held.jacobian):
            for i, x in row.items():
                J[k, i] = x
        return J

    def _allowed(self, J: Array) -> Array:
        """Return an orthonormal basis of the null space of a Jacobian, one column each."""
        if not J.size:
            return np.eye(self.model.nv)
        _, sizes, rows = np.linalg.svd(J)
        found: Array = rows[_rank(sizes) :].T
        return found

    def steps(self, q: Array) -> Array:
        """Return an orthonormal basis of the steps that keep loops closed, shape (nv, steps).

        The first columns are those of velocities; where constraints bind velocities alone, others
        follow.
        """
        J = self.jacobian(q)
        Z = self._allowed(J)
        if not self._is_velocity.any():
            return Z
        steps = self._allowed(J[~self._is_velocity])
        beyond = steps - Z @ (Z.T @ steps)
        left, _, _ = np.linalg.svd(beyond, full_matrices=False)
        return np.hstack([Z, left[:, : steps.shape[1] - Z.shape[1]]])

    def closed(self, q: Array) -> Array | None:
        """Project a configuration onto the constraints by Newton's method; None if it diverges."""
        found, rest = self.model.normalize(q), np.zeros(self.model.nv)
        done = False
        for _ in range(MOST_STEPS):
            held = self.held(found, rest)
            gaps = self._gaps(held)
            is_closed = bool(np.abs(gaps).max(initial=0.0) <= CLOSURE_TOLERANCE)
            if not gaps.any() or (is_closed and done):
                return found
            # one more step reduces the residual to rounding errors
            done = is_closed
            J = self._dense(held)
            J[self._is_velocity] = 0.0
            step = np.linalg.lstsq(J, -gaps, rcond=LEAST_SINGULAR_VALUE)[0]
            part = min(1.0, LONGEST_STEP / max(float(np.abs(step).max()), LONGEST_STEP))
            found = self.model.normalize(self.model.integrate(found, part * step))
        return None

    def _gaps(self, held: Constraints) -> Array:
        """Return the residuals of position constraints; zero for velocity constraints."""
        return np.where(self._is_velocity, 0.0, np.array(held.value, dtype=np.float64))

    def check(self, q: Array) -> None:
        """Refuse singular configurations, and velocities that are inconsistent or not steady."""
        held = self.held(q, self.v)
        rates = np.abs(np.array(held.rate, dtype=np.float64))
        if rates.max(initial=0.0) > START_TOLERANCE * (1.0 + np.abs(self.v).max(initial=0.0)):
            row = int(np.argmax(rates))
            raise DomainError(
                "v",
                "a velocity that keeps loops closed",
                f"one that opens loop {loop_names(self.model)[row]!r} by {rates[row]:.3g} m/s or "
                "rad/s",
                advice="take tb.project_velocity(model, q, v), or none for a robot at rest",
            )
        bias = np.abs(np.array(held.bias, dtype=np.float64))
        if bias.max(initial=0.0) > START_TOLERANCE * (1.0 + float(self.v @ self.v)):
            row = int(np.argmax(bias))
            raise DomainError(
                "v",
                "a velocity that can be kept",
                f"one at which loop {loop_names(self.model)[row]!r} stays closed only if joints "
                "accelerate",
                advice="take one with which the robot moves as one body; linearize shows how "
                "others change",
            )
        self._check_regular(q)

    def _check_regular(self, q: Array) -> None:
        """Refuse singular configurations.

        Independent constraints leave a smooth manifold of configurations. Otherwise trial steps
        along the null space of J decide: if constraints are redundant everywhere, loops close again
        nearby; in a singular configuration they do not, or the rank of J changes.

        Raises:
            DomainError: If the configuration is singular.
        """
        J = self.jacobian(q)
        rank = _rank(np.linalg.svd(J, compute_uv=False))
        if rank == sum(1 for used in jacobian_pattern(self.model) if used):
            return
        directions = self._allowed(J)
        if not directions.size:
            return
        rng = np.random.default_rng(5)
        for _ in range(PROBES):
            step = directions @ rng.standard_normal(directions.shape[1])
            step *= PROBE_STEP / np.linalg.norm(step)
            beside = self.closed(self.model.integrate(q, step))
            if beside is not None:
                off = np.linalg.norm(self.model.difference(q, beside) - step)
                held = self.jacobian(beside)
                nearby = _rank(np.linalg.svd(held, compute_uv=False))
                if off <= CURVATURE_TOLERANCE * PROBE_STEP and nearby == rank:
                    continue
            raise DomainError(
                f"modes of model {self.model.name!r}",
                "a regular equilibrium of the loops",
                f"a singular pose: {rank} independent constraints leave {self.model.nv - rank} "
                "degrees of freedom to first order, but not nearby",
                advice="start nearer another equilibrium, or change lengths or forces slightly",
            )


def _rank(sizes: NDArray[np.floating[Any]]) -> int:
    return int(np.sum(sizes > RANK_TOLERANCE * sizes[:1]))


class _Here(NamedTuple):
    """Generalized forces and permitted velocities in a state."""

    balance: Balance
    by: ForwardDynamicsDerivatives
    Z: Array
    """Basis of permitted velocities, shape (nv, degrees of freedom)."""
    K: Array
    """Shape (degrees of freedom, degrees of freedom)."""


class ClosedMotion(SmallMotion):
    """Motion of a system with loops at given velocities and commands, and its linearization."""

    def __init__(self, system: System, v: Array, u: Array, time: float) -> None:
        """Store the arguments of `SmallMotion`."""
        super().__init__(system, v, u, time)
        self.loops = ClosedStates(system, v, time)
        self._last: tuple[bytes, _Here] | None = None

    def directions(self, q: Array) -> Array:
        """Return an orthonormal basis of the steps that keep loops closed, shape (nv, steps)."""
        return self.loops.steps(q)

    def moved(self, q: Array, step: Array) -> Array | None:
        """Return the configuration after a step, projected onto the constraints."""
        return self.loops.closed(self.model.integrate(q, step))

    def _at(self, q: Array, x: Array) -> _Here:
        key = q.tobytes() + x.tobytes()
        if self._last is None or self._last[0] != key:
            here = self.balance(q, x)
            now: dict[str, Any] = {"time": self.time} if self.system.time_matters else {}
            # loops are closed here, velocities are checked in the end
            by = forward_dynamics_derivatives(
                self.model, q, self.v, here.force, world=self.world, closure=False, **now
            )
            Z = self.loops.permitted(q)
            K = np.linalg.cholesky(Z.T @ by.by_tau @ Z)
            self._last = key, _Here(here, by, Z, np.asarray(K, dtype=np.float64))
        return self._last[1]

    def rates(self, q: Array, x: Array) -> Array:
        """Return accelerations and rates of continuous states, shape (nv + nx,)."""
        here = self._at(q, x)
        return np.concatenate([here.by.vd, here.balance.rates])

    def unbalanced(self, q: Array, x: Array) -> tuple[Array, Array]:
        """Return forces along the degrees of freedom [N or N m], and rates of states."""
        here = self._at(q, x)
        return _forces(here, here.by.vd), here.balance.rates

    def by_joint(self, q: Array, force: Array) -> Array:
        """Return the forces along the degrees of freedom as joint forces, shape (nv,)."""
        Z = self.loops.permitted(q)
        return np.asarray(Z @ force)

    def slopes(self, q: Array, x: Array) -> tuple[Array, Array]:
        """Return the derivative of `unbalanced` by steps along `directions` and by x.

        Forces are those of accelerations. The rotation of the basis Z contributes nothing at an
        equilibrium.
        """
        nv, here = self.model.nv, self._at(q, x)
        directions = self.directions(q)
        lower = self._change(here)
        rows = np.hstack([here.balance.by_step[nv:] @ directions, here.balance.by_w[nv:, nv:]])
        accelerations = np.hstack([lower[:, :nv] @ directions, lower[:, 2 * nv :]])
        return _forces(here, accelerations), rows

    def matrix(self, q: Array, x: Array) -> Array:
        """Return A, shape (2 nv + nx, 2 nv + nx); off the constraints, residuals stay constant."""
        here, nv = self._at(q, x), self.model.nv
        rates = np.hstack([here.balance.by_step[nv:], here.balance.by_w[nv:]])
        return self._stacked(self._change(here), rates)

    def _change(self, here: _Here) -> Array:
        """Return the derivative of accelerations by [dq, v, x], shape (nv, 2 nv + nx)."""
        nv = self.model.nv
        found = here.by.by_tau @ np.hstack([here.balance.by_step[:nv], here.balance.by_w[:nv]])
        found[:, :nv] += here.by.by_q
        found[:, nv : 2 * nv] += here.by.by_v
        return np.asarray(found)

    def members(self, A: Array, q: Array, x: Array, slowest: float) -> EigenModes:
        """Return nonzero eigenvalues of A on the constraint manifold, and eigenvectors."""
        here, nv = self._at(q, x), self.model.nv
        steps, dof = self.directions(q), here.Z.shape[1]
        # in the metric of the mass matrix; steps without kinetic energy are scaled alike
        scale = np.eye(steps.shape[1]) * (np.abs(here.K).max(initial=0.0) or 1.0)
        scale[:dof, :dof] = here.K
        N = steps @ scale
        count = steps.shape[1]
        into = np.zeros((len(A), count + dof + len(x)))
        into[:nv, :count] = N
        into[nv : 2 * nv, :count] = self._turned(q, N)
        into[nv : 2 * nv, count : count + dof] = here.Z @ here.K
        into[2 * nv :, count + dof :] = np.eye(len(x))
        # C is orthogonal to Z, so that coordinates separate
        back = np.zeros(into.T.shape)
        back[:count, :nv] = np.linalg.solve(scale, steps.T)
        back[count : count + dof, nv : 2 * nv] = np.linalg.solve(here.K, here.Z.T)
        back[count + dof :, 2 * nv :] = np.eye(len(x))
        unit = np.eye(dof)
        return modes_within(back @ A @ into, np.eye(count), unit, into, slowest)

    def _turned(self, q: Array, steps: Array) -> Array:
        """Return C N: the changes of velocity that keep J v = 0 along steps.

        Along a step d, J v changes by B(v, d) + J [d, v] / 2, where B is the bilinear form whose
        quadratic form is the bias; the bias at v + d and v - d determines it exactly.
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
            found[:, k] = -np.linalg.lstsq(J, change, rcond=RANK_TOLERANCE)[0]
        return found


def _forces(here: _Here, accelerations: Array) -> Array:
    """Return Z^T H times accelerations that keep loops closed."""
    along = np.linalg.solve(here.K, here.Z.T @ accelerations)
    return np.asarray(np.linalg.solve(here.K.T, along))
