"""Candidate contacts: which shapes of a robot and its world may touch, found once from the model.

The ground meets the contact points of a robot, or the collision shapes of a tree that has none.
Shapes of different trees meet each other: a robot and the objects around it. Links of one tree meet
only where pairs are named, by the model (`ContactPair`) or by the user.
"""

import itertools
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import cached_property, partial
from typing import Any, NamedTuple, Self

import numpy as np

from tiburon.contact.geometry.bounds import bounding_radius
from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.height_field import (
    NEAR,
    Reach,
    field_size,
    is_over_grid,
    placed_field,
    reach_of,
)
from tiburon.contact.geometry.hull_hull import ANY_DISTANCE, OWN_DIMENSIONS, RADIUS
from tiburon.contact.geometry.located import ABSENT_CONTACTS, LOCATED
from tiburon.contact.geometry.pairs import HULLS, Pair, pair, shape_kind, shape_size
from tiburon.contact.geometry.swept import Crossing
from tiburon.contact.polyhedra import box, polyhedron, prism, rounded, table_of
from tiburon.errors import ModelError, UnknownNameError, shown
from tiburon.model import WORLD, Model, Pose, Shape, World
from tiburon.model.body import (
    BoxShape,
    CapsuleShape,
    CylinderShape,
    EllipsoidShape,
    Geometry,
    MeshShape,
    PlaneShape,
    SphereShape,
)
from tiburon.model.contact_kinds import (
    ContactBits,
    ContactMaterial,
    bits_match,
    combined_material,
)
from tiburon.model.joints import Driven
from tiburon.model.world import Ground, GroundGrid, GroundPatch
from tiburon.record import UNSAVED, field, record
from tiburon.spatial import Scalar, Vec3
from tiburon.trace.declared import structure_text
from tiburon.trace.primitives.table_rows import HANDLE, Table
from tiburon.trace.value import require, where

__all__ = [
    "FIELDS",
    "Candidate",
    "Part",
    "Surface",
    "candidates_of",
    "driven_joints",
    "number_count",
    "number_places",
    "numbers_of",
    "parameter_count",
    "refuse_prescribed",
    "refuse_turning",
    "restored",
    "surfaces_of",
    "tables_of",
]


@record
class Part:
    """A shape on a body, as the narrow phase takes it."""

    body: str
    """Name of a body or frame, or "world"."""

    kind: str
    """Kind of the shape: "sphere", "box", ..."""

    pose: Pose
    """Axes of the shape in axes of the body."""

    size: tuple[float, ...]
    """Dimensions in the order of the shape's fields [m]; of a height field its origin, spacing and
    column count; of a polyhedron those of `hull_hull` up to the radius."""

    grid: GroundGrid | None = field(default=None, metadata=UNSAVED)
    """Heights of a height field, which code reads from a table."""

    hull: tuple[float, ...] = field(default=(), repr=False)
    """Vertices of a polyhedron, shape axes: x, y, z of each [m]."""

    vertices: Table | None = field(default=None, repr=False, metadata=UNSAVED)
    """Numbers of all polyhedra among the candidates, which code reads, for one of them."""

    geometry: Geometry | None = None
    """The shape itself, where contacts are located outside of compiled code, as those of meshes."""


