"""Kernels on request: of public functions, of several at once, of functions users write."""

import inspect
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

from tiburon.algorithms.setting import Options
from tiburon.algorithms.surroundings import DEFAULT_WORLD, world_with
from tiburon.argument_checks import choice
from tiburon.arguments import public
from tiburon.errors import ModelError, ShapeError
from tiburon.functions.dynamics import method_options
from tiburon.functions.kernel_source import (
    LibrarySource,
    join_results,
    parameter_values,
    trace_with_parameters,
)
from tiburon.functions.keywords import external_options
from tiburon.functions.kinematics import frame_options
from tiburon.functions.library import (
    GRAVITY,
    INERTIA,
    LibraryFunction,
    check_places,
    closure_options,
)
from tiburon.model import Model, Water, World
from tiburon.trace.program import Input, Program, trace

Function = Callable[..., Any]

_NEED_OPTIONS = frozenset(
    (
        "apparent_inertia",
        "apparent_inverse_inertia",
        "cross_inverse_inertia",
        "fin_force",
        "hybrid_dynamics",
        "inverse_kinematics",
        "thrust_after",
        "thruster_force",
        "thruster_force_of_thrust",
    )
)
"""Library functions with options that `compile` does not take: traced as a user's function is."""


def _library_function(function: Function) -> LibraryFunction[Any] | None:
    """Return what a public function is declared as; None for a user's own."""
    found: LibraryFunction[Any] | None = getattr(function, "library_function", None)
    return None if found is None or found.name in _NEED_OPTIONS else found


_SIZES = {"q": "q", "v": "v", "vd": "v", "tau": "v"}
"""Arguments whose shape follows from their name: that of q or v."""


@public
def compile(
    function: Function | Sequence[Function],
    model: Model | None = None,
    *,
    world: World | None = None,
    fluid: Water | None = None,
    external_force: str | Iterable[str] = (),
    external_axes: str = "frame",
    frames: str | Sequence[str] | None = None,
    method: str | None = None,
    closure: bool = True,
    parameters: str | Iterable[str] = (),
    shapes: Mapping[str, int | Sequence[int]] | None = None,
    name: str | None = None,
) -> Callable[..., Any]:
    """Compile a function, or several into one kernel.

    The kernel takes the function's arrays without the model: ``forward_dynamics(model, q, v, tau)``
    becomes ``kernel(q, v, tau)``. It takes one case or leading batch dimensions, and the keywords
    `out`, `errors` and `threads`. Numbers of robot and surroundings that are named in `parameters`
    can be replaced in every call, also by one value per case:
    ``kernel(q, v, tau, parameters={"arm.mass": masses})``.

    A function of your own takes the model first if one is given, then arrays of one case, and
    returns an array, a number, or a tuple, list or dict of arrays. It runs once, on traced arrays,
    and may call the functions of this package with them.

    Args:
        function: A function of this package, one of your own, or a list of both. Several functions
            share the arguments that have the same name; their results come as one flat tuple.
        model: The robot; may be left out if your function needs none.
        world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.
        fluid: The water the robot is in: short for a world of this fluid.
        external_force: Names of frames on which forces act, for dynamics in either direction:
            the kernel takes one more array [n; f], shape (..., 6), for each.
        external_axes: Axes of these forces, "frame" or "world".
        frames: For `forward_kinematics` and the other functions of frames: which ones.
        method: For `forward_dynamics`: "articulated" or "composite".
        closure: Whether kernels of functions of this package refuse states with open loops, and
            velocities that open them, as the functions do. What your functions call is not checked,
            unless they pass `closure=True` themselves.
        parameters: Names of parameters that calls may replace, such as "arm.mass",
            "world.gravity" or "fluid.current"; `parameters` of this package lists them.
        shapes: Shape of one case of each argument of your functions that is not q, v, vd or tau.
        name: Name of the kernel; that of the function by default.

    Returns:
        The kernel; ``kernel.__self__`` lists its inputs, outputs and parameters.

    Raises:
        ShapeError: If the shape of an argument is not known.
        TraceError: If a function does something that cannot be traced.

    Example:
        A controller and the motion it makes, in one kernel::

            def swing(model, q, v, target):
                tau = 40.0 * (target - q) - 6.0 * v
                return {"force": tau, "acceleration": tb.forward_dynamics(model, q, v, tau)}

            kernel = tb.compile(swing, arm, shapes={"target": arm.nq})
            force, acceleration = kernel(q, v, np.zeros(arm.nq))
    """
    from tiburon.native.kernel import ProgramSource, make_kernel

    functions = [function] if callable(function) else _listed(function)
    world = world_with(world, fluid, one_case="compile")
    if model is not None or world is not None:
        check_places(model, world)
    # user code is traced as it is now
    if model is not None:
        model.check_unchanged()
    if world is not None:
        world.traced_key()
    options = (
        *external_options(tuple_of(external_force), external_axes),
        *frame_options(frames),
        *method_options(method, model),
    )
    choice("closure", closure, (True, False))
    numbers = None
    if model is not None:
        from tiburon.functions.parameters import KernelParameters

        numbers = KernelParameters(model, world or DEFAULT_WORLD, tuple_of(parameters))
        if numbers.names:
            model, world = numbers.at_run_time()
    declared = [_library_function(f) for f in functions]
    if model is not None and any(f is not None and f.checks_closure for f in declared):
        options = (*options, *closure_options(model, closure))
    if model is not None and name is None and None not in declared:
        names = tuple(f.name for f in declared if f is not None)
        source = LibrarySource(model, names, world or DEFAULT_WORLD, options)
        return make_kernel(source, source.parameters(), numbers)
    program, bound = _trace(functions, model, world, options, shapes or {}, name)
    return make_kernel(ProgramSource(program), bound, numbers)


