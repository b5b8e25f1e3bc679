"""The live scene: robots in the browser while they move, served by viser.

The server belongs to this process, listens on the loopback interface and answers its own pages
only. Programs move robots by `LiveScene.place`; browsers connect and disconnect at any time.

viser answers any Host and accepts WebSockets of any Origin, and has no option to change that. It
opens its port by `websockets.asyncio.server.serve`, with a function that processes requests; that
function is wrapped in a `RequestGuard` for the one server that is started here.

Meshes of solids have slightly rounded edges and shared vertices, so that averaged normals shade
faces flat and edges smooth.
"""

import contextlib
import http
import inspect
import io
import threading
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import DomainError, OptionError, TiburonError, UnknownNameError
from tiburon.model import Model, World
from tiburon.viewer.motion import Motion, Track, sample_motion
from tiburon.viewer.request_guard import LOOPBACK, RequestGuard
from tiburon.viewer.scene import Color, Mesh, Scene, ScenePart, quaternions, scene_of
from tiburon.viewer.surroundings import (
    Bounds,
    bounds_of,
    current_grid,
    current_velocities,
    floor_height,
    ground_tilt,
    is_upright,
    is_weightless,
    view_rotation,
    water_of,
)

OTHER_CASES_OPACITY = 0.18
"""Opacity of all cases of a batch but the first."""

SCALE_STEP = 0.005
"""Relative size step between overlapping solids of adjacent links, whose coincident surfaces would
flicker otherwise."""

TRAIL_POINTS = 240
"""Points of a trail."""

FORCE_COLOR, MOMENT_COLOR, THRUST_COLOR = (240, 100, 10), (130, 70, 215), (236, 160, 0)
"""Colors of arrows."""

CONTACT_COLORS = {"sticking": (24, 165, 88), "slipping": (229, 55, 61)}
"""Colors of contact forces, by mode."""

LONGEST_CONTACT = 1.8
"""Longest arrow of a contact force, relative to that of usual ones: impacts are cut."""

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
        self.usual_contact = 0.0
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
            "contacts": [],
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
        self._touching = {
            mode: self._build_arrows(mode, shade, "contacts")
            for mode, shade in CONTACT_COLORS.items()
        }
        self._points = api.add_point_cloud(
            f"{root}/contact points",
            np.zeros((1, 3), dtype=np.float32),
            CONTACT_COLORS["sticking"],
            point_size=0.03 * scene.size,
            point_shape="circle",
            visible=False,
        )
        self.kinds["contacts"].append(self._points)
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

    def _build_arrows(self, kind: str, color: tuple[int, int, int], overlay: str = "forces") -> Any:
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
        self.kinds[overlay].append(node)
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
        """Switch an overlay of the robot on or off."""
        self._on[kind] = on
        for node in self.kinds[kind]:
            if kind == "frames":
                # a body's node carries its solids: only the axes are switched
                node.show_axes = on
            elif kind not in ("forces", "contacts") or not on:
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

    def show_contacts(self, contacts: Array) -> None:
        """Show contact points of the first case, with the forces on the first bodies.

        Args:
            contacts: Points [m], forces [N], world axes, and modes, shape (points, 7 or more).
        """
        modes = np.nan_to_num(contacts[:, 6]).round()
        on = self._on["contacts"] and self._shown[0]
        sizes = np.linalg.norm(np.nan_to_num(contacts[:, 3:6]), axis=-1)
        if self.usual_contact == 0.0:
            # the largest so far sets the scale where the run is not known
            self._largest["contact"] = max(
                self._largest.get("contact", 0.0), float(sizes.max(initial=0.0))
            )
        whole = self.usual_contact or self._largest["contact"]
        for mode, number in (("slipping", 1.0), ("sticking", 2.0)):
            seen = (modes == number) & (sizes > 0.02 * whole)
            node = self._touching[mode]
            node.visible = bool(on and seen.any())
            if node.visible:
                share = np.minimum(sizes[seen] / whole, LONGEST_CONTACT) / sizes[seen]
                start = contacts[seen, :3]
                end = start + 0.45 * self.scene.size * share[:, None] * contacts[seen, 3:6]
                node.points = np.stack([start, end], axis=1).astype(np.float32)
        touching = modes > 0.0
        self._points.visible = bool(on and touching.any())
        if self._points.visible:
            self._points.points = contacts[touching, :3].astype(np.float32)
            shades = np.where(
                (modes[touching] == 1.0)[:, None],
                CONTACT_COLORS["slipping"],
                CONTACT_COLORS["sticking"],
            )
            self._points.colors = shades.astype(np.uint8)

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
    from trimesh.creation import revolve

    found = revolve(outline, sections=CIRCLE_SEGMENTS)
    return _mesh(found.vertices, found.faces)


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


