"""Runs over time: against MuJoCo's rollout, against the clock, and what they cost in memory."""

import tempfile
import tracemalloc
from collections.abc import Callable, Iterator
from pathlib import Path
from time import perf_counter
from typing import Any

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import Timing, measure
from tiburon.simulation.integrators.methods import integrator_named

SIZE = 4096
STEPS, STEPS_OF_ONE = 50, 1000
STEP = 1e-3

BATCH = {
    ("panda", "rk4"): 25.0,
    ("quadruped", "rk4"): 25.0,
    ("panda", "semi_implicit_euler"): 30.0,
    ("quadruped", "semi_implicit_euler"): 22.0,
}
"""How many times faster than `mujoco.rollout` a batch must be."""

ONE = {"rk4": 5.0, "semi_implicit_euler": None}
"""How many times faster one robot must be."""

PEERS = {"rk4": "mjINT_RK4", "semi_implicit_euler": "mjINT_EULER"}
"""What MuJoCo calls the methods."""

CLOSE = {"rk4": 1e-9, "semi_implicit_euler": 1e-3}
"""How far positions may be apart after `STEPS` steps, relative to 1: MuJoCo turns free bodies by
other formulas of the same order."""

REAL_TIME = 200.0
"""How many times faster than the clock a vehicle with an arm must run in water."""

CALL = 5e-6
"""What a call of a controller in Python may cost beyond the controller [s]."""

MEMORY = 2.0
"""How many times the recorded arrays a run may need in memory."""

STREAM = 1e9
"""What a run that streams to disk may need in memory [bytes]."""


def run(duration: float) -> Iterator[Figure]:
    """Measure runs of one robot and of batches.

    Args:
        duration: Time to spend on each side [s].
    """
    for robot in ("panda", "quadruped"):
        for method in PEERS:
            yield _batch(robot, method, duration)
            yield _one(robot, method, duration)
    yield _water(duration)
    yield _calls(duration)
    yield _memory()
    yield _stream()


def _free(robot: str, method: str, shape: tuple[int, ...]) -> tuple[Any, Any, Any, Any]:
    """Return the robot, its states, and MuJoCo's."""
    import mujoco
    import numpy as np

    import benchmarks.robots as robots
    from benchmarks.mujoco_peer import build_mujoco, set_state
    from benchmarks.states import draw_states

    model = getattr(robots, robot)()
    q, v, _ = draw_states(model, shape)
    peer, data = build_mujoco(model)
    peer.opt.integrator = getattr(mujoco.mjtIntegrator, PEERS[method])
    peer.opt.timestep = STEP
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    rows = []
    for one_q, one_v in zip(q.reshape(-1, model.nq), v.reshape(-1, model.nv), strict=True):
        set_state(model, data, one_q, one_v, np.zeros(model.nv))
        row = np.zeros(mujoco.mj_stateSize(peer, kind))
        mujoco.mj_getState(peer, data, row, kind)
        rows.append(row)
    return model, (q, v), peer, np.array(rows)


def _peer_positions(model: Any, state: Any) -> Any:
    """Return positions in our order from rows of MuJoCo's state: time, positions, velocities."""
    import numpy as np

    q = np.array(state[..., 1 : 1 + model.nq])
    for joint in model.joints:
        if joint.kind == "free":
            where = model.slice(joint.name, of="q")
            moved = q[..., where].copy()
            q[..., where] = np.concatenate([moved[..., 3:], moved[..., :3]], axis=-1)
    return q


def _sides(robot: str, method: str, shape: tuple[int, ...], steps: int) -> tuple[Any, Any]:
    """Return our run and MuJoCo's as functions; their ends were compared."""
    import mujoco
    from mujoco import rollout

    import tiburon as tb

    model, (q, v), peer, rows = _free(robot, method, shape)
    model = model.without_passive().without_limits()
    data = mujoco.MjData(peer)
    options = {
        "method": integrator_named(method, dt=STEP),
        "record": tb.Record(every=1),
        "execution": tb.Execution(progress=False),
    }
    if shape:
        options["execution"] = tb.Execution(threads=1, progress=False)

    def ours() -> Any:
        return tb.simulate(model, steps * STEP, q=q, v=v, **options)

    def theirs() -> Any:
        return rollout.rollout(peer, data, rows, nstep=steps)

    # far apart they may be later: both err, and motions part
    first = tb.simulate(model, STEPS * STEP, q=q, v=v, **options).q[-1]
    states, _ = rollout.rollout(peer, data, rows, nstep=STEPS)
    reached = _peer_positions(model, states[:, -1]).reshape(first.shape)
    check_equal(f"{robot}, {method}", first, reached, CLOSE[method])
    return ours, theirs


def _batch(robot: str, method: str, duration: float) -> Figure:
    ours, theirs = _sides(robot, method, (SIZE,), STEPS)
    times = measure({"ours": ours, "peer": theirs}, duration=duration)
    count = SIZE * STEPS
    rate = count / times["ours"].minimum
    return Figure(
        f"{robot}, {method}, {SIZE} cases",
        times["ours"].per(count),
        "mujoco.rollout",
        times["peer"].per(count),
        BATCH[robot, method],
        note=f"time of a step, one thread, all states recorded; {rate:.3g} steps/s",
    )


