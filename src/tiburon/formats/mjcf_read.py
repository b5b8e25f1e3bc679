"""MJCF, the XML format of MuJoCo, read through MuJoCo itself.

MuJoCo's own `MjSpec` reads the file, so that defaults, classes, includes, ``fromto``, units and
inertia from geometry are exactly MuJoCo's; the model is built from the compiled values.
`mjcf_guard` checks which files MuJoCo may open before it parses anything.

Bodies, joints and sites keep their names and frames; joints keep their order, so that `to_mujoco`
and `from_mujoco` convert the coordinates of both. Unnamed elements are named after their kind and
index. Skipped silently, because they are not part of a robot: cameras, lights, sensors, softness of
contacts. Skipped with a warning, because they act on the robot: tendons, flexible
parts.

Actuators with affine bias (position, velocity, general) are servos: their command is MuJoCo's
control, in the unit of the file, of other actuators it is the joint force. Controls of a keyframe
are those of runs that start in its pose.

Friction of geometries is that of their shapes: none where condim is 1, torsional friction from
condim 4 on, rolling friction at condim 6; of two surfaces the larger one counts. So are their bits
(contype, conaffinity), where not all match. Contact pairs and exclusions of geometries and bodies
are those of their bodies. Links of one tree touch where pairs are named. The first level plane or
height field that is fixed is the ground of `load_world`; all other geometry of the world body, such
as tables and walls, is that of a fixed body, "worldbody".

A MuJoCo body has any number of joints, which act one after the other on its own frame, each at its
own anchor p:

    X = X0 J1 J2 ...,   J = T(p) R(q - q0) T(-p) of hinges and balls,   J = T(a (q - q0)) of slides.

Here each joint moves its own body. Massless bodies connect several joints of one body, and a joint
to its body where p is not zero; they are named after body and joint.

MuJoCo enforces equalities by stiff springs, so that files may start with them open; here they are
exact constraints, which runs close at their start (`may_start_open`). A joint coupled to
another by a linear polynomial becomes a `Coupled` joint, one coupled to a constant becomes fixed;
both have fewer coordinates than in MuJoCo. Fixed tendons couple sums of joint positions. Every
other equality closes a loop.
"""

import math
import os
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import ModelError, ModelFileError
from tiburon.formats.lenient import FilePart, Findings, lenient_body, lenient_model
from tiburon.formats.limits import MAX_MAGNITUDE, Budget
from tiburon.formats.mjcf_compile import CompiledModel, read_compiled
from tiburon.model import (
    WORLD,
    Actuator,
    Body,
    BodyFluid,
    BoxDrag,
    BoxShape,
    CapsuleShape,
    ContactPair,
    Coupled,
    CylinderShape,
    EllipsoidDrag,
    EllipsoidShape,
    Fixed,
    Frame,
    Free,
    Ground,
    GroundGrid,
    Inertia,
    Joint,
    JointCoupling,
    JointLimits,
    JointPassive,
    LinearThrust,
    LoopClosure,
    MeshShape,
    Model,
    PlaneShape,
    Pose,
    Prismatic,
    Revolute,
    Servo,
    Shape,
    SphereShape,
    Thruster,
    Water,
    World,
)
from tiburon.model.body import Geometry
from tiburon.model.closure import Closure
from tiburon.model.closure_kinds import TendonCoupling
from tiburon.model.composition import changed
from tiburon.model.contact_kinds import MAX_BITS, ContactBits, ContactMaterial, bits_match
from tiburon.model.joints.quaternion import Spherical
from tiburon.model.value_checks import Vec3
from tiburon.spatial.vec3 import IDENTITY3, matrix_product, transpose

FIXTURE = "worldbody"
"""Name of the body that has the geometry of the world body."""


class Names:
    """Unique names of all elements of a MuJoCo model.

    MuJoCo has separate namespaces for each kind of element and permits unnamed ones; here bodies
    and sites share one namespace, and every element has a name.
    """

    def __init__(self, compiled: CompiledModel) -> None:
        """Choose all names."""
        self._compiled = compiled
        places: set[str] = {WORLD}
        self._bodies = [WORLD]
        for i in range(1, compiled.nbody):
            self._bodies.append(_unique(self._given("body", i) or f"body_{i}", places))
        self._places = places
        self.fixture = _unique(FIXTURE, places)
        """Name of the body that has the geometry of the world body."""
        self._sites = [
            _unique(self._given("site", i) or f"site_{i}", places, "_site")
            for i in range(compiled.nsite)
        ]
        self._joint_names: set[str] = {
            name for i in range(compiled.njnt) if (name := self._given("joint", i))
        }
        self._joints = [
            self._given("joint", i) or self.new_joint(f"joint_{i}") for i in range(compiled.njnt)
        ]

    def _given(self, kind: str, index: int) -> str:
        """Return the name in the file, or ""."""
        name = self._compiled.name(kind, index)
        return name if name.strip() else ""

    def body(self, index: int) -> str:
        """Return the name of a body."""
        return self._bodies[index]

    def site(self, index: int) -> str:
        """Return the name of the frame of a site."""
        return self._sites[index]

    def joint(self, index: int) -> str:
        """Return the name of a joint."""
        return self._joints[index]

    def geom(self, index: int) -> str:
        """Return the name of a geometry, which may be empty."""
        return self._given("geom", index)

    def mesh(self, index: int) -> str:
        """Return the name of a mesh."""
        return self._given("mesh", index)

    def key(self, index: int) -> str:
        """Return the name of a keyframe."""
        return self._given("key", index) or f"key_{index}"

    def equality(self, index: int) -> str:
        """Return the name of an equality."""
        return self._given("equality", index) or f"equality_{index}"

    def actuator(self, index: int) -> str:
        """Return the name of an actuator."""
        return self._given("actuator", index) or f"actuator_{index}"

    def tendon(self, index: int) -> str:
        """Return the name of a tendon."""
        return self._given("tendon", index) or f"tendon_{index}"

    def new_place(self, wanted: str) -> str:
        """Return a name for a body that the file does not have."""
        return _unique(wanted, self._places)

    def new_joint(self, wanted: str) -> str:
        """Return a name for a joint that the file does not have, or does not name."""
        return _unique(wanted, self._joint_names)


