"""Parameters of runs by name: of robot, surroundings, elements and controller."""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import is_dataclass, replace
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tiburon.actuation.contact_element import ContactElement
from tiburon.actuation.contact_models import DEFAULT_CONTACT, contact_elements
from tiburon.actuation.defaults import as_elements, elements_of
from tiburon.actuation.element import Element, structure_of
from tiburon.actuation.joint_laws import LawChoice
from tiburon.actuation.joint_stops import JointStops
from tiburon.actuation.prescribed import CASE, PrescribedMotion
from tiburon.actuation.stick_slip import StickSlip
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.argument_checks import refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import Array
from tiburon.errors import ModelError, OptionError, ShapeError
from tiburon.functions.library import check_places
from tiburon.functions.parameters import (
    GROUND,
    PASSIVE,
    CaseRows,
    at_run_time,
    contact_parameters,
    dynamics_parameters,
    ground_parameters,
    lead_of,
    lowered,
    model_of_case,
    rows_of,
    with_surfaces,
)
from tiburon.model import Ground, Model, Water, World
from tiburon.model.joints.joint import JointPassive
from tiburon.model.parameters import (
    PLACEMENT,
    Parameter,
    parameter,
    plain,
    read_values,
    run_time_leaves,
    with_value,
)
from tiburon.simulation.layout import TABLES
from tiburon.simulation.system import System
from tiburon.trace.declared import has_structure, is_declared, is_traced
from tiburon.trace.program import Input

if TYPE_CHECKING:
    from tiburon.native.code import Part

NUMBERS = "parameters"
"""Name of the parameters of users' elements and controllers, all in one array."""


class ParameterTable(dict[str, Parameter]):
    """Parameters by name; `print` shows them with units and shapes."""

    def __repr__(self) -> str:
        return f"<{len(self)} parameters: {', '.join(list(self)[:3])}, ...>"

    def __str__(self) -> str:
        rows = [("name", "shape", "unit", "value")]
        for name, item in self.items():
            value = np.array2string(np.asarray(item.value), precision=6, threshold=6, edgeitems=2)
            rows.append((name, str(item.shape), item.unit, " ".join(value.split())))
        widths = [max(len(row[k]) for row in rows) for k in range(3)]
        return "\n".join(
            "  ".join([*(text.ljust(w) for text, w in zip(row[:3], widths, strict=True)), row[3]])
            for row in rows
        )


@public
def parameters(
    model: Model,
    *,
    world: World | None = None,
    fluid: Water | Sequence[Water] | None = None,
    elements: Sequence[Any] = (),
    control: Any = None,
) -> ParameterTable:
    """List all parameters that ``parameters=`` of `simulate` accepts by name, with their values.

    Dynamics functions and kernels of `compile` also accept those of bodies, armatures, gravity and
    water; `contact_dynamics`, `impact` and `linearize` those of the ground and of contacts, too.
    Friction of joints, limits and motors act in runs only.

    Args:
        model: The robot.
        world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.
        fluid: The water the robot is in: short for a world of this fluid.
        elements: Further elements, besides the robot's own.
        control: A traced controller.

    Returns:
        Parameters by name, each with `value`, `shape` and `unit`.

    Example:
        ``print(tb.parameters(arm, fluid=tb.Water()))``
    """
    check_places(model, world)
    around = world_with(world, fluid) or DEFAULT_WORLD
    extra = (*as_elements(elements), *contact_elements(model, around, DEFAULT_CONTACT))
    return ParameterTable(_known(model, around, extra, control))


@public
def with_parameters(
    model: Model, parameters: Mapping[str, Any], *, name: str | None = None
) -> Model:
    """Return a robot with other values of its parameters, by name, as constants.

    Args:
        model: The robot.
        parameters: Values by name, as `parameters` lists them, or those of single components:
            masses, geometry, hydrodynamic coefficients, friction, motors and so on. Those of the
            world and of the water are not parts of a robot.
        name: Name of the result; by default that of the robot.

    Raises:
        UnknownNameError: If a robot has no such parameter.
        ShapeError: If a value has another shape, or one per case.
        ModelError: If a robot cannot have a value.

    Example:
        ``tb.with_parameters(arm, {"tool.translation.x": 0.31, "link_1.mass": 5.2})``
    """
    check_places(model, None)
    wet = any(body.fluid is not None for body in model.bodies)
    around = World(fluid=Water()) if wet else DEFAULT_WORLD
    known = _known(model, around, (), None)
    known = {key: item for key, item in known.items() if item.part not in ("gravity", "fluid")}
    values = read_values(known, parameters)
    for key, array in values.items():
        if array.shape != known[key].shape:
            raise ShapeError(
                f"parameters[{key!r}]",
                known[key].shape,
                array.shape,
                advice="a robot has one value: call this once per case",
            )
    found = model_of_case(model, {known[key]: plain(array) for key, array in values.items()})
    return found if name is None else found._changed(found._parts, name)


