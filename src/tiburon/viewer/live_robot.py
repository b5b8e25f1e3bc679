"""A robot in the live scene: its solids as triangle meshes, and its overlays.

Meshes of solids have slightly rounded edges and shared vertices, so that averaged normals shade
faces flat and edges smooth.
"""

from collections.abc import Mapping
from typing import Any

import numpy as np

from tiburon.arrays import NDArray
from tiburon.viewer.scene import Color, Mesh, Scene, ScenePart

__all__ = ["LiveRobot", "box", "center_mark", "lathe", "sphere", "surface_of", "thruster"]

Array = NDArray[np.float64]

OTHER_CASES_OPACITY = 0.18
"""Opacity of all cases of a batch but the first."""

SCALE_STEP = 0.005
"""Relative size step between overlapping solids of adjacent links, whose coincident surfaces would
flicker otherwise."""

TRAIL_POINTS = 240
"""Points of a trail."""

FORCE_COLOR, MOMENT_COLOR, THRUST_COLOR = (240, 100, 10), (130, 70, 215), (236, 160, 0)
"""Colors of arrows."""

TRAIL_COLORS = ((242, 177, 52), (229, 72, 77))
"""Colors of the trails of the first and the last body."""


CIRCLE_SEGMENTS = 36
"""Segments of a circle."""

EDGE_SEGMENTS = 4
"""Segments of a rounded edge."""

PLANE_HALF_LENGTH = 20.0
"""Half the edge length of an infinite plane in the drawing [m]."""