def _unique(wanted: str, taken: set[str], suffix: str = "_") -> str:
    """Return a name that is not taken yet, and add it to the taken ones."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}{suffix}" if number == 2 and suffix != "_" else f"{wanted}_{number}"
    taken.add(name)
    return name


NO_ROTATION = [1.0, 0.0, 0.0, 0.0]


def pose_of(quaternion: Any, position: Any = (0.0, 0.0, 0.0)) -> Pose:
    """Return a pose from a quaternion (w, x, y, z) and a position [m].

    Identity quaternions, the most frequent case, need no conversion.

    Args:
        quaternion: Unit quaternion, shape (4,).
        position: Position [m], shape (3,).
    """
    x, y, z = map(float, position)
    if quaternion.tolist() == NO_ROTATION:
        return Pose(translation=(x, y, z)) if x or y or z else Pose()
    return Pose.from_quaternion(quaternion, (x, y, z))


PLANE, HEIGHT_FIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = range(8)
"""Geometry types of MuJoCo (mjtGeom)."""

HIDDEN_GROUP = 3
"""First group that MuJoCo hides by default: by convention, collision geometry."""


def mesh_paths(compiled: CompiledModel, names: Names, path: Path) -> dict[int, str]:
    """Return the mesh files of a model by index; inline meshes have none."""
    # absolute, since the working directory may change
    files = {
        name or Path(file).stem: os.path.abspath(path.parent / file)
        for name, file in compiled.texts["meshes"]
    }
    numbered = ((i, files.get(names.mesh(i))) for i in range(compiled.nmesh))
    return {i: file for i, file in numbered if file is not None}


def read_shapes(
    compiled: CompiledModel, names: Names, meshes: Mapping[int, str]
) -> dict[int, list[Shape]]:
    """Return the shapes of all bodies by index; 0 is the world body, without ground and floors.

    Height fields and signed distance fields are not supported and left out.
    """
    shapes: dict[int, list[Shape]] = {}
    touching, bits = touching_geoms(compiled), read_bits(compiled)
    ground = ground_geom(compiled)
    for i in range(compiled.ngeom):
        body = int(compiled.geom_bodyid[i])
        is_floor = not body and int(compiled.geom_type[i]) == PLANE and i not in touching
        geometry = None if i == ground or is_floor else _geometry(compiled, i, meshes)
        if geometry is None:
            continue
        pose = pose_of(compiled.geom_quat[i], compiled.geom_pos[i])
        if isinstance(geometry, MeshShape):
            # MuJoCo transforms a mesh into its principal axes, unlike the file
            mesh = int(compiled.geom_dataid[i])
            pose = pose @ pose_of(compiled.mesh_quat[mesh], compiled.mesh_pos[mesh]).inverse()
        touches = i in touching
        drawn = int(compiled.geom_group[i]) < HIDDEN_GROUP
        role = "both" if touches and drawn else "collision" if touches else "visual"
        material = _surface(compiled, i) if touches else None
        shapes.setdefault(body, []).append(
            Shape(geometry, pose, role, _color(compiled, i), names.geom(i), material, bits.get(i))
        )
    return shapes


def geom_words(compiled: CompiledModel, i: int) -> str:
    """Return a geometry in words, for messages."""
    body = int(compiled.geom_bodyid[i])
    named = compiled.name("geom", i) or str(i)
    return f"geom {named!r} of body {compiled.name('body', body) or body!r}"


def touching_geoms(compiled: CompiledModel) -> set[int]:
    """Return the geometries that may touch others, by their bits or by a contact pair."""
    found = set(np.flatnonzero(compiled.geom_contype | compiled.geom_conaffinity).tolist())
    pairs = slice(compiled.npair)
    return found.union(compiled.pair_geom1[pairs].tolist(), compiled.pair_geom2[pairs].tolist())


def read_bits(compiled: CompiledModel) -> dict[int, ContactBits]:
    """Return contype and conaffinity of geometries that touch; none where all of them match."""
    found = {
        i: (int(compiled.geom_contype[i]) % MAX_BITS, int(compiled.geom_conaffinity[i]) % MAX_BITS)
        for i in sorted(touching_geoms(compiled))
    }
    kinds = set(found.values())
    if all(bits_match(a, b) for a in kinds for b in kinds):
        return {}
    return found


def is_static(compiled: CompiledModel, body: int) -> bool:
    """Return whether a body is the world, or fixed to it."""
    return not compiled.body_weldid[body] and compiled.body_mocapid[body] < 0


def static_pose(compiled: CompiledModel, geom: int) -> Pose:
    """Return the pose of a geometry of a static body in the world."""
    pose = pose_of(compiled.geom_quat[geom], compiled.geom_pos[geom])
    body = int(compiled.geom_bodyid[geom])
    while body:
        pose = pose_of(compiled.body_quat[body], compiled.body_pos[body]) @ pose
        body = int(compiled.body_parentid[body])
    return pose


def ground_geom(compiled: CompiledModel) -> int | None:
    """Return the ground: the first level plane or height field that touches and is fixed."""
    for i in sorted(touching_geoms(compiled)):
        kind = int(compiled.geom_type[i])
        if kind not in (PLANE, HEIGHT_FIELD) or not is_static(compiled, compiled.geom_bodyid[i]):
            continue
        R = static_pose(compiled, i).rotation
        if (kind == PLANE and R[2][2] == 1.0) or (kind == HEIGHT_FIELD and R == IDENTITY3):
            return i
    return None


def _geometry(compiled: CompiledModel, i: int, meshes: Mapping[int, str]) -> Geometry | None:
    """Return the geometry with full lengths instead of MuJoCo's half lengths."""
    kind = int(compiled.geom_type[i])
    a, b, c = compiled.geom_size[i].tolist()
    if kind == PLANE:
        return PlaneShape()
    if kind == SPHERE:
        return SphereShape(a)
    if kind == CAPSULE:
        return CapsuleShape(a, 2.0 * b)
    if kind == ELLIPSOID:
        return EllipsoidShape((a, b, c))
    if kind == CYLINDER:
        return CylinderShape(a, 2.0 * b)
    if kind == BOX:
        return BoxShape((2.0 * a, 2.0 * b, 2.0 * c))
    mesh = int(compiled.geom_dataid[i])
    if kind == MESH and mesh in meshes:
        x, y, z = compiled.mesh_scale[mesh].tolist()
        return MeshShape(meshes[mesh], (x, y, z), convex=True)
    return None


FRICTION_DIMENSIONS = {"friction": 3, "torsional friction": 4, "rolling friction": 6}
"""Least condim of contacts with each coefficient of friction, in the order of geometries."""


def _material(friction: Any, condim: Any) -> ContactMaterial:
    """Return the friction of a contact; MuJoCo has no static coefficients, and no restitution.

    `friction` are the sliding, torsional and rolling coefficients.
    """
    slide, spin, roll = (
        float(mu) if int(condim) >= least else 0.0
        for mu, least in zip(friction, FRICTION_DIMENSIONS.values(), strict=True)
    )
    return ContactMaterial(slide, torsional_friction=spin, rolling_friction=roll)


def _surface(compiled: CompiledModel, i: int) -> ContactMaterial:
    """Return the surface of a geometry.

    Of two, MuJoCo takes the larger coefficient and the larger condim: one without friction has
    that of the other.
    """
    own = _material(compiled.geom_friction[i], compiled.geom_condim[i])
    return replace(own, friction_rule="larger")


def _note_surfaces(compiled: CompiledModel, findings: Findings) -> None:
    """Report contacts whose friction in MuJoCo is not the larger of that of two surfaces."""
    touching = sorted(touching_geoms(compiled))
    for k, (word, needed) in enumerate(FRICTION_DIMENSIONS.items()):
        own = {i: float(compiled.geom_friction[i][k]) for i in touching}
        rough = [i for i in touching if compiled.geom_condim[i] >= needed]
        least = min((own[i] for i in rough), default=math.inf)
        lost = [i for i in touching if i not in rough and own[i] > least]
        if lost:
            condim = "condim 1" if needed == 3 else f"condim below {needed}"
            findings.add(
                f"{word} of {len(lost)} geometries with {condim} was left out: on surfaces with "
                f"less, down to {least:g}, theirs would count; give them condim {needed}, or that "
                f"of the others: {listed([geom_words(compiled, i) for i in lost])}"
            )
    first = [
        i for i in touching if compiled.geom_priority[i] != compiled.geom_priority[touching[0]]
    ]
    if first:
        findings.add(
            "the priority of geometries was left out: of two surfaces the larger friction counts, "
            f"whatever their priority: {listed([geom_words(compiled, i) for i in first])}"
        )


