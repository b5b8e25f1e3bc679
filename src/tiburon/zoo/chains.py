"""Serial chains of any length, for tests and benchmarks.

Equal solid cylinders of 1 kg, 0.2 m long, 0.02 m in radius, hung one below the other on hinges
whose axes alternate between y and x. All values are choices.
"""

from tiburon.argument_checks import at_least
from tiburon.model import Body, Frame, Inertia, Model, Pose, Revolute
from tiburon.model.body import CylinderShape, Shape

LENGTH = 0.2
"""Length of a link [m]."""

RADIUS = 0.02
"""Radius of a link [m]."""

MASS = 1.0
"""Mass of a link [kg]."""


def chain(count: int) -> Model:
    """Build a chain of equal cylinders, hung one below the other.

    The joint axes alternate between y and x, so that the chain moves in all three dimensions. At
    q = 0 it hangs straight down from the world's origin.

    Args:
        count: Number of links, at least one.

    Returns:
        The model "chain_<count>": links "link_1" and so on, joints "joint_1" and so on, and a frame
        "tip" at the lower end.

    Example:
        ``from tiburon import zoo; zoo.chain(30)``
    """
    count = at_least("count", count, 1)
    middle = (0.0, 0.0, -0.5 * LENGTH)
    end = Pose(translation=(0.0, 0.0, -LENGTH))
    inertia = Inertia.cylinder(MASS, RADIUS, LENGTH, com=middle)
    shape = Shape(CylinderShape(RADIUS, LENGTH), pose=Pose(translation=middle))
    bodies = []
    for number in range(1, count + 1):
        first = number == 1
        joint = Revolute(
            f"joint_{number}",
            (0.0, 1.0, 0.0) if number % 2 else (1.0, 0.0, 0.0),
            pose=Pose() if first else end,
        )
        parent = "world" if first else f"link_{number - 1}"
        bodies.append(Body(f"link_{number}", parent, joint=joint, inertia=inertia, shapes=(shape,)))
    return Model(
        f"chain_{count}",
        bodies,
        [Frame("tip", f"link_{count}", end)],
        about=f"{count} equal cylinders on hinges whose axes alternate; hangs down at zero",
    )
