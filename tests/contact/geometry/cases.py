"""Placed shapes at random, their motion, and kernels of pairs."""

import functools

import numpy as np

from tiburon.contact.geometry.contact_geometry import ContactGeometry, Placed
from tiburon.contact.geometry.height_field import field_size, placed_field
from tiburon.contact.geometry.hull_hull import ANY_DISTANCE, NEAR
from tiburon.contact.geometry.pairs import PAIRS, pair
from tiburon.contact.polyhedra import polyhedron, table_of
from tiburon.model.world import Ground, GroundGrid
from tiburon.native.kernel import ProgramSource, make_kernel
from tiburon.spatial import axis_angle_to_matrix
from tiburon.trace import Input, forward_derivative, interpret, trace
from tiburon.trace.primitives.primitive import address_of

SIZES = {
    "sphere": 1,
    "foot": 1,
    "capsule": 2,
    "cylinder": 2,
    "box": 3,
    "ellipsoid": 3,
    "plane": 0,
    "hull": NEAR + 1,
    "rod": NEAR + 1,
    "ball": NEAR + 1,
    "height field": 5,
    "smooth height field": 5,
}
NAMES = [f"{a}-{b}" for a, b in PAIRS]


class Terrain:
    """A height field in the world, with the grid that holds its heights."""

    def __init__(self, heights, spacing=(1.0, 1.0), origin=(0.0, 0.0)):
        self.grid = GroundGrid(spacing, np.asarray(heights).tolist(), origin)
        self.placed = placed_field(field_size(Ground(grid=self.grid)), self.grid.table.handle)


def terrain(roughness):
    return Terrain(np.random.default_rng(0).uniform(-roughness, roughness, (9, 9)))


TERRAINS = {"height field": terrain(0.4), "smooth height field": terrain(0.05)}
"""Triangles with slopes of up to 40 degrees; smooth ground with radii of curvature above 1 m."""


def polyhedra():
    """Return the numbers of some polyhedra, and the sizes of placed ones by kind."""
    rng = np.random.default_rng(1)
    found = {
        "hull": [((0.15 * rng.standard_normal(3 * n)).tolist(), 0.0) for n in (10, 40)],
        "rod": [((0.0, 0.0, -0.1, 0.0, 0.0, 0.1), 0.1)],
        "ball": [((0.0, 0.0, 0.0), 0.1)],
    }
    every = [(polyhedron(tuple(x)), radius) for some in found.values() for x, radius in some]
    numbers, sizes = table_of(every)
    ends = iter(sizes)
    return numbers, {kind: [next(ends) for _ in some] for kind, some in found.items()}


DRAWN = 8
"""Random numbers drawn before a polyhedron is chosen: cases are those of their seeds."""

POLYHEDRA, RANGES = polyhedra()
"""Polyhedra of kinds whose vertices are in a table."""


def tuples(array):
    array = np.asarray(array, dtype=float).tolist()
    return tuple(map(tuple, array)) if isinstance(array[0], list) else tuple(array)


def rotation(rng):
    vector = rng.standard_normal(3)
    angle = float(np.linalg.norm(vector))
    return np.array(axis_angle_to_matrix(tuple(vector / angle), angle * 2.0))


def random_shape(rng, kind, spread=0.35):
    """Return a shape of 0.1 to 0.4 m within a few tenths of the origin, at any orientation."""
    if kind in TERRAINS:
        w = 0.2 * rng.standard_normal(3)
        tilt = np.array(axis_angle_to_matrix(tuple(w / np.linalg.norm(w)), np.linalg.norm(w)))
        middle = 0.35 * rng.standard_normal(3)
        return TERRAINS[kind].placed._replace(
            rotation=tuples(tilt), position=tuples(middle - tilt @ [4.0, 4.0, 0.0])
        )
    drawn = DRAWN if kind in RANGES else SIZES[kind]
    size = tuple(rng.uniform(0.1, 0.4, drawn).tolist())
    if kind in RANGES:
        some = RANGES[kind]
        size = (*some[rng.integers(len(some))], address_of(POLYHEDRA.rows), ANY_DISTANCE)
    return Placed(tuples(rotation(rng)), tuples(spread * rng.standard_normal(3)), size)


def world_vertices(shape):
    """Return the vertices of a polyhedron in the world."""
    first, count = map(int, shape.size[:2])
    return POLYHEDRA.rows[first : first + count] @ np.array(shape.rotation).T + shape.position


def random_pair(rng, name):
    first, second = name.split("-")
    return random_shape(rng, first), random_shape(rng, second)


def moved(shape, twist, time):
    """Return a shape after it moved with a constant twist (angular, linear), world axes."""
    w, v = np.array(twist[:3]), np.array(twist[3:])
    rate = float(np.linalg.norm(w))
    turn = np.array(axis_angle_to_matrix(tuple(w / rate), rate * time))
    position = np.array(shape.position) + v * time
    return Placed(tuples(turn @ np.array(shape.rotation)), tuples(position), shape.size)


def velocity_at(shape, twist, point):
    """Return the velocity of a shape's material point."""
    return np.array(twist[3:]) + np.cross(twist[:3], np.array(point) - np.array(shape.position))


def flat(shape):
    return np.array([*np.ravel(shape.rotation), *shape.position, *shape.size], dtype=float)


def unflat(x):
    rows = tuple(tuple(x[3 * i + j] for j in range(3)) for i in range(3))
    return Placed(rows, (x[9], x[10], x[11]), tuple(x[12 + k] for k in range(len(x) - 12)))


def results(contacts):
    """Return contacts as one flat list of scalars."""
    found = []
    for contact in contacts:
        found += [contact.gap, *contact.point, *contact.normal]
        for matrix in (contact.relative_curvature, contact.first_share):
            found += [x for row in matrix for x in row]
    return found


@functools.cache
def program(name):
    first, second = name.split("-")
    function = pair(first, second).function

    def contact(first, second):
        found = results(function(unflat(first), unflat(second)))
        # constants, such as the zero curvature of planes, stay floats
        return np.array([x + 0.0 * first[0] for x in found], like=first)

    inputs = [Input("first", (12 + SIZES[first],)), Input("second", (12 + SIZES[second],))]
    return trace(contact, inputs, name=f"contact_{first}_{second}".replace(" ", "_"))


@functools.cache
def kernel(name):
    return make_kernel(ProgramSource(program(name)))


@functools.cache
def derivative(name):
    """Return the forward derivative of a pair: a function of shapes and their directions.

    Terrain is compiled: its loops over tiles take the interpreter longer.
    """
    found = forward_derivative(program(name))
    if "field" in name:
        return make_kernel(ProgramSource(found))
    return lambda *arrays: interpret(found, arrays)


def batch(pairs):
    """Return the arrays of first and of second shapes, one row per pair."""
    return [np.array([flat(shapes[k]) for shapes in pairs]) for k in (0, 1)]


def contacts(name, pairs):
    """Return the contacts of each pair of placed shapes, from one call of the kernel."""
    rows = np.asarray(kernel(name)(*batch(pairs)))
    return [
        tuple(
            ContactGeometry(
                row[0],
                tuple(row[1:4]),
                tuple(row[4:7]),
                tuples(np.reshape(row[7:16], (3, 3))),
                tuples(np.reshape(row[16:], (3, 3))),
            )
            for row in case
        )
        for case in rows.reshape(len(pairs), -1, 25).tolist()
    ]
