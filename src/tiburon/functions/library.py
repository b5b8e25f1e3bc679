"""How public functions run: as a kernel on numbers, as themselves while a function is traced.

Each public function owns a `LibraryFunction`. On numbers it finds or compiles the kernel for a
model and calls it. Inside a traced function it runs its algorithm on what it is given, so that a
user's function may call it.
"""

from collections.abc import Callable, Mapping, Sequence
from importlib import import_module
from typing import Any, NamedTuple, TypeVar, cast

from tiburon.algorithms.surroundings import (
    DEFAULT_WORLD,
    at_time,
    refuse_loops,
    world_key,
    world_with,
)
from tiburon.algorithms.tape_calls import scalars
from tiburon.errors import ModelError, ShapeError, UnknownNameError, shown
from tiburon.exports import EXPORTS
from tiburon.functions.keywords import (
    WORLD_CALL,
    Delivery,
    DynamicsCall,
    ModelCall,
    TimedCall,
    WorldCall,
    refuse_delivery,
    targets_of,
    unexpected_keyword,
)
from tiburon.model import Model, World
from tiburon.record import field, record
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input, current_graph

__all__ = [
    "LIBRARY",
    "LibraryFunction",
    "Options",
    "call",
    "call_under",
    "inputs_of",
    "pair",
    "read_keywords",
    "record_under",
]

Kernel = Callable[..., Any]
Made = TypeVar("Made")
Options = tuple[tuple[str, Any], ...]
"""Choices that change the code, by name: hashable data that `structure_text` accepts."""

KERNELS_PER_FUNCTION = 64
"""How many kernels a public function keeps at least; twice as many at most."""

INERTIA, GRAVITY, TIME = "inertia", "gravity", "time"


@record
class LibraryFunction:
    """What it takes to run a public function."""

    name: str
    """Name of the public function."""

    inputs: Callable[[Model, Options], Sequence[Input]]
    """The arrays one case takes, for a model and options."""

    run: Callable[..., Any]
    """Called as ``run(model, world, options, *arrays)`` with arrays of one case; returns arrays."""

    parameters: tuple[str, ...] = (INERTIA, GRAVITY)
    """Which numbers of model and world the result depends on, beside those of water."""

    of_trees: bool = False
    """Whether the result means nothing where loops are closed."""

    keywords: frozenset[str] = WORLD_CALL
    """Shared keywords that enter the result or determine its delivery."""

    forces: Callable[..., tuple[Options, Sequence[Any]]] | None = None
    """Reads the keywords of forces from outside: options, and one array per further input."""

    recent: dict[Any, Kernel] = field(default_factory=dict, compare=False)
    """Kernels used lately, by `id` of the model, or by that with world and options.

    A kernel keeps its model alive, so an `id` in this table cannot pass to another model. Neither
    this table nor `latest` is ever replaced: public functions hold them to find the plain case.
    """

    latest: list[tuple[Model | None, Kernel | None]] = field(
        default_factory=lambda: [(None, None)], compare=False
    )
    """The model last asked for in the default world without options, and its kernel; one entry."""

    older: dict[Any, Kernel] = field(default_factory=dict, compare=False)
    """Kernels that had to make room; they come back when used again."""

    def __post_init__(self) -> None:
        LIBRARY[self.name] = self

    def kernel(self, model: Model, world: World | None, options: Options) -> Kernel:
        """Return the kernel for a model, world and options, compiling it if nobody has.

        Raises:
            ModelError: If user code in the model has changed since it was built.
        """
        model.check_unchanged()
        # models with user code are checked in every call and have no fast path
        plain = world is None and not options and model.is_declared
        around = world or DEFAULT_WORLD
        # worlds whose numbers are run-time numbers in other parts compare equal
        key = id(model) if plain else (id(model), world_key(around), around.run_time, options)
        found = self.recent.get(key)
        if found is None:
            found = self.older.get(key)
            if found is None:
                from tiburon.functions.kernel_source import LibrarySource
                from tiburon.native.kernel import make_kernel

                source = LibrarySource(model, (self.name,), world or DEFAULT_WORLD, options)
                found = make_kernel(source, source.parameters())
            # two generations cost a hit nothing, where an exact order of use would
            if len(self.recent) >= KERNELS_PER_FUNCTION:
                self.older.clear()
                self.older.update(self.recent)
                self.recent.clear()
            self.recent[key] = found
        if plain:
            self.latest[0] = (model, found)
        return found