Shade = tuple[int, int, int]

LAND: tuple[Shade, Shade, Shade] = ((143, 176, 207), (217, 227, 234), (185, 195, 203))
SHALLOW: tuple[Shade, Shade, Shade] = ((128, 210, 222), (44, 128, 156), (14, 60, 86))
DEEP: tuple[Shade, Shade, Shade] = ((18, 66, 92), (8, 38, 60), (3, 16, 28))
SPACE: tuple[Shade, Shade, Shade] = ((11, 16, 32), (18, 26, 46), (7, 10, 20))
"""Background colors: above, at the horizon, below."""

FADING_DEPTH = 40.0
"""Depth over which the color of water changes from SHALLOW to DEEP by a factor e [m]."""

TINT_STEPS = 10
"""Color steps between SHALLOW and DEEP: backgrounds are images, sent as a whole."""


class LiveSurroundings:
    """Floor, water and light, drawn once; the background depends on the camera of each browser.

    Attributes:
        floor: Height of the floor [m]; None in weightlessness.
        water: The water, if any; air is not drawn.
    """

    def __init__(self, api: Any, root: str, world: World, bounds: Bounds, size: float) -> None:
        self._api = api
        self._root = root
        self._size = size
        self._view = view_rotation(world)
        self._upright = is_upright(world)
        self._space = is_weightless(world)
        self.water = water_of(world)
        self.floor = floor_height(world, bounds, size)
        self._bounds = bounds
        self._backgrounds: dict[int, str] = {}
        self._wet: list[Any] = []
        self._arrows: Any = None
        self._add_light()
        self._build_floor(world)
        if self.water is not None:
            self._build_water(world)

    @property
    def surface(self) -> float | None:
        """Height of the water's surface [m]; None without one."""
        return self.water.surface if self.water is not None and self._upright else None

    def _add_light(self) -> None:
        self._api.configure_default_lights(True, cast_shadow=True)
        self._api.configure_environment_map("studio", environment_intensity=0.16)
        self._api.add_light_hemisphere(
            "/ambient light",
            sky_color=(205, 234, 242) if self.water is not None else (244, 248, 255),
            ground_color=(61, 100, 112) if self.water is not None else (154, 150, 142),
            intensity=0.35 if self.water is not None else 0.2,
        )

    def _build_floor(self, world: World) -> None:
        if self.floor is None:
            return
        wet = self.water is not None
        grid = world.ground.grid if world.ground is not None else None
        # where gravity is tilted, the ground is a slope
        tilt = np.array(ground_tilt(world) or (1.0, 0.0, 0.0, 0.0))
        if grid is not None and world.ground is not None:
            heights = grid.array + world.ground.height
            self._add(
                "floor",
                _uneven(heights, grid.origin, grid.spacing),
                (156, 159, 134) if wet else (204, 210, 216),
                side="double",
                flat_shading=True,
                wxyz=tilt,
            )
            return
        cell = _round_length(self._size / 1.5)
        self._api.add_grid(
            f"{self._root}/floor",
            infinite_grid=True,
            cell_size=cell,
            section_size=5.0 * cell,
            cell_color=(118, 128, 112) if wet else (172, 180, 188),
            section_color=(108, 118, 104) if wet else (140, 150, 160),
            fade_distance=16.0 * self._size,
            fade_strength=1.2,
            shadow_opacity=0.35,
            plane_color=(124, 134, 116) if wet else (204, 210, 216),
            plane_opacity=1.0,
            # slightly lower, so that feet on the floor do not flicker
            position=rotate(tilt, np.array([0.0, 0.0, self.floor - 0.002 * self._size])),
            wxyz=tilt,
        )

    def _build_water(self, world: World) -> None:
        if self.surface is not None:
            reach = 20.0 * self._size
            disk = lathe(np.array([[0.0, 0.0], [0.3 * reach, 0.0], [reach, 0.0]]))
            node = self._add(
                "surface",
                disk,
                (70, 168, 190),
                opacity=0.42,
                side="double",
                cast_shadow=False,
                receive_shadow=False,
                position=(0.0, 0.0, self.surface),
            )
            self._wet.append(node)
        self._points = current_grid(world, self._bounds, self._size)
        self._fastest = 0.0
        self._flow_time = float("nan")
        self.update(0.0)

    def update(self, time: float) -> None:
        """Draw the current at a time [s]."""
        water = self.water
        if water is None or (self._flow_time == self._flow_time and not water.depends_on_time):
            return
        # currents change over seconds: arrows are not updated in every frame
        if abs(time - self._flow_time) < 0.1:
            return
        self._flow_time = time
        vectors = current_velocities(water, self._view, self._points, time)
        sizes = np.linalg.norm(vectors, axis=-1)
        self._fastest = max(self._fastest, float(sizes[np.isfinite(sizes)].max(initial=0.0)))
        seen = np.isfinite(sizes) & (sizes > 0.03 * self._fastest)
        if not seen.any():
            return
        start = self._points[seen]
        end = start + vectors[seen] * (0.36 * self._size / self._fastest)
        points = np.stack([start, end], axis=1).astype(np.float32)
        if self._arrows is None:
            self._arrows = self._api.add_arrows(
                f"{self._root}/current",
                points,
                (130, 200, 214),
                shaft_radius=0.0035 * self._size,
                head_radius=0.012 * self._size,
                head_length=0.05 * self._size,
            )
            self._wet.append(self._arrows)
        else:
            self._arrows.points = points

    def show_water(self, on: bool) -> None:
        """Switch surface and arrows of the current on or off."""
        for node in self._wet:
            node.visible = on

    # -- background --------------------------------------------------------------------------------

    def set_background(self, client: Any, client_id: int, height: float) -> None:
        """Set background and fog of one browser according to the height of its camera.

        Args:
            client: Its scene.
            client_id: Identifier of the browser.
            height: Height of its camera, page axes [m].
        """
        name, colors = self._background(height)
        if self._backgrounds.get(client_id) == name:
            return
        self._backgrounds[client_id] = name
        client.set_background_image(_gradient(colors), format="png")
        near, far = (3.5, 22.0) if name.startswith("sea") else (8.0, 45.0)
        client.configure_fog(
            near * self._size, far * self._size, color=colors[1], enabled=name != "space"
        )

    def remove_client(self, client_id: int) -> None:
        """Remove a disconnected browser."""
        self._backgrounds.pop(client_id, None)

    def _background(self, height: float) -> tuple[str, tuple[Shade, Shade, Shade]]:
        if self._space:
            return "space", SPACE
        top = self.surface
        if self.water is None or (top is not None and height > top):
            return "land", LAND
        # without a surface the depth is unknown: drawn as shallow
        depth = 0.0 if top is None else top - height
        step = round(TINT_STEPS * (1.0 - float(np.exp(-depth / FADING_DEPTH))))
        share = step / TINT_STEPS
        first, second, third = (_mixed(a, b, share) for a, b in zip(SHALLOW, DEEP, strict=True))
        return f"sea {step}", (first, second, third)

    def _add(self, name: str, mesh: Mesh, color: Shade, **options: Any) -> Any:
        return self._api.add_mesh_simple(
            f"{self._root}/{name}", mesh.vertices, mesh.triangles, color=color, **options
        )


