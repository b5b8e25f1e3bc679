"""Whether energy is accounted for where motors drive, friction brakes and water resists.

Symbols:
    h       step of a run, and distance of its rows [s]
    e_h     energy that is not accounted for at each row of such a run, by all that flows

Forces are continuous functions of the state, so that powers are continuous in time, with kinks
where a stop is met or a joint turns round. Their sum over rows by the trapezoidal rule is then of
order 2: e_h = e + c h^2 + ..., where e is what no step can take away. Two runs with steps h and h/2
give e to the next order, e_h/2 + (e_h/2 - e_h) / 3 (Richardson's extrapolation: Hairer, Norsett and
Wanner 1993, "Solving ordinary differential equations I", sec. II.9), and a bound for its error that
also holds where kinks fall so that the order is 1 only: |e_h/2 - e_h|. The balance fails if e is
larger than this and than rounding. Steps are halved until the bound is small: a robot whose light
links crash into stops within a step is of order 1 all the way, and its bound stays larger.
"""

from collections.abc import Iterator
from typing import NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.checks.conservation import DURATION, ended_early, loops_stay_closed, run_of
from tiburon.checks.energy_flow import EnergyFlow, energy_flow
from tiburon.checks.finding import FAILED, LOOK, PASSED, SKIPPED, Finding, judged
from tiburon.checks.kicked import Kicked
from tiburon.functions.momentum_energy import kinetic_energy, potential_energy
from tiburon.model import Model, World
from tiburon.results.trajectory import Trajectory

__all__ = ["power_balance"]

Array = NDArray[np.float64]

KNOWN = 1e-4
"""The bound is small if it is below this part of all energy that flows."""

COARSE = 1e-2
"""A bound above this tells nothing: a percent of the energy could be missing unseen."""

MOST_ROWS = 50_000
"""Steps are halved until the bound is small, or a run has more rows than this."""

ENOUGH = 40
"""Rows of a run from which on its energy can be followed."""

COMMAND = 0.3
"""Given to motors and thrusters, each in its own unit."""

SIGN = 1e-9
"""Energy that what only takes may give by rounding, by the largest that flows in a row: powers of
water are differences of two forces, exact to 1e-12 of them."""


class _Account(NamedTuple):
    """What a run leaves open."""

    error: Array
    """e_h at each row."""

    floor: float
    """What rounding may leave."""


def power_balance(model: Model, world: World, states: Kicked, dt: float) -> Iterator[Finding]:
    """Check that work of all that acts is what is stored and what water takes.

    Motors and thrusters are commanded; friction, springs and stops act.

    Args:
        model: The robot.
        world: Its surroundings; still water.
        states: The first is the start.
        dt: Longest step [s].
    """
    name = "power balance"
    if model.plan.depends_on_time:
        yield Finding(name, SKIPPED, "joints are driven by time, which does work")
        return
    names = [part.name for part in model.actuators] + [part.name for part in model.thrusters]
    command = dict.fromkeys(names, COMMAND) or None
    run = run_of(model, states, dt, world, command=command)
    bad = ended_early(name, run)
    end = None
    if bad is not None:
        # loops may lead a robot that is kicked at random to where they cannot follow
        if not model.loops or len(run) < ENOUGH:
            yield bad
            return
        yield Finding("run with all that acts", LOOK, f"{bad.text}; half of it is balanced")
        # the last rows before the end are far from any motion
        end = 0.5 * run.outcome.time
        run = run.part(stop=end)
    flow = energy_flow(run)
    text = (
        f"{flow.driven[-1]:.3g} J of work by {len(run.header.elements)} elements, "
        f"{flow.stored[-1]:.3g} J stored, {flow.lost[-1]:.3g} J taken by water"
    )
    coarse, h = _account(run, flow), dt
    finding = Finding(name, FAILED, text, bound=1.0)
    while not _is_known(finding) and DURATION / h <= 0.5 * MOST_ROWS:
        h *= 0.5
        whole = run_of(model, states, h, world, command=command)
        last = whole.outcome
        if last.status != "finished" and (end is None or last.time < end):
            # its few rows would agree with the first ones of any run
            verdict = LOOK if model.loops else FAILED
            yield Finding(name, verdict, f"steps of {1e3 * h:.3g} ms ended early: {last.message}")
            return
        finer = whole.part(stop=end)
        fine = _account(finer, energy_flow(finer))
        finding = _verdict(name, coarse, fine, f"{text}; steps of {1e3 * h:.3g} ms")
        coarse = fine
    yield finding
    yield from _losses(run, flow)
    if model.loops:
        yield loops_stay_closed(model, run)


def _is_known(finding: Finding) -> bool:
    """Return whether shorter steps would not tell more."""
    return finding.verdict == PASSED and finding.bound is not None and finding.bound <= KNOWN


def _verdict(name: str, coarse: _Account, fine: _Account, text: str) -> Finding:
    """Judge two runs, of which one has steps half as long."""
    both = min(len(coarse.error), (len(fine.error) + 1) // 2)
    before, after = coarse.error[:both], fine.error[::2][:both]
    change = after - before
    left = float(np.abs(after + change / 3.0).max())
    bound = float(np.abs(change).max()) + fine.floor
    text = (
        f"{text} leave {np.abs(after).max():.1e} of all that flows open, twice as long ones "
        f"{np.abs(before).max():.1e}; in the limit {left:.1e}"
    )
    found = judged(name, left, bound, text)
    if found.verdict == PASSED and bound > COARSE:
        return Finding(name, LOOK, f"{text}: not known well enough to tell", left, bound)
    return found


def _account(run: Trajectory, flow: EnergyFlow) -> _Account:
    """Return the energy that is not accounted for, by the largest that flowed or moved."""
    kinetic = np.abs(np.asarray(kinetic_energy(run.model, run.q, run.v, fluid=run.world.fluid)))
    potential = np.abs(np.asarray(potential_energy(run.model, run.q, world=run.world)))
    flows = max(float(np.abs(part).max()) for part in flow)
    scale = max(flows, float(kinetic.max()), float(np.finfo(np.float64).tiny))
    # sums of as many numbers as there are rows, and differences of energies
    eps = float(np.finfo(np.float64).eps)
    floor = eps * (len(run) * flows + 100.0 * float((kinetic + potential).max())) / scale
    return _Account((flow.driven - flow.stored - flow.lost) / scale, floor)


def _losses(run: Trajectory, flow: EnergyFlow) -> Iterator[Finding]:
    """Yield whether what only takes energy never gives any: water at rest, friction, heat."""
    most = max(float(np.abs(np.diff(part)).max()) for part in flow)
    given: dict[str, float] = {}
    if np.any(flow.lost):
        given["water"] = -float(np.diff(flow.lost).min()) / most
    system = run.system
    assert system is not None
    dt = float(run.time[1] - run.time[0])
    for output in system.output_names:
        if output.endswith(".loss"):
            power = np.asarray(run.get(output).values)
            largest = max(most, dt * float(np.abs(power).max()), float(np.finfo(np.float64).tiny))
            given[output.removesuffix(".loss")] = -dt * float(power.min()) / largest
    if given:
        worst = max(given, key=lambda name: given[name])
        text = f"energy that {', '.join(map(repr, given))} gave in a row, most by {worst!r}"
        yield judged("losses", max(given[worst], 0.0), SIGN, text)
