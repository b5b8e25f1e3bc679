"""Step limits: forces or torques change by a bounded amount from call to call (4.56)-(4.61)."""

import numpy as np

from tiburon.contact.rows import ContactRow
from tiburon.load_sharing.limits.limit import Limit, LimitRow, RunTime
from tiburon.load_sharing.problem import Layout, Problem
from tiburon.model import Model
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars

STEP_EXCEEDED = 7.0
"""Status of a solution in which a contact or actuator lost more force than its step limit."""

STEP_ROUNDING = 1e-6
"""Part of a step limit by which changes may exceed it: rounding of solutions."""


def exceeds(changes: Scalars, bounds: Scalars) -> Scalar:
    """Return 1 if a change is larger than its bound, else 0."""
    found: Scalar = 0.0
    for change, bound in zip(changes, bounds, strict=True):
        beyond = np.abs(change) > (1.0 + STEP_ROUNDING) * bound
        found = np.maximum(found, np.where(beyond, 1.0, 0.0))
    return found


@record
class StepLimit(Limit):
    """Bounded changes of the forces of all that takes part, or of all driven joint forces.

    Each has its own bound, given at run time. What no longer takes part loses its force at once,
    which the status reports where it was larger than the bound.
    """

    what: str
    """"forces" or "torques"."""

    def names(self, model: Model, layout: Layout) -> tuple[str, ...]:
        """Return two names per force or torque."""
        forces = self.what == "forces"
        names = layout.names if forces else [model.v_names[i] for i in layout.driven]
        return tuple(f"{name}: {way}" for name in names for way in ("falls", "rises"))

    def rows(self, problem: Problem, p: Scalars, now: RunTime) -> list[LimitRow]:
        """Return x - x^- >= -step and x^- - x >= -step."""
        changes: list[tuple[ContactRow, Scalar]] = []
        if self.what == "forces":
            # a contact that no longer takes part has no force, whatever it had before: `lost`
            taking = {
                i: on
                for group, on in zip(problem.layout.groups, problem.touching, strict=True)
                for i in group.places
            }
            changes = [({i: 1.0}, -taking[i] * last) for i, last in enumerate(now.before.x)]
        else:
            for index, last in zip(problem.layout.driven, now.before.tau, strict=True):
                row, offset = problem.torque(index)
                changes.append((row, offset - last))
        bounded = zip(changes, now.max_step, strict=True)
        return [row for change, step in bounded for row in LimitRow.between(*change, -step, step)]

    def lost(self, problem: Problem, now: RunTime) -> Scalar:
        """Return 1 if what no longer takes part had more force than its bound, else 0."""
        if self.what != "forces":
            return 0.0
        gone = [
            (1.0 - on) * now.before.x[place]
            for group, on in zip(problem.layout.groups, problem.touching, strict=True)
            for place in group.places
        ]
        return exceeds(gone, now.max_step)
