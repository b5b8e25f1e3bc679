"""Parameters of robots, worlds, elements and controllers by name, such as "vehicle.mass".

A name consists of the part and the field: "shoulder.damping", "fluid.current",
"hull.drag.0.coefficient". Values by these names override those of a robot, with one value for a
whole batch or one per case.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import fields, is_dataclass, replace
from typing import Any

import numpy as np

from tiburon.argument_checks import check_finite, refuse_unusable
from tiburon.arrays import Array
from tiburon.errors import ModelError, ShapeError, TiburonError, UnknownNameError
from tiburon.model.body_fluid import BodyFluid
from tiburon.model.joints.joint import JointPassive
from tiburon.model.model import Model
from tiburon.model.placements import ROTATION, TRANSLATION, placed_parts
from tiburon.model.plan import WORLD_BODY
from tiburon.model.world import World
from tiburon.record import record
from tiburon.spatial.rotations import quaternion_log

Path = tuple[str | int, ...]

LISTING = "tb.parameters(model, ...)"
"""The call that lists all names."""

AXES = ("x", "y", "z")
"""Names of the components of vectors: "hull.center_of_mass.z" is a parameter too."""

PRODUCTS = ("xx", "xy", "xz", "yy", "yz", "zz")
"""Names of the components of rotational inertias."""

SPATIAL_AXES = ("wx", "wy", "wz", "vx", "vy", "vz")
"""Names of spatial components: "hull.added_mass.vx" is an entry of the diagonal,
"hull.added_mass.wy_vz" one beside it and the one that mirrors it."""

SYMMETRIC = ("added_mass",)
"""Words of matrices that are symmetric: one name stands for both mirrored entries."""

ROWS = ("inertia", "geometry", "gravity", "fluid", "immersion", "elements", "control")
"""Names of the tables of run-time parameters in compiled code."""

UNITS = {
    "normal_stiffness": "N/m",
    "normal_damping": "N s/m",
    "planar_stiffness": "N/m",
    "planar_damping": "N s/m",
    "dissipation": "s/m",
    "torsional_friction": "m",
    "rolling_friction": "m",
    "mass": "kg",
    "translation": "m",
    "rotation": "rad",
    "center_of_mass": "m",
    "inertia": "kg m^2",
    "gravity": "m/s^2",
    "density": "kg/m^3",
    "current": "m/s",
    "surface": "m",
    "volume": "m^3",
    "center_of_buoyancy": "m",
    "added_mass": "kg m^2, kg m, kg",
    "linear_damping": "N m s/rad, N s/m",
    "quadratic_damping": "N m s^2/rad^2, N s^2/m^2",
    "armature": "kg m^2 or kg",
    "damping": "N m s/rad or N s/m",
    "friction": "N m or N",
    "stiffness": "N m/rad or N/m",
    "rest": "rad or m",
    "lower": "rad or m",
    "upper": "rad or m",
    "surface_speed": "m/s",
    "speed": "m/s",
    "speeds": "m/s",
    "amplitude": "m/s",
    "mean": "m/s",
    "depth": "m",
    "height": "m",
    "period": "s",
    "phase": "rad",
    "direction": "rad",
    "deflection": "rad",
    "area": "m^2",
    "time_constant": "s",
    "resistance": "ohm",
    "inductance": "H",
    "torque_constant": "N m/A",
    "back_emf_constant": "V s/rad",
    "voltage_limit": "V",
    "current_limit": "A",
    "rest_length": "m",
    "frequency": "rad/s",
}
"""Units by the last word of a name; others have none, or depend on the driven joint."""

UNIT_TOLERANCE = 1e-6
"""Error of the length of a quaternion that counts as rounding: files have six digits."""

PLACEMENT = "placement"
"""Part of parameters of the geometry."""

_EMPTY: dict[str, Any] = {"fluid": BodyFluid(), "passive": JointPassive()}
"""Default for a part that a body or joint does not have."""


@record
class Parameter:
    """A value or array addressed by name."""

    name: str
    """Such as "vehicle.mass"."""

    value: Any
    """Value in the robot or its world: a float, or nested tuples of floats."""

    unit: str
    """Its unit; empty where it depends on the driven joint."""

    part: str
    """Type of the part: "body", "joint", "gravity", "fluid", "actuator", "element", "control",
    ..."""

    owner: str
    """Name of the part."""

    path: Path
    """Path within the part: names of fields, and indices in tuples."""

    @property
    def shape(self) -> tuple[int, ...]:
        """Shape of one value: () for a scalar."""
        return np.shape(self.value)


def parameter(part: str, owner: str, word: str, value: Any, path: Path) -> Parameter:
    """Return a parameter of a part."""
    return Parameter(f"{owner}.{word}", value, _unit(word), part, owner, path)


def _unit(word: str) -> str:
    return UNITS.get(word.split(".")[-1], "")


def with_value(owner: Any, path: Path, value: Any) -> Any:
    """Return a part with another value at a path; constructors along the path check it."""
    if not path:
        return value
    step, rest = path[0], path[1:]
    if isinstance(step, int):
        inner = with_value(owner[step], rest, value)
        parts = (*owner[:step], inner, *owner[step + 1 :])
        # named tuples keep their kind
        return type(owner)(*parts) if hasattr(owner, "_fields") else parts
    found = getattr(owner, step)
    inner = with_value(_EMPTY.get(step) if found is None else found, rest, value)
    return replace(owner, **{step: inner})


def plain(array: Any) -> Any:
    """Return an array as a float or nested tuples of floats, as parts hold them."""
    found = np.asarray(array, dtype=np.float64)
    return float(found) if found.ndim == 0 else tuple(plain(entry) for entry in found)


def leaves(owner: Any) -> Iterator[tuple[str, Any, Path]]:
    """Iterate over all values of a part: name within it, value and path."""
    for item in fields(owner):
        if item.init:
            yield from _leaves_of(item.name, getattr(owner, item.name), (item.name,))


def _leaves_of(word: str, value: Any, path: Path) -> Iterator[tuple[str, Any, Path]]:
    if isinstance(value, float) or (isinstance(value, tuple) and value and _is_array(value)):
        yield word, value, path
    elif isinstance(value, (Model, World)):
        # robots and surroundings that a controller believes in are compiled in
        return
    elif is_dataclass(value) and not isinstance(value, type):
        for inner, x, rest in leaves(value):
            yield f"{word}.{inner}", x, (*path, *rest)
    elif isinstance(value, tuple):
        for k, entry in enumerate(value):
            if isinstance(entry, tuple) and len(entry) == 2 and isinstance(entry[0], str):
                # values by joint name
                yield from _leaves_of(f"{word}.{entry[0]}", entry[1], (*path, k, 1))
            else:
                yield from _leaves_of(f"{word}.{k}", entry, (*path, k))


def _is_array(value: tuple[Any, ...]) -> bool:
    """Return whether nested tuples hold floats only, equally many in each."""
    if all(isinstance(x, float) for x in value):
        return True
    inner = [isinstance(x, tuple) and bool(x) and _is_array(x) for x in value]
    return all(inner) and len({np.shape(x) for x in value}) == 1


def run_time_leaves(
    owner: Any, code: Callable[[Any], tuple[object, Sequence[float]]]
) -> Iterator[tuple[str, Any, Path]]:
    """Iterate over the run-time parameters of a part.

    Args:
        owner: The part.
        code: Returns the structure of a part and its run-time parameters. A value of the part is
            one of the latter if changing it does not change the structure.
    """
    structure, numbers = code(owner)
    for word, value, path in leaves(owner):
        array = np.asarray(value)
        if not np.isfinite(array).all():
            continue
        for other in (1.25 * array, 1.25 * array + 0.125, 0.75 * array):
            try:
                changed = code(with_value(owner, path, plain(other)))
            except TiburonError:
                continue
            if changed[0] == structure and tuple(changed[1]) != tuple(numbers):
                yield word, value, path
                break


def placement_parameters(model: Model) -> Iterator[Parameter]:
    """Iterate over the geometry: translations and rotation vectors of poses."""
    for name, part in placed_parts(model).items():
        for word in (TRANSLATION, ROTATION):
            value = part.value(word)
            yield Parameter(f"{name}.{word}", value, _unit(word), PLACEMENT, name, (word,))


def model_parameters(model: Model, world: World) -> Iterator[Parameter]:
    """Iterate over masses, armatures, geometry, gravity and the parameters of the water."""
    plan = model.plan
    for body in model.bodies:
        if plan.frame(body.name).body == WORLD_BODY:
            continue
        words = {"mass": "mass", "center_of_mass": "com", "inertia": "tensor"}
        for word, field in words.items():
            value = getattr(body.inertia, field)
            yield parameter("body", body.name, word, value, ("inertia", field))
    for joint in model.joints:
        if joint.dof:
            armatures = joint.armatures
            value = armatures if len(armatures) > 1 else armatures[0]
            yield parameter("joint", joint.name, "armature", value, ("armature",))
    yield from placement_parameters(model)
    yield Parameter("world.gravity", world.gravity, "m/s^2", "gravity", "world", ("gravity",))
    if world.fluid is not None:
        yield from _fluid_parameters(world)


def _fluid_parameters(world: World) -> Iterator[Parameter]:
    fluid = world.fluid
    assert fluid is not None
    one = fluid if fluid.cases is None else fluid.case(0)
    for word, value, path in leaves(one):
        if word != "viscosity":
            yield parameter("fluid", "fluid", word, value, path)


def read_values(
    known: Mapping[str, Parameter], given: Mapping[Any, Any], *, reading: bool = True
) -> dict[str, Array]:
    """Return values by name, each with leading dimensions of cases or none.

    Args:
        known: All parameters.
        given: Values from the caller, also for single components such as "hull.center_of_mass.x".
        reading: Whether values are read; else names alone, and the values are those of `known`.

    Raises:
        UnknownNameError: If there is no such parameter.
        ShapeError: If a value does not have the shape of the parameter.
        NonFiniteError: If a value is NaN or infinite.
    """
    if not isinstance(given, Mapping):
        raise ModelError(
            f"parameters: expected values by name, got {type(given).__name__}; write "
            "parameters={'body.mass': [1.0, 2.0]}"
        )
    found: dict[str, Array] = {}
    single: list[tuple[str, list[tuple[int, ...]], Array]] = []
    for name, value in given.items():
        if isinstance(name, str) and name in known:
            found[name] = _array(name, known[name].shape, value if reading else known[name].value)
            continue
        whole, places = component_places(str(name), known)
        if not places:
            raise _unknown(name, known)
        single.append((whole, places, _array(str(name), (), value)))
    for whole, places, value in single:
        shape = known[whole].shape
        base = found.get(whole, np.array(known[whole].value))
        lead = np.broadcast_shapes(base.shape[: base.ndim - len(shape)], value.shape)
        base = np.array(np.broadcast_to(base, (*lead, *shape)))
        for place in places:
            where: Any = (..., *place)
            base[where] = value
        found[whole] = base
    return found


def component_places(
    name: str, known: Mapping[str, Parameter]
) -> tuple[str, list[tuple[int, ...]]]:
    """Return the parameter that a component belongs to, and where it stands there.

    No place if there is no such component: "hull.center_of_mass.x", "hull.inertia.xy",
    "hull.added_mass.vx" and "hull.linear_damping.wx_vy" are some.
    """
    whole, _, word = name.rpartition(".")
    item = known.get(whole)
    if item is None:
        return whole, []
    if item.shape == (6, 6):
        row, _, column = word.partition("_")
        if row not in SPATIAL_AXES or (column or row) not in SPATIAL_AXES:
            return whole, []
        i, j = SPATIAL_AXES.index(row), SPATIAL_AXES.index(column or row)
        mirrored = i != j and whole.rpartition(".")[2] in SYMMETRIC
        return whole, [(i, j), (j, i)] if mirrored else [(i, j)]
    words: tuple[str, ...] = AXES if item.shape == (3,) else ()
    if item.shape == (6,):
        words = PRODUCTS if item.path[-1] == "tensor" else SPATIAL_AXES
    return whole, [(words.index(word),)] if word in words else []


def _unknown(name: Any, known: Mapping[str, Parameter]) -> TiburonError:
    if name in ROWS:
        example = next(
            (x for x in known if x.split(".")[0] == name), next(iter(known), "body.mass")
        )
        return ModelError(
            f"parameters[{name!r}]: expected the name of a parameter, got that of a parameter "
            "table, whose layout depends on which values are zero; give values by name, such as "
            f"parameters={{{example!r}: ...}} ({LISTING} lists all)"
        )
    return UnknownNameError("parameter", str(name), known, where="parameters", listing=LISTING)


def _array(name: str, shape: tuple[int, ...], value: Any) -> Array:
    argument = f"parameters[{name!r}]"
    wanted = "one value, or one per case" if not shape else f"shape {shape}, or (cases, *{shape})"
    refuse_unusable(argument, value)
    try:
        array = np.asarray(value, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        raise ShapeError(argument, wanted, f"a {type(value).__name__}") from None
    if shape == (6,) and array.shape[-2:] == (3, 3):
        array = _six(argument, array)
    if shape == (3,) and array.shape[-1:] == (4,) and name.endswith(f".{ROTATION}"):
        array = _rotation_vectors(argument, array)
    if array.ndim < len(shape) or array.shape[array.ndim - len(shape) :] != shape:
        raise ShapeError(argument, wanted, f"shape {array.shape}")
    check_finite(argument, array)
    return array


def _rotation_vectors(argument: str, quaternions: Array) -> Array:
    """Return the rotation vectors [rad] of unit quaternions (w, x, y, z), shape (..., 4)."""
    check_finite(argument, quaternions)
    lengths = np.linalg.norm(quaternions, axis=-1)
    off = np.abs(lengths - 1.0)
    if off.max(initial=0.0) > UNIT_TOLERANCE:
        raise ModelError(
            f"{argument}: expected rotation vectors [rad], shape (3,), or unit quaternions (w, x, "
            f"y, z), got a quaternion of length {lengths.ravel()[off.argmax()]:.6g}; divide it by "
            "its length"
        )
    rows = [quaternion_log(quaternion) for quaternion in quaternions.reshape(-1, 4).tolist()]
    return np.array(rows, dtype=np.float64).reshape(*quaternions.shape[:-1], 3)


def _six(argument: str, matrices: Array) -> Array:
    """Return the six distinct entries of symmetric matrices."""
    from tiburon.model.inertia import ASYMMETRY_TOLERANCE

    gap = np.abs(matrices - np.swapaxes(matrices, -1, -2)).max(axis=(-2, -1))
    if (gap > ASYMMETRY_TOLERANCE * np.abs(matrices).max(axis=(-2, -1))).any():
        raise ModelError(
            f"{argument}: expected symmetric matrices, got asymmetric ones; mirror the entries"
        )
    rows, columns = np.triu_indices(3)
    found: Array = matrices[..., rows, columns]
    return found
