"""A solid enclosed by triangles: its volume, its middle, its inertia, exactly.

Symbols (integrals of polynomials over tetrahedra between the faces and one point, which are closed
forms; Mirtich 1996, J. Graphics Tools 1(2), asks for the same integrals):
    a, b, c     corners of a face, from that point
    V           a . (b x c) / 6, the volume of its tetrahedron, with a sign
    s           a + b + c

    integral of x       = V s / 4
    integral of x x^T   = V (a a^T + b b^T + c c^T + s s^T) / 20
"""

from functools import cached_property

import numpy as np

from tiburon.argument_checks import refuse_unusable
from tiburon.arguments import public
from tiburon.arrays import ArrayLike, NDArray
from tiburon.errors import ModelError
from tiburon.hydro.mesh_checks import merged_vertices, outer_shells, signed_volumes, turned_alike
from tiburon.model.inertia import Inertia
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3, number, vec3

__all__ = ["Mesh"]

Floats = NDArray[np.float64]
Integers = NDArray[np.int64]

FACES = 500_000
"""Most faces of a mesh."""

FLAT = 1e-9
"""Least volume, by that of the box around the mesh and its longest side: less is a sheet."""

SAME = 1e-6
"""Vertices this close, by the size of the mesh, are one where equal numbers leave holes: files
write single precision."""


class Mesh:
    """A watertight solid of triangles, in SI units; immutable.

    Vertices at the same place become one, faces that look inward are turned, shells inside others
    are left out since water does not reach them; `notes` tells what was done.

    Example:
        ``tb.Mesh([(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)], [(0, 2, 1), (0, 1, 3), (1, 2, 3),
        (0, 3, 2)]).volume`` is 1 / 6.
    """

    @public
    def __init__(self, vertices: ArrayLike, faces: ArrayLike, *, name: str = "mesh") -> None:
        """Check that the triangles enclose a solid.

        Args:
            vertices: Places [m], shape (n, 3).
            faces: Numbers of three vertices each, counterclockwise from outside, shape (m, 3).
            name: Leads messages.

        Raises:
            ModelError: If the triangles do not enclose a solid; the message says where.
        """
        places, corners = _checked(vertices, faces, name)
        middle = 0.5 * (places.min(axis=0) + places.max(axis=0))
        size = float(np.ptp(places, axis=0).max())
        # sums of large coordinates lose digits: work around the middle
        around = places - middle
        notes = []
        try:
            around, corners = merged_vertices(around, corners, 0.0)
            corners, turned = turned_alike(around, corners, name)
        except ModelError:
            # only vertices that nearly coincide can mend this, if anything
            around, corners = merged_vertices(around, corners, SAME * size)
            corners, turned = turned_alike(around, corners, name)
            notes.append(f"vertices closer than {SAME * size:.2g} m were taken as one")
        if len(corners) < 4:
            raise ModelError(f"{name}: must have at least 4 faces, got {len(corners)}; add faces")
        if turned:
            notes.append(f"{turned} of {len(corners)} faces looked the other way and were turned")
        corners, more, overlaps = outer_shells(around, corners, name)
        used, numbers = np.unique(corners, return_inverse=True)
        self._fill(around[used], numbers.reshape(-1, 3), middle, (*notes, *more), overlaps)
        least = FLAT * size**3
        if self.volume <= least:
            raise ModelError(
                f"{name}: must enclose a volume, got {self.volume:.3g} m^3 in a box {size:.3g} m "
                "long; a sheet has none: give it a thickness"
            )

    def _fill(
        self,
        around: Floats,
        faces: Integers,
        middle: Floats,
        notes: tuple[str, ...],
        overlaps: int,
    ) -> None:
        self._around, self._middle = around, middle
        self.vertices: Floats = around + middle
        """Places [m], shape (n, 3)."""
        self.faces: Integers = faces.astype(np.int64)
        """Numbers of three vertices each, counterclockwise from outside, shape (m, 3)."""
        self.notes = notes
        """What was mended, in sentences."""
        self.overlaps = overlaps
        """How many shells reach into others; all numbers then count what they share twice."""
        for array in (self.vertices, self.faces, self._around, self._middle):
            array.flags.writeable = False

    def _with(
        self, around: Floats, faces: Integers | None = None, middle: Floats | None = None
    ) -> "Mesh":
        """Return a mesh of other triangles that are known to enclose a solid, too.

        Args:
            around: Places from the middle [m], shape (n, 3).
            faces: Three vertices each; the same by default.
            middle: The same by default.
        """
        mesh = Mesh.__new__(Mesh)
        mesh._fill(
            np.array(around),
            np.array(self.faces if faces is None else faces),
            np.array(self._middle if middle is None else middle),
            self.notes,
            self.overlaps,
        )
        return mesh

    def __repr__(self) -> str:
        return f"Mesh({len(self.faces)} faces, {self.volume:.4g} m^3)"

    @cached_property
    def _moments(self) -> tuple[float, Floats, Floats]:
        """Volume, and integrals of x and x x^T around the middle of the box."""
        V = signed_volumes(self._around, self.faces)
        a, b, c = self._around[self.faces].transpose(1, 0, 2)
        s = a + b + c
        first = V @ s / 4.0
        second = sum(np.einsum("i,ij,ik->jk", V, x, x) for x in (a, b, c, s)) / 20.0
        return float(V.sum()), first, np.asarray(second)

    @property
    def volume(self) -> float:
        """What it encloses [m^3]."""
        return self._moments[0]

    @property
    def center(self) -> Vec3:
        """Its middle: the center of buoyancy of the solid under water [m]."""
        volume, first, _ = self._moments
        x, y, z = (self._middle + first / volume).tolist()
        return x, y, z

    @property
    def area(self) -> float:
        """Of all faces together [m^2]."""
        a, b, c = self._around[self.faces].transpose(1, 0, 2)
        return float(0.5 * np.linalg.norm(np.cross(b - a, c - a), axis=1).sum())

    @property
    def extent(self) -> Vec3:
        """Sides of the box around it [m]."""
        x, y, z = np.ptp(self._around, axis=0).tolist()
        return x, y, z

    def inertia(self, density: float) -> Inertia:
        """Return mass, center and inertia of a solid of one density [kg/m^3]."""
        density = number(density, "mesh", "density", least=0.0)
        volume, first, second = self._moments
        central = second - np.outer(first, first) / volume
        tensor = density * (np.trace(central) * np.eye(3) - central)
        return Inertia(density * volume, self.center, 0.5 * (tensor + tensor.T))

    def moved(self, pose: Pose) -> "Mesh":
        """Return the same solid seen from another frame.

        Args:
            pose: The frame of this mesh in the other frame.
        """
        R, p = np.array(pose.rotation), np.array(pose.translation)
        return self._with(self._around @ R.T, middle=R @ self._middle + p)

    def scaled(self, factors: float | ArrayLike) -> "Mesh":
        """Return the solid stretched along x, y and z; negative factors mirror.

        Args:
            factors: One number, or three.
        """
        given = np.full(3, factors) if np.ndim(factors) == 0 else factors
        scale = np.array(vec3(given, "mesh", "scale"))
        if not scale.all():
            raise ModelError(f"mesh: scale must not be zero, got {scale.tolist()}; use 1 to keep")
        # a mirror turns faces inside out
        faces = self.faces[:, ::-1] if np.prod(scale) < 0.0 else self.faces
        return self._with(self._around * scale, faces, self._middle * scale)


