"""Unknowns of hybrid dynamics that callers mark with NaN, in each batch element separately."""

from collections.abc import Sequence
from typing import Any, cast

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.errors import DomainError, NonFiniteError, TiburonError, TraceError
from tiburon.functions.keywords import DynamicsCall
from tiburon.functions.library import (
    LibraryFunction,
    Options,
    inputs_of,
    pair,
    read_keywords,
    record_under,
)
from tiburon.functions.parameters import CaseRows, vary
from tiburon.model import Model
from tiburon.native.arguments import as_floats, batch_shape, checked_targets, deliver
from tiburon.trace.program import Input, current_graph

__all__ = ["cleared", "solve_placeholders"]

Array = NDArray[np.float64]
Pair = tuple[Array, Array]
CORES = {"external_force": 1, "external_inertia": 2}
"""Dimensions of one case of the conditions that are given by name."""


def cleared(model: Model, name: str, value: ArrayLike, unread: NDArray[np.bool_]) -> Array:
    """Return joint forces or accelerations with zeros where NaN stands and nothing is read.

    Args:
        model: The robot.
        name: What they are, "tau" or "vd".
        value: The numbers, shape (..., nv).
        unread: Which of them hybrid dynamics does not read; broadcasts.
    """
    (item,) = inputs_of(name)(model, ())
    array = as_floats(item, value)
    unused = unread & np.isnan(array)
    return np.where(unused, 0.0, array) if unused.any() else array


def solve_placeholders(
    function: LibraryFunction,
    model: Model,
    state: Sequence[Any],
    options: Options,
    conditions: DynamicsCall,
) -> Pair:
    """Solve for what is NaN, cases that know the same accelerations together.

    Args:
        function: Hybrid dynamics.
        model: The robot.
        state: Position, velocity, joint forces and accelerations as the caller gave them.
        options: Choices that change the code.
        conditions: The keywords that the caller gave.

    Returns:
        What `hybrid_dynamics` returns.
    """
    if current_graph() is not None:
        raise TraceError(
            "hybrid_dynamics: a traced call cannot look for NaN; compile a function of your own "
            "that names the joints whose accelerations are known: known_acceleration=[...]",
            function="hybrid_dynamics",
        )
    tau, vd = as_floats(_input(model, "tau"), state[2]), as_floats(_input(model, "vd"), state[3])
    known = _known(model, tau, vd)
    arrays = (*state[:2], np.where(known, 0.0, tau), np.where(known, vd, 0.0))
    patterns, which = np.unique(known.reshape(-1, model.nv), axis=0, return_inverse=True)
    if len(patterns) == 1:
        return _solve(function, model, arrays, options, conditions, patterns[0])
    return _Cases(function, model, arrays, options, conditions).solve(
        patterns, which.reshape(known.shape[:-1])
    )


def _input(model: Model, name: str) -> Input:
    return inputs_of(name)(model, ())[0]


def _solve(
    function: LibraryFunction,
    model: Model,
    arrays: Sequence[Any],
    options: Options,
    conditions: DynamicsCall,
    pattern: NDArray[np.bool_],
) -> Pair:
    """Run the kernel of one set of known accelerations."""
    rows = tuple(np.flatnonzero(pattern).tolist())
    choices = (*options, ("known_acceleration", rows))
    return record_under(pair, conditions, function, model, arrays, choices)


def _known(model: Model, tau: Array, vd: Array) -> NDArray[np.bool_]:
    """Return where accelerations are known: one of force and acceleration must be NaN.

    Raises:
        DomainError: If both are numbers, or both NaN.
    """
    inputs = [_input(model, "tau"), _input(model, "vd")]
    shape = (*batch_shape(inputs, [tau, vd]), model.nv)
    no_force = np.broadcast_to(np.isnan(tau), shape)
    no_rate = np.broadcast_to(np.isnan(vd), shape)
    wrong = np.argwhere(no_force == no_rate)
    if len(wrong):
        *case, row = (int(k) for k in wrong[0])
        where = f" in case {case[0] if len(case) == 1 else tuple(case)}" if case else ""
        both = bool(no_force[tuple(wrong[0])])
        raise DomainError(
            f"hybrid_dynamics: tau and vd of {model.v_names[row]!r}",
            "NaN in exactly one of them, the unknown one",
            f"{'NaN' if both else 'a number'} in both{where}",
            advice="write NaN for what is unknown, or name the joints whose accelerations are "
            "known: known_acceleration=[...]",
        )
    return ~no_rate


