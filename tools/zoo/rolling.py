"""What glides and rolls: Chaplygin's sleigh, a disc on its rim."""

import tiburon as tb
from tiburon.zoo.parts import BLUE, GREY, ORANGE, at, line_shape
from tools.zoo.sheet import Sheet


def chaplygin_sleigh() -> Sheet:
    """Return a plate on the ice that an edge keeps from going sideways."""
    plate = tb.Body(
        "sleigh",
        joint=tb.Planar("ice"),
        inertia=tb.Inertia.box(2.0, (0.8, 0.5, 0.04), com=(0.25, 0.0, 0.1)),
        shapes=(
            tb.Shape(tb.BoxShape((0.8, 0.5, 0.04)), pose=at(0.25, 0.0, 0.1), color=BLUE),
            tb.Shape(tb.BoxShape((0.2, 0.01, 0.08)), pose=at(z=0.04), color=ORANGE),
            line_shape((0.6, 0.2, 0.0), (0.6, 0.2, 0.1), 0.01, GREY),
            line_shape((0.6, -0.2, 0.0), (0.6, -0.2, 0.1), 0.01, GREY),
        ),
    )
    model = tb.Model(
        "chaplygin_sleigh",
        [plate],
        loops=[tb.Blade("runner", "world", "sleigh")],
        about="A plate on ice with one runner that does not slip sideways: it straightens out",
    )
    sources = """
The sleigh of Chaplygin 1911 (Neimark and Fufaev 1972). All numbers are choices: 2 kg, uniform,
0.8 m by 0.5 m, center of mass a = 0.25 m ahead of the runner. About the runner it has
m (0.8^2 + 0.5^2) / 12 + m a^2 = 0.27333 kg m^2. Forward speed u and turning rate w obey u' = a w^2,
w' = -m a u w / 0.27333: all energy ends in going straight ahead."""
    return Sheet(model, sources)


def rolling_disc() -> Sheet:
    """Return a thin disc that rolls on the ground and may tilt."""
    radius, mass = 0.25, 1.0
    across = mass * radius * radius / 4.0
    disc = tb.Body(
        "disc",
        joint=tb.Free("float"),
        inertia=tb.Inertia(mass, (0.0, 0.0, 0.0), (across, 0.0, 0.0, 2.0 * across, 0.0, across)),
        shapes=(
            tb.Shape(
                tb.CylinderShape(radius, 0.01),
                # a cylinder stands along z, the disc turns about y
                pose=tb.Pose.from_rpy((1.5707963267948966, 0.0, 0.0)),
                color=BLUE,
            ),
            line_shape((0.0, 0.0, 0.0), (0.0, 0.0, 0.24), 0.012, ORANGE),
        ),
    )
    model = tb.Model(
        "rolling_disc",
        [disc],
        loops=[tb.RollingDisc("rim", "world", "disc", radius=radius)],
        poses={"home": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, radius)},
        about="A thin disc of 1 kg that rolls on its rim without slip, leans and turns",
    )
    sources = """
A disc to try things on; all numbers are choices: thin and uniform, m r^2 / 4 about a diameter and
m r^2 / 2 about its axis, which is y. Upright and straight ahead it rolls steadily when it spins
faster than sqrt(g / (3 r)) = 3.6166 rad/s; slower, it falls."""
    return Sheet(model, sources)


def sheets() -> list[Sheet]:
    """Return the robots of this file."""
    return [chaplygin_sleigh(), rolling_disc()]
