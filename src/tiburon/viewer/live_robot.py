"""One robot in the live scene: its solids, and what can be shown beside them."""

from collections.abc import Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.viewer.live_solids import center_mark, surface_of, thruster
from tiburon.viewer.scene import Color, Scene
from tiburon.viewer.scene_mesh import Mesh

__all__ = ["LiveRobot"]

Array = NDArray[np.float64]

GHOST = 0.18
"""Opacity of all cases of a batch but the first."""

LAYER = 0.005
"""Solids of neighbors overlap at joints: each is drawn a little larger than the one before, or
surfaces that coincide would flicker."""

TRAIL_POINTS = 240
"""Points of a trail, however long it is."""

FORCE, MOMENT, THRUST = (240, 100, 10), (130, 70, 215), (236, 160, 0)
"""Colors of arrows."""

TRAILS = ((242, 177, 52), (229, 72, 77))
"""Colors of the paths of the first and of the last body."""


class LiveRobot:
    """Nodes of one robot; poses go in, the browser follows.

    Attributes:
        scene: What is drawn.
        cases: How many of them, the first solid.
        center: Center of mass of the first case, world axes [m], shape (3,).
        poses: Of the bodies of the first case, as last shown, shape (bodies, 7).
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
            for kind, shade in (("force", FORCE), ("moment", MOMENT), ("thrust", THRUST))
        }
        self._trails = [self._build_trail(k, shade) for k, shade in enumerate(TRAILS)]
        self._on = dict.fromkeys(self.kinds, False)
        for kind in self.kinds:
            self.show(kind, False)

    # -- building ----------------------------------------------------------------------------------

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
                opacity = GHOST if ghost else shade[3]
                self._add_surface(
                    f"{name}/part {k}",
                    surfaces[number][k],
                    shade,
                    opacity=None if opacity >= 1.0 else opacity,
                    # corners of files are joined: each triangle keeps its own normal
                    flat_shading=part.kind == "mesh",
                    cast_shadow=not ghost and part.kind != "plane",
                    receive_shadow=not ghost,
                    scale=1.0 + LAYER * ((number + 3 * k) % 7),
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
        """Return the node that things fixed in a body hang on."""
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

    # -- showing -----------------------------------------------------------------------------------

    def show(self, kind: str, on: bool) -> None:
        """Switch one of "frames", "labels", "centers", "forces", "trails" on or off."""
        self._on[kind] = on
        for node in self.kinds[kind]:
            if kind == "frames":
                # a body's own frame carries its solids: only its axes come and go
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
                places = self.poses[:, 4:] + turned(self.poses[:, :4], points)
                node.position = middle = weights @ places / total
                if weight == "mass":
                    self.center = middle
            else:
                node.visible = False
                if weight == "mass" and len(self.poses):
                    self.center = self.poses[0, 4:]

    def push(self, forces: Mapping[str, Array], thrust: Array | None) -> None:
        """Show what pushes the first case; the longest arrow so far sets the scale.

        Args:
            forces: Wrenches [n; f] at the origin of frames, frame axes [N m, N], by name.
            thrust: Of the thrusters [N], shape (thrusters,); None for no arrows.
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
                origin = origin + turned(quaternion, np.array(frame.position))
                parts = turned(np.array(frame.quaternion), parts)
            moment, force = turned(quaternion, parts)
            found["moment"].append((origin, moment))
            found["force"].append((origin, force))
        for item, value in zip(
            self.scene.thrusters, [] if thrust is None else thrust, strict=False
        ):
            pose = self.poses[self._places[item.body]]
            point = pose[4:] + turned(pose[:4], np.array(item.position))
            found["thrust"].append((point, value * turned(pose[:4], np.array(item.direction))))
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

    def trail(self, paths: tuple[Array, ...]) -> None:
        """Draw where bodies went.

        Args:
            paths: Of the first and of the last body, world axes [m], shape (n, 3) each.
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


def turned(quaternion: Array, vector: Array) -> Array:
    """Return vectors turned by unit quaternions (w, x, y, z), shape (..., 3)."""
    w, xyz = quaternion[..., :1], quaternion[..., 1:]
    twice = 2.0 * np.cross(xyz, vector)
    result: Array = vector + w * twice + np.cross(xyz, twice)
    return result


def _along(direction: tuple[float, float, float]) -> tuple[float, ...]:
    """Return the quaternion that turns z to a unit vector by the shortest way."""
    x, y, z = direction
    if z < -1.0 + 1e-12:
        return (0.0, 1.0, 0.0, 0.0)
    quaternion = np.array([1.0 + z, -y, x, 0.0])
    return tuple((quaternion / np.linalg.norm(quaternion)).tolist())
