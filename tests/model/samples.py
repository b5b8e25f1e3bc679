"""Robots and numbers the model tests share."""

import numpy as np

from tiburon.model import Body, Fixed, Frame, Free, Inertia, Model, Pose, Prismatic, Revolute
from tiburon.model.joints import Cylindrical, Planar, RollingSphere, Screw, Spherical, Universal
from tiburon.model.plan import INERTIAL_PARAMETERS

GENERAL = ("screw", "cylindrical", "universal", "spherical", "planar", "rolling sphere")
"""Joint kinds beyond hinge, slide, float and weld."""

ROUNDING = 1e-12
"""A few dozen operations on numbers near 1: about 1e-15, with room for ill-scaled inertias."""


def skew(a):
    """Return the matrix of a x."""
    return np.cross(np.eye(3), a)


def turn(phi):
    """Return exp([phi x]) by its power series: slow, obvious, good to 1e-14 for angles below 4."""
    total = term = np.eye(3)
    for n in range(1, 50):
        term = term @ skew(phi) / n
        total = total + term
    return total


def random_pose(rng):
    return Pose.from_quaternion(rng.standard_normal(4), rng.uniform(-1.0, 1.0, 3))


def random_inertia(rng):
    """Return the inertia of a solid box, turned at random."""
    box = Inertia.box(float(rng.uniform(0.5, 3.0)), rng.uniform(0.1, 0.6, 3))
    R = np.array(random_pose(rng).rotation)
    return Inertia(box.mass, rng.uniform(-0.3, 0.3, 3), R @ box.matrix @ R.T)


def random_axis(rng):
    axis = rng.standard_normal(3)
    return axis / np.linalg.norm(axis)


def random_joint(rng, name, kinds=("revolute", "prismatic", "free", "fixed")):
    kind = kinds[int(rng.integers(len(kinds)))]
    pose = random_pose(rng)
    if kind == "free":
        return Free(name, pose=pose)
    if kind == "fixed":
        return Fixed(name, pose=pose)
    axis = random_axis(rng)
    if rng.random() < 0.5:
        axis = np.eye(3)[int(rng.integers(3))] * rng.choice([-1.0, 1.0])
    if kind in GENERAL:
        return general_joint(rng, kind, name, axis, pose)
    # offsets with and without whole quarter turns take different paths
    offset = float(rng.choice([0.0, 0.7, np.pi / 2, -np.pi, 0.3 + 3 * np.pi / 2]))
    kind_class = Revolute if kind == "revolute" else Prismatic
    return kind_class(name, axis, offset, pose=pose)


def general_joint(rng, kind, name, axis, pose):
    """Return a joint of one of the `GENERAL` kinds about an axis."""
    if kind == "screw":
        pitch, lead = rng.uniform(-0.5, 0.5, 2)
        return Screw(name, axis, float(rng.uniform(-1, 1)), pitch=pitch, lead=lead, pose=pose)
    if kind == "cylindrical":
        return Cylindrical(name, axis, pose=pose)
    if kind == "universal":
        # any second axis that is not nearly the first
        second = np.cross(axis, random_axis(rng))
        second = second / np.linalg.norm(second) + float(rng.uniform(-0.5, 0.5)) * np.array(axis)
        return Universal(name, axis, second / np.linalg.norm(second), pose=pose)
    if kind == "planar":
        return Planar(name, axis, pose=pose)
    if kind == "spherical":
        return Spherical(name, pose=pose)
    return RollingSphere(name, float(rng.uniform(0.1, 0.5)), pose=pose)


def random_tree(seed, count=8, kinds=("revolute", "prismatic", "free", "fixed")):
    """Return a random tree of all joint kinds with random placements and inertias."""
    rng = np.random.default_rng(seed)
    bodies = []
    for i in range(count):
        parent = "world" if i == 0 else str(rng.choice([*(b.name for b in bodies[-3:])]))
        joint = random_joint(rng, f"joint{i}", kinds)
        bodies.append(Body(f"body{i}", parent, joint=joint, inertia=random_inertia(rng)))
    frames = [Frame(f"frame{i}", f"body{i}", random_pose(rng)) for i in range(0, count, 3)]
    return Model(f"tree{seed}", bodies, frames)


def arm():
    """Return a floating base with two joints, a slide and a welded camera, listed out of order."""
    return Model(
        "rover",
        bodies=[
            Body(
                "lower",
                "upper",
                joint=Revolute("elbow", (0, 1, 0), pose=Pose(translation=(0, 0, 0.3))),
                inertia=Inertia(1.0, (0.1, 0.02, 0.1), (0.01, 0.02, 0.015)),
            ),
            Body(
                "camera",
                "lower",
                joint=Fixed("bracket", pose=Pose.from_rpy((0, np.pi / 2, 0), (0, 0, 0.2))),
                inertia=Inertia.box(0.3, (0.1, 0.02, 0.03)),
            ),
            Body("base", joint=Free("float"), inertia=Inertia.box(3.0, (0.1, 0.2, 0.3))),
            Body(
                "upper",
                "base",
                joint=Revolute("shoulder", pose=Pose(translation=(0.2, 0, 0.1))),
                inertia=Inertia(2.0, (0, 0, 0.1), (0.01, 0.02, 0.015)),
            ),
            Body(
                "slider",
                "base",
                joint=Prismatic("slide", (0.6, 0.8, 0), pose=Pose.from_rpy((0.3, 0.2, 0.1))),
                inertia=Inertia.box(3.0, (0.1, 0.2, 0.3), (0.1, 0.1, 0.1)),
            ),
        ],
        frames=[Frame("tip", "camera", Pose(translation=(0, 0, 0.1)))],
    )


def named_inertias(model, numbers):
    """Return values by name of a robot whose `Model.parameters` are these."""
    table = dict(zip(model.parameter_names, numbers, strict=True))
    named = {}
    for body in model.bodies:
        m, *h, xx, xy, xz, yy, yz, zz = (
            table[f"{body.name}.{word}"] for word in INERTIAL_PARAMETERS
        )
        c = np.array(h) / m
        about = np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]])
        about -= m * (c @ c * np.eye(3) - np.outer(c, c))
        if model.plan.frame(body.name).body >= 0:
            named[f"{body.name}.mass"] = m
            named[f"{body.name}.center_of_mass"] = c
            named[f"{body.name}.inertia"] = about[np.triu_indices(3)]
    for joint in model.joints:
        own = [x for name, x in table.items() if name.startswith(f"{joint.name}.armature")]
        if own:
            named[f"{joint.name}.armature"] = own if len(own) > 1 else own[0]
    return named