def read_contact_pairs(
    compiled: CompiledModel, names: Names, fixed: Sequence[Shape], findings: Findings
) -> list[ContactPair]:
    """Return which bodies touch, or do not, beyond the rule for all.

    `fixed` are the shapes of the world body, which are those of a body of their own here.
    """
    found: dict[frozenset[str], ContactPair] = {}
    ground = ground_geom(compiled)

    def add(a: str, b: str, touches: bool, material: ContactMaterial | None = None) -> None:
        if a != b:
            found.setdefault(frozenset((a, b)), ContactPair(a, b, touches, material))

    def carrier(geom: int) -> str:
        body = int(compiled.geom_bodyid[geom])
        if geom == ground:
            return WORLD
        return names.body(body) if body else names.fixture

    for i in range(compiled.npair):
        geoms = int(compiled.pair_geom1[i]), int(compiled.pair_geom2[i])
        # along and about the second tangent, those of the first count
        material = _material(compiled.pair_friction[i][[0, 2, 3]], compiled.pair_dim[i])
        one, other = map(carrier, geoms)
        before = found.get(frozenset((one, other)))
        if before is not None and before.material != material:
            findings.add(
                f"contact pairs of bodies {before.first!r} and {before.second!r}: several "
                "coefficients of friction; those of the first pair were kept"
            )
        add(one, other, True, material)
    for signature in compiled.exclude_signature.tolist():
        first, second = signature >> 16, signature & 0xFFFF
        add(names.body(first), names.body(second), False)
        if fixed and not first * second:
            add(names.fixture, names.body(first or second), False)
        if ground is not None and compiled.geom_bodyid[ground] in (first, second):
            other = second if compiled.geom_bodyid[ground] == first else first
            add(WORLD, names.body(other), False)
    for one, other in _pairs_with_fixed(compiled, names, ground):
        add(one, other, True)
    _note_surfaces(compiled, findings)
    return list(found.values())


def _pairs_with_fixed(
    compiled: CompiledModel, names: Names, ground: int | None
) -> list[tuple[str, str]]:
    """Return pairs of bodies that touch without being named in the file.

    Those of the geometry of the world body; and if there are neither these nor ground, those of
    different trees: runs of robots with pairs that touch have contact, also without ground.
    """
    own = read_bits(compiled)
    bits: dict[int, set[ContactBits | None]] = {}
    for i in sorted(touching_geoms(compiled) - {ground}):
        bits.setdefault(int(compiled.geom_bodyid[i]), set()).add(own.get(i))
    moving = [body for body in bits if not is_static(compiled, body)]
    static = [body for body in bits if is_static(compiled, body)]

    def touching(ones: Iterable[int]) -> list[tuple[int, int]]:
        return [
            (one, other)
            for one in ones
            for other in moving
            if compiled.body_rootid[one] != compiled.body_rootid[other]
            and any(bits_match(a, b) for a in bits[one] for b in bits[other])
        ]

    found = touching(body for body in static if not body)
    if not found and ground is None:
        found = touching(static) or touching(moving)
    return [(names.body(one) if one else names.fixture, names.body(other)) for one, other in found]


def _color(compiled: CompiledModel, i: int) -> tuple[float, float, float, float]:
    material = int(compiled.geom_matid[i])
    rgba = compiled.geom_rgba[i] if material < 0 else compiled.mat_rgba[material]
    r, g, b, a = np.clip(rgba, 0.0, 1.0).tolist()
    return (r, g, b, a)


def read_fluid(compiled: CompiledModel, body: int) -> BodyFluid | None:
    """Return the hydrodynamic coefficients of a body, if the file has a fluid.

    MuJoCo has no buoyancy, so the volume is zero. Its two fluid models are mapped as follows: the
    inertia-based box is a `BoxDrag` with coefficients 1 and the viscous resistance of a sphere of
    its mean size; an ellipsoid is an `EllipsoidDrag` with MuJoCo's resistance along each axis, and
    MuJoCo's added mass at the file's density.
    """
    density, viscosity = float(compiled.opt_density), float(compiled.opt_viscosity)
    if density <= 0.0 and viscosity <= 0.0:
        return None
    first = int(compiled.body_geomadr[body])
    geometries = range(first, first + int(compiled.body_geomnum[body]))
    immersed = [i for i in geometries if compiled.geom_fluid[i][0] > 0.0]
    if immersed:
        return _ellipsoids(compiled, immersed, density, viscosity)
    return _inertia_box(compiled, body, density, viscosity)


def _ellipsoids(
    compiled: CompiledModel, immersed: list[int], density: float, viscosity: float
) -> BodyFluid:
    added, damping = np.zeros((6, 6)), np.zeros((6, 6))
    drag: list[EllipsoidDrag] = []
    for i in immersed:
        _, blunt, slender, *_ = compiled.geom_fluid[i].tolist()
        pose = pose_of(compiled.geom_quat[i], compiled.geom_pos[i])
        radii = _semi_axes(compiled, i)
        a, b, c = radii
        areas = (b * c, c * a, a * b)
        # MuJoCo: force = density |v| v (blunt A + slender (largest A - A)), without the half
        x, y, z = (2.0 * (blunt + slender * (max(areas) / s - 1.0)) for s in areas)
        if density > 0.0:
            drag.append(EllipsoidDrag(radii, (x, y, z), pose))
        virtual = compiled.geom_fluid[i][6:12]
        inertia = density * np.concatenate([virtual[3:], virtual[:3]])
        added += _to_body(np.diag(inertia), pose)
        damping += _to_body(_stokes(2.0 / 3.0 * sum(radii), viscosity), pose)
    return BodyFluid(
        added_mass=added if added.any() else None,  # type: ignore[arg-type]
        drag=tuple(drag),
        linear_damping=damping if damping.any() else None,  # type: ignore[arg-type]
        reference_density=density or None,
    )


def _inertia_box(
    compiled: CompiledModel, body: int, density: float, viscosity: float
) -> BodyFluid | None:
    mass = float(compiled.body_mass[body])
    if mass <= 0.0:
        return None
    a, b, c = compiled.body_inertia[body].tolist()
    x, y, z = (
        math.sqrt(max(0.0, 6.0 * moments / mass)) for moments in (b + c - a, c + a - b, a + b - c)
    )
    pose = pose_of(compiled.body_iquat[body], compiled.body_ipos[body])
    damping = _to_body(_stokes((x + y + z) / 3.0, viscosity), pose)
    return BodyFluid(
        drag=(BoxDrag((x, y, z), pose=pose),) if density > 0.0 else (),
        linear_damping=damping if damping.any() else None,  # type: ignore[arg-type]
        # viscous resistance does not scale with a zero density
        reference_density=density or None,
    )


def _semi_axes(compiled: CompiledModel, i: int) -> Vec3:
    """Return the semi-axes of MuJoCo's ellipsoid for a geometry."""
    a, b, c = compiled.geom_size[i].tolist()
    kind = int(compiled.geom_type[i])
    if kind == SPHERE:
        return (a, a, a)
    if kind == CAPSULE:
        return (a, a, a + b)
    if kind == CYLINDER:
        return (a, a, b)
    return (a, b, c)


