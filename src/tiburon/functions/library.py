"""The way of a call: from a public function to its kernel.

Each public function is declared once (`library_function`): its input arrays, the algorithm that
computes one case, and what it returns. `front_door` joins the declaration with the signature that
users see. A call takes one of three ways:

1. Seen before: the kernel is found by the identity of model, surroundings and options, and called.
2. On arrays: the body of the public function reads its own arguments into options, the kernel is
   found by the values of surroundings and options, or compiled, and remembered for way 1.
3. Inside a traced function: the algorithm runs on what it is given, so that a user's function may
   call it.

A call that fails is explained (`tiburon.arguments`): the error names the wrong argument.
"""

import inspect
from collections.abc import Callable, Mapping, Sequence
from functools import wraps
from importlib import import_module
from operator import is_
from types import FunctionType
from typing import Any, Generic, NamedTuple, TypeVar, cast, overload

import numpy as np

from tiburon.algorithms.setting import Options, Setting, with_given_inertias
from tiburon.algorithms.surroundings import (
    DEFAULT_WORLD,
    at_time,
    surroundings,
    wetted,
    world_key,
    world_with,
)
from tiburon.algorithms.tape_calls import scalars
from tiburon.argument_checks import choice
from tiburon.arguments import fail
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import ModelError, ShapeError, UnknownNameError, shown
from tiburon.exports import EXPORTS
from tiburon.functions.keywords import (
    CONDITIONS,
    WORLD_CALL,
    SharedKeywords,
    describe_arguments,
    external_inputs,
    read_forces,
    refuse_delivery,
    spell_keywords,
    targets_of,
    unexpected_keyword,
)
from tiburon.model import Model, Water, World
from tiburon.spatial import Scalar
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input, current_graph

Kernel = Callable[..., Any]
Function = TypeVar("Function", bound=Callable[..., Any])
Result = TypeVar("Result")
Inputs = Callable[[Model, Options], Sequence[Input]]

KERNELS_PER_FUNCTION = 128
"""Kernels, by value and by identity, that a public function keeps at most."""

INERTIA, GEOMETRY, GRAVITY, TIME = "inertia", "geometry", "gravity", "time"
"""Names of parameter inputs of kernels."""

KERNEL_KEYWORDS = frozenset(("out", "time"))
"""Shared keywords that a remembered kernel takes itself."""

SURROUNDINGS = frozenset(("fluid", "world"))
"""Shared keywords whose identity determines the surroundings."""

OMITTED = (
    frozenset(("external_force", "external_inertia", "fluid", "parameters", "world"))
    | KERNEL_KEYWORDS
)
"""Shared keywords of which None means the same as omitting them."""


class Request(NamedTuple):
    """A call of a public function: its arguments, read and checked, not yet computed."""

    model: Model
    arrays: tuple[Any, ...]
    """One per input array of the function's own."""

    keywords: SharedKeywords
    """The shared keywords that the caller gave."""

    options: Options
    """Choices of the function's own that change the code."""

    make: Callable[..., Any] | None
    """Makes what the function returns, from its results in order; None for one array."""


class Read(NamedTuple):
    """Shared keywords of a call, read."""

    world: World | None
    options: Options
    """Choices that change the code."""

    arrays: tuple[Any, ...]
    """One per further input: external forces and inertias."""

    delivery: dict[str, Any]
    """Those of time, parameters, out and errors that were given."""


class Measured(NamedTuple):
    """Results of an algorithm that computes the closure of loops on its way."""

    results: Any
    """An array or a dict of arrays."""

    closure: tuple[Scalar, Scalar] | None = None
    """As `closure_of` returns it; None where it is computed apart."""