class LiveRobot:
    """The scene nodes of one robot.

    Attributes:
        scene: The robot's scene.
        cases: Number of cases; the first is solid.
        center: Center of mass of the first case, world axes [m], shape (3,).
        poses: Displayed poses of the bodies of the first case, shape (bodies, 7).
    """

    def __init__(
        self, api: Any, root: str, scene: Scene, *, cases: int = 1, color: Color | None = None
    ) -> None:
        self.scene = scene
        self.cases = cases
        self.center = np.zeros(3)
        self.poses = np.zeros((len(scene.bodies), 7))
        self._api = api
        self._root = root
        self._places = {body.name: number for number, body in enumerate(scene.bodies)}
        self._last = np.full((cases, len(scene.bodies), 7), np.nan)
        self._shown = [True] * cases
        self._largest = {"force": 0.0, "moment": 0.0, "thrust": 0.0}
        self._cases = [api.add_frame(f"{root}/case {k}", show_axes=False) for k in range(cases)]
        surfaces = [[surface_of(part) for part in body.parts] for body in scene.bodies]
        self._bodies = [
            self._build_case(f"{root}/case {k}", surfaces, color, ghost=k > 0) for k in range(cases)
        ]
        self._build_thrusters()
        self.kinds: dict[str, list[Any]] = {
            "frames": [],
            "labels": [],
            "centers": self._build_centers(),
            "forces": [],
            "trails": [],
        }
        self._build_frames()
        self._arrows = {
            kind: self._build_arrows(kind, shade)
            for kind, shade in (
                ("force", FORCE_COLOR),
                ("moment", MOMENT_COLOR),
                ("thrust", THRUST_COLOR),
            )
        }
        self._trails = [self._build_trail(k, shade) for k, shade in enumerate(TRAIL_COLORS)]
        self._on = dict.fromkeys(self.kinds, False)
        for kind in self.kinds:
            self.show(kind, False)

    # -- construction ------------------------------------------------------------------------------

    def _build_case(
        self, root: str, surfaces: list[list[Mesh]], color: Color | None, *, ghost: bool
    ) -> list[Any]:
        nodes = []
        for number, body in enumerate(self.scene.bodies):
            name = f"{root}/{number}"
            nodes.append(
                self._api.add_frame(
                    name,
                    show_axes=False,
                    axes_length=0.11 * self.scene.size,
                    axes_radius=0.0025 * self.scene.size,
                )
            )
            for k, part in enumerate(body.parts):
                shade = part.color if color is None else color
                opacity = OTHER_CASES_OPACITY if ghost else shade[3]
                self._add_surface(
                    f"{name}/part {k}",
                    surfaces[number][k],
                    shade,
                    opacity=None if opacity >= 1.0 else opacity,
                    # vertices of files are merged: flat shading keeps their edges
                    flat_shading=part.kind == "mesh",
                    cast_shadow=not ghost and part.kind != "plane",
                    receive_shadow=not ghost,
                    scale=1.0 + SCALE_STEP * ((number + 3 * k) % 7),
                    position=part.position,
                    wxyz=part.quaternion,
                )
        return nodes

    def _add_surface(self, name: str, mesh: Mesh, color: tuple[float, ...], **options: Any) -> Any:
        shade = tuple(round(255 * part) for part in color[:3])
        return self._api.add_mesh_simple(
            name, mesh.vertices, mesh.triangles, color=shade, **options
        )

    def _carrier(self, body: str) -> str:
        """Return the node of a body, or of the world."""
        case = f"{self._root}/case 0"
        return f"{case}/{self._places[body]}" if body in self._places else case

    def _build_thrusters(self) -> None:
        for number, item in enumerate(self.scene.thrusters):
            name = f"{self._carrier(item.body)}/thruster {number}"
            self._api.add_frame(
                name, show_axes=False, position=item.position, wxyz=_along(item.direction)
            )
            duct, propeller = thruster(item.radius)
            self._add_surface(f"{name}/duct", duct, (0.14, 0.16, 0.18))
            self._add_surface(f"{name}/propeller", propeller, (0.85, 0.63, 0.23))

    def _build_frames(self) -> None:
        self.kinds["frames"].extend(self._bodies[0])
        size = self.scene.size
        for number, body in enumerate(self.scene.bodies):
            label = self._api.add_label(f"{self._root}/case 0/{number}/label", body.name)
            self.kinds["labels"].append(label)
        for number, frame in enumerate(self.scene.frames):
            name = f"{self._carrier(frame.body)}/frame {number}"
            node = self._api.add_frame(
                name,
                axes_length=0.11 * size,
                axes_radius=0.0025 * size,
                position=frame.position,
                wxyz=frame.quaternion,
            )
            self.kinds["frames"].append(node)
            self.kinds["labels"].append(self._api.add_label(f"{name}/label", frame.name))

    def _build_centers(self) -> list[Any]:
        nodes = []
        for name, dark in (("mass", (0.08, 0.10, 0.11)), ("buoyancy", (0.08, 0.47, 0.84))):
            at = f"{self._root}/center of {name}"
            nodes.append(self._api.add_frame(at, show_axes=False))
            parts = center_mark(0.04 * self.scene.size)
            for k, (mesh, color) in enumerate(zip(parts, ((1.0, 1.0, 1.0), dark), strict=True)):
                self._add_surface(f"{at}/{k}", mesh, color, cast_shadow=False)
        return nodes

    def _build_arrows(self, kind: str, color: tuple[int, int, int]) -> Any:
        size = self.scene.size
        node = self._api.add_arrows(
            f"{self._root}/arrows of {kind}",
            np.array([[[0, 0, 0], [0, 0, size]]], dtype=np.float32),
            color,
            shaft_radius=0.011 * size,
            head_radius=0.03 * size,
            head_length=0.08 * size,
            visible=False,
        )
        self.kinds["forces"].append(node)
        return node

    def _build_trail(self, number: int, color: tuple[int, int, int]) -> Any:
        node = self._api.add_line_segments(
            f"{self._root}/trail {number}",
            np.zeros((TRAIL_POINTS - 1, 2, 3), dtype=np.float32),
            color,
            thickness=2.5,
            thickness_units="screen",
        )
        self.kinds["trails"].append(node)
        return node

    # -- display -----------------------------------------------------------------------------------

    def show(self, kind: str, on: bool) -> None:
        """Switch one of "frames", "labels", "centers", "forces", "trails" on or off."""
        self._on[kind] = on
        for node in self.kinds[kind]:
            if kind == "frames":
                # a body's node carries its solids: only the axes are switched
                node.show_axes = on
            elif kind != "forces" or not on:
                node.visible = on

    def place(self, poses: Array) -> None:
        """Move all bodies.

        Args:
            poses: Quaternion (w, x, y, z) and origin [m] of each body in the world, shape (cases,
                bodies, 7); a case with NaN is hidden.
        """
        for case in range(self.cases):
            present = bool(np.isfinite(poses[case]).all())
            if present != self._shown[case]:
                self._cases[case].visible = self._shown[case] = present
            if not present:
                continue
            moved = (poses[case] != self._last[case]).any(axis=-1)
            for number in np.flatnonzero(moved).tolist():
                node = self._bodies[case][number]
                node.wxyz = poses[case, number, :4]
                node.position = poses[case, number, 4:]
            self._last[case] = poses[case]
        if self._shown[0]:
            self.poses = poses[0]
            self._place_centers()

    def _place_centers(self) -> None:
        for node, weight, point in zip(
            self.kinds["centers"],
            ("mass", "volume"),
            ("center_of_mass", "center_of_buoyancy"),
            strict=True,
        ):
            weights = np.array([getattr(body, weight) for body in self.scene.bodies])
            total = weights.sum()
            if total > 0.0:
                points = np.array([getattr(body, point) for body in self.scene.bodies])
                places = self.poses[:, 4:] + rotate(self.poses[:, :4], points)
                node.position = middle = weights @ places / total
                if weight == "mass":
                    self.center = middle
            else:
                node.visible = False
                if weight == "mass" and len(self.poses):
                    self.center = self.poses[0, 4:]

    def show_forces(self, forces: Mapping[str, Array], thrust: Array | None) -> None:
        """Show forces, moments and thrust on the first case; the largest so far sets the scale.

        Args:
            forces: Wrenches [n; f] at the origin of frames, frame axes [N m, N], by name.
            thrust: Thrust of the thrusters [N], shape (thrusters,); None for no arrows.
        """
        frames = {frame.name: frame for frame in self.scene.frames}
        found: dict[str, list[tuple[Array, Array]]] = {"force": [], "moment": [], "thrust": []}
        for name, wrench in forces.items():
            frame = frames.get(name)
            body = name if frame is None else frame.body
            quaternion, origin = np.array([1.0, 0.0, 0.0, 0.0]), np.zeros(3)
            if body in self._places:
                pose = self.poses[self._places[body]]
                quaternion, origin = pose[:4], pose[4:]
            parts = np.asarray(wrench, dtype=np.float64).reshape(2, 3)
            if frame is not None:
                origin = origin + rotate(quaternion, np.array(frame.position))
                parts = rotate(np.array(frame.quaternion), parts)
            moment, force = rotate(quaternion, parts)
            found["moment"].append((origin, moment))
            found["force"].append((origin, force))
        for item, value in zip(
            self.scene.thrusters, [] if thrust is None else thrust, strict=False
        ):
            pose = self.poses[self._places[item.body]]
            point = pose[4:] + rotate(pose[:4], np.array(item.position))
            found["thrust"].append((point, value * rotate(pose[:4], np.array(item.direction))))
        for kind, arrows in found.items():
            self._draw_arrows(kind, arrows)

    def _draw_arrows(self, kind: str, arrows: list[tuple[Array, Array]]) -> None:
        node = self._arrows[kind]
        points = np.array([[at, vector] for at, vector in arrows]).reshape(-1, 2, 3)
        sizes = np.linalg.norm(points[:, 1], axis=-1)
        good = np.isfinite(sizes)
        self._largest[kind] = max(self._largest[kind], float(sizes[good].max(initial=0.0)))
        seen = good & (sizes > 0.03 * self._largest[kind]) & (sizes > 0.0)
        visible = bool(seen.any()) and self._on["forces"] and self._shown[0]
        if visible:
            points = points[seen]
            longest = 0.6 * self.scene.size
            points[:, 1] = points[:, 0] + points[:, 1] * (longest / self._largest[kind])
            node.points = points.astype(np.float32)
        node.visible = visible

    def show_trails(self, paths: tuple[Array, ...]) -> None:
        """Draw trails.

        Args:
            paths: Positions of the first and the last body, world axes [m], shape (n, 3) each.
        """
        if not self._on["trails"]:
            return
        for node, path in zip(self._trails, paths, strict=False):
            good = path[np.isfinite(path).all(axis=-1)]
            if len(good) < 2:
                node.visible = False
                continue
            kept = good[np.linspace(0, len(good) - 1, TRAIL_POINTS).round().astype(int)]
            node.points = np.stack([kept[:-1], kept[1:]], axis=1).astype(np.float32)
            node.visible = True