def _round_length(length: float) -> float:
    """Return 1, 2 or 5 times a power of ten near a length [m]."""
    power: float = 10.0 ** np.floor(np.log10(length))
    return power * min((1.0, 2.0, 5.0, 10.0), key=lambda step: abs(step - length / power))


def _uneven(heights: Array, origin: tuple[float, ...], spacing: tuple[float, ...]) -> Mesh:
    rows, columns = heights.shape
    x = origin[0] + spacing[0] * np.arange(rows)
    y = origin[1] + spacing[1] * np.arange(columns)
    places = np.stack([*np.meshgrid(x, y, indexing="ij"), heights], axis=-1).reshape(-1, 3)
    k = (np.arange(rows - 1)[:, None] * columns + np.arange(columns - 1)).reshape(-1)
    corners = np.concatenate(
        [
            # divided from the first corner to the opposite one, as contact divides cells
            np.stack([k, k + columns, k + columns + 1], axis=-1),
            np.stack([k, k + columns + 1, k + 1], axis=-1),
        ]
    )
    return Mesh(places.astype(np.float32), corners.astype(np.int32))


def _mixed(a: Shade, b: Shade, share: float) -> Shade:
    x, y, z = (round((1.0 - share) * p + share * q) for p, q in zip(a, b, strict=True))
    return (x, y, z)


