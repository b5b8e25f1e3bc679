"""Run-time parameters by name inside of exported code: from names to the tables that a step reads.

Inertias are combined by the same formulas as in `simulate`, traced. All other tables follow from
named values by sums and products of two, whose coefficients differences give; a random sample of
values decides whether they do.
"""

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import ModelError, UnknownNameError
from tiburon.functions.parameters import felt_armatures, inertia_numbers
from tiburon.model import Model
from tiburon.model.parameters import (
    AXES,
    LISTING,
    PRODUCTS,
    SPATIAL_AXES,
    SYMMETRIC,
    Parameter,
    component_places,
)
from tiburon.record import record
from tiburon.results.header import velocity_units
from tiburon.simulation.simulate import Preparation
from tiburon.spatial import RigidInertia
from tiburon.trace.array import as_traced
from tiburon.trace.program import Program, trace

Array = NDArray[np.float64]

INERTIA = "inertia"

DIFFERENCE = 2.0**-8
"""Step of differences, relative to the largest entry of a parameter."""

TOLERANCE = 1e-10
"""Error of the sums and products at random values, relative to the entries of a table: rounding of
second differences, eps / DIFFERENCE^2, with a margin."""

POSITIVE = ("mass", "density")
"""Words of parameters above 0."""

NOT_NEGATIVE = ("armature", "damping", "friction", "stiffness", "volume")
"""Words of parameters of at least 0."""


@record
class NamedScalar:
    """A run-time parameter of a unit: a number by name."""

    name: str
    """As `tiburon.parameters` and its components name it."""

    item: Parameter
    """The parameter that it belongs to."""

    place: tuple[int, ...]
    """Where it stands there."""

    value: float
    """Its value at export."""

    unit: str
    """Its unit; empty if none is known."""

    @property
    def lower(self) -> float:
        """Least value."""
        words = (*POSITIVE, *NOT_NEGATIVE)
        return 0.0 if self.item.name.rpartition(".")[2] in words and not self.place else -np.inf

    @property
    def positive(self) -> bool:
        """Whether it must be above its least value."""
        return self.item.name.rpartition(".")[2] in POSITIVE


def named_scalars(
    known: Mapping[str, Parameter], names: Sequence[str], model: Model
) -> list[NamedScalar]:
    """Return the scalars of parameters or of single components, in order.

    Args:
        known: All parameters, as `tiburon.parameters` lists them.
        names: Names of some, or of components such as "hull.center_of_mass.z".
        model: The robot.

    Raises:
        UnknownNameError: If there is no such parameter.
        ModelError: If a parameter has no components that can be named.
    """
    found: dict[str, NamedScalar] = {}
    for name in names:
        if name in known:
            item = known[name]
            chosen = [name] if item.shape == () else [f"{name}.{w}" for w in _words(item)]
            if not chosen:
                raise ModelError(
                    f"parameters: {name!r} has shape {item.shape}, whose entries have no names; "
                    "export a unit for each value"
                )
        else:
            chosen = [name]
        for one in chosen:
            whole, places = (one, [()]) if one in known else component_places(one, known)
            if not places:
                raise UnknownNameError(
                    "parameter", name, known, where="parameters", listing=LISTING
                )
            item, place = known[whole], places[0]
            value = float(np.asarray(item.value, dtype=np.float64)[place])
            found[one] = NamedScalar(one, item, place, value, _unit(item, place, model))
    return list(found.values())


def _words(item: Parameter) -> list[str]:
    """Return the names of the components of a parameter."""
    if item.shape == (3,):
        return list(AXES)
    if item.shape == (6,):
        return list(PRODUCTS if item.path[-1] == "tensor" else SPATIAL_AXES)
    if item.shape != (6, 6):
        return []
    mirrored = item.name.rpartition(".")[2] in SYMMETRIC
    return [
        a if a == b else f"{a}_{b}"
        for i, a in enumerate(SPATIAL_AXES)
        for j, b in enumerate(SPATIAL_AXES)
        if i <= j or not mirrored
    ]


def _unit(item: Parameter, place: tuple[int, ...], model: Model) -> str:
    """Return the unit of an entry: which of several depends on the joint, or on the axes."""
    if "," in item.unit:
        choices = [part.strip() for part in item.unit.split(",")]
        linear = [k >= len(AXES) for k in place]
        # matrices of forces by velocities: the unit of a row is that of its force
        number = sum(linear) if len(choices) > len(place) else int(linear[0])
        return choices[number] if len(set(linear)) == 1 or len(choices) > len(place) else ""
    if " or " in item.unit:
        angular, linear_unit = item.unit.split(" or ")
        names = {joint.name for joint in model.joints if joint.nv}
        if item.part != "joint" or item.owner not in names:
            return ""
        units = velocity_units(model)[model.slice(item.owner, of="v")]
        unit = units[place[0] if place and len(units) > place[0] else 0]
        return angular if unit == "rad/s" else linear_unit
    return item.unit


def tables_program(ready: Preparation, scalars: Sequence[NamedScalar]) -> Program:
    """Return the program from named values to the tables of run-time parameters of a step.

    Args:
        ready: A run that was prepared with these names.
        scalars: The values, in order.

    Raises:
        ModelError: If a table does not follow from them by sums and products of two.
    """
    assert ready.varied is not None
    start = np.array([one.value for one in scalars])
    rows = {name: np.ravel(values) for name, values in ready.varied.rows.items()}
    products = {name: _Products(ready, scalars, name, start) for name in rows if name != INERTIA}

    def run(named: Any) -> Any:
        given = [named[k] for k in range(len(scalars))]
        found: dict[str, Any] = {}
        for name in rows:
            if name == INERTIA:
                model = ready.varied.model  # type: ignore[union-attr]
                found[name] = as_traced(_inertias(model, scalars, given))
            else:
                found[name] = as_traced(products[name].at(given))
        return found

    return trace(run, {"named": (len(scalars),)}, name="tables")