def rotate(quaternion: Array, vector: Array) -> Array:
    """Rotate vectors by unit quaternions (w, x, y, z), shape (..., 3)."""
    w, xyz = quaternion[..., :1], quaternion[..., 1:]
    twice = 2.0 * np.cross(xyz, vector)
    result: Array = vector + w * twice + np.cross(xyz, twice)
    return result


def _along(direction: tuple[float, float, float]) -> tuple[float, ...]:
    """Return the quaternion of the smallest rotation from z to a unit vector."""
    x, y, z = direction
    if z < -1.0 + 1e-12:
        return (0.0, 1.0, 0.0, 0.0)
    quaternion = np.array([1.0 + z, -y, x, 0.0])
    return tuple((quaternion / np.linalg.norm(quaternion)).tolist())


def surface_of(part: ScenePart) -> Mesh:
    """Return the mesh of a solid, in its own axes [m]."""
    if part.kind == "mesh" and part.mesh is not None:
        return part.mesh
    if part.kind == "box":
        return box(part.size)
    if part.kind == "sphere":
        return sphere((part.size[0],) * 3)
    if part.kind == "ellipsoid":
        return sphere(part.size)
    if part.kind == "cylinder":
        return cylinder(*part.size)
    if part.kind == "capsule":
        return capsule(*part.size)
    return _mesh(
        [
            [-PLANE_HALF_LENGTH, -PLANE_HALF_LENGTH, 0],
            [PLANE_HALF_LENGTH, -PLANE_HALF_LENGTH, 0],
            [PLANE_HALF_LENGTH, PLANE_HALF_LENGTH, 0],
            [-PLANE_HALF_LENGTH, PLANE_HALF_LENGTH, 0],
        ],
        [[0, 1, 2], [0, 2, 3]],
    )