def _stokes(diameter: float, viscosity: float) -> NDArray[np.float64]:
    """Return the viscous resistance of a sphere to rotation and translation (Stokes), (6, 6)."""
    rotation, translation = math.pi * diameter**3, 3.0 * math.pi * diameter
    return viscosity * np.diag([rotation] * 3 + [translation] * 3)


def _to_body(matrix: NDArray[np.float64], pose: Pose) -> NDArray[np.float64]:
    """Transform a resistance or inertia from a frame to the body, shape (6, 6)."""
    E, (x, y, z) = np.array(pose.rotation).T, pose.translation
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    X = np.block([[E, np.zeros((3, 3))], [-E @ cross, E]])
    product: NDArray[np.float64] = X.T @ matrix @ X
    return 0.5 * (product + product.T)


FREE, BALL, SLIDE, HINGE = range(4)
"""Joint types of MuJoCo (mjtJoint)."""


SAME_FRAME, SAME_AXES = 1, 3
"""Flags of MuJoCo for inertias in the body frame, or parallel to it (mjtSameFrame)."""


def read_bodies(
    compiled: CompiledModel,
    names: Names,
    shapes: Mapping[int, Sequence[Shape]],
    parts: Mapping[int, FilePart],
    findings: Findings,
) -> list[Body]:
    """Build the bodies of an `MjModel`, parents first, in MuJoCo's order.

    Shapes and positions in the file are by index of the body. Geometry of the world body is that of
    a fixed body, the last one.
    """
    armatures, belts = _armatures(compiled), _belts(compiled)
    if _any_nonlinear(compiled):
        findings.add("left out: nonlinear springs and dampers of joints")
    if negative := _joints_that_drive(compiled):
        listed = ", ".join(repr(names.joint(j)) for j in negative)
        findings.add(
            f"negative damping, friction or stiffness was taken as 0, of the joints {listed}: it "
            "would drive them"
        )
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
                # the previous joint moves a massless body
                link = names.new_place(f"{name}.{joint.name}")
                bodies.append(Body(link, parent, joint=joint))
                parent = link
            anchor = _vec3(compiled.jnt_pos[j])
            kind = int(compiled.jnt_type[j])
            if kind in (SLIDE, FREE):
                anchor = (0.0, 0.0, 0.0)
            if kind == FREE:
                parent, place = WORLD, Pose()
            joint = _joint(compiled, names, j, place @ Pose(translation=anchor), armatures, belts)
            x, y, z = anchor
            place = Pose(translation=(-x, -y, -z)) if any(anchor) else Pose()
        if joint is None or place != Pose():
            if joint is not None:
                link = names.new_place(f"{name}.{joint.name}")
                bodies.append(Body(link, parent, joint=joint))
                parent = link
            joint = Fixed(names.new_joint(f"{name}_fixed"), pose=place)
        body = lenient_body(
            parts[index],
            name,
            parent,
            joint,
            _inertia(compiled, index),
            shapes.get(index, ()),
            read_fluid(compiled, index),
            findings=findings,
        )
        if compiled.body_gravcomp[index]:
            body = changed(body, gravity_compensation=float(compiled.body_gravcomp[index]))
        bodies.append(body)
    if shapes.get(0):
        weld = Fixed(names.new_joint(f"{names.fixture}_fixed"))
        bodies.append(Body(names.fixture, WORLD, joint=weld, shapes=tuple(shapes[0])))
    return bodies


def _joint(
    compiled: CompiledModel,
    names: Names,
    j: int,
    pose: Pose,
    armatures: list[float],
    belts: Mapping[int, tuple[float, float]],
) -> Joint:
    """Return one joint with its limits, friction and armature."""
    kind, name = int(compiled.jnt_type[j]), names.joint(j)
    q = int(compiled.jnt_qposadr[j])
    data: dict[str, Any] = {
        "pose": pose,
        "limits": _limits(compiled, j, kind),
        "passive": _passive(compiled, j, kind, belts.get(j, (0.0, 0.0))),
        "armature": armatures[j],
    }
    if kind == FREE:
        return Free(name, **data)
    if kind == BALL:
        return Spherical(name, **data)
    # adding zero turns -0.0 into 0.0
    offset = 0.0 - float(compiled.qpos0[q])
    axial = Revolute if kind == HINGE else Prismatic
    return axial(name, _vec3(compiled.jnt_axis[j]), offset, **data)


def _armatures(compiled: CompiledModel) -> list[float]:
    """Return the armature of each joint, with the reflected inertia of actuators."""
    armatures = [float(compiled.dof_armature[dof]) for dof in compiled.jnt_dofadr]
    # actuators have armature since MuJoCo 3.4
    for i, own in enumerate(getattr(compiled, "actuator_armature", ())):
        if own and int(compiled.actuator_trntype[i]) in (TRN_JOINT, TRN_JOINT_IN_PARENT):
            gear = float(compiled.actuator_gear[i][0])
            armatures[int(compiled.actuator_trnid[i][0])] += gear * gear * float(own)
    # tendons have armature since MuJoCo 3.3
    for k, own in enumerate(getattr(compiled, "tendon_armature", ())):
        if own and (single := single_joint(compiled, k)) is not None:
            joint, arm = single
            armatures[joint] += arm * arm * float(own)
    return armatures


def single_joint(compiled: CompiledModel, tendon: int) -> tuple[int, float] | None:
    """Return the joint of a fixed tendon over one joint, and its moment arm; None of others."""
    own = _wraps(compiled, tendon)
    if own.stop - own.start != 1 or not _is_fixed(compiled, tendon):
        return None
    return int(compiled.wrap_objid[own.start]), float(compiled.wrap_prm[own.start])


def _limits(compiled: CompiledModel, j: int, kind: int) -> JointLimits | None:
    given: dict[str, float] = {}
    if compiled.jnt_limited[j]:
        low, high = compiled.jnt_range[j].tolist()
        given = {"upper": high} if kind == BALL else {"lower": low, "upper": high}
    if compiled.jnt_actfrclimited[j]:
        given["force"] = max(map(abs, compiled.jnt_actfrcrange[j].tolist()))
    return JointLimits(**given) if given else None


def _belts(compiled: CompiledModel) -> dict[int, tuple[float, float]]:
    """Return the damping and friction of joints by tendons over them alone."""
    found: dict[int, tuple[float, float]] = {}
    for k in range(compiled.ntendon):
        if (single := single_joint(compiled, k)) is not None:
            joint, arm = single
            damping, friction = found.get(joint, (0.0, 0.0))
            damping += arm * arm * float(compiled.tendon_damping[k])
            friction += abs(arm) * float(compiled.tendon_frictionloss[k])
            found[joint] = (damping, friction)
    return found


def _passive(
    compiled: CompiledModel, j: int, kind: int, belt: tuple[float, float]
) -> JointPassive | None:
    dof, q = int(compiled.jnt_dofadr[j]), int(compiled.jnt_qposadr[j])
    damping = max(0.0, float(compiled.dof_damping[dof]))
    friction = max(0.0, float(compiled.dof_frictionloss[dof]))
    damping += belt[0]
    friction += belt[1]
    stiffness = max(0.0, float(compiled.jnt_stiffness[j]))
    if not (damping or friction or stiffness):
        return None
    rest: Any = 0.0
    if stiffness:
        numbers = compiled.qpos_spring[q : q + (7, 4, 1, 1)[kind]].tolist()
        # our free joint has the quaternion first
        rest = {FREE: (*numbers[3:], *numbers[:3]), BALL: tuple(numbers)}.get(kind, numbers[0])
    return JointPassive(damping, friction, stiffness, rest)


