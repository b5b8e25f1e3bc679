"""Recorded runs: loading, resuming, and evaluating their system in recorded states."""

import os
from collections.abc import Callable, Mapping
from functools import cached_property
from operator import add
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.actuation.contact_element import POINT_STATES, ContactElement
from tiburon.actuation.element import AppliedForces, summed_wrenches
from tiburon.algorithms.reactions import reactions_under
from tiburon.algorithms.tape_calls import scalars
from tiburon.arguments import public
from tiburon.arrays import Array
from tiburon.contact.candidates import Candidate
from tiburon.errors import ModelError, RunFileError
from tiburon.loops.reactions import opened
from tiburon.loops.stabilization import PROJECTION
from tiburon.model import Model, World
from tiburon.results.header import RunHeader, missing_world
from tiburon.results.quantities import States
from tiburon.results.trajectory import Trajectory
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.reached import prescribed_force, reached
from tiburon.simulation.run_parameters import with_named
from tiburon.simulation.system import System
from tiburon.trace.program import Input

Evaluated = Callable[[System, Any, Any, Any, Any, Any], Any]
"""A function of a system, the scalars q, w, u and time, and the parameters p of its elements."""


@public
def load_run(
    path: str | os.PathLike[str], *, model: Model | None = None, world: World | None = None
) -> Trajectory:
    """Load a saved run, or one that was streamed to disk, finished or not.

    Values stay on disk until they are used.

    Args:
        path: The directory, or the zip file.
        model: The robot, where parts of it are code that no file can hold.
        world: The surroundings, likewise.

    Raises:
        RunFileError: If the run cannot be read: not there, damaged, or of a later version.

    Example:
        ``run = tb.load_run("swim.zarr")``, ``run.resume(10.0)``
    """
    from tiburon.results.store import RunStore

    store = RunStore.open(path, model, world)
    outcomes, events = store.ended()
    return Trajectory(
        store.header,
        store,
        outcomes,
        events,
        store.progress.checkpoint,
        store,
        RecordedSystem(store.header, store.path),
    )


