"""What the code of a system depends on, as text that is equal exactly if the code is.

User code of elements, controllers and loop methods is traced by itself: its graph is part of the
key.
"""

import hashlib
from collections.abc import Hashable, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from tiburon.actuation.element import AppliedForces, Element, StateKinematics, structure_of
from tiburon.algorithms.kinematics import Place
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.surroundings import structure_around
from tiburon.algorithms.tape_calls import scalars
from tiburon.loops.stabilization import PROJECTION
from tiburon.model import Model
from tiburon.simulation.accelerations import accelerations
from tiburon.simulation.control_calls import decide
from tiburon.simulation.layout import called
from tiburon.simulation.state import control_structure
from tiburon.spatial import Motion, Scalar, Scalars
from tiburon.trace.declared import Identical, has_structure, is_declared, structure_text
from tiburon.trace.dependencies import snapshot
from tiburon.trace.digest import program_digest
from tiburon.trace.program import Input, current_graph, input_array
from tiburon.trace.value import Value

if TYPE_CHECKING:
    from tiburon.simulation.system import System


class CodeKey:
    """What the code of a system depends on; remembers the graphs of its user code."""

    def __init__(self) -> None:
        self._constants: dict[tuple[str, str], tuple[float | None, ...]] = {}
        self._user_code: tuple[Any, Hashable] | None = None
        self._loops_code: tuple[Any, Hashable] | None = None

    def text(self, system: "System") -> str:
        """Return text that is equal exactly if the code of the system is."""
        around = structure_around(system.model, system.world)
        text = structure_text(("system 2", around, self.structure(system)))
        digest = hashlib.blake2b(text.encode())
        digest.update(system.model.structure_key())
        return digest.hexdigest()

    def structure(self, system: "System", first: int = 0) -> Hashable:
        """Return what the code depends on beside model, world and the `first` leading elements."""
        known = system.control is None or has_structure(system.control)
        control: Hashable = None
        if system.control is not None and known:
            control = control_structure(system.control, system.model, system.world)
        kind = type(system.control).__qualname__ if known else None
        how: Hashable = (system.held, system.sensed) if system.sensed else system.held
        if system.loops != PROJECTION:
            how = (how, system.loops if is_declared(system.loops) else self._loops_key(system))
        if system.partition is not None:
            how = (how, system.partition.key)
        switched = tuple(system.held_loops.switch_places.items())
        elements = structure_of(system.elements[first:])
        return (elements, switched, kind, control, how, self._user_key(system))

    def _user_key(self, system: "System") -> Hashable:
        """Return the key of all user code in elements and controller; None if there is none.

        User code is traced by itself: poses and velocities of frames are inputs of its graph, since
        the model determines them. Components of them that are constant remain constants, so that
        user code meets exactly the values that it meets in the step kernel. A first trace with the
        kinematics finds those constants. As long as nothing changes that user code can read, its
        last graph holds.
        """
        mine = [e for e in system.elements[system.fixed :] if not is_declared(e)]
        control = system.control is not None and not has_structure(system.control)
        if not mine and not control:
            return None
        # what user code reads, before it is traced
        reads = snapshot(*mine, system.control if control else None)
        if reads is not None and self._user_code is not None and self._user_code[0] == reads:
            return self._user_code[1]
        found = self._user_graph(system, mine, control, alone=True)
        if found is None:
            self._user_graph(system, mine, control, alone=False)
            found = self._user_graph(system, mine, control, alone=True)
        self._user_code = (reads, found)
        return found

    def _loops_key(self, system: "System") -> Hashable:
        """Return the key of a loop method of users: the graph of its motion and projection."""
        reads = snapshot(system.loops)
        if reads is not None and self._loops_code is not None and self._loops_code[0] == reads:
            return self._loops_code[1]
        model = system.model
        inputs = [Input("q", (model.nq,)), Input("w", (model.nv + system.nx,))]
        inputs += [Input("force", (model.nv,)), Input("time", ())]

        def run(given: Mapping[str, Any]) -> Any:
            q, w, force = (scalars(given[name]) for name in ("q", "w", "force"))
            guided = system.held_loops.guided_state(q, w) if system.held_loops.is_guided else None
            position, velocity, x = system.split(q, w)
            here = system.setting(position, velocity, given["time"])
            vd, pushes = accelerations(system, here, position, velocity, x, force, (), guided)
            closed, moved, left = system.held_loops.project(q, w, given["time"])
            return [*vd, *pushes, *closed, *moved, left]

        found = program_digest(system.trace(run, inputs, "loop method"))
        self._loops_code = (reads, found)
        return found

    def _user_graph(
        self, system: "System", mine: Sequence[Element], control: bool, *, alone: bool
    ) -> Hashable:
        """Trace user code, with the kinematics or alone; None if a constant is not known yet."""
        model = system.model
        inputs = [
            Input("q", (model.nq,)),
            Input("w", (model.nv + system.nx,)),
            Input("u", (system.drive_size,)),
            Input("time", ()),
        ]
        names: list[Any] = []
        more: list[Input] = []
        taken = {id(element) for element in mine}
        known = len(inputs) + len(system.parameters())

        def run(given: Mapping[str, Any]) -> Any:
            q, w, u = (scalars(given[name]) for name in ("q", "w", "u"))
            time = given["time"]
            position, v, x = system.split(q, w)
            opened = more if alone else None
            kinematics = _UserKinematics(system, self._constants, position, v, time, opened, known)
            results: list[Scalar] = []
            if control:
                commands, own, own_z = decide(system, position, v, x, u, time)
                results += (*commands, *own, *own_z)
            z = u[system.discrete]
            for one, now in system.contexts(kinematics, x, u, z, time, None):
                if id(one.element) not in taken:
                    continue
                driving = AppliedForces((0.0,) * model.nv)
                driving.take(model, one.element, one.element.act(now), one.state_count)
                pushes = [value for _, wrench in driving.wrenches for value in wrench]
                frames = [name for name, _ in driving.wrenches]
                names.append((frames, sorted(driving.outputs)))
                results += (*driving.force, *pushes, *driving.rates, *one.updated(now))
                results += (driving.outputs[name] for name in sorted(driving.outputs))
                names.append(_flags(one.element))
                for joint in one.element.prescribed(model, time, now.p, now.tables):
                    names.append((joint.q, joint.v))
                    results += (value for part in joint.sample for value in part)
                added = one.element.stage_inertias(model, now.p)
                names.append(tuple(added))
                results += (*added.values(), *(one.element.carried_forces(now.z) or ()))
            return results

        try:
            program = system.trace(run, inputs, "user code")
        except _UnknownConstantError:
            return None
        program = replace(program, inputs=(*program.inputs, *more))
        return f"{program_digest(program)} {names}"

    def fingerprint(self, system: "System") -> Hashable:
        """Return all data and user code that may have changed since the system was built."""
        model, control = system.model, system.control
        parts: list[Hashable] = [
            (
                e.name,
                tuple(e.state_names(model)),
                tuple(e.discrete_state_names(model)),
                tuple(e.command_names(model)),
                tuple(e.output_names(model)),
                _bits(e.initial_state(model)),
                _bits(e.initial_discrete_state(model)),
                _bits(e.parameters()),
                tuple(map(Identical, e.tables())),
            )
            for e in system.elements[system.fixed :]
        ]
        if control is not None:
            start = getattr(control, "initial_state", ())
            parts += [
                tuple(called(getattr(control, "state_names", None) or (), model)),
                _bits(called(start, model) if system.own_names else ()),
                _bits(system.control_numbers()),
                tuple(map(Identical, called(getattr(control, "tables", ())))),
                tuple(called(getattr(control, "discrete_state_names", ()), model)),
                _bits(system.first_control_states()),
            ]
        return (*parts, structure_text(self.structure(system, system.fixed)))


