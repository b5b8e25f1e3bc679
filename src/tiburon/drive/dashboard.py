"""Readings for the operator: forces, thrust, poses, depth and speed, computed from one state."""

import hashlib
import math
from collections.abc import Mapping
from typing import Any

import numpy as np

from tiburon.actuation.contact_element import POINT_STATES, ContactElement
from tiburon.algorithms.tape_calls import scalars
from tiburon.arrays import Array, NDArray
from tiburon.functions.contact import contacts_among
from tiburon.functions.kinematics import forward_kinematics
from tiburon.native.kernel import make_kernel
from tiburon.record import record
from tiburon.simulation.control_calls import commands_at
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.system import System
from tiburon.trace.program import Input, Program
from tiburon.viewer.scene import quaternions


@record(slots=False, eq=False)
class _ReadingSource:
    """Source of the kernel that computes commands and forces in a state."""

    system: System

    @property
    def name(self) -> str:
        """Name of the kernel."""
        return "dashboard"

    @property
    def key(self) -> str:
        """Text that is equal if and only if the code is."""
        text = repr(("dashboard 2", self.system.key))
        return hashlib.blake2b(text.encode(), digest_size=16).hexdigest()

    def retrace(self) -> None:
        """Trace user code again."""
        self.system.retrace()

    def program(self) -> Program:
        """Trace it."""
        system = self.system
        nq = system.model.nq

        def run(given: Any) -> Any:
            state, u, time = scalars(given["state"]), scalars(given["u"]), given["when"]
            p = scalars(given[ELEMENTS]) if ELEMENTS in given else ()
            q, v, x = system.split(state[:nq], state[nq:])
            commands = commands_at(system, state[:nq], state[nq:], u, time)
            here = system.setting(q, v, time)
            driving = system.drive(here, q, v, x, commands, time, p, u[system.discrete])
            reported = [driving.outputs[name] for name in system.output_names]
            # a kernel needs an output, also if elements report nothing
            return {
                "commands": list(commands),
                "force": list(driving.force),
                "reported": [*reported, 0.0 * state[0]],
            }

        inputs = [
            Input("state", (nq + system.model.nv + system.nx,)),
            Input("u", (system.drive_size,)),
            Input("when", ()),
        ]
        return system.trace(run, inputs, self.name)


class Dashboard:
    """Computes readings of a system, whose parameters may be exchanged at any time."""

    def __init__(self, system: System) -> None:
        """Compile the kernel, or load it from the cache.

        Args:
            system: The system.
        """
        self._source = _ReadingSource(system)
        self.exchange(system, self.kernel_of(system))
        model = system.model
        names = system.x_names
        self.thrusters = tuple(t.name for t in model.thrusters)
        self._lagging = {
            name: names.index(f"{name}.thrust")
            for name in self.thrusters
            if f"{name}.thrust" in names
        }
        bases = [body for body in model.bodies if body.joint.kind == "free"]
        self.base = bases[0] if bases else None
        self.contact = system.find(ContactElement)
        if self.contact is not None:
            # compiled now rather than at the first touch
            everywhere = np.ones(len(self.contact.element.point_names), dtype=bool)
            self._touching(0.0, model.neutral(), everywhere, np.zeros((len(everywhere), 3)))

    def kernel_of(self, system: System) -> Any:
        """Return the kernel of the same robot with other parameters, for `exchange`."""
        return make_kernel(self._source, system.parameters())

    def exchange(self, system: System, kernel: Any) -> None:
        """Continue with other parameters of the same robot.

        Args:
            system: The system with these parameters.
            kernel: Its `kernel_of`.
        """
        self.system, self._kernel = system, kernel

    def read(self, time: float, state: Array, held: Array) -> dict[str, Any]:
        """Return the readings in a state by name, as JSON types.

        Args:
            time: Time [s].
            state: (*q, *v, *x).
            held: Posted commands.

        Returns:
            `poses` of bodies (quaternion, origin [m]), `joint_force` [N m or N] by velocity,
            `thrust` [N] by thruster, `commands` by name, and `depth` [m], `speed` [m/s] where the
            robot has a floating base, `depth` in water only; with contact `contact_force` [N],
            and `contact_point` [m], world axes, of the points that touch, by name.
        """
        model, system = self.system.model, self.system
        q, v, x = np.split(state, [model.nq, model.nq + model.nv])
        commands, force, reported = self._kernel(state, held, np.asarray(time))
        outputs = dict(zip(system.output_names, reported.tolist(), strict=False))
        thrust = {
            name: float(x[self._lagging[name]])
            if name in self._lagging
            else outputs.get(f"{name}.thrust", 0.0)
            for name in self.thrusters
        }
        found: dict[str, Any] = {
            "poses": self.poses(time, q).tolist(),
            "joint_force": dict(zip(model.v_names, force.tolist(), strict=True)),
            "thrust": thrust,
            "commands": dict(zip(system.command_names, commands.tolist(), strict=True)),
        }
        if self.contact is not None:
            names = self.contact.element.point_names
            start = system.discrete.start + self.contact.z.start
            states = held[start : start + len(POINT_STATES) * len(names)].reshape(len(names), -1)
            touching = np.asarray(states[:, :3].any(axis=-1))
            found |= self._touching(time, q, touching, states[:, :3])
        if self.base is not None:
            where = model.slice(self.base.joint.name, of="v").start
            found["speed"] = math.hypot(*v[where + 3 : where + 6].tolist())
            fluid = system.world.fluid
            if fluid is not None:
                place = model.body_names.index(self.base.name)
                found["depth"] = (fluid.surface or 0.0) - found["poses"][place][6]
        return found

    def _touching(
        self, time: float, q: Array, touching: NDArray[np.bool_], force: Array
    ) -> dict[str, Any]:
        """Return forces and places of the contact points that touch, by name."""
        if not touching.any():
            return {"contact_force": {}, "contact_point": {}}
        assert self.contact is not None
        element = self.contact.element
        here = contacts_among(self.system.model, element.candidates, q, time=time)
        names = [name for name, on in zip(element.point_names, touching, strict=True) if on]
        return {
            "contact_force": dict(zip(names, force[touching].tolist(), strict=True)),
            "contact_point": dict(zip(names, here.point[touching].tolist(), strict=True)),
        }

    def poses(self, time: Any, q: Array) -> Array:
        """Return quaternion (w, x, y, z) and origin [m] of each body, shape (..., bodies, 7)."""
        model = self.system.model
        moved = {"time": time} if model.plan.depends_on_time else {}
        R, p = forward_kinematics(model, q, model.body_names, **moved)
        return np.concatenate([quaternions(R), p], axis=-1)


def modes_of(commands: Mapping[str, float]) -> dict[str, str]:
    """Return the control modes of vehicle and joints."""
    found = {}
    if "panel.station" in commands:
        found["vehicle"] = "station keeping" if commands["panel.station"] > 0.5 else "manual"
    if "panel.arm_hold" in commands:
        found["arm"] = "position hold" if commands["panel.arm_hold"] > 0.5 else "manual force"
    return found
