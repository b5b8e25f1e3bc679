"""Vector lanes for one case: points of a block, and like branches, against one after another."""

from collections.abc import Iterator
from typing import Any
from unittest.mock import patch

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import measure

BOUNDS = {
    ("quadruped", "forward_dynamics"): (1.5, 1.8),
    ("humanoid", "forward_dynamics"): (1.2, 1.4),
    ("quadruped", "inverse_dynamics"): (1.4, 1.7),
    ("humanoid", "inverse_dynamics"): (1.2, 1.3),
    ("quadruped", "mass_matrix"): (1.3, 1.5),
    ("humanoid", "mass_matrix"): (1.8, 2.4),
    ("quadruped", "inverse_dynamics_derivatives"): (1.4, 1.7),
}
"""Ratio of one call from Python that must be reached and ratio aimed at, by robot and function."""

BLOCK = (2.2, 2.5)
"""The same for a block of B4PC5 of four arms that hold a load."""

ARMS = {"four_pumas": (1.5, 1.9), "stewart": (1.3, 1.6)}
"""The same for like arms and legs of closed chains."""


def run(duration: float) -> Iterator[Figure]:
    """Measure kernels whose lanes hold points or branches, and the same without.

    Args:
        duration: Time to spend on each side [s].
    """
    from benchmarks.cases import ROUND_OFF, make_case
    from tiburon.algorithms import like_branches
    from tiburon.functions.kernel_source import LibrarySource
    from tiburon.model import World
    from tiburon.native.kernel import ProgramSource, make_kernel

    for (name, what), (must, aim) in BOUNDS.items():
        case = make_case(name)
        source = LibrarySource(case.model, (what,), World())
        kernels: list[Any] = [make_kernel(source, source.parameters())]
        with patch.object(like_branches, "MIN_BRANCHES", 1 << 30):
            program = source.program()
        kernels.append(make_kernel(ProgramSource(program), source.parameters()))
        state = (case.q,) if what == "mass_matrix" else (case.q, case.v, case.tau)
        for a, b in zip(*(_results(kernel(*state)) for kernel in kernels), strict=True):
            check_equal(name, a, b, ROUND_OFF)
        times = measure(
            {"ours": (kernels[0], *state), "peer": (kernels[1], *state)}, duration=duration
        )
        named = f"{name}, {what.replace('_', ' ')}"
        yield Figure(named, times["ours"], "scalar code", times["peer"], must, aim)
    for name, (must, aim) in ARMS.items():
        arms_ours, arms_peer, state = _arms(name)
        check_equal(name, arms_ours(*state), arms_peer(*state), ROUND_OFF)
        times = measure(
            {"ours": (arms_ours, *state), "peer": (arms_peer, *state)}, duration=duration
        )
        yield Figure(f"{name}, arms", times["ours"], "scalar code", times["peer"], must, aim)
    ours, peer, given = _blocks()
    for a, b in zip(ours(*given), peer(*given), strict=True):
        check_equal("four_pumas", a, b, ROUND_OFF)
    times = measure({"ours": (ours, *given), "peer": (peer, *given)}, duration=duration)
    yield Figure("four_pumas, B4PC5", times["ours"], "points in turn", times["peer"], *BLOCK)


def _results(found: Any) -> tuple[Any, ...]:
    """Return the arrays of a kernel's result."""
    return tuple(found) if isinstance(found, tuple) else (found,)


def _each_alone(given: Any, _: Any) -> list[Any]:
    """Return parts as if none were alike: scalar code, with all numbers as constants."""
    from tiburon.loops.like_parts import LikeParts

    return [LikeParts((k,), ((),), lambda _, part=part: part) for k, part in enumerate(given)]


def _arms(name: str) -> tuple[Any, Any, tuple[Any, ...]]:
    """Return kernels of a closed chain, arms in lanes and each in code of its own, and a state."""
    import numpy as np

    import tiburon as tb
    from tiburon.functions.kernel_source import LibrarySource
    from tiburon.loops import parts
    from tiburon.model import World
    from tiburon.native.kernel import ProgramSource, make_kernel

    model = tb.load(name)
    source = LibrarySource(model, ("forward_dynamics",), World())

    kernels: list[Any] = [make_kernel(ProgramSource(source.program()), source.parameters())]
    with patch.object(parts, "like_parts", _each_alone):
        program = source.program()
    kernels.append(make_kernel(ProgramSource(program), source.parameters()))
    q = np.array(model.poses["home"]) if "home" in model.poses else model.neutral()
    rng = np.random.default_rng(0)
    v = tb.project_velocity(model, q, 0.3 * rng.standard_normal(model.nv))
    return kernels[0], kernels[1], (q, v, rng.standard_normal(model.nv))


def _blocks() -> tuple[Any, Any, list[Any]]:
    """Return kernels of one block, in lanes and in turn, and their arguments."""
    import numpy as np

    from tiburon.algorithms.surroundings import DEFAULT_WORLD
    from tiburon.loops import parts
    from tiburon.native.kernel import ProgramSource, make_kernel
    from tiburon.reproduce.mcmillan_lift import four_pumas
    from tiburon.simulation.integrators import predictor_corrector
    from tiburon.simulation.step import StepSource
    from tiburon.simulation.system import System
    from tiburon.trace.regions import function

    model = four_pumas()
    system = System(model, DEFAULT_WORLD, loops=("baumgarte", 10.0, 10.0))
    source = StepSource(system, "b4pc5")

    def in_turn(call: Any, sets: Any) -> list[Any]:
        one = function(call)
        return [one(*given) for given in sets]

    ours: Any = make_kernel(ProgramSource(source.program()), system.parameters())
    with (
        patch.object(predictor_corrector, "lanes", in_turn),
        patch.object(parts, "like_parts", _each_alone),
    ):
        program = source.program()
    peer: Any = make_kernel(ProgramSource(program), system.parameters())
    values = {name: np.zeros(width) for name, width in source.widths.items()}
    values["q"] = np.array(model.poses["home"])
    values["clock"][:3] = 0.0, 1e-3, 1e-3
    values["clock"][6] = 1.0
    # four points by the one-step method, then a block is due
    for _ in range(4):
        found = dict(zip(source.chained, ours(*values.values()), strict=True))
        values.update({name: np.array(x) for name, x in found.items()})
        values["clock"][3] += 1.0
        values["clock"][6] = 0.0
    return ours, peer, list(values.values())


MEASUREMENT = Measurement("lanes", "One robot in vector lanes against scalar code", run, place=28)
