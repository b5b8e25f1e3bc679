"""The fixed robots computed by Pinocchio, in our order of numbers.

Pinocchio wants bodies depth first and knows no joint offsets, so the robot is rebuilt with both
changed, and numbers are carried over by joint name.
"""

from dataclasses import replace

import numpy as np
import pinocchio as pin

import tiburon as tb
from benchmarks.pinocchio_peer import (
    build_pinocchio,
    matrix_from_pinocchio,
    q_to_pinocchio,
    v_to_pinocchio,
)
from tests.cross.recording import frame_of


def depth_first(model):
    """Return the robot with bodies listed depth first and joint offsets removed."""
    ordered = []

    def visit(parent):
        for body in model.bodies:
            if body.parent == parent:
                joint = body.joint
                if getattr(joint, "offset", 0.0):
                    joint = replace(joint, offset=0.0)
                ordered.append(replace(body, joint=joint))
                visit(body.name)

    visit("world")
    return tb.Model(model.name, ordered, model.frames)


class Peer:
    """One robot in Pinocchio; takes and gives our numbers."""

    def __init__(self, model, gravity):
        self.model = model
        self.twin = depth_first(model)
        self.pin_model = build_pinocchio(self.twin, gravity)
        self.pin_data = self.pin_model.createData()

    def _places(self, of):
        """Return where each of the twin's numbers stands in ours."""
        places = [
            np.arange(getattr(self.model, f"n{of}"))[self.model.slice(joint.name, of=of)]
            for joint in self.twin.joints
        ]
        return np.concatenate(places)

    def q(self, q):
        """Convert a position: add offsets, reorder."""
        shifted = q.copy()
        for joint in self.model.joints:
            shifted[self.model.slice(joint.name)] += getattr(joint, "offset", 0.0)
        return q_to_pinocchio(self.twin, shifted[self._places("q")])

    def v(self, v):
        """Convert a velocity, acceleration or force."""
        return v_to_pinocchio(self.twin, v[self._places("v")])

    def back(self, x):
        """Convert a vector of Pinocchio's to ours."""
        result = np.empty(self.model.nv)
        result[self._places("v")] = v_to_pinocchio(self.twin, np.asarray(x))
        return result

    def matrix(self, upper):
        """Convert a symmetric matrix, of which Pinocchio fills the upper part, to ours."""
        full = np.triu(upper) + np.triu(upper, 1).T
        places = self._places("v")
        result = np.empty_like(full)
        result[np.ix_(places, places)] = matrix_from_pinocchio(self.twin, full)
        return result

    def wrenches(self):
        """Return [n; f] of each joint that moves, in our order, body axes about the body origin."""
        moving = [joint.name for joint in self.model.joints if joint.nv]
        forces = [self.pin_data.f[self.pin_model.getJointId(name)] for name in moving]
        return np.array([[*force.angular, *force.linear] for force in forces])

    def compute(self, q, v, x, wrench):
        """Compute everything that is compared, in one state.

        Args:
            q: Position.
            v: Velocity.
            x: Joint force for forward, joint acceleration for inverse dynamics.
            wrench: [n; f] on the frame "tip", or on the last body where there is none, in its axes.

        Returns:
            Arrays by name.
        """
        model, data = self.pin_model, self.pin_data
        pq, pv, px = self.q(q), self.v(v), self.v(x)
        joint, placement = self._frame(frame_of(self.model))
        forces = pin.StdVec_Force()
        for _ in range(model.njoints):
            forces.append(pin.Force.Zero())
        forces[joint] = placement.act(pin.Force(wrench[3:], wrench[:3]))
        results = {
            "mass_matrix": self.matrix(pin.crba(model, data, pq)),
            "inverse_mass_matrix": self.matrix(pin.computeMinverse(model, data, pq)),
            "gravity_force": self.back(pin.computeGeneralizedGravity(model, data, pq)),
            "coriolis_force": self.back(pin.computeCoriolisMatrix(model, data, pq, pv) @ pv),
            "inverse_dynamics": self.back(pin.rnea(model, data, pq, pv, px)),
            # what each joint transmits, left behind by the call before
            "joint_wrenches": self.wrenches(),
            "forward_dynamics": self.back(pin.aba(model, data, pq, pv, px)),
            "forward_dynamics_external": self.back(pin.aba(model, data, pq, pv, px, forces)),
            "kinetic_energy": np.array(pin.computeKineticEnergy(model, data, pq, pv)),
            "potential_energy": np.array(pin.computePotentialEnergy(model, data, pq)),
        }
        pin.forwardKinematics(model, data, pq)
        pose = data.oMi[joint] * placement
        return results | {"rotation": pose.rotation.copy(), "translation": pose.translation.copy()}

    def _frame(self, name):
        """Return joint number and placement in it of one of our frames."""
        frames = {frame.name: frame for frame in self.twin.frames}
        placement = pin.SE3.Identity()
        if name in frames:
            pose = frames[name].pose
            placement = pin.SE3(np.array(pose.rotation), np.array(pose.translation))
            name = frames[name].body
        body = self.twin.body(name)
        # welds lead inward to the body that a joint moves
        while body.joint.kind == "fixed":
            pose = body.joint.pose
            placement = pin.SE3(np.array(pose.rotation), np.array(pose.translation)) * placement
            body = self.twin.body(body.parent)
        return self.pin_model.getJointId(body.joint.name), placement
