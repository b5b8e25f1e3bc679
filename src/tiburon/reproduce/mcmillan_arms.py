"""Arms with general parameters that hold a load, as models and as chains of `arms_on_load`."""

from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.functions.closed_loops import project_velocity
from tiburon.functions.kinematics import forward_kinematics
from tiburon.model import (
    Actuator,
    Body,
    Fixed,
    Free,
    Inertia,
    LoopClosure,
    Model,
    Plan,
    Pose,
    Revolute,
)
from tiburon.reproduce.arms_on_load import (
    ArmMessage,
    LoadMotion,
    arm_accelerations,
    arm_message,
    load_acceleration,
    open_arm,
)
from tiburon.spatial import Transform

G = np.array([0.0, 0.0, -9.81])
"""Gravity in the world [m/s^2]."""


class ArmsOnLoad(NamedTuple):
    """m arms of N joints in a moving state."""

    model: Model
    arms: tuple[Plan, ...]
    """Each arm alone, from its base."""

    bases: tuple[Array, ...]
    """Axes of each base in the world."""

    tips: tuple[Transform, ...]
    """From the last link of each arm to the load."""

    q: Array
    v: Array
    tau: Array


def _pose(matrix: Array) -> Pose:
    x, y, z = (tuple(row) for row in matrix[:3, :3].tolist())
    return Pose((x, y, z), tuple(matrix[:3, 3].tolist()))


def _turn(rng: np.random.Generator) -> Array:
    Q, R = np.linalg.qr(rng.standard_normal((3, 3)))
    Q = Q * np.sign(np.diag(R))
    return np.asarray(Q * np.linalg.det(Q))


def _arm(rng: np.random.Generator, links: int) -> Model:
    bodies: list[Body] = []
    for k in range(links):
        pose = Pose()
        if k:
            a, alpha, d = rng.uniform(0.2, 0.5), rng.uniform(0.5, 1.6), rng.uniform(-0.2, 0.2)
            pose = Pose.from_axis_angle((1.0, 0.0, 0.0), alpha, (a, 0.0, 0.0)) @ Pose(
                translation=(0.0, 0.0, d)
            )
        half = rng.standard_normal((3, 3))
        # second moments of mass: any positive definite matrix
        spread = 0.02 * (half @ half.T + np.eye(3))
        tensor = np.trace(spread) * np.eye(3) - spread
        entries = tensor[np.triu_indices(3)]
        inertia = Inertia(
            rng.uniform(1.0, 4.0), tuple(rng.uniform(-0.1, 0.1, 3).tolist()), tuple(entries)
        )
        parent = bodies[-1].name if bodies else "world"
        bodies.append(
            Body(f"link_{k}", parent, joint=Revolute(f"joint_{k}", pose=pose), inertia=inertia)
        )
    return Model("arm", bodies)


def random_arms(links: Sequence[int], seed: int = 1) -> ArmsOnLoad:
    """Return arms with general parameters in a random moving state with closed loops.

    Args:
        links: Number of links of each arm; an arm of fewer than six is always singular.
        seed: Of the random numbers.
    """
    rng = np.random.default_rng(seed)
    moments = tuple(rng.uniform(0.2, 0.3, 3))
    load = Body(
        "load",
        joint=Free("load"),
        inertia=Inertia(4.0, (0.0, 0.0, 0.0), (moments[0], 0.0, 0.0, moments[1], 0.0, moments[2])),
    )
    whole = Model("arms_on_load", [load])
    plans, bases, tips, loops = [], [], [], []
    q: list[float] = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 0.0]
    for k, count in enumerate(links):
        one = _arm(rng, count)
        angles = rng.uniform(-1.0, 1.0, count)
        # where the load is in the frame of the tip
        grasp = np.eye(4)
        grasp[:3, :3], grasp[:3, 3] = _turn(rng), rng.uniform(-0.2, 0.2, 3)
        R, p = forward_kinematics(one, angles, f"link_{count - 1}")
        tip = np.eye(4)
        tip[:3, :3], tip[:3, 3] = R, p
        # the load is at the origin of the world: the base follows
        base: Array = np.asarray(np.linalg.inv(tip @ grasp), dtype=float)
        whole = whole.attach(one, at="world", pose=_pose(base), prefix=f"arm_{k}_")
        held: Array = np.asarray(np.linalg.inv(grasp), dtype=float)
        loops.append(
            LoopClosure(
                f"grip_{k}",
                "load",
                f"arm_{k}_link_{count - 1}",
                Fixed(f"grip_{k}", pose=_pose(held)),
            )
        )
        plans.append(one.plan)
        bases.append(base[:3, :3])
        tips.append(Fixed("tip", pose=_pose(grasp)).pose.transform)
        q += angles.tolist()
    model = Model(
        "arms_on_load",
        whole.bodies,
        whole.frames,
        loops=loops,
        actuators=[Actuator(f"{j}_motor", j) for j in whole.joint_names if j != "load"],
    )
    state = np.array(q)
    v = project_velocity(model, state, rng.standard_normal(model.nv))
    tau = np.concatenate([np.zeros(6), 10.0 * rng.standard_normal(model.nv - 6)])
    return ArmsOnLoad(model, tuple(plans), tuple(bases), tuple(tips), state, v, tau)


