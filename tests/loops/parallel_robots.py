"""Random platforms on legs: planar and spatial, joints of all kinds, cut anywhere."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

import tiburon as tb
from tests.loops.random_mechanisms import _inertia
from tiburon.algorithms.kinematics import frame_places
from tiburon.algorithms.tape_calls import JointVector

FLUID = tb.BodyFluid(volume=2e-3, added_mass=0.3 * np.eye(6), linear_damping=(0.4,) * 6)

PLANAR = ("revolute", "revolute", "prismatic")
SPATIAL = {"revolute": 1, "prismatic": 1, "universal": 2, "cylindrical": 2, "spherical": 3}
VARIED = {**SPATIAL, "screw": 1, "planar": 3}


class ParallelRobot(NamedTuple):
    model: tb.Model
    q: np.ndarray


def _axis(rng):
    axis = rng.standard_normal(3)
    return tuple(axis / np.linalg.norm(axis))


def _joint(kind, name, rng, planar, varied=False):
    """Return a joint at a random place, with the plane's normal along z; some with rotors."""
    joint = _plain_joint(kind, name, rng, planar)
    if varied and rng.random() < 0.3:
        rotor = float(rng.uniform(0.01, 0.5))
        joint = replace(joint, armature=rotor if joint.nv == 1 else (rotor,) * joint.nv)
    return joint


def _plain_joint(kind, name, rng, planar):
    turn = (0.0, 0.0, rng.uniform(-2, 2)) if planar else rng.uniform(-2, 2, 3)
    place = (*rng.uniform(-0.7, 0.7, 2), 0.0 if planar else rng.uniform(-0.7, 0.7))
    pose = tb.Pose.from_rpy(turn, place)
    if kind == "revolute":
        return tb.Revolute(name, (0.0, 0.0, 1.0) if planar else _axis(rng), pose=pose)
    if kind == "prismatic":
        along = _axis(rng)
        if planar:
            along = (np.cos(turn[2]), np.sin(turn[2]), 0.0)
        return tb.Prismatic(name, along, pose=pose)
    if kind == "universal":
        return tb.Universal(name, (1.0, 0.0, 0.0), (0.0, 1.0, 0.0), pose=pose)
    if kind == "cylindrical":
        return tb.Cylindrical(name, _axis(rng), pose=pose)
    if kind == "screw":
        return tb.Screw(name, _axis(rng), pitch=float(rng.uniform(0.02, 0.2)), pose=pose)
    if kind == "planar":
        return tb.Planar(name, pose=pose)
    return tb.Spherical(name, pose=pose)


def _kinds(rng, planar, dof, varied=False):
    """Draw joint kinds of a leg with so many degrees of freedom."""
    if planar:
        return ["revolute", *rng.choice(PLANAR, int(rng.choice([2, 2, 3])) if varied else 2)]
    sizes = VARIED if varied else SPATIAL
    left, kinds = int(rng.choice([5, 6, 6, 7])) if varied else dof, []
    while left:
        fitting = [kind for kind, size in sizes.items() if size <= left]
        kinds.append(str(rng.choice(fitting)))
        left -= sizes[kinds[-1]]
    return kinds


def parallel_robot(
    rng,
    legs,
    planar,
    *,
    carried="leg",
    wet=False,
    branches=False,
    motors=None,
    varied=False,
):
    """Draw a platform on legs, with closed loops at the configuration that is returned.

    Args:
        rng: Where numbers come from.
        legs: Number of legs.
        planar: Whether all motion is in one plane.
        carried: "leg" if the platform hangs on the first leg in the tree, "free" for a free joint.
        wet: Whether links feel water.
        branches: Whether pendulums hang on the platform and on a leg.
        motors: Number of joints with one degree of freedom that have motors; all by default.
        varied: Whether legs have different lengths, screws, planar joints and rotors, too.
    """
    fluid = FLUID if wet else None
    names = [f"leg{k}" for k in range(legs)]
    kinds = [_kinds(rng, planar, int(rng.choice([5, 6, 6])), varied) for _ in names]
    if legs == 2 and not planar and not varied:
        kinds = [_kinds(rng, planar, 6) for _ in names]
    bodies = []

    def link(name, parent, joint):
        bodies.append(tb.Body(name, parent, joint=joint, inertia=_inertia(rng), fluid=fluid))

    cuts = []
    far_parts = []
    for number, (leg, own) in enumerate(zip(names, kinds, strict=True)):
        made = [_joint(kind, f"{leg} joint{n}", rng, planar, varied) for n, kind in enumerate(own)]
        cut = int(rng.integers(len(own))) if number or carried == "free" else len(own)
        parent = "world"
        for n, joint in enumerate(made[:cut]):
            last = n == len(own) - 1
            name = "platform" if last else f"{leg} link{n}"
            link(name, parent, joint)
            parent = name
        if cut < len(own):
            far_parts.append((leg, made[cut + 1 :], cut))
            cuts.append((leg, parent, own[cut], cut, len(own)))
    if carried == "free":
        link("platform", "world", tb.Free("platform joint"))
    ends = {}
    for leg, joints, cut in far_parts:
        parent = "platform"
        for n, joint in reversed(list(enumerate(joints, start=cut + 1))):
            link(f"{leg} link{n - 1}", parent, joint)
            parent = f"{leg} link{n - 1}"
        ends[leg] = parent
    if branches:
        link("bell", "platform", _joint("revolute", "clapper", rng, False))
        link("flag", f"{names[0]} link0", _joint("spherical", "pole", rng, False))
    tree = tb.Model("tree", bodies)
    step = 0.4 * rng.standard_normal(tree.nv)
    if carried == "free" and planar:
        step[tree.slice("platform joint", of="v")] *= (0, 0, 1, 1, 1, 0)
    q = tree.integrate(tree.neutral(), step)
    loops = []
    for leg, first, kind, cut, _ in cuts:
        name = f"{leg} joint{cut}"
        joint = _joint(kind, name, rng, planar)
        loops.append(_closed_here(tree, q, first, ends[leg], joint))
    driven = [b.joint.name for b in bodies if b.joint.nv == 1 and b.name != "bell"]
    if motors is not None:
        driven = [str(name) for name in rng.permutation(driven)[:motors]]
    actuators = [tb.Actuator(f"{name} motor", name) for name in driven]
    poses = {"home": {j.name: tuple(q[tree.slice(j.name)]) for j in tree.joints if j.nq}}
    model = tb.Model("parallel", bodies, loops=loops, actuators=actuators, poses=poses)
    return ParallelRobot(model, np.array(q))


