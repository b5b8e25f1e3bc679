"""Joint forces of fin deflections.

Underwater dynamics uses the deflections in the model. The change of force with other deflections
depends on configuration and velocity only; it is projected onto the joints.
"""

from collections.abc import Iterator, Sequence
from dataclasses import replace
from operator import sub

from tiburon.algorithms.setting import Setting
from tiburon.algorithms.water.fluid import Link, water_forces
from tiburon.algorithms.water.thrusters import projected
from tiburon.errors import ModelError
from tiburon.hydro.immersion import Immersion
from tiburon.model import Fin, Model
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import ArticulatedInertia, Scalar, Scalars
from tiburon.spatial.vec3 import ZERO3


def movable_fins(model: Model) -> tuple[tuple[str, Fin], ...]:
    """Return the movable fins, which have a `deflection`.

    Args:
        model: The robot.

    Returns:
        Name of the body and fin, in the order of bodies, and of the fins of each.
    """
    return tuple(
        (body.name, fin)
        for body in model.bodies
        # bodies fixed to the world do not count
        if body.fluid is not None and model.plan.frame(body.name).body != WORLD_BODY
        for fin in body.fluid.fins
        if fin.deflection is not None
    )


def _steered(model: Model, links: Sequence[Link], angles: Scalars) -> tuple[Link, ...]:
    """Return links with other deflections, in the order of `movable_fins`."""
    of_link: list[list[Scalar]] = [[] for _ in links]
    for (body, _), angle in zip(movable_fins(model), angles, strict=True):
        of_link[model.plan.frame(body).body].append(angle)

    def turned(part: Immersion, given: Iterator[Scalar]) -> Immersion:
        fins = [
            fin if fin.deflection is None else replace(fin, deflection=next(given))
            for fin in part.fins
        ]
        return replace(part, fins=tuple(fins))

    found = []
    for link, listed in zip(links, of_link, strict=True):
        # parts of a link are in the order of the model's bodies
        given = iter(listed)
        found.append(tuple(turned(part, given) for part in link))
    return tuple(found)


def _by_fins_alone(part: Immersion) -> Immersion:
    """Return an immersion with movable fins only."""
    fins = tuple(fin for fin in part.fins if fin.deflection is not None)
    nothing = ArticulatedInertia.zero()
    return Immersion(nothing, 0.0, ZERO3, (), (), part.place, fins)


def fin_joint_forces(
    setting: Setting, q: Scalars, v: Scalars, deflections: Scalars
) -> tuple[Scalar, ...]:
    """Compute the joint forces due to fin deflections.

    Args:
        setting: The robot and the water around it.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        deflections: Angle of each of `movable_fins` [rad].

    Raises:
        ModelError: If there is no water.
    """
    model, plan, water = setting.model, setting.plan, setting.water
    if water is None:
        raise ModelError(
            f"model {model.name!r}: fins lift in water, got none; pass fluid=Water(...)"
        )
    links = tuple(tuple(map(_by_fins_alone, link)) for link in water.links)
    steered = _steered(model, links, deflections)
    after, before = (
        water_forces(plan, q, v, setting.gravity, water._replace(links=x)) for x in (steered, links)
    )
    added = tuple(map(sub, after, before))
    return projected(plan, q, added)