def _joints_that_drive(compiled: CompiledModel) -> list[int]:
    """Return the joints with negative damping, friction or stiffness."""
    found = []
    for j in range(compiled.njnt):
        dof = int(compiled.jnt_dofadr[j])
        own = compiled.dof_damping[dof], compiled.dof_frictionloss[dof], compiled.jnt_stiffness[j]
        if min(map(float, own)) < 0.0:
            found.append(j)
    return found


def _any_nonlinear(compiled: CompiledModel) -> bool:
    """Return whether joints have polynomial damping or stiffness (since MuJoCo 3.4)."""
    return any(
        getattr(compiled, table, None) is not None and bool(getattr(compiled, table).any())
        for table in ("dof_dampingpoly", "jnt_stiffnesspoly")
    )


def _inertia(compiled: CompiledModel, index: int) -> Inertia:
    """Return the inertia in body axes from that in principal axes."""
    mass = float(compiled.body_mass[index])
    a, b, c = compiled.body_inertia[index].tolist()
    if mass == 0.0 and a == b == c == 0.0:
        return Inertia()
    com = _vec3(compiled.body_ipos[index])
    R = pose_of(compiled.body_iquat[index]).rotation
    # MuJoCo rounds frames close to the body frame to the body frame
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


TRN_JOINT, TRN_JOINT_IN_PARENT, _TRN_SLIDER_CRANK, _TRN_TENDON, TRN_SITE = range(5)
"""Transmission types of MuJoCo (mjtTrn)."""

FIXED_GAIN = 0
"""Gain type of a force proportional to the control (mjtGain)."""

AFFINE_BIAS = 1
"""Bias type of a force that is linear in length and velocity (mjtBias)."""


def read_actuators(
    compiled: CompiledModel, names: Names, findings: Findings
) -> tuple[list[Actuator], list[Thruster]]:
    """Return motors and servos on joints, and thrusters that act at a site along one direction.

    Actuators with another law, such as muscles, keep their point of action and limits alone.
    """
    actuators: list[Actuator] = []
    thrusters: list[Thruster] = []
    others: list[str] = []
    for i in range(compiled.nu):
        kind, part = int(compiled.actuator_trntype[i]), int(compiled.actuator_trnid[i][0])
        if kind in (TRN_JOINT, TRN_JOINT_IN_PARENT) and _drives_single_axis(compiled, i, part):
            actuators.append(_motor(compiled, names, i, part, findings))
        elif kind == TRN_SITE and (thruster := _thruster(compiled, names, i, part)) is not None:
            thrusters.append(thruster)
        else:
            others.append(names.actuator(i))
    if others:
        findings.add(
            f"left out: {len(others)} actuators that are neither motors nor thrusters: "
            f"{listed(others)}"
        )
    laws = [
        names.actuator(i)
        for i in range(compiled.nu)
        if _has_law(compiled, i) and not _is_servo(compiled, i)
    ]
    kept = set(laws).difference(others)
    if kept:
        findings.add(
            f"left out: the control law of {len(kept)} muscles or actuators with dynamics, which "
            f"are actuators of forces here: {listed(sorted(kept))}"
        )
    return actuators, thrusters


MAX_LISTED = 6
"""Most names in a sentence."""


def listed(names: Sequence[str], *, quoted: bool = True) -> str:
    """Return names for a message."""
    more = f" and {len(names) - MAX_LISTED} more" if len(names) > MAX_LISTED else ""
    return ", ".join(map(repr if quoted else str, names[:MAX_LISTED])) + more


def _has_law(compiled: CompiledModel, i: int) -> bool:
    """Return whether the force of an actuator is not its control times a constant."""
    kinds = ("actuator_gaintype", "actuator_biastype", "actuator_dyntype")
    return any(int(getattr(compiled, kind)[i]) != FIXED_GAIN for kind in kinds)


def _is_servo(compiled: CompiledModel, i: int) -> bool:
    """Return whether the force of an actuator is linear in control, position and velocity.

    Position and velocity act against the motion: with other signs it would be unstable.
    """
    affine = int(compiled.actuator_biastype[i]) == AFFINE_BIAS
    plain = not int(compiled.actuator_gaintype[i]) and not int(compiled.actuator_dyntype[i])
    slopes = compiled.actuator_biasprm[i][1:3]
    return affine and plain and bool((slopes <= 0.0).all())


def _drives_single_axis(compiled: CompiledModel, i: int, joint: int) -> bool:
    """Return whether an actuator drives a single-axis joint with a non-zero gear."""
    one = int(compiled.jnt_type[joint]) in (SLIDE, HINGE)
    return one and float(compiled.actuator_gear[i][0]) != 0.0


def _motor(
    compiled: CompiledModel, names: Names, i: int, joint: int, findings: Findings
) -> Actuator:
    ratio = float(compiled.actuator_gear[i][0])
    low, high = _range(compiled, i)
    # force limits at the joint, after the gear
    at_joint = sorted((ratio * low, ratio * high))
    own = getattr(compiled, "actuator_armature", None)
    return Actuator(
        names.actuator(i),
        names.joint(joint),
        ratio,
        force_limits=_within_joint(compiled, names, i, joint, at_joint, findings),
        rotor_inertia=0.0 if own is None else float(own[i]),
        servo=_servo(compiled, names, i, ratio) if _is_servo(compiled, i) else None,
    )


def _within_joint(
    compiled: CompiledModel,
    names: Names,
    i: int,
    joint: int,
    limits: Sequence[float],
    findings: Findings,
) -> tuple[float, float]:
    """Return the force limits of an actuator within those of all actuators of its joint."""
    low, high = limits
    if not compiled.jnt_actfrclimited[joint]:
        return low, high
    on_joint = np.isin(compiled.actuator_trntype[: compiled.nu], (TRN_JOINT, TRN_JOINT_IN_PARENT))
    if (on_joint & (compiled.actuator_trnid[: compiled.nu, 0] == joint)).sum() > 1:
        findings.add(
            f"actuator {names.actuator(i)!r}: expected one actuator on joint "
            f"{names.joint(joint)!r}, whose actuatorfrcrange limits their sum; here it limits each"
        )
    least, most = compiled.jnt_actfrcrange[joint].tolist()
    low, high = (min(max(x, least), most) for x in (low, high))
    return low, high


def _servo(compiled: CompiledModel, names: Names, i: int, ratio: float) -> Servo:
    """Return the feedback of an actuator, whose command is MuJoCo's control.

    Its length is that of the gear: ratio times the position of the joint.
    """
    constant, length, velocity = compiled.actuator_biasprm[i][:3].tolist()
    limits = (-math.inf, math.inf)
    if compiled.actuator_ctrllimited[i]:
        a, b = compiled.actuator_ctrlrange[i].tolist()
        limits = (a, b)
    controls = compiled.key_ctrl.reshape(compiled.nkey, compiled.nu)
    return Servo(
        # zeros without a sign
        stiffness=0.0 - ratio * ratio * length,
        damping=0.0 - ratio * ratio * velocity,
        gain=ratio * float(compiled.actuator_gainprm[i][0]),
        bias=ratio * constant,
        command_limits=limits,
        set_points={
            names.key(k): float(controls[k, i]) for k in range(compiled.nkey) if controls[k, i]
        },
    )