def _gradient(colors: tuple[Shade, Shade, Shade]) -> NDArray[np.uint8]:
    """Return an image with a vertical gradient of colors, shape (256, 8, 3)."""
    rows = np.linspace(0.0, 2.0, 256)
    channels = [np.interp(rows, [0.0, 1.0, 2.0], [c[k] for c in colors]) for k in range(3)]
    picture = np.stack(channels, axis=-1).round().astype(np.uint8)
    return np.repeat(picture[:, None], 8, axis=1)


CAMERAS = ("orbit", "follow", "on-board")
"""Cameras: around a fixed point, around the moving robot, or on one of its bodies."""

OVERLAYS = ("frames", "labels", "centers", "forces", "contacts", "trails", "water")
"""Overlays that can be switched on and off."""

MAX_CASES = 100_000
"""Most cases of a robot that are drawn."""

PORT = 8080
"""Default port; the next free one if it is taken."""


def has_viser() -> bool:
    """Return whether viser, which the live scene needs, is installed."""
    from importlib.util import find_spec

    return find_spec("viser") is not None


class LiveScene:
    """Robots shown in browsers while they move.

    Attributes:
        robots: The drawn robots, in the order given.
        around: Floor and water.
        server: The viser server, for further controls (``scene.server.gui``).
    """

    def __init__(
        self,
        models: Model | Sequence[Model],
        *,
        world: World | None = None,
        cases: int | Sequence[int] = 1,
        colors: Sequence[Color | None] | None = None,
        bounds: Bounds | None = None,
        title: str | None = None,
        host: str = "127.0.0.1",
        port: int = PORT,
        allow_hosts: Iterable[str] = (),
    ) -> None:
        """Start a server and draw the robots in their initial configuration.

        Args:
            models: One robot, or several.
            world: Gravity, ground and fluid; flat ground in air by default.
            cases: Number of cases of each robot: the first is solid, the others transparent.
            colors: Replace all colors of a robot; None for its own.
            bounds: Bounds of the motion; those of the initial configuration by default.
            title: Title of the controls; the first robot's name by default.
            host: A loopback address, since the scene has no authentication.
            port: Port of the server; the next free one if it is taken.
            allow_hosts: Accepted host names beside `host`, such as those of proxies.

        Raises:
            DomainError: If viser is missing, or `host` is not a loopback address.
        """
        robots = [models] if isinstance(models, Model) else list(models)
        counts = [cases] * len(robots) if isinstance(cases, int) else list(cases)
        shades = [None] * len(robots) if colors is None else list(colors)
        self.server = _start(host, port, title or robots[0].name, allow_hosts)
        world = world or World()
        scenes = [scene_of(model) for model in robots]
        self.size = max(scene.size for scene in scenes)
        start = [_initial_poses(model) for model in robots]
        motions = [Motion(poses[None, None], {}, None) for poses in start]
        self.bounds = bounds or bounds_of(scenes, motions, slice(None))
        self._view = view_rotation(world)
        api = self.server.scene
        # all nodes are children of one, which moves in follow mode while the camera is fixed
        self._root = api.add_frame("/all", show_axes=False)
        api.add_frame("/all/world", show_axes=False, wxyz=quaternions(self._view))
        self.around = LiveSurroundings(api, "/all", world, self.bounds, self.size)
        self.robots = [
            LiveRobot(api, f"/all/world/robot {k}", scene, cases=count, color=shade)
            for k, (scene, count, shade) in enumerate(zip(scenes, counts, shades, strict=True))
        ]
        self._shift = np.zeros(3)
        self._mode, self._mount = "orbit", 0
        self._host = host
        self._paths: list[list[Array]] = [[] for _ in robots]
        for robot, poses in zip(self.robots, start, strict=True):
            robot.place(np.broadcast_to(poses, (robot.cases, *poses.shape)))
        self._home = self._center()
        self._watch()

    # -- server ------------------------------------------------------------------------------------

    @property
    def url(self) -> str:
        """Address of the scene."""
        host = f"[{self._host}]" if ":" in self._host else self._host
        return f"http://{host}:{self.server.get_port()}"

    @property
    def browsers(self) -> int:
        """Number of connected browsers."""
        return len(self.server.get_clients())

    def close(self) -> None:
        """Stop the server; browsers keep the last frame."""
        with contextlib.redirect_stdout(io.StringIO()):
            self.server.stop()

    def __enter__(self) -> "LiveScene":
        return self

    def __exit__(self, *problem: object) -> None:
        self.close()

    # -- motion ------------------------------------------------------------------------------------

    def place(
        self,
        poses: ArrayLike,
        *,
        robot: int = 0,
        time: float = 0.0,
        forces: Mapping[str, Array] | None = None,
        thrust: ArrayLike | None = None,
        contacts: ArrayLike | None = None,
        paths: tuple[Array, ...] | None = None,
    ) -> None:
        """Move a robot, its arrows and its trail.

        Args:
            poses: Quaternion (w, x, y, z) and origin [m] of each body in the world, shape (bodies,
                7), or (cases, bodies, 7); a case with NaN is hidden.
            robot: Index of the robot.
            time: Time [s], for time-dependent currents.
            forces: Wrenches [n; f] at frames, frame axes [N m, N], by name.
            thrust: Thrust of the model's thrusters [N].
            contacts: Contact points [m], forces on the first bodies [N], world axes, and modes (0
                separated, 1 slipping, 2 sticking), shape (points, 7 or more).
            paths: Trails of the first and the last body [m]; their displayed positions by
                default.
        """
        shown = self.robots[robot]
        given = np.asarray(poses, dtype=np.float64)
        given = given.reshape(-1, len(shown.scene.bodies), 7)
        with self.server.atomic():
            shown.place(given)
            shown.show_forces(forces or {}, None if thrust is None else np.asarray(thrust))
            touching = np.zeros((0, 7)) if contacts is None else np.asarray(contacts, np.float64)
            shown.show_contacts(touching)
            shown.show_trails(self._trails_of(robot) if paths is None else paths)
            self.around.update(time)
            if robot == 0:
                self._move_camera()

    def place_at(self, model: Model, q: ArrayLike, **options: Any) -> None:
        """Move a robot to a configuration.

        Args:
            model: The robot.
            q: Configuration [m or rad], shape (nq,) or (cases, nq).
            **options: As in `place`.
        """
        time = np.array([float(options.get("time", 0.0))])
        motion = sample_motion(Track(model, time, np.asarray(q)[None]), time, MAX_CASES)
        self.place(motion.poses[0], **options)

    def _trails_of(self, robot: int) -> tuple[Array, ...]:
        """Return the trails of the first and the last body from displayed positions."""
        shown, path = self.robots[robot], self._paths[robot]
        ends = shown.poses[[0, -1], 4:] if len(shown.poses) else np.zeros((2, 3))
        if not path or float(np.abs(ends - path[-1]).max()) > 0.01 * self.size:
            path.append(ends)
            # thin out the older half when the buffer is full
            if len(path) > 2000:
                path[:1000] = path[:1000:2]
        walked = np.array(path)
        return walked[:, 0], walked[:, 1]

    def clear_trails(self) -> None:
        """Remove all trails."""
        self._paths = [[] for _ in self.robots]

    def show(self, *kinds: str, on: bool = True) -> None:
        """Switch some of `OVERLAYS` on or off."""
        for kind in kinds:
            if kind not in OVERLAYS:
                raise OptionError("show", OVERLAYS, kind)
            if kind == "water":
                self.around.show_water(on)
                continue
            for robot in self.robots:
                robot.show(kind, on)

    # -- cameras -----------------------------------------------------------------------------------

    def look(self, mode: str, mount: str | None = None) -> None:
        """Select the camera.

        Args:
            mode: One of `CAMERAS`; it refers to the first robot.
            mount: The body that carries the on-board camera; the first by default.
        """
        if mode not in CAMERAS:
            raise OptionError("camera", CAMERAS, mode)
        names = [body.name for body in self.robots[0].scene.bodies]
        if mount is not None and mount not in names:
            raise UnknownNameError("body", mount, names, where="camera", listing="model.body_names")
        left = self._mode == "on-board" and mode != "on-board"
        self._mode, self._mount = mode, 0 if mount is None else names.index(mount)
        self._move_camera()
        if left:
            for client in self.server.get_clients().values():
                self._frame(client.camera)

    def _center(self) -> Array:
        """Return the center of the first robot, page axes [m]."""
        return np.asarray(self._view @ self.robots[0].center)

    def _move_camera(self) -> None:
        shift = self._home - self._center() if self._mode == "follow" else np.zeros(3)
        if (shift != self._shift).any():
            self._shift = shift
            self._root.position = shift
        if self._mode == "on-board" and len(self.robots[0].poses):
            pose = self.robots[0].poses[self._mount]
            ahead, above = rotate(pose[:4], np.array([[1.0, 0.0, 0.0], [0.0, 0.0, 1.0]]))
            ahead, above = self._view @ ahead, self._view @ above
            place = self._view @ pose[4:] - 0.5 * self.size * ahead + 0.28 * self.size * above
            for client in self.server.get_clients().values():
                with client.atomic():
                    client.camera.up_direction = above
                    client.camera.position = place
                    client.camera.look_at = place + self.size * (ahead - 0.12 * above)

    def _frame(self, camera: Any) -> None:
        """Place a camera so that the whole robot is visible, slightly from above."""
        middle = 0.5 * (self.bounds.low + self.bounds.high)
        reach = max(float(np.linalg.norm(self.bounds.high - self.bounds.low)), 0.8 * self.size)
        # field of view of 45 degrees, with a margin around the robot
        place = middle + np.array([0.58, -0.74, 0.34]) * (1.35 * reach)
        top = self.around.surface
        if top is not None and self.bounds.high[2] < top:
            # a submerged robot is viewed from below the surface
            place[2] = min(place[2], max(top - 0.15 * self.size, middle[2]))
        # shifted to the left, since the controls are on the right
        aside = np.array([0.74, 0.58, 0.0]) * (0.14 * reach)
        camera.up_direction = (0.0, 0.0, 1.0)
        camera.fov = np.pi / 4.0
        camera.position = place + aside
        camera.look_at = middle + aside

    def _watch(self) -> None:
        """Set the initial camera of each browser, and its background from the camera height."""

        def update_background(camera: Any) -> None:
            client = camera.client
            height = float(camera.position[2] - self._shift[2])
            self.around.set_background(client.scene, client.client_id, height)

        def connected(client: Any) -> None:
            self._frame(client.camera)
            update_background(client.camera)
            client.camera.on_update(update_background)

        def disconnected(client: Any) -> None:
            self.around.remove_client(client.client_id)

        self.server.on_client_connect(connected)
        self.server.on_client_disconnect(disconnected)


