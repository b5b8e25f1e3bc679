"""Closed mechanisms: constrained forward dynamics against Pinocchio, and growth."""

from collections.abc import Iterator

import numpy as np
from numpy.typing import NDArray

from benchmarks.figure import Accuracy, Figure, Measurement, check_equal
from benchmarks.timing import measure

Array = NDArray[np.float64]

MUSTS = {
    "four_bar": (6.0, 40.0),
    "planar_3rrr": (6.0, 40.0),
    "stewart": (4.0, 25.0),
    "two_pumas": (8.0, 20.0),
    "four_pumas": (8.0, 28.0),
}
"""Ratio that one call and a batch must reach."""

SIZE = 4096
"""Cases of a batch."""

AGREED = 1e-8
"""Largest difference, relative: Pinocchio's constraints give way by 1e-10 of a force."""

GROWTH_MUST = 12.0
"""Most that ten times the four-bars may cost."""

FEW, MANY = 20, 200

ARMS_MUST = 4.6
"""Most that four times the arms on a load may cost."""

FEW_ARMS, MANY_ARMS = 4, 16

CLOSURE_MUST = 0.85
"""Least time without the check of closed loops, relative to that with it."""


def run(duration: float) -> Iterator[Figure]:
    """Measure single calls, batches, and a row of four-bars.

    Args:
        duration: Time to spend on each side [s].
    """
    for name, musts in MUSTS.items():
        yield from _against_pinocchio(name, musts, duration)
    yield _growth(duration)
    yield _arms(duration)
    yield from _under_water(duration)
    for name in ("planar_3rrr", "stewart"):
        yield from _by_method(name, duration)
        yield _check_of_closure(name, duration)


def _against_pinocchio(name: str, musts: tuple[float, float], duration: float) -> list[Figure]:
    import tiburon as tb
    from benchmarks.mechanisms import closed_state, depth_first
    from benchmarks.pinocchio_peer import (
        PinocchioLoops,
        build_pinocchio,
        q_to_pinocchio,
        v_to_pinocchio,
    )

    model = depth_first(tb.load(name))
    state = closed_state(model)
    kernel = tb.compile(tb.forward_dynamics, model)
    q, v, tau = state
    theirs = (q_to_pinocchio(model, q), v_to_pinocchio(model, v), v_to_pinocchio(model, tau))
    loops = PinocchioLoops(model, build_pinocchio(model))
    peer_call = (*loops.call, *theirs, *loops.rest)
    ours = kernel(*state)
    expected = v_to_pinocchio(model, np.array(peer_call[0](*peer_call[1:])))
    check_equal(name, ours, expected, AGREED)
    kept = Accuracy(float(tb.loop_dynamics(model, *state).residual), "m/s^2")
    # constraints are linear in accelerations: what the peer leaves, it leaves beyond ours
    beyond = np.abs(tb.loop_jacobian(model, q) @ (expected - ours)).max()
    peer_kept = Accuracy(kept.residual + float(beyond), "m/s^2")
    batch = [np.tile(x, (SIZE, 1)) for x in state]
    check_equal(f"{name}, batch", kernel(*batch, threads=1)[-1], ours, 0.0)

    def many() -> None:
        kernel(*batch, threads=1)

    times = measure(
        {"ours": (kernel, *state), "peer": peer_call, "many": (many,)}, duration=duration
    )
    note = "closed mechanisms: batches on one thread; constraint residual: the largest acceleration"
    note += " across a constraint"
    sides = {"one call": times["ours"], f"batch of {SIZE}, per state": times["many"].per(SIZE)}
    return [
        Figure(
            f"{name}, {what}",
            time,
            "pin.constraintDynamics",
            times["peer"],
            must,
            note=note,
            accuracy=kept,
            peer_accuracy=peer_kept,
        )
        for (what, time), must in zip(sides.items(), musts, strict=True)
    ]


def _growth(duration: float) -> Figure:
    import tiburon as tb
    from benchmarks.mechanisms import four_bar_state
    from tiburon.zoo import n_four_bar

    calls = {}
    for bars in (FEW, MANY):
        model = n_four_bar(bars)
        q, v = four_bar_state(bars)
        kernel = tb.compile(tb.forward_dynamics, model)
        found = kernel(q, v, np.zeros(model.nv))
        # all rods move alike, whatever their number: one degree of freedom
        check_equal(model.name, found, np.sign(q) * found[0], AGREED)
        uprights, couplers = found[: bars + 1], found[bars + 1 :]
        # arms of 1 m, alike in speed: tips part as uprights do, and as couplers leave the level
        left = max(np.abs(np.diff(uprights)).max(), np.abs(uprights[:-1] + couplers).max())
        calls[str(bars)] = (kernel, q, v, np.zeros(model.nv))
    times = measure(calls, duration=duration)
    ratio = times[str(MANY)].minimum / times[str(FEW)].minimum
    verdict = "within" if ratio <= GROWTH_MUST else "ABOVE"
    note = (
        f"{MANY} four-bars take {ratio:.1f} times the time of {FEW}, {verdict} the bound of "
        f"{GROWTH_MUST:g}"
    )
    kept = Accuracy(float(left), "m/s^2")
    return Figure(f"row of {MANY} four-bars, one call", times[str(MANY)], note=note, accuracy=kept)


