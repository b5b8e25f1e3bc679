"""Closed mechanisms over time: all codes from one start, with what each keeps of the loops."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from importlib import import_module
from typing import TYPE_CHECKING, Any, TypeAlias

from benchmarks.figure import Figure, Measurement

if TYPE_CHECKING:
    from benchmarks.loop_runs import LoopCase, LoopRun

RESIDUAL_MUST, ENERGY_MUST = 1e-10, 1e-6
"""Upper bounds of our residual [m] and relative energy error over 10 s, default method."""

FAST_ENERGY_MUST = {"planar_3rrr, falling": 3e-6}
"""Bounds of the energy error where RK4 itself leaves more: 6.3e-5, 2.1e-6, 1.4e-7 and 9.4e-9 with
steps of 2, 1, 0.5 and 0.25 ms, as its order predicts; two thirds of it in one step at 40 rad/s."""

Peer: TypeAlias = "tuple[Callable[..., LoopRun], dict[str, Any], str]"
"""A code that is installed: what runs it, with which settings, and its package."""

PEERS: dict[str, tuple[str, str, list[dict[str, Any]]]] = {
    "pin": (
        "benchmarks.pinocchio_loops_peer",
        "run_pinocchio",
        [{"method": "semi-implicit Euler"}, {"method": "RK4"}],
    ),
    "mujoco": ("benchmarks.mujoco_loops_peer", "run_mujoco", [{"stiff": False}, {"stiff": True}]),
    "drake": ("benchmarks.drake_peer", "run_drake", [{}]),
    "exudyn": ("benchmarks.exudyn_peer", "run_exudyn", [{}]),
}
"""Module and function of each package, and the settings it is run with."""

NOTE = (
    "runs of closed mechanisms: 10 s at 1 ms from one moving start, every state recorded; "
    "four_bar swings under gravity, planar_3rrr and stewart are weightless, as without motors they "
    "collapse; planar_3rrr, falling, whips past dead points at 40 rad/s, where truncation errors "
    "of RK4 at 1 ms set the bound of its energy; "
    "constraint residual: largest distance of frames that a joint holds together; energy error: "
    "largest, by our own energy of each code's states, relative to the largest kinetic energy of "
    "our run"
)

SETTINGS = (
    "settings: ours the default method of tb.simulate; Pinocchio with Baumgarte's gains 1e4 1/s^2 "
    "and 200 1/s, stepped by RK4 and semi-implicit Euler in a Python loop of which only the "
    "library's calls count; MuJoCo with "
    "all defaults (Euler) and with time constant 2 ms, impedance 0.9999 (RK4), by mujoco.rollout; "
    "Drake's discrete plant with ball constraints (SAP); Exudyn's floating bodies with generalized "
    "alpha of index 3, modified Newton method to 1e-10, sparse solver, the build without checks"
)


def run(duration: float) -> Iterator[Figure]:
    """Run every mechanism by every code that is installed.

    Args:
        duration: Time to spend on each call that is timed alone [s]; zero, as tests have it, makes
            runs of 0.1 s instead of 10 s.
    """
    from benchmarks.loop_runs import MECHANISMS, make_loop_case

    steps = None if duration > 0.0 else 100
    missing: dict[str, str] = {}
    peers = list(_peers(missing))
    notes = ["; ".join([NOTE, *missing.values()]), SETTINGS]
    for name in MECHANISMS:
        for figure in _compare(make_loop_case(name, steps), duration, peers):
            # a figure has one remark: each brings one
            yield replace(figure, note=notes.pop(0)) if notes else figure


def _peers(missing: dict[str, str]) -> Iterator[Peer]:
    """Go through the codes that are installed; say which are not."""
    for package, (module, function, settings) in PEERS.items():
        try:
            call = getattr(import_module(module), function)
        except ImportError as absent:
            missing[package] = f"no rows of {package}: {absent}; `pip install {package}`"
            continue
        for chosen in settings:
            yield call, chosen, package


def _compare(case: LoopCase, duration: float, peers: list[Peer]) -> Iterator[Figure]:
    from benchmarks.loop_runs import accuracy_of, check_same_motion, kinetic_scale, run_ours

    ours = run_ours(case)
    scale = kinetic_scale(case, ours)
    name = f"{case.name}, a step"
    energy = FAST_ENERGY_MUST.get(case.name, ENERGY_MUST)
    kept = accuracy_of(case, ours, scale, (RESIDUAL_MUST, energy))
    yield Figure(name, ours.time, accuracy=kept)
    unbound = accuracy_of(case, ours, scale)
    for call, chosen, package in peers:
        extra = {"duration": duration} if package == "pin" else {}
        peer = call(case, **chosen, **extra)
        check_same_motion(case, ours, peer)
        yield (
            Figure(
                name,
                ours.time,
                peer.code,
                peer.time,
                accuracy=unbound,
                peer_accuracy=accuracy_of(case, peer, scale),
            )
        )


MEASUREMENT = Measurement(
    "loop-runs", "Closed mechanisms: 10 s at 1 ms, time of a step", run, place=17
)