def _one(robot: str, method: str, duration: float) -> Figure:
    ours, theirs = _sides(robot, method, (), STEPS_OF_ONE)
    times = measure({"ours": ours, "peer": theirs}, duration=duration)
    sides = times["ours"].per(STEPS_OF_ONE), times["peer"].per(STEPS_OF_ONE)
    name = f"{robot}, {method}, one robot"
    return Figure(name, sides[0], "mujoco.rollout", sides[1], ONE[method])


def _water(duration: float) -> Figure:
    """Measure the vehicle with its arm in a current, one core."""
    import numpy as np

    import tiburon as tb

    model = tb.load("tiburon_titan")
    water = tb.Water(1025.0, (0.4, -0.2, 0.1))
    generator = np.random.default_rng(7)
    q = model.integrate(model.neutral(), 0.2 * generator.standard_normal(model.nv))

    def ours(cases: tuple[int, ...] = (), seconds: float = 1.0) -> Any:
        start = np.broadcast_to(q, (*cases, model.nq))
        threads = 1 if cases else None
        return tb.simulate(
            model,
            seconds,
            q=start,
            fluid=water,
            execution=tb.Execution(threads=threads, progress=False),
        )

    if ours().status != "finished":
        raise RuntimeError("tiburon_titan: the run in water did not finish")
    times = measure({"ours": ours}, duration=duration)
    ours((SIZE,), 2 * STEP)
    began = perf_counter()
    ours((SIZE,), STEPS * STEP)
    rate = SIZE * STEPS / (perf_counter() - began)
    factor = 1.0 / times["ours"].minimum
    return Figure(
        "tiburon_titan in water, a second of RK4 at 1 ms",
        times["ours"],
        must=1.0 / REAL_TIME,
        note=f"{factor:.3g} times real time on one core; {SIZE} cases: {rate:.3g} steps/s",
    )


def _calls(duration: float) -> Figure:
    """Measure what a call of a controller costs: runs with and without one."""
    import numpy as np

    import tiburon as tb
    from benchmarks.robots import panda

    model, seconds = panda(), 10.0
    force = np.zeros(model.nv)

    def control(state: Any) -> Any:
        return force

    def ours(**options: Any) -> Callable[[], Any]:
        return lambda: tb.simulate(
            model,
            seconds,
            record=tb.Record(dt=1.0),
            execution=tb.Execution(progress=False),
            **options,
        )

    sides = {"with": ours(control=tb.Sampled(control, dt=0.01)), "without": ours()}
    check_equal("panda", sides["with"]().q, sides["without"]().q, 0.0)
    times = measure(sides, duration=duration)
    calls = round(seconds / 0.01)
    spent = [
        (getattr(times["with"], which) - getattr(times["without"], which)) / calls
        for which in ("minimum", "median")
    ]
    note = "100 Hz over steps of 1 ms; difference of two runs"
    # differences of two sides need not come in the order of the sides
    return Figure("a call of a Python controller", Timing(*sorted(spent)), must=CALL, note=note)


def _peak(call: Callable[[], Any]) -> tuple[Any, float]:
    """Return the result of a call and the most memory that it held [bytes]."""
    tracemalloc.start()
    result = call()
    peak = tracemalloc.get_traced_memory()[1]
    tracemalloc.stop()
    return result, float(peak)


def _memory() -> Figure:
    """Measure a minute at 1 kHz of a robot with 30 DoF, every step recorded."""
    import tiburon as tb
    from benchmarks.robots import chain

    model = chain(30)

    def ours(seconds: float = 60.0) -> Any:
        return tb.simulate(
            model, seconds, record=tb.Record(every=1), execution=tb.Execution(progress=False)
        )

    ours(0.01)
    result, peak = _peak(ours)
    arrays = sum(result.array(key).nbytes for key in ("time", "q", "v", "u"))
    note = f"recorded arrays: {arrays / 1e6:.4g} MB"
    name = "a minute of 30 DoF at 1 kHz"
    return Figure(name, Timing(peak, peak), must=MEMORY * arrays, unit="B", note=note)


def _stream() -> Figure:
    """Measure a batch that goes to disk while it runs."""
    import tiburon as tb
    from benchmarks.robots import panda

    model, steps = panda(), 1000

    def ours(path: str, steps: int = steps) -> Any:
        start = [[0.1] * model.nq] * SIZE
        return tb.simulate(
            model,
            steps * STEP,
            q=start,
            record=tb.Record(every=1, store=path),
            execution=tb.Execution(threads=1, progress=False),
        )

    with tempfile.TemporaryDirectory() as directory:
        ours(str(Path(directory) / "first.zarr"), 2)
        result, peak = _peak(lambda: ours(str(Path(directory) / "run.zarr")))
        whole = len(result.time) * result.header.row_bytes
    note = f"{whole / 1e9:.3g} GB of rows went to disk; what is held does not grow with them"
    return Figure(
        f"panda, {SIZE} cases, streamed", Timing(peak, peak), must=STREAM, unit="B", note=note
    )


MEASUREMENT = Measurement("simulation", "Runs over time", run, place=15)
