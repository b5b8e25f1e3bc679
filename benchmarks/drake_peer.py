"""Closed mechanisms by Drake: ball constraints of its discrete solver."""

from __future__ import annotations

from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray
from pydrake.math import RigidTransform, RotationMatrix
from pydrake.multibody.plant import DiscreteContactApproximation, MultibodyPlant
from pydrake.multibody.tree import (
    FixedOffsetFrame,
    PrismaticJoint,
    QuaternionFloatingJoint,
    RevoluteJoint,
    RotationalInertia,
    SpatialInertia,
    UniversalJoint,
)
from pydrake.systems.analysis import Simulator
from pydrake.systems.framework import DiagramBuilder, TriggerType
from pydrake.systems.primitives import LogVectorOutput

import tiburon as tb
from benchmarks.loop_runs import STEP, LoopCase, LoopRun
from benchmarks.timing import Timing

Array = NDArray[np.float64]

CLOSE = 0.1
"""Largest difference in velocity gained over 10 ms, relative: steps of first order bind velocities
in the directions at their start, half a step late in ten."""


def _make_joint(joint: Any, before: Any, after: Any) -> Any:
    """Choose Drake's joint; its numbers count as ours but for the velocity of a free one."""
    if joint.kind == "free":
        return QuaternionFloatingJoint(joint.name, before, after)
    if joint.kind == "universal":
        if (joint.axis, joint.second_axis) != ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0)):
            raise ValueError(f"joint {joint.name!r}: Drake turns universal joints about x, then y")
        return UniversalJoint(joint.name, before, after)
    if joint.offset != 0.0:
        raise ValueError(f"joint {joint.name!r}: an offset has no counterpart in Drake")
    kind = {"revolute": RevoluteJoint, "prismatic": PrismaticJoint}[joint.kind]
    return kind(joint.name, before, after, np.array(joint.axis))


def add_body(plant: MultibodyPlant, body: tb.Body, parent: Any) -> Any:
    """Add a body and its joint to a plant.

    Args:
        plant: Not finalized yet.
        body: One of our bodies.
        parent: Drake's body that carries it.

    Returns:
        Drake's body.
    """
    xx, xy, xz, yy, yz, zz = body.inertia.tensor
    central = RotationalInertia(xx, yy, zz, xy, xz, yz)
    inertia = SpatialInertia.MakeFromCentralInertia(
        body.inertia.mass, np.array(body.inertia.com), central
    )
    made = plant.AddRigidBody(body.name, inertia)
    pose = body.joint.pose
    place = RigidTransform(RotationMatrix(np.array(pose.rotation)), np.array(pose.translation))
    frame = FixedOffsetFrame(f"{body.joint.name}.frame", parent.body_frame(), place)
    plant.AddJoint(_make_joint(body.joint, plant.AddFrame(frame), made.body_frame()))
    return made


class DrakeLoops:
    """A mechanism for Drake, with its own order of numbers."""

    def __init__(self, case: LoopCase) -> None:
        """Build the bodies, joints and loops.

        Args:
            case: Loops are balls, or hinges of a planar mechanism: both tie points together.
        """
        self.model = case.model
        self.plant = MultibodyPlant(STEP)
        # the only solver that knows ball constraints
        self.plant.set_discrete_contact_approximation(DiscreteContactApproximation.kSap)
        self.plant.mutable_gravity_field().set_gravity_vector(np.array(case.gravity))
        place = {"world": self.plant.world_body()}
        for body in case.model.bodies:
            place[body.name] = add_body(self.plant, body, place[body.parent])
        for loop in case.model.loops:
            self.plant.AddBallConstraint(
                place[loop.first],
                np.array(loop.joint.pose.translation),
                place[loop.second],
                np.array(loop.second_pose.translation),
            )
        self.plant.Finalize()
        self.q_order, self.v_order = self._order("q"), self._order("v")

    def _order(self, of: str) -> Array:
        """Return where Drake keeps each of our numbers."""
        order = []
        for joint in self.model.joints:
            theirs = self.plant.GetJointByName(joint.name)
            first = theirs.position_start() if of == "q" else theirs.velocity_start()
            order += range(first, first + (joint.nq if of == "q" else joint.nv))
        return np.array(order)

    def _turned(self, q: Array, v: Array, back: bool) -> Array:
        """Turn velocities of free joints from body to joint axes, which Drake uses, or back."""
        v = v.copy()
        for joint in self.model.joints:
            if joint.kind == "free":
                w, x, y, z = np.moveaxis(q[..., self.model.slice(joint.name, of="q")], -1, 0)[:4]
                S = _cross_matrix(np.stack([x, y, z], axis=-1))
                R = np.eye(3) + 2.0 * (w[..., None, None] * S + S @ S)
                where = self.model.slice(joint.name, of="v")
                halves = v[..., where].reshape(*v.shape[:-1], 2, 3)
                # rows: u R is R^T u
                turned = halves @ (R if back else np.swapaxes(R, -1, -2))
                v[..., where] = turned.reshape(*v.shape[:-1], 6)
        return v

    def to_drake(self, q: Array, v: Array) -> Array:
        """Return Drake's state, positions before velocities, shape (nq + nv,)."""
        state = np.empty(self.model.nq + self.model.nv)
        state[self.q_order] = q
        state[self.model.nq + self.v_order] = self._turned(q, v, back=False)
        return state

    def from_drake(self, state: Array) -> tuple[Array, Array]:
        """Return our positions and velocities from rows of Drake's states."""
        q, v = state[..., self.q_order], state[..., self.model.nq + self.v_order]
        return q, self._turned(q, v, back=True)


def _cross_matrix(u: Array) -> Array:
    """Return matrices S with S x = u x x, shape (..., 3, 3)."""
    S = np.zeros((*u.shape, 3))
    for i, j, k in ((0, 1, 2), (1, 2, 0), (2, 0, 1)):
        S[..., i, j], S[..., j, i] = -u[..., k], u[..., k]
    return S


def run_drake(case: LoopCase, pieces: int = 20) -> LoopRun:
    """Run by Drake's simulator, which steps natively; its log records every state.

    Args:
        case: The mechanism.
        pieces: How many equal pieces of the run are timed on their own.
    """
    peer = DrakeLoops(case)
    builder = DiagramBuilder()
    builder.AddSystem(peer.plant)
    port = peer.plant.get_state_output_port()
    log = LogVectorOutput(port, builder, {TriggerType.kPeriodic}, STEP)
    simulator = Simulator(builder.Build())
    context = simulator.get_mutable_context()
    state = peer.to_drake(case.q, case.v)
    peer.plant.SetPositionsAndVelocities(peer.plant.GetMyMutableContextFromRoot(context), state)
    simulator.Initialize()
    samples, ends = [], np.linspace(0.0, case.steps * STEP, pieces + 1)
    for end in ends[1:]:
        start = perf_counter()
        simulator.AdvanceTo(end)
        samples.append((perf_counter() - start) * pieces / case.steps)
    q, v = peer.from_drake(log.FindLog(context).data().T)
    return LoopRun("Drake, discrete", q, v, Timing.of(samples), CLOSE)