@record
class Candidate:
    """Two shapes that may touch."""

    name: str
    """Unique among the candidates of a robot."""

    first: Part
    """The first shape."""

    second: Part
    """The second shape; normals point toward it."""

    material: ContactMaterial
    """Friction, restitution and compliance of both surfaces together."""

    patches: tuple[GroundPatch, ...] = ()
    """Patches of the ground below, with the material of both surfaces together there."""

    reach: Reach = NEAR
    """Cells of a height field that are searched around the first shape."""

    own: ContactMaterial | None = None
    """Surface of the first shape alone, where the second is the ground."""

    turning: tuple[bool, bool] = (False, False)
    """Whether its points have rows of torsional and of rolling friction: once a surface has such
    coefficients, others may be zero."""

    resists_turning: bool = True
    """Whether these act: among very many points of large robots they are left out."""

    def __post_init__(self) -> None:
        if not self.resists_turning:
            object.__setattr__(self, "turning", (False, False))
            return
        materials = (self.material, *(patch.material for patch in self.patches))
        spins, rolls = self.turning
        for material in materials:
            spins = spins or material.torsional_friction > 0.0
            rolls = rolls or material.rolling_friction > 0.0
        object.__setattr__(self, "turning", (spins, rolls))

    @property
    def pair(self) -> Pair:
        """The narrow phase of the two shapes."""
        return pair(self.first.kind, self.second.kind, f"contact {self.name!r}")

    @property
    def point_count(self) -> int:
        """Most points in which the shapes touch."""
        return self.pair.points

    @property
    def point_names(self) -> tuple[str, ...]:
        """Names of the contact points."""
        count = self.point_count
        return (self.name,) if count == 1 else tuple(f"{self.name}[{k}]" for k in range(count))

    def parameters(self) -> tuple[float, ...]:
        """Return the run-time parameters: dimensions of both shapes, materials, patches."""
        rows = ((*patch.lower, *patch.upper, *patch.material.values) for patch in self.patches)
        own = (*self.first.size, *self.second.size, *self.material.values)
        return (*own, *(x for row in rows for x in row))

    def form(self) -> Self:
        """Return the same pair with dimensions and material left out: what code depends on."""
        parts = [
            replace(
                part,
                size=(0.0,) * len(part.size),
                grid=None,
                hull=(),
                vertices=None,
                geometry=None,
            )
            for part in (self.first, self.second)
        ]
        patches = tuple(
            GroundPatch(patch.name, (0.0, 0.0), (1.0, 1.0), ContactMaterial())
            for patch in self.patches
        )
        return replace(
            self,
            first=parts[0],
            second=parts[1],
            material=ContactMaterial(),
            patches=patches,
            own=None,
        )

    def over(self, surface: ContactMaterial) -> Self:
        """Return the same pair with another surface of the ground outside of its patches."""
        if self.second.body != WORLD:
            return self
        return replace(self, material=combined_material(self.own, surface))

    def on(self, ground: Ground | None) -> Self:
        """Return the same pair on another ground, where the second shape is a height field."""
        if self.second.kind not in FIELDS or ground is None or ground.grid is None:
            return self
        return replace(self, second=_ground_part(ground))

    def as_foot(self) -> Self:
        """Return the same pair with one contact point, if it is a ball on uneven ground."""
        if self.first.kind != "sphere" or self.second.kind not in FIELDS:
            return self
        return replace(self, first=replace(self.first, kind="foot"))

    def bouncing(self, restitution: float) -> Self:
        """Return the same pair with another coefficient of restitution."""

        def bounced(of: Any) -> Any:
            return replace(of, material=replace(of.material, restitution=restitution))

        return replace(bounced(self), patches=tuple(map(bounced, self.patches)))  # type: ignore[no-any-return]

    def surface(self, p: Sequence[Scalar], point: Vec3 | None = None) -> "Surface":
        """Return the material at a contact point.

        Args:
            p: Run-time parameters, as `parameters` lists them.
            point: The point, world axes [m]; needed where the ground has patches.
        """
        start = len(self.first.size) + len(self.second.size)
        found = tuple(p[start : start + len(Surface._fields)])
        start += len(found)
        for _ in self.patches:
            assert point is not None, "patches are chosen by the contact point"
            low_x, low_y, high_x, high_y = p[start : start + 4]
            there = p[start + 4 : start + 4 + len(found)]
            start += 4 + len(found)
            x, y, _ = point
            inside = (x >= low_x) & (x <= high_x) & (y >= low_y) & (y <= high_y)
            found = tuple(where(inside, a, b) for a, b in zip(there, found, strict=True))
        return Surface(*found)

    def geometry(
        self,
        places: Sequence[tuple[Any, Vec3]],
        p: Sequence[Scalar],
        handle: Sequence[Scalar] = (),
        near: Scalar = ANY_DISTANCE,
    ) -> tuple[ContactGeometry, ...]:
        """Return gap, point and normal of each contact point.

        Args:
            places: Rotation and position of both shapes in the world.
            p: Run-time parameters, as `parameters` lists them.
            handle: Handles of the tables of all candidates: heights of the ground, vertices.
            near: Distance from which on polyhedra may have no contacts [m].
        """
        sizes = self._sizes(p, handle, near)
        first = Placed(*places[0], sizes[0])
        if self.second.kind not in FIELDS:
            return self.pair.function(first, Placed(*places[1], sizes[1]))
        field = placed_field(sizes[1], tuple(handle[:HANDLE]))
        found = []
        contacts = self.pair.function(first, field, self.reach)
        for name, contact in zip(self.point_names, contacts, strict=True):
            inside = is_over_grid(contact.point, field)
            found.append(contact._replace(gap=require(inside, contact.gap, beyond_grid(name))))
        return tuple(found)

    def _sizes(
        self, p: Sequence[Scalar], handle: Sequence[Scalar], near: Scalar = ANY_DISTANCE
    ) -> tuple[tuple[Scalar, ...], ...]:
        """Return the dimensions of both shapes from run-time parameters and handles of tables."""
        split = len(self.first.size)
        sizes = (tuple(p[:split]), tuple(p[split : split + len(self.second.size)]))
        if not self.has_hull:
            return sizes
        vertices = handle[len(handle) - HANDLE + 1]
        return tuple(
            (*size, vertices, near) if part.kind in HULLS else size
            for part, size in zip((self.first, self.second), sizes, strict=True)
        )

    @property
    def can_be_crossed(self) -> bool:
        """Whether both shapes have a far side, as planes and terrain do not."""
        return not {self.first.kind, self.second.kind} & {"plane", LOCATED, *FIELDS}

    @property
    def is_swept(self) -> bool:
        """Whether a step may carry one shape across the other, or across a ridge of the terrain."""
        wide = self.first.kind in ("capsule", "box", "cylinder", "ellipsoid")
        return self.can_be_crossed or (self.second.kind in FIELDS and wide)

    @property
    def has_hull(self) -> bool:
        """Whether a shape is a polyhedron, as the hull of a mesh."""
        return self.first.kind in HULLS or self.second.kind in HULLS

    @property
    def is_located(self) -> bool:
        """Whether its contacts are located outside of compiled code: a mesh is not convex."""
        return self.first.kind == LOCATED

    def crossing(
        self,
        places: Sequence[Sequence[tuple[Any, Vec3]]],
        p: Sequence[Scalar],
        handle: Sequence[Scalar] = (),
    ) -> Crossing:
        """Return both shapes over a step, from their places at its start and end."""
        sizes = self._sizes(p, handle)
        first = Placed(*places[0][0], sizes[0]), Placed(*places[0][1], sizes[0])
        kinds = (self.first.kind, self.second.kind)
        if self.second.kind in FIELDS:
            field = placed_field(sizes[1], tuple(handle[:HANDLE]))
            return Crossing(first, (field, field), kinds)
        second = Placed(*places[1][0], sizes[1]), Placed(*places[1][1], sizes[1])
        return Crossing(first, second, kinds)

    @property
    def narrow_phase(self) -> Pair:
        """The narrow phase, on terrain with the cells that it searches."""
        if self.second.kind not in FIELDS:
            return self.pair
        return self.pair._replace(function=partial(self.pair.function, reach=self.reach))


