"""Problems of Nahon 1991: robots and plans, matrices that the source prints, and mechanisms.

Where a figure or a matrix of the source is lost, the function says what stands for it.
"""

from collections.abc import Mapping, Sequence
from dataclasses import replace
from functools import cache
from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.formats.load import load as load_model
from tiburon.functions.load_sharing import GripLimit, LoadProblem, LoadSharing
from tiburon.load_sharing.objectives.contact_force import InternalForce
from tiburon.load_sharing.sites import ContactSite
from tiburon.model import Actuator, Body, Free, Inertia, LoopClosure, Model, Pose, Revolute
from tiburon.model.composition import changed
from tiburon.model.joints import Joint, Planar, Spherical
from tiburon.reproduce.load_motion import JointMotion, followed

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


def with_inertias(model: Model, inertias: Mapping[str, Inertia]) -> Model:
    """Return a robot with other inertias of some bodies, by name."""
    bodies = tuple(
        changed(body, inertia=inertias.get(body.name, body.inertia)) for body in model.bodies
    )
    return model._changed(model._parts._replace(bodies=bodies), None)


def weightless(model: Model, keep: str, com: tuple[float, float, float] | None = None) -> Model:
    """Return a robot whose links weigh nothing beside one body.

    The source neglects legs and fingers. Joints need some inertia: 1e-12 of their own.

    Args:
        model: The robot.
        keep: Name of the body that keeps its mass.
        com: Another center of mass of that body, in its axes [m].
    """
    inertias = {}
    for body in model.bodies:
        own = body.inertia
        xx, xy, xz, yy, yz, zz = (1e-12 * x for x in own.tensor)
        inertias[body.name] = Inertia(1e-12 * own.mass, own.com, (xx, xy, xz, yy, yz, zz))
    own = model.body(keep).inertia
    inertias[keep] = Inertia(own.mass, own.com if com is None else com, own.tensor)
    return with_inertias(model, inertias)


def loaded_walker(load: float) -> Model:
    """Return the zoo's planar walker without weight of its legs, under 1000 N (E5).

    Args:
        load: Place of the load along the body [m].
    """
    return weightless(load_model("planar_walker"), "body", (load, 0.0, 0.0))


@cache
def soft_grasp() -> LoadSharing:
    """Return the grasp of Kerr and Roth as the zoo has it, fingers without weight (E9)."""
    hand = weightless(load_model("kerr_roth_grasp"), "object")
    grips = [GripLimit(f"contact_{k}", (0.0, 0.0, 1.0), 0.25, torsion=0.5) for k in (1, 2)]
    # (6.13): newtons and newton metres count the same
    return LoadSharing.of(
        hand, grips=grips, sides=4, inscribed=False, objective=InternalForce(length=1.0)
    )


def without_pushing(problem: LoadProblem) -> Constraints:
    """Return the constraints of one case, fN >= 0 and empty equations left out.

    Friction pyramids imply fN >= 0, which the source does not count in chapter 6.1. A moment that
    no contact can transmit is an equation without unknowns.
    """
    names = problem.plan.limit_names
    rows = [k for k, name in enumerate(names) if not name.endswith(": pushes")]
    size = float(np.abs(problem.A1).max())
    kept = np.abs(problem.A1).max(axis=1) > 1e-12 * size
    return Constraints(problem.A1[kept], problem.b1[kept], problem.A2[rows], problem.b2[rows])


BALL_MASS, BALL_RADIUS = 0.91, 0.0255
"""Of the ball that the DIGITS hand turns [kg, m]; the source gives 51 mm as its diameter."""


_NOTHING = Inertia(1e-12, (0.0, 0.0, 0.0), (1e-15, 0.0, 0.0, 1e-15, 0.0, 1e-15))
"""Of a link without weight."""


@cache
def ball_hand(fingers: int) -> Model:
    """Return a ball in two or four hard fingers of three joints each (E10).

    Contact layout, fingers, friction and torque limits are lost with Cheng 1989. Here fingers stand
    around the ball, four of them not evenly, so that they are not symmetric. Each has a vertical
    joint and two across, links of 50 and 40 mm without weight, which bend upward and reach the
    ball's equator from below; motors of 1 N m.

    Args:
        fingers: Number of fingers: 2 or 4.
    """
    moment = 0.4 * BALL_MASS * BALL_RADIUS**2
    ball = Inertia(BALL_MASS, (0.0, 0.0, 0.0), (moment, 0.0, 0.0, moment, 0.0, moment))
    bodies, loops, motors = [Body("ball", joint=Free("ball"), inertia=ball)], [], []
    spread = np.arange(fingers) * 2.0 * np.pi / fingers
    if fingers > 2:
        spread = spread + np.array([0.0, 0.15, -0.1, 0.25])
    for k, angle in enumerate(spread):
        outward = np.array([np.cos(angle), np.sin(angle), 0.0])
        across = np.array([-np.sin(angle), np.cos(angle), 0.0])
        tip = BALL_RADIUS * outward
        base = tip + 0.06 * outward - np.array([0.0, 0.0, 0.04])
        reach = float(np.linalg.norm(tip - base))
        along = (tip - base) / reach
        part = (reach**2 + 0.05**2 - 0.04**2) / (2.0 * reach)
        height = float(np.sqrt(0.05**2 - part**2))
        elbow = base + part * along + height * np.cross(along, across)
        axes = ((0.0, 0.0, 1.0), tuple(across), tuple(across))
        places = (base, np.zeros(3), elbow - base)
        parent = "world"
        for name, axis, place in zip(("yaw", "pitch", "knuckle"), axes, places, strict=True):
            joint = f"finger_{k}_{name}"
            hinge = Revolute(joint, axis, pose=_at(place))
            bodies.append(Body(joint, parent, joint=hinge, inertia=_NOTHING))
            motors.append(Actuator(joint, joint, force_limits=(-1.0, 1.0)))
            parent = joint
        contact = Spherical(f"contact_{k}", pose=_at(tip))
        loops.append(LoopClosure(contact.name, "ball", parent, contact, _at(tip - elbow)))
    return Model("hand with a ball", bodies, loops=loops, actuators=motors)


