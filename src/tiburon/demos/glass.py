"""A hand of three fingers lifts a glass, holds it, sets it down and releases it."""

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

import tiburon as tb
from tiburon.demos.demo import Demonstration, contact_facts, contact_figure
from tiburon.model import Model

TIPS = ("finger_1_tip", "finger_2_tip", "finger_3_tip")
PAD = 0.006
"""Radius of the fingertips [m]."""

FRICTION = 0.5
"""Between fingertips and glass, and glass and table (Nahon 1991)."""

OPEN = 0.45
"""How far the second joints open before and after the grasp [rad]."""

GRIP_TORQUE = 0.16
"""Of the second joint of each finger, within its limit of 0.25 N m [N m]."""

HEIGHT = 0.1
"""By which the glass is lifted [m]."""

GRASP, LIFT, HOLD, LOWER, RELEASE = 0.3, 0.8, 2.0, 3.0, 4.2
"""Times at which fingers close, the hand rises, has risen, sinks again, and fingers open [s]."""

DURATION = 5.0
"""Simulated time [s]."""


def hand_over_a_glass() -> tuple[Model, tb.World, Any]:
    """Return the hand of the zoo on a lift, without its loops, with round fingertips and a table.

    Returns:
        The robot, its world, and the configuration with open fingers.
    """
    hand = tb.load("three_finger_hand")
    palm = tb.Body(
        "palm",
        joint=tb.Prismatic("lift", (0.0, 0.0, 1.0)),
        inertia=tb.Inertia.cylinder(0.5, 0.09, 0.02),
        shapes=(
            tb.Shape(
                tb.CylinderShape(0.095, 0.012),
                pose=tb.Pose(translation=(0.0, 0.0, 0.03)),
                role="visual",
                color=(0.5, 0.52, 0.55, 0.6),
            ),
        ),
    )
    bodies = [palm]
    for body in with_fingertips(hand):
        on_palm = body.parent == "world" and body.name != "glass"
        bodies.append(replace(body, parent="palm") if on_palm else body)
    robot = tb.Model("three_finger_hand", bodies, actuators=hand.actuators, about=hand.about)
    start = robot.neutral()
    start[1:] = hand.poses["home"]
    for finger in (1, 2, 3):
        start[robot.slice(f"finger_{finger}_joint_2").start] += OPEN
    # the glass stands on a table
    table = tb.World(ground=tb.Ground(height=-0.09, static_friction=FRICTION))
    return robot, table, start


def with_fingertips(hand: Model) -> list[tb.Body]:
    """Return the bodies of the hand with soft pads, which alone touch the glass."""
    skin = tb.ContactMaterial(static_friction=FRICTION)
    # pads end where the ball joints of the hand's loops would hold the glass
    place = tb.Pose(translation=(0.025 - PAD, 0.0, 0.0))
    color = (0.2, 0.2, 0.22, 1.0)
    pad = tb.Shape(tb.SphereShape(PAD), pose=place, color=color, material=skin)
    bodies = []
    for body in hand.bodies:
        shapes = tuple(replace(shape, role="visual") for shape in body.shapes)
        if body.name == "glass":
            shapes = tuple(replace(shape, material=skin) for shape in body.shapes)
        elif body.name in TIPS:
            shapes = (*shapes, pad)
        bodies.append(replace(body, shapes=shapes))
    return bodies


def grasp_control(robot: Model, start: Any) -> Callable[[Any], Any]:
    """Return the controller of lift and fingers."""
    weight = 9.81 * robot.total_mass
    fingers = [actuator.joint for actuator in robot.actuators]
    at_q = [robot.slice(joint).start for joint in fingers]
    at_v = [robot.slice(joint, of="v").start for joint in fingers]

    @tb.traced
    def control(state: Any) -> Any:
        t = state.time
        up = _eased((t - LIFT) / (HOLD - LIFT)) - 0.95 * _eased((t - LOWER) / 1.0)
        closed = _eased((t - GRASP) / 0.3) - _eased((t - RELEASE) / 0.15)
        forces: list[Any] = [0.0] * robot.nv
        forces[0] = weight + 3000.0 * (HEIGHT * up - state.q[0]) - 150.0 * state.v[0]
        for joint, i, j in zip(fingers, at_q, at_v, strict=True):
            held = joint.endswith("joint_2")
            # second joints close beyond the glass, with bounded torque; the others hold
            wanted = float(start[i]) + (-2.0 * OPEN * closed if held else 0.0)
            torque = 4.0 * (wanted - state.q[i]) - 0.012 * state.v[j]
            most = GRIP_TORQUE if held else 0.25
            forces[j] = np.clip(torque, -most, most)
        return forces

    found: Callable[[Any], Any] = control
    return found


def _eased(share: Any) -> Any:
    """Return a smooth step from 0 to 1."""
    s = np.clip(share, 0.0, 1.0)
    return s * s * (3.0 - 2.0 * s)


def hand(duration: float | None = None) -> Demonstration:
    """Let the hand lift the glass and release it.

    Args:
        duration: Simulated time [s]; 5 by default, until the glass stands again.
    """
    robot, table, start = hand_over_a_glass()
    tips = [f"finger_{k}_tip" for k in (1, 2, 3)]
    pairs = [*((tip, "glass") for tip in tips), ("glass", "world")]
    run = tb.simulate(
        robot,
        DURATION if duration is None else duration,
        q=start,
        world=table,
        control=grasp_control(robot, start),
        contact=tb.DefaultContact(pairs=pairs),
        execution=tb.Execution(progress=False),
    )
    height = run.q[:, -1]
    held = (run.time >= HOLD) & (run.time <= LOWER)
    slip = run.get("contact_slip")
    touching = [name for name in slip.contact.values.tolist() if name.startswith("finger")]
    speed = np.linalg.norm(slip.sel(contact=touching).values, axis=-1)[held]
    creep = float(speed.mean(axis=0).max() * (LOWER - HOLD)) if held.any() else 0.0
    end = run.q[-1]
    tilt = np.degrees(2.0 * np.arcsin(min(1.0, float(np.hypot(end[-6], end[-5])))))
    title = "A hand lifts and releases a glass"
    groups = [*(f"{tip}/" for tip in tips), "glass/ground"]
    facts = (
        f"lifted a glass of 0.4 kg by {1e3 * height.max():.1f} mm",
        f"held for {LOWER - HOLD:g} s, it slips by {creep:.1e} m in the fingers",
        f"at the end it stands at {1e3 * height[-1]:.3f} mm, tilted by {tilt:.1e} degrees",
        *contact_facts(run, groups),
    )
    return Demonstration(run, facts, {"contacts.png": contact_figure(run, groups, title)}, title)