MESH = "mesh"
"""Kind of a mesh before its pair is known."""

MAX_REACH = 64
"""Cells of a height field that are searched to each side of a shape at most."""

FIELDS = ("height field", "smooth height field")
"""Kinds of shapes whose heights are in a table."""


_NEEDS_TABLE: tuple[Callable[[Candidate], bool], ...] = (
    lambda one: one.second.kind in FIELDS,
    lambda one: one.has_hull,
)
"""Which candidates need the tables of `tables_of`, in their order."""


def beyond_grid(point: str) -> str:
    """Return the expectation that a contact point beyond the grid of the ground violates."""
    return (
        f"contact point {point!r} over the grid of the ground; enlarge the grid, or stop the robot "
        "before its border"
    )


class Surface(NamedTuple):
    """Material of one contact point, in the order of `ContactMaterial.values`."""

    static_friction: Scalar
    kinetic_friction: Scalar
    restitution: Scalar
    normal_stiffness: Scalar
    normal_damping: Scalar
    planar_stiffness: Scalar
    planar_damping: Scalar
    dissipation: Scalar
    torsional_friction: Scalar = 0.0
    rolling_friction: Scalar = 0.0


def surfaces_of(
    candidates: Sequence[Candidate], p: Sequence[Scalar], geometry: Sequence[ContactGeometry]
) -> list[Surface]:
    """Return the material of each contact point; p are the parameters of all candidates."""
    found: list[Surface] = []
    start = 0
    for candidate in candidates:
        own = p[start : start + len(candidate.parameters())]
        start += len(own)
        if not candidate.patches:
            found += [candidate.surface(own)] * candidate.point_count
            continue
        for _ in range(candidate.point_count):
            found.append(candidate.surface(own, geometry[len(found)].point))
    return found


