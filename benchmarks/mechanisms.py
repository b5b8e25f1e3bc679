"""Closed mechanisms of any size, and states in which their loops are closed."""

from dataclasses import replace

import numpy as np

import tiburon as tb

ROD = tb.Inertia(1.0, (0.5, 0.0, 0.0), (5e-5, 0.0, 0.0, 1.0 / 12.0, 0.0, 1.0 / 12.0))
"""A uniform thin rod of 1 m and 1 kg along x, from one end."""

UPRIGHT = ((1.0, 0.0, 0.0), (0.0, 0.0, -1.0), (0.0, 1.0, 0.0))
"""Turns the plane of a mechanism, x and y, upright."""


def depth_first(model: tb.Model) -> tb.Model:
    """List the bodies of a robot depth first, as Pinocchio's sparse factorization needs them.

    Args:
        model: A robot with poses; they keep their meaning.
    """
    order: list[tb.Body] = []

    def take(parent: str) -> None:
        for body in model.bodies:
            if body.parent == parent:
                order.append(body)
                take(body.name)

    take("world")
    poses = {
        name: np.concatenate(
            [np.asarray(q)[model.slice(body.joint.name, of="q")] for body in order if body.joint.nq]
        )
        for name, q in model.poses.items()
    }
    return tb.Model(model.name, order, loops=model.loops, frames=model.frames, poses=poses)


def closed_state(model: tb.Model, seed: int = 5) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Draw a moving state that keeps loops closed, and joint forces.

    Args:
        model: A robot with loops; its pose "home", or else all joints at zero, nearly closes them.
        seed: Of the draw.

    Returns:
        Position, shape (nq,); velocity and joint force, shape (nv,) each; all in SI units.
    """
    rng = np.random.default_rng(seed)
    start = model.poses.get("home", model.neutral())
    near = model.integrate(start, 0.05 * rng.standard_normal(model.nv))
    q = tb.project_configuration(model, near).q
    v = tb.project_velocity(model, q, rng.standard_normal(model.nv))
    return q, v, rng.standard_normal(model.nv)


def four_bar_state(count: int, angle: float = 0.3) -> tuple[np.ndarray, np.ndarray]:
    """Return a moving state of a row of four-bars that keeps all loops closed.

    Args:
        count: Number of four-bars.
        angle: How far uprights lean; couplers stay level [rad].

    Returns:
        Position [rad] and velocity [rad/s], shape (2 count + 1,) each.
    """
    leaning = np.concatenate([np.ones(count + 1), -np.ones(count)])
    return angle * leaning, 0.8 * leaning


def ring(links: int) -> tb.Model:
    """Build a chain that hangs on a pin at each end: one loop, however many links.

    Args:
        links: Number of links.
    """
    hinge, tip = (0.0, 0.0, 1.0), tb.Pose(translation=(1.0, 0.0, 0.0))
    bodies = []
    for k in range(links):
        parent, pose = ("world", tb.Pose(UPRIGHT)) if k == 0 else (f"link_{k - 1}", tip)
        joint = tb.Revolute(f"joint_{k}", hinge, pose=pose)
        bodies.append(tb.Body(f"link_{k}", parent=parent, joint=joint, inertia=ROD))
    pin = tb.Revolute("last_pin", hinge, pose=tip)
    ground = tb.Pose(UPRIGHT, (0.4 * links, 0.0, 0.0))
    loop = tb.LoopClosure("last_pin", f"link_{links - 1}", "world", pin, ground)
    return tb.Model(f"ring_{links}", bodies, loops=[loop])


ARM_POSE = (0.2, -0.9, 0.6, 0.3, 0.7, -0.2)
"""Joint positions of each arm that holds a load [rad]."""


def arms_on_load(count: int) -> tuple[tb.Model, np.ndarray]:
    """Return PUMA 560 arms in a circle that hold one load rigidly, and a closed configuration."""
    puma = tb.load("puma560")
    inertia = tb.Inertia(10.0, (0.0, 0.0, 0.0), (0.4, 0.0, 0.0, 0.5, 0.0, 0.6))
    bodies = [tb.Body("load", joint=tb.Free("load"), inertia=inertia)]
    for k in range(count):
        turn = 2.0 * np.pi * k / count
        at = (1.1 * np.cos(turn), 1.1 * np.sin(turn), 0.0)
        stand = tb.Pose.from_rpy((0.0, 0.0, turn + np.pi), at)
        for body in puma.bodies:
            joint, on_world = body.joint, body.parent == "world"
            pose = stand @ joint.pose if on_world else joint.pose
            bodies.append(
                replace(
                    body,
                    name=f"arm_{k + 1}_{body.name}",
                    parent="world" if on_world else f"arm_{k + 1}_{body.parent}",
                    joint=replace(joint, name=f"arm_{k + 1}_{joint.name}", pose=pose),
                )
            )
    tree = tb.Model(f"{count} arms on a load", bodies)
    center = np.array([0.0, 0.0, 0.3])
    q = np.array([1.0, 0.0, 0.0, 0.0, *center, *ARM_POSE * count])
    grips = []
    for k in range(count):
        tip = f"arm_{k + 1}_{puma.bodies[-1].name}"
        rotation, position = tb.forward_kinematics(tree, q, tip)
        weld = tb.Fixed(f"grip_{k + 1}", pose=tb.Pose(rotation, position - center))
        grips.append(tb.LoopClosure(weld.name, "load", tip, weld))
    return tb.Model(tree.name, bodies, loops=grips, poses={"home": q}), q


def robot_with_bar() -> tb.Model:
    """Return the underwater robot with two arms that hold a bar rigidly."""
    robot = tb.load("two_arm_rov")
    inertia = tb.Inertia(8.0, (0.0, 0.0, 0.0), (0.02, 0.0, 0.0, 0.9, 0.0, 0.9))
    added = np.diag([0.01, 0.2, 0.2, 0.5, 3.0, 3.0])
    fluid = tb.BodyFluid(volume=3e-3, added_mass=added)
    bar = tb.Body("bar", joint=tb.Free("bar"), inertia=inertia, fluid=fluid)
    tree = tb.Model("two_arm_rov with a bar", [*robot.bodies, bar])
    q = tree.integrate(tree.neutral(), 0.4 * np.random.default_rng(0).standard_normal(tree.nv))
    held, at = tb.forward_kinematics(tree, q, "bar")
    grips = []
    for side in ("left", "right"):
        rotation, position = tb.forward_kinematics(tree, q, f"{side}_gripper")
        weld = tb.Fixed(f"{side}_grip", pose=tb.Pose(held.T @ rotation, held.T @ (position - at)))
        grips.append(tb.LoopClosure(weld.name, "bar", f"{side}_gripper", weld))
    return tb.Model(tree.name, tree.bodies, loops=grips, poses={"home": q})