def _known(
    model: Model, world: World, elements: Sequence[Element], control: Any
) -> dict[str, Parameter]:
    found = dynamics_parameters(model, world)
    touches = any(isinstance(element, ContactElement) for element in elements)
    for item in (
        *_joint_parameters(model),
        *_part_parameters(model),
        *_element_parameters(elements),
        *ground_parameters(world.ground if touches else None),
        *_control_parameters(control),
    ):
        if item.name in found:
            raise ModelError(
                f"parameters: {item.name!r} names two numbers of model {model.name!r} and what "
                "acts on it; give parts names of their own"
            )
        found[item.name] = item
    return found


def _joint_parameters(model: Model) -> Iterator[Parameter]:
    for joint in model.joints:
        count = joint.dof
        if not count:
            continue
        own = joint.passive or JointPassive()
        for word in PASSIVE:
            value = getattr(own, word)
            several = isinstance(value, tuple) or count == 1
            value = value if several else (value,) * count
            yield parameter("joint", joint.name, word, value, ("passive", word))
        if joint.limits is not None:
            for word in ("lower", "upper"):
                value = getattr(joint.limits, word)
                if np.isfinite(value).all():
                    yield parameter("joint", joint.name, word, value, ("limits", word))


def _part_parameters(model: Model) -> Iterator[Parameter]:
    kinds: dict[str, tuple[Any, ...]] = {
        "actuator": model.actuators,
        "thruster": model.thrusters,
        "cylinder": model.cylinders,
        "cable": model.cables,
        "spring": model.springs,
    }
    for kind, parts in kinds.items():
        for part in parts:
            for word, value, path in run_time_leaves(part, _code_of_part):
                yield parameter(kind, part.name, word, value, path)


def _code_of_part(part: Any) -> tuple[object, Sequence[float]]:
    (element,) = as_elements((part,))
    return structure_of((element,)), element.parameters()


def _element_parameters(elements: Sequence[Element]) -> Iterator[Parameter]:
    for element in elements:
        if isinstance(element, ContactElement):
            # those of surfaces alone, without trying all of them: there may be hundreds
            yield from contact_parameters(element.candidates, element.name)
            continue
        if isinstance(element, PrescribedMotion):
            # numbers of splines are in tables, without trying each of them
            if element.parameters():
                yield parameter("element", element.name, CASE, element.case, (CASE,))
            continue
        part: object = element
        if not is_declared(element) or not is_dataclass(part):
            numbers = tuple(element.parameters())
            if numbers:
                yield parameter("element", element.name, NUMBERS, numbers, (NUMBERS,))
            continue
        for word, value, path in run_time_leaves(element, _code_of_part):
            # an element that stands for a part of a robot has the parameters of that part
            inner = word.partition(".")[2] if path[0] in _PARTS else word
            yield parameter("element", element.name, inner, value, path)


_PARTS = ("actuator", "thruster", "cylinder", "cable", "spring")
"""Fields of elements that refer to the part of a robot they stand for."""


def _control_parameters(control: Any) -> Iterator[Parameter]:
    if control is not None and is_traced(control):
        yield from _parameters_of(control, "", ())


def _parameters_of(control: Any, prefix: str, path: tuple[str | int, ...]) -> Iterator[Parameter]:
    parts = getattr(control, "parts", None)
    if isinstance(parts, tuple):
        for k, part in enumerate(parts):
            yield from _parameters_of(part, f"{prefix}{k}.", (*path, "parts", k))
        return
    numbers = control_numbers(control)
    if not numbers:
        return
    if _is_ours(control):
        for word, value, rest in run_time_leaves(control, _code_of_control):
            yield parameter("control", "control", f"{prefix}{word}", value, (*path, *rest))
    else:
        yield parameter("control", "control", f"{prefix}{NUMBERS}", numbers, (*path, NUMBERS))


def _is_ours(control: Any) -> bool:
    ours = type(control).__module__.startswith("tiburon.")
    return ours and is_dataclass(control) and has_structure(control)


def control_numbers(control: Any) -> tuple[float, ...]:
    """Return the run-time parameters of a controller in order."""
    given = getattr(control, "parameters", ())
    given = given() if callable(given) else given
    return tuple(np.ravel(np.asarray(given, dtype=np.float64)).tolist())


def _code_of_control(control: Any) -> tuple[object, Sequence[float]]:
    return repr(control.structure()), control_numbers(control)


