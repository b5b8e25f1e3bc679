"""What is around the robots of the live scene: light, floor, water, currents."""

from typing import Any

import numpy as np
from numpy.typing import NDArray

from tiburon.model import Water, World
from tiburon.viewer.live_solids import lathe
from tiburon.viewer.replay_surroundings import DENSE, Bounds, view_rotation
from tiburon.viewer.scene_mesh import Mesh

__all__ = ["LiveSurroundings"]

Array = NDArray[np.float64]
Shade = tuple[int, int, int]

LAND: tuple[Shade, Shade, Shade] = ((143, 176, 207), (217, 227, 234), (185, 195, 203))
SHALLOW: tuple[Shade, Shade, Shade] = ((128, 210, 222), (44, 128, 156), (14, 60, 86))
DEEP: tuple[Shade, Shade, Shade] = ((18, 66, 92), (8, 38, 60), (3, 16, 28))
SPACE: tuple[Shade, Shade, Shade] = ((11, 16, 32), (18, 26, 46), (7, 10, 20))
"""Colors of the background: above, at the horizon, below."""

FADING = 40.0
"""Depth at which water is about two thirds on its way from SHALLOW to DEEP [m]."""

TINTS = 10
"""Steps between SHALLOW and DEEP: backgrounds are pictures, which are sent whole."""

CURRENT_GRID = (5, 5, 3)
"""Arrows of a current along x, y and z."""