class RecordedSystem:
    """The system of a recorded run, with the recorded commands in place of its controller.

    Implements `tiburon.results.quantities.RunSystem`.
    """

    def __init__(self, header: RunHeader, place: str | Path = "run") -> None:
        """Keep the header; the system is built when it is first used."""
        self.header, self.place = header, place

    @cached_property
    def _model_and_world(self) -> tuple[Model, World]:
        if self.header.world is None:
            raise missing_world(self.place)
        named = tuple(self.header.setup.get("named") or ())
        return with_named(self.header.model, self.header.world, named)

    @property
    def model(self) -> Model:
        """The robot; parameters given by name are inputs of its code."""
        return self._model_and_world[0]

    @property
    def world(self) -> World:
        """The surroundings; parameters given by name are inputs of their code."""
        return self._model_and_world[1]

    @cached_property
    def system(self) -> System | None:
        """The system; None where elements or loops are code that its file could not hold."""
        lost = any(isinstance(element, str) for element in self.header.elements)
        if lost or "loops" in self.header.missing:
            return None
        loops = self.header.setup.get("loops", PROJECTION)
        return System(self.model, self.world, self.header.elements, loops=loops, steps=True)

    @property
    def output_names(self) -> tuple[str, ...]:
        """Names of the quantities that elements report."""
        return () if self.system is None else tuple(self.system.output_names)

    @property
    def candidates(self) -> tuple[Candidate, ...]:
        """Shapes that may touch; empty without contact."""
        contact = self._known().find(ContactElement)
        return () if contact is None else contact.element.candidates

    @property
    def contact_states(self) -> slice:
        """Place of the states of contact points among the discrete states."""
        contact = self._known().find(ContactElement)
        if contact is None:
            return slice(0, 0)
        start, points = contact.z.start, contact.element.point_names
        return slice(start, start + len(POINT_STATES) * len(points))

    @property
    def contact_moments(self) -> dict[int, int]:
        """Place among the discrete states of the moment of each point with friction of turning."""
        contact = self._known().find(ContactElement)
        if contact is None:
            return {}
        places = contact.element.moment_places
        return {k: contact.z.stop + place for k, place in places.items()}

    def resume(self, run: Trajectory, duration: float | None, **changes: Any) -> Trajectory:
        """Continue a run; `Trajectory.resume` describes the arguments."""
        from tiburon.simulation.simulate import resume_run

        given = {element.name: element for element in changes.pop("elements", ())}
        elements = tuple(
            given.get(element, element) if isinstance(element, str) else element
            for element in run.header.elements
        )
        missing = {name: name for name in run.header.missing if name not in changes}
        lost = [repr(element) for element in elements if isinstance(element, str)]
        if lost:
            missing[f"element {' and '.join(lost)}"] = "elements"
        if missing:
            raise RunFileError(
                run.place,
                f"its {' and '.join(missing)}: code, which no file can hold; give it again: "
                f"run.resume({', '.join(f'{name}=...' for name in missing.values())})",
            )
        return resume_run(run, duration, elements=elements, **changes)

    def accelerations(self, states: States) -> Array:
        """Return joint accelerations [m/s^2 or rad/s^2], shape (n, nv)."""

        def rates(system: System, q: Any, w: Any, u: Any, time: Any, p: Any) -> Any:
            return list(reached(system, q, w, u, time, p).vd)

        return np.asarray(self._evaluate(states, rates, "recorded_acceleration"))

    def joint_forces(self, states: States) -> Array:
        """Return the joint forces of all elements and commands [N or N m], shape (n, nv)."""

        def forces(system: System, q: Any, w: Any, u: Any, time: Any, p: Any) -> Any:
            known = _driving(system, q, w, u, time, p).force
            if not system.prescribes:
                return list(known)
            return list(map(add, known, prescribed_force(system, q, w, u, time, p)))

        return np.asarray(self._evaluate(states, forces, "recorded_joint_force"))

    def prescribed_forces(self, states: States) -> Array:
        """Return the forces that prescribed joints take [N or N m], shape (n, nv)."""

        def forces(system: System, q: Any, w: Any, u: Any, time: Any, p: Any) -> Any:
            return [0.0 * q[0] + x for x in prescribed_force(system, q, w, u, time, p)]

        return np.asarray(self._evaluate(states, forces, "recorded_prescribed_force"))

    def reactions(self, states: States) -> Array:
        """Return wrenches of joints on their bodies, body axes [N m, N], shape (n, joints, 6)."""

        def wrenches(system: System, q: Any, w: Any, u: Any, time: Any, p: Any) -> Any:
            here, _, vd, forces = reached(system, q, w, u, time, p)
            position, v, _ = system.split(q, w)
            if system.model.loops:
                here = here._replace(external=opened(here, position, forces)[0])
            found = reactions_under(here, position, v, vd)
            return (found["actuator"] + found["bearing"]).reshape(-1)

        rows = np.asarray(self._evaluate(states, wrenches, "recorded_reaction"))
        return rows.reshape(len(rows), -1, 6)

    def wrenches(self, states: States) -> dict[str, Array]:
        """Return wrenches of elements and contacts by frame: frame axes [N m, N], shape (n, 6)."""
        frames: list[str] = []

        def sums(system: System, q: Any, w: Any, u: Any, time: Any, p: Any) -> Any:
            found = summed_wrenches(reached(system, q, w, u, time, p).driving.wrenches)
            frames[:] = found
            # a kernel needs an output: 0 where no element exerts a wrench
            return [x for wrench in found.values() for x in wrench] or [0.0 * q[0]]

        rows = np.asarray(self._evaluate(states, sums, "recorded_wrenches"))
        return {frame: rows[:, 6 * k : 6 * k + 6] for k, frame in enumerate(frames)}

    def output(self, states: States, name: str) -> Array:
        """Return a quantity that an element reports, one of `output_names`, shape (n,)."""
        system = self._known()

        def values(system: System, q: Any, w: Any, u: Any, time: Any, p: Any) -> Any:
            found = _driving(system, q, w, u, time, p).outputs
            return [0.0 * q[0] + found[each] for each in system.output_names]

        # one kernel for all names
        if "outputs" not in system.kept:
            system.kept["outputs"] = self._kernel(values, "recorded_outputs")
        found = np.asarray(self._call(system.kept["outputs"], states))
        return found[:, system.output_names.index(name)]

    def _known(self) -> System:
        if self.system is None:
            raise ModelError(
                f"robot {self.header.model.name!r}: its elements are code, which the file of a run "
                "cannot hold, so that forces and accelerations are not known; ask the run before "
                "it is saved, or record them"
            )
        return self.system

    def _evaluate(self, states: States, function: Evaluated, name: str) -> Any:
        """Evaluate a function of the system in all states, by a kernel of the given name."""
        return self._call(self._kernel(function, name), states)

    def _kernel(self, function: Evaluated, name: str) -> Any:
        """Return a kernel of a function of the system."""
        from tiburon.native.kernel import ProgramSource, make_kernel

        system = self._known()
        model = system.model

        def traced(given: Mapping[str, Any]) -> Any:
            q, w, u = (scalars(given[key]) for key in ("q", "w", "u"))
            p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
            return function(system, q, w, u, given["when"], p)

        inputs = [
            Input("q", (model.nq,)),
            Input("w", (model.nv + system.nx,)),
            Input("u", (system.drive_size,)),
            Input("when", ()),
        ]
        program = system.trace(traced, inputs, name)
        return make_kernel(ProgramSource(program), system.parameters(), part="many")

    def _call(self, kernel: Any, states: States) -> Any:
        """Evaluate such a kernel in all states."""
        system = self._known()
        # the states of a controller follow those of the elements and are not among them
        w = np.concatenate([states.v, states.x[:, : system.nx]], axis=-1)
        elements = system.drive_size - states.u.shape[-1]
        u = np.concatenate([states.u, states.z[:, :elements]], axis=-1)
        known = kernel.__self__.parameters
        own = {key: rows for key, rows in states.parameters.items() if key in known}
        return kernel(states.q, w, u, states.time, **own)


def _driving(system: System, q: Any, w: Any, u: Any, time: Any, p: Any) -> AppliedForces:
    """Evaluate all elements in one state."""
    position, v, x = system.split(q, w)
    here = system.setting(position, v, time)
    return system.driven(here, position, v, x, u, time, p)[0]
