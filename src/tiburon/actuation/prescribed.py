"""Joints that follow given paths while the others react (hybrid dynamics).

A path is a formula of time, or a spline in a table beside the code; each case of a batch may have
its own. The system takes the joint's acceleration from its path instead of its equation of motion,
and puts the joint back onto its path after every step, so that it has no truncation error there.
"""

from collections.abc import Hashable, Iterator, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tiburon.actuation.element import Action, Element, ElementContext
from tiburon.actuation.piecewise import PathSample, Piecewise, Prescribed, entries, read_pieces
from tiburon.errors import DomainError, ModelError, ShapeError, shown
from tiburon.model import Model
from tiburon.model.joints.driven import SAMPLE_TIMES, Path, check_path
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.primitives.table_rows import (
    HANDLE,
    Table,
    TableForm,
    TableOfTables,
    TableRows,
    table_form,
)

CASE = "case"
"""Run-time parameter that numbers the path of a case."""


@record(slots=False)
class PrescribedMotion(Element):
    """A joint with prescribed motion in a run; `simulate(prescribed=...)` makes them.

    Example:
        ``PrescribedMotion("arm", "elbow", (Harmonic(0.3, frequency=0.5),))``
    """

    name: str
    """Unique among the elements of a run."""

    joint: str
    """The joint."""

    paths: tuple[Path, ...] | tuple[Piecewise, ...]
    """One formula per position variable; or splines of all of them, one spline per case."""

    case: float = 0.0
    """Which of several splines this case follows; a run-time parameter."""

    @property
    def is_formula(self) -> bool:
        """Whether formulas give the motion, the same in all cases."""
        return isinstance(self.paths[0], Path)

    @cached_property
    def _form(self) -> TableForm:
        """Form of a table that holds any of the splines."""
        longest = max(len(path.coefficients) for path in self._splines)
        powers = max(len(path.coefficients[0]) for path in self._splines)
        return table_form(longest, powers * self._splines[0].size + 2)

    @property
    def _splines(self) -> tuple[Piecewise, ...]:
        return self.paths  # type: ignore[return-value]

    def parameters(self) -> tuple[float, ...]:
        """Return the number of the spline; none for formulas."""
        return () if self.is_formula else (self.case,)

    def tables(self) -> tuple[Table, ...]:
        """Return the table of all splines, also of one: a case has the same code in any batch."""
        return self._tables

    @cached_property
    def _tables(self) -> tuple[Table, ...]:
        if self.is_formula:
            return ()
        powers = max(len(path.coefficients[0]) for path in self._splines)
        found = [path.with_powers(powers).table() for path in self._splines]
        return (TableOfTables(found),)

    def structure(self) -> Hashable:
        """Return joint and formulas, or the form of the tables."""
        if self.is_formula:
            return (self.joint, self.paths)
        return (self.joint, self._form, table_form(len(self.paths), HANDLE))

    def check(self, model: Model) -> None:
        """Raise an error if the joint does not exist, or the paths do not fit it."""
        joint = model.joint(self.joint)
        if not joint.nv or joint.nq != joint.nv:
            what = "a quaternion" if joint.nv else "no degree of freedom"
            raise ModelError(
                f"prescribed joint {self.joint!r}: expected a joint whose velocities are the rates "
                f"of its positions, got a {joint.kind} joint with {what}; name other joints, or "
                "give the body a Driven joint",
                name=self.joint,
            )
        sizes = {len(self.paths)} if self.is_formula else {path.size for path in self._splines}
        if sizes != {joint.nq}:
            raise ShapeError(
                f"prescribed joint {self.joint!r}",
                f"a path of {joint.nq} position variable{'s'[: joint.nq > 1]}",
                f"{max(sizes - {joint.nq})}",
            )
        if self.is_formula:
            for path in self.paths:
                check_path(path, self.joint, SAMPLE_TIMES)  # type: ignore[arg-type]

    def act(self, now: ElementContext) -> Action:
        """Apply nothing: the force that the motion takes follows from the accelerations."""
        return Action()

    def prescribed(
        self, model: Model, time: Scalar, p: Scalars, tables: Scalars
    ) -> tuple[Prescribed, ...]:
        """Return the joint with its sample at a time [s]."""
        sample = self.sample(time, p, tables)
        of_q, of_v = (model.slice(self.joint, of=of) for of in ("q", "v"))
        return (Prescribed(of_q.start, of_v.start, sample),)

    def sample(self, time: Scalar, p: Scalars, handles: Scalars) -> PathSample:
        """Return position, velocity and acceleration at a time [s], one scalar per variable each.

        Args:
            time: Time [s], a float or traced value.
            p: Run-time parameters of the element.
            handles: Handles of its tables.
        """
        if self.is_formula:
            return PathSample(*zip(*(path.at(time) for path in self.paths), strict=True))
        by_case = TableRows(*table_form(len(self.paths), HANDLE), following=False)
        _, _, *own = by_case.apply([*handles, p[0]])
        sample, _ = read_pieces(self._splines[0].size, self._form, time, own)
        return PathSample(*(tuple(entries(x)) for x in sample))


def prescribed_motions(model: Model, given: Mapping[str, Any]) -> tuple[PrescribedMotion, ...]:
    """Return the elements of prescribed joints.

    Args:
        model: The robot.
        given: Paths by joint: a `JointPath` of that joint, a formula (`Harmonic`, `Polynomial`, a
            `Path` of your own), a tuple of formulas for a joint of several variables, or a list of
            JointPaths, one per case.

    Raises:
        UnknownNameError: If the robot lacks a joint.
        ModelError: If something else than a path is given.
    """
    if not isinstance(given, Mapping):
        raise ModelError(
            f"prescribed: expected paths by joint name, got {shown(given)}; write "
            "prescribed={'elbow': JointPath.through(times, positions)}"
        )
    found = []
    for joint, path in given.items():
        model.joint(joint)
        found.append(PrescribedMotion(f"path of {joint}", joint, tuple(_paths(joint, path))))
    return tuple(found)


def _paths(joint: str, given: Any) -> Iterator[Any]:
    several = given if isinstance(given, (list, tuple)) else (given,)
    kinds = set()
    for path in several:
        pieces = getattr(path, "pieces", path)
        if not isinstance(pieces, (Path, Piecewise)):
            raise ModelError(
                f"prescribed joint {joint!r}: expected a path, got {shown(path)}; write "
                "JointPath.through(times, positions), Harmonic(...) or a list of JointPaths, one "
                "per case",
                name=joint,
            )
        kinds.add(isinstance(pieces, Path))
        named = getattr(path, "joints", ())
        if named not in ((), (joint,)):
            raise ModelError(
                f"prescribed joint {joint!r}: expected its own path, got one of "
                f"{', '.join(named)}; use path.of({joint!r}) for a part of a path",
                name=joint,
            )
        yield pieces
    if len(kinds) != 1:
        raise DomainError(
            f"prescribed joint {joint!r}",
            "formulas or JointPaths",
            "both" if kinds else "no path",
            advice="give one JointPath per case",
        )


def cases_of(motions: Sequence[PrescribedMotion]) -> dict[str, np.ndarray[Any, Any]]:
    """Return the number of the path in each case, by the name of the run-time parameter."""
    return {
        f"{motion.name}.{CASE}": np.arange(float(len(motion.paths)))
        for motion in motions
        if motion.parameters() and len(motion.paths) > 1
    }
