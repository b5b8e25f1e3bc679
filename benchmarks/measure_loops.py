"""Closed mechanisms: constrained forward dynamics against Pinocchio, growth, and runs over time."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import Timing, measure

Array = NDArray[np.float64]

MUSTS = {"four_bar": (6.0, 40.0), "planar_3rrr": (6.0, 40.0), "stewart": (4.0, 25.0)}
"""Ratio that one call and a batch must reach."""

SIZE = 4096
"""Cases of a batch."""

AGREED = 1e-8
"""Largest difference, relative: Pinocchio's constraints give way by 1e-10 of a force."""

GROWTH_MUST = 12.0
"""Most that ten times the four-bars may cost."""

FEW, MANY = 20, 200

DURATION, STEP = 10.0, 1e-3
"""Of runs over time [s]."""


def run(duration: float) -> list[Figure]:
    """Measure single calls, batches, a row of four-bars, and runs over 10 s.

    Args:
        duration: Time to spend on each side [s].
    """
    figures = []
    for name, musts in MUSTS.items():
        figures += _against_pinocchio(name, musts, duration)
    figures.append(_growth(duration))
    figures += [_over_time(name) for name in ("four_bar", "stewart")]
    return figures


def closed_state(model: Any, seed: int = 5) -> tuple[Array, Array, Array]:
    """Return a moving state that keeps loops closed, and joint forces."""
    import tiburon as tb

    rng = np.random.default_rng(seed)
    start = model.poses.get("home", model.neutral())
    near = model.integrate(start, 0.05 * rng.standard_normal(model.nv))
    q = tb.close_loops(model, near).q
    v = tb.keep_loops_closed(model, q, rng.standard_normal(model.nv))
    return q, v, rng.standard_normal(model.nv)


def _against_pinocchio(name: str, musts: tuple[float, float], duration: float) -> list[Figure]:
    import tiburon as tb
    from benchmarks.mechanisms import depth_first
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
    batch = [np.tile(x, (SIZE, 1)) for x in state]
    check_equal(f"{name}, batch", kernel(*batch, threads=1)[-1], ours, 0.0)

    def many() -> None:
        kernel(*batch, threads=1)

    times = measure(
        {"ours": (kernel, *state), "peer": peer_call, "many": (many,)}, duration=duration
    )
    left = tb.loop_dynamics(model, *state).residual
    note = f"{name}: constraints left at {float(left):.1e} m/s^2; batches: one thread"
    peer = "pin.constraintDynamics"
    return [
        Figure(f"{name}, one call", times["ours"], peer, times["peer"], musts[0], note=note),
        Figure(
            f"{name}, batch of {SIZE}, per state",
            times["many"].per(SIZE),
            peer,
            times["peer"],
            musts[1],
            note=note,
        ),
    ]


def _growth(duration: float) -> Figure:
    import tiburon as tb
    from benchmarks.mechanisms import four_bar_state, four_bars

    calls = {}
    for bars in (FEW, MANY):
        model = four_bars(bars)
        q, v = four_bar_state(bars)
        kernel = tb.compile(tb.forward_dynamics, model)
        found = kernel(q, v, np.zeros(model.nv))
        # all rods move alike, whatever their number: one freedom
        check_equal(model.name, found, np.sign(q) * found[0], AGREED)
        calls[str(bars)] = (kernel, q, v, np.zeros(model.nv))
    times = measure(calls, duration=duration)
    ratio = times[str(MANY)].minimum / times[str(FEW)].minimum
    verdict = "within" if ratio <= GROWTH_MUST else "ABOVE"
    note = (
        f"{MANY} four-bars take {ratio:.1f} times the time of {FEW}, {verdict} the bound of "
        f"{GROWTH_MUST:g}"
    )
    return Figure(f"row of {MANY} four-bars, one call", times[str(MANY)], note=note)


def _over_time(name: str) -> Figure:
    """Run for 10 s at 1 ms; tell what is left of loops and energy beside the time of a step."""
    from time import perf_counter

    import tiburon as tb

    model = tb.load(name)
    q, v, _ = closed_state(model)
    if name == "stewart":
        # without motors the platform would fall through its legs: it only turns about, weightless
        world = tb.World(gravity=(0.0, 0.0, 0.0))
        v = 0.1 * v
    else:
        world = tb.World()
    # friction and stops of joints would take energy out
    kept: dict[str, Any] = {"duration": DURATION, "dt": STEP, "world": world, "q": q, "v": v}
    kept |= {"passive": False, "limits": False}
    tb.simulate(model, **{**kept, "duration": 10 * STEP})
    start = perf_counter()
    ran = tb.simulate(model, **kept)
    seconds = (perf_counter() - start) / round(DURATION / STEP)
    gap = np.abs(tb.loop_gaps(model, ran.q)).max()
    energy = _energy(model, world, ran.q, ran.v)
    scale = np.abs(_kinetic(model, ran.q, ran.v)).max()
    drift = np.abs(energy - energy[0]).max() / scale
    note = f"{name}, {DURATION:g} s at {STEP:g} s: gap {gap:.1e} m, energy error {drift:.1e}"
    return Figure(f"{name}, step of a run", Timing(seconds, seconds), note=note)


def _kinetic(model: Any, q: Array, v: Array) -> Array:
    import tiburon as tb

    return tb.kinetic_energy(model, q, v)


def _energy(model: Any, world: Any, q: Array, v: Array) -> Array:
    import tiburon as tb

    potential: Array = tb.potential_energy(model, q, world=world)
    return _kinetic(model, q, v) + potential


MEASUREMENT = Measurement("loops", "Closed mechanisms", run, place=16)