def refuse_meshes(candidates: Sequence[Candidate], what: str, *, hulls: bool = False) -> None:
    """Refuse contacts of meshes.

    Args:
        candidates: The shapes that may touch.
        what: What takes none, for the message.
        hulls: Whether to refuse meshes on planes, too.

    Raises:
        ModelError: If a shape is a mesh; the message names it and what takes none.
    """
    for candidate in candidates:
        if candidate.is_located or (hulls and candidate.has_hull):
            others = "" if hulls else " that are not convex"
            raise ModelError(
                f"contact {candidate.name!r}: {what} takes no meshes{others}, whose contact points "
                "are others in every step; cover them with simple shapes: tb.cover_mesh, or "
                "tb.cover_meshes for all meshes of a robot",
                name=candidate.name,
            )


def refuse_turning(candidates: Sequence[Candidate], what: str) -> None:
    """Refuse contacts with torsional or rolling friction; `what` is without.

    Raises:
        ModelError: If a contact has some; the message names it.
    """
    for candidate in candidates:
        if any(candidate.turning):
            word = "torsional_friction" if candidate.turning[0] else "rolling_friction"
            raise ModelError(
                f"contact {candidate.name!r}: {what} has no {word}; set it to 0 in the Ground and "
                "in each ContactMaterial, or write contact=tb.RigidContact()",
                name=candidate.name,
            )


def refuse_prescribed(model: Model, what: str) -> None:
    """Refuse robots with prescribed motion; `what` is for joints that move freely.

    Raises:
        ModelError: If a joint is driven.
    """
    driven = [joint.name for joint in model.joints if isinstance(joint, Driven)]
    if driven:
        raise ModelError(
            f"joint {driven[0]!r}: {what} is for joints that move freely, got prescribed motion; "
            "drive the joint by a controller",
            name=driven[0],
        )


def driven_joints(
    model: Model, candidates: Sequence[Candidate], points: Sequence[str]
) -> tuple[str, ...]:
    """Return the joints of prescribed motion that move given contact points."""
    found: dict[str, None] = {}
    for candidate in candidates:
        if not set(candidate.point_names) & set(points):
            continue
        for part in (candidate.first, candidate.second):
            name = _carrier(model, part.body)
            while name != WORLD:
                body = model.body(name)
                if isinstance(body.joint, Driven):
                    found[body.joint.name] = None
                name = _carrier(model, body.parent)
    return tuple(found)


def tables_of(candidates: Sequence[Candidate]) -> tuple[Table, ...]:
    """Return the tables that candidates need: heights of the one ground, vertices of all hulls."""
    parts = [part for candidate in candidates for part in (candidate.first, candidate.second)]
    grids = [part.grid.table for part in parts if part.grid is not None]
    vertices = [part.vertices for part in parts if part.vertices is not None]
    return (*grids[:1], *vertices[:1])


def number_count(candidates: Sequence[Candidate]) -> int:
    """Return how many numbers the geometry of candidates takes; also of their forms."""
    needed = sum(any(map(needs, candidates)) for needs in _NEEDS_TABLE)
    return parameter_count(candidates) + HANDLE * needed


def numbers_of(candidates: Sequence[Candidate]) -> tuple[float, ...]:
    """Return what the geometry of candidates takes: parameters, then the handles of their tables.

    Callers of code with them keep the candidates alive, and with them the tables.
    """
    own = kept(candidates).numbers
    return (*own, *(x for table in tables_of(candidates) for x in table.handle))


def number_places(candidates: Sequence[Candidate], some: Sequence[int]) -> list[int]:
    """Return where the numbers of some candidates are among those of all, as `numbers_of` lists."""
    ends = list(itertools.accumulate((len(one.parameters()) for one in candidates), initial=0))
    found = [place for k in some for place in range(ends[k], ends[k + 1])]
    start = ends[-1]
    for needs in _NEEDS_TABLE:
        if any(map(needs, candidates)):
            if any(needs(candidates[k]) for k in some):
                found += range(start, start + HANDLE)
            start += HANDLE
    return found


def parameter_count(candidates: Sequence[Candidate]) -> int:
    """Return the number of run-time parameters of candidates."""
    return sum(len(candidate.parameters()) for candidate in candidates)


CANDIDATES = "contact candidates"
"""What models remember: their last ground, and the candidates on it."""


