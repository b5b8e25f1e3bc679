"""Hybrid dynamics for users: at some joints the force is known, at the others the acceleration.

Callers name the joints whose accelerations are known, or mark unknown forces and accelerations with
NaN, in each batch element separately; elements with the same known accelerations run together.
"""

from collections.abc import Iterable, Sequence
from typing import Any, Unpack, cast

import numpy as np

from tiburon.algorithms.setting import Options, Setting
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import DomainError, NonFiniteError, TiburonError, TraceError, UnknownNameError
from tiburon.functions.dynamics import method_options
from tiburon.functions.keywords import DYNAMICS_CALL, DynamicsCall, takes_conditions
from tiburon.functions.library import (
    check_places,
    closure_options,
    inputs_of,
    library_function,
    pair,
)
from tiburon.functions.parameters import CaseRows, vary
from tiburon.model import Model
from tiburon.native.arguments import as_floats, batch_shape, checked_targets, deliver
from tiburon.spatial import Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input, current_graph

Pair = tuple[Array, Array]
CASE_DIMENSIONS = {"external_force": 1, "external_inertia": 2}
"""Dimensions of one case of the conditions that are given by name."""


def known_rows(model: Model, names: str | Iterable[str]) -> tuple[int, ...]:
    """Return the velocity variables that joint names or names of single variables stand for.

    Raises:
        UnknownNameError: If the model has neither joint nor velocity variable of a name.
    """
    listed = (names,) if isinstance(names, str) else tuple(names)
    variables = model.v_names
    rows: set[int] = set()
    for name in listed:
        if name in model.joint_names:
            part = model.slice(name, of="v")
            rows.update(range(part.start, part.stop))
        elif name in variables:
            rows.add(variables.index(name))
        else:
            raise UnknownNameError(
                "joint or velocity variable",
                name,
                dict.fromkeys((*model.joint_names, *variables)),
                where=f"model {model.name!r}",
                listing="model.joint_names or model.v_names",
            )
    return tuple(sorted(rows))


@library_function(
    "hybrid_dynamics",
    ("q", "v", "tau", "vd"),
    make=pair,
    keywords=DYNAMICS_CALL,
    checks_closure=True,
)
def _hybrid(setting: Setting, q: Scalars, v: Scalars, tau: Scalars, vd: Scalars) -> Any:
    if setting.model.loops:
        from tiburon.loops.inverse import constrained_hybrid

        return constrained_hybrid(setting, q, v, tau, vd)
    from tiburon.algorithms.hybrid import hybrid_aba, hybrid_crba

    plan, choices = setting.plan, dict(setting.options)
    rows = set(choices.get("known_acceleration", ()))
    known = [row in rows for row in range(plan.nv)]
    method = choices.get("method") or ("composite" if plan.has_couplings else "articulated")
    solve = hybrid_crba if method == "composite" else hybrid_aba
    accelerations, forces = solve(plan, q, v, tau, vd, known, setting.gravity, setting.external)
    return {"vd": as_traced(list(accelerations)), "tau": as_traced(list(forces))}


@public
@takes_conditions
def hybrid_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    vd: ArrayLike,
    known_acceleration: str | Iterable[str] | None = None,
    *,
    method: str | None = None,
    closure: bool | None = None,
    **conditions: Unpack[DynamicsCall],
) -> tuple[Array, Array]:
    """Compute forces of joints with known accelerations, and accelerations of the others.

    NaN stands for what is unknown: at each velocity variable either its force or its acceleration
    is finite and the other NaN, in each case of a batch separately; code is compiled for each set
    of known accelerations. Or name the joints whose accelerations are known. With no known
    acceleration this is forward dynamics, with all of them inverse dynamics. One state or a batch;
    traced arrays inside a compiled function, one state at a time, with joints named.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv); NaN where it is unknown. Where joints are
            named, those with known accelerations are not read here.
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv); NaN where it is unknown. Where
            joints are named, those of all others are not read here.
        known_acceleration: Names of joints whose accelerations are known; also names of single
            velocity variables (`model.v_names`). By default those where `vd` is not NaN.
        method: "articulated", whose cost is linear in the number of bodies, or "composite" for the
            mass matrix and its factors; by default the first, unless joints follow others.
        closure: Whether to refuse states with open loops, and velocities that open them; see
            `forward_dynamics`.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Returns:
        All joint accelerations and all joint forces, shape (..., nv) each.

    Raises:
        DomainError: If joints are not named and both force and acceleration of a velocity variable
            are finite, or both are NaN.

    Example:
        ``vd, tau = hybrid_dynamics(arm, q, v, tau, vd, known_acceleration=["elbow", "wrist"])``
    """
    check_places(model, None)
    options = (*method_options(method), *closure_options(model, closure))
    if known_acceleration is None:
        return solve_placeholders(model, (q, v, tau, vd), options, conditions)
    rows = known_rows(model, known_acceleration)
    options += (("known_acceleration", rows),)
    if current_graph() is None:
        known = np.isin(np.arange(model.nv), rows)
        tau, vd = cleared(model, "tau", tau, known), cleared(model, "vd", vd, ~known)
    return _hybrid.call(model, (q, v, tau, vd), conditions, options)


