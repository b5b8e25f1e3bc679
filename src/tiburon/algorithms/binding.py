"""What a model's numbers are while a function is being traced.

Kernels take inertial numbers and gravity at run time. While a function of a model is traced, those
numbers are therefore traced inputs. They are bound to the model here, so that a user's function can
call the library with the model it has and meet the same inputs.
"""

import contextlib
from collections.abc import Iterator, Sequence
from contextvars import ContextVar
from typing import NamedTuple

from tiburon.errors import ModelError
from tiburon.model import Model, Plan, World
from tiburon.spatial import Scalar, Vec3

__all__ = [
    "DEFAULT_WORLD",
    "at_time",
    "bound",
    "gravity_numbers",
    "gravity_vector",
    "plan_and_gravity",
    "refuse_couplings",
]

DEFAULT_WORLD = World()
"""The world of calls that name none."""


class _Binding(NamedTuple):
    model: Model
    world: World
    plan: Plan
    gravity: Vec3


_binding: ContextVar[_Binding | None] = ContextVar("tiburon_binding", default=None)
_time: ContextVar[Scalar | None] = ContextVar("tiburon_time", default=None)


@contextlib.contextmanager
def bound(model: Model, world: World, plan: Plan, gravity: Vec3) -> Iterator[None]:
    """Let calls that name a model, in its world, use other numbers for both.

    Args:
        model: The model callers name.
        world: The world callers name, or mean by naming none.
        plan: Layout with the numbers to use.
        gravity: Gravity to use, world axes [m/s^2].
    """
    token = _binding.set(_Binding(model, world, plan, gravity))
    try:
        yield
    finally:
        _binding.reset(token)


@contextlib.contextmanager
def at_time(time: Scalar | None) -> Iterator[None]:
    """Let calls of algorithms meet joints that time moves at a given time [s], if not None."""
    token = _time.set(time)
    try:
        yield
    finally:
        _time.reset(token)


def plan_and_gravity(model: Model, world: World | None) -> tuple[Plan, Vec3]:
    """Return layout and gravity for a call of an algorithm: bound ones, or the model's own."""
    binding, time = _binding.get(), _time.get()
    if binding is None or binding.model != model:
        plan, gravity = model.plan, (world or DEFAULT_WORLD).gravity
    else:
        named = world is None or world == binding.world
        plan, gravity = binding.plan, binding.gravity if named else (world or DEFAULT_WORLD).gravity
    return plan if time is None else plan.at(time), gravity


def refuse_couplings(plan: Plan, function: str) -> None:
    """Raise `ModelError` if joints follow others, where a function takes each to move by itself."""
    for body in plan.bodies:
        if body.joint.follows is not None:
            raise ModelError(
                f"joint {body.joint.name!r}: {function} cannot be used where joints follow others, "
                f"got a follower of {body.joint.follows!r}; use a function that works on the mass "
                "matrix, such as forward_dynamics",
                name=body.joint.name,
            )


def gravity_numbers(world: World) -> tuple[float, ...]:
    """Return the components of gravity that are not zero; the others are structure."""
    return tuple(x for x in world.gravity if x != 0.0)


def gravity_vector(world: World, numbers: Sequence[Scalar]) -> Vec3:
    """Return gravity with given numbers in place of its components that are not zero."""
    given = iter(numbers)
    x, y, z = (next(given) if component != 0.0 else 0.0 for component in world.gravity)
    return (x, y, z)
