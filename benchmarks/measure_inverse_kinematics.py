"""Inverse kinematics of a batch against the same search written as a loop over Pinocchio."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figure import DisagreementError, Figure, Measurement, check_equal
from benchmarks.timing import measure

ROBOT, FRAME = "panda", "link_7"
SIZE = 1024
TOLERANCE = 1e-9
MUST = 10.0
NOTE = (
    "inverse kinematics: starts lie about 0.15 rad per joint from a solution, and both sides reach "
    "every target within 1e-9; the peer takes Newton steps (pin.log6, pin.computeJointJacobian, "
    "pin.Jlog6, one NumPy solve) with damping in proportion to the squared error, as ours; our "
    "batch may use all cores"
)

Array = NDArray[np.float64]


def peer_search(peer: Any, data: Any, q: Array, goals: list[Any], joint: int) -> Array:
    """Solve one case after the other, as one does with Pinocchio from Python."""
    import pinocchio as pin

    found = np.empty_like(q)
    identity = np.eye(6)
    for case, goal in enumerate(goals):
        position = q[case]
        for _ in range(100):
            pin.forwardKinematics(peer, data, position)
            missing = data.oMi[joint].actInv(goal)
            error = pin.log6(missing).vector
            square = error @ error
            if square <= TOLERANCE * TOLERANCE:
                break
            J = -pin.Jlog6(missing.inverse()) @ pin.computeJointJacobian(
                peer, data, position, joint
            )
            step = -J.T @ np.linalg.solve(J @ J.T + 0.01 * square * identity, error)
            position = pin.integrate(peer, position, step)
        found[case] = position
    return found


def run(duration: float) -> list[Figure]:
    """Measure 6-D poses of the arm's last link; times are per case.

    Args:
        duration: Time to spend on each side [s].
    """
    import pinocchio as pin

    import tiburon as tb
    from benchmarks.cases import make_case

    case = make_case(ROBOT)
    model = case.model
    rng = np.random.default_rng(8)
    goal = rng.uniform(-1.5, 1.5, (SIZE, model.nq))
    start = goal + 0.15 * rng.standard_normal(goal.shape)
    rotation, translation = tb.forward_kinematics(model, goal, FRAME)
    target = tb.FrameTarget(FRAME, position=translation, orientation=rotation)

    def ours() -> tb.InverseKinematics:
        return tb.inverse_kinematics(model, start, target, tolerance=TOLERANCE)

    data = case.peer.createData()
    joint = case.peer.getJointId(model.body(FRAME).joint.name)
    goals = [pin.SE3(R, p) for R, p in zip(rotation, translation, strict=True)]
    theirs = (peer_search, case.peer, data, start, goals, joint)

    for name, found in (("ours", ours().q), ("peer", peer_search(*theirs[1:]))):
        R, p = tb.forward_kinematics(model, found, FRAME)
        # the error of orientation is measured differently on both sides: a factor of ten covers it
        check_equal(f"orientation, {name}", R, rotation, 10.0 * TOLERANCE)
        check_equal(f"position, {name}", p, translation, 10.0 * TOLERANCE)
    if not ours().reached.all():
        raise DisagreementError("inverse kinematics: a target was not reached")

    times = measure({"ours": ours, "peer": theirs}, duration=duration)
    return [
        Figure(
            f"6-D pose, {ROBOT}, batch of {SIZE}",
            times["ours"].per(SIZE),
            "Pinocchio loop",
            times["peer"].per(SIZE),
            MUST,
            note=NOTE,
        )
    ]


MEASUREMENT = Measurement(
    "inverse-kinematics", f"Inverse kinematics, batch of {SIZE} cases, per case", run, place=12
)
