"""From the angles of fins to joint forces.

Dynamics under water knows fins at the angles that the model has. What other angles add is a force
on each body that depends on position and velocity alone; it is projected onto the joints.
"""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from operator import sub
from typing import Any, Unpack

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.surroundings import surroundings_at
from tiburon.algorithms.tape_calls import scalars
from tiburon.algorithms.water.fluid import Link, water_forces
from tiburon.algorithms.water.thrusters import projected
from tiburon.arguments import public
from tiburon.errors import ModelError
from tiburon.functions.keywords import Delivery, WorldCall, takes_conditions
from tiburon.functions.library import LibraryFunction, Options, call_under
from tiburon.hydro.immersion import Immersion
from tiburon.model import Fin, Model, Water, World
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import ArticulatedInertia, Scalar
from tiburon.spatial.vec3 import ZERO3
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

__all__ = ["fin_force", "steerable_fins"]


@public
def steerable_fins(model: Model) -> tuple[tuple[str, Fin], ...]:
    """Return the fins that can be turned, those whose `deflection` is a number.

    Args:
        model: The robot.

    Returns:
        Name of the body and fin, in the order of bodies, and of the fins of each.
    """
    return tuple(
        (body.name, fin)
        for body in model.bodies
        # what is fixed to the world moves nothing
        if body.fluid is not None and model.plan.frame(body.name).body != WORLD_BODY
        for fin in body.fluid.fins
        if fin.deflection is not None
    )


def _steered(model: Model, links: Sequence[Link], angles: Sequence[Scalar]) -> tuple[Link, ...]:
    """Return links with other angles of their fins, given in the order of `steerable_fins`."""
    of_link: list[list[Scalar]] = [[] for _ in links]
    for (body, _), angle in zip(steerable_fins(model), angles, strict=True):
        of_link[model.plan.frame(body).body].append(angle)

    def turned(part: Immersion, given: Iterator[Scalar]) -> Immersion:
        fins = [
            fin if fin.deflection is None else replace(fin, deflection=next(given))
            for fin in part.fins
        ]
        return replace(part, fins=tuple(fins))

    found = []
    for link, listed in zip(links, of_link, strict=True):
        # parts of a link stand in the order of the model's bodies
        given = iter(listed)
        found.append(tuple(turned(part, given) for part in link))
    return tuple(found)


def _by_fins_alone(part: Immersion) -> Immersion:
    """Return what water acts on through fins that can be turned, and nothing else."""
    fins = tuple(fin for fin in part.fins if fin.deflection is not None)
    nothing = ArticulatedInertia.zero()
    return Immersion(nothing, 0.0, ZERO3, (), (), part.place, fins)


def _run(
    model: Model, world: World | None, options: Options, q: Any, v: Any, deflections: Any
) -> Any:
    position, rate = scalars(q), scalars(v)
    plan, gravity, water = surroundings_at(model, world, position)
    if water is None:
        raise ModelError(
            f"model {model.name!r}: fins lift in water, got none; pass fluid=Water(...)"
        )
    links = tuple(tuple(map(_by_fins_alone, link)) for link in water.links)
    steered = _steered(model, links, scalars(deflections))
    after, before = (
        water_forces(plan, position, rate, gravity, water._replace(links=x))
        for x in (steered, links)
    )
    added = tuple(map(sub, after, before))
    return as_traced(list(projected(plan, position, added)))


def _inputs(model: Model, options: Options) -> list[Input]:
    fins = steerable_fins(model)
    if not fins:
        raise ModelError(
            f"model {model.name!r}: expected fins that can be turned, got none; give a body "
            "BodyFluid(fins=(Fin(..., deflection=0.0), ...))"
        )
    listed = ", ".join(fin.name or f"of {body}" for body, fin in fins[:4])
    described = f"{len(fins)} (one per fin that can be turned: {listed}"
    described += ", ...)" if len(fins) > 4 else ")"
    return [
        Input("q", (model.nq,), described=model.describe_q()),
        Input("v", (model.nv,), described=model.describe_v()),
        Input("deflections", (len(fins),), described=described),
    ]


def _options(model: Model) -> Options:
    """Return what code depends on beside the layout: the link on which each fin is."""
    links = tuple(model.plan.frame(body).body for body, _ in steerable_fins(model))
    return (("links of fins", links),)


_FUNCTION = LibraryFunction("fin_force", _inputs, _run)


@public
@takes_conditions
def fin_force(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    deflections: ArrayLike,
    fluid: Water | Sequence[Water] | None = None,
    *,
    world: World | None = None,
    time: ArrayLike | None = None,
    parameters: Mapping[str, ArrayLike] | None = None,
    **delivery: Unpack[Delivery],
) -> NDArray[np.float64]:
    """Compute the joint forces that turning fins adds to those at the angles the model has.

    Added to the joint forces that dynamics takes, they give the motion with fins at these angles:
    dynamics in the same water already holds the rest of what fins do. One state or a batch; traced
    arrays inside a compiled function, one state at a time.

    Args:
        model: The robot.
        q: Position [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        deflections: Angles about their spans [rad], shape (..., fins), in the order of
            `steerable_fins`.
        fluid: The water it is in.
        world: Surroundings, in place of `fluid`.
        time: When [s], shape (...), where the water changes; zero by default.
        parameters: Values by name in place of those of robot and water, one or one per case.
        **delivery: `out` and `errors`, the keywords of `Delivery`.

    Returns:
        Joint force [N or N m], shape (..., nv).

    Raises:
        ModelError: If there is no water, or no fin can be turned.

    Example:
        ``tau = tb.fin_force(auv, q, v, [0.1, -0.1], tb.Water(1025.0))``
    """
    conditions: WorldCall = {
        "world": world,
        "fluid": fluid,
        "time": time,
        "parameters": parameters,
        **delivery,
    }
    answer: NDArray[np.float64] = call_under(
        conditions, _FUNCTION, model, (q, v, deflections), _options(model)
    )
    return answer