def _thruster(compiled: CompiledModel, names: Names, i: int, site: int) -> Thruster | None:
    """Return a thruster with a direction fixed to a site and its propeller torque."""
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
        # a propeller has no moment across its thrust
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


def _range(compiled: CompiledModel, i: int) -> tuple[float, float]:
    """Return the force limits before the gear."""
    if not compiled.actuator_forcelimited[i]:
        return -math.inf, math.inf
    low, high = compiled.actuator_forcerange[i].tolist()
    return low, high


EQ_CONNECT, EQ_WELD, EQ_JOINT, EQ_TENDON = range(4)
"""Equality types of MuJoCo (mjtEq) that are supported."""

OBJ_SITE = 6
"""Object type of sites in MuJoCo (mjtObj)."""

WRAP_JOINT = 1
"""Wrap type of fixed tendons (mjtWrap)."""


Couplings = dict[str, tuple[str | None, float, float]]
"""Leader, ratio and offset by joint; a leader may be coupled itself, None means a constant."""


class _Equality(NamedTuple):
    """Equality of joints: position = polynomial in the leader's position."""

    name: str
    joint: str
    leader: str | None
    coefficients: tuple[float, ...]


def read_equalities(
    compiled: CompiledModel, names: Names, bodies: Sequence[Body], findings: Findings
) -> tuple[list[Body], list[Closure]]:
    """Return the bodies with coupled joints eliminated, and the remaining closures."""
    loops: list[Closure] = []
    ties: list[_Equality] = []
    tendons: list[int] = []
    others: list[str] = []
    for i in range(compiled.neq):
        if not compiled.eq_active0[i]:
            continue
        kind = int(compiled.eq_type[i])
        if kind in (EQ_CONNECT, EQ_WELD):
            loops.append(_loop(compiled, names, i))
        elif kind == EQ_JOINT:
            ties.append(_joint_equality(compiled, names, i))
        elif kind == EQ_TENDON and all(map(partial(_is_fixed, compiled), _tendons(compiled, i))):
            tendons.append(i)
        else:
            others.append(names.equality(i))
    if others:
        findings.add(
            f"left out: {len(others)} equalities of spatial tendons or flexible parts: "
            f"{listed(others)}"
        )
    reduced, kept, couplings = _reduce(list(bodies), ties)
    loops += [JointCoupling(*tie, may_start_open=True) for tie in kept]
    for i in tendons:
        tie = _tendon_coupling(compiled, names, i, couplings)
        if tie is None:
            findings.add(f"left out: the equality {names.equality(i)!r}: its joints are fixed")
        else:
            loops.append(tie)
    return reduced, loops


def unsupported_tendons(compiled: CompiledModel) -> list[int]:
    """Return the tendons that a model cannot represent.

    All but fixed ones in equalities, and those over one joint whose damping, friction and armature
    are those of the joint.
    """
    tied: set[int] = set()
    for i in range(compiled.neq):
        if compiled.eq_active0[i] and int(compiled.eq_type[i]) == EQ_TENDON:
            tied.update(_tendons(compiled, i))
    passive = (compiled.tendon_stiffness != 0.0) | (compiled.tendon_limited != 0)
    shared = (compiled.tendon_damping != 0.0) | (compiled.tendon_frictionloss != 0.0)
    if hasattr(compiled, "tendon_armature"):
        shared |= compiled.tendon_armature != 0.0
    found = []
    for k in range(compiled.ntendon):
        # damping, friction and armature of a tendon over one joint are those of the joint
        is_single = single_joint(compiled, k) is not None
        kept = k in tied or (is_single and shared[k])
        if not kept or passive[k] or (shared[k] and not is_single) or not _is_fixed(compiled, k):
            found.append(k)
    return found


def _tendons(compiled: CompiledModel, i: int) -> list[int]:
    """Return the one or two tendons of an equality."""
    both = (int(compiled.eq_obj1id[i]), int(compiled.eq_obj2id[i]))
    return [tendon for tendon in both if tendon >= 0]


def _is_fixed(compiled: CompiledModel, tendon: int) -> bool:
    """Return whether the length of a tendon is a sum of joint positions."""
    return bool((compiled.wrap_type[_wraps(compiled, tendon)] == WRAP_JOINT).all())


def _wraps(compiled: CompiledModel, tendon: int) -> slice:
    start = int(compiled.tendon_adr[tendon])
    return slice(start, start + int(compiled.tendon_num[tendon]))


def _arms(
    compiled: CompiledModel, names: Names, tendon: int, couplings: Couplings
) -> tuple[dict[str, float], float]:
    """Return the moment arms of independent joints on a tendon, and its constant length."""
    own = _wraps(compiled, tendon)
    found: dict[str, float] = {}
    constant = 0.0
    for joint, arm in zip(compiled.wrap_objid[own], compiled.wrap_prm[own], strict=True):
        leader, ratio, offset = _root(couplings, names.joint(int(joint)))
        constant += float(arm) * offset
        if leader is not None:
            found[leader] = found.get(leader, 0.0) + float(arm) * ratio
    return found, constant


def _tendon_coupling(
    compiled: CompiledModel, names: Names, i: int, couplings: Couplings
) -> TendonCoupling | None:
    """Return l1 - l1_0 = p(l2 - l2_0) between tendon lengths; None if they are constant."""
    tendon, *others = _tendons(compiled, i)
    arms, constant = _arms(compiled, names, tendon, couplings)
    start = float(compiled.tendon_length0[tendon]) - constant
    coefficients = compiled.eq_data[i][:5].tolist()
    leader_arms: dict[str, float] = {}
    powers: tuple[float, ...] = (coefficients[0],)
    if others:
        leader_arms, constant = _arms(compiled, names, others[0], couplings)
        powers = _shifted(coefficients, float(compiled.tendon_length0[others[0]]) - constant)
    if len(powers) == 1 or not any(leader_arms.values()):
        leader_arms, powers = {}, powers[:1]
    if not any(arms.values()):
        return None
    return TendonCoupling(
        names.equality(i),
        tuple(arms),
        tuple(arms.values()),
        leaders=tuple(leader_arms),
        leader_arms=tuple(leader_arms.values()),
        coefficients=(powers[0] + start, *powers[1:]),
        may_start_open=True,
    )


def _loop(compiled: CompiledModel, names: Names, i: int) -> LoopClosure:
    """Return a closure between two bodies or sites."""
    name = names.equality(i)
    on_sites = int(compiled.eq_objtype[i]) == OBJ_SITE
    place = names.site if on_sites else names.body
    first = place(int(compiled.eq_obj1id[i]))
    second = place(int(compiled.eq_obj2id[i])) if int(compiled.eq_obj2id[i]) >= 0 else WORLD
    data = compiled.eq_data[i]
    if on_sites:
        # sites coincide as points or frames
        pose, second_pose = Pose(), Pose()
    elif int(compiled.eq_type[i]) == EQ_CONNECT:
        pose, second_pose = Pose(translation=data[0:3]), Pose(translation=data[3:6])
    else:
        pose = pose_of(data[6:10], data[3:6])
        second_pose = Pose(translation=data[0:3])
    kind = Spherical if int(compiled.eq_type[i]) == EQ_CONNECT else Fixed
    return LoopClosure(name, first, second, kind(name, pose=pose), second_pose, may_start_open=True)