def _checked(vertices: ArrayLike, faces: ArrayLike, name: str) -> tuple[Floats, Integers]:
    """Return arrays of finite places and of numbers that are among them."""
    refuse_unusable(f"mesh {name!r}: vertices", vertices)
    refuse_unusable(f"mesh {name!r}: faces", faces)
    count = np.shape(vertices)[0] if np.ndim(vertices) == 2 else 0
    places = np.asarray(vertices, dtype=np.float64)
    if places.shape != (count, 3) or not np.isfinite(places).all():
        # thousands of numbers are no message
        bad = int((~np.isfinite(places)).any(axis=-1).sum()) if places.ndim == 2 else 0
        raise ModelError(
            f"{name}: vertices must be rows of three finite numbers, got shape {places.shape}"
            + (f", {bad} of them with NaN or infinity; correct them" if bad else "; check them")
        )
    corners = np.asarray(faces)
    if corners.ndim != 2 or corners.shape[1] != 3 or corners.dtype.kind not in "iu":
        raise ModelError(
            f"{name}: faces must be rows of three whole numbers, got shape {corners.shape} of "
            f"{corners.dtype}; cut polygons into triangles"
        )
    if not 4 <= len(corners) <= FACES:
        raise ModelError(
            f"{name}: must have 4 to {FACES} faces, got {len(corners)}; "
            + ("add faces" if len(corners) < 4 else "simplify it in a mesh editor")
        )
    if corners.min() < 0 or corners.max() >= count:
        raise ModelError(
            f"{name}: faces must name vertices 0 to {count - 1}, got {int(corners.min())} to "
            f"{int(corners.max())}; count from zero"
        )
    largest = float(np.abs(places).max())
    if largest > 1e9:
        raise ModelError(
            f"{name}: coordinates must be below 1e9 m, got {largest:.3g}; check the unit"
        )
    return places, corners.astype(np.int64)