def _closed_here(tree, q, first, second, joint):
    """Close a loop by a joint that is at rest where the two bodies are now."""
    names = [name for name in (first, second) if name != "world"]
    places = dict(zip(names, frame_places(tree.plan, JointVector(q.tolist()), names), strict=True))

    def placed(name):
        if name == "world":
            return np.eye(3), np.zeros(3)
        return np.array(places[name].R), np.array(places[name].p)

    (Ra, pa), (Rb, pb) = placed(first), placed(second)
    pose = joint.pose
    R, p = np.array(pose.rotation), np.array(pose.translation)
    # the joint stands where its pose puts it on the first body
    Rw, pw = Ra @ R, pa + Ra @ p
    moving = tb.Pose(Rb.T @ Rw, Rb.T @ (pw - pb))
    return tb.LoopClosure(joint.name, first, second, joint, moving)


def on_moving_base(model, q, joint, seed=0):
    """Return a robot whose legs stand on a hull instead of the world, and a closed configuration.

    A platform with a free joint keeps it, so that it does not hang on the hull.
    """
    rng = np.random.default_rng(seed)
    bodies = [tb.Body("hull", joint=joint, inertia=_inertia(rng))]
    for body in model.bodies:
        stands = body.parent == "world" and body.joint.kind != "free"
        bodies.append(replace(body, parent="hull") if stands else body)
    loops = [
        replace(
            loop,
            first="hull" if loop.first == "world" else loop.first,
            second="hull" if loop.second == "world" else loop.second,
        )
        for loop in model.loops
    ]
    moved = tb.Model("moving", bodies, loops=loops, actuators=model.actuators)
    start = {one.name: q[model.slice(one.name)] for one in model.joints}
    own = joint.neutral()
    if not any(body.joint.kind == "free" for body in model.bodies):
        own = joint.random(rng)
    start[joint.name] = np.array(own)
    return ParallelRobot(moved, np.concatenate([start[one.name] for one in moved.joints]))


def carried_by_vehicles(seed, count, *, is_held=True):
    """Return a plate that arms of floating vehicles hold, and a closed configuration.

    Args:
        seed: Of all numbers.
        count: Vehicles with an arm of two joints each.
        is_held: Whether the plate hangs on the first arm; else it has a free joint.
    """
    rng = np.random.default_rng(seed)
    bodies, tips = [], []
    for k in range(count):
        bodies.append(tb.Body(f"hull{k}", joint=tb.Free(f"hull{k}"), inertia=_inertia(rng)))
        for name, parent in ((f"upper{k}", f"hull{k}"), (f"lower{k}", f"upper{k}")):
            joint = _plain_joint("revolute", name, rng, False)
            bodies.append(tb.Body(name, parent=parent, joint=joint, inertia=_inertia(rng)))
        tips.append(f"lower{k}")
    joint = _plain_joint("revolute", "grip", rng, False) if is_held else tb.Free("plate")
    parent = tips[0] if is_held else "world"
    bodies.append(tb.Body("plate", parent=parent, joint=joint, inertia=_inertia(rng)))
    tree = tb.Model("tree", bodies)
    q = np.array([x for one in tree.joints for x in one.random(rng)])
    R, p = tb.forward_kinematics(tree, q, "plate")
    loops = []
    for tip in tips[1 if is_held else 0 :]:
        R_tip, p_tip = tb.forward_kinematics(tree, q, tip)
        at = rng.uniform(-0.3, 0.3, 3)
        joint = tb.Spherical(f"{tip} grip", pose=tb.Pose(translation=tuple(at)))
        there = tb.Pose(R.T @ R_tip, tuple(R.T @ (p_tip + R_tip @ at - p)))
        loops.append(tb.LoopClosure(f"{tip} grip", tip, "plate", joint, there))
    return ParallelRobot(tb.Model("vehicles", bodies, loops=loops), q)
