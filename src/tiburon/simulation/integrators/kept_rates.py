"""A system whose steps may keep the factored mass matrix and the bias force.

What `kept_inertia.keep_inertia` asks for, of robot, elements and controller together. Elements and
controller act as they do now; gravity, velocities and water as they did when terms were kept.
"""

from collections.abc import Sequence
from operator import add
from typing import TYPE_CHECKING

from tiburon.algorithms.conditions import Setting
from tiburon.algorithms.external import forces_on_bodies
from tiburon.algorithms.surroundings import refuse_loops, surroundings
from tiburon.algorithms.tape_calls import JointVector
from tiburon.simulation.integrators.kept_inertia import kept_terms, solve_kept
from tiburon.simulation.integrators.manifold import Scalars
from tiburon.spatial import Scalar
from tiburon.trace.regions import function

if TYPE_CHECKING:
    from tiburon.simulation.system import System

__all__ = ["KeptSystem"]


class KeptSystem:
    """Rates of a system from terms of an earlier state; works on floats and traced values alike."""

    def __init__(self, system: "System", p: Sequence[Scalar] | None = None) -> None:
        """Remember a system.

        Args:
            system: What moves.
            p: Run-time numbers of the elements; their own by default.

        Raises:
            ModelError: If the robot has loops: what closes them is not kept.
        """
        refuse_loops(system.model, "keep_inertia")
        self._system = system
        self._numbers = p
        # called at every stage: functions of their own keep code short
        self._prepared = function(self._terms)
        self._found = function(self._rates)

    def under(self, u: Scalars) -> "_Under":
        """Return the rates under commands that are held, `System.drive_size` scalars."""
        return _Under(self, tuple(u))

    def _terms(self, q: Scalars, w: Scalars, time: Scalar) -> Scalars:
        position, rate = JointVector(q), JointVector(w[: self._system.model.nv])
        return kept_terms(self._setting(position, rate, time), position, rate)

    def _rates(
        self, kept: Scalars, q: Scalars, w: Scalars, u: Sequence[Scalar], time: Scalar
    ) -> Scalars:
        system = self._system
        nv = system.model.nv
        position, v, x = JointVector(q), JointVector(w[:nv]), w[nv:]
        here = self._setting(position, v, time)
        own: Sequence[Scalar] = u[len(system.command_names) : system.readings.start]
        if system.control is not None and not system.held:
            u, own = system.decide(position, v, x, u, time)
        driving = system.drive(here, position, v, x, u, time, self._numbers)
        pushes: dict[str, Sequence[Scalar]] = {}
        for frame, wrench in driving.wrenches:
            known = pushes.get(frame)
            pushes[frame] = wrench if known is None else tuple(map(add, known, wrench))
        acting = forces_on_bodies(here.plan, position, pushes, "frame")
        force = JointVector(driving.force)
        return (*solve_kept(here, kept, position, force, acting), *driving.rates, *own)

    def _setting(self, q: Sequence[Scalar], v: Sequence[Scalar], time: Scalar) -> Setting:
        system = self._system
        around = Setting(system.model, (), (), *surroundings(system.model, system.world))
        return around.at(q, v, *((time,) if system.time_matters else ()))


class _Under:
    """A system under commands that are held: what steps that keep inertia ask."""

    def __init__(self, of: KeptSystem, u: Scalars) -> None:
        self._of = of
        self._u = u

    def prepare(self, q: Scalars, w: Scalars, time: Scalar) -> Scalars:
        """Return what is kept of a state."""
        found: Scalars = self._of._prepared(tuple(q), tuple(w), time)
        return found

    def given(self, kept: Scalars, q: Scalars, w: Scalars, time: Scalar) -> Scalars:
        """Return the rates of w with the forces of this state and terms of an earlier one."""
        found: Scalars = self._of._found(tuple(kept), tuple(q), tuple(w), self._u, time)
        return found
