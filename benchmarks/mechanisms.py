"""Closed mechanisms of any size, and states in which their loops are closed."""

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