class VariedRun(NamedTuple):
    """Robot, surroundings, elements and controller of a run with parameters set by name."""

    model: Model
    world: World
    elements: tuple[Element, ...]
    control: Any
    rows: CaseRows
    """Tables of run-time parameters, with leading batch dimensions where cases differ."""

    named: dict[str, Array]
    """Values by name, with or without leading batch dimensions."""

    start: Array | None
    """Initial continuous states of the elements where they differ, shape (..., states)."""


def vary_run(
    model: Model,
    world: World,
    extra: Sequence[Element],
    control: Any,
    given: Mapping[str, Any],
    laws: Sequence[LawChoice] = (),
) -> VariedRun:
    """Return a run with parameters set by name.

    Args:
        model: The robot.
        world: Its surroundings, whose water may differ from case to case.
        extra: Elements beside the robot's own.
        control: The controller, or None.
        given: Values by name, one or one per case.
        laws: Laws of joints that act at the ends of steps.

    Raises:
        ModelError: If a model cannot have a value; the message names the case.
    """
    known = _known(model, world, extra, control)
    values = read_values(known, given)
    varied = lowered(model, world, values, known)
    named = dict(values)
    if world.fluid is not None and world.fluid.cases is not None:
        for word, entries in world.fluid._differing().items():
            if np.asarray(entries).dtype.kind == "f":
                named.setdefault(f"fluid.{word}", np.array(entries))
        named.setdefault("fluid.density", np.array(world.fluid.case(0).density))
    rows = varied.rows
    arrays = {known[name]: array for name, array in values.items()}

    def make(robot: Model) -> tuple[Element, ...]:
        return elements_of(robot, laws=laws)

    own = make(varied.model)
    felt = any(isinstance(element, (JointStops, StickSlip)) for element in own)
    moving = {item: array for item, array in arrays.items() if _acts_on_elements(item, felt)}
    start = None
    elements = (*own, *extra)
    if moving:
        found = _element_rows(varied.model, make, extra, moving, world.ground)
        elements, rows["elements"], start = found
        if not rows["elements"].shape[-1]:
            del rows["elements"]
    held = {item: array for item, array in arrays.items() if item.part == "control"}
    if held:
        control, rows["control"] = _control_rows(control, held)
    return VariedRun(varied.model, varied.world, elements, control, rows, named, start)


def _acts_on_elements(item: Parameter, felt: bool) -> bool:
    """Return whether run-time parameters of elements follow from a parameter.

    `felt` states whether the stiffness of elements follows from the inertia at their joints.
    """
    if item.part == "joint":
        return felt or item.path[0] != "armature"
    felt_parts = ("body", PLACEMENT)
    return item.part in (*_PARTS, "element", GROUND) or (felt and item.part in felt_parts)


def _element_rows(
    model: Model,
    make: Callable[[Model], tuple[Element, ...]],
    extra: Sequence[Element],
    arrays: Mapping[Parameter, Array],
    ground: Ground | None,
) -> tuple[tuple[Element, ...], Array, Array]:
    """Return the elements of the first case; parameters and initial states of all cases."""
    lead = lead_of(arrays)
    first: list[tuple[Element, ...]] = []
    start: list[tuple[float, ...]] = []

    def row(_: tuple[int, ...], values: Mapping[Parameter, Any]) -> Sequence[float]:
        of_model = {item: x for item, x in values.items() if item.part not in ("element", GROUND)}
        robot = model_of_case(model, of_model) if of_model else model
        own = make(robot)
        changed = [_changed(element, values, ground) for element in extra]
        elements = (*own, *(element for element, _ in changed))
        if not first:
            first.append(elements)
        elif structure_of(elements) != structure_of(first[0]):
            raise ModelError(
                f"{', '.join(item.name for item in values)}: expected the same numbers to be zero "
                "or infinite as in case 0, because code leaves such numbers of elements out, got "
                "others; run these cases apart, or give a small number instead of zero"
            )
        start.append(tuple(x for e in elements for x in e.initial_state(robot)))
        parts = (*(e.parameters() for e in own), *(numbers for _, numbers in changed))
        return [x for part in parts for x in part]

    table = rows_of(arrays, lead, row)
    return first[0], table, np.array(start, dtype=np.float64).reshape(*lead, -1)


def _changed(
    element: Element, values: Mapping[Parameter, Any], ground: Ground | None
) -> tuple[Element, tuple[float, ...]]:
    """Return an element with the values of one case, and its parameters."""
    if isinstance(element, ContactElement):
        surfaces = with_surfaces(element.candidates, ground, values, element.name)
        element = replace(element, candidates=surfaces)
        return element, tuple(element.parameters())
    for item, value in values.items():
        if item.part == "element" and item.owner == element.name:
            if item.path == (NUMBERS,):
                return element, tuple(value)
            element = with_value(element, item.path, value)
    return element, tuple(element.parameters())