@cache
def ball_plan(fingers: int, sides: int = 4) -> LoadSharing:
    """Return how the fingers share the load of the ball, mu' = 0.5; newtons count alone."""
    hand = ball_hand(fingers)
    grips = []
    for loop in hand.loops:
        assert isinstance(loop, LoopClosure)
        x, y, z = (float(c) / BALL_RADIUS for c in loop.joint.pose.translation)
        grips.append(GripLimit(loop.name, (x, y, z), 0.5))
    return LoadSharing.of(
        hand,
        grips=grips,
        sides=sides,
        inscribed=False,
        objective=InternalForce(length=1.0),
        # two fingers transmit no moment about the line through their contacts
        relax=[["ball.wx"]] if fingers == 2 else False,
    )


def ball_motion(fingers: int, times: Sequence[float] | Array) -> JointMotion:
    """Return the motion of hand and ball, turned about the vertical by 30 degrees at 2 Hz."""
    hand, amplitude, rate = ball_hand(fingers), np.pi / 6.0, 4.0 * np.pi
    turning = np.array([0.0, 0.0, amplitude * rate, 0.0, 0.0, 0.0])
    way = []
    for t in times:
        half, s, c = 0.5 * amplitude * np.sin(rate * t), np.sin(rate * t), np.cos(rate * t)
        pose = (np.cos(half), 0.0, 0.0, np.sin(half), 0.0, 0.0, 0.0)
        way.append((pose, c * turning, -rate * s * turning))
    return followed(hand, np.array(hand.neutral()), "ball", way)


def grasped_ball(fingers: int, time: float, sides: int = 4) -> Constraints:
    """Return the constraints of the ball at a time [s], friction as pyramids of so many sides."""
    q, v, vd = (x[-1] for x in ball_motion(fingers, np.linspace(0.0, time, 5)))
    return without_pushing(ball_plan(fingers, sides).problem(q, v, vd))


@cache
def walker_plan() -> LoadSharing:
    """Return how the zoo's walker with four legs shares its weight of 1000 N (E13).

    Legs without weight; feet on the ground at (6.65). Friction is a circumscribed pyramid, mu' =
    0.5; the source does not say which, and its weight is lost.
    """
    walker = weightless(load_model("four_legged_walker"), "body")
    feet = [
        ContactSite(
            f"foot_{k + 1}", "world", 0.5, f"leg_{k + 1}_shank", tuple(place), (0.0, 0.0, 1.0)
        )
        for k, place in enumerate(feet_of_walker(0.0).tolist())
    ]
    return LoadSharing.of(
        walker,
        sites=feet,
        sides=4,
        inscribed=False,
        torque_limits=False,
        objective=InternalForce(length=1.0),
    )


def walker_pose(x: float) -> Array:
    """Return the configuration of that walker whose center of mass has come so far [m]."""
    model = walker_plan().model
    q = np.array(model.neutral())
    q[model.slice("base")] = (1.0, 0.0, 0.0, 0.0, x, 0.0, 0.0)
    for k, foot in enumerate(feet_of_walker(x), start=1):
        hip = sum(
            np.array(model.joint(f"leg_{k}_{name}").pose.translation) for name in ("roll", "pitch")
        )
        forward, _, up = foot - hip
        distance = np.hypot(forward, up)
        # thigh and shank of 0.6 m
        bend = np.arccos(distance / 1.2)
        q[model.slice(f"leg_{k}_pitch")] = bend - np.arcsin(forward / distance)
        q[model.slice(f"leg_{k}_knee")] = -2.0 * bend
    return q


def feet_of_walker(x: float) -> Array:
    """Return the feet of the walker with four legs relative to its center of mass (6.65) [m]."""
    return np.array([
        [1.5 - x, -0.5, -0.7], [1.5 - x, 0.5, -1.0], [-x, -0.5, -0.6], [-x, 0.5, -0.7]
    ])  # fmt: skip


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
