"""Load sharing of a walking robot as users write it: Pinocchio, NumPy, and a solver."""

from __future__ import annotations

from typing import Any, NamedTuple

import numpy as np
import pinocchio as pin
from numpy.typing import NDArray

import tiburon as tb
from benchmarks.pinocchio_peer import build_pinocchio

Array = NDArray[np.float64]


class Program(NamedTuple):
    """Matrices of min x^T W x / 2 with A1 x = b1, A2 x >= b2."""

    W: Array
    A1: Array
    b1: Array
    A2: Array
    b2: Array


class LegsPeer:
    """A robot on point feet: dynamics by Pinocchio, matrices by NumPy, solutions by daqp.

    Forces of the ground on the feet in world axes, as small as possible; pyramids of `sides`, or
    rows of normal forces alone for exact cones.
    """

    def __init__(self, model: tb.Model, friction: float, sides: int | None) -> None:
        self.model, self.peer = model, build_pinocchio(model)
        self.data = self.peer.createData()
        self.friction = friction
        self.frames, self.radii = [], []
        for point in model.contacts:
            joint = self.peer.getJointId(model.body(point.body).joint.name)
            place = pin.SE3(np.eye(3), np.array(point.position))
            frame = pin.Frame(point.name, joint, 0, place, pin.FrameType.OP_FRAME)
            self.frames.append(self.peer.addFrame(frame))
            self.radii.append(point.radius)
        self.data = self.peer.createData()
        limits = {actuator.joint: actuator.force_limits for actuator in model.actuators}
        names = [self.peer.names[k] for k in range(2, self.peer.njoints)]
        self.low, self.high = (np.array([limits[name][k] for name in names]) for k in (0, 1))
        count = len(self.frames)
        self.W = np.eye(3 * count)
        rows = [np.array([[0.0, 0.0, 1.0]])]
        if sides is not None:
            angles = 2.0 * np.pi * np.arange(sides) / sides
            mu = friction * np.cos(np.pi / sides)
            rows.append(np.c_[-np.cos(angles), -np.sin(angles), np.full(sides, mu)])
        self.friction_rows = np.kron(np.eye(count), np.vstack(rows))
        self.sense = np.zeros(6 + len(self.friction_rows) + 2 * len(names), dtype=np.intc)
        self.sense[:6] = 5
        self.upper = np.full(len(self.sense), 1e30)

    def build(self, q: Array, v: Array, vd: Array) -> tuple[Program, Array, Array]:
        """Return the program, the joint forces without contacts, and the Jacobian of the feet."""
        peer, data = self.peer, self.data
        needed = pin.rnea(peer, data, q, v, vd)
        pin.computeJointJacobians(peer, data, q)
        pin.updateFramePlacements(peer, data)
        J = np.empty((3 * len(self.frames), peer.nv))
        for k, (frame, radius) in enumerate(zip(self.frames, self.radii, strict=True)):
            six = pin.getFrameJacobian(peer, data, frame, pin.LOCAL_WORLD_ALIGNED)
            # midway between the lowest point of a spherical foot and the ground: v - w x (0, 0, r)
            lever = 0.5 * (data.oMf[frame].translation[2] + radius)
            J[3 * k : 3 * k + 3] = six[:3]
            J[3 * k] -= six[4] * lever
            J[3 * k + 1] += six[3] * lever
        base, legs = J[:, :6].T, J[:, 6:].T
        A2 = np.vstack([self.friction_rows, -legs, legs])
        none = np.zeros(len(self.friction_rows))
        b2 = np.concatenate([none, self.low - needed[6:], needed[6:] - self.high])
        return Program(self.W, base, needed[:6], A2, b2), needed, J

    def share(self, q: Array, v: Array, vd: Array) -> tuple[Array, Array, Array, Array]:
        """Return torques, forces, friction margins and torque margins."""
        import daqp

        program, needed, J = self.build(q, v, vd)
        A = np.vstack([program.A1, program.A2])
        self.upper[:6] = program.b1
        lower = np.concatenate([program.b1, program.b2])
        x, _, code, _ = daqp.solve(
            program.W, np.zeros(len(self.W)), A, self.upper, lower, self.sense
        )
        if code <= 0:
            raise ValueError(f"daqp ends with code {code}")
        tau = needed - J.T @ x
        forces = x.reshape(-1, 3)
        margins = self.friction * forces[:, 2] - np.hypot(forces[:, 0], forces[:, 1])
        spare = np.minimum(tau[6:] - self.low, self.high - tau[6:])
        return tau, forces, margins, spare


class ConePeer:
    """The same with exact friction cones, by Clarabel."""

    def __init__(self, friction: float, count: int) -> None:
        import clarabel

        self.clarabel = clarabel
        self.friction, self.count = friction, count
        self.settings, self.accurate = clarabel.DefaultSettings(), clarabel.DefaultSettings()
        self.settings.verbose = self.accurate.verbose = False
        for name in ("tol_gap_abs", "tol_gap_rel", "tol_feas"):
            setattr(self.accurate, name, 1e-12)

    def prepared(self, program: Program) -> tuple[Any, ...]:
        """Return the arguments of the solver; rows of normal forces are part of the cones."""
        from scipy.sparse import csc_matrix

        clarabel, count, n = self.clarabel, self.count, len(program.W)
        limits, right = program.A2[count:], program.b2[count:]
        cones = np.kron(np.eye(count), np.array([[0, 0, self.friction], [1, 0, 0], [0, 1, 0]]))
        A = np.vstack([program.A1, -limits, -cones])
        b = np.concatenate([program.b1, -right, np.zeros(3 * count)])
        kinds = [clarabel.ZeroConeT(6), clarabel.NonnegativeConeT(len(right))]
        kinds += [clarabel.SecondOrderConeT(3)] * count
        return csc_matrix(np.triu(program.W)), np.zeros(n), csc_matrix(A), b, kinds

    def solve(self, given: tuple[Any, ...], *, accurate: bool = False) -> Array:
        """Return the solution, to its usual tolerances or as accurate as it gets."""
        settings = self.accurate if accurate else self.settings
        found = self.clarabel.DefaultSolver(*given, settings).solve()
        return np.array(found.x)
