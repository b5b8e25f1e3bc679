"""Problems of Nahon 1991 as matrices, from the data that the source prints, and mechanisms.

Where a figure or a matrix of the source is lost, the function says what stands for it.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.load_sharing.limits.contact import friction_directions
from tiburon.model import Body, Free, Inertia, LoopClosure, Model, Pose, Revolute
from tiburon.model.joints import Joint, Planar

HEIGHT = float(np.sqrt(2.0))
"""Height of the body of the planar walker [m]."""

HIPS = (1.0, 0.0, -1.0)
"""Places of its hips along the body [m]."""


class Constraints(NamedTuple):
    """Equations A1 x = b1 and limits A2 x >= b2."""

    A1: Array
    b1: Array
    A2: Array
    b2: Array


def walker_problem(
    feet: Sequence[float] | Array = HIPS, load: float = 0.0, weight: float = 1000.0
) -> tuple[Array, Array]:
    """Return A1 and b1 of the planar walker on three legs: 9 equations, 12 unknowns (E5, E8).

    Unknown are the forces of the ground on three feet (x, y each) and the torques of hips 1 to 3
    and knees 4 to 6. Legs have no weight (section 2.6.1); geometry of Fig. 3.4: leg links of 1 m,
    knees bent forward by 45 degrees, feet below the hips.

    Args:
        feet: Places of the feet along the ground [m].
        load: Place of the load along the body [m].
        weight: The load [N].
    """
    A, b = np.zeros((9, 12)), np.zeros(9)
    A[0, 0:6:2] = 1.0
    A[1, 1:6:2] = 1.0
    for leg, x in enumerate(feet):
        # moment about the body's center: x f_y - y f_x, the feet are below
        A[2, 2 * leg], A[2, 2 * leg + 1] = HEIGHT, x
    b[1:3] = weight, weight * load
    half = HEIGHT / 2.0
    joints = [(hip, 0.0) for hip in HIPS] + [(hip + half, -half) for hip in HIPS]
    for k, (x, y) in enumerate(joints):
        leg = k % 3
        # tau = (foot - joint) x f
        A[3 + k, 2 * leg] = -HEIGHT - y
        A[3 + k, 2 * leg + 1] = -(feet[leg] - x)
        A[3 + k, 6 + k] = 1.0
    return A, b


def kerr_roth() -> Constraints:
    """Return the grasp of Kerr and Roth with two soft fingers (E9).

    x = [fx1 fy1 fN1 fT1 fx2 fy2 fN2 fT2]; A1 and b1 as printed, (6.9) and (6.10). The matrix of the
    20 limits (6.11) is lost; friction is 0.25, that of torsion 0.5, torques at most 5 N m. The
    torque rows here are ours: fN and fN - fx of finger 1, fN and fN - fy of finger 2, which
    reproduce the printed optimum.
    """
    A1 = np.array([
        [0, 1, 0, 0, 1, 0, 0, 0],
        [0, 0, 1, 0, 0, 0, -1, 0],
        [1, 0, 0, 0, 0, 1, 0, 0],
        [-1, 0, 0, 0, 0, 1, 0, 0],
        [0, 0, 0, 1, 0, 0, 0, -1],
        [0, 1, 0, 0, -1, 0, 0, 0],
    ], dtype=np.float64)  # fmt: skip
    b1 = np.array([0, -1, -1, 0, 0, 0], dtype=np.float64)
    rows: list[Array] = []
    right: list[float] = []
    axes = np.eye(8)
    for first in (0, 4):
        x, y, normal, torsion = axes[first : first + 4]
        for coefficient, part in ((0.25, x), (0.25, y), (0.5, torsion)):
            rows += [coefficient * normal + part, coefficient * normal - part]
            right += [0.0, 0.0]
    for torque in (axes[2], axes[2] - axes[0], axes[6], axes[6] - axes[5]):
        rows += [torque, -torque]
        right += [-5.0, -5.0]
    return Constraints(A1, b1, np.array(rows), np.array(right))


BALL_MASS, BALL_RADIUS = 0.91, 0.0255
"""Of the ball that the DIGITS hand turns [kg, m]; the source gives 51 mm as its diameter."""


def grasped_ball(
    fingers: int, time: float, sides: int = 4, friction: float = 0.5, torque: float = 1.0
) -> Constraints:
    """Return the ball that two or four hard fingers turn about the vertical axis (E10).

    Amplitude 30 degrees, 2 Hz. Unknown are normal and two tangential forces of each finger on the
    ball: fN, along the horizontal tangent, and up. Two fingers cannot turn the ball about the line
    through their contacts: that equation is left out. Torques of three joints of each finger are
    limited, without inertia, as in the source.

    Contact layout, fingers, friction and torque limits are lost with Cheng 1989: here fingers stand
    evenly around the ball and turn with it, each with links of 50 and 40 mm that reach the ball
    from outside, slightly above its equator, so that four of them are not symmetric.

    Args:
        fingers: Number of fingers: 2 or 4.
        time: Time [s].
        sides: Sides of the friction pyramids.
        friction: Their mu'.
        torque: Limit of all torques [N m].
    """
    amplitude, rate = np.pi / 6.0, 4.0 * np.pi
    angle = amplitude * np.sin(rate * time)
    turning = -amplitude * rate * rate * np.sin(rate * time)
    inertia = 0.4 * BALL_MASS * BALL_RADIUS**2
    n = 3 * fingers
    A1 = np.zeros((6, n))
    rows: list[Array] = []
    right: list[float] = []
    spread = np.arange(fingers) * 2.0 * np.pi / fingers
    if fingers > 2:
        spread = spread + np.array([0.0, 0.15, -0.1, 0.25])
    for k, place in enumerate(spread):
        around = angle + place
        outward = np.array([np.cos(around), np.sin(around), 0.0])
        across = np.array([-np.sin(around), np.cos(around), 0.0])
        # fN pushes inward
        axes = np.array([-outward, across, [0.0, 0.0, 1.0]])
        own = slice(3 * k, 3 * k + 3)
        A1[:3, own] = axes.T
        A1[3:, own] = np.cross(BALL_RADIUS * outward, axes).T
        normal = np.eye(n)[3 * k]
        for a, b in friction_directions(sides):
            rows.append(friction * normal - a * np.eye(n)[3 * k + 1] - b * np.eye(n)[3 * k + 2])
            right.append(0.0)
        # torques by the arms of the contact about three joints of the finger
        for arms in ((0.0, 0.05, 0.0), (0.04, 0.0, 0.05), (0.03, 0.0, 0.01)):
            row = np.zeros(n)
            row[own] = arms
            rows += [row, -row]
            right += [-torque, -torque]
    load = np.array([0.0, 0.0, 9.81 * BALL_MASS, 0.0, 0.0, inertia * turning])
    if fingers == 2:
        # along the contacts, across them, up; moments across them and up
        outward = np.array([np.cos(angle), np.sin(angle), 0.0])
        across = np.array([-np.sin(angle), np.cos(angle), 0.0])
        kept = np.zeros((5, 6))
        kept[0, :3], kept[1, :3], kept[2, 2] = outward, across, 1.0
        kept[3, 3:], kept[4, 5] = across, 1.0
        A1, load = kept @ A1, kept @ load
    return Constraints(A1, load, np.array(rows), np.array(right))


def legged_walker(
    x: float,
    touching: Sequence[int] = (0, 1, 2, 3),
    weight: float = 1.0,
    friction: float = 0.5,
    sides: int = 4,
) -> Constraints:
    """Return the walker with four legs over uneven ground (E13), forces of the touching feet.

    Feet relative to the center of mass by (6.65); legs have no mass, the body does not accelerate.
    Friction is a circumscribed pyramid, mu' = 0.5; the source does not say which.

    Args:
        x: How far the center of mass has come [m].
        touching: Feet that touch, counted from 0.
        weight: Weight [N]; the source's is lost.
        friction: mu' of the pyramid.
        sides: Its sides.
    """
    feet = feet_of_walker(x)[list(touching)]
    n = 3 * len(feet)
    A1 = np.zeros((6, n))
    rows: list[Array] = []
    for k, foot in enumerate(feet):
        own = slice(3 * k, 3 * k + 3)
        A1[:3, own] = np.eye(3)
        A1[3:, own] = _skew(foot)
        normal = np.eye(n)[3 * k + 2]
        rows.append(normal)
        for a, b in friction_directions(sides):
            rows.append(friction * normal - a * np.eye(n)[3 * k] - b * np.eye(n)[3 * k + 1])
    b1 = np.array([0.0, 0.0, weight, 0.0, 0.0, 0.0])
    return Constraints(A1, b1, np.array(rows), np.zeros(len(rows)))


def feet_of_walker(x: float) -> Array:
    """Return the feet of the walker with four legs relative to its center of mass (6.65) [m]."""
    return np.array([
        [1.5 - x, -0.5, -0.7], [1.5 - x, 0.5, -1.0], [-x, -0.5, -0.6], [-x, 0.5, -0.7]
    ])  # fmt: skip


def _skew(c: Array) -> Array:
    """Return the matrix of c x."""
    return np.array([[0, -c[2], c[1]], [c[2], 0, -c[0]], [-c[1], c[0], 0]])


# -- mechanisms whose counts matter, not their dimensions ------------------------------------------


def _link(name: str, parent: str, joint: Joint, mass: float = 1.0) -> Body:
    """Return a body of some mass, away from its joint."""
    inertia = Inertia(mass, (0.1, 0.05, 0.02), (0.1, 0.0, 0.0, 0.12, 0.0, 0.15))
    return Body(name, parent, joint=joint, inertia=inertia)


def _at(point: Array) -> Pose:
    x, y, z = point.tolist()
    return Pose(translation=(x, y, z))


def arms_on_object(joint_counts: Sequence[int], tie: type[Joint]) -> Model:
    """Return serial arms with so many hinges each that hold one object; closed at neutral.

    Args:
        joint_counts: Hinges of each arm.
        tie: Joint between an arm and the object: `Fixed` for a rigid grasp, `Spherical` for a point
            with friction.
    """
    rng = np.random.default_rng(21)
    bodies = [_link("object", "world", Free("object"), 3.0)]
    loops = []
    for k, count in enumerate(joint_counts):
        parent, tip = "world", np.zeros(3)
        for i in range(count):
            axis, step = rng.standard_normal(3), rng.standard_normal(3)
            unit = axis / np.linalg.norm(axis)
            hinge = Revolute(f"a{k}_{i}", tuple(unit), pose=_at(step))
            bodies.append(_link(f"a{k}_{i}", parent, hinge))
            parent, tip = f"a{k}_{i}", tip + step
        hand = rng.standard_normal(3)
        hold = replace(tie(f"tie {k}"), pose=_at(hand))
        loops.append(LoopClosure(f"tie {k}", parent, "object", hold, _at(tip + hand)))
    return Model("arms", bodies, loops=loops)


def planar_hand(joint_counts: Sequence[int]) -> Model:
    """Return an object held by planar fingers with so many hinges each, contact included.

    Fingers stand around the object (Fig. 2.11); all hinges are parallel; closed at neutral.
    """
    bodies = [_link("object", "world", Planar("object"), 2.0)]
    loops = []
    for k, count in enumerate(joint_counts):
        angle = 2.0 * np.pi * k / len(joint_counts)
        outward = np.array([np.cos(angle), np.sin(angle), 0.0])
        across = np.array([-np.sin(angle), np.cos(angle), 0.0])
        start, end = 2.0 * outward, 0.4 * outward
        # straight from base to contact, but for a kink that keeps it from being singular
        points = [start + (end - start) * i / (count - 1) for i in range(count)]
        points = [
            p + 0.3 * across * np.sin(2.0 * i) * (0 < i < count - 1) for i, p in enumerate(points)
        ]
        parent, at = "world", np.zeros(3)
        for i in range(count - 1):
            hinge = Revolute(f"f{k}_{i}", pose=_at(points[i] - at))
            bodies.append(_link(f"f{k}_{i}", parent, hinge))
            parent, at = f"f{k}_{i}", points[i]
        contact = Revolute(f"c{k}", pose=_at(points[-1] - at))
        loops.append(LoopClosure(f"c{k}", parent, "object", contact, _at(end)))
    return Model("planar hand", bodies, loops=loops)