class Candidates(tuple[Candidate, ...]):
    """Candidates that keep what they say of themselves: repeated runs need it at every call."""

    is_declared = True
    """Candidates hold data of this package only."""

    @cached_property
    def _hash(self) -> int:
        return tuple.__hash__(self)

    def __hash__(self) -> int:
        return self._hash

    @cached_property
    def form(self) -> str:
        """Text of the pairs of shapes without dimensions and materials."""
        return structure_text(tuple(self.forms))

    @cached_property
    def forms(self) -> "Candidates":
        """The pairs of shapes without dimensions and materials."""
        return Candidates(candidate.form() for candidate in self)

    @cached_property
    def point_names(self) -> tuple[str, ...]:
        """Names of all contact points."""
        return tuple(name for candidate in self for name in candidate.point_names)

    @cached_property
    def turning_points(self) -> tuple[int, ...]:
        """Numbers of the points whose surfaces may have torsional or rolling friction."""
        every = [any(candidate.turning) for candidate in self for _ in candidate.point_names]
        return tuple(k for k, turns in enumerate(every) if turns)

    @cached_property
    def are_located(self) -> bool:
        """Whether contacts of meshes are among them, which are located outside of compiled code."""
        return any(candidate.is_located for candidate in self)

    @cached_property
    def numbers(self) -> tuple[float, ...]:
        """Dimensions and materials of all candidates."""
        return tuple(x for candidate in self for x in candidate.parameters())


def kept(candidates: Sequence[Candidate]) -> Candidates:
    """Return candidates that keep what they say of themselves."""
    return candidates if isinstance(candidates, Candidates) else Candidates(candidates)


def candidates_of(
    model: Model, world: World, pairs: Sequence[tuple[str, str]] | None = None
) -> Candidates:
    """Return the shapes of a robot and its world that may touch.

    Args:
        model: The robot.
        world: Its surroundings, with or without ground.
        pairs: Names of two bodies each whose collision shapes meet, instead of those found;
            "world" stands for the ground.

    Raises:
        ModelError: If a pair has no shapes, or one that meets nothing.
        UnknownNameError: If there is no such body.
    """
    if pairs is not None:
        return Candidates(_candidates(model, world, pairs))
    # runs of one robot on one ground have the same
    known = model.derived.get(CANDIDATES)
    if known is None or known[0] is not world.ground:
        found = Candidates(_candidates(model, world, None))
        known = model.derived[CANDIDATES] = (world.ground, found)
    remembered: Candidates = known[1]
    return remembered


def _candidates(
    model: Model, world: World, pairs: Sequence[tuple[str, str]] | None
) -> tuple[Candidate, ...]:
    """Find the candidates of `candidates_of`."""
    pairs = _checked(model, pairs)
    if pairs is not None:
        _check_surfaces(model, world, pairs)
    found: list[Candidate] = []
    if world.ground is not None and (pairs is None or any(WORLD in pair for pair in pairs)):
        named = (
            None if pairs is None else {name for pair in pairs if WORLD in pair for name in pair}
        )
        found += _on_ground(model, world, named)
    if pairs is None:
        found += _between_trees(model)
        known = {_bodies(model, candidate) for candidate in found}
        for pair in model.contact_pairs:
            both = frozenset((pair.first, pair.second))
            if pair.touches and both not in known:
                found += _named(model, world, pair.first, pair.second)
    else:
        for a, b in pairs:
            if WORLD not in (a, b):
                found += _between(model, a, b, is_named=True)
    rules = {frozenset((pair.first, pair.second)): pair for pair in model.contact_pairs}
    kept = []
    movable = _movable(model)
    for candidate in found:
        bodies = _bodies(model, candidate)
        rule = rules.get(bodies)
        left_out = pairs is None and rule is not None and not rule.touches
        if left_out or not movable & bodies:
            continue
        if rule is not None and rule.material is not None:
            # the material of a pair is that of both surfaces, on every patch
            candidate = replace(candidate, material=rule.material, patches=())
        kept.append(_met(candidate))
    found = kept
    names = [candidate.name for candidate in found]
    for name in {name for name in names if names.count(name) > 1}:
        raise ModelError(f"contact {name!r}: found twice; name contact points and shapes apart")
    return _with_vertices(found)


def acts_by_default(model: Model, world: World, pairs: object) -> bool:
    """Return whether a run has contact unless its caller says otherwise.

    It has where there is ground, where the caller names pairs, and where the robot does: pairs of
    bodies that touch, whatever the world.
    """
    return (
        world.ground is not None
        or pairs is not None
        or any(x.touches and WORLD not in (x.first, x.second) for x in model.contact_pairs)
    )


