"""Bodies, joints and actuators of a compiled MuJoCo model.

A MuJoCo body has any number of joints, which act one after the other on its own frame, each at its
own anchor p:

    X = X0 J1 J2 ...,   J = T(p) R(q - q0) T(-p) of hinges and balls,   J = T(a (q - q0)) of slides.

Here each joint moves its own body. Massless bodies connect several joints, and a joint and the body
where p is not zero: they are named after body and joint.
"""

import math
from collections.abc import Mapping
from typing import Any

from tiburon.formats.lenient import FilePart, Findings, lenient_body
from tiburon.formats.mjcf_names import Names, pose_of
from tiburon.formats.mjcf_shapes import read_fluid, read_shapes
from tiburon.model import (
    WORLD,
    Actuator,
    Body,
    Fixed,
    Free,
    Inertia,
    Joint,
    JointLimits,
    JointPassive,
    LinearThrust,
    Pose,
    Prismatic,
    Revolute,
    Thruster,
)
from tiburon.model.joints import Spherical
from tiburon.model.value_checks import Vec3
from tiburon.spatial.vec3 import IDENTITY3, matrix_product, transpose

FREE, BALL, SLIDE, HINGE = range(4)
"""MuJoCo's numbers of joint kinds (mjtJoint)."""

JOINT_TRANSMISSIONS = (0, 1)
"""MuJoCo's numbers of actuators on joints: in child or in parent axes (mjtTrn)."""

SAME_FRAME, SAME_AXES = 1, 3
"""MuJoCo's numbers of inertias in the body frame, or in axes parallel to it (mjtSameFrame)."""


def read_bodies(
    compiled: Any,
    names: Names,
    meshes: Mapping[int, str],
    parts: Mapping[int, FilePart],
    findings: Findings,
) -> list[Body]:
    """Build the bodies, parents first, in MuJoCo's order.

    Args:
        compiled: An `MjModel`.
        names: Of its parts.
        meshes: Paths of its meshes by number.
        parts: Where its bodies stand in the file, by number.
        findings: Receives what could not be expressed.
    """
    armatures = _armatures(compiled)
    shapes = read_shapes(compiled, names, meshes)
    if _any_nonlinear(compiled):
        findings.add("left out: springs and dampers of joints that are not linear")
    bodies: list[Body] = []
    for index in range(1, compiled.nbody):
        name = names.body(index)
        place = pose_of(compiled.body_quat[index], compiled.body_pos[index])
        parent = names.body(compiled.body_parentid[index])
        first = int(compiled.body_jntadr[index])
        count = int(compiled.body_jntnum[index])
        joint: Joint | None = None
        for j in range(first, first + count):
            if joint is not None:
                # the joint before this one moves a body without mass
                link = names.new_place(f"{name}.{joint.name}")
                bodies.append(Body(link, parent, joint=joint))
                parent = link
            anchor = _vec3(compiled.jnt_pos[j])
            kind = int(compiled.jnt_type[j])
            if kind in (SLIDE, FREE):
                anchor = (0.0, 0.0, 0.0)
            if kind == FREE:
                parent, place = WORLD, Pose()
            joint = _joint(compiled, names, j, place @ Pose(translation=anchor), armatures)
            x, y, z = anchor
            place = Pose(translation=(-x, -y, -z)) if any(anchor) else Pose()
        if joint is None or place != Pose():
            if joint is not None:
                link = names.new_place(f"{name}.{joint.name}")
                bodies.append(Body(link, parent, joint=joint))
                parent = link
            joint = Fixed(names.new_joint(f"{name}_fixed"), pose=place)
        bodies.append(
            lenient_body(
                parts[index],
                name,
                parent,
                joint,
                _inertia(compiled, index),
                shapes.get(index, ()),
                read_fluid(compiled, index),
                findings=findings,
            )
        )
    return bodies


