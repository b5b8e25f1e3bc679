"""From a URDF file to the first forward dynamics, against Pinocchio, and a very long chain."""

from collections.abc import Iterator
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

from benchmarks.figure import Figure, Measurement, check_equal
from benchmarks.timing import measure

ROBOTS = ("panda", "quadruped", "chain_16")
MUST = 1.0
"""Not slower than the peer."""

LONG = 1000
"""Links of the long chain."""

LONG_MUST = 2.0
"""Seconds in which the long chain must load."""


def run(duration: float) -> Iterator[Figure]:
    """Measure reading a file and evaluating forward dynamics for the first time.

    Both sides read the same file and build everything anew; our kernel is in the cache, as it is
    when a robot is loaded again. Imports are done before, except where a process is new.

    Args:
        duration: Time to spend on each side [s].
    """
    import tiburon as tb
    from benchmarks.cases import ROUND_OFF, make_case
    from benchmarks.robots import chain
    from tiburon.formats.urdf_read import read_urdf
    from tiburon.formats.urdf_write import write_urdf

    with TemporaryDirectory(prefix="tiburon-bench-") as directory:
        for name in ROBOTS:
            case = make_case(name)
            path = Path(directory) / f"{name}.urdf"
            path.write_text(write_urdf(case.model, path)[0])
            model = read_urdf(path)
            peer_call, expected = _peer(path, model, case)

            def ours(path: Path = path, case: Any = case) -> Any:
                loaded = read_urdf(path)
                return tb.forward_dynamics(loaded, case.q, case.v, case.tau)

            check_equal(name, ours(), expected, ROUND_OFF)
            times = measure({"ours": ours, "peer": peer_call}, duration=duration)
            yield (
                Figure(name, times["ours"], "pin.buildModelFromUrdf, pin.aba", times["peer"], MUST)
            )
            yield _in_new_processes(name, path, duration)
        path = Path(directory) / "long.urdf"
        path.write_text(write_urdf(chain(LONG), path)[0])
        times = measure({"ours": (read_urdf, path)}, duration=duration)
        yield (Figure(f"chain of {LONG} links, reading alone", times["ours"], must=LONG_MUST))


def _in_new_processes(name: str, path: Path, duration: float) -> Figure:
    """Measure what a user waits for who starts Python, imports, loads and evaluates once."""
    from benchmarks.fresh_process import repeats, run_fresh
    from benchmarks.timing import Timing

    seconds: dict[str, list[float]] = {"tiburon": [], "pinocchio": []}
    # the first of each kind may read from the disk what later ones find in memory
    for turn in range(1 + repeats(duration)):
        for code, collected in seconds.items():
            answer = run_fresh("file-to-dynamics", str(path), code)
            if turn:
                collected.append(answer["seconds"])
    ours, peer = (Timing.of(collected) for collected in seconds.values())
    return Figure(f"{name}, imports included", ours, "import, build, pin.aba", peer, MUST)


def _peer(path: Path, model: Any, case: Any) -> tuple[Any, Any]:
    """Return what the peer does with a file, and its answer in our order of numbers."""
    import pinocchio as pin

    import tiburon as tb

    names = list(pin.buildModelFromUrdf(str(path)).names)[1:]
    # hinges without limits are held as cosine and sine there
    unbounded = [joint.name for joint in model.joints if joint.kind == "revolute"]
    given = tb.to_pinocchio(
        model, case.q, case.v, force=case.tau, joints=names, unbounded=unbounded
    )

    def evaluate() -> Any:
        robot = pin.buildModelFromUrdf(str(path))
        return pin.aba(robot, robot.createData(), given.q, given.v, given.force)

    found = tb.from_pinocchio(
        model, given.q, given.v, acceleration=evaluate(), joints=names, unbounded=unbounded
    )
    return evaluate, found.acceleration


MEASUREMENT = Measurement(
    "loading", "From a URDF file to the first forward dynamics, kernel in the cache", run, place=13
)
