"""Keywords that public functions share: when, in which surroundings, and how results are delivered.

Three sets, each part of the next: `ModelCall` for functions of kinematics, `WorldCall` for those
that the surroundings enter, `DynamicsCall` for those that forces from outside enter.
"""

import inspect
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Literal, TypedDict, TypeVar, get_args

from tiburon.algorithms.setting import Options
from tiburon.argument_checks import choice
from tiburon.arrays import ArrayLike
from tiburon.errors import OptionError, ShapeError, TraceError, nearest_name, shown
from tiburon.model import Model, Water, World
from tiburon.trace.program import Input

Function = TypeVar("Function", bound=Callable[..., Any])


class Delivery(TypedDict, total=False):
    """Keywords of all functions that a kernel runs: where results go, and what failures do."""

    out: Any
    """Array of floats to write the result to, which is then returned; for several results a tuple
    of arrays, or an earlier result of the same call. It may overlap inputs, not other results."""

    errors: Literal["raise", "flag"]
    """What a case without a finite result does: "raise", the default, or "flag" to return a pair:
    the result with NaN in each failed case, and a bool array of shape (...) that marks them."""


class Timing(TypedDict, total=False):
    """Keyword of all functions of the motion of a robot."""

    time: ArrayLike | None
    """When [s], shape (...), where `Driven` joints or water move by themselves; zero by default."""


class Surroundings(Timing, total=False):
    """Keywords of all functions that the surroundings of a robot enter."""

    world: World | None
    """Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default."""

    fluid: Water | Sequence[Water] | None
    """The water a robot is in: short for a world of this fluid; a list has one per case."""


class Parameters(TypedDict, total=False):
    """Keyword of all functions that depend on parameters of a robot or of its surroundings."""

    parameters: Mapping[str, ArrayLike] | None
    """Values in place of those of robot and surroundings by name, such as "arm.mass",
    "elbow.translation" or "fluid.current", one or one per case; `tiburon.parameters` lists the
    names. Those that do not enter a result leave it as it is."""


class Conditions(Surroundings, total=False):
    """Keywords of all functions of dynamics: what acts on a robot, and when."""

    external_force: Mapping[str, ArrayLike] | None
    """By name of a body or frame, the force on it from outside, [n; f] at the frame's origin
    [N m, N], shape (..., 6)."""

    external_axes: str
    """Axes in which external forces are given: "frame", the frame's own, by default, or "world"."""

    external_inertia: Mapping[str, ArrayLike] | None
    """By name of a body or frame, a force from outside that goes with acceleration: -A a, with
    a the angular and classical acceleration of the frame, its own axes. A is symmetric, angular
    first, at the frame's origin [kg m^2, kg m, kg], shape (..., 6, 6). It joins the inertia, so
    that however large, it never lags behind the acceleration it opposes."""


class ModelCall(Timing, Parameters, Delivery, total=False):
    """All shared keywords of functions of kinematics."""


class WorldCall(Surroundings, Parameters, Delivery, total=False):
    """All shared keywords of functions of dynamics that no force enters, such as inertias."""


class StateCall(Conditions, Parameters, total=False):
    """Shared keywords of functions of dynamics that combine results of several kernels."""


class DynamicsCall(Conditions, Parameters, Delivery, total=False):
    """All shared keywords of functions of dynamics."""


SharedKeywords = DynamicsCall | WorldCall | ModelCall | Delivery
"""Any of these sets."""

DELIVERY = frozenset(Delivery.__annotations__)
CONDITIONS = frozenset(Conditions.__annotations__)
MODEL_CALL = frozenset(ModelCall.__annotations__)
WORLD_CALL = frozenset(WorldCall.__annotations__)
STATE_CALL = frozenset(StateCall.__annotations__)
DYNAMICS_CALL = frozenset(DynamicsCall.__annotations__)

AXES = ("frame", "world")
"""In which axes external forces may be given."""

FORCE_ADVICE = "write external_force={'hand': (nx, ny, nz, fx, fy, fz)}"
INERTIA_ADVICE = "write external_inertia={'hand': a 6 x 6 matrix}"

_DEFAULTS = {"external_axes": "frame", "errors": "raise"}


