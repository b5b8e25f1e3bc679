"""Motion of frames, momentum and center of mass computed by Pinocchio, in our order of numbers."""

import numpy as np
import pinocchio as pin

from tests.cross.peer import Peer
from tests.cross.recording import GRAVITY, frame_of


def _ours(motion):
    """Return a motion or force of Pinocchio's, [linear; angular], as ours, angular first."""
    x = np.asarray(motion)
    return np.concatenate([x[3:], x[:3]])


class KinematicsPeer(Peer):
    """One robot in Pinocchio; takes and gives our numbers."""

    def __init__(self, model):
        super().__init__(model, GRAVITY)
        joint, placement = self._frame(frame_of(model))
        frame = pin.Frame("compared", joint, 0, placement, pin.FrameType.OP_FRAME)
        self.frame = self.pin_model.addFrame(frame)
        self.pin_data = self.pin_model.createData()

    def compute_kinematics(self, q, v, x):
        """Return Jacobian, velocity, acceleration, momentum and center of mass of one state."""
        model, data = self.pin_model, self.pin_data
        pq, pv, px = self.q(q), self.v(v), self.v(x)
        pin.forwardKinematics(model, data, pq, pv, px)
        pin.updateFramePlacements(model, data)
        aligned, local = pin.LOCAL_WORLD_ALIGNED, pin.LOCAL
        jacobian = pin.computeFrameJacobian(model, data, pq, self.frame, aligned)
        results = {
            "jacobian": self._rows(jacobian),
            "velocity": _ours(pin.getFrameVelocity(model, data, self.frame, aligned).vector),
            "spatial": _ours(pin.getFrameAcceleration(model, data, self.frame, local).vector),
            "classical": _ours(
                pin.getFrameClassicalAcceleration(model, data, self.frame, aligned).vector
            ),
        }
        center = np.array(pin.centerOfMass(model, data, pq, pv))
        matrix = pin.computeCentroidalMap(model, data, pq)
        return results | {
            "center": center,
            "momentum": _ours(pin.computeCentroidalMomentum(model, data, pq, pv).vector),
            "momentum_matrix": self._rows(matrix),
        }

    def _rows(self, matrix):
        """Return a matrix of six rows with ours, angular first, and our columns."""
        # one column comes as a vector
        rows = np.asarray(matrix).reshape(6, self.pin_model.nv)
        return np.array([self.back(row) for row in np.roll(rows, 3, axis=0)])
