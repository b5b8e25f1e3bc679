"""All checks of one robot, and the page about them."""

from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from itertools import chain
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.argument_checks import at_least
from tiburon.arguments import public
from tiburon.arrays import NDArray
from tiburon.checks.agreement import agreements, derivative_agreement
from tiburon.checks.conservation import energy_conservation, momentum_conservation
from tiburon.checks.finding import FAILED, LOOK, PASSED, SKIPPED, Finding, judged
from tiburon.checks.kicked import kicked_states, start_position
from tiburon.checks.power import power_balance
from tiburon.checks.steps import USUAL, advise_step
from tiburon.errors import LoopError, RunFileError, TiburonError
from tiburon.functions.assembly import assemble, is_closed
from tiburon.functions.closed_loops import project_configuration
from tiburon.model import Model, Water, World
from tiburon.model.model_warnings import model_warnings
from tiburon.record import record
from tiburon.version import installed_version
from tiburon.viewer.report import Section, Verdict, report_html, table_markup
from tiburon.written_file import write_file

__all__ = ["ModelCheck", "check_model"]

Array = NDArray[np.float64]

Check = tuple[str, Callable[[], list[Finding]]]
"""What is checked, and a function that does."""

STATES = 4
"""Random states in which algorithms are compared."""

POSE_GAP = 1e-5
"""Largest opening of loops in a named pose [m or rad]: digits of numbers in files."""


@record(eq=False)
class ModelCheck:
    """What was found on a robot."""

    model: Model
    """The robot."""

    findings: tuple[Finding, ...]
    """In the order of the checks."""

    @property
    def passed(self) -> bool:
        """Whether nothing failed."""
        return not any(finding.verdict == FAILED for finding in self.findings)

    @property
    def clean(self) -> bool:
        """Whether nothing failed and there is nothing to look at."""
        return self.passed and not any(finding.verdict == LOOK for finding in self.findings)

    def as_data(self) -> dict[str, Any]:
        """Return all findings as plain data."""
        return {
            "name": self.model.name,
            "passed": self.passed,
            "findings": [finding.as_data() for finding in self.findings],
        }

    def page(self, sections: Sequence[Section] = ()) -> str:
        """Return all findings as an HTML page.

        Args:
            sections: What else to show.
        """
        counts = Counter(finding.verdict for finding in self.findings)
        cards = [
            Verdict("passed" if self.passed else "failed", "verdict", _mood(self.passed)),
            Verdict(str(counts[PASSED]), "checks passed"),
            Verdict(str(counts[FAILED]), "failed", _mood(not counts[FAILED])),
            Verdict(str(counts[LOOK]), "to look at"),
        ]
        rows = [
            (f.name, f.verdict, _number(f.measured), _number(f.bound), f.text)
            for f in self.findings
        ]
        table = table_markup(rows, ("check", "verdict", "measured", "bound", "what was found"))
        return report_html(
            f"{self.model.name}: checked",
            self.model.about.strip(),
            cards,
            [Section("Checks", body=table), *sections],
            f"tiburon {installed_version()}",
        )

    def save_page(self, path: Path, sections: Sequence[Section] = ()) -> None:
        """Write the page.

        Raises:
            RunFileError: If it cannot be written.
        """
        write_file(path, self.page(sections), RunFileError)


def _mood(good: bool) -> str:
    return "good" if good else "bad"


def _number(value: float | None) -> str:
    return "" if value is None else f"{value:.2g}"


@public
def check_model(
    model: Model,
    *,
    pose: str | None = None,
    fluid: Water | None = None,
    warnings: Sequence[str] = (),
    motion: bool = True,
    seed: int = 0,
    progress: Callable[[str], None] | None = None,
) -> ModelCheck:
    """Check a robot: numbers that are hardly meant, algorithms, conservation, power, steps.

    Every check runs on this very robot, from random states about a pose, natively.

    Args:
        model: The robot.
        pose: Name of the position to start from; the neutral one by default, or, with loops, the
            first that has a name.
        fluid: Water to check it in as well, where its bodies have numbers for water; its current
            is left out.
        warnings: What was said when its file was read.
        motion: Whether to compute and run it as well; False looks at its numbers alone.
        seed: Of the random states.
        progress: Told what is being checked.

    Raises:
        UnknownNameError: If there is no such pose.

    Example:
        ``assert tb.check_model(robot).passed``
    """
    at_least("seed", seed, 0)
    if fluid is not None:
        fluid.refuse_cases("check_model")
    start = start_position(model, pose)
    found: list[Finding] = []
    checks = _number_checks(model, warnings)
    if motion:
        checks = chain(checks, _motion_checks(model, start, fluid, seed))
    for name, check in checks:
        if progress is not None:
            progress(name)
        try:
            found += check()
        except (TiburonError, ArithmeticError, np.linalg.LinAlgError) as error:
            # what a check cannot compute on this robot is a finding about the robot
            found.append(Finding(name, FAILED, f"could not be computed: {error}"))
    return ModelCheck(model, tuple(found))


