"""Geometry of a compiled MuJoCo model: what bodies look like, and how they meet a fluid."""

import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.arrays import NDArray
from tiburon.formats.mjcf_names import Names, pose_of
from tiburon.model import (
    BodyFluid,
    BoxDrag,
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidDrag,
    EllipsoidShape,
    MeshShape,
    PlaneShape,
    Pose,
    Shape,
    SphereShape,
)
from tiburon.model.body import Geometry
from tiburon.model.value_checks import Vec3

PLANE, HEIGHT_FIELD, SPHERE, CAPSULE, ELLIPSOID, CYLINDER, BOX, MESH = range(8)
"""MuJoCo's numbers of geometry kinds (mjtGeom)."""

HIDDEN_GROUP = 3
"""Groups from this number on are not drawn unless asked for: by habit, collision geometry."""


def mesh_paths(spec: Any, compiled: Any, names: Names, path: Path) -> dict[int, str]:
    """Return the files of meshes by number; meshes written out in the model have none.

    Args:
        spec: The `MjSpec` that was compiled.
        compiled: An `MjModel`.
        names: Of its parts.
        path: The model's file.
    """
    files: dict[str, str] = {}
    for mesh in spec.meshes:
        if not mesh.file:
            continue
        folder = getattr(getattr(mesh, "compiler", spec), "meshdir", "") or ""
        name = Path(mesh.file).name if spec.strippath else mesh.file
        # from the root, as the current folder may be another one when it is used
        place = os.path.abspath(path.parent / folder / name)
        files[mesh.name or Path(mesh.file).stem] = place
    numbered = ((i, files.get(names.mesh(i))) for i in range(compiled.nmesh))
    return {i: file for i, file in numbered if file is not None}


def read_shapes(compiled: Any, names: Names, meshes: Mapping[int, str]) -> dict[int, list[Shape]]:
    """Return the shapes of all bodies by their number; those of the world belong to no body.

    Height fields and signed distance fields have no counterpart and are left out.
    """
    shapes: dict[int, list[Shape]] = {}
    for i in range(compiled.ngeom):
        body = int(compiled.geom_bodyid[i])
        geometry = _geometry(compiled, i, meshes) if body else None
        if geometry is None:
            continue
        pose = pose_of(compiled.geom_quat[i], compiled.geom_pos[i])
        if isinstance(geometry, MeshShape):
            # MuJoCo turns a mesh into its principal axes; the file has it as it was
            mesh = int(compiled.geom_dataid[i])
            pose = pose @ pose_of(compiled.mesh_quat[mesh], compiled.mesh_pos[mesh]).inverse()
        touches = bool(compiled.geom_contype[i] or compiled.geom_conaffinity[i])
        drawn = int(compiled.geom_group[i]) < HIDDEN_GROUP
        role = "both" if touches and drawn else "collision" if touches else "visual"
        shapes.setdefault(body, []).append(
            Shape(geometry, pose, role, _color(compiled, i), names.geom(i))
        )
    return shapes


def _geometry(compiled: Any, i: int, meshes: Mapping[int, str]) -> Geometry | None:
    """Return the geometry in our measures: whole lengths where MuJoCo has halves."""
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
        return MeshShape(meshes[mesh], (x, y, z))
    return None


def _color(compiled: Any, i: int) -> tuple[float, float, float, float]:
    material = int(compiled.geom_matid[i])
    rgba = compiled.geom_rgba[i] if material < 0 else compiled.mat_rgba[material]
    r, g, b, a = np.clip(rgba, 0.0, 1.0).tolist()
    return (r, g, b, a)


def read_fluid(compiled: Any, body: int) -> BodyFluid | None:
    """Return what a fluid needs to know of a body, if the file fills the world with one.

    MuJoCo has no buoyancy, so no volume is given. Its two models become ours so: the box with the
    body's inertia is a `BoxDrag` of coefficients 1 with the viscous resistance of a ball of its
    mean size; an ellipsoid is an `EllipsoidDrag` with the resistance MuJoCo gives it along each of
    its axes, and MuJoCo's added mass at the file's density.
    """
    density, viscosity = float(compiled.opt.density), float(compiled.opt.viscosity)
    if density <= 0.0 and viscosity <= 0.0:
        return None
    first = int(compiled.body_geomadr[body])
    geometries = range(first, first + int(compiled.body_geomnum[body]))
    immersed = [i for i in geometries if compiled.geom_fluid[i][0] > 0.0]
    if immersed:
        return _ellipsoids(compiled, immersed, density, viscosity)
    return _inertia_box(compiled, body, density, viscosity)


def _ellipsoids(compiled: Any, immersed: list[int], density: float, viscosity: float) -> BodyFluid:
    added, damping = np.zeros((6, 6)), np.zeros((6, 6))
    drag: list[EllipsoidDrag] = []
    for i in immersed:
        _, blunt, slender, *_ = compiled.geom_fluid[i].tolist()
        pose = pose_of(compiled.geom_quat[i], compiled.geom_pos[i])
        radii = _semi_axes(compiled, i)
        a, b, c = radii
        shadows = (b * c, c * a, a * b)
        # MuJoCo: force = density |v| v (blunt A + slender (largest A - A)), without the half
        x, y, z = (2.0 * (blunt + slender * (max(shadows) / s - 1.0)) for s in shadows)
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


def _inertia_box(compiled: Any, body: int, density: float, viscosity: float) -> BodyFluid | None:
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
        # viscous resistance in a fluid without density holds as it stands
        reference_density=density or None,
    )


def _semi_axes(compiled: Any, i: int) -> Vec3:
    """Return the half axes of the ellipsoid MuJoCo takes for a geometry."""
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
    """Return the viscous resistance of a ball to turning and moving (Stokes), shape (6, 6)."""
    turning, moving = math.pi * diameter**3, 3.0 * math.pi * diameter
    return viscosity * np.diag([turning] * 3 + [moving] * 3)


def _to_body(matrix: NDArray[np.float64], pose: Pose) -> NDArray[np.float64]:
    """Return a resistance or inertia of a frame as seen from the body, shape (6, 6)."""
    E, (x, y, z) = np.array(pose.rotation).T, pose.translation
    cross = np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    X = np.block([[E, np.zeros((3, 3))], [-E @ cross, E]])
    product: NDArray[np.float64] = X.T @ matrix @ X
    return 0.5 * (product + product.T)