def _start(host: str, port: int, title: str, allow_hosts: Iterable[str]) -> Any:
    if host not in LOOPBACK:
        raise DomainError(
            "host",
            f"a loopback address ({', '.join(LOOPBACK)})",
            repr(host),
            advice=f"from elsewhere: ssh -L {port}:localhost:{port} here, or send run.save_html()",
        )
    if not has_viser():
        raise DomainError(
            "live scene",
            "the package viser",
            "none",
            advice="pip install 'tiburon[view]', or see the page of run.save_html()",
        )
    # suppress viser's start-up message
    with contextlib.redirect_stdout(io.StringIO()):
        server = start_guarded(host, port, title, allow_hosts)
    # no button that shares the scene over a public relay
    server.gui.configure_theme(show_logo=False, show_share_button=False, brand_color=(29, 107, 136))
    return server


def _initial_poses(model: Model) -> Array:
    """Return the poses of all bodies in the pose "home", or at q = 0, shape (bodies, 7)."""
    q = model.poses.get("home", model.neutral())
    motion = sample_motion(Track(model, None, q), np.zeros(1), 1)
    first: Array = motion.poses[0, 0]
    return first


_starting = threading.Lock()


class _GuardedHost(str):
    """An address that identifies the guarded server: others are started unchanged."""

    guarded = False
    """Whether the guard was installed."""


