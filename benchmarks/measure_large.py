"""Large models, on the tape: long chains against Pinocchio and MuJoCo, and an irregular tree."""

import time
from collections.abc import Iterator

import numpy as np

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.machine import bounds_of_machine
from benchmarks.timing import Timing, measure

CHAINS = (64, 256)
"""Numbers of links."""

ONE_MUST = 5.0
BATCH_MUST = {8: 20.0, 4: 18.0}
"""Required ratio of a batch by lane width: 8 (AVX-512) and 4 (AVX2)."""

BATCH = 256
LONGEST, LONGEST_MUST = 1000, 300.0
GROWTH_MUST = 11.0
"""Most that ten times the links may cost."""

TREE_BODIES, TREE_SECONDS, TREE_CLASSES = 128, 1.0, 40
COMPILATIONS = 5
"""How often the tree is compiled; a first time also loads what compiles."""

# roundings add up along a chain: a hundred times the bound for small robots
LONG_ROUND_OFF = 1e-8


def run(duration: float) -> Iterator[Figure]:
    """Measure chains of 64, 256 and 1000 links, the mass matrix of 256, and an irregular tree.

    Args:
        duration: Time to spend on each side [s].
    """
    for links in CHAINS:
        yield from _against_pinocchio(links, duration)
    yield from _against_mujoco(duration)
    yield from _growth(duration)
    yield _mass_matrix(duration)
    yield _irregular_tree()


def _against_pinocchio(links: int, duration: float) -> list[Figure]:
    import pinocchio as pin

    import tiburon as tb
    from benchmarks.cases import make_case

    case = make_case(f"chain_{links}")
    kernel = tb.compile(tb.forward_dynamics, case.model)
    peer_call = (pin.aba, case.peer, case.peer.createData(), case.peer_q, case.peer_v)
    peer_call += (case.peer_tau,)
    ours = kernel(case.q, case.v, case.tau)
    check_equal(case.model.name, ours, case.from_peer(pin.aba(*peer_call[1:])), LONG_ROUND_OFF)
    batch = [np.tile(x, (BATCH, 1)) for x in (case.q, case.v, case.tau)]
    check_equal("batch", kernel(*batch, threads=1)[-1], ours, LONG_ROUND_OFF)

    def many() -> None:
        kernel(*batch, threads=1)

    times = measure(
        {"ours": (kernel, case.q, case.v, case.tau), "peer": peer_call, "many": (many,)},
        duration=duration,
    )
    batch_must, width = bounds_of_machine(BATCH_MUST)
    note = f"{width}; one thread, against a Python loop over pin.aba"
    return [
        Figure(f"{links} links, one call", times["ours"], "pin.aba", times["peer"], ONE_MUST),
        Figure(
            f"{links} links, batch, per state",
            times["many"].per(BATCH),
            "pin.aba",
            times["peer"],
            batch_must,
            note=note,
        ),
    ]


def _against_mujoco(duration: float) -> list[Figure]:
    import mujoco

    import tiburon as tb
    from benchmarks import robots
    from benchmarks.mujoco_peer import acceleration_from_mujoco, build_mujoco, set_state

    model = robots.chain(LONGEST)
    rng = np.random.default_rng(1)
    # near straight and slow: a thousand loose links at full speed are worse conditioned than round
    q, v, tau = (0.01 * rng.standard_normal(LONGEST) for _ in range(3))
    kernel = tb.compile(tb.forward_dynamics, model)
    robot, data = build_mujoco(model)
    set_state(model, data, q, v, tau)
    mujoco.mj_forward(robot, data)
    expected = acceleration_from_mujoco(model, q, v, data.qacc)
    check_equal(f"{LONGEST} links", kernel(q, v, tau), expected, 1e-4)
    times = measure(
        {"ours": (kernel, q, v, tau), "peer": (mujoco.mj_forward, robot, data)}, duration=duration
    )
    what = f"{LONGEST} links, one call"
    return [Figure(what, times["ours"], "mj_forward", times["peer"], LONGEST_MUST)]