ARGUMENTS = {
    "model": "The robot.",
    "q": "Configuration [m or rad], shape (..., nq).",
    "v": "Joint velocity [m/s or rad/s], shape (..., nv).",
    "vd": "Joint acceleration, the time derivative of v [m/s^2 or rad/s^2], shape (..., nv).",
    "tau": "Joint force [N or N m], shape (..., nv).",
    "frames": """Name of a body or frame, or a sequence of names; by default every name of
            `model.frame_names` but the world, in that order.""",
    "at": """Where the linear part is taken: at the origin of the "frame" or of the "world", at the
            center of mass ("com") of the robot, or at a point in the frame's axes [m], shape
            (..., 3). It belongs to the point of the frame's body, extended if need be, that is
            there now.""",
    "axes": '"world" or "frame": axes of the result.',
    "closure": """Whether to refuse states with open loops, and velocities that open them, as
            `simulate` does; False computes with them. By default calls on arrays check, calls
            inside a traced function do not.""",
    "Delivery": "`out` and `errors`, the keywords of `Delivery`.",
    "ModelCall": "`time`, `parameters`, `out` and `errors`: see `Conditions` and `Delivery`.",
    "WorldCall": """`time`; `world` and `fluid`, whose added mass counts; `parameters`, `out` and
            `errors`: see `Conditions` and `Delivery`.""",
    "DynamicsCall": """What acts on the robot, and when: see `Conditions`; `parameters`; `out` and
            `errors`: see `Delivery`.""",
}
"""Descriptions of arguments that public functions share, and of each set of shared keywords."""

BATCHES = """One state or a batch: leading dimensions of all arrays broadcast. Inside a function
given to `tiburon.compile` the arrays may be traced, one state at a time.

Args:
"""


def describe_arguments(
    function: Callable[..., Any], parameters: Iterable[inspect.Parameter]
) -> None:
    """Fill the descriptions of shared arguments into a docstring, in the order of the signature.

    The docstring itself describes what is particular to the function. An entry for several names,
    such as "q, v: ...", is replaced by one entry each.
    """
    if function.__doc__ is None:
        return
    # Python 3.13 and later store docstrings without indentation, older ones with it
    text = inspect.cleandoc(function.__doc__)
    before, found, rest = text.partition("Args:\n")
    if not found:
        before, found, rest = text.partition("Returns:\n")
        rest = f"\n\n{found}{rest}"
    own, _, after = rest.partition("\n\n")
    entries = {
        entry.partition(":")[0]: entry for entry in re.split(r"(?:^|\n) {4}(?=\S)", own.rstrip())
    }
    filled = ""
    for x in parameters:
        name = shared = x.name
        if x.kind is x.VAR_KEYWORD:
            name, shared = f"**{x.name}", get_args(x.annotation)[0].__name__
        if name not in entries:
            entries[name] = f"{name}: " + re.sub(r"\n +", "\n        ", ARGUMENTS[shared])
        filled += f"    {entries[name]}\n"
    function.__doc__ = f"{before}{BATCHES}{filled}\n{after}"


def spell_keywords(function: Callable[..., Any]) -> inspect.Signature:
    """Spell out a function's shared keywords in the signature that help shows; change no code."""
    own = inspect.signature(function)
    named = [x for x in own.parameters.values() if x.kind is not x.VAR_KEYWORD]
    (shared,) = (x for x in own.parameters.values() if x.kind is x.VAR_KEYWORD)
    (options,) = get_args(shared.annotation)
    keywords = [
        inspect.Parameter(
            name, inspect.Parameter.KEYWORD_ONLY, default=_DEFAULTS.get(name), annotation=kind
        )
        for name, kind in options.__annotations__.items()
        if name not in own.parameters
    ]
    found = own.replace(parameters=[*named, *keywords])
    function.__dict__["__signature__"] = found
    return found


def takes_conditions(function: Function) -> Function:
    """Decorate a function so that help shows its shared keywords."""
    spell_keywords(function)
    return function


