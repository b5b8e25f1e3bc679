"""Forward dynamics with its derivatives by q, v and tau: the arm against Pinocchio."""

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import measure

ROBOT = "panda"
SIZE = 256
"""States in a batch: 154 results each, 0.3 MB together."""

ONE_MUST, ONE_AIM = 4.0, 5.0
BATCH_MUST, BATCH_AIM = 18.0, 22.0
NOTE = (
    "derivatives: ours are four arrays, new ones in a single call, the accelerations and three "
    "full matrices; "
    "pin.computeABADerivatives leaves its results in its data, unread in the timed part. It offers "
    "no batches: the peer of a batch is a Python loop over it"
)


def _lanes_note() -> str:
    from tiburon.native.engine import host

    lanes = host().lanes
    if lanes >= 8:
        return NOTE
    return f"{NOTE}. The bound of the batch is that of 8 lanes, this machine has {lanes}"


def run(duration: float) -> Iterator[Figure]:
    """Measure one call, and a batch on one thread.

    Args:
        duration: Time to spend on each side [s].
    """
    import pinocchio as pin

    import tiburon as tb
    from benchmarks.cases import ROUND_OFF, make_case

    one, many = make_case(ROBOT), make_case(ROBOT, (SIZE,))
    data = one.peer.createData()
    kernel = tb.compile(tb.forward_dynamics_derivatives, one.model)

    def expected(q: Any, v: Any, tau: Any) -> list[Any]:
        pin.computeABADerivatives(one.peer, data, q, v, tau)
        # only the upper triangle of the inverse mass matrix is filled
        inverse = np.triu(data.Minv) + np.triu(data.Minv, 1).T
        return [np.array(x) for x in (data.ddq, data.ddq_dq, data.ddq_dv, inverse)]

    def loop(states: Sequence[Any]) -> None:
        for q, v, tau in states:
            pin.computeABADerivatives(one.peer, data, q, v, tau)

    found = kernel(one.q, one.v, one.tau)
    batch = kernel(many.q, many.v, many.tau, threads=1)
    names = ("vd", "by q", "by v", "by tau")
    for name, ours, theirs in zip(
        names, found, expected(one.peer_q, one.peer_v, one.peer_tau), strict=True
    ):
        check_equal(name, ours, theirs, ROUND_OFF)
    states = list(zip(many.peer_q, many.peer_v, many.peer_tau, strict=True))
    for place in (0, SIZE - 1):
        for name, ours, theirs in zip(names, batch, expected(*states[place]), strict=True):
            check_equal(f"{name} of case {place}", ours[place], theirs, ROUND_OFF)

    def ours_batch() -> None:
        # results go where the last ones were, as the peer's do
        kernel(many.q, many.v, many.tau, threads=1, out=batch)

    times = measure(
        {
            "one": (kernel, one.q, one.v, one.tau),
            "peer": (
                pin.computeABADerivatives,
                one.peer,
                data,
                one.peer_q,
                one.peer_v,
                one.peer_tau,
            ),
            "batch": ours_batch,
            "peer loop": (loop, states),
        },
        duration=duration,
    )
    peer = "pin.computeABADerivatives"
    yield from (
        Figure(
            f"{ROBOT}, one call", times["one"], peer, times["peer"], ONE_MUST, ONE_AIM, note=NOTE
        ),
        Figure(
            f"{ROBOT}, batch of {SIZE}, per state",
            times["batch"].per(SIZE),
            f"loop over {peer}",
            times["peer loop"].per(SIZE),
            BATCH_MUST,
            BATCH_AIM,
            note=_lanes_note(),
        ),
    )


MEASUREMENT = Measurement(
    "derivatives", "Forward dynamics and its derivatives, compiled kernel", run, place=11
)
