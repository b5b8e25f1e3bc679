"""Run-time parameters of model and world while a function is traced.

Inertial parameters and gravity are run-time arguments of kernels, and so traced inputs while a
function is traced. They are bound to the model here, so that a user's function that calls the
library with its model uses the same inputs.
"""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from dataclasses import fields, replace
from typing import TYPE_CHECKING, Any, NamedTuple

from tiburon.model import Model, Plan, Water, World
from tiburon.model.water import one_water
from tiburon.spatial import Scalar, Scalars, Vec3

# water is imported on first use
if TYPE_CHECKING:
    from tiburon.algorithms.water.fluid import WaterAround

DEFAULT_WORLD = World()
"""The world of calls without `world=`."""


class _Binding(NamedTuple):
    model: Model
    world: World
    plan: Plan
    gravity: Vec3
    water: "WaterAround | None"
    fluid: Scalars


_binding: ContextVar[_Binding | None] = ContextVar("tiburon_binding", default=None)
_believed: ContextVar[frozenset[str]] = ContextVar("tiburon_believed", default=frozenset())
_time: ContextVar[Scalar | None] = ContextVar("tiburon_time", default=None)


@contextlib.contextmanager
def bound(
    model: Model,
    world: World,
    plan: Plan,
    gravity: Vec3,
    water: "WaterAround | None" = None,
    fluid: Scalars = (),
) -> Iterator[None]:
    """Bind parameters to a model and its world for calls inside the context.

    Args:
        model: The model that callers pass.
        world: The world that callers pass, or the default.
        plan: Layout with the bound parameters.
        gravity: Bound gravity, world axes [m/s^2].
        water: Bound water; none by default.
        fluid: Parameters of that water, for other robots in it.
    """
    token = _binding.set(_Binding(model, world, plan, gravity, water, fluid))
    try:
        yield
    finally:
        _binding.reset(token)


@contextlib.contextmanager
def unbound(*, model: bool, world: bool) -> Iterator[None]:
    """Let calls use the own parameters of models or worlds, even if equal to the bound ones."""
    token = _believed.set(frozenset(["model"] * model + ["world"] * world))
    try:
        yield
    finally:
        _believed.reset(token)


@contextlib.contextmanager
def at_time(time: Scalar | None) -> Iterator[None]:
    """Set the time [s] of time-dependent joints for calls inside the context, if not None."""
    token = _time.set(time)
    try:
        yield
    finally:
        _time.reset(token)


def surroundings(model: Model, world: World | None) -> tuple[Plan, Vec3, "WaterAround | None"]:
    """Return layout, gravity and water of a call: bound ones, or those of model and world.

    In water the bodies of the layout have added mass.
    """
    binding, time, kept = _binding.get(), _time.get(), _believed.get()
    own = binding is not None and binding.model == model and "model" not in kept
    plan = binding.plan if binding is not None and own else model.plan
    water = None
    alike = still = False
    if binding is not None and "world" not in kept:
        alike = own if world is None else world == binding.world
        still = not alike and world is not None and world == without_current(binding.world)
    if binding is not None and (alike or still):
        # parameters of this case, for any robot in these surroundings
        gravity = binding.gravity
        water = binding.water if own else _water_of(model, binding)
        if water is not None and still:
            from tiburon.algorithms.water.fluid import at_rest

            water = at_rest(water)
        if water is not None and time is not None:
            water = water._replace(time=time)
    else:
        named = world or DEFAULT_WORLD
        gravity = named.gravity
        if named.fluid is not None:
            from tiburon.algorithms.water.fluid import water_around

            values, bodies = water_parameters(model, named)
            water = water_around(model, named.fluid, values, bodies, 0.0 if time is None else time)
    if time is not None:
        plan = plan.at(time)
    if water is not None:
        plan = plan.in_water(water.added)
    return plan, gravity, water


def _water_of(model: Model, binding: _Binding) -> "WaterAround | None":
    """Return the bound water around another robot."""
    if binding.water is None or binding.world.fluid is None:
        return None
    from tiburon.algorithms.water.fluid import water_around

    _, bodies = water_parameters(model, binding.world)
    return water_around(model, binding.world.fluid, binding.fluid, bodies, binding.water.time)


def without_current(world: World) -> World:
    """Return the world with still water, if it has water."""
    if world.fluid is None:
        return world
    return replace(world, fluid=replace(world.fluid, current=(0.0, 0.0, 0.0)))


def wetted(plan: Plan, q: Scalars, water: "WaterAround") -> tuple[Plan, "WaterAround"]:
    """Return layout and water in a configuration, with the parts above the free surface dry."""
    if water.floating is None:
        return plan, water
    from tiburon.algorithms.water.floating import afloat

    return afloat(plan, q, water)


def world_with(
    world: World | None, fluid: Water | Sequence[Water] | None, *, one_case: str = ""
) -> World | None:
    """Return the world with another fluid, or a list of one per case.

    Args:
        world: Surroundings; None for the default ones.
        fluid: The water to use; None to keep that of the world.
        one_case: Name of a function that requires the same water in all cases.

    Raises:
        ModelError: If the water of such a function differs from case to case.
    """
    if fluid is not None:
        world = replace(DEFAULT_WORLD if world is None else world, fluid=one_water(fluid))
    # callers check the type of world
    if one_case and isinstance(world, World) and world.fluid is not None:
        world.fluid.refuse_cases(one_case)
    return world


def water_parameters(model: Model, world: World) -> tuple[tuple[float, ...], tuple[float, ...]]:
    """Return the nonzero parameters of the water, and of the bodies in it."""
    if world.fluid is None:
        return (), ()
    from tiburon.algorithms.water.fluid import immersions

    links = immersions(model, world.fluid.meets_bodies_apart)
    bodies = tuple(x for link in links for part in link for x in part.parameters())
    return world.fluid.parameters(), bodies


def gravity_parameters(world: World) -> tuple[float, ...]:
    """Return the nonzero components of gravity; zeros are compiled in."""
    return tuple(x for x, used in zip(world.gravity, world.gravity_used, strict=True) if used)


def gravity_vector(world: World, values: Scalars) -> Vec3:
    """Return gravity with given values for its nonzero components."""
    given = iter(values)
    x, y, z = (next(given) if used else 0.0 for used in world.gravity_used)
    return (x, y, z)


def structure_around(model: Model, world: World) -> tuple[object, ...]:
    """Return what compiled code depends on: surroundings, and bodies in water."""
    pattern = world.gravity_used
    if world.fluid is None:
        return pattern
    from tiburon.algorithms.water.fluid import immersions

    met = immersions(model, world.fluid.meets_bodies_apart)
    links = tuple(tuple(part.structure() for part in link) for link in met)
    hulls: tuple[object, ...] = ()
    if world.fluid.surface is not None:
        from tiburon.algorithms.water.floating import hulls_of, radii_of

        hulls = (hulls_of(model), radii_of(model))
    return (*pattern, world.fluid.structure(), links, *hulls)


def world_key(world: World) -> Any:
    """Return the key of the surroundings: their value, and the graphs of user code."""
    traced = world.traced_key()
    if not traced or world.fluid is None:
        return world
    # a user-defined current may lack equality and hash
    water = [getattr(world.fluid, x.name) for x in fields(world.fluid) if x.name != "current"]
    return (world.gravity, world.ground, *water, world.fluid.motion.parameters(), *traced)