def restored(candidates: Sequence[Candidate], ground: Ground | None) -> tuple[Candidate, ...]:
    """Return candidates with their tables, which files do not hold."""
    found = tuple(candidate.on(ground) for candidate in candidates)
    parts = (part for candidate in found for part in (candidate.first, candidate.second))
    missing = any(part.kind in HULLS and part.vertices is None for part in parts)
    return _with_vertices(found) if missing else found


def _with_vertices(candidates: Sequence[Candidate]) -> tuple[Candidate, ...]:
    """Return candidates whose polyhedra are in one table.

    Raises:
        ModelError: If one has no vertices, as in a damaged file.
    """
    parts = [part for c in candidates for part in (c.first, c.second) if part.kind in HULLS]
    if not parts:
        return tuple(candidates)
    for part in parts:
        if not part.hull or len(part.hull) % 3:
            raise ModelError(f"contact of {part.body!r}: expected vertices of a hull")
    keys = list(dict.fromkeys((part.hull, part.size[RADIUS]) for part in parts))
    vertices, sizes = table_of([(polyhedron(hull), radius) for hull, radius in keys])
    size_of = dict(zip(keys, sizes, strict=True))

    def read(part: Part) -> Part:
        if part.kind not in HULLS:
            return part
        return replace(part, size=size_of[part.hull, part.size[RADIUS]], vertices=vertices)

    return tuple(replace(c, first=read(c.first), second=read(c.second)) for c in candidates)


def _checked(model: Model, pairs: Any) -> list[tuple[str, str]] | None:
    """Return pairs of names.

    Raises:
        ModelError: If they are something else, or one body twice.
        UnknownNameError: If there is no such body.
    """
    if pairs is None:
        return None
    listed = isinstance(pairs, Sequence) and not isinstance(pairs, (str, bytes))
    given = pairs if listed else ()
    rows = [tuple(pair) if isinstance(pair, (tuple, list)) else (pair,) for pair in given]
    if not listed or not all(
        len(row) == 2 and all(isinstance(x, str) for x in row) for row in rows
    ):
        raise ModelError(
            f"pairs: expected a list of pairs of body names, got {shown(pairs)}; write "
            "pairs=[('finger', 'block'), ('block', 'world')]"
        )
    known = model.frame_names
    for a, b in rows:
        for name in (a, b):
            if name not in known:
                raise UnknownNameError("body", name, list(known))
        if a == b:
            raise ModelError(f"contact pair ({a!r}, {b!r}): expected two bodies, got one twice")
    return [(row[0], row[1]) for row in rows]


def _check_surfaces(model: Model, world: World, pairs: Sequence[tuple[str, str]]) -> None:
    """Check that both sides of every pair have something that can touch.

    Raises:
        ModelError: If one has nothing.
    """
    pointed = {point.body for point in model.contacts}
    pointed |= {_carrier(model, name) for name in pointed}
    for a, b in pairs:
        on_ground = WORLD in (a, b)
        if on_ground and world.ground is None:
            raise ModelError(
                f"contact pair ({a!r}, {b!r}): expected a world with ground, got none; pass "
                "world=tb.World(ground=tb.Ground())"
            )
        for name in (a, b):
            if name == WORLD or (on_ground and name in pointed):
                continue
            carrier = _carrier(model, name)
            # on the ground a frame stands for its contact points alone
            if (on_ground and carrier != name) or not _shapes(model, carrier):
                what = "contact points or collision shapes" if on_ground else "collision shapes"
                raise ModelError(
                    f"contact pair ({a!r}, {b!r}): expected {what} of {name!r}, got none; give it "
                    "some, or leave the pair out"
                )