class LibraryFunction(Generic[Result]):
    """Declaration of a public function that a kernel runs.

    Attributes:
        name: Name of the public function.
        inputs: Returns all input arrays of one case, for a model and options.
        parameters: Which of the parameters of model and world its result depends on, beside those
            of water.
        keywords: Shared keywords that enter the result or determine its delivery.
        trees_only: Whether closed loops are refused.
        instead: What to call for a robot with closed loops, for that refusal.
        checks_closure: Whether `closure_options` make it refuse states with open loops.
        module: Module that declares it; a pickled kernel loads it in another process.
        kernels: Kernels in memory: by value of surroundings and options, by identity of these, and
            those of plain calls by identity of the model alone. Never replaced.
        latest: Model and kernel of the latest plain call; one entry.
        latest_keyword: Model, keyword, its value and kernel of the latest call with one keyword:
            world or fluid, or external_force with the names of frames as its value; one entry.
    """

    def __init__(
        self,
        name: str,
        inputs: Sequence[str | Input] | Inputs,
        compute: Callable[..., Any],
        *,
        make: Callable[..., Result] | None = None,
        parameters: tuple[str, ...] = (INERTIA, GRAVITY),
        keywords: frozenset[str] = WORLD_CALL,
        trees_only: bool = False,
        instead: str = "",
        checks_closure: bool = False,
    ) -> None:
        """Declare a function and list it in the library.

        Args:
            name: Name of the public function.
            inputs: Names of its input arrays as `inputs_of` takes them, or a function of model and
                options that returns them. Functions under `Conditions` take "q" and "v" first.
            compute: Called as ``compute(setting, q, ...)`` with the elements of each array of one
                case; returns an array or a dict of arrays.
            make: Makes what the function returns, from several results in order.
            parameters: Which of `INERTIA` and `GRAVITY` the result depends on.
            keywords: Shared keywords that it takes.
            trees_only: Whether to refuse robots with closed loops.
            instead: What to call for those.
            checks_closure: Whether to refuse states with open loops, if so asked; its inputs begin
                with "q", and "v" if velocities enter.
        """
        self.name, self.make = name, make
        self.own_inputs: Inputs = inputs if callable(inputs) else inputs_of(*inputs)
        self.parameters, self.keywords = parameters, keywords
        self.trees_only, self.instead = trees_only, instead
        self.checks_closure = checks_closure
        self.module = compute.__module__
        self.kernels: dict[Any, Any] = {}
        self.latest: list[tuple[Any, Kernel | None]] = [(None, None)]
        self.latest_keyword: list[tuple[Any, str, Any, Kernel | None]] = [
            (object(), "", None, None)
        ]
        self._compute = compute
        LIBRARY[name] = self

    def __reduce__(self) -> tuple[Any, ...]:
        """Pickle by name."""
        return _loaded, (self.module, self.name)

    @property
    def takes_forces(self) -> bool:
        """Whether external forces enter."""
        return self.keywords >= CONDITIONS

    def inputs(self, model: Model, options: Options) -> list[Input]:
        """Return the input arrays of one case, those of external forces last."""
        forces = external_inputs(model, options) if self.takes_forces else []
        return [*self.own_inputs(model, options), *forces]

    def run(self, model: Model, world: World | None, options: Options, *arrays: Any) -> Any:
        """Run the algorithm on arrays of one case, floats or traced."""
        count = len(arrays)
        if self.takes_forces:
            count = len(self.own_inputs(model, options))
        state, given = [scalars(array) for array in arrays[:count]], arrays[count:]
        plan, gravity, water = surroundings(model, world)
        if self.takes_forces:
            plan = with_given_inertias(plan, options, given)
            setting = Setting(model, options, given, plan, gravity, water).at(*state[:2])
        else:
            if water is not None and INERTIA in self.parameters:
                plan, water = wetted(plan, state[0], water)
            setting = Setting(model, options, (), plan, gravity, water)
        found = self._compute(setting, *state)
        measured = found if isinstance(found, Measured) else Measured(found)
        if not (self.checks_closure and dict(options).get("closure")):
            return measured.results
        from tiburon.loops.projection import closure_of, require_closed

        names = [item.name for item in self.own_inputs(model, options)[:2]]
        q, v = state[0], state[1] if names[1:] == ["v"] else ()
        return require_closed(measured.results, measured.closure or closure_of(setting, q, v), v)

    def request(
        self,
        model: Model,
        arrays: Sequence[Any],
        keywords: SharedKeywords,
        options: Options = (),
        make: Callable[..., Any] | None = None,
    ) -> Result:
        """Return the request of a call, from the body of a public function.

        `front_door` computes it: the type stated is that of the result, which callers get.
        """
        asked = Request(model, tuple(arrays), keywords, options, make or self.make)
        return cast(Result, asked)

    def call(
        self,
        model: Model,
        arrays: Sequence[Any],
        keywords: SharedKeywords | None = None,
        options: Options = (),
    ) -> Result:
        """Compute at once, with all checks."""
        asked = Request(model, tuple(arrays), keywords or {}, options, self.make)
        return cast(Result, self.answer(asked))

    def answer(self, asked: Request, key: Any = None, held: tuple[Any, ...] | None = None) -> Any:
        """Compute a request.

        Args:
            asked: From `request`.
            key: Identity to remember the kernel by.
            held: Objects of that identity, kept alive as long as it is remembered; None to remember
                nothing.

        Returns:
            What `make` returns; with ``errors="flag"`` a pair of that and the mask of failed cases.
        """
        keywords, make = asked.keywords, asked.make
        read = self.read(keywords)
        options = (*read.options, *asked.options)
        arrays = (*asked.arrays, *read.arrays)
        result = self._evaluate(asked.model, arrays, read.world, options, **read.delivery)
        if held is not None and self._is_lasting(asked.model, read.world, keywords):
            kernel = self.kernel(asked.model, read.world, options)
            short = _shortcut(kernel, make, keywords, asked.model, read.world)
            if type(key) is int:
                # the kernel itself keeps its model alive, so that no other can take its identity
                self._keep(key, short)
                self.latest[0] = (asked.model, short)
            else:
                self._keep(key, (short, asked.model, held))
        if make is None:
            return result
        is_flagged = keywords.get("errors") == "flag"
        if make is number:
            return result if is_flagged or keywords.get("out") is not None else number(result)
        if is_flagged:
            results, failed = result
            return make(*results), failed
        # traced functions return records, kernels what is in them
        return make(*(result.values() if isinstance(result, dict) else result))

    def read(self, keywords: SharedKeywords) -> Read:
        """Read shared keywords.

        Raises:
            TypeError: If the function takes no such keyword.
        """
        if not keywords:
            return Read(None, (), (), {})
        if not self.keywords.issuperset(keywords):
            raise unexpected_keyword(self.name, self.keywords, keywords)
        given: dict[str, Any] = dict(keywords)
        world = world_with(given.pop("world", None), given.pop("fluid", None))
        options, arrays = read_forces(**given) if self.takes_forces else ((), ())
        names = ("time", "parameters", "out", "errors")
        delivery: dict[str, Any] = {name: given[name] for name in names if name in given}
        return Read(world, options, tuple(arrays), delivery)

    def _evaluate(
        self,
        model: Model,
        arguments: Sequence[Any],
        world: World | None,
        options: Options,
        time: Any = None,
        out: Any = None,
        errors: str = "raise",
        parameters: Mapping[str, Any] | None = None,
    ) -> Any:
        """Run the kernel, or inside a traced function the algorithm itself."""
        check_places(model, world)
        rows: Mapping[str, Any] = {}
        if parameters is not None or (world is not None and world.cases is not None):
            from tiburon.functions.parameters import vary_call

            model, world, rows = vary_call(self.name, model, world, parameters)
        if not depends_on_time(model, world or DEFAULT_WORLD):
            time = None
        if current_graph() is None:
            kernel = self.kernel(model, world, options, arguments)
            if not rows and out is None and errors == "raise":
                return kernel(*arguments) if time is None else kernel(*arguments, time=time)
            taken = kernel.__self__.parameters  # type: ignore[attr-defined]
            own = {name: table for name, table in rows.items() if name in taken}
            at = {} if time is None else {TIME: time}
            return kernel(*arguments, out=targets_of(kernel, out), errors=errors, **own, **at)
        refuse_delivery(self.name, out, errors)
        self.refuse_loops(model)
        inputs = self.inputs(model, options)
        arrays = [_one_case(item, x) for item, x in zip(inputs, arguments, strict=True)]
        with at_time(time if time is None else scalars(_one_case(Input(TIME, ()), time))[0]):
            return self.run(model, world, options, *arrays)

    def kernel(
        self, model: Model, world: World | None, options: Options, arguments: Sequence[Any] = ()
    ) -> Kernel:
        """Return the kernel for a model, world and options; compile it if it is not known.

        Args:
            model: The robot.
            world: Its surroundings; None for the default ones.
            options: What the code depends on besides.
            arguments: Those of the first call: where they are a batch, code for one case is
                compiled when it is needed.

        Raises:
            ModelError: If user code in the model has changed since it was built.
        """
        model.check_unchanged()
        around = world or DEFAULT_WORLD
        # worlds that differ in what they take at run time compare equal
        key = (id(model), world_key(around), around.run_time, options)
        found: Kernel | None = self.kernels.get(key)
        if found is None:
            from tiburon.functions.kernel_source import LibrarySource
            from tiburon.native.kernel import make_kernel

            source = LibrarySource(model, (self.name,), around, options)
            inputs = self.inputs(model, options)
            is_batch = any(
                isinstance(x, np.ndarray) and x.ndim > len(item.shape)
                for item, x in zip(inputs, arguments, strict=False)
            )
            found = make_kernel(source, source.parameters(), first="many" if is_batch else "one")
            self._keep(key, found)
        return found

    def _keep(self, key: Any, found: Any) -> None:
        """Remember a kernel; make room by dropping the older half."""
        if len(self.kernels) >= KERNELS_PER_FUNCTION:
            for old in list(self.kernels)[: KERNELS_PER_FUNCTION // 2]:
                self.kernels.pop(old, None)
        self.kernels[key] = found

    def _is_lasting(self, model: Model, world: World | None, keywords: SharedKeywords) -> bool:
        """Return whether the identity of model and world determines the kernel for good.

        User code may change and is checked in every call; parameters may differ in every call.
        """
        if current_graph() is not None or not model.is_declared:
            return False
        if keywords.get("parameters") is not None or "errors" in keywords:
            return False
        return world is None or (world.cases is None and not world.traced_key())

    def refuse_loops(self, model: Model) -> None:
        """Raise `ModelError` if a robot has closed loops and the function is for trees alone."""
        if self.trees_only:
            refuse_loops(model, self.name, self.instead)


@overload
def library_function(
    name: str, inputs: Sequence[str | Input] | Inputs, *, make: Callable[..., Result], **how: Any
) -> Callable[[Callable[..., Any]], LibraryFunction[Result]]: ...


@overload
def library_function(
    name: str, inputs: Sequence[str | Input] | Inputs, **how: Any
) -> Callable[[Callable[..., Any]], LibraryFunction[Array]]: ...


def library_function(
    name: str, inputs: Sequence[str | Input] | Inputs, **how: Any
) -> Callable[[Callable[..., Any]], LibraryFunction[Any]]:
    """Declare the decorated algorithm; the arguments are those of `LibraryFunction`."""
    return lambda compute: LibraryFunction(name, inputs, compute, **how)


def _shortcut(
    kernel: Kernel,
    make: Callable[..., Any] | None,
    keywords: SharedKeywords,
    model: Model,
    world: World | None,
) -> Kernel:
    """Return the function that a remembered call runs: of arrays and given `KERNEL_KEYWORDS`."""
    out, time = keywords.get("out"), keywords.get("time")
    is_timed = depends_on_time(model, world or DEFAULT_WORLD)
    if out is None and time is None:
        if make is None or make is pair:
            return kernel
        if make is number:
            return lambda *arrays: kernel(*arrays)[()]
        return lambda *arrays: make(*kernel(*arrays))

    def passing(*arrays: Any, out: Any = None, time: Any = None) -> Any:
        given = {}
        if out is not None:
            given["out"] = targets_of(kernel, out)
        if is_timed and time is not None:
            given["time"] = time
        result = kernel(*arrays, **given)
        if make is None:
            return result
        if make is number:
            return result if out is not None else number(result)
        return make(*result)

    return passing


CALL_TEMPLATE = """
def {name}({parameters}):
    try:
        if {is_default}:
            if not {shared}:
                held, kernel = latest[0]
                if held is not model:
                    kernel = known(id(model))
                if kernel is not None and current_graph() is None:
                    return kernel({arrays})
            elif len({shared}) == 1:
                held, keyword, value, kernel = latest_keyword[0]
                if held is model and current_graph() is None:
                    given = {shared}.get(keyword)
                    if given is value:
                        return kernel({arrays})
                    if type(given) is dict and tuple(given) == value:
                        return kernel({arrays}, *given.values())
        key = ({key})
        if not {shared}:
            found = known(key)
            if found is not None and current_graph() is None:
                return found[0]({arrays})
        return find(key, model, ({arrays},), ({options}), {shared})
    except Exception as error:
        fail(body, error, model, {arrays}, {named}**{shared})
"""
"""A public function as Python runs it, written out for its signature. The calls that control loops
make are in it: arrays alone, with one of world, fluid and external_force, with options."""


def front_door(function: LibraryFunction[Any]) -> Callable[[Function], Function]:
    """Make a public function of a declaration and a body with the signature that users see.

    The body takes the model, then arrays in the order of the function's inputs, then options and
    shared keywords. It reads and checks what is its own and returns `LibraryFunction.request`; it
    runs where the call has not been seen before.
    """

    def decorate(body: Function) -> Function:
        own = list(inspect.signature(body).parameters.values())
        describe_arguments(body, own)
        spell_keywords(body)
        arrays = [x.name for x in own if x.annotation == ArrayLike and x.default is x.empty]
        options = own[len(arrays) + 1 : -1]
        names = [x.name for x in options]
        space: dict[str, Any] = {f"default_{x.name}": x.default for x in options}
        listed = []
        for x in own:
            if x.kind is x.KEYWORD_ONLY and "*" not in listed:
                listed.append("*")
            has_default = x.name in names and x.default is not x.empty
            listed.append(f"{x.name}=default_{x.name}" if has_default else x.name)
        shared = own[-1].name
        listed[-1] = f"**{shared}"
        identities = [f"{name} if type({name}) is str else id({name})" for name in names]
        text = CALL_TEMPLATE.format(
            name=body.__name__,
            parameters=", ".join(listed),
            is_default=" and ".join(f"{name} is default_{name}" for name in names) or "True",
            arrays=", ".join(arrays),
            key=", ".join(["id(model)", *identities, ""]),
            options="".join(f"{name}, " for name in names),
            named="".join(f"{name}={name}, " for name in names),
            shared=shared,
        )
        space |= {"latest": function.latest, "latest_keyword": function.latest_keyword}
        space |= {"known": function.kernels.get, "current_graph": current_graph}
        space |= {"find": _finder(function, body, options), "body": body, "fail": fail}
        call = wraps(body)(FunctionType(_first_call.__code__, space))
        space |= {"written": text, "itself": call}
        call.__dict__["library_function"] = function
        return cast(Function, call)

    return decorate


def _first_call(*arguments: Any, **keywords: Any) -> Any:
    """Compile a public function when it is first called: most are imported and never used.

    This is the code of each public function until then, with the globals of that function.
    """
    exec(written, globals())  # type: ignore[name-defined]  # noqa: F821
    compiled = globals()[itself.__name__]  # type: ignore[name-defined]  # noqa: F821
    for part in ("__defaults__", "__kwdefaults__", "__code__"):
        setattr(itself, part, getattr(compiled, part))  # type: ignore[name-defined]  # noqa: F821
    return itself(*arguments, **keywords)  # type: ignore[name-defined]  # noqa: F821


def _finder(
    function: LibraryFunction[Any], body: Callable[..., Any], options: Sequence[inspect.Parameter]
) -> Callable[..., Any]:
    """Return what runs all other calls, and those that have not been seen before.

    Args:
        function: What is declared.
        body: Reads the arguments of a call into a request.
        options: Parameters of the body that are its own options.
    """
    names = [x.name for x in options]
    defaults = [x.default for x in options]
    known = function.kernels.get

    def is_default(given: tuple[Any, ...]) -> bool:
        return all(map(is_, given, defaults))

    def find(
        start: tuple[Any, ...],
        model: Model,
        arrays: tuple[Any, ...],
        given: tuple[Any, ...],
        keywords: dict[str, Any],
    ) -> Any:
        key: Any
        forces: Any = keywords.get("external_force")
        if type(forces) is dict and len(keywords) == 1:
            key = (*start, "external_force", *forces)
            found = known(key)
            if found is not None and current_graph() is None:
                if is_default(given):
                    function.latest_keyword[0] = (model, "external_force", tuple(forces), found[0])
                return found[0](*arrays, *forces.values())
        else:
            parts, passed = [*start], {}
            for name, value in keywords.items():
                if value is None and name in OMITTED:
                    continue
                parts.append(name)
                if type(value) is str:
                    parts.append(value)
                elif name in KERNEL_KEYWORDS:
                    passed[name] = value
                elif value is forces and type(value) is dict:
                    parts.append(tuple(value))
                else:
                    parts.append(id(value))
            key = tuple(parts)
            found = known(key)
            if found is not None and current_graph() is None:
                kernel = found[0]
                if len(parts) == len(start) + 2 and name in SURROUNDINGS and is_default(given):
                    function.latest_keyword[0] = (model, name, value, kernel)
                more = forces.values() if type(forces) is dict else ()
                return kernel(*arrays, *more, **passed)
        asked = body(model, *arrays, **dict(zip(names, given, strict=True)), **keywords)
        if not keywords and is_default(given):
            key = id(model)
        return function.answer(asked, key, _lasting(given, keywords))

    return find


def _lasting(options: Sequence[Any], keywords: Mapping[str, Any]) -> tuple[Any, ...] | None:
    """Return the objects whose identity determines a call's result; None if one may change."""
    found: list[Any] = [*options]
    for name, value in keywords.items():
        if name not in KERNEL_KEYWORDS and not (name == "external_force" and type(value) is dict):
            found.append(value)
    for value in found:
        is_names = type(value) is tuple and all(type(x) is str for x in value)
        if not (value is None or is_names or isinstance(value, (str, bool, World, Water))):
            return None
    return tuple(found)


class _Library(dict[str, LibraryFunction[Any]]):
    """Public functions by name; modules of this room are loaded on first use of their functions.

    Rooms above declare functions, too, which are known once their modules have been imported.
    """

    def __missing__(self, name: str) -> LibraryFunction[Any]:
        """Load the module of this room that exports a function."""
        module = EXPORTS.get(name, "")
        if module.startswith(f"{__package__}."):
            import_module(module)
        if name not in self:
            raise UnknownNameError("function", name, self, where="tiburon")
        return self[name]


LIBRARY = _Library()
"""All functions that kernels run, by name."""


def _loaded(module: str, name: str) -> LibraryFunction[Any]:
    """Return a function by name in a process that may not have used it yet."""
    import_module(module)
    return LIBRARY[name]


def closure_options(model: Model, closure: bool | None) -> Options:
    """Return the option of code that checks whether loops are closed; none without loops.

    Args:
        model: The robot.
        closure: Whether to check; None to do so on arrays, not in traced functions.
    """
    choice("closure", closure, (True, False, None))
    check_places(model, None)
    is_checked = current_graph() is None if closure is None else closure
    return (("closure", True),) if is_checked and model.loops else ()


def pair(one: Array, other: Array) -> tuple[Array, Array]:
    """Return two results as they are."""
    return one, other


def number(result: np.float64 | Array) -> np.float64 | Array:
    """Return a float for one case, where kernels return an array without dimensions."""
    return result[()] if isinstance(result, np.ndarray) else result


def inputs_of(*names: str | Input) -> Inputs:
    """Return a function of model and options that returns input arrays.

    Args:
        names: "q" for nq elements; any other name, such as "v" or "tau", for nv elements; an input
            of another size as it is.
    """

    def inputs(model: Model, options: Options) -> list[Input]:
        velocity = (model.nv, model.describe_v())
        found = []
        for name in names:
            if isinstance(name, Input):
                found.append(name)
                continue
            size, described = (model.nq, model.describe_q()) if name == "q" else velocity
            found.append(Input(name, (size,), described=described))
        return found

    return inputs


def check_places(model: object, world: object) -> None:
    """Raise `ModelError` if what should be a model or a world is something else."""
    if not isinstance(model, Model):
        raise ModelError(
            f"model: expected a Model, got {shown(model)}; build one, or pass it first"
        )
    if world is not None and not isinstance(world, World):
        raise ModelError(
            f"world: expected a World, got {shown(world)}; write World(gravity=(x, y, z))"
        )


def depends_on_time(model: Model, world: World) -> bool:
    """Return whether time moves a joint of the robot, or the water around it."""
    return model.plan.depends_on_time or (world.fluid is not None and world.fluid.depends_on_time)


def refuse_loops(model: Model, function: str, instead: str = "") -> None:
    """Raise `ModelError` if a robot has closed loops and a function is for trees alone."""
    if model.loops:
        names = [loop.name for loop in model.loops]
        listed = ", ".join(repr(name) for name in names[:4])
        more = f" and {len(names) - 4} more" if len(names) > 4 else ""
        other = f", or {instead}" if instead else ""
        raise ModelError(
            f"model {model.name!r}: {function} is for trees and would ignore what closes loops, "
            f"got {listed}{more}; take model.without_loops() for the robot with its loops "
            f"open{other}",
            name=names[0],
        )


def _one_case(item: Input, value: Any) -> Any:
    """Check that an argument inside a traced function is one case, and return it as an array."""
    array = as_traced(value)
    if array.shape != item.shape:
        expected = item.described if len(item.shape) == 1 and item.described else item.shape
        given = array.shape[0] if array.ndim == 1 else f"shape {array.shape}"
        raise ShapeError(
            item.name, expected, given, advice="inside a traced function pass one case, not a batch"
        )
    return array
