"""The robots that are measured.

Geometry and masses are those of real machines where a name says so; centers of mass and inertia
tensors are drawn from a fixed seed and have no zeros, so that no side gains from a special case.
All trees are listed depth first, which Pinocchio requires.
"""

import dataclasses
from collections.abc import Callable

import numpy as np

import tiburon as tb

HALF = np.pi / 2.0
X, Y, Z = (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), (0.0, 0.0, 1.0)
Vector = tuple[float, float, float]


class _Assembly:
    """Collects bodies with seeded inertias."""

    def __init__(self, seed: int) -> None:
        self.bodies: list[tb.Body] = []
        self._rng = np.random.default_rng(seed)

    def add(self, parent: str, joint: tb.Joint, mass: float, reach: float) -> str:
        """Add a body held by `joint`, its center of mass within `reach` [m]; return its name."""
        factor = self._rng.standard_normal((3, 3))
        # a sum of squares is positive definite; the added trace keeps the triangle inequality
        square = factor @ factor.T / 3.0
        tensor = 0.01 * mass * (np.eye(3) * (1.0 + np.trace(square)) - square)
        inertia = tb.Inertia(
            mass=mass, com=self._rng.uniform(-reach, reach, 3).tolist(), tensor=tensor.tolist()
        )
        name = joint.name.replace("joint", "link")
        self.bodies.append(tb.Body(name, parent=parent, joint=joint, inertia=inertia))
        return name

    def turn(
        self, parent: str, name: str, axis: Vector, at: Vector, mass: float, reach: float = 0.05
    ) -> str:
        """Add a body on a revolute joint placed at `at` [m], axes parallel to its parent's."""
        joint = tb.Revolute(f"{name}_joint", axis=axis, pose=tb.Pose(translation=at))
        return self.add(parent, joint, mass, reach)


def panda() -> tb.Model:
    """Build an arm with the kinematics of the Franka Emika Panda, seven revolute joints.

    Placements are the maker's Denavit-Hartenberg table; masses are rounded identified values.
    """
    placements = [
        ((0.0, 0.0, 0.0), (0.0, 0.0, 0.333)),
        ((-HALF, 0.0, 0.0), (0.0, 0.0, 0.0)),
        ((HALF, 0.0, 0.0), (0.0, -0.316, 0.0)),
        ((HALF, 0.0, 0.0), (0.0825, 0.0, 0.0)),
        ((-HALF, 0.0, 0.0), (-0.0825, 0.384, 0.0)),
        ((HALF, 0.0, 0.0), (0.0, 0.0, 0.0)),
        ((HALF, 0.0, 0.0), (0.088, 0.0, 0.0)),
    ]
    masses = [4.97, 0.647, 3.229, 3.588, 1.226, 1.667, 0.736]
    assembly, parent = _Assembly(seed=1), "world"
    for number, ((rpy, at), mass) in enumerate(zip(placements, masses, strict=True), start=1):
        joint = tb.Revolute(f"joint_{number}", axis=Z, pose=tb.Pose.from_rpy(rpy, at))
        parent = assembly.add(parent, joint, mass, reach=0.1)
    return tb.Model("panda", bodies=assembly.bodies)


def quadruped() -> tb.Model:
    """Build a floating quadruped: free base, four legs of three revolute joints, 18 DoF."""
    assembly = _Assembly(seed=2)
    trunk = assembly.add("world", tb.Free("trunk_joint"), 6.9, reach=0.05)
    for front in (1, -1):
        for left in (1, -1):
            leg = f"{'front' if front > 0 else 'rear'}_{'left' if left > 0 else 'right'}"
            hip = assembly.turn(trunk, f"{leg}_hip", X, (0.19 * front, 0.05 * left, 0.0), 0.7)
            thigh = assembly.turn(hip, f"{leg}_thigh", Y, (0.0, 0.08 * left, 0.0), 1.0)
            assembly.turn(thigh, f"{leg}_calf", Y, (0.0, 0.0, -0.21), 0.2)
    return tb.Model("quadruped", bodies=assembly.bodies)


def chain(length: int) -> tb.Model:
    """Build a chain of revolute joints whose axes cycle through x, y and z.

    Args:
        length: Number of joints.
    """
    assembly, parent = _Assembly(seed=3), "world"
    for number in range(length):
        at = (0.0, 0.0, 0.2 if number else 0.0)
        parent = assembly.turn(parent, f"segment_{number}", (X, Y, Z)[number % 3], at, 1.0, 0.1)
    return tb.Model(f"chain_{length}", bodies=assembly.bodies)


def irregular_tree(size: int) -> tb.Model:
    """Build a tree in which hardly two bodies are alike.

    Random right-angled turns between joints, two offsets in five zero, half of the inertias
    diagonal, three bodies in ten start a branch.

    Args:
        size: Number of bodies.
    """
    assembly, names = _Assembly(seed=5), ["world"]
    rng = np.random.default_rng(6)
    for number in range(size):
        branches = len(names) > 3 and rng.random() < 0.3
        parent = names[int(rng.integers(1, len(names)))] if branches else names[-1]
        at = np.where(rng.random(3) < 0.4, 0.0, rng.uniform(-0.2, 0.2, 3))
        pose = tb.Pose.from_rpy(tuple(HALF * rng.integers(0, 4, 3)), tuple(at))
        joint = tb.Revolute(f"node_{number}_joint", axis=(X, Y, Z)[rng.integers(3)], pose=pose)
        names.append(assembly.add(parent, joint, 1.0, reach=0.1))
        if rng.random() < 0.5:
            plain = tb.Inertia(mass=1.0, com=(0.0, 0.0, 0.0), tensor=(0.02, 0.03, 0.04))
            assembly.bodies[-1] = dataclasses.replace(assembly.bodies[-1], inertia=plain)
    return tb.Model(f"irregular_{size}", bodies=assembly.bodies)


