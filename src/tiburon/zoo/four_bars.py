"""Rows of four-bar linkages: the N-four-bar mechanism of the IFToMM benchmark library.

2 N + 1 uniform rods of 1 m and 1 kg; gravity 9.81 m/s^2 down. All joints are zero at the start,
where uprights are vertical and couplers horizontal. The benchmark starts with tip velocities of 1
m/s along x (uprights at -1 rad/s, couplers at +1 rad/s relative to them) and runs for 10 s. The
mechanism passes through the singular configuration with all rods on one line, where it could change
branch.

The mechanism moves in the vertical plane: its x axis is the world's x axis, its y axis points up,
and joints turn counterclockwise seen from -y of the world.
"""

import math

from tiburon.argument_checks import at_least
from tiburon.model import Body, LoopClosure, Model, Revolute
from tiburon.zoo.parts import BLUE, ORANGE, at, bar_shape, thin_rod, upright

Z = (0.0, 0.0, 1.0)


def n_four_bar(count: int) -> Model:
    """Build a row of equal parallelogram linkages with one degree of freedom.

    Args:
        count: Number of four-bars, at least one.

    Returns:
        The model "n_four_bar_<count>": links "upright_<k>" on joints "pivot_<k>", links
        "coupler_<k>" on joints "elbow_<k>", and loops "pin_<k>".

    Example:
        ``from tiburon import zoo; zoo.n_four_bar(10)``
    """
    count = at_least("count", count, 1)
    uprights = [
        Body(
            f"upright_{k}",
            joint=Revolute(f"pivot_{k}", Z, math.pi / 2.0, pose=upright(float(k))),
            inertia=thin_rod(1.0, 1.0),
            shapes=(bar_shape(1.0, 0.02, ORANGE),),
        )
        for k in range(count + 1)
    ]
    couplers = [
        Body(
            f"coupler_{k}",
            f"upright_{k}",
            joint=Revolute(f"elbow_{k}", Z, -math.pi / 2.0, pose=at(1.0)),
            inertia=thin_rod(1.0, 1.0),
            shapes=(bar_shape(1.0, 0.02, BLUE),),
        )
        for k in range(count)
    ]
    pins = [
        LoopClosure(
            f"pin_{k}",
            f"coupler_{k}",
            f"upright_{k + 1}",
            Revolute(f"pin_{k}", Z, pose=at(1.0)),
            at(1.0),
        )
        for k in range(count)
    ]
    return Model(
        f"n_four_bar_{count}",
        [*uprights, *couplers],
        loops=pins,
        about=f"{2 * count + 1} rods in {count} square loops: one degree of freedom",
    )
