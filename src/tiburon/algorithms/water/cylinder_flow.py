"""How water flows around the round links of a robot: Reynolds numbers, and vortices they shed.

Drag coefficients are constant and vortices left out (McMillan 1994, section 6.3.2). This report
says where that is doubtful: where the flow around a cylinder is near its drag crisis, or where
vortices leave it at a frequency that something of the robot may answer to.
"""

import math
from dataclasses import dataclass
from itertools import cycle

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.algorithms.surroundings import surroundings
from tiburon.algorithms.water.fluid import relative_motions
from tiburon.arguments import public
from tiburon.errors import ModelError, ShapeError
from tiburon.model import CylinderDrag, Model, Water, World
from tiburon.model.configuration import as_batch
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Motion

__all__ = ["CylinderFlow", "cylinder_flows"]

REGIMES = (
    (250.0, "laminar"),
    (2e5, "subcritical"),
    (3.5e6, "critical"),
    (math.inf, "supercritical"),
)
"""Upper ends of Reynolds numbers, and what the flow around a smooth cylinder is called there."""


@dataclass(frozen=True)
class CylinderFlow:
    """The flow across one cylinder of a robot, at its middle."""

    body: str
    """Name of the body it belongs to."""

    index: int
    """Which of the body's shapes of drag it is, from 0."""

    speed: float
    """Of the flow across its axis [m/s]."""

    reynolds: float
    """Speed times diameter by kinematic viscosity."""

    regime: str
    """ "laminar", "subcritical", "critical" or "supercritical"; in the critical one, the drag
    crisis, coefficients fall by half or more."""

    shedding_frequency: float
    """At which vortices leave it [Hz], by Strouhal number 0.198 (1 - 19.7 / Re); zero below
    Re = 250, where the formula ends."""


@public
def cylinder_flows(
    model: Model, q: ArrayLike, v: ArrayLike, fluid: Water, *, time: float = 0.0
) -> tuple[CylinderFlow, ...]:
    """Tell how water flows across every cylinder that drag acts on.

    Args:
        model: The robot.
        q: Position [m or rad], shape (nq,).
        v: Joint velocity [m/s or rad/s], shape (nv,).
        fluid: The water, with its viscosity.
        time: When [s].

    Returns:
        One entry per cylinder, in the order of the bodies. Bodies fixed to the world are left out.

    Raises:
        ModelError: If the water has no viscosity or density, or the robot nothing that water meets.

    Example:
        ``tb.cylinder_flows(rov, q, v, tb.Water(1025.0, (0.5, 0, 0), viscosity=1.1e-3))``
    """
    fluid.refuse_cases("cylinder_flows")
    if fluid.viscosity <= 0.0 or fluid.density <= 0.0:
        raise ModelError(
            "fluid: Reynolds numbers need viscosity and density, got "
            f"{fluid.viscosity:g} Pa s and {fluid.density:g} kg/m^3; sea water at 15 degrees has "
            "Water(1025.0, viscosity=1.2e-3)"
        )
    position = _one_case(q, model.nq, "q", model.describe_q())
    rate = _one_case(v, model.nv, "v", model.describe_v())
    plan, _, water = surroundings(model, World(fluid=fluid))
    assert water is not None
    around = water._replace(time=time)
    motions = relative_motions(plan.at(time), position.tolist(), rate.tolist(), around)
    found = []
    # bodies of one link meet the water as one, or one after the other in the order of the model
    met = [cycle(parts) for parts in motions]
    for body in model.bodies:
        frame = plan.frame(body.name)
        if body.fluid is None or frame.body == WORLD_BODY:
            continue
        motion = frame.transform.motion(next(met[frame.body]))
        for index, drag in enumerate(body.fluid.drag):
            if isinstance(drag, CylinderDrag):
                found.append(_flow(body.name, index, drag, motion, fluid))
    return tuple(found)


def _one_case(values: ArrayLike, size: int, argument: str, expected: str) -> NDArray[np.float64]:
    """Return the numbers of one state."""
    array = as_batch(values, size, argument, expected)
    if array.ndim != 1:
        raise ShapeError(argument, expected, array.shape, advice="this report takes one state")
    return array


def _flow(body: str, index: int, drag: CylinderDrag, motion: Motion, fluid: Water) -> CylinderFlow:
    """Return the flow across the middle of one cylinder of a body."""
    axis = np.array(drag.axis)
    middle = np.array(drag.start) + 0.5 * drag.length * axis
    w, u = (np.array(part, dtype=float) for part in (motion.angular, motion.linear))
    u = u + np.cross(w, middle)
    speed = float(np.linalg.norm(u - axis * (axis @ u)))
    diameter = 2.0 * drag.radius
    reynolds = fluid.density * speed * diameter / fluid.viscosity
    regime = next(name for end, name in REGIMES if reynolds < end)
    shedding = 0.0
    if regime != "laminar":
        shedding = 0.198 * (1.0 - 19.7 / reynolds) * speed / diameter
    return CylinderFlow(body, index, speed, reynolds, regime, shedding)
