"""Bodies and joints of a compiled MuJoCo model.

A MuJoCo body has any number of joints, which act one after the other on its own frame, each at an
anchor p of its own:

    X = X0 J1 J2 ...,   J = T(p) R(q - q0) T(-p) of hinges and balls,   J = T(a (q - q0)) of slides.

Here each joint holds a body of its own. Bodies without mass stand between several joints, and
between a joint and the body where p is not zero: they are named after body and joint.
"""

from collections.abc import Mapping
from typing import Any

from tiburon.formats.assembly import lenient_body
from tiburon.formats.file_part import FilePart
from tiburon.formats.findings import Findings
from tiburon.formats.mjcf_names import Names
from tiburon.formats.mjcf_pose import pose_of
from tiburon.formats.mjcf_shapes import read_fluid, read_shapes
from tiburon.model import (
    WORLD,
    Body,
    Fixed,
    Free,
    Inertia,
    Joint,
    JointLimits,
    JointPassive,
    Pose,
    Prismatic,
    Revolute,
    Spherical,
)
from tiburon.model.numbers import Vec3
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