def _control_rows(control: Any, arrays: Mapping[Parameter, Array]) -> tuple[Any, Array]:
    """Return the controller of the first case, and the parameters of all."""
    first: list[Any] = []

    def row(_: tuple[int, ...], values: Mapping[Parameter, Any]) -> Sequence[float]:
        found, numbers = _controller(control, values)
        form = _form_of_control(found)
        if not first:
            first[:] = [found, form]
        elif form != first[1]:
            raise ModelError(
                f"{', '.join(item.name for item in values)}: expected values that leave the form "
                "of the controller as it is in case 0, got others; run these cases apart"
            )
        return numbers

    table = rows_of(arrays, lead_of(arrays), row)
    return first[0], table


def _controller(
    control: Any, values: Mapping[Parameter, Any], path: tuple[str | int, ...] = ()
) -> tuple[Any, tuple[float, ...]]:
    """Return a controller with the values of one case, and its parameters in order."""
    parts = getattr(control, "parts", None)
    if isinstance(parts, tuple):
        found = [_controller(p, values, (*path, "parts", k)) for k, p in enumerate(parts)]
        whole = replace(control, parts=tuple(part for part, _ in found))
        return whole, tuple(x for _, numbers in found for x in numbers)
    for item, value in values.items():
        if item.path[: len(path)] != path:
            continue
        rest = item.path[len(path) :]
        if rest == (NUMBERS,):
            return control, tuple(value)
        control = with_value(control, rest, value)
    return control, control_numbers(control)


def _form_of_control(control: Any) -> object:
    parts = getattr(control, "parts", None)
    if isinstance(parts, tuple):
        return tuple(map(_form_of_control, parts))
    return repr(control.structure()) if _is_ours(control) else None


def with_named(model: Model, world: World, names: Sequence[str]) -> tuple[Model, World]:
    """Return robot and world of a run with all named values as run-time parameters."""
    if not names:
        return model, world
    known = _known(model, world, (), None)
    return at_run_time(model, world, [known[name] for name in names if name in known])


def bind_parameters(
    kernel: Callable[..., Any], parameters: Mapping[str, Any], cases: int | None
) -> tuple[Callable[..., Any], dict[str, Array]]:
    """Bind parameters that are equal for all cases; return the kernel and the others.

    Args:
        kernel: A kernel of the system.
        parameters: Values by name, shape (values,) or (cases, values).
        cases: Size of the batch; None for one robot.

    Raises:
        OptionError: If there is no parameter of a name.
        ShapeError: If there are not as many rows as cases.
    """
    own = kernel.__self__  # type: ignore[attr-defined]
    shared: dict[str, Any] = {}
    rows: dict[str, Array] = {}
    for name, values in parameters.items():
        # users cannot set the addresses of tables
        known = [key for key in own.parameters if key != TABLES]
        if name not in known:
            raise OptionError("parameters", known, name)
        refuse_unusable(f"parameters[{name!r}]", values)
        array = np.asarray(values, dtype=np.float64)
        size = own.parameters[name].shape
        if array.shape == size:
            shared[name] = array
        elif cases is not None and array.shape == (cases, *size):
            rows[name] = np.ascontiguousarray(array)
        else:
            expected = f"shape {size}" if cases is None else f"shape {size} or {(cases, *size)}"
            raise ShapeError(f"parameters[{name!r}]", expected, f"shape {array.shape}")
    return (own.with_parameters(**shared) if shared else kernel), rows


def bind_own(
    kernel: Callable[..., Any], parameters: Mapping[str, Any], cases: int | None
) -> tuple[Callable[..., Any], dict[str, Array]]:
    """Bind those of the parameters that a kernel reads, as `bind_parameters` does."""
    known = kernel.__self__.parameters  # type: ignore[attr-defined]
    own = {name: values for name, values in parameters.items() if name in known}
    return bind_parameters(kernel, own, cases)


def state_inputs(system: System) -> list[Input]:
    """Return the arguments of kernels that look at states: (*q, *v, *x), held values, time."""
    size = system.model.nq + system.model.nv + system.nx
    return [Input("state", (size,)), Input("u", (system.drive_size,)), Input("time", ())]


def state_kernel(
    system: System,
    run: Callable[[Any], Any],
    name: str,
    more: Sequence[Input] = (),
    part: "Part" = "one",
) -> Callable[..., Any]:
    """Return a kernel of (state, u, time) and further arguments, with the system's parameters."""
    from tiburon.native.kernel import ProgramSource, make_kernel

    program = system.trace(run, [*state_inputs(system), *more], name)
    return make_kernel(ProgramSource(program), system.parameters(), part=part)