def cleared(model: Model, name: str, value: ArrayLike, unread: NDArray[np.bool_]) -> Array:
    """Return joint forces or accelerations with zeros where NaN stands and nothing is read.

    Args:
        model: The robot.
        name: What they are, "tau" or "vd".
        value: The values, shape (..., nv).
        unread: Which of them hybrid dynamics does not read; broadcasts.
    """
    (item,) = inputs_of(name)(model, ())
    array = as_floats(item, value)
    unused = unread & np.isnan(array)
    return np.where(unused, 0.0, array) if unused.any() else array


def solve_placeholders(
    model: Model, state: Sequence[Any], options: Options, conditions: DynamicsCall
) -> Pair:
    """Solve for what is NaN, cases with the same known accelerations together.

    Args:
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
        return _solve(model, arrays, options, conditions, patterns[0])
    return _Cases(model, arrays, options, conditions).solve(
        patterns, which.reshape(known.shape[:-1])
    )


def _input(model: Model, name: str) -> Input:
    return inputs_of(name)(model, ())[0]


def _solve(
    model: Model,
    arrays: Sequence[Any],
    options: Options,
    conditions: DynamicsCall,
    pattern: NDArray[np.bool_],
) -> Pair:
    """Run the kernel of one set of known accelerations."""
    rows = tuple(np.flatnonzero(pattern).tolist())
    choices = (*options, ("known_acceleration", rows))
    return _hybrid.call(model, arrays, conditions, choices)


def _known(model: Model, tau: Array, vd: Array) -> NDArray[np.bool_]:
    """Return where accelerations are known: one of force and acceleration must be NaN.

    Raises:
        DomainError: If both are finite, or both NaN.
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
    """A batch whose cases have different known accelerations."""

    def __init__(
        self, model: Model, arrays: Sequence[Any], options: Options, conditions: DynamicsCall
    ) -> None:
        read = _hybrid.read(conditions)
        tables: dict[str, Any] = {}
        world = read.world
        differs = world is not None and world.cases is not None
        if differs or conditions.get("parameters") is not None:
            # tables of parameters, of which each call takes the rows of its cases
            varied = vary(model, world, conditions.get("parameters") or {})
            model, tables = varied.model, varied.rows
            changed = {"world": varied.world, "fluid": None, "parameters": None}
            conditions = cast(DynamicsCall, {**conditions, **changed})
        self._model = model
        self._options, self._conditions, self._tables = options, conditions, tables
        inputs = [*_hybrid.inputs(model, read.options), Input("time", ())]
        time = conditions.get("time")
        given = (*arrays, *read.arrays, 0.0 if time is None else time)
        floats = [as_floats(item, x) for item, x in zip(inputs, given, strict=True)]
        self._arrays = floats[:4]
        inputs += [Input(name, table.shape[-1:]) for name, table in tables.items()]
        self._batch = batch_shape(inputs, [*floats, *tables.values()])

    def solve(self, patterns: NDArray[np.bool_], which: NDArray[np.intp]) -> Pair:
        """Solve all cases.

        Args:
            patterns: Sets of known accelerations, one per row.
            which: The pattern of each case; broadcasts.
        """
        which = np.broadcast_to(which, self._batch).reshape(-1)
        model = self._model
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
        given: dict[str, Any] = {**self._conditions, "out": None, "errors": "raise", **delivery}
        for name, core in CASE_DIMENSIONS.items():
            forces = given.get(name) or {}
            given[name] = {key: self._rows(x, core, chosen) for key, x in forces.items()}
        if given.get("time") is not None:
            given["time"] = self._rows(given["time"], 0, chosen)
        if self._tables:
            rows = {name: self._rows(x, 1, chosen) for name, x in self._tables.items()}
            given["parameters"] = CaseRows(rows)
        arrays = [self._rows(x, 1, chosen) for x in self._arrays]
        return _solve(self._model, arrays, self._options, cast(DynamicsCall, given), pattern)

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
