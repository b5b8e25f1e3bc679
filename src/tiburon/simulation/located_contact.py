"""Contacts of meshes in runs of equal steps: located in Python before every native step."""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.arrays import Array
from tiburon.errors import ModelError
from tiburon.functions.contact import located, located_pairs
from tiburon.native.row_loop import address_of
from tiburon.simulation.layout import ELEMENTS
from tiburon.simulation.system import System


def mesh_parameters(
    system: System, rows: Mapping[str, Array], cases: int | None
) -> dict[str, Array]:
    """Return parameters of a run, with those of elements where meshes touch.

    Args:
        system: The system.
        rows: Parameters that are given, one row for all cases or one per case.
        cases: Size of the batch; None for one robot.
    """
    if not system.has_meshes:
        return dict(rows)
    own = rows.get(ELEMENTS, np.array(system.numbers()))
    if cases is not None:
        own = np.broadcast_to(own, (cases, own.shape[-1]))
    return {**rows, ELEMENTS: np.array(own, order="C")}


class LocatedContact:
    """Run-time parameters of elements that are written before every step."""

    def __init__(self, system: System, parameters: Mapping[str, Any], one: bool) -> None:
        """Take the parameters of a run, with those of elements."""
        contact = system.find(ContactElement)
        assert contact is not None
        self._system, self._one = system, one
        self._candidates = contact.element.candidates
        self._numbers = np.atleast_2d(np.array(parameters[ELEMENTS], dtype=np.float64, order="C"))
        size = sum(len(candidate.parameters()) for candidate in self._candidates)
        self._place = slice(contact.p.start, contact.p.start + size)
        self._pairs = located_pairs(self._candidates)

    def bind(self, step: Any) -> None:
        """Let a step read these parameters.

        Raises:
            ModelError: If steps are not native code.
        """
        if not step.is_native:
            raise ModelError(
                "contact of meshes: expected native steps, got interpreted ones; install llvmlite, "
                "or cover the meshes with simple shapes: tb.cover_meshes"
            )
        if self._one:
            step.line[step.given[ELEMENTS]] = address_of(self._numbers)
        else:
            step.rows[ELEMENTS] = self._numbers

    def locate(self, state: Array, time: float | Array, plan: Any, alive: Any) -> None:
        """Locate the contacts of all cases that run.

        Args:
            state: States of all cases.
            time: When [s]; one per case where their times differ.
            plan: Steps that read parameters of their own for some cases, or None.
            alive: Numbers of the cases that run; None for all.
        """
        model = self._system.model
        cases = np.arange(len(state)) if alive is None else np.asarray(alive)
        own = self._numbers[cases, self._place]
        self._numbers[cases, self._place] = located(
            model,
            self._candidates,
            own,
            state[cases, : model.nq],
            time,
            pairs=self._pairs,
            cases=cases.tolist(),
        )
        if plan is not None and alive is not None and ELEMENTS in plan.shared:
            plan.shared[ELEMENTS][:] = self._numbers[cases]