class LiveSurroundings:
    """Floor, water and light, drawn once; the tint follows the camera of each browser.

    Attributes:
        floor: Height of the floor [m]; None in space.
        water: The water, where there is any; air is not drawn.
    """

    def __init__(self, api: Any, root: str, world: World, bounds: Bounds, size: float) -> None:
        self._api = api
        self._root = root
        self._size = size
        self._view = view_rotation(world)
        self._upright = bool(self._view[2, 2] > 1.0 - 1e-9)
        fluid = world.fluid
        self.water = fluid if fluid is not None and fluid.density > DENSE else None
        self.floor = _floor_height(world, self.water, bounds, size)
        self._bounds = bounds
        self._moods: dict[int, str] = {}
        self._wet: list[Any] = []
        self._arrows: Any = None
        self._light(world)
        self._build_floor(world)
        if self.water is not None:
            self._build_water(self.water)

    @property
    def surface(self) -> float | None:
        """Height of the water's surface [m]; None without one."""
        return self.water.surface if self.water is not None and self._upright else None

    def _light(self, world: World) -> None:
        self._space = not any(world.gravity) and self.water is None and world.ground is None
        self._api.configure_default_lights(True, cast_shadow=True)
        self._api.configure_environment_map("studio", environment_intensity=0.16)
        self._api.add_light_hemisphere(
            "/light from everywhere",
            sky_color=(205, 234, 242) if self.water is not None else (244, 248, 255),
            ground_color=(61, 100, 112) if self.water is not None else (154, 150, 142),
            intensity=0.35 if self.water is not None else 0.2,
        )

    def _build_floor(self, world: World) -> None:
        if self.floor is None:
            return
        wet = self.water is not None
        grid = world.ground.grid if world.ground is not None and self._upright else None
        if grid is not None and world.ground is not None:
            heights = grid.array + world.ground.height
            self._add(
                "floor", _uneven(heights, grid.origin, grid.spacing), (204, 210, 216), side="double"
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
            # a hair below, so that soles that rest on it do not flicker
            position=(0.0, 0.0, self.floor - 0.002 * self._size),
        )

    def _build_water(self, water: Water) -> None:
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
        margin = 1.2 * self._size
        low, high = self._bounds.low - margin, self._bounds.high + margin
        if self.surface is not None:
            high[2] = min(high[2], self.surface - 0.05 * self._size)
            low[2] = min(low[2], high[2] - self._size)
        axes = [
            np.linspace(a, b, n)
            for a, b, n in zip(low.tolist(), high.tolist(), CURRENT_GRID, strict=True)
        ]
        self._points = np.stack(np.meshgrid(*axes, indexing="ij"), axis=-1).reshape(-1, 3)
        self._fastest = 0.0
        self._flow_time = float("nan")
        self.update(0.0)

    def update(self, time: float) -> None:
        """Show the current at a time [s]."""
        water = self.water
        if water is None or (self._flow_time == self._flow_time and not water.depends_on_time):
            return
        # a current changes over seconds; arrows need not follow every frame
        if abs(time - self._flow_time) < 0.1:
            return
        self._flow_time = time
        flow = []
        for x, y, z in (self._points @ self._view).tolist():
            flow.append([float(part) for part in water.motion.velocity(time, (x, y, z))])
        vectors = np.array(flow) @ self._view.T
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

    # -- tint --------------------------------------------------------------------------------------

    def tint(self, client: Any, client_id: int, height: float) -> None:
        """Give one browser the background and fog of where its camera is.

        Args:
            client: Its scene.
            client_id: Number of the browser.
            height: Of its camera, in axes of the scene [m].
        """
        mood, colors = self._mood(height)
        if self._moods.get(client_id) == mood:
            return
        self._moods[client_id] = mood
        client.set_background_image(_gradient(colors), format="png")
        near, far = (3.5, 22.0) if mood.startswith("sea") else (8.0, 45.0)
        client.configure_fog(
            near * self._size, far * self._size, color=colors[1], enabled=mood != "space"
        )

    def forget(self, client_id: int) -> None:
        """Forget a browser that is gone."""
        self._moods.pop(client_id, None)

    def _mood(self, height: float) -> tuple[str, tuple[Shade, Shade, Shade]]:
        if self._space:
            return "space", SPACE
        top = self.surface
        if self.water is None or (top is not None and height > top):
            return "land", LAND
        # without a surface nobody knows the depth: it is drawn as shallow
        depth = 0.0 if top is None else top - height
        step = round(TINTS * (1.0 - float(np.exp(-depth / FADING))))
        share = step / TINTS
        first, second, third = (_mixed(a, b, share) for a, b in zip(SHALLOW, DEEP, strict=True))
        return f"sea {step}", (first, second, third)

    def _add(self, name: str, mesh: Mesh, color: Shade, **options: Any) -> Any:
        return self._api.add_mesh_simple(
            f"{self._root}/{name}", mesh.vertices, mesh.triangles, color=color, **options
        )


def _floor_height(world: World, water: Water | None, bounds: Bounds, size: float) -> float | None:
    """Return where the floor is, as in replay pages [m]."""
    lowest = float(bounds.low[2])
    if world.ground is not None:
        return world.ground.height
    if water is not None:
        return lowest - 1.6 * size
    if not any(world.gravity):
        return None
    return 0.0 if lowest > -0.02 * size else lowest - 0.05 * size


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
            np.stack([k, k + columns, k + 1], axis=-1),
            np.stack([k + 1, k + columns, k + columns + 1], axis=-1),
        ]
    )
    return Mesh(places.astype(np.float32), corners.astype(np.int32))


def _mixed(a: Shade, b: Shade, share: float) -> Shade:
    x, y, z = (round((1.0 - share) * p + share * q) for p, q in zip(a, b, strict=True))
    return (x, y, z)


def _gradient(colors: tuple[Shade, Shade, Shade]) -> NDArray[np.uint8]:
    """Return a picture that goes from the first color to the last, shape (256, 8, 3)."""
    rows = np.linspace(0.0, 2.0, 256)
    channels = [np.interp(rows, [0.0, 1.0, 2.0], [c[k] for c in colors]) for k in range(3)]
    picture = np.stack(channels, axis=-1).round().astype(np.uint8)
    return np.repeat(picture[:, None], 8, axis=1)
