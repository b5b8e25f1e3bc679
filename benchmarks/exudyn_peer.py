"""Closed mechanisms by Exudyn: every body floats, every joint is a constraint."""

from __future__ import annotations

import contextlib
import io
import sys
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tiburon as tb
from benchmarks.loop_runs import STEP, LoopCase, LoopRun
from benchmarks.timing import Timing

# the build without checks of ranges, 30 % faster, is chosen before the first import
sys.exudynFast = True  # type: ignore[attr-defined]
with contextlib.redirect_stdout(io.StringIO()):
    import exudyn
    from exudyn.itemInterface import GenericJoint, MarkerBodyRigid, SensorBody
    from exudyn.utilities import RigidBodyInertia

Array = NDArray[np.float64]

HELD = {
    "revolute": [1, 1, 1, 1, 1, 0],
    "prismatic": [1, 1, 0, 1, 1, 1],
    # keeps x of the parent and y of the body at right angles
    "universal": [1, 1, 1, 0, 0, 1],
    "spherical": [1, 1, 1, 0, 0, 0],
}
"""Translations and turns that a joint about or along z forbids."""

IN_PLANE = [1, 1, 0, 0, 0, 0]
"""What a hinge that closes a planar loop forbids; the rest is forbidden by the other hinges."""

TOLERANCE = 1e-10
"""Of Newton's iterations: with the default of 1e-8 residuals of the platform reach 1e-9 m."""

CLOSE = 1e-4
"""Largest difference in velocity gained over 10 ms, relative: steps are of second order."""

TIMED = 1000
"""Steps of a run that is timed, without sensors."""


@dataclass(frozen=True)
class _Motion:
    """How a body moves, in world axes; leading dimension: time."""

    p: Array
    R: Array
    v: Array
    omega: Array

    def point(self, place: Any) -> Array:
        """Return where a point of the body is [m], shape (n, 3)."""
        return self.p + self.R @ np.array(place)


def _check_axes(joint: Any) -> None:
    along = {"revolute": ((0.0, 0.0, 1.0), None), "prismatic": ((0.0, 0.0, 1.0), None)}
    along["universal"] = ((1.0, 0.0, 0.0), (0.0, 1.0, 0.0))
    if joint.kind in along:
        axes = (joint.axis, getattr(joint, "second_axis", None))
        if axes != along[joint.kind] or getattr(joint, "offset", 0.0) != 0.0:
            raise ValueError(f"joint {joint.name!r}: axes {axes} or an offset are not known here")


class ExudynLoops:
    """A mechanism for Exudyn, at the start of a case."""

    def __init__(self, case: LoopCase, record: bool) -> None:
        """Build bodies, joints, loops, and sensors if wanted.

        Args:
            case: Hinges and slides have z for their axis, universal joints x and y.
            record: Whether every body's motion is recorded at every step.
        """
        self.case, self._container = case, exudyn.SystemContainer()
        self.system = self._container.AddSystem()
        self._place = {"world": self.system.CreateGround()}
        self._sensors: dict[str, list[Any]] = {}
        names = case.body_names
        poses = zip(*tb.forward_kinematics(case.model, case.q, names), strict=True)
        moving = tb.frame_velocity(case.model, case.q, case.v, names)
        for body, pose, velocity in zip(case.model.bodies, poses, moving, strict=True):
            self._add_body(body, pose, velocity)
            if record:
                self._sensors[body.name] = self._watch(self._place[body.name])
        for body in case.model.bodies:
            _check_axes(body.joint)
            if body.joint.kind != "free":
                ends = (body.parent, body.joint.pose), (body.name, tb.Pose())
                self._tie(ends, HELD[body.joint.kind])
        for loop in case.model.loops:
            ends = (loop.first, loop.joint.pose), (loop.second, loop.second_pose)
            self._tie(ends, IN_PLANE if loop.joint.kind == "revolute" else HELD[loop.joint.kind])
        self.system.Assemble()

    def _add_body(self, body: tb.Body, pose: tuple[Array, Array], moving: Array) -> None:
        """Add a body with its rotation and origin in the world, and its velocity [omega; v]."""
        inertia, (R, p) = body.inertia, pose
        xx, xy, xz, yy, yz, zz = inertia.tensor
        c = np.array(inertia.com)
        # Exudyn wants the tensor about the origin: parallel axes
        about = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        about += inertia.mass * (c @ c * np.eye(3) - np.outer(c, c))
        self._place[body.name] = self.system.CreateRigidBody(
            inertia=RigidBodyInertia(inertia.mass, about, c),
            referencePosition=p,
            referenceRotationMatrix=R,
            initialVelocity=moving[3:],
            initialAngularVelocity=moving[:3],
            gravity=list(self.case.gravity),
        )

    def _watch(self, number: Any) -> list[Any]:
        kinds = ("Position", "RotationMatrix", "Velocity", "AngularVelocity")
        return [
            self.system.AddSensor(
                SensorBody(
                    bodyNumber=number,
                    storeInternal=True,
                    outputVariableType=getattr(exudyn.OutputVariableType, kind),
                )
            )
            for kind in kinds
        ]

    def _tie(self, ends: tuple[tuple[str, tb.Pose], ...], held: list[int]) -> None:
        markers = []
        for body, pose in ends:
            frame = exudyn.HT(
                rotation=np.array(pose.rotation), translation=np.array(pose.translation)
            )
            marker = MarkerBodyRigid(bodyNumber=self._place[body], localHT=frame)
            markers.append(self.system.AddMarker(marker))
        self.system.AddObject(GenericJoint(markerNumbers=markers, constrainedAxes=held))

    def run(self, steps: int) -> float:
        """Run for some steps and return the time that took [s]."""
        settings = exudyn.SimulationSettings()
        settings.timeIntegration.numberOfSteps = steps
        settings.timeIntegration.endTime = steps * STEP
        settings.timeIntegration.generalizedAlpha.computeInitialAccelerations = True
        newton = settings.timeIntegration.newton
        newton.relativeTolerance = newton.absoluteTolerance = TOLERANCE
        newton.useModifiedNewton = True
        settings.solution.file.write = False
        settings.solution.sensors.writePeriod = STEP
        settings.linearSolver.solverType = exudyn.LinearSolverType.EigenSparse
        start = perf_counter()
        self.system.SolveDynamic(settings)
        return perf_counter() - start

    def motions(self) -> dict[str, _Motion]:
        """Return how bodies moved, by name."""
        found = {}
        for name, sensors in self._sensors.items():
            # a row begins with the time
            p, R, v, omega = (
                np.array(self.system.GetSensorStoredData(sensor))[:, 1:] for sensor in sensors
            )
            found[name] = _Motion(p, R.reshape(-1, 3, 3), v, omega)
        count = len(p)
        still = np.zeros((count, 3))
        found["world"] = _Motion(still, np.tile(np.eye(3), (count, 1, 1)), still, still)
        return found