def _inertias(model: Model, scalars: Sequence[NamedScalar], given: Sequence[Any]) -> list[Any]:
    """Return the inertial parameters of the plan."""
    bodies = {body.name: body for body in model.bodies}
    parts: dict[str, dict[str, list[Any]]] = {}
    armatures: dict[str, list[Any]] = {}
    joints = {joint.name: joint for joint in model.joints}
    for one, value in zip(scalars, given, strict=True):
        item = one.item
        if item.part == "body":
            inertia = bodies[item.owner].inertia
            own = parts.setdefault(
                item.owner,
                {"mass": [inertia.mass], "com": list(inertia.com), "tensor": list(inertia.tensor)},
            )
            own[str(item.path[-1])][one.place[0] if one.place else 0] = value
        elif item.part == "joint" and item.path[0] == "armature":
            felt = armatures.setdefault(item.owner, list(joints[item.owner].armatures))
            felt[one.place[0] if one.place else 0] = value
    found = {
        name: RigidInertia.from_mass(own["mass"][0], tuple(own["com"]), tuple(own["tensor"]))
        for name, own in parts.items()
    }
    return inertia_numbers(model, found, felt_armatures(model, armatures))


class _Products:
    """A table as sums of named values and products of two, by differences."""

    def __init__(
        self, ready: Preparation, scalars: Sequence[NamedScalar], table: str, start: Array
    ) -> None:
        count = len(start)
        self._start = start
        scales = [float(np.abs(np.asarray(one.item.value)).max(initial=0.0)) for one in scalars]
        # powers of two: no rounding in the arguments
        steps = np.array([2.0 ** np.round(np.log2(s * DIFFERENCE or DIFFERENCE)) for s in scales])
        pairs = [(i, j) for i in range(count) for j in range(i, count)]
        offsets = [np.zeros(count), *np.diag(steps)]
        for i, j in pairs:
            both = np.zeros(count)
            both[i] += steps[i]
            both[j] += steps[j]
            offsets.append(both)
        random = np.random.default_rng(0)
        offsets += list(steps * random.uniform(0.25, 1.0, (4, count)))
        # stops and bristles, scaled by the inertia at their joints, stay those of the export
        inertial = [one.item.part == "body" or one.item.path[0] == "armature" for one in scalars]
        for offset in offsets:
            offset[inertial] = 0.0
        values = start + np.array(offsets)
        named = {one.name: values[:, k] for k, one in enumerate(scalars)}
        rows = ready.vary(named).rows[table]
        if rows.ndim == 1:
            # nothing of what is named here matters to it
            rows = np.broadcast_to(rows, (len(values), len(rows)))
        self._base = base = rows[0]
        self._first = _round((rows[1 : 1 + count] - base) / steps[:, None])
        self._second: dict[tuple[int, int], Array] = {}
        for (i, j), both_rows in zip(pairs, rows[1 + count : 1 + count + len(pairs)], strict=True):
            alone = rows[1 + i] + rows[1 + j]
            mixed = (both_rows - alone + base) / (steps[i] * steps[j])
            if i == j:
                mixed = mixed / 2.0
            noise = 8.0 * np.finfo(float).eps * np.abs(rows).max(axis=0) / (steps[i] * steps[j])
            mixed = np.where(np.abs(mixed) > noise, _round(mixed), 0.0)
            if mixed.any():
                self._second[i, j] = mixed
                if i == j:
                    # a difference to one side holds half of the curvature
                    self._first[i] -= mixed * steps[i]
        for given, expected in zip(values[-4:], rows[-4:], strict=True):
            error = np.abs(np.array(self.at(list(given)), dtype=np.float64) - expected)
            if (error > TOLERANCE * np.maximum(np.abs(expected), np.abs(expected).max())).any():
                moving = np.abs(self._first).max(axis=1) > 0.0
                names = [one.name for one, moves in zip(scalars, moving, strict=True) if moves]
                raise ModelError(
                    f"parameters: expected names whose values enter the step by sums and products, "
                    f"got {', '.join(names)}, which do not; export a unit for each value"
                )

    def at(self, given: Sequence[Any]) -> list[Any]:
        """Return the table for some values."""
        found: list[Any] = []
        moved = [value - start for value, start in zip(given, self._start, strict=True)]
        for k, base in enumerate(self._base):
            terms = np.flatnonzero(self._first[:, k])
            pairs = [(pair, c[k]) for pair, c in self._second.items() if c[k] != 0.0]
            if len(terms) == 1 and not pairs:
                i = int(terms[0])
                if self._first[i, k] == 1.0 and base == self._start[i]:
                    found.append(given[i])
                    continue
            total: Any = float(base)
            for i in map(int, terms):
                total = total + float(self._first[i, k]) * moved[i]
            for (i, j), c in pairs:
                total = total + float(c) * moved[i] * moved[j]
            found.append(total)
        return found


def _round(values: Array) -> Array:
    """Return coefficients without the rounding of differences where they are small whole ones."""
    near = np.round(values)
    return np.where(np.abs(values - near) < 1e-9, near, values)