def _on_ground(model: Model, world: World, named: set[str] | None) -> list[Candidate]:
    ground = world.ground
    assert ground is not None

    def on(name: str, part: Part, own: ContactMaterial | None) -> Candidate:
        patches = tuple(
            replace(patch, material=combined_material(own, patch.material))
            for patch in ground.patches
        )
        material = combined_material(own, ground.material)
        return Candidate(name, part, below, material, patches, own=own)

    below = _ground_part(ground)
    found = []
    pointed = {_carrier(model, point.body) for point in model.contacts}
    roots = _roots(model)
    for point in model.contacts:
        if named is None or _carrier(model, point.body) in named or point.body in named:
            sphere = Part(point.body, "sphere", Pose(translation=point.position), (point.radius,))
            found.append(on(point.name, sphere, point.material))
    trees = {roots[name] for name in pointed}
    for body in model.bodies:
        if body.name in pointed:
            continue
        if roots[body.name] not in trees if named is None else body.name in named:
            shapes = _shapes(model, body.name)
            chosen = [one for one in shapes if bits_match(one.bits, ground.contact_bits)]
            if named is not None:
                # shapes without bits touch in pairs alone
                chosen = [one for one in shapes if one in chosen or one.bits == NO_BITS] or shapes
            found += [on(f"{one.name}/ground", one.part, one.material) for one in chosen]
    return found


def _ground_part(ground: Ground) -> Part:
    """Return the ground as a shape."""
    grid = ground.grid
    if grid is None:
        level = Pose(translation=(0.0, 0.0, ground.height))
        return Part(WORLD, "plane", level, (), geometry=PlaneShape())
    return Part(WORLD, FIELDS[grid.smooth], Pose(), field_size(ground), grid)


def _reach(name: str, part: Part, ground: Part) -> Reach:
    """Return the cells of uneven ground that are searched around a shape."""
    assert ground.grid is not None
    spacing = ground.grid.spacing
    radius = part.size[0] if part.kind in ("sphere", "capsule") else 0.0
    body = reach_of(bounding_radius(part.kind, part.size), spacing)
    if body > MAX_REACH:
        raise ModelError(
            f"contact {name!r}: expected a shape of up to {MAX_REACH} cells of the ground, got "
            f"{body} of {min(spacing):g} m; make the grid coarser, or the shape of smaller ones"
        )
    return Reach(reach_of(radius, spacing), body)


def _named(model: Model, world: World, a: str, b: str) -> list[Candidate]:
    """Return the contacts of two bodies, or of a body and the ground if there is one."""
    if WORLD not in (a, b):
        return _between(model, a, b, is_named=True)
    return [] if world.ground is None else _on_ground(model, world, {a, b})


def _bodies(model: Model, candidate: Candidate) -> frozenset[str]:
    """Return the two bodies of a candidate; "world" for the ground."""
    return frozenset(_carrier(model, part.body) for part in (candidate.first, candidate.second))


def _between_trees(model: Model) -> list[Candidate]:
    roots = _roots(model)
    names = [body.name for body in model.bodies]
    return [
        candidate
        for place, a in enumerate(names)
        for b in names[place + 1 :]
        if roots[a] != roots[b]
        for candidate in _between(model, a, b)
    ]


def _between(model: Model, a: str, b: str, *, is_named: bool = False) -> list[Candidate]:
    """Return the contacts of two bodies; `is_named` where a pair names them."""
    a, b = _carrier(model, a), _carrier(model, b)
    found = []
    named = _named_shapes(model, a, b) if is_named else None
    for one, other in itertools.product(_shapes(model, a), _shapes(model, b)):
        if bits_match(one.bits, other.bits) if named is None else (one.name, other.name) in named:
            name = f"{one.name}/{other.name}"
            material = combined_material(one.material, other.material)
            found.append(Candidate(name, one.part, other.part, material))
    return found


def _named_shapes(model: Model, a: str, b: str) -> set[tuple[str, str]]:
    """Return which shapes of two bodies meet that a pair names, whatever their bits say of all.

    Those whose bits match, and those without bits, which touch in pairs alone; else all of them.
    """
    every = list(itertools.product(_shapes(model, a), _shapes(model, b)))
    chosen = [
        (one, other)
        for one, other in every
        if bits_match(one.bits, other.bits) or NO_BITS in (one.bits, other.bits)
    ]
    return {(one.name, other.name) for one, other in chosen or every}


NO_BITS = (0, 0)
"""Bits of a shape that touches only where a pair names its body."""


class BodyShape(NamedTuple):
    """A collision shape of a body."""

    name: str
    """Unique in the model."""

    part: Part
    material: ContactMaterial | None
    bits: ContactBits | None


def _shapes(model: Model, body: str) -> list[BodyShape]:
    """Return the collision shapes of a body."""
    shapes = [s for s in model.body(body).shapes if s.role in ("both", "collision")]
    found = []
    for place, shape in enumerate(shapes):
        name = body if len(shapes) == 1 else f"{body}.{shape.name or place}"
        found.append(BodyShape(name, _part(body, shape), shape.material, shape.contact_bits))
    return found