def box(size: tuple[float, ...]) -> Mesh:
    """Return a box with rounded edges.

    Each face is a grid whose outer lines lie on spheres around the corners of a smaller box.

    Args:
        size: Edge lengths [m].
    """
    radius = 0.06 * min(size)
    half = 0.5 * np.array(size) - radius
    turn = np.tan(np.linspace(-1.0, 0.0, EDGE_SEGMENTS) * np.pi / 4.0)
    # grid lines: direction of the normal, and the corner of the inner box they belong to
    lines = np.concatenate([turn, -turn[::-1]])
    sides = np.concatenate([-np.ones(EDGE_SEGMENTS), np.ones(EDGE_SEGMENTS)])
    count = len(lines)
    a, b = (grid.reshape(-1) for grid in np.meshgrid(lines, lines, indexing="ij"))
    at_a, at_b = (grid.reshape(-1) for grid in np.meshgrid(sides, sides, indexing="ij"))
    corner = (np.arange(count - 1)[:, None] * count + np.arange(count - 1)).reshape(-1)
    squares = np.stack([corner, corner + count, corner + count + 1, corner + 1], axis=-1)
    points: list[Array] = []
    triangles: list[NDArray[np.intp]] = []
    for axis in range(3):
        u, w = (axis + 1) % 3, (axis + 2) % 3
        for sign in (1.0, -1.0):
            direction, inner = np.empty((count**2, 3)), np.empty((count**2, 3))
            direction[:, axis], direction[:, u], direction[:, w] = sign, a, b
            inner[:, axis], inner[:, u], inner[:, w] = sign, at_a, at_b
            direction /= np.linalg.norm(direction, axis=1, keepdims=True)
            oriented = squares if sign > 0.0 else squares[:, ::-1]
            faces = np.concatenate([oriented[:, [0, 1, 2]], oriented[:, [0, 2, 3]]])
            triangles.append(faces + len(points) * count**2)
            points.append(inner * half + radius * direction)
    return _mesh(np.concatenate(points), np.concatenate(triangles))


