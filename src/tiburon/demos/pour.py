"""A hand picks up a glass and pours: forces are shared among three fingers at every sample."""

from dataclasses import replace
from typing import Any

import numpy as np

import tiburon as tb
from tiburon.demos.demo import Demonstration, contact_facts, contact_figure
from tiburon.demos.glass import FRICTION, TIPS, with_fingertips
from tiburon.model import Model

HEIGHT = 0.2
"""By which the glass is lifted in the first second [m] (Nahon 1991, section 6.2.1)."""

ANGLE = np.pi / 2.0
"""By which it is tilted in the second one [rad]."""

DURATION = 2.4
"""Simulated time [s]."""

FRICTION_RATIO = 0.8
"""Friction of the glass in the run, relative to what the controller plans with."""

MIN_NORMAL_FORCE = 0.5
"""Normal force of each finger at least [N]."""

DROP_TIME = 0.1
"""Time in which a glass is lost that is held without reserve [s]."""

FRICTION_RESERVE = 0.25
"""Share of the planned friction that the controller keeps in reserve."""


def hand_on_a_wrist() -> tuple[Model, Any]:
    """Return the hand of the zoo on a wrist that lifts and tilts, and its grasp.

    Fingertips are balls that touch the glass; loops of the zoo's hand are left out.

    Returns:
        The robot, and the configuration in which all fingertips touch.
    """
    hand = tb.load("three_finger_hand")
    center = hand.body("glass").joint.pose.translation
    carriage = tb.Body(
        "carriage",
        joint=tb.Prismatic("lift", (0.0, 0.0, 1.0)),
        inertia=tb.Inertia.cylinder(0.3, 0.03, 0.05),
    )
    palm = tb.Body(
        "palm",
        "carriage",
        joint=tb.Revolute("tilt", (0.0, 1.0, 0.0), pose=tb.Pose(translation=center)),
        inertia=tb.Inertia.cylinder(0.5, 0.09, 0.02),
        shapes=(
            tb.Shape(
                tb.CylinderShape(0.095, 0.012),
                pose=tb.Pose(translation=(0.0, 0.0, 0.03 - center[2])),
                role="visual",
                color=(0.5, 0.52, 0.55, 0.6),
            ),
        ),
    )
    bodies = [carriage, palm]
    for body in with_fingertips(hand):
        if body.parent == "world" and body.name != "glass":
            shift = body.joint.pose
            place = tb.Pose(shift.rotation, tuple(np.subtract(shift.translation, center)))
            body = replace(body, parent="palm", joint=replace(body.joint, pose=place))
        bodies.append(body)
    robot = tb.Model("three_finger_hand", bodies, actuators=hand.actuators, about=hand.about)
    start = robot.neutral()
    start[2:] = hand.poses["home"]
    return robot, grasp(robot, start)


def grasp(robot: Model, q: Any) -> Any:
    """Return the configuration in which second joints have closed until fingertips touch."""
    q = np.array(q, dtype=np.float64)
    pairs = [(tip, "glass") for tip in TIPS]
    joints = [robot.slice(f"finger_{k}_joint_2").start for k in (1, 2, 3)]

    def gaps(turn: Any) -> Any:
        moved = q.copy()
        moved[joints] += turn
        return np.asarray(tb.contacts(robot, moved, pairs=pairs).gap)

    turn = np.zeros(3)
    for _ in range(30):
        here = gaps(turn)
        slope = (gaps(turn + 1e-6) - here) / 1e-6
        turn = turn - here / slope
        if np.abs(here).max() < 1e-13:
            break
    q[joints] += turn
    return q


