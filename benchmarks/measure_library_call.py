"""Forward dynamics: the library function, which finds its kernel, against Pinocchio."""

from collections.abc import Iterator

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import measure

MUST = 5.0


def run(duration: float) -> Iterator[Figure]:
    """Measure `tb.forward_dynamics(model, q, v, tau)` called with one state.

    Args:
        duration: Time to spend on each side [s].
    """
    import pinocchio as pin

    import tiburon as tb
    from benchmarks.cases import ROUND_OFF, THREE, make_case

    for name in THREE:
        case = make_case(name)
        call = (tb.forward_dynamics, case.model, case.q, case.v, case.tau)
        data = case.peer.createData()
        peer_call = (pin.aba, case.peer, data, case.peer_q, case.peer_v, case.peer_tau)
        expected = case.from_peer(pin.aba(*peer_call[1:]))
        check_equal(name, tb.forward_dynamics(*call[1:]), expected, ROUND_OFF)
        times = measure({"ours": call, "peer": peer_call}, duration=duration)
        yield Figure(name, times["ours"], "pin.aba", times["peer"], MUST)


MEASUREMENT = Measurement(
    "library-call",
    "Forward dynamics, tb.forward_dynamics(model, q, v, tau), one call",
    run,
    place=2,
)
