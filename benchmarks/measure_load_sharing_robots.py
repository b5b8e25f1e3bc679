"""Load sharing of whole robots: from positions, velocities and accelerations to torques.

A quadruped against Pinocchio's dynamics, matrices in NumPy and the solver daqp; exact friction
cones against pyramids and Clarabel; pyramids of more and more sides; a humanoid on two flat feet
and a hand; the first call, with and without its code in the cache, and working memory.
"""

from collections.abc import Iterator
from tempfile import TemporaryDirectory
from typing import Any

import numpy as np

from benchmarks.figure import Figure, Measurement, MeasurementError, check_equal
from benchmarks.timing import Timing, measure

STEPS, SIZE = 200, 4096
"""Consecutive states of a motion, and states of a batch."""

FRICTION, SIDES = 0.6, 8
ONE, BATCH = 10.0, 40.0
CONE, CLARABEL = 3.0, 20.0
GROWTH = 1.5
MANY_SIDES = (4, 16, 64)
HUMANOID, HUMANOID_AIM = 1.0 / 20e3, 1.0 / 50e3
COLD, CACHED, MEMORY = 2.0, 10e-3, 40e3
ROUND_OFF = 1e-8
"""Largest difference of solutions, relative to the largest number."""

INTERIOR = 1e-6
"""The same against an interior-point method: square root of its gap."""


def run(duration: float) -> Iterator[Figure]:
    """Measure all rows.

    Args:
        duration: Time to spend on each side [s].
    """
    yield from _quadruped(duration)
    yield from _cones(duration)
    yield from _sides(duration)
    yield from _humanoid(duration)
    yield from _first_calls(duration)
    yield from _memory()


def _trot(model: Any) -> tuple[Any, ...]:
    """Return states of a standing quadruped whose trunk is to be accelerated to its limits."""
    random = np.random.default_rng(0)
    turn = 2.0 * np.pi * np.arange(STEPS) / STEPS
    q = np.tile(np.array(model.poses["stand"]), (STEPS, 1))
    q[:, 7:] += 0.05 * np.sin(turn[:, None] + np.arange(12))
    v = 0.1 * random.standard_normal((STEPS, model.nv))
    vd = np.zeros((STEPS, model.nv))
    vd[:, 0:2] = 4.0 * np.c_[np.sin(turn), np.cos(2 * turn)]
    vd[:, 3:6] = np.c_[4.2 * np.cos(turn), 3.0 * np.sin(2 * turn), 0.5 * np.sin(turn)]
    return q, v, vd


def _repeated(states: tuple[Any, ...]) -> list[Any]:
    return [np.resize(array, (SIZE, *array.shape[1:])) for array in states]