def _joint(compiled: Any, names: Names, j: int, pose: Pose, armatures: list[float]) -> Joint:
    """Build one joint with its data."""
    kind, name = int(compiled.jnt_type[j]), names.joint(j)
    q = int(compiled.jnt_qposadr[j])
    data: dict[str, Any] = {
        "pose": pose,
        "limits": _limits(compiled, j, kind),
        "passive": _passive(compiled, j, kind),
        "armature": armatures[j],
    }
    if kind == FREE:
        return Free(name, **data)
    if kind == BALL:
        return Spherical(name, **data)
    # adding zero turns -0.0 into 0.0
    offset = 0.0 - float(compiled.qpos0[q])
    one_freedom = Revolute if kind == HINGE else Prismatic
    return one_freedom(name, _vec3(compiled.jnt_axis[j]), offset, **data)


def _armatures(compiled: Any) -> list[float]:
    """Return the armature of each joint: its own, and what actuators reflect by their gear."""
    armatures = [float(compiled.dof_armature[dof]) for dof in compiled.jnt_dofadr]
    # actuators have one since MuJoCo 3.4
    for i, own in enumerate(getattr(compiled, "actuator_armature", ())):
        if own and int(compiled.actuator_trntype[i]) in JOINT_TRANSMISSIONS:
            gear = float(compiled.actuator_gear[i][0])
            armatures[int(compiled.actuator_trnid[i][0])] += gear * gear * float(own)
    return armatures


def _limits(compiled: Any, j: int, kind: int) -> JointLimits | None:
    given: dict[str, float] = {}
    if compiled.jnt_limited[j]:
        low, high = compiled.jnt_range[j].tolist()
        given = {"upper": high} if kind == BALL else {"lower": low, "upper": high}
    if compiled.jnt_actfrclimited[j]:
        given["force"] = max(map(abs, compiled.jnt_actfrcrange[j].tolist()))
    return JointLimits(**given) if given else None


def _passive(compiled: Any, j: int, kind: int) -> JointPassive | None:
    dof, q = int(compiled.jnt_dofadr[j]), int(compiled.jnt_qposadr[j])
    damping = float(compiled.dof_damping[dof])
    friction = float(compiled.dof_frictionloss[dof])
    stiffness = float(compiled.jnt_stiffness[j])
    if not (damping or friction or stiffness):
        return None
    rest: Any = 0.0
    if stiffness:
        numbers = compiled.qpos_spring[q : q + (7, 4, 1, 1)[kind]].tolist()
        # a free joint's quaternion comes first in ours
        rest = {FREE: (*numbers[3:], *numbers[:3]), BALL: tuple(numbers)}.get(kind, numbers[0])
    return JointPassive(damping, friction, stiffness, rest)


def _any_nonlinear(compiled: Any) -> bool:
    """Return whether forces of joints grow by higher powers, as they may since MuJoCo 3.4."""
    return any(
        getattr(compiled, table, None) is not None and bool(getattr(compiled, table).any())
        for table in ("dof_dampingpoly", "jnt_stiffnesspoly")
    )


def _inertia(compiled: Any, index: int) -> Inertia:
    """Return the inertia in body axes from the one in principal axes."""
    mass = float(compiled.body_mass[index])
    a, b, c = compiled.body_inertia[index].tolist()
    if mass == 0.0 and a == b == c == 0.0:
        return Inertia()
    com = _vec3(compiled.body_ipos[index])
    R = pose_of(compiled.body_iquat[index]).rotation
    # MuJoCo takes what is very near the body frame to be the body frame, and so must we
    same = int(compiled.body_sameframe[index])
    if same in (SAME_FRAME, SAME_AXES):
        R = IDENTITY3
    if same == SAME_FRAME:
        com = (0.0, 0.0, 0.0)
    diagonal = ((a, 0.0, 0.0), (0.0, b, 0.0), (0.0, 0.0, c))
    I = matrix_product(matrix_product(R, diagonal), transpose(R))
    tensor = (I[0][0], I[0][1], I[0][2], I[1][1], I[1][2], I[2][2])
    return Inertia(mass, com, tensor)


def _vec3(row: Any) -> Vec3:
    x, y, z = row.tolist()
    return (x, y, z)


