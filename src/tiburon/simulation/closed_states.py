"""Which positions and velocities the loops of a robot allow, and where they do so smoothly.

Symbols: J Jacobian of the constraints.
"""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.algorithms.tape_calls import JointVector
from tiburon.errors import DomainError, ModelError
from tiburon.loops.assembly import assemble
from tiburon.loops.constraints import Constraints, binds_velocity, constraints, entries_in_use
from tiburon.loops.projection import CLOSED
from tiburon.loops.start import DEPENDENT, FAINT, LONGEST, MOST_STEPS, NEARLY, gap_names
from tiburon.simulation.system import System

__all__ = ["ClosedStates"]

Array = NDArray[np.float64]

ASIDE = 1e-3
"""How far a pose is left along what its loops allow, to see whether they do [m or rad]."""

BENT = 0.1
"""How far off, by the length of a step, closed loops may be beside it; curves are off by steps
squared."""

LOOKS = 3
"""Directions in which to look: where some are none, nearly all sums of them are none."""


class ClosedStates:
    """States of a system that keep its loops closed."""

    def __init__(self, system: System, v: Array, time: float) -> None:
        """Hold what does not change.

        Args:
            system: What moves; its model has loops.
            v: Joint velocity [m/s or rad/s], shape (nv,).
            time: When [s].

        Raises:
            ModelError: If loops are switched.
        """
        if system.switch_places:
            raise ModelError(
                f"forces: modes are those of loops that stay as they are, got a LoopSwitch of loop "
                f"{next(iter(system.switch_places))!r}; leave it out, and where its loop is open "
                "leave the loop out of the model"
            )
        self.system, self.model, self.v, self.time = system, system.model, v, time
        self._binds_velocity = np.array(binds_velocity(self.model), dtype=bool)

    def start(self, q: Array, *, is_guess: bool) -> Array:
        """Return a position with closed loops to start from.

        Args:
            q: Position [m or rad], shape (nq,).
            is_guess: Whether it may be far from closed.

        Raises:
            LoopError: If a guess leads to no closed position.
            DomainError: If another position is open, or if a guess is so at this time.
        """
        gaps = np.abs(self._gaps(self.held(self.model.normalize(q), self.v)))
        found = self.closed(q) if is_guess or gaps.max(initial=0.0) <= NEARLY else None
        if found is None and is_guess:
            # assembled with `Driven` joints where they are at time zero
            found = self.closed(assemble(self.model, q).q)
        if found is not None:
            return found
        row = int(np.argmax(gaps))
        raise DomainError(
            "q",
            f"a position with closed loops, to {NEARLY:g} m or rad",
            f"loop {gap_names(self.model)[row]!r} open by {gaps[row]:.3g} m or rad",
            advice="close them with tb.assemble(model, q), or from nearby with "
            "tb.project_configuration(model, q)",
        )

    def held(self, q: Array, v: Array) -> Constraints:
        """Return what loops ask for in a state."""
        position, rate = q.tolist(), v.tolist()
        plan = self.system._plan(position, rate, self.time)
        return constraints(self.model, plan, JointVector(position), JointVector(rate))

    def jacobian(self, q: Array) -> Array:
        """Return J, shape (constraints, nv)."""
        return self._dense(self.held(q, self.v))

    def freedoms(self, q: Array) -> Array:
        """Return an orthonormal basis of the velocities that J maps to zero, one column each."""
        return self._allowed(self.jacobian(q))

    def _dense(self, held: Constraints) -> Array:
        J = np.zeros((len(held.jacobian), self.model.nv))
        for k, row in enumerate(held.jacobian):
            for i, x in row.items():
                J[k, i] = x
        return J

    def _allowed(self, J: Array) -> Array:
        """Return an orthonormal basis of what a Jacobian maps to zero, one column each."""
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
        if not self._binds_velocity.any():
            return Z
        steps = self._allowed(J[~self._binds_velocity])
        beyond = steps - Z @ (Z.T @ steps)
        left, _, _ = np.linalg.svd(beyond, full_matrices=False)
        return np.hstack([Z, left[:, : steps.shape[1] - Z.shape[1]]])

    def closed(self, q: Array) -> Array | None:
        """Return a position moved onto the loops by Newton steps; None where they do not lead."""
        found, rest = self.model.normalize(q), np.zeros(self.model.nv)
        done = False
        for _ in range(MOST_STEPS):
            held = self.held(found, rest)
            gaps = self._gaps(held)
            is_closed = bool(np.abs(gaps).max(initial=0.0) <= CLOSED)
            if not gaps.any() or (is_closed and done):
                return found
            # one step more leaves nothing but rounding
            done = is_closed
            J = self._dense(held)
            J[self._binds_velocity] = 0.0
            step = np.linalg.lstsq(J, -gaps, rcond=FAINT)[0]
            part = min(1.0, LONGEST / max(float(np.abs(step).max()), LONGEST))
            found = self.model.normalize(self.model.integrate(found, part * step))
        return None

    def _gaps(self, held: Constraints) -> Array:
        """Return values of the constraints on positions; those on velocities have none."""
        return np.where(self._binds_velocity, 0.0, np.array(held.value, dtype=np.float64))

    def check(self, q: Array) -> None:
        """Refuse states near which small motions have no modes.

        Args:
            q: Position with closed loops [m or rad], shape (nq,).

        Raises:
            DomainError: If velocities open loops or cannot be kept, or if the pose is singular.
        """
        self._check_velocity(q)
        self._check_kept(q)
        self._check_regular(q)

    def _check_velocity(self, q: Array) -> None:
        """Refuse velocities that open loops.

        Raises:
            DomainError: If they do.
        """
        rates = np.abs(np.array(self.held(q, self.v).rate, dtype=np.float64))
        if rates.max(initial=0.0) > NEARLY * (1.0 + np.abs(self.v).max(initial=0.0)):
            row = int(np.argmax(rates))
            raise DomainError(
                "v",
                "a velocity that keeps loops closed",
                f"one that opens loop {gap_names(self.model)[row]!r} by {rates[row]:.3g} m/s or "
                "rad/s",
                advice="take tb.project_velocity(model, q, v), or none for a robot at rest",
            )

    def _check_kept(self, q: Array) -> None:
        """Refuse velocities that loops do not let a robot keep.

        Raises:
            DomainError: If joints must accelerate for loops to stay closed.
        """
        bias = np.abs(np.array(self.held(q, self.v).bias, dtype=np.float64))
        if bias.max(initial=0.0) > NEARLY * (1.0 + float(self.v @ self.v)):
            row = int(np.argmax(bias))
            raise DomainError(
                "v",
                "a velocity that can be kept",
                f"one at which loop {gap_names(self.model)[row]!r} stays closed only if joints "
                "accelerate",
                advice="take one with which the robot moves as one body; linearize tells how "
                "others change",
            )

    def _check_regular(self, q: Array) -> None:
        """Refuse poses at which loops do not allow what they seem to allow to first order.

        Constraints that are independent leave a smooth set of positions. Where they are not, steps
        along what they allow are tried: those of constraints that repeat others everywhere lead to
        closed loops nearby, those of singular poses do not, or constraints part beside them.

        Raises:
            DomainError: If the pose is singular.
        """
        J = self.jacobian(q)
        rank = _rank(np.linalg.svd(J, compute_uv=False))
        if rank == sum(1 for used in entries_in_use(self.model) if used):
            return
        directions = self._allowed(J)
        if not directions.size:
            return
        rng = np.random.default_rng(5)
        for _ in range(LOOKS):
            step = directions @ rng.standard_normal(directions.shape[1])
            step *= ASIDE / np.linalg.norm(step)
            beside = self.closed(self.model.integrate(q, step))
            if beside is not None:
                off = np.linalg.norm(self.model.difference(q, beside) - step)
                held = self.jacobian(beside)
                nearby = _rank(np.linalg.svd(held, compute_uv=False))
                if off <= BENT * ASIDE and nearby == rank:
                    continue
            raise DomainError(
                f"modes of model {self.model.name!r}",
                "an equilibrium from which loops let the robot go in each direction alike",
                f"a singular pose: {rank} independent constraints leave {self.model.nv - rank} "
                "freedoms to first order, and not beside it",
                advice="start nearer another equilibrium, or change lengths or what acts a little",
            )


def _rank(sizes: NDArray[np.floating[Any]]) -> int:
    return int(np.sum(sizes > DEPENDENT * sizes[:1]))