def start_guarded(host: str, port: int, title: str, allow_hosts: Iterable[str] = ()) -> Any:
    """Start a viser server that answers its own pages only, and return it.

    Args:
        host: A loopback address.
        port: Port of the server; the next free one if it is taken.
        title: Title of its controls.
        allow_hosts: Accepted host names beside `host`, such as those of proxies.

    Raises:
        DomainError: If one of them is not a host name.
        TiburonError: If requests to this version of viser cannot be checked.
    """
    import viser
    import websockets.asyncio.server as library

    address = _GuardedHost(host)
    guard, names = RequestGuard(allow_hosts, host), vars(library)
    plain = names["serve"]

    def serve(handler: Any, host: Any = None, port: Any = None, **options: Any) -> Any:
        if host is address:
            options["process_request"] = _checked(guard, options.get("process_request"))
            address.guarded = True
        return plain(handler, host, port, **options)

    with _starting:
        names["serve"] = serve
        try:
            server = viser.ViserServer(host=address, port=port, label=title, verbose=False)
        finally:
            names["serve"] = plain
    if not address.guarded:
        server.stop()
        raise TiburonError(
            f"live scene: expected a viser whose requests can be checked, got {viser.__version__}, "
            "which would let any web page connect; pip install 'viser==1.1.1', or see the page of "
            "run.save_html()"
        )
    # otherwise any client could publish the scene over a public relay
    server.__dict__["request_share_url"] = lambda verbose=True: None
    return server


def _checked(guard: RequestGuard, process: Callable[..., Any] | None) -> Callable[..., Any]:
    """Return a request processor: the guard, then the original processor."""

    async def process_guarded(connection: Any, request: Any) -> Any:
        refusal = guard.refusal(request.headers, connection.local_address)
        if refusal is not None:
            return connection.respond(http.HTTPStatus.FORBIDDEN, f"{refusal}\n")
        found = process(connection, request) if process is not None else None
        return await found if inspect.isawaitable(found) else found

    return process_guarded