class _Library(dict[str, LibraryFunction]):
    """Public functions by name; modules are loaded when one of their functions is asked for."""

    def __missing__(self, name: str) -> LibraryFunction:
        """Load the module that exports a function."""
        if name in EXPORTS:
            import_module(EXPORTS[name])
        if name not in self:
            raise UnknownNameError("function", name, self, where="tiburon")
        return self[name]


LIBRARY = _Library()
"""All public functions, by name."""


def call(
    function: LibraryFunction,
    model: Model,
    arguments: Sequence[Any],
    world: World | None = None,
    options: Options = (),
    time: Any = None,
    out: Any = None,
    errors: str = "raise",
    parameters: Mapping[str, Any] | None = None,
) -> Any:
    """Run a public function on numbers, or on traced values inside a traced function.

    Args:
        function: What to run.
        model: The robot.
        arguments: One array per input.
        world: Its surroundings; the default ones if None.
        options: Choices that change the code.
        time: When, for joints that time moves [s], shape (...); by default zero, or inside a traced
            function the time that is given to the kernel.
        out: Array to write the result to, or a tuple or record of arrays; new ones if None.
        errors: "raise", or "flag" for a pair of the result and the marks of failed cases.
        parameters: Values by name in place of those of robot and world, one or one per case.
    """
    check_places(model, world)
    rows: Mapping[str, Any] = {}
    if parameters is not None or (world is not None and world.cases is not None):
        from tiburon.functions.parameters import vary_call

        model, world, rows = vary_call(function.name, model, world, parameters)
    if not depends_on_time(model, world or DEFAULT_WORLD):
        time = None
    if current_graph() is None:
        kernel = function.kernel(model, world, options)
        if not rows and out is None and errors == "raise":
            return kernel(*arguments) if time is None else kernel(*arguments, time=time)
        taken = kernel.__self__.parameters  # type: ignore[attr-defined]
        own = {name: table for name, table in rows.items() if name in taken}
        at = {} if time is None else {TIME: time}
        return kernel(*arguments, out=targets_of(kernel, out), errors=errors, **own, **at)
    refuse_delivery(function.name, out, errors)
    if function.of_trees:
        refuse_loops(model, function.name)
    inputs = function.inputs(model, options)
    arrays = [one_case(item, x) for item, x in zip(inputs, arguments, strict=True)]
    with at_time(time if time is None else scalars(one_case(Input(TIME, ()), time))[0]):
        return function.run(model, world, options, *arrays)


def call_under(
    keywords: DynamicsCall | WorldCall | ModelCall | TimedCall | Delivery,
    function: LibraryFunction,
    model: Model,
    arguments: Sequence[Any],
    options: Options = (),
) -> Any:
    """Run a public function under the keywords that public functions share.

    Args:
        keywords: Those that the caller gave.
        function: What to run.
        model: The robot.
        arguments: One array per input of the function's own.
        options: Choices of the function's own that change the code.

    Raises:
        TypeError: If the function takes no such keyword.
    """
    if not keywords:
        return call(function, model, arguments, None, options)
    read = read_keywords(function, keywords)
    given = (*arguments, *read.arrays)
    return call(function, model, given, read.world, (*read.options, *options), **read.delivery)


_OWN: tuple[str, ...] = ("time", "parameters", "out", "errors")
"""Keywords of `call` itself."""


