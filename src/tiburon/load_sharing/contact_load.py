"""Contacts that take up or give up their load gradually, by a weight on their forces.

A contact with load s between 0 and 1 has forces with weight 1 / s: among contacts of the same kind,
forces are shared in proportion to s. Planned contacts take up their load after they are made, and
have given it up before they are broken; the problem has a solution throughout.
"""

from dataclasses import replace
from typing import Self

import numpy as np

from tiburon.load_sharing.objectives.objective import Objective, Square
from tiburon.load_sharing.problem import MOMENT, Before, Problem
from tiburon.model import Model
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars

MIN_LOAD = 1e-4
"""Load below which the weight of forces grows no further."""


@record
class ContactLoad(Objective):
    """Squares of the forces of each contact, with a weight each that may change at run time."""

    contacts: int
    """Number of contacts and loops, in the order of `LoadSharing.contact_names`."""

    weights: tuple[float, ...] = ()
    """Weight of each; zero by default."""

    def parameters(self, model: Model) -> tuple[float, ...]:
        """Return the weights."""
        return self.weights or (0.0,) * self.contacts

    def form(self) -> Self:
        """Return the same without weights."""
        return replace(self, weights=())

    def squares(self, problem: Problem, p: Scalars, before: Before) -> list[Square]:
        """Return the squares of all forces, moments by the lever."""
        found = []
        lever = problem.lever
        for weight, group in zip(p, problem.layout.groups, strict=False):
            for place, kind in zip(group.places, group.kinds, strict=True):
                own = weight / (lever * lever) if kind == MOMENT else weight
                found.append(Square(own, {place: 1.0}, 0.0))
        return found


def load_weight(load: Scalar) -> Scalar:
    """Return the weight that a load between 0 and 1 adds to that of full load: 1 / s - 1."""
    return 1.0 / np.maximum(load, MIN_LOAD) - 1.0