def humanoid() -> tb.Model:
    """Build a floating humanoid of 36 DoF: legs of six joints, arms of seven, waist, neck.

    Sizes and masses are those of a person-sized machine of about 90 kg.
    """
    assembly = _Assembly(seed=4)
    pelvis = assembly.add("world", tb.Free("pelvis_joint"), 12.0, reach=0.05)
    for side, sign in (("left", 1.0), ("right", -1.0)):
        link = assembly.turn(pelvis, f"{side}_hip_yaw", Z, (0.0, 0.085 * sign, -0.02), 2.0)
        link = assembly.turn(link, f"{side}_hip_roll", X, (0.0, 0.0, 0.0), 2.0)
        link = assembly.turn(link, f"{side}_hip_pitch", Y, (0.0, 0.0, 0.0), 6.2)
        link = assembly.turn(link, f"{side}_knee", Y, (0.0, 0.0, -0.38), 3.8)
        link = assembly.turn(link, f"{side}_ankle_pitch", Y, (0.0, 0.0, -0.33), 1.3)
        assembly.turn(link, f"{side}_ankle_roll", X, (0.0, 0.0, 0.0), 1.6)
    waist = assembly.turn(pelvis, "waist_yaw", Z, (0.0, 0.0, 0.07), 3.0)
    torso = assembly.turn(waist, "waist_pitch", Y, (0.0, 0.0, 0.0), 17.0)
    for side, sign in (("left", 1.0), ("right", -1.0)):
        link = assembly.turn(torso, f"{side}_shoulder_yaw", Z, (0.0, 0.16 * sign, 0.23), 2.7)
        link = assembly.turn(link, f"{side}_shoulder_roll", X, (0.0, 0.0, 0.0), 2.4)
        link = assembly.turn(link, f"{side}_arm_yaw", Z, (0.0, 0.02 * sign, -0.17), 2.2)
        link = assembly.turn(link, f"{side}_elbow", Y, (0.02, 0.0, -0.1), 0.9)
        link = assembly.turn(link, f"{side}_wrist_yaw", Z, (-0.02, 0.0, -0.26), 1.9)
        link = assembly.turn(link, f"{side}_wrist_pitch", Y, (0.0, 0.0, 0.0), 0.4)
        assembly.turn(link, f"{side}_wrist_roll", X, (0.0, 0.0, 0.0), 0.7)
    neck = assembly.turn(torso, "neck_yaw", Z, (0.0, 0.0, 0.31), 0.7)
    assembly.turn(neck, "neck_pitch", Y, (0.02, 0.0, 0.0), 1.4)
    return tb.Model("humanoid", bodies=assembly.bodies)


def wet_chain(length: int) -> tb.Model:
    """Build a chain of links under water, each with added mass and the drag of a cylinder.

    Args:
        length: Number of joints.
    """
    fluid = tb.BodyFluid(
        volume=1e-3,
        center_of_buoyancy=(0.0, 0.0, 0.1),
        added_mass=np.diag([0.01, 0.01, 0.002, 1.0, 1.0, 0.1]),
        drag=(tb.CylinderDrag(0.04, 0.2, axis=Z),),
    )
    dry = chain(length)
    bodies = [dataclasses.replace(body, fluid=fluid) for body in dry.bodies]
    return tb.Model(f"wet_chain_{length}", bodies=bodies)


def jansen_legs() -> tb.Model:
    """Build two of Jansen's legs on one crankshaft, free in a plane: 16 DoF, 6 loops."""
    from tiburon.zoo.jansen import leg_parts, leg_points

    machine = tb.zoo.generate("strandbeest")
    frame, crank = machine.bodies[:2]
    frame = dataclasses.replace(frame, joint=tb.Planar("base", Y))
    bodies, loops = [frame, crank], []
    for side, mirrored in (("rear", False), ("front", True)):
        parts = leg_parts(side, leg_points(0.0, mirrored), 0.0)
        bodies += parts[0]
        loops += parts[1]
    return tb.Model("jansen_legs", bodies, loops=loops)


ROBOTS: dict[str, Callable[[], tb.Model]] = {
    "panda": panda,
    "quadruped": quadruped,
    "chain_16": lambda: chain(16),
    "chain_20": lambda: chain(20),
    "chain_64": lambda: chain(64),
    "chain_256": lambda: chain(256),
    "humanoid": humanoid,
    # six joints, as the arm of the sources; its jaws would follow each other
    "tiburon_titan": lambda: tb.load("tiburon_titan").lock("jaw"),
}

LARGE: dict[str, Callable[[], tb.Model]] = {
    "chain_128": lambda: chain(128),
    "wet_chain_40": lambda: wet_chain(40),
    "jansen_legs": jansen_legs,
}
"""Robots whose compilation is measured, beside those of the zoo."""