def unexpected_keyword(function: str, taken: frozenset[str], given: Iterable[str]) -> TypeError:
    """Return the error for a keyword that a function does not take, with the nearest one."""
    name = next(name for name in given if name not in taken)
    if name in DYNAMICS_CALL:
        listed = ", ".join(sorted(taken))
        return TypeError(
            f"{function}: takes no {name!r}, which would not enter its result; remove it (shared "
            f"keywords it takes: {listed})"
        )
    near = nearest_name(name, taken)
    hint = f"; did you mean {near!r}?" if near else ""
    return TypeError(f"{function}: unexpected keyword argument {name!r}{hint}")


def targets_of(kernel: Any, out: Any) -> Any:
    """Return where a kernel writes to: what the caller gave, or the arrays in an earlier result."""
    names = [result.name for result in kernel.__self__.outputs]
    if isinstance(out, (tuple, list)) or not all(name and hasattr(out, name) for name in names):
        return out
    return tuple(getattr(out, name) for name in names)


def refuse_delivery(function: str, out: Any, errors: str) -> None:
    """Raise if a traced call requests `out` or flags: its results are values of the graph."""
    choice("errors", errors, ("raise", "flag"))
    if out is not None or errors == "flag":
        given = "out=" if out is not None else "errors='flag'"
        raise TraceError(
            f"{function}: a traced call returns values and cannot take {given}; pass it to the "
            "compiled kernel instead",
            function=function,
        )


def external_options(
    external_force: Mapping[str, Any] | Sequence[str] | str | None, axes: str
) -> Options:
    """Return the options of code that takes forces at some frames, in some axes."""
    if axes not in AXES:
        raise OptionError("external_axes", AXES, axes)
    given: object = external_force
    if not (given is None or isinstance(given, (str, tuple, Mapping))):
        raise ShapeError(
            "external_force", "forces by name of a body or frame", f"{given!r}", advice=FORCE_ADVICE
        )
    names = (external_force,) if isinstance(external_force, str) else tuple(external_force or ())
    return (("external_force", names), ("external_axes", axes)) if names else ()


def inertia_options(external_inertia: Mapping[str, Any] | Sequence[str] | None) -> Options:
    """Return the options of code that takes inertias at some frames."""
    given: object = external_inertia
    if not (given is None or isinstance(given, (tuple, Mapping))):
        raise ShapeError(
            "external_inertia",
            "matrices by name of a body or frame",
            f"{given!r}",
            advice=INERTIA_ADVICE,
        )
    names = tuple(external_inertia or ())
    return (("external_inertia", names),) if names else ()


def check_by_name(argument: str, given: object) -> None:
    """Raise an error unless a call gives forces, or inertias, by name of a body or frame."""
    if given is None:
        return
    of_forces = argument == "external_force"
    expected = f"{'forces' if of_forces else 'matrices'} by name of a body or frame"
    advice = FORCE_ADVICE if of_forces else INERTIA_ADVICE
    if not isinstance(given, Mapping):
        raise ShapeError(argument, expected, shown(given), advice=advice)
    for name in given:
        if not isinstance(name, str):
            raise ShapeError(argument, expected, f"the name {shown(name)}", advice=advice)


def external_inputs(model: Model, options: Options) -> list[Input]:
    """Return one input per frame that a force acts on.

    Raises:
        UnknownNameError: If the model has no such frame.
    """
    names = dict(options).get("external_force", ())
    for name in names:
        model.plan.frame(name)
    described = "6 (moment and force at the frame's origin)"
    forces = [Input(f"external_force[{name!r}]", (6,), described=described) for name in names]
    more = dict(options).get("external_inertia", ())
    for name in more:
        model.plan.frame(name)
    return [*forces, *(Input(f"external_inertia[{name!r}]", (6, 6)) for name in more)]


def read_forces(
    external_force: Mapping[str, ArrayLike] | None = None,
    external_axes: str = "frame",
    external_inertia: Mapping[str, ArrayLike] | None = None,
    **_: Any,
) -> tuple[Options, Sequence[Any]]:
    """Return options and arrays for the keywords of external forces and inertias."""
    for name, given in (("external_force", external_force), ("external_inertia", external_inertia)):
        check_by_name(name, given)
    options = external_options(external_force, external_axes)
    options += inertia_options(external_inertia)
    return options, (*(external_force or {}).values(), *(external_inertia or {}).values())