def _near(angle: Array, start: Any) -> Array:
    """Count whole turns so that an angle begins at a start."""
    angle = np.unwrap(angle)
    return angle + 2.0 * np.pi * np.round((start - angle[0]) / (2.0 * np.pi))


def _quaternion(R: Array, start: Any) -> Array:
    """Turn rotation matrices, shape (n, 3, 3), into quaternions that go on from a start."""
    from scipy.spatial.transform import Rotation

    found = Rotation.from_matrix(R).as_quat(scalar_first=True)
    for before, after in zip([start, *found[:-1]], found, strict=True):
        if before @ after < 0.0:
            after *= -1.0
    return np.array(found)


def _joint_numbers(joint: Any, start: Any, parent: _Motion, child: _Motion) -> tuple[Any, Any, Any]:
    """Return position and velocity of a joint, columns each, and what came apart [m]."""
    F = parent.R @ np.array(joint.pose.rotation)
    to_joint = np.swapaxes(F, -1, -2)
    R = to_joint @ child.R
    apart = child.p - parent.point(joint.pose.translation)
    slid = child.v - parent.v - np.cross(parent.omega, child.p - parent.p)
    d, w, u = ((to_joint @ x[..., None])[..., 0] for x in (apart, child.omega - parent.omega, slid))
    if joint.kind == "revolute":
        return [_near(np.arctan2(R[:, 1, 0], R[:, 0, 0]), start[0])], [w[:, 2]], d
    if joint.kind == "prismatic":
        return [d[:, 2]], [u[:, 2]], d[:, :2]
    if joint.kind == "universal":
        # R = Rx(a) Ry(b); w = (a', b' cos a, b' sin a)
        a, b = np.arctan2(R[:, 2, 1], R[:, 1, 1]), np.arctan2(R[:, 0, 2], R[:, 0, 0])
        rate = w[:, 1] * np.cos(a) + w[:, 2] * np.sin(a)
        return [_near(a, start[0]), _near(b, start[1])], [w[:, 0], rate], d
    back = np.swapaxes(child.R, -1, -2)
    in_body = [(back @ x[..., None])[..., 0] for x in (child.omega, child.v)]
    return [*_quaternion(R, start[:4]).T, *d.T], [*in_body[0].T, *in_body[1].T], np.zeros((1, 3))


def run_exudyn(case: LoopCase, repeats: int = 3) -> LoopRun:
    """Run by generalized alpha of index 3, Exudyn's default, with a modified Newton method.

    Args:
        case: The mechanism.
        repeats: How often to time `TIMED` steps, without sensors.
    """
    timed = min(TIMED, case.steps)
    samples = [ExudynLoops(case, record=False).run(timed) / timed for _ in range(repeats)]
    peer = ExudynLoops(case, record=True)
    peer.run(case.steps)
    moved, model = peer.motions(), case.model
    q, v = np.empty((case.steps + 1, model.nq)), np.empty((case.steps + 1, model.nv))
    apart = []
    for body in model.bodies:
        where, rates = (model.slice(body.joint.name, of=of) for of in "qv")
        columns, rate_columns, left = _joint_numbers(
            body.joint, case.q[where], moved[body.parent], moved[body.name]
        )
        q[:, where], v[:, rates] = np.stack(columns, axis=1), np.stack(rate_columns, axis=1)
        apart.append(left)
    for loop in model.loops:
        first = moved[loop.first].point(loop.joint.pose.translation)
        apart.append(first - moved[loop.second].point(loop.second_pose.translation))
    worst = max(float(np.linalg.norm(left, axis=1).max()) for left in apart)
    return LoopRun("Exudyn, generalized alpha", q, v, Timing.of(samples), CLOSE, worst)
