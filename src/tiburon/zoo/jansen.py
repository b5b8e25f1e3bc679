"""Theo Jansen's walking machine: twelve legs of eleven lengths each on one crankshaft.

Lengths: Jansen's eleven rod lengths and his position and radius of the crank (strandbeest.com), in
centimeters: a 38, b 41.5, c 39.3, d 40.1, e 55.8, f 39.4, g 36.7, h 65.7, i 49, j 50, k 61.9, l
7.8, m 15.

Estimated: the legs consist of plastic tube of 19 mm with 0.2 kg/m (electrician's conduit), each
body being the sum of its tubes; the frame is a board of 4 kg, the crankshaft a round bar of 1.5 kg
and 0.15 m radius; pairs of legs stand 0.12 m apart; crank pins of neighbors are a third of a turn
apart.

x points forward, the crankshaft lies along y. All joints are zero at home, where the first crank
pin points forward and the lowest feet touch the plane z = 0. Every body frame is parallel to the
frame of the machine there, so that coordinates are differences of points.
"""

import math
from itertools import pairwise

import numpy as np

from tiburon.arrays import NDArray
from tiburon.model import (
    Actuator,
    Body,
    ContactPoint,
    Free,
    Inertia,
    Joint,
    LoopClosure,
    Model,
    Revolute,
)
from tiburon.zoo.parts import BLUE, GREY, ORANGE, STEEL, YELLOW, at, line_shape

Y = (0.0, 1.0, 0.0)

LENGTHS = {
    "a": 0.380,
    "b": 0.415,
    "c": 0.393,
    "d": 0.401,
    "e": 0.558,
    "f": 0.394,
    "g": 0.367,
    "h": 0.657,
    "i": 0.490,
    "j": 0.500,
    "k": 0.619,
    "l": 0.078,
    "m": 0.150,
}
"""Jansen's eleven rod lengths, and the position (l) and radius (m) of the crank [m]."""

TUBE_DENSITY = 0.2
"""Mass of the tube per length [kg/m]."""

TUBE_RADIUS = 0.0095
"""Radius of the tube [m]."""

PAIR_SPACING = 0.12
"""Distance between neighboring pairs of legs along the crankshaft [m]."""

Point = NDArray[np.float64]
Color = tuple[float, float, float, float]


def intersect(first: Point, radius: float, second: Point, other: float, side: float) -> Point:
    """Intersect two circles; side = +1: left of the line from first to second."""
    way = second - first
    distance = math.hypot(*way)
    along = (radius**2 - other**2 + distance**2) / (2.0 * distance)
    away = math.sqrt(radius**2 - along**2)
    normal = np.array([-way[1], way[0]]) / distance
    return first + along * way / distance + side * away * normal


def leg_points(crank: float, mirrored: bool) -> dict[str, Point]:
    """Return the joints of a leg in the x-z plane, relative to the crank's axis [m].

    Args:
        crank: Angle of the crank pin from x toward z [rad].
        mirrored: Whether the leg stands in front of the crank instead of behind it.
    """
    n, sign = LENGTHS, -1.0 if mirrored else 1.0
    # a front leg is computed as a rear leg with mirrored pin, then mirrored back
    pin = n["m"] * np.array([sign * math.cos(crank), math.sin(crank)])
    pivot = np.array([-n["a"], -n["l"]])
    top = intersect(pin, n["j"], pivot, n["b"], -1.0)
    knee = intersect(pin, n["k"], pivot, n["c"], 1.0)
    hip = intersect(pivot, n["d"], top, n["e"], 1.0)
    ankle = intersect(hip, n["f"], knee, n["g"], -1.0)
    foot = intersect(ankle, n["h"], knee, n["i"], -1.0)
    points = {"pin": pin, "pivot": pivot, "top": top, "knee": knee}
    points |= {"hip": hip, "ankle": ankle, "foot": foot}
    return {name: np.array([sign * p[0], p[1]]) for name, p in points.items()}


def between(a: Point, b: Point) -> tuple[float, float, float]:
    """Return the vector from a to b in the frame of the machine."""
    x, z = (b - a).tolist()
    return (x, 0.0, z)


def tubes(
    name: str,
    parent: str,
    joint: Joint,
    ends: list[tuple[Point, Point]],
    origin: Point,
    color: Color,
) -> Body:
    """Build a body of straight tubes between points.

    Matrix products are written out elementwise, so that all machines round equally.
    """
    pieces = []
    for start, end in ends:
        a, b = np.array(between(origin, start)), np.array(between(origin, end))
        length = math.hypot(*(b - a))
        pieces.append((TUBE_DENSITY * length, length, (b - a) / length, 0.5 * (a + b)))
    mass = sum(piece[0] for piece in pieces)
    com = np.sum([m * middle for m, _, _, middle in pieces], axis=0) / mass
    tensor = np.zeros((3, 3))
    for m, length, axis, middle in pieces:
        across = m * (TUBE_RADIUS**2 / 4.0 + length**2 / 12.0)
        along = m * TUBE_RADIUS**2 / 2.0
        tensor += across * np.eye(3) + (along - across) * np.outer(axis, axis)
        r = middle - com
        tensor += m * ((r * r).sum() * np.eye(3) - np.outer(r, r))
    shapes = tuple(
        line_shape(between(origin, a), between(origin, b), TUBE_RADIUS, color) for a, b in ends
    )
    return Body(
        name,
        parent,
        joint=joint,
        inertia=Inertia(mass, tuple(com.tolist()), tensor),  # type: ignore[arg-type]
        shapes=shapes,
    )


