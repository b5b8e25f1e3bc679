"""How long a robot's first call takes: tracing and compiling, with no cache to help."""

from collections.abc import Iterator

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import Timing

ROBOTS = ("panda", "quadruped", "chain_20")
ONE_MUST, MANY_MUST = 0.35, 0.6


def run(duration: float) -> Iterator[Figure]:
    """Measure the first call and the first batch in new processes, cache off.

    The clock runs from a model in hand to the result. Imports are done before.

    Args:
        duration: Decides how many processes are started.
    """
    import pinocchio as pin

    from benchmarks.cases import ROUND_OFF, make_case
    from benchmarks.fresh_process import join_names, repeats, run_fresh

    for name in ROBOTS:
        case = make_case(name)
        no_cache = {"TIBURON_CACHE_DIR": "off"}
        # the first process tells what the calls import
        first = run_fresh("first-calls", name, environment=no_cache)
        data = case.peer.createData()
        vd = pin.aba(case.peer, data, case.peer_q, case.peer_v, case.peer_tau)
        check_equal(name, first["one"], case.from_peer(vd), ROUND_OFF)
        words = (name, join_names(first["modules"]))
        runs = [
            run_fresh("first-calls", *words, environment=no_cache) for _ in range(repeats(duration))
        ]
        what = f"{name}, {case.model.nv} DoF"
        one = Timing.of([run["one_seconds"] for run in runs])
        many = Timing.of([run["many_seconds"] for run in runs])
        yield Figure(f"{what}, first call", one, must=ONE_MUST)
        yield Figure(f"{what}, first batch after it", many, must=MANY_MUST)


MEASUREMENT = Measurement(
    "compile", "Trace and compile, no cache: from a model in hand to the result", run, place=7
)