def _growth(duration: float) -> list[Figure]:
    """Compare ten times the links with ten times the work."""
    import tiburon as tb
    from benchmarks import robots

    calls = {}
    for links in (LONGEST // 10, LONGEST):
        rng = np.random.default_rng(2)
        state = [0.1 * rng.standard_normal(links) for _ in range(3)]
        batch = [np.tile(x, (64, 1)) for x in state]
        kernel = tb.compile(tb.forward_dynamics, robots.chain(links))
        kernel(*batch, threads=1)
        calls[f"one {links}"] = (kernel, *state)
        calls[f"batch {links}"] = (kernel, *batch)
    times = measure(calls, duration=duration)
    figures = []
    for kind in ("one", "batch"):
        few, many = times[f"{kind} {LONGEST // 10}"], times[f"{kind} {LONGEST}"]
        ratio = many.minimum / few.minimum
        verdict = "within" if ratio <= GROWTH_MUST else "ABOVE"
        note = (
            f"{kind}: {LONGEST} links take {ratio:.1f} times the time of {LONGEST // 10}, "
            f"{verdict} the bound of {GROWTH_MUST:g}"
        )
        figures.append(Figure(f"{LONGEST} links, {kind}", many, note=note))
    return figures


def _mass_matrix(duration: float) -> Figure:
    import mujoco
    import pinocchio as pin

    import tiburon as tb
    from benchmarks.cases import make_case
    from benchmarks.mujoco_peer import build_mujoco, set_state
    from benchmarks.pinocchio_peer import matrix_from_pinocchio

    case = make_case("chain_256")
    kernel = tb.compile(tb.mass_matrix, case.model)
    data = case.peer.createData()
    upper = np.triu(pin.crba(case.peer, data, case.peer_q))
    expected = matrix_from_pinocchio(case.model, upper + np.triu(upper, 1).T)
    check_equal("mass matrix", kernel(case.q), expected, LONG_ROUND_OFF)
    robot, robot_data = build_mujoco(case.model)
    set_state(case.model, robot_data, case.q, case.v, case.tau)
    mujoco.mj_forward(robot, robot_data)

    def mujoco_matrix() -> None:
        mujoco.mj_kinematics(robot, robot_data)
        mujoco.mj_comPos(robot, robot_data)
        mujoco.mj_makeM(robot, robot_data)

    times = measure(
        {
            "ours": (kernel, case.q),
            "pin.crba": (pin.crba, case.peer, data, case.peer_q),
            "MuJoCo": (mujoco_matrix,),
        },
        duration=duration,
    )
    mine = times.pop("ours")
    best = min(times, key=lambda name: times[name].minimum)
    return Figure("mass matrix, 256 links, one call", mine, best, times[best], 1.0)


def _irregular_tree() -> Figure:
    """Trace and compile a tree in which hardly two bodies are alike; the cache is not asked."""
    from benchmarks import robots
    from tiburon.algorithms.surroundings import DEFAULT_WORLD
    from tiburon.functions.kernel_source import LibrarySource
    from tiburon.native.engine import compile_module, host
    from tiburon.native.tape_module import TapeModule

    samples = []
    for _ in range(COMPILATIONS):
        model = robots.irregular_tree(TREE_BODIES)
        start = time.perf_counter()
        program = LibrarySource(model, ("forward_dynamics",), DEFAULT_WORLD).program()
        module = TapeModule(program, lanes=1, vector_lanes=host().lanes, fused=host().fused)
        compile_module(module.text())
        samples.append(time.perf_counter() - start)
    classes = len(module.tape.classes)
    verdict = "within" if classes <= TREE_CLASSES else "ABOVE"
    note = f"irregular tree: {classes} classes, {verdict} the bound of {TREE_CLASSES}"
    what = f"irregular tree of {TREE_BODIES} bodies, cold compile"
    return Figure(what, Timing.of(samples), must=TREE_SECONDS, note=note)


MEASUREMENT = Measurement("large", "Large models, on the tape", run, place=10)