def _flags(element: Element) -> Hashable:
    """Return what an element says that it is to a run."""
    return (
        element.starts_steps,
        element.ends_steps,
        element.is_event_driven,
        element.is_located,
        element.holds_loops,
        element.switched_loop,
    )


def _bits(values: Any) -> bytes:
    """Return floats as bytes: -0.0 and 0.0 differ."""
    return np.asarray(values, dtype=np.float64).tobytes()


class _UnknownConstantError(BaseException):
    """User code uses a frame whose constant components are not known yet.

    Not an `Exception`, which user code may catch.
    """


class _UserKinematics(StateKinematics):
    """Kinematics for the key of user code: poses and velocities of frames become inputs."""

    def __init__(
        self,
        system: "System",
        constants: dict[tuple[str, str], tuple[float | None, ...]],
        q: Scalars,
        v: Scalars,
        time: Scalar,
        inputs: list[Input] | None,
        known: int,
    ) -> None:
        """Remember a state.

        `inputs` takes the inputs of the graph, after the `known` ones that it has; None to compute
        the kinematics and to note their `constants`.
        """
        self.q, self.v = q, v
        self._system, self._constants, self._time = system, constants, time
        self._inputs, self._known = inputs, known
        self._opened: dict[tuple[str, str], tuple[Scalar, ...]] = {}

    @cached_property
    def around(self) -> Setting:  # type: ignore[override]
        """The robot under its surroundings, built on first use."""
        return self._system.setting(self.q, self.v, self._time)

    @property
    def model(self) -> Model:
        """The robot as its user built it."""
        return self._system.model

    def frame_pose(self, name: str) -> Place:
        """Return the pose of a body or frame."""
        if self._inputs is None:
            found = super().frame_pose(name)
            self._note(name, "pose", (*(x for row in found.R for x in row), *found.p))
            return found
        a, b, c, d, e, f, g, h, i, *p = self._open(name, "pose")
        return Place(((a, b, c), (d, e, f), (g, h, i)), tuple(p))

    def frame_velocity(self, name: str) -> Motion:
        """Return the velocity of a body or frame."""
        if self._inputs is None:
            found = super().frame_velocity(name)
            self._note(name, "velocity", (*found.angular, *found.linear))
            return found
        return Motion.from_array(self._open(name, "velocity"))

    def _note(self, frame: str, kind: str, values: Scalars) -> None:
        constants = tuple(None if isinstance(x, Value) else float(x) for x in values)
        self._constants[frame, kind] = constants

    def _open(self, frame: str, kind: str) -> tuple[Scalar, ...]:
        found = self._opened.get((frame, kind))
        if found is None:
            constants = self._constants.get((frame, kind))
            if constants is None:
                raise _UnknownConstantError
            assert self._inputs is not None
            item = Input(f"{kind} of {frame}", (len(constants),))
            graph = current_graph()
            assert graph is not None
            entries = scalars(input_array(graph, self._known + len(self._inputs), item.shape))
            self._inputs.append(item)
            pairs = zip(entries, constants, strict=True)
            found = tuple(entry if x is None else x for entry, x in pairs)
            self._opened[frame, kind] = found
        return found
