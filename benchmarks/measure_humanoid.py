"""Forward dynamics of a humanoid: one call against the better of Pinocchio and MuJoCo."""

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import measure

ROBOT = "humanoid"
MUST = 5.0
NOTE = (
    "MuJoCo: mj_forward with constraints, contacts, passive forces, actuation and sensors "
    "disabled; also its stages called one by one from Python (mj_kinematics, mj_comPos, mj_makeM, "
    "mj_factorM, mj_comVel, mj_rne, mj_solveM); its state stays set between calls, copying it in "
    "is not timed"
)


def run(duration: float) -> list[Figure]:
    """Measure the compiled kernel called with one state, and every peer in the same run.

    Args:
        duration: Time to spend on each side [s].
    """
    import mujoco
    import pinocchio as pin

    import tiburon as tb
    from benchmarks.cases import ROUND_OFF, make_case
    from benchmarks.mujoco_peer import (
        acceleration_from_mujoco,
        build_mujoco,
        forward_by_stages,
        set_state,
    )

    case = make_case(ROBOT)
    kernel = tb.compile(tb.forward_dynamics, case.model)
    ours = kernel(case.q, case.v, case.tau)

    peer_call = (pin.aba, case.peer, case.peer.createData(), case.peer_q, case.peer_v)
    peer_call += (case.peer_tau,)
    check_equal("pin.aba", ours, case.from_peer(pin.aba(*peer_call[1:])), ROUND_OFF)

    robot, data = build_mujoco(case.model)
    set_state(case.model, data, case.q, case.v, case.tau)
    mujoco.mj_forward(robot, data)
    for name, qacc in (("mj_forward", data.qacc), ("stages", forward_by_stages(robot, data))):
        vd = acceleration_from_mujoco(case.model, case.q, case.v, qacc)
        check_equal(name, ours, vd, ROUND_OFF)

    times = measure(
        {
            "ours": (kernel, case.q, case.v, case.tau),
            "pin.aba": peer_call,
            "mj_forward": (mujoco.mj_forward, robot, data),
            "MuJoCo by stages": (forward_by_stages, robot, data),
        },
        duration=duration,
    )
    mine = times.pop("ours")
    best = min(times, key=lambda name: times[name].minimum)
    # the best peer is bound to the figure that must be reached; the others are shown
    return [
        Figure(
            f"{ROBOT}, {case.model.nv} DoF",
            mine,
            name,
            time,
            MUST if name == best else None,
            note=NOTE,
        )
        for name, time in sorted(times.items(), key=lambda item: item[1].minimum)
    ]


MEASUREMENT = Measurement(
    "humanoid", "Forward dynamics of a humanoid, compiled kernel, one call", run, place=6
)