def pour(
    lower: float = FRICTION_RATIO,
    reserve: float = FRICTION_RESERVE,
    duration: float = DURATION,
    **options: Any,
) -> Any:
    """Let the hand lift and tilt the glass; return the run.

    Args:
        lower: Friction in the run relative to the planned one.
        reserve: Share of the planned friction that is not used.
        duration: Simulated time [s].
        options: Further arguments of `simulate`.
    """
    robot, start = hand_on_a_wrist()
    pairs = [(tip, "glass") for tip in TIPS]
    driven = ["lift", "tilt", *(actuator.joint for actuator in robot.actuators)]
    least = tb.NormalForceLimit({f"{tip}/glass": (MIN_NORMAL_FORCE, np.inf) for tip in TIPS})
    plan = tb.LoadSharing.of(robot, pairs=pairs, driven=driven, friction=FRICTION, limits=[least])
    _, center = tb.forward_kinematics(robot, start, "glass")
    up = center + np.array([0.0, 0.0, HEIGHT])
    half = 0.5 * ANGLE
    upright, tilted = (1.0, 0.0, 0.0, 0.0), (np.cos(half), 0.0, np.sin(half), 0.0)
    path = tb.MotionPath(
        tuple(start),
        bodies={
            "glass": tb.CartesianPath.through(
                [0.1, 1.1, 2.1], [center, up, up], [upright, upright, tilted], stops=True
            )
        },
        joints=tb.JointPath.through(
            [0.1, 1.1, 2.1],
            [(0.0, 0.0), (HEIGHT, 0.0), (HEIGHT, ANGLE)],
            kind="quintic",
            stops=True,
            joints=["lift", "tilt"],
        ),
    )
    control = tb.LoadSharingControl(plan, path, friction_reserve=reserve)
    slippery = _with_friction(robot, lower * FRICTION)
    return tb.simulate(
        slippery,
        duration,
        q=start,
        control=control,
        contact=tb.DefaultContact(pairs=pairs),
        execution=tb.Execution(progress=False),
        **options,
    )


def _with_friction(robot: Model, friction: float) -> Model:
    """Return the robot with other friction of glass and fingertips."""
    skin = tb.ContactMaterial(static_friction=friction)
    bodies = []
    for body in robot.bodies:
        shapes = tuple(
            shape if shape.material is None else replace(shape, material=skin)
            for shape in body.shapes
        )
        bodies.append(replace(body, shapes=shapes))
    return tb.Model(robot.name, bodies, actuators=robot.actuators, about=robot.about)


def slip_of(run: Any) -> float:
    """Return the longest way of a fingertip over the glass [m]."""
    speed = np.linalg.norm(run.get("contact_slip").values, axis=-1)
    steps = np.diff(run.time, prepend=run.time[0])
    return float((speed * steps[:, None]).sum(axis=0).max())


def pick_and_pour(duration: float | None = None) -> Demonstration:
    """Let the hand pick up the glass and pour.

    Args:
        duration: Simulated time [s]; 2.4 by default.
    """
    run = pour(duration=DURATION if duration is None else duration, record=tb.Record(every=1))
    bare = pour(reserve=0.0, duration=DROP_TIME, record=tb.Record(every=1))
    force = np.linalg.norm(run.get("contact_force").values, axis=-1)[1:]
    fingers = [k for k, name in enumerate(run.model.v_names) if name.startswith("finger")]
    torque = float(np.abs(run.u[:, fingers]).max())
    title = "A hand picks up a glass and pours"
    facts = (
        f"lifts a glass of 0.4 kg by {1e3 * run.q[-1, -1]:.0f} mm and tilts it by "
        f"{np.degrees(run.q[-1, 1]):.0f} degrees",
        f"friction is {FRICTION * FRICTION_RATIO:g} where {FRICTION:g} was planned; "
        f"{100 * FRICTION_RESERVE:.0f} % are kept in reserve, and no finger slips by more than "
        f"{slip_of(run):.0e} m",
        f"without reserve the glass slips by {1e3 * slip_of(bare):.1f} mm in {DROP_TIME:g} s, "
        "and is lost",
        f"fingers press with {force.min():.2f} to {force.max():.2f} N; torques reach {torque:.2f} "
        "of 0.25 N m",
        *contact_facts(run, TIPS)[2:],
    )
    return Demonstration(run, facts, {"contacts.png": contact_figure(run, TIPS, title)}, title)