def lathe(outline: Array) -> Mesh:
    """Return the surface of revolution of an outline about z.

    Args:
        outline: Radius and height of its points [m], from bottom to top with the outside on the
            right, shape (n, 2).
    """
    angle = np.arange(CIRCLE_SEGMENTS) * (2.0 * np.pi / CIRCLE_SEGMENTS)
    ring = np.stack([np.cos(angle), np.sin(angle)], axis=-1)
    points = np.concatenate(
        [
            np.column_stack([across * ring, np.full(CIRCLE_SEGMENTS, height)])
            for across, height in outline.tolist()
        ]
    )
    here = np.arange(CIRCLE_SEGMENTS)
    after = (here + 1) % CIRCLE_SEGMENTS
    triangles = []
    for k in range(len(outline) - 1):
        low, high = k * CIRCLE_SEGMENTS, (k + 1) * CIRCLE_SEGMENTS
        if outline[k, 0] > 0.0:
            triangles.append(np.stack([low + here, low + after, high + after], axis=-1))
        if outline[k + 1, 0] > 0.0:
            triangles.append(np.stack([low + here, high + after, high + here], axis=-1))
    return _mesh(points, np.concatenate(triangles))


def cylinder(radius: float, length: float) -> Mesh:
    """Return a cylinder along z with rounded rims; radius and length in m."""
    rim = 0.12 * min(radius, length)
    half = 0.5 * length
    outline = [[0.0, -half]]
    for height, start in ((rim - half, -0.5 * np.pi), (half - rim, 0.0)):
        for angle in start + np.linspace(0.0, 0.5 * np.pi, EDGE_SEGMENTS + 1):
            outline.append(
                [radius - rim + rim * np.cos(angle), height + rim * float(np.sin(angle))]
            )
    outline.append([0.0, half])
    return lathe(np.array(outline))


def capsule(radius: float, length: float) -> Mesh:
    """Return a capsule along z; length between the centers of its hemispheres [m]."""
    angle = np.linspace(-0.5 * np.pi, 0.5 * np.pi, CIRCLE_SEGMENTS // 2 + 2)
    side = np.where(angle < 0.0, -0.5, 0.5) * length
    across = np.maximum(radius * np.cos(angle), 0.0)
    across[[0, -1]] = 0.0
    return lathe(np.column_stack([across, side + radius * np.sin(angle)]))


def sphere(radii: tuple[float, ...]) -> Mesh:
    """Return an ellipsoid with semi-axes along x, y, z [m]."""
    ball = capsule(1.0, 0.0)
    return _mesh(ball.vertices * np.array(radii), ball.triangles)


def thruster(radius: float) -> tuple[Mesh, Mesh]:
    """Return the meshes of a duct and its propeller, thrust along z; radius in m."""
    wall = [(0.86, 0), (0.9, -0.55), (1.0, -0.5), (1.06, 0), (1.0, 0.5), (0.9, 0.55), (0.86, 0)]
    duct = lathe(radius * np.array(wall))
    parts = [capsule(0.16 * radius, 0.5 * radius)]
    blade = box((0.7 * radius, 0.24 * radius, 0.04 * radius))
    pitch = _about(0, 0.6)
    for k in range(4):
        placed = (blade.vertices @ pitch.T + [0.47 * radius, 0.0, 0.0]) @ _about(2, k * np.pi / 2).T
        parts.append(_mesh(placed, blade.triangles))
    return duct, _joined(parts)


def center_mark(radius: float) -> tuple[Mesh, Mesh]:
    """Return the symbol of a center of mass: light and dark octants of a sphere."""
    ball = sphere((radius,) * 3)
    middle = ball.vertices[ball.triangles].mean(axis=1)
    dark = np.prod(middle, axis=1) > 0.0
    return Mesh(ball.vertices, ball.triangles[~dark]), Mesh(ball.vertices, ball.triangles[dark])


def _about(axis: int, angle: float) -> Array:
    """Return the rotation about a coordinate axis [rad], shape (3, 3)."""
    u, w = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[u, u] = R[w, w] = np.cos(angle)
    R[w, u], R[u, w] = np.sin(angle), -np.sin(angle)
    return R


def _joined(parts: list[Mesh]) -> Mesh:
    offsets = np.cumsum([0, *(len(part.vertices) for part in parts)])
    triangles = [part.triangles + at for part, at in zip(parts, offsets[:-1], strict=True)]
    return _mesh(np.concatenate([part.vertices for part in parts]), np.concatenate(triangles))


def _mesh(vertices: object, triangles: object) -> Mesh:
    return Mesh(np.asarray(vertices, dtype=np.float32), np.asarray(triangles, dtype=np.int32))
