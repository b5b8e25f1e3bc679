"""The robots of `mixtures` in Pinocchio and MuJoCo, run on numbers as those write them."""

import mujoco
import numpy as np
import pinocchio as pin

from tests.cross.mixtures import UNBOUNDED, for_mujoco, for_pinocchio
from tiburon.model.conversions import depth_first

CASES = 4
GRAVITY = (0.5, -1.0, -9.0)


def _bodies_depth_first(model):
    names = depth_first(model)
    return sorted(model.bodies, key=lambda body: names.index(body.joint.name))


def pin_joint(joint):
    """Return Pinocchio's joint of the same kind."""
    if joint.name == UNBOUNDED:
        return pin.JointModelRUBZ()
    makers = {
        "free": lambda: pin.JointModelFreeFlyer(),
        "revolute": lambda: pin.JointModelRevoluteUnaligned(np.array(joint.axis)),
        "prismatic": lambda: pin.JointModelPrismaticUnaligned(np.array(joint.axis)),
        "spherical": lambda: pin.JointModelSpherical(),
        "planar": lambda: pin.JointModelPlanar(),
        "universal": lambda: pin.JointModelUniversal(
            np.array(joint.axis), np.array(joint.second_axis)
        ),
        "screw": lambda: pin.JointModelHelicalUnaligned(np.array(joint.axis), joint.pitch),
    }
    return makers[joint.kind]()


def run_pinocchio(seed=41):
    """Return random states in Pinocchio's order, and what it computes from them."""
    ours, peer = for_pinocchio(), pin.Model()
    peer.gravity.linear = np.array(GRAVITY)
    numbers = {"world": 0}
    for body in _bodies_depth_first(ours):
        pose, inertia = body.joint.pose, body.inertia
        placement = pin.SE3(np.array(pose.rotation), np.array(pose.translation))
        number = peer.addJoint(
            numbers[body.parent], pin_joint(body.joint), placement, body.joint.name
        )
        spread = pin.Inertia(inertia.mass, np.array(inertia.com), inertia.matrix)
        peer.appendBodyToJoint(number, spread, pin.SE3.Identity())
        numbers[body.name] = number
    data, rng = peer.createData(), np.random.default_rng(seed)
    (tip,) = ours.frames
    results = []
    for _ in range(CASES):
        v, force = rng.standard_normal((2, peer.nv))
        q = pin.integrate(peer, pin.neutral(peer), 2.0 * rng.standard_normal(peer.nv))
        acceleration = np.array(pin.aba(peer, data, q, v, force))
        energy = pin.computeKineticEnergy(peer, data, q, v)
        pin.forwardKinematics(peer, data, q, v)
        joint = numbers[tip.body]
        local = pin.SE3(np.array(tip.pose.rotation), np.array(tip.pose.translation))
        place = data.oMi[joint] * local
        results.append(
            {
                "q": q,
                "v": v,
                "force": force,
                "acceleration": acceleration,
                "kinetic_energy": np.array(energy),
                "rotation": place.rotation.copy(),
                "translation": place.translation.copy(),
                "motion": local.actInv(data.v[joint]).vector.copy(),
            }
        )
    return {key: np.array([case[key] for case in results]) for key in results[0]}


def _add_mujoco_joints(made, joint):
    hinge, slide = mujoco.mjtJoint.mjJNT_HINGE, mujoco.mjtJoint.mjJNT_SLIDE
    if joint.kind == "free":
        made.add_joint(name=joint.name, type=mujoco.mjtJoint.mjJNT_FREE)
        return
    if joint.kind == "spherical":
        made.add_joint(name=joint.name, type=mujoco.mjtJoint.mjJNT_BALL)
        return
    parts = {
        "revolute": lambda: [(hinge, joint.axis)],
        "prismatic": lambda: [(slide, joint.axis)],
        "planar": lambda: [(slide, (1, 0, 0)), (slide, (0, 1, 0)), (hinge, (0, 0, 1))],
        "universal": lambda: [(hinge, joint.axis), (hinge, joint.second_axis)],
        "cylindrical": lambda: [(hinge, joint.axis), (slide, joint.axis)],
    }
    for number, (kind, axis) in enumerate(parts[joint.kind]()):
        made.add_joint(name=f"{joint.name}_{number}", type=kind, axis=list(axis))


def run_mujoco(seed=42):
    """Return random states in MuJoCo's order, and what it computes from them."""
    ours, spec = for_mujoco(), mujoco.MjSpec()
    # frames and inertias are to stay as given
    spec.compiler.alignfree = False
    spec.compiler.balanceinertia = False
    spec.compiler.fusestatic = False
    spec.option.gravity = list(GRAVITY)
    made = {"world": spec.worldbody}
    for body in _bodies_depth_first(ours):
        pose, inertia = body.joint.pose, body.inertia
        quaternion = np.zeros(4)
        mujoco.mju_mat2Quat(quaternion, np.array(pose.rotation).ravel())
        new = made[body.parent].add_body(
            name=body.name, pos=list(pose.translation), quat=quaternion
        )
        _add_mujoco_joints(new, body.joint)
        xx, xy, xz, yy, yz, zz = inertia.tensor
        new.mass, new.ipos = inertia.mass, list(inertia.com)
        new.fullinertia = [xx, yy, zz, xy, xz, yz]
        new.explicitinertial = True
        made[body.name] = new
    (tip,) = ours.frames
    quaternion = np.zeros(4)
    mujoco.mju_mat2Quat(quaternion, np.array(tip.pose.rotation).ravel())
    made[tip.body].add_site(name="tip", pos=list(tip.pose.translation), quat=quaternion)
    peer = spec.compile()
    peer.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data, rng = mujoco.MjData(peer), np.random.default_rng(seed)
    site = mujoco.mj_name2id(peer, mujoco.mjtObj.mjOBJ_SITE, "tip")
    last = mujoco.mj_name2id(peer, mujoco.mjtObj.mjOBJ_BODY, tip.body)
    results = []
    for _ in range(CASES):
        mujoco.mj_resetData(peer, data)
        mujoco.mj_integratePos(peer, data.qpos, 2.0 * rng.standard_normal(peer.nv), 1.0)
        data.qvel[:], data.qfrc_applied[:] = rng.standard_normal((2, peer.nv))
        data.xfrc_applied[last] = rng.standard_normal(6)
        mujoco.mj_forward(peer, data)
        motion = np.zeros(6)
        mujoco.mj_objectVelocity(peer, data, mujoco.mjtObj.mjOBJ_SITE, site, motion, 0)
        results.append(
            {
                "q": data.qpos.copy(),
                "v": data.qvel.copy(),
                "force": data.qfrc_applied.copy(),
                "wrench": data.xfrc_applied[last].copy(),
                "acceleration": data.qacc.copy(),
                "kinetic_energy": data.energy[1].copy(),
                "rotation": data.site_xmat[site].reshape(3, 3).copy(),
                "translation": data.site_xpos[site].copy(),
                "motion": motion,
            }
        )
    return {key: np.array([case[key] for case in results]) for key in results[0]}


VERSIONS = {"Pinocchio": pin.__version__, "MuJoCo": mujoco.__version__}