def _part(body: str, shape: Shape) -> Part:
    """Return a shape of a body."""
    geometry = shape.geometry
    if isinstance(geometry, MeshShape):
        return Part(body, MESH, shape.pose, (), geometry=geometry)
    kind = shape_kind(geometry, f"body {body!r}")
    return Part(body, kind, shape.pose, shape_size(geometry), geometry=geometry)


def _met(candidate: Candidate) -> Candidate:
    """Return two shapes as code takes them: convex ones are hulls against meshes, others located.

    Raises:
        ModelError: If the shapes have no contacts with each other.
    """
    name, parts = candidate.name, (candidate.first, candidate.second)
    if not any(part.kind == MESH for part in parts):
        first, second = (replace(part, geometry=None) for part in parts)
    elif _meet_as_hulls(parts, name):
        first, second = (
            _as_hull(part, name, "plane" in (parts[0].kind, parts[1].kind)) for part in parts
        )
    else:
        from tiburon.contact.meshes import solid_of

        for part in parts:
            solid_of(part.geometry, f"contact {name!r}", fresh=True)  # type: ignore[arg-type]
        first, second = (
            replace(part, kind=LOCATED, size=size)
            for part, size in zip(parts, ABSENT_CONTACTS, strict=True)
        )
    found = replace(candidate, first=first, second=second)
    if second.grid is None:
        return found
    _ = found.pair  # before cells are counted, which planes have without end
    return replace(found, reach=_reach(name, first, second))


def _meet_as_hulls(parts: tuple[Part, Part], name: str) -> bool:
    """Return whether a mesh meets its partner by its hull: a plane, or another convex shape.

    Raises:
        ModelError: If it does not meet it at all.
    """
    from tiburon.contact.meshes import is_convex

    for part in parts:
        if part.geometry is None:
            raise ModelError(
                f"contact {name!r}: meshes do not touch {part.kind}s; cover the mesh with simple "
                "shapes: tb.cover_mesh, or tb.cover_meshes for all meshes of a robot"
            )
    if any(part.kind == "plane" for part in parts):
        return True
    meshes = [part.geometry for part in parts if isinstance(part.geometry, MeshShape)]
    return all(is_convex(mesh, f"contact {name!r}") for mesh in meshes)


def _as_hull(part: Part, name: str, on_plane: bool) -> Part:
    """Return a shape as a polyhedron: a mesh as its hull, with its origin in the middle of it.

    Against a plane other shapes stay what they are, and a mesh may be flat.
    """
    from tiburon.contact.meshes import hull_of

    kind, radius = "hull", 0.0
    match part.geometry:
        case MeshShape() as mesh:
            vertices, middle = hull_of(mesh, f"contact {name!r}", flat=on_plane)
            part = replace(part, pose=part.pose @ Pose(translation=middle))
        case _ if on_plane:
            return replace(part, geometry=None)
        case SphereShape(radius=radius):
            kind, vertices = "ball", np.zeros((1, 3))
        case CapsuleShape(radius=radius, length=length):
            kind, vertices = "rod", np.array([[0.0, 0.0, -0.5], [0.0, 0.0, 0.5]]) * length
        case BoxShape(size=size):
            vertices = box(size)[0]
        case CylinderShape(radius=across, length=length):
            vertices = prism(across, length)[0]
        case EllipsoidShape(radii=radii):
            vertices = rounded(radii)[0]
        case _:
            raise AssertionError(part.geometry)
    hull = tuple(vertices.ravel().tolist())
    own = tuple(radius if k == RADIUS else 0.0 for k in range(OWN_DIMENSIONS))
    return replace(part, kind=kind, size=own, hull=hull, geometry=None)


def _carrier(model: Model, name: str) -> str:
    """Return the body that carries a frame."""
    frames = {frame.name: frame.body for frame in model.frames}
    while name in frames:
        name = frames[name]
    return name


def _movable(model: Model) -> set[str]:
    """Return the bodies that some joint moves."""
    found: set[str] = set()
    for body in model.bodies:
        if body.parent in found or body.joint.nv:
            found.add(body.name)
    return found


def _roots(model: Model) -> dict[str, str]:
    """Return for each body the first body of its tree."""
    found: dict[str, str] = {}
    for body in model.bodies:
        found[body.name] = found.get(body.parent, body.name)
    return found