class Keywords(NamedTuple):
    """What shared keywords come to."""

    world: World | None
    options: Options
    """Choices that change the code."""

    arrays: tuple[Any, ...]
    """One per further input: forces from outside."""

    delivery: dict[str, Any]
    """The keywords of `call` itself: time, parameters, out and errors, those that were given."""


def read_keywords(
    function: LibraryFunction, keywords: DynamicsCall | WorldCall | ModelCall | TimedCall | Delivery
) -> Keywords:
    """Return what the keywords of a call come to.

    Raises:
        TypeError: If the function takes no such keyword.
    """
    if not function.keywords.issuperset(keywords):
        raise unexpected_keyword(function.name, function.keywords, keywords)
    given: dict[str, Any] = dict(keywords)
    world = world_with(given.pop("world", None), given.pop("fluid", None))
    options, arrays = ((), ()) if function.forces is None else function.forces(**given)
    delivery: dict[str, Any] = {name: given[name] for name in _OWN if name in given}
    return Keywords(world, options, tuple(arrays), delivery)


def record_under(
    make: Callable[..., Made],
    keywords: DynamicsCall | WorldCall | ModelCall | TimedCall | Delivery,
    function: LibraryFunction,
    model: Model,
    arguments: Sequence[Any],
    options: Options = (),
) -> Made:
    """Run a public function of several results as `call_under` does.

    Args:
        make: Makes what the function returns, from its results in order.
        keywords: Those that the caller gave.
        function: What to run.
        model: The robot.
        arguments: One array per input of the function's own.
        options: Choices of the function's own that change the code.

    Returns:
        What `make` returns; with ``errors="flag"`` a pair of that and the marks of failed cases.
    """
    result = call_under(keywords, function, model, arguments, options)
    if keywords.get("errors") == "flag":
        results, failed = result
        # the type that callers state is that of results alone
        return cast(Made, (make(*results), failed))
    # traced functions hand on records, kernels return what is in them
    return make(*(result.values() if isinstance(result, dict) else result))


def pair(one: Any, other: Any) -> tuple[Any, Any]:
    """Return two results as they are, for `record_under`."""
    return one, other


def check_places(model: object, world: object) -> None:
    """Raise `ModelError` if what should be a robot or its surroundings is something else."""
    if not isinstance(model, Model):
        raise ModelError(
            f"model: expected a Model, got {shown(model)}; build one, or pass it first"
        )
    if world is not None and not isinstance(world, World):
        raise ModelError(
            f"world: expected a World, got {shown(world)}; write World(gravity=(x, y, z))"
        )


def one_case(item: Input, value: Any) -> Any:
    """Check that an argument inside a traced function is one case, and return it as an array."""
    array = as_traced(value)
    if array.shape != item.shape:
        expected = item.described if len(item.shape) == 1 and item.described else item.shape
        given = array.shape[0] if array.ndim == 1 else f"shape {array.shape}"
        raise ShapeError(
            item.name, expected, given, advice="inside a traced function pass one case, not a batch"
        )
    return array


def depends_on_time(model: Model, world: World) -> bool:
    """Return whether time moves a joint of the robot, or the water around it."""
    return model.plan.depends_on_time or (world.fluid is not None and world.fluid.depends_on_time)


def inputs_of(*names: str | Input) -> Callable[[Model, Options], Sequence[Input]]:
    """Return the function that tells a library function's inputs.

    Args:
        names: "q" for nq numbers; any other name, such as "v" or "tau", for nv numbers; an input
            of another size as it is.
    """

    def inputs(model: Model, options: Options) -> list[Input]:
        sizes = {"q": (model.nq, model.describe_q())}
        velocity = (model.nv, model.describe_v())
        found = []
        for name in names:
            if isinstance(name, Input):
                found.append(name)
                continue
            size, described = sizes.get(name, velocity)
            found.append(Input(name, (size,), described=described))
        return found

    return inputs