def _arms(duration: float) -> Figure:
    import tiburon as tb
    from benchmarks.mechanisms import arms_on_load, closed_state

    calls, left = {}, 0.0
    for count in (FEW_ARMS, MANY_ARMS):
        model, _ = arms_on_load(count)
        state = closed_state(model)
        kernel = tb.compile(tb.forward_dynamics, model)
        expected = tb.forward_dynamics(model, *state, method="handles")
        check_equal(model.name, kernel(*state), expected, AGREED)
        left = max(left, float(tb.loop_dynamics(model, *state).residual))
        calls[str(count)] = (kernel, *state)
    times = measure(calls, duration=duration)
    ratio = times[str(MANY_ARMS)].minimum / times[str(FEW_ARMS)].minimum
    verdict = "within" if ratio <= ARMS_MUST else "ABOVE"
    note = (
        f"{MANY_ARMS} arms on a load take {ratio:.1f} times the time of {FEW_ARMS}, {verdict} the "
        f"bound of {ARMS_MUST:g}"
    )
    kept = Accuracy(left, "m/s^2")
    return Figure(
        f"{MANY_ARMS} arms on a load, one call", times[str(MANY_ARMS)], note=note, accuracy=kept
    )


def _under_water(duration: float) -> list[Figure]:
    import tiburon as tb
    from benchmarks.mechanisms import closed_state, robot_with_bar

    model, sea = robot_with_bar(), tb.Water(1025.0, (0.4, -0.2, 0.1))
    state = closed_state(model)

    def dynamics(robot: tb.Model, q: Array, v: Array, tau: Array) -> Array:
        return tb.forward_dynamics(robot, q, v, tau, fluid=sea)

    kernel = tb.compile(dynamics, model, world=tb.World(fluid=sea))
    expected = tb.forward_dynamics(model, *state, fluid=sea, method="augmented")
    check_equal(model.name, kernel(*state), expected, AGREED)
    kept = Accuracy(float(tb.loop_dynamics(model, *state, fluid=sea).residual), "m/s^2")
    batch = [np.tile(x, (SIZE, 1)) for x in state]

    def many() -> None:
        kernel(*batch, threads=1)

    times = measure({"one": (kernel, *state), "many": (many,)}, duration=duration)
    sides = {"one call": times["one"], f"batch of {SIZE}, per state": times["many"].per(SIZE)}
    return [Figure(f"{model.name}, {what}", time, accuracy=kept) for what, time in sides.items()]


def _by_method(name: str, duration: float) -> list[Figure]:
    import tiburon as tb
    from benchmarks.mechanisms import closed_state

    model = tb.load(name)
    state = closed_state(model)
    calls, kept = {}, {}
    for method in ("star", "augmented", "handles", "proximal"):

        def dynamics(robot: tb.Model, q: Array, v: Array, tau: Array, how: str = method) -> Array:
            return tb.forward_dynamics(robot, q, v, tau, method=how)

        def of_three(robot: tb.Model, q: Array, v: Array, tau: Array) -> Array:
            return dynamics(robot, q, v, tau)

        kernel = tb.compile(of_three, model)
        answer = tb.loop_dynamics(model, *state, method=method)
        check_equal(f"{name}, {method}", kernel(*state), answer.acceleration, AGREED)
        kept[method] = Accuracy(float(answer.residual), "m/s^2")
        calls[method] = (kernel, *state)
    times = measure(calls, duration=duration)
    return [
        Figure(f'{name}, method="{method}", one call', times[method], accuracy=kept[method])
        for method in calls
    ]


def _check_of_closure(name: str, duration: float) -> Figure:
    import tiburon as tb
    from benchmarks.mechanisms import closed_state

    model = tb.load(name)
    state = closed_state(model)
    kernels = {on: tb.compile(tb.forward_dynamics, model, closure=on) for on in (True, False)}
    check_equal(name, kernels[True](*state), kernels[False](*state), 0.0)
    times = measure({str(on): (kernels[on], *state) for on in kernels}, duration=duration)
    return Figure(
        f"{name}, with the check of closed loops, one call",
        times["True"],
        "the same without it",
        times["False"],
        CLOSURE_MUST,
    )


MEASUREMENT = Measurement("loops", "Closed mechanisms: forward dynamics with loops", run, place=16)
