"""Keys of the surroundings of a robot, for the code that depends on them."""

from dataclasses import fields
from typing import Any

from tiburon.model import Model, World

__all__ = ["structure_around", "world_key"]


def structure_around(model: Model, world: World) -> tuple[object, ...]:
    """Return what code depends on of the surroundings, and of the bodies in water."""
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
    """Return the key of the surroundings: their value, and graphs of user code as it is now."""
    traced = world.traced_key()
    if not traced or world.fluid is None:
        return world
    # a user's current need not compare, nor have a hash
    water = [getattr(world.fluid, x.name) for x in fields(world.fluid) if x.name != "current"]
    return (world.gravity, world.ground, *water, world.fluid.motion.numbers(), *traced)