def leg_parts(
    name: str, points: dict[str, Point], y: float
) -> tuple[list[Body], list[LoopClosure], ContactPoint]:
    """Build the bodies, loop closures and foot of one leg."""
    p = points
    center = np.zeros(2)

    def hinge(joint: str, origin: Point, place: Point, shift: float = 0.0) -> Revolute:
        x, _, z = between(origin, place)
        return Revolute(f"{name}_{joint}", Y, pose=at(x, shift, z))

    def bar(part: str, parent: str, joint: Joint, *way: str, color: Color) -> Body:
        closed = [*way, way[0]] if len(way) > 2 else list(way)
        ends = [(p[a], p[b]) for a, b in pairwise(closed)]
        return tubes(f"{name}_{part}", parent, joint, ends, p[way[0]], color)

    bodies = [
        bar(
            "thigh",
            "frame",
            hinge("hip", center, p["pivot"], y),
            "pivot",
            "top",
            "hip",
            color=ORANGE,
        ),
        bar("strut", "frame", hinge("strut", center, p["pivot"], y), "pivot", "knee", color=GREY),
        bar(
            "upper_rod", "crank", hinge("upper_pin", center, p["pin"], y), "pin", "top", color=STEEL
        ),
        bar(
            "lower_rod",
            "crank",
            hinge("lower_pin", center, p["pin"], y),
            "pin",
            "knee",
            color=STEEL,
        ),
        bar(
            "link", f"{name}_thigh", hinge("link", p["pivot"], p["hip"]), "hip", "ankle", color=GREY
        ),
        bar(
            "shank",
            f"{name}_link",
            hinge("ankle", p["hip"], p["ankle"]),
            "ankle",
            "knee",
            "foot",
            color=BLUE,
        ),
    ]

    def pin(
        closure: str, first: str, start: str, second: str, origin: str, place: str
    ) -> LoopClosure:
        joint = Revolute(f"{name}_{closure}", Y, pose=at(*between(p[start], p[place])))
        return LoopClosure(
            f"{name}_{closure}",
            f"{name}_{first}",
            f"{name}_{second}",
            joint,
            at(*between(p[origin], p[place])),
        )

    loops = [
        pin("top", "thigh", "pivot", "upper_rod", "pin", "top"),
        pin("knee_of_rod", "strut", "pivot", "lower_rod", "pin", "knee"),
        pin("knee_of_shank", "strut", "pivot", "shank", "ankle", "knee"),
    ]
    foot = ContactPoint(f"{name}_foot", f"{name}_shank", between(p["ankle"], p["foot"]))
    return bodies, loops, foot


def strandbeest() -> Model:
    """Build a frame with twelve legs on one crankshaft: 36 loops, free to walk."""
    width = 6 * PAIR_SPACING
    phases = [math.radians(60.0 * k) for k in range(6)]
    height = -min(float(leg_points(phase, False)["foot"][1]) for phase in phases)
    beams = [0.5 * width, -0.5 * width]
    frame = Body(
        "frame",
        joint=Free("base", pose=at(z=height)),
        inertia=Inertia.box(4.0, (2.0 * LENGTHS["a"], width, 0.05), com=(0.0, 0.0, -LENGTHS["l"])),
        shapes=tuple(
            line_shape(
                (-LENGTHS["a"], y, -LENGTHS["l"]), (LENGTHS["a"], y, -LENGTHS["l"]), 0.02, YELLOW
            )
            for y in beams
        ),
    )
    crank = Body(
        "crank",
        "frame",
        joint=Revolute("crankshaft", Y),
        inertia=Inertia.cylinder(1.5, 0.15, width, axis=1),
        shapes=(line_shape((0.0, beams[1], 0.0), (0.0, beams[0], 0.0), 0.015, STEEL),),
    )
    bodies, loops, contacts = [frame, crank], [], []
    for pair in range(6):
        # neighboring pins are a third of a turn apart, the two halves of the machine half a turn
        phase = math.radians(120.0 * pair + (180.0 if pair >= 3 else 0.0))
        y = (pair - 2.5) * PAIR_SPACING
        for side, mirrored in (("rear", False), ("front", True)):
            parts = leg_parts(f"{side}_{pair + 1}", leg_points(phase, mirrored), y)
            bodies += parts[0]
            loops += parts[1]
            contacts.append(parts[2])
    return Model(
        "strandbeest",
        bodies,
        loops=loops,
        contacts=contacts,
        actuators=[Actuator("motor", "crankshaft")],
        about="Jansen's beach animal: 12 legs on one crankshaft, 36 loops, free to walk",
    )