def _listed(given: object) -> list[Function]:
    """Return several functions as a list; refuse what is none."""
    functions = list(given) if isinstance(given, Iterable) and not isinstance(given, str) else []
    if not functions or not all(callable(function) for function in functions):
        raise ModelError(
            "compile: expected a function, or a list of functions, got "
            f"{type(given).__name__} {given!r:.60}; write compile(tiburon.forward_dynamics, model)"
        )
    return functions


def tuple_of(names: str | Iterable[str]) -> tuple[str, ...]:
    """Return one name or several as a tuple."""
    return (names,) if isinstance(names, str) else tuple(names)


def _trace(
    functions: Sequence[Function],
    model: Model | None,
    world: World | None,
    options: Options,
    shapes: Mapping[str, int | Sequence[int]],
    name: str | None,
) -> tuple[Program, dict[str, Any]]:
    """Trace functions of which at least one is the user's; return program and parameters."""
    names = [_name_of(function) for function in functions]
    each = [inputs_of(function, model, options, shapes) for function in functions]
    inputs = _united(each)
    title = name or "_and_".join(names)

    def run(given: Mapping[str, Any]) -> Any:
        results = []
        for function, items in zip(functions, each, strict=True):
            arrays = [given[item.name] for item in items]
            declared = _library_function(function)
            if declared is not None and model is not None:
                results.append(declared.run(model, None, options, *arrays))
            elif model is None:
                results.append(function(*arrays))
            else:
                results.append(function(model, *arrays))
        return results[0] if len(results) == 1 else join_results(names, results)

    if model is None:
        return trace(lambda *arrays: run(_by_name(inputs, arrays)), inputs, name=title), {}
    surroundings = world or DEFAULT_WORLD
    parameters = parameter_values(model, surroundings, (INERTIA, GRAVITY))
    program = trace_with_parameters(run, inputs, model, surroundings, parameters, title)
    return program, parameters


def _by_name(inputs: Sequence[Input], arrays: Sequence[Any]) -> dict[str, Any]:
    return {item.name: array for item, array in zip(inputs, arrays, strict=True)}


def _name_of(function: Function) -> str:
    found = getattr(function, "__name__", None) or type(function).__name__
    return found if found.isidentifier() else "function"


def _united(each: Sequence[Sequence[Input]]) -> list[Input]:
    """Return the inputs of all functions, those of the same name once."""
    united: dict[str, Input] = {}
    for items in each:
        for item in items:
            known = united.setdefault(item.name, item)
            if known.shape != item.shape:
                raise ShapeError(
                    item.name,
                    f"one shape in all functions, {known.shape}",
                    item.shape,
                    advice="arguments of the same name are shared; rename one of them",
                )
    return list(united.values())


def inputs_of(
    function: Function,
    model: Model | None,
    options: Options,
    shapes: Mapping[str, int | Sequence[int]],
) -> list[Input]:
    """Find out which arrays a function takes."""
    declared = _library_function(function)
    if declared is not None:
        if model is None:
            raise ModelError(f"{declared.name}: needs a model; pass it to compile()")
        return declared.inputs(model, options)
    arguments = [
        parameter
        for parameter in inspect.signature(function).parameters.values()
        if parameter.kind in (parameter.POSITIONAL_ONLY, parameter.POSITIONAL_OR_KEYWORD)
    ]
    if model is not None:
        # an array by its name where the model goes, or nothing at all
        if not arguments or arguments[0].name in _SIZES:
            own = ", ".join(argument.name for argument in arguments)
            raise ModelError(
                f"{_name_of(function)}: expected a function of (model, ...), got one of ({own}); "
                f"write def {_name_of(function)}({', '.join(filter(None, ('model', own)))}): ..., "
                "or leave the model out of compile() and pass shapes={...}"
            )
        arguments = arguments[1:]
    # an argument with a default is an option of the user's own, unless a shape is given for it
    wanted = [a.name for a in arguments if a.default is a.empty or a.name in shapes]
    return [_input(_name_of(function), argument, model, shapes) for argument in wanted]


def _input(
    function: str, argument: str, model: Model | None, shapes: Mapping[str, int | Sequence[int]]
) -> Input:
    if argument in shapes:
        shape = shapes[argument]
        return Input(argument, (shape,) if isinstance(shape, int) else tuple(shape))
    if model is not None and argument in _SIZES:
        if _SIZES[argument] == "q":
            return Input(argument, (model.nq,), described=model.describe_q())
        return Input(argument, (model.nv,), described=model.describe_v())
    if model is None and argument in _SIZES:
        raise ShapeError(
            f"{function}: argument {argument!r}",
            "a known shape",
            "none without a model",
            advice=f"write def {function}(model, {argument}, ...): ... and compile({function}, "
            f"model), or pass shapes={{{argument!r}: (...)}} to compile()",
        )
    known = ", ".join(_SIZES) if model is not None else "none without a model"
    raise ShapeError(
        f"{function}: argument {argument!r}",
        "a known shape",
        "none",
        advice=f"pass shapes={{{argument!r}: (...)}} to compile() (known by name: {known}); if it "
        "is not an array, compile a function of your own that passes it on",
    )