def _number_checks(model: Model, warnings: Sequence[str]) -> Iterator[Check]:
    """Yield checks of what is written about a robot."""
    yield "plausible numbers", lambda: list(_doubts(model, warnings))


def _motion_checks(model: Model, start: Array, fluid: Water | None, seed: int) -> Iterator[Check]:
    """Yield checks of how a robot moves, one after the other."""
    if model.loops:
        yield "loops in poses", lambda: list(_poses(model))
    if model.immovable_joint_names:
        listed = ", ".join(map(repr, model.immovable_joint_names))
        text = f"nothing resists {listed}: without inertia there is no motion to check"
        yield "dynamics", lambda: [Finding("dynamics", FAILED, text)]
        return
    if model.nv == 0:
        yield "dynamics", lambda: [Finding("dynamics", SKIPPED, "nothing of the robot moves")]
        return
    if model.loops and not is_closed(model, start, POSE_GAP):
        try:
            start = assemble(model, start).q
        except LoopError as error:
            text = f"loops that are open have no motion to check: {error}"
            yield "dynamics", lambda: [Finding("dynamics", FAILED, text)]
            return
    states = kicked_states(model, start, STATES, seed)
    wet = fluid is not None and any(body.fluid is not None for body in model.bodies)
    water = replace(fluid, current=(0.0, 0.0, 0.0)) if fluid is not None and wet else None
    land, world = World(), World(fluid=water)
    yield "algorithms", lambda: list(agreements(model, world, states))
    yield "derivatives", lambda: [derivative_agreement(model, world, states)]
    yield "energy", lambda: [energy_conservation(model, land, states, "energy, on land")]
    if wet:
        yield "energy", lambda: [energy_conservation(model, world, states, "energy, in water")]
    yield "momentum", lambda: [momentum_conservation(model, states)]
    dt = USUAL
    try:
        advice = advise_step(model, world, start)
    except TiburonError as error:
        text = f"fastest answer is not known: {error}"
        yield "step size", lambda: [Finding("step size", SKIPPED, text)]
    else:
        dt = min(advice.dt, USUAL)
        yield "step size", lambda: [advice.finding()]
    yield "power balance", lambda: list(power_balance(model, world, states, dt))


def _doubts(model: Model, warnings: Sequence[str]) -> Iterator[Finding]:
    """Yield what about the numbers of a robot is hardly meant."""
    name = "plausible numbers"
    doubts = [*warnings, *map(str, model_warnings(model))]
    for doubt in doubts:
        yield Finding(name, LOOK, doubt)
    if not doubts:
        yield Finding(name, PASSED, "masses, inertias, lengths and limits look meant")


def _poses(model: Model) -> Iterator[Finding]:
    """Yield whether named poses keep the loops closed, or how far the neutral one is off."""
    if not model.poses:
        neutral = model.neutral()
        if is_closed(model, neutral, POSE_GAP):
            text = "no pose has a name; in the neutral position they are closed"
            yield Finding("loops in the neutral position", PASSED, text)
            return
        away = float(np.abs(model.difference(neutral, assemble(model, neutral).q)).max())
        text = (
            f"open; joints must move by up to {away:.3g} m or rad to close them: give the robot a "
            "pose 'home' in which they are closed"
        )
        yield Finding("loops in the neutral position", LOOK, text)
        return
    for name, pose in model.poses.items():
        q = np.array(pose)
        closed = project_configuration(model, q).q
        away = float(np.abs(model.difference(q, closed)).max())
        text = "distance to the nearest position with closed loops [m or rad]"
        yield judged(f"loops in pose {name!r}", away, POSE_GAP, text)
