"""What the tests of closed mechanisms share: gaps, their rates, and constrained motion."""

import numpy as np

import tiburon as tb
from tests.tolerances import DIFFERENCE_STEP
from tiburon.algorithms.kinematics import frame_places


def pose_of(model, q, name):
    """Return rotation (frame to world) and origin of a body or frame, on floats."""
    (place,) = frame_places(model.plan, np.asarray(q).tolist(), (name,))
    return np.array(place.R, dtype=float), np.array(place.p, dtype=float)


def gap(loop, places):
    """Return by how much the two places of a loop differ from what its joint allows."""
    (R1, p1), (R2, p2) = places[loop.first], places[loop.second]
    if not isinstance(loop, tb.LoopClosure):
        assert loop.pose == loop.second_pose == tb.Pose()
        height = R1[:, 2] @ (p2 - p1)
        if loop.kind == "blade":
            return np.array([height])
        # of a disc whose axis leans by an angle from the normal
        return np.array([height - loop.radius * np.linalg.norm(np.cross(R1[:, 2], R2 @ loop.axis))])
    joint = loop.joint
    p1, R1 = p1 + R1 @ joint.pose.translation, R1 @ np.array(joint.pose.rotation)
    p2 = p2 + R2 @ loop.second_pose.translation
    R2 = R2 @ np.array(loop.second_pose.rotation)
    offset, turn = R1.T @ (p2 - p1), R1.T @ R2
    if joint.kind == "spherical":
        return offset
    if joint.kind == "revolute":
        carried = turn @ joint.axis
        # the cross product is zero for opposite axes too, the last number is not
        return np.array([*offset, *np.cross(joint.axis, carried), 1.0 - carried @ joint.axis])
    if joint.kind == "universal":
        # at zero the axes are perpendicular, and they stay so
        return np.append(offset, np.dot(joint.axis, turn @ joint.second_axis))
    assert joint.kind == "fixed"
    skew = (turn - turn.T)[np.triu_indices(3, 1)] / 2.0
    return np.array([*offset, *skew, 3.0 - np.trace(turn)])


def gaps(model, q):
    """Return the gaps of all loops, one after the other."""
    tree = model.without_loops()
    names = tuple({name for loop in model.loops for name in (loop.first, loop.second)})
    found = frame_places(tree.plan, np.asarray(q).tolist(), names)
    places = {
        name: (np.array(place.R, dtype=float), np.array(place.p, dtype=float))
        for name, place in zip(names, found, strict=True)
    }
    return np.concatenate([gap(loop, places) for loop in model.loops])


def gap_rates(model, q):
    """Return the derivative of all gaps by the DoF of the tree, by central differences."""
    columns = []
    for unit in np.eye(model.nv):
        ahead, behind = (
            gaps(model, model.integrate(q, s * DIFFERENCE_STEP * unit)) for s in (1.0, -1.0)
        )
        columns.append((ahead - behind) / (2.0 * DIFFERENCE_STEP))
    return np.array(columns).T


def pin_rows(tree, loop, q, v):
    """Return J and Jdot v of how far the two points of a pin move apart [m/s, m/s^2]."""
    J, bias = np.zeros((3, tree.nv)), np.zeros(3)
    places = [
        (loop.first, loop.joint.pose.translation, 1.0),
        (loop.second, loop.second_pose.translation, -1.0),
    ]
    for name, point, sign in places:
        if name == "world":
            continue
        J += sign * tb.frame_jacobian(tree, q, name, at=point)[3:]
        bias += sign * tb.frame_jacobian_bias(tree, q, v, name, at=point)[3:]
    return J, bias


class Pinned:
    """A planar mechanism whose loops are pins, solved with multipliers (Khan 2002, eq. 1.3)."""

    def __init__(self, model, q, v):
        self.tree = tree = model.without_loops()
        rows = [pin_rows(tree, loop, q, v) for loop in model.loops]
        self.J = np.concatenate([J for J, _ in rows])
        self.bias = np.concatenate([bias for _, bias in rows])
        self.H = tb.mass_matrix(tree, q)
        self.h = tb.bias_force(tree, q, v)

    def acceleration(self, tau):
        """Return joint accelerations under joint forces; rows out of the plane drop out."""
        n, m = self.H.shape[0], self.J.shape[0]
        K = np.block([[self.H, self.J.T], [self.J, np.zeros((m, m))]])
        right = np.concatenate([tau - self.h, -self.bias])
        return np.linalg.lstsq(K, right, rcond=1e-12)[0][:n]

    def holding(self, actuated):
        """Return the forces of the actuated joints that hold the mechanism still."""
        columns = [np.eye(self.tree.nv)[self.tree.indices(actuated, of="v")].T, self.J.T]
        return np.linalg.lstsq(np.hstack(columns), self.h, rcond=1e-12)[0][: len(actuated)]