def _joint_equality(compiled: CompiledModel, names: Names, i: int) -> _Equality:
    """Return q1 = q1_0 + p(q2 - q2_0) as a polynomial in q2."""
    first, second = int(compiled.eq_obj1id[i]), int(compiled.eq_obj2id[i])
    coefficients = compiled.eq_data[i][:5].tolist()
    start = float(compiled.qpos0[compiled.jnt_qposadr[first]])
    if second < 0:
        return _Equality(names.equality(i), names.joint(first), None, (start + coefficients[0],))
    shift = float(compiled.qpos0[compiled.jnt_qposadr[second]])
    powers = list(_shifted(coefficients, shift))
    powers[0] += start
    return _Equality(names.equality(i), names.joint(first), names.joint(second), tuple(powers))


def _shifted(coefficients: Sequence[float], shift: float) -> tuple[float, ...]:
    """Expand a polynomial in x - shift into one in x by Horner's rule."""
    powers = [0.0]
    for c in reversed(coefficients):
        moved = [0.0, *powers]
        for k, p in enumerate(powers):
            moved[k] -= shift * p
        moved[0] += c
        powers = moved
    while len(powers) > 1 and powers[-1] == 0.0:
        powers.pop()
    return tuple(powers)


def _reduce(
    bodies: list[Body], ties: list[_Equality]
) -> tuple[list[Body], list[_Equality], Couplings]:
    """Eliminate linearly coupled joints; return bodies, remaining equalities and couplings."""
    where = {body.joint.name: i for i, body in enumerate(bodies)}
    couplings: Couplings = {}
    kept: list[_Equality] = []
    for tie in ties:
        joint = bodies[where[tie.joint]].joint
        leads = None if tie.leader is None else bodies[where[tie.leader]].joint
        linear = len(tie.coefficients) <= 2 and isinstance(joint, Revolute | Prismatic)
        single = leads is None or isinstance(leads, Revolute | Prismatic)
        if not (linear and single) or tie.joint in couplings:
            kept.append(tie)
            continue
        offset, ratio = (*tie.coefficients, 0.0)[:2]
        root, r, o = _root(couplings, tie.leader if ratio else None)
        if root == tie.joint:
            # a cycle of equalities has no leader
            kept.append(tie)
            continue
        couplings[tie.joint] = (root, ratio * r, offset + ratio * o)
    for name in couplings:
        leader, ratio, offset = _resolved(couplings, name)
        body = bodies[where[name]]
        bodies[where[name]] = replace(body, joint=_reduced(body.joint, leader, ratio, offset))
    return bodies, kept, couplings


def _root(couplings: Couplings, name: str | None) -> tuple[str | None, float, float]:
    """Return the independent leader of a joint, with ratio and offset."""
    ratio, offset = 1.0, 0.0
    while name in couplings:
        name, r, o = couplings[name]
        offset += ratio * o
        ratio *= r
    return name, ratio, offset


def _resolved(couplings: Couplings, name: str) -> tuple[str | None, float, float]:
    leader, ratio, offset = couplings[name]
    root, r, o = _root(couplings, leader)
    return root, ratio * r, offset + ratio * o


def _reduced(joint: Joint, leader: str | None, ratio: float, offset: float) -> Joint:
    """Return the joint with its coordinate eliminated."""
    assert isinstance(joint, Revolute | Prismatic)
    if leader is None:
        return joint.locked((offset,))
    moves = type(joint)(f"{joint.name}_motion", joint.axis, joint.offset)
    return Coupled(
        joint.name,
        moves,
        leader,
        ratio,
        offset,
        pose=joint.pose,
        limits=joint.limits,
        passive=joint.passive,
        armature=joint.armature,
    )


CHECKED_ARRAYS = (
    *("body_pos", "body_quat", "body_ipos", "body_iquat", "body_mass", "body_inertia"),
    *("jnt_pos", "jnt_axis", "jnt_stiffness", "dof_armature", "dof_damping", "dof_frictionloss"),
    *("qpos0", "qpos_spring", "key_qpos", "geom_pos", "geom_quat", "geom_size", "geom_fluid"),
    *("site_pos", "site_quat", "eq_data", "actuator_gear", "actuator_gainprm", "mesh_pos"),
    *("mesh_quat", "mesh_scale", "geom_friction", "pair_friction", "hfield_size", "hfield_data"),
    *("body_gravcomp", "actuator_biasprm", "key_ctrl"),
)
"""Arrays of a compiled model that are used, and checked for absurd values."""


def read_mjcf(
    path: Path, package_paths: Iterable[str | Path] = (), root: str | Path | None = None
) -> Model:
    """Read a robot from an MJCF file.

    Args:
        path: The file.
        package_paths: Folders for included files and meshes, in addition to that of the file.
        root: Folder above the file up to which it may name files; that of its package by default.

    Returns:
        The robot. Its `poses` contain the keyframes, and "initial" if MuJoCo's `qpos0` is not the
        neutral configuration.

    Raises:
        ModelFileError: If the file cannot be read; the message names file, line where known,
            element and cure.

    Warns:
        ModelWarning: If an element that acts on the robot cannot be represented.
    """
    budget = Budget(str(path))
    compiled = read_compiled(path, package_paths, budget, root)
    findings = Findings(budget.file)
    names = Names(compiled)
    _check_magnitudes(compiled, budget.file)
    try:
        meshes = mesh_paths(compiled, names, path)
        _check_depth(compiled, names, budget)
        parts = _parts(compiled, names, budget.file)
        shapes = read_shapes(compiled, names, meshes)
        bodies = read_bodies(compiled, names, shapes, parts, findings)
        budget.check_time()
        bodies, loops = read_equalities(compiled, names, bodies, findings)
        frames = [
            Frame(
                names.site(i),
                names.body(compiled.site_bodyid[i]),
                pose_of(compiled.site_quat[i], compiled.site_pos[i]),
            )
            for i in range(compiled.nsite)
        ]
        actuators, thrusters = read_actuators(compiled, names, findings)
        model = lenient_model(
            budget.file,
            _model_name(compiled.texts["model"], path),
            bodies,
            findings=findings,
            frames=frames,
            loops=loops,
            actuators=actuators,
            thrusters=thrusters,
            contact_pairs=read_contact_pairs(compiled, names, shapes.get(0, ()), findings),
            poses=read_positions(compiled, names, bodies),
        )
    except ModelFileError:
        raise
    except ModelError as error:
        raise ModelFileError(budget.file, str(error), name=error.name) from error
    budget.check_time()
    _note_losses(compiled, names, findings)
    _note_shapes(compiled, meshes, findings)
    findings.warn()
    return model


