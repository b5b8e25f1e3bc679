"""Forward dynamics: one call of the compiled kernel against one call of Pinocchio."""

from collections.abc import Iterator

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import measure

BOUNDS = {"panda": (7.5, 8.5), "quadruped": (6.3, 7.0), "chain_16": (6.3, 7.0)}
"""Ratio that must be reached and ratio aimed at, by robot."""


def run(duration: float) -> Iterator[Figure]:
    """Measure `tb.compile(tb.forward_dynamics, model)` called with one state.

    Args:
        duration: Time to spend on each side [s].
    """
    import pinocchio as pin

    import tiburon as tb
    from benchmarks.cases import ROUND_OFF, make_case

    for name, (must, aim) in BOUNDS.items():
        case = make_case(name)
        kernel = tb.compile(tb.forward_dynamics, case.model)
        data = case.peer.createData()
        peer_call = (pin.aba, case.peer, data, case.peer_q, case.peer_v, case.peer_tau)
        expected = case.from_peer(pin.aba(*peer_call[1:]))
        check_equal(name, kernel(case.q, case.v, case.tau), expected, ROUND_OFF)
        times = measure(
            {"ours": (kernel, case.q, case.v, case.tau), "peer": peer_call}, duration=duration
        )
        yield Figure(name, times["ours"], "pin.aba", times["peer"], must, aim)


MEASUREMENT = Measurement(
    "one-call", "Forward dynamics, compiled kernel, one call from Python", run, place=1
)