def _typical(share: Any) -> int:
    """Return the case with the median number of active limits."""
    active = np.sum(share.multipliers > 0.0, axis=-1)
    return int(np.argsort(active, kind="stable")[STEPS // 2])


def _quadruped(duration: float) -> Iterator[Figure]:
    import tiburon as tb
    from benchmarks.load_sharing_peer import LegsPeer
    from benchmarks.pinocchio_peer import q_to_pinocchio, v_to_pinocchio

    dog = tb.load("quadruped")
    states = _trot(dog)
    plan = tb.LoadSharing.of(dog, friction=FRICTION, sides=SIDES)
    peer = LegsPeer(dog, FRICTION, SIDES)
    theirs = [
        q_to_pinocchio(dog, states[0]),
        *(v_to_pinocchio(dog, array) for array in states[1:]),
    ]
    share = plan.share(*states)
    for k in range(STEPS):
        tau, forces, margins, spare = peer.share(*(array[k] for array in theirs))
        check_equal("torques", share.tau[k], v_to_pinocchio(dog, tau), ROUND_OFF)
        check_equal("forces", share.forces[k], forces, ROUND_OFF)
        check_equal("friction margins", share.margins.friction[k], margins, ROUND_OFF)
        check_equal("torque margins", share.margins.torque[k], spare, ROUND_OFF)
    active = np.sum(share.multipliers > 0.0, axis=-1).mean()
    k = _typical(share)
    one, other = ([np.ascontiguousarray(a[k]) for a in rows] for rows in (states, theirs))
    times = measure({"ours": (plan.share, *one), "peer": (peer.share, *other)}, duration=duration)
    name = "Pinocchio, NumPy and daqp"
    yield Figure(
        "quadruped, q, v, vd to torques and margins, one call",
        times["ours"],
        name,
        times["peer"],
        ONE,
        note=f"{active:.1f} of 60 limits active on average; both sides include the dynamics",
    )
    many = _repeated(states)

    def loop() -> None:
        for row in zip(*theirs, strict=True):
            peer.share(*row)

    with _one_thread():
        times = measure({"ours": (plan.share, *many), "peer": loop}, duration=duration)
    yield Figure(
        f"quadruped, q, v, vd to torques and margins, {SIZE} cases, one thread",
        times["ours"].per(SIZE),
        name,
        times["peer"].per(STEPS),
        BATCH,
    )


def _cones(duration: float) -> Iterator[Figure]:
    import tiburon as tb
    from benchmarks.load_sharing_peer import ConePeer, LegsPeer
    from benchmarks.pinocchio_peer import q_to_pinocchio, v_to_pinocchio

    try:
        peer = ConePeer(FRICTION, 4)
    except ImportError as error:
        raise MeasurementError("needs clarabel: pip install clarabel") from error
    dog = tb.load("quadruped")
    states = _trot(dog)
    cone, pyramid = (
        tb.LoadSharing.of(dog, friction=FRICTION, **options) for options in ({}, {"sides": SIDES})
    )
    legs = LegsPeer(dog, FRICTION, None)
    rows = zip(
        q_to_pinocchio(dog, states[0]),
        *(v_to_pinocchio(dog, array) for array in states[1:]),
        strict=True,
    )
    given = [peer.prepared(legs.build(*row)[0]) for row in rows]
    share = cone.share(*states)
    for k in range(STEPS):
        check_equal(
            "forces", share.forces[k].ravel(), peer.solve(given[k], accurate=True), INTERIOR
        )
    k, many = _typical(share), _repeated(states)
    one = [np.ascontiguousarray(array[k]) for array in states]
    with _one_thread():
        times = measure(
            {
                "cone": (cone.share, *many),
                "pyramid": (pyramid.share, *many),
                "cone, one": (cone.share, *one),
                "pyramid, one": (pyramid.share, *one),
                "clarabel": lambda: peer.solve(given[k]),
            },
            duration=duration,
        )
    yield Figure(
        f"quadruped, exact friction cones, {SIZE} cases, one thread",
        times["cone"].per(SIZE),
        f"pyramids of {SIDES} sides",
        times["pyramid"].per(SIZE),
        1.0 / CONE,
    )
    yield Figure(
        "quadruped, exact friction cones, one call",
        times["cone, one"],
        f"pyramids of {SIDES} sides",
        times["pyramid, one"],
        1.0 / CONE,
    )
    note = "Clarabel gets finished matrices, its solver is set up in the call; ours has dynamics"
    for what, ours in (
        ("one call", times["cone, one"]),
        ("4096 cases, one thread", times["cone"].per(SIZE)),
    ):
        yield Figure(
            f"quadruped, exact friction cones, {what}",
            ours,
            "Clarabel, solve alone",
            times["clarabel"],
            CLARABEL,
            note=note,
        )


def _sides(duration: float) -> Iterator[Figure]:
    """Measure whole calls, and the part of the active set: the solver on finished matrices."""
    import tiburon as tb

    dog = tb.load("quadruped")
    many = _repeated(_trot(dog))
    plans = {
        sides: tb.LoadSharing.of(dog, friction=FRICTION, sides=sides, torque_limits=False)
        for sides in MANY_SIDES
    }
    iterations = {sides: plan.share(*many).iterations.mean() for sides, plan in plans.items()}
    with _one_thread():
        times = measure(
            {str(sides): (plan.share, *many) for sides, plan in plans.items()}, duration=duration
        )
    least = MANY_SIDES[0]
    for sides in MANY_SIDES[1:]:
        yield Figure(
            f"quadruped, pyramids of {sides} sides, {SIZE} cases, one thread",
            times[str(sides)].per(SIZE),
            f"pyramids of {least} sides",
            times[str(least)].per(SIZE),
            note=f"{iterations[sides]:.2f} iterations on average, {iterations[least]:.2f} with "
            f"{least} sides; the whole call counts, with the dynamics",
        )
    yield from _sides_alone(dog, duration)


def _sides_alone(dog: Any, duration: float) -> Iterator[Figure]:
    """Measure the solver on finished matrices."""
    import tiburon as tb
    from tiburon.trace import solve_qp

    plan = tb.LoadSharing.of(dog, friction=FRICTION, torque_limits=False)
    problem = plan.problem(*_trot(dog))
    weights = np.array([np.diag(W) for W in problem.W])
    many = _repeated((weights, problem.A1, problem.b1))
    n = len(plan.names)
    feet = [(k, k + 1, k + 2) for k in range(0, n, 3)]

    def solver(sides: int) -> Any:
        mu = FRICTION * float(np.cos(np.pi / sides))
        push = np.eye(n)[2::3]

        def solve(weight: Any, A1: Any, b1: Any) -> Any:
            W = [[weight[i] if i == j else 0.0 for j in range(n)] for i in range(n)]
            found = solve_qp(
                *(W, np.zeros(n), A1, b1, push, np.zeros(len(push))),
                cones=feet,
                mu=[mu] * len(feet),
                sides=sides,
            )
            return {"x": found.x, "iterations": found.iterations}

        shapes = {"weight": (n,), "A1": problem.A1.shape[1:], "b1": problem.b1.shape[1:]}
        return tb.compile(solve, shapes=shapes, name=f"pyramids_{sides}")

    solvers = {sides: solver(sides) for sides in MANY_SIDES}
    iterations = {sides: kernel(*many)[1].mean() for sides, kernel in solvers.items()}
    with _one_thread():
        times = measure(
            {str(sides): (kernel, *many) for sides, kernel in solvers.items()}, duration=duration
        )
    least = MANY_SIDES[0]
    for sides in MANY_SIDES[1:]:
        yield Figure(
            f"quadruped, solver alone, pyramids of {sides} sides, {SIZE} cases, one thread",
            times[str(sides)].per(SIZE),
            f"pyramids of {least} sides",
            times[str(least)].per(SIZE),
            1.0 / GROWTH if sides == MANY_SIDES[-1] else None,
            note=f"{iterations[sides]:.2f} iterations on average, {iterations[least]:.2f} with "
            f"{least} sides",
        )


def humanoid() -> tuple[Any, Any]:
    """Return the humanoid on two flat feet and a hand, and how it shares its load.

    Sizes of feet, torque limits and friction are ours.
    """
    import tiburon as tb
    from benchmarks.robots import ROBOTS

    bare = ROBOTS["humanoid"]()
    joints = [joint.name for joint in bare.joints if joint.name != "pelvis_joint"]
    strong = ("hip", "knee", "ankle", "waist")
    actuators = []
    for name in joints:
        most = 150.0 if any(word in name for word in strong) else 40.0
        actuators.append(tb.Actuator(f"{name}_motor", name, force_limits=(-most, most)))
    model = tb.Model(bare.name, bodies=bare.bodies, actuators=actuators)
    sites = [
        tb.ContactSite(
            f"{side}_sole",
            f"{side}_ankle_roll_link",
            0.7,
            point=(0.03, 0.0, -0.08),
            half_size=(0.11, 0.05),
            torsion=0.04,
        )
        for side in ("left", "right")
    ]
    sites.append(
        tb.ContactSite("right_hand", "right_wrist_roll_link", 0.6, point=(0.0, 0.0, -0.08))
    )
    return model, tb.LoadSharing.of(model, sites=sites, sides=4)


def _humanoid(duration: float) -> Iterator[Figure]:
    model, plan = humanoid()
    random = np.random.default_rng(1)
    turn = 2.0 * np.pi * np.arange(STEPS) / STEPS
    q = np.zeros((STEPS, model.nq))
    q[:, 0] = 1.0
    q[:, 7:] = 0.1 * np.sin(turn[:, None] + np.arange(model.nq - 7))
    v = 0.1 * random.standard_normal((STEPS, model.nv))
    vd = np.zeros((STEPS, model.nv))
    vd[:, 3:5] = np.c_[1.5 * np.cos(turn), 1.0 * np.sin(2 * turn)]
    share = plan.share(q, v, vd)
    if not share.is_feasible.all():
        raise MeasurementError(f"humanoid: statuses {sorted(set(share.status.tolist()))}")
    problem = plan.problem(q, v, vd)
    residual = np.einsum("kij,kj->ki", problem.A1, share.x) - problem.b1
    slack = np.einsum("kij,kj->ki", problem.A2, share.x) - problem.b2
    if np.abs(residual).max() > 1e-7 or slack.min() < -1e-7:
        raise MeasurementError("humanoid: forces do not produce the motion")
    active = np.sum(share.multipliers > 0.0, axis=-1).mean()
    many = _repeated((q, v, vd))
    with _one_thread():
        times = measure({"ours": (plan.share, *many)}, duration=duration)
    yield Figure(
        f"humanoid, {model.nv} DoF, two flat feet and a hand, {SIZE} cases, one thread",
        times["ours"].per(SIZE),
        must=HUMANOID,
        aim=HUMANOID_AIM,
        note=f"{share.x.shape[-1]} unknowns, {share.multipliers.shape[-1]} limits, {active:.1f} "
        "active on average",
    )


def _first_calls(duration: float) -> Iterator[Figure]:
    from benchmarks.fresh_process import repeats, run_fresh

    off = {"TIBURON_CACHE_DIR": "off", "TIBURON_COMPILER": "tiered"}
    cold = [run_fresh("share-load", environment=off) for _ in range(repeats(duration))]
    yield Figure(
        "quadruped, first call, nothing in the cache",
        Timing.of([one["processor"] for one in cold]),
        must=COLD,
        note="processor time of tracing and compiling; imports are done before",
    )
    with TemporaryDirectory(prefix="tiburon-bench-") as directory:
        own = {"TIBURON_CACHE_DIR": directory}
        run_fresh("share-load", environment=own)
        modules = ",".join(run_fresh("share-load", environment=own)["modules"])
        found = [
            run_fresh("share-load", modules, environment=own) for _ in range(repeats(duration))
        ]
    yield Figure(
        "quadruped, first call, code from the cache",
        Timing.of([one["seconds"] for one in found]),
        must=CACHED,
        note="from a plan in hand to the result; imports are done before",
    )


def _memory() -> Iterator[Figure]:
    import tiburon as tb
    from tiburon.functions.kernel_source import LibrarySource
    from tiburon.native.engine import optimized_assembly
    from tiburon.native.module import stack_bytes, write_module

    plan = tb.LoadSharing.of(tb.load("quadruped"), friction=FRICTION, sides=4)
    source = LibrarySource(plan.model, ("shared_load",), plan.world, plan._options)
    for part, what in (("one", "one call"), ("many", "a batch")):
        text = optimized_assembly(write_module(source.program(), part).text)
        size = float(stack_bytes(text))
        yield Figure(
            f"quadruped, working memory of a thread, {what}",
            Timing(size, size),
            must=MEMORY,
            unit="B",
            note="arrays on the stack, all functions counted as active at once",
        )


class _one_thread:
    """Run kernels on the thread of the caller."""

    def __enter__(self) -> None:
        import os

        self._before = os.environ.get("TIBURON_THREADS")
        os.environ["TIBURON_THREADS"] = "1"

    def __exit__(self, *_: object) -> None:
        import os

        if self._before is None:
            del os.environ["TIBURON_THREADS"]
        else:
            os.environ["TIBURON_THREADS"] = self._before


MEASUREMENT = Measurement(
    "load-sharing-robots", "Load sharing of robots, time of a state", run, place=22
)