def read_mjcf_world(
    path: Path, package_paths: Iterable[str | Path] = (), root: str | Path | None = None
) -> World:
    """Read the world of an MJCF file: gravity, ground and fluid.

    Args:
        path: The file.
        package_paths: As in `read_mjcf`.
        root: As in `read_mjcf`.

    Raises:
        ModelFileError: If the file cannot be read.

    Warns:
        ModelWarning: If the ground cannot be represented.
    """
    budget = Budget(str(path))
    compiled = read_compiled(path, package_paths, budget, root)
    _check_magnitudes(compiled, budget.file)
    findings = Findings(budget.file)
    try:
        world = world_of(compiled, findings)
    except ModelError as error:
        raise ModelFileError(budget.file, str(error), name=error.name) from error
    findings.warn()
    return world


def ground_of(compiled: CompiledModel, findings: Findings) -> Ground | None:
    """Return the ground of a model: a level plane or a height field that is fixed.

    Other planes are shapes of their bodies, those of the world body of the robot's `FIXTURE`.
    """
    ground = ground_geom(compiled)
    for i in sorted(touching_geoms(compiled)):
        kind = int(compiled.geom_type[i])
        if kind == HEIGHT_FIELD and i != ground:
            findings.add(
                f"left out: the height field of {geom_words(compiled, i)}; a world has one, along "
                "its axes"
            )
    if ground is None:
        return None
    x, y, z = static_pose(compiled, ground).translation
    surface = _surface(compiled, ground)
    grid = None
    if int(compiled.geom_type[ground]) == HEIGHT_FIELD:
        grid = _grid(compiled, int(compiled.geom_dataid[ground]), x, y)
    bits = read_bits(compiled).get(ground)
    return Ground(
        z,
        grid,
        static_friction=surface.static_friction,
        contact_bits=bits,
        friction_rule=surface.friction_rule,
        torsional_friction=surface.torsional_friction,
        rolling_friction=surface.rolling_friction,
    )


def _grid(compiled: CompiledModel, field: int, x: float, y: float) -> GroundGrid:
    """Return a height field around a place; MuJoCo's rows run along y, its columns along x."""
    rows, columns = int(compiled.hfield_nrow[field]), int(compiled.hfield_ncol[field])
    half_x, half_y, elevation, _ = compiled.hfield_size[field].tolist()
    start = int(compiled.hfield_adr[field])
    data = np.asarray(compiled.hfield_data[start : start + rows * columns], dtype=np.float64)
    heights = elevation * data.reshape(rows, columns).T
    spacing = 2.0 * half_x / (columns - 1), 2.0 * half_y / (rows - 1)
    return GroundGrid(spacing, tuple(map(tuple, heights.tolist())), (x - half_x, y - half_y))


def world_of(compiled: CompiledModel, findings: Findings) -> World:
    """Return the world of a model."""
    x, y, z = compiled.opt_gravity.tolist()
    density, viscosity = float(compiled.opt_density), float(compiled.opt_viscosity)
    fluid = None
    if density > 0.0 or viscosity > 0.0:
        wx, wy, wz = compiled.opt_wind.tolist()
        fluid = Water(density, (wx, wy, wz), viscosity)
    return World(gravity=(x, y, z), ground=ground_of(compiled, findings), fluid=fluid)


def _model_name(given: str, path: Path) -> str:
    """Return the name of a model; the file name instead of MuJoCo's default."""
    name = given.strip()
    return path.stem if name in ("", "MuJoCo Model") else name


def _check_magnitudes(compiled: CompiledModel, file: str) -> None:
    """Raise for values whose products would overflow; MuJoCo accepts any."""
    for table in CHECKED_ARRAYS:
        numbers = np.asarray(getattr(compiled, table), dtype=np.float64)
        if not (np.abs(numbers) < MAX_MAGNITUDE).all():
            raise ModelFileError(
                file,
                f"values must be finite and below {MAX_MAGNITUDE:g}, got larger ones in MuJoCo's "
                f"{table}; correct the units",
            )
    options = [compiled.opt_density, compiled.opt_viscosity, *compiled.opt_gravity]
    if not max(map(abs, options)) < MAX_MAGNITUDE:
        raise ModelFileError(
            file, f"options must be below {MAX_MAGNITUDE:g}, got more; correct them"
        )


def _check_depth(compiled: CompiledModel, names: Names, budget: Budget) -> None:
    """Raise for trees that are too deep."""
    depth = [0] * compiled.nbody
    for i, parent in enumerate(compiled.body_parentid.tolist()[1:], start=1):
        depth[i] = depth[parent] + max(1, int(compiled.body_jntnum[i]))
        budget.check_depth(depth[i], names.body(i))


def _parts(compiled: CompiledModel, names: Names, file: str) -> dict[int, FilePart]:
    """Return the position of each body in the file."""
    return {
        int(i): FilePart(file, line, f"body {names.body(int(i))!r}")
        for i, line in compiled.texts["lines"].items()
    }


def _note_losses(compiled: CompiledModel, names: Names, findings: Findings) -> None:
    """Warn about elements that act on the robot and cannot be represented."""
    tendons = [names.tendon(k) for k in unsupported_tendons(compiled)]
    mocap = [names.body(int(i)) for i in np.flatnonzero(compiled.body_mocapid >= 0)]
    for found, words in [(tendons, "tendons"), (mocap, "mocap bodies, which are fixed here")]:
        if found:
            findings.add(
                f"left out: {len(found)} {words}; models do not support them: {listed(found)}"
            )
    if compiled.nflex:
        findings.add(f"left out: {compiled.nflex} flexible parts; models do not support them")


def _note_shapes(compiled: CompiledModel, meshes: Mapping[int, str], findings: Findings) -> None:
    """Warn about geometries that touch others in MuJoCo, and have no shape here."""
    # `load_world` reports height fields
    lost = [
        geom_words(compiled, i)
        for i in sorted(touching_geoms(compiled))
        if compiled.geom_type[i] != HEIGHT_FIELD and _geometry(compiled, i, meshes) is None
    ]
    if lost:
        findings.add(
            f"left out: {len(lost)} geometries that touch others, of meshes without a file of "
            f"their own or of distance fields: {listed(lost, quoted=False)}"
        )


INITIAL = "initial"
"""Name of MuJoCo's initial configuration, `qpos0`."""

Positions = dict[str, tuple[float, ...]]
"""Joint positions by joint name."""


def read_positions(
    compiled: CompiledModel, names: Names, bodies: Sequence[Body]
) -> dict[str, Positions]:
    """Return the named configurations of a file, by joint.

    Coupled joints have no coordinate of their own and are omitted.
    """
    joints = {body.joint.name: body.joint for body in bodies if body.joint.nq > 0}
    found: dict[str, Positions] = {}
    start = _positions(compiled, names, set(joints), compiled.qpos0)
    if any(numbers != joints[name].neutral() for name, numbers in start.items()):
        found[INITIAL] = start
    for i in range(compiled.nkey):
        key = _positions(compiled, names, set(joints), compiled.key_qpos[i])
        found.setdefault(names.key(i), key)
    return found


def _positions(compiled: CompiledModel, names: Names, joints: set[str], qpos: Any) -> Positions:
    """Return MuJoCo's qpos by joint, in our coordinate order."""
    found: Positions = {}
    for j in range(compiled.njnt):
        name, kind = names.joint(j), int(compiled.jnt_type[j])
        if name in joints:
            start = int(compiled.jnt_qposadr[j])
            numbers = qpos[start : start + (7, 4, 1, 1)[kind]].tolist()
            # our free joint has the quaternion before the position
            found[name] = tuple(numbers[3:] + numbers[:3] if kind == FREE else numbers)
    return found