class _Cases:
    """A batch whose cases know different accelerations."""

    def __init__(
        self,
        function: LibraryFunction,
        model: Model,
        arrays: Sequence[Any],
        options: Options,
        conditions: DynamicsCall,
    ) -> None:
        read = read_keywords(function, conditions)
        numbers: dict[str, Any] = {}
        world = read.world
        differs = world is not None and world.cases is not None
        if differs or conditions.get("parameters") is not None:
            # tables of numbers, of which each call takes the rows of its cases
            varied = vary(model, world, conditions.get("parameters") or {})
            model, numbers = varied.model, varied.rows
            changed = {"world": varied.world, "fluid": None, "parameters": None}
            conditions = cast(DynamicsCall, {**conditions, **changed})
        self._call = function, model
        self._options, self._conditions, self._numbers = options, conditions, numbers
        inputs = [*function.inputs(model, read.options), Input("time", ())]
        time = conditions.get("time")
        given = (*arrays, *read.arrays, 0.0 if time is None else time)
        floats = [as_floats(item, x) for item, x in zip(inputs, given, strict=True)]
        self._arrays = floats[:4]
        inputs += [Input(name, table.shape[-1:]) for name, table in numbers.items()]
        self._batch = batch_shape(inputs, [*floats, *numbers.values()])

    def solve(self, patterns: NDArray[np.bool_], which: NDArray[np.intp]) -> Pair:
        """Solve all cases.

        Args:
            patterns: Sets of known accelerations, one per row.
            which: The pattern of each case; broadcasts.
        """
        which = np.broadcast_to(which, self._batch).reshape(-1)
        model = self._call[1]
        results = [np.empty((len(which), model.nv)) for _ in range(2)]
        failed = np.zeros(len(which), dtype=bool)
        for number, pattern in enumerate(patterns):
            chosen = np.flatnonzero(which == number)
            found, bad = cast(tuple[Pair, Any], self._run(chosen, pattern, errors="flag"))
            failed[chosen] = bad
            for result, part in zip(results, found, strict=True):
                result[chosen] = part
        flag = self._conditions.get("errors", "raise") == "flag"
        if failed.any() and not flag:
            self._explain(int(np.argmax(failed)), patterns[which[np.argmax(failed)]])
        shape = (*self._batch, model.nv)
        answer: Any = tuple(result.reshape(shape) for result in results)
        out = self._conditions.get("out")
        if out is not None:
            answer = checked_targets(out, [shape, shape], single=False)
            deliver(answer, [result.reshape(shape) for result in results])
        return cast(Pair, (answer, failed.reshape(self._batch)) if flag else answer)

    def _run(self, chosen: Any, pattern: NDArray[np.bool_], **delivery: Any) -> Pair:
        """Solve some cases by number."""
        function, model = self._call
        given: dict[str, Any] = {**self._conditions, "out": None, "errors": "raise", **delivery}
        for name, core in CORES.items():
            forces = given.get(name) or {}
            given[name] = {key: self._rows(x, core, chosen) for key, x in forces.items()}
        if given.get("time") is not None:
            given["time"] = self._rows(given["time"], 0, chosen)
        if self._numbers:
            rows = {name: self._rows(x, 1, chosen) for name, x in self._numbers.items()}
            given["parameters"] = CaseRows(rows)
        arrays = [self._rows(x, 1, chosen) for x in self._arrays]
        return _solve(function, model, arrays, self._options, cast(DynamicsCall, given), pattern)

    def _rows(self, value: Any, core: int, chosen: Any) -> Array:
        array = np.asarray(value, dtype=np.float64)
        own = array.shape[array.ndim - core :]
        rows: Array = np.broadcast_to(array, (*self._batch, *own)).reshape(-1, *own)[chosen]
        return rows

    def _explain(self, number: int, pattern: NDArray[np.bool_]) -> None:
        """Raise what the first failed case raises, with its place in the batch."""
        place = tuple(int(k) for k in np.unravel_index(number, self._batch))
        case = place[0] if len(place) == 1 else place
        try:
            self._run(number, pattern)
        except NonFiniteError as error:
            inner = () if error.index is None else np.atleast_1d(error.index).tolist()
            raise NonFiniteError(error.argument, (*place, *inner), error.value) from error
        except TiburonError as error:
            raise DomainError(
                "hybrid_dynamics",
                "a finite result",
                f"none in case {case}: {error}",
                advice="check the inputs and the model, or pass errors='flag'",
            ) from error
