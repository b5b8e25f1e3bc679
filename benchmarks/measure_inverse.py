"""Inverse dynamics and mass matrix of the arm: one call each against Pinocchio."""

import numpy as np

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import measure

ROBOT = "panda"
RNEA_MUST, CRBA_MUST = 6.0, 5.5
CRBA_NOTE = (
    "mass matrix: ours is the full symmetric matrix in a new array; pin.crba fills the upper "
    "triangle only, and the comparison of results completes it outside the timed part"
)


def run(duration: float) -> list[Figure]:
    """Measure the compiled kernels of both functions called with one state.

    Args:
        duration: Time to spend on each side [s].
    """
    import pinocchio as pin

    import tiburon as tb
    from benchmarks.cases import ROUND_OFF, make_case
    from benchmarks.pinocchio_peer import matrix_from_pinocchio, v_to_pinocchio

    case = make_case(ROBOT)
    data = case.peer.createData()
    vd = np.random.default_rng(6).standard_normal(case.model.nv)
    peer_vd = v_to_pinocchio(case.model, vd)

    inverse = tb.compile(tb.inverse_dynamics, case.model)
    peer_inverse = (pin.rnea, case.peer, data, case.peer_q, case.peer_v, peer_vd)
    expected = case.from_peer(pin.rnea(*peer_inverse[1:]))
    check_equal("inverse dynamics", inverse(case.q, case.v, vd), expected, ROUND_OFF)

    matrix = tb.compile(tb.mass_matrix, case.model)
    peer_matrix = (pin.crba, case.peer, data, case.peer_q)
    expected = matrix_from_pinocchio(case.model, pin.crba(*peer_matrix[1:]))
    check_equal("mass matrix", matrix(case.q), expected, ROUND_OFF)

    times = measure(
        {
            "rnea": (inverse, case.q, case.v, vd),
            "pin.rnea": peer_inverse,
            "crba": (matrix, case.q),
            "pin.crba": peer_matrix,
        },
        duration=duration,
    )
    return [
        Figure(
            f"inverse dynamics, {ROBOT}", times["rnea"], "pin.rnea", times["pin.rnea"], RNEA_MUST
        ),
        Figure(
            f"mass matrix, {ROBOT}",
            times["crba"],
            "pin.crba",
            times["pin.crba"],
            CRBA_MUST,
            note=CRBA_NOTE,
        ),
    ]


MEASUREMENT = Measurement(
    "inverse", "Inverse dynamics and mass matrix, compiled kernel, one call", run, place=3
)