class Block(NamedTuple):
    """The system of all arms and the load (4.3), in axes and at the origin of the load."""

    matrix: Array
    """Shape (6 m + 6, 6 m + 6)."""

    right: Array
    inverses: tuple[Array, ...]
    """Lambda_k^-1 of each arm."""

    x: tuple[Array, ...]
    """Open-chain acceleration of each arm."""

    solution: Array
    """Forces of the arms, then a' of the load; the shortest where it is not unique."""


def block_system(system: ArmsOnLoad) -> Block:
    """Return the system (4.3) and its solution by least squares."""
    inverses: list[Array] = []
    x: list[Array] = []
    start = 0
    for plan, base, tip in zip(system.arms, system.bases, system.tips, strict=True):
        n = len(plan.bodies)
        angles, rates, forces = (
            values[start + shift : start + shift + n].tolist()
            for values, shift in ((system.q, 7), (system.v, 6), (system.tau, 6))
        )
        start += n
        gx, gy, gz = (base.T @ G).tolist()
        alone = open_arm(plan, angles, rates, forces, (gx, gy, gz), tip)
        inverses.append(np.array(alone.inverse))
        x.append(np.array(alone.x))
    m, inertia = len(inverses), load_inertia(system)
    K, right = np.zeros((6 * m + 6, 6 * m + 6)), np.zeros(6 * m + 6)
    for k, (A, b) in enumerate(zip(inverses, x, strict=True)):
        own = slice(6 * k, 6 * k + 6)
        K[own, own], right[own] = A, b
        K[own, -6:] = K[-6:, own] = np.eye(6)
    K[-6:, -6:] = -inertia
    w = system.v[:3]
    right[-6:-3] = np.cross(w, inertia[:3, :3] @ w)
    solution = np.asarray(np.linalg.lstsq(K, right, rcond=1e-12)[0], dtype=float)
    return Block(K, right, tuple(inverses), tuple(x), solution)


def load_inertia(system: ArmsOnLoad) -> Array:
    """Return the diagonal inertia of the load at its mass center, shape (6, 6)."""
    body = system.model.body("load").inertia
    return np.diag([*(body.tensor[k] for k in (0, 3, 5)), *[body.mass] * 3])


class Table1(NamedTuple):
    """Accelerations by the steps of Table 1."""

    messages: tuple[ArmMessage, ...]
    a_prime: Array
    """a' of the load, in its axes."""

    a: Array
    """Its classical acceleration: a' plus gravity."""

    vd: tuple[Array, ...]
    """Joint accelerations of each arm."""

    forces: tuple[Array, ...]
    """Force and moment of each arm on the load, at its origin, in its axes."""


def table_1(system: ArmsOnLoad) -> Table1:
    """Compute the accelerations arm by arm; the load's axes are those of the world."""
    q, v, tau = system.q, system.v, system.tau
    messages, kept, start = [], [], 0
    for plan, base, tip in zip(system.arms, system.bases, system.tips, strict=True):
        n = len(plan.bodies)
        angles, rates, forces = (
            x[start + shift : start + shift + n].tolist() for x, shift in ((q, 7), (v, 6), (tau, 6))
        )
        start += n
        x, y, z = (base.T @ G).tolist()
        message, keep = arm_message(plan, angles, rates, forces, (x, y, z), tip)
        messages.append(message)
        kept.append(keep)
    diagonal = np.diag(load_inertia(system)).tolist()
    load = LoadMotion(diagonal[:3], diagonal[3], v[:3].tolist(), G.tolist())
    a_prime = np.array(load_acceleration(load, messages))
    results = [arm_accelerations(keep, a_prime.tolist()) for keep in kept]
    a = a_prime + np.concatenate([np.zeros(3), G])
    return Table1(
        tuple(messages),
        a_prime,
        a,
        tuple(np.array(vd) for vd, _ in results),
        tuple(np.array(f) for _, f in results),
    )