JOINT, JOINT_IN_PARENT, _SLIDER_CRANK, _TENDON, SITE = range(5)
"""MuJoCo's numbers of what an actuator pulls at (mjtTrn)."""

FIXED_GAIN = 0
"""MuJoCo's number of a force in proportion to the control (mjtGain)."""

HINGE_OR_SLIDE = (2, 3)
"""MuJoCo's numbers of joints with one degree of freedom (mjtJoint)."""


def read_actuators(
    compiled: Any, names: Names, findings: Findings
) -> tuple[list[Actuator], list[Thruster]]:
    """Return motors on joints, and those that push at a site along one direction.

    Servos and muscles keep where they act and how hard, not their control law.

    Args:
        compiled: An `MjModel`.
        names: Of its parts.
        findings: Receives what could not be expressed.
    """
    actuators: list[Actuator] = []
    thrusters: list[Thruster] = []
    others = 0
    for i in range(compiled.nu):
        kind, part = int(compiled.actuator_trntype[i]), int(compiled.actuator_trnid[i][0])
        if kind in (JOINT, JOINT_IN_PARENT) and _turns_one_way(compiled, i, part):
            actuators.append(_motor(compiled, names, i, part))
        elif kind == SITE and (thruster := _thruster(compiled, names, i, part)) is not None:
            thrusters.append(thruster)
        else:
            others += 1
    if others:
        findings.add(f"left out: {others} actuators that are neither motors nor thrusters")
    return actuators, thrusters


def _turns_one_way(compiled: Any, i: int, joint: int) -> bool:
    """Return whether an actuator drives a single-axis joint with a non-zero gear."""
    one = int(compiled.jnt_type[joint]) in HINGE_OR_SLIDE
    return one and float(compiled.actuator_gear[i][0]) != 0.0


def _motor(compiled: Any, names: Names, i: int, joint: int) -> Actuator:
    ratio = float(compiled.actuator_gear[i][0])
    low, high = _range(compiled, i)
    # limits count at the joint, where the gear has multiplied them
    at_joint = sorted((ratio * low, ratio * high))
    own = getattr(compiled, "actuator_armature", None)
    return Actuator(
        names.actuator(i),
        names.joint(joint),
        ratio,
        force_limits=(at_joint[0], at_joint[1]),
        rotor_inertia=0.0 if own is None else float(own[i]),
    )


def _thruster(compiled: Any, names: Names, i: int, site: int) -> Thruster | None:
    """Return a push along a direction fixed to a site, with the moment of its propeller."""
    gear = compiled.actuator_gear[i].tolist()
    direction, moment = gear[:3], gear[3:]
    strength = math.hypot(*direction)
    away_from_site = int(compiled.actuator_trnid[i][1]) >= 0
    if strength == 0.0 or away_from_site or int(compiled.actuator_gaintype[i]) != FIXED_GAIN:
        return None
    unit: Vec3 = (direction[0] / strength, direction[1] / strength, direction[2] / strength)
    along = sum(m * u for m, u in zip(moment, unit, strict=True))
    across = math.hypot(*(m - along * u for m, u in zip(moment, unit, strict=True)))
    if across > 1e-9 * math.hypot(*moment):
        # a moment across the thrust is no propeller's
        return None
    low, high = _range(compiled, i)
    limits = (-math.inf, math.inf)
    if compiled.actuator_ctrllimited[i]:
        a, b = compiled.actuator_ctrlrange[i].tolist()
        limits = (a, b)
    return Thruster(
        names.actuator(i),
        names.site(site),
        direction=unit,
        curve=LinearThrust(strength * float(compiled.actuator_gainprm[i][0])),
        torque_ratio=along / strength,
        command_limits=limits,
        thrust_limits=(strength * low, strength * high),
    )


def _range(compiled: Any, i: int) -> tuple[float, float]:
    """Return the smallest and largest force before the gear."""
    if not compiled.actuator_forcelimited[i]:
        return -math.inf, math.inf
    low, high = compiled.actuator_forcerange[i].tolist()
    return low, high
