"""Operation counts of single operations: coordinate transforms of vectors and inertias.

Each kernel is traced on variables, except for what the source treats as constant: angles and
distances of a link, and the mass of a body. Sines and cosines are variables themselves and free.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

from tiburon.reproduce.chains import cost_of
from tiburon.reproduce.published import Cost
from tiburon.spatial import (
    ArticulatedInertia,
    AxisRotation,
    Motion,
    RigidInertia,
    Rotation,
    Scalar,
    Scalars,
    Transform,
    Translation,
)
from tiburon.trace.count import count
from tiburon.trace.program import trace


@dataclass(frozen=True)
class Kernel:
    """One operation: its published cost, and our implementation."""

    table: str
    """Source and table."""

    operation: str
    """Name of the operation."""

    published: Cost
    run: Callable[..., Scalars]
    """Called with one list of scalars per input."""

    inputs: Mapping[str, int]
    """Name and size of each input."""

    constants: tuple[str, ...] = ()
    """Inputs that are constant."""

    def cost(self) -> Cost:
        """Count the operations of our implementation."""

        def function(*arrays: Any) -> Any:
            return list(self.run(*[array.tolist() for array in arrays]))

        shapes = {name: (size,) for name, size in self.inputs.items()}
        return cost_of(count(trace(function, shapes), self.constants))


# -- transforms and inertias of variables ----------------------------------------------------------


def _general(x: Scalars) -> Transform:
    """Return a general transform from twelve values."""
    E = ((x[0], x[1], x[2]), (x[3], x[4], x[5]), (x[6], x[7], x[8]))
    return Transform((Translation((x[9], x[10], x[11])), Rotation(E)))


def _screw(axis: int, x: Scalars) -> Transform:
    """Return a screw transform along a coordinate axis from cosine, sine and distance."""
    c, s, d = x
    step = (d if axis == 0 else 0.0, d if axis == 1 else 0.0, d if axis == 2 else 0.0)
    return Transform((Translation(step), AxisRotation(axis, c, s)))


def _link(x: Scalars, z: Scalars) -> Transform:
    """Return a modified Denavit-Hartenberg transform: an x-screw, then a z-screw."""
    return _screw(0, x).then(_screw(2, z))


def _reflected(row: int, x: Scalars) -> ArticulatedInertia:
    """Return an inertia whose row and column of the joint axis are zero."""
    rows: list[list[Scalar]] = [[0.0] * 6 for _ in range(6)]
    values = iter(x)
    for i in range(6):
        for j in range(i, 6):
            if row not in (i, j):
                rows[i][j] = rows[j][i] = next(values)
    return ArticulatedInertia.from_rows(rows)


def _pose(X: Transform) -> list[Scalar]:
    """Return rotation and translation, multiplied out."""
    return [*(x for row in X.rotation for x in row), *X.translation]


def _symmetric(x: Scalars) -> ArticulatedInertia:
    return ArticulatedInertia.from_array(x)


def _rigid(x: Scalars, mass: Scalars) -> RigidInertia:
    return RigidInertia.from_array([*mass, *x])


# -- the tables ------------------------------------------------------------------------------------

_XX = {"X1": 12, "X2": 12}
_XV = {"X": 12, "v": 6}
_XI = {"X": 12, "I": 21}
_XR = {"X": 12, "I": 9, "mass": 1}
_LINK = {"x_screw": 3, "z_screw": 3}


def _featherstone() -> list[Kernel]:
    def move_general(X: Any, I: Any) -> Any:
        return _general(X).inertia_to_parent(_symmetric(I))

    def move_rigid(X: Any, I: Any, mass: Any) -> Any:
        return _general(X).inertia_to_parent(_rigid(I, mass))

    def screw_general(X: Any, I: Any) -> Any:
        return _screw(2, X).inertia_to_parent(_symmetric(I))

    def screw_rigid(X: Any, I: Any, mass: Any) -> Any:
        return _screw(2, X).inertia_to_parent(_rigid(I, mass))

    t3, t4, t5 = (f"Featherstone 1987, Table 8-{k}" for k in (3, 4, 5))
    body, screw_body = "articulated-body inertia", "screw of an articulated-body inertia"
    rigid, screw_rigid_body = "rigid-body inertia", "screw of a rigid-body inertia"
    screw = {"X": 3}
    return [
        Kernel(
            t3,
            "product of two transforms",
            Cost(36, 27),
            lambda a, b: _pose(_general(a).then(_general(b))),
            _XX,
        ),
        Kernel(
            t3,
            "transform of a vector",
            Cost(24, 18),
            lambda X, v: tuple(_general(X).motion(Motion.from_array(v))),
            _XV,
        ),
        Kernel(t3, f"transform of an {body}", Cost(216, 162), move_general, _XI),
        Kernel(t3, f"transform of a {rigid}", Cost(84, 69), move_rigid, _XR),
        Kernel(t4, f"symmetric transform of an {body}", Cost(177, 132), move_general, _XI),
        Kernel(t4, f"symmetric transform of a {rigid}", Cost(69, 57), move_rigid, _XR),
        Kernel(
            t5,
            "product with a screw",
            Cost(15, 9),
            lambda a, b: _pose(_general(a).then(_screw(2, b))),
            {"X1": 12, "X2": 3},
        ),
        Kernel(
            t5,
            "screw of a vector",
            Cost(10, 6),
            lambda X, v: tuple(_screw(2, X).motion(Motion.from_array(v))),
            screw | {"v": 6},
        ),
        Kernel(t5, screw_body, Cost(70, 64), screw_general, screw | {"I": 21}),
        Kernel(t5, f"symmetric {screw_body}", Cost(54, 50), screw_general, screw | {"I": 21}),
        Kernel(t5, screw_rigid_body, Cost(31, 25), screw_rigid, screw | {"I": 9, "mass": 1}),
        Kernel(
            t5,
            f"symmetric {screw_rigid_body}",
            Cost(23, 20),
            screw_rigid,
            screw | {"I": 9, "mass": 1},
        ),
        Kernel(
            f"{t5}, shortened",
            f"symmetric {screw_rigid_body}",
            Cost(19, 18),
            screw_rigid,
            screw | {"I": 9, "mass": 1},
        ),
    ]


def _mcmillan() -> list[Kernel]:
    def z_screw(z: Any, I: Any) -> Any:
        return _screw(2, z).inertia_to_parent(_symmetric(I))

    def link(x: Any, z: Any, I: Any) -> Any:
        return _link(x, z).inertia_to_parent(_symmetric(I))

    def reflected(axis: int, row: int) -> Callable[..., Any]:
        return lambda screw, N: _screw(axis, screw).inertia_to_parent(_reflected(row, N))

    def reflected_link(row: int) -> Callable[..., Any]:
        return lambda x, z, N: _link(x, z).inertia_to_parent(_reflected(row, N))

    def turning(x: Any, turn: Any, d: Any, K: Any, mass: Any) -> Any:
        return _link(x, [*turn, *d]).inertia_to_parent(_rigid(K, mass))

    t21, t22, t23, t24 = (f"McMillan 1994, Table {k}" for k in (21, 22, 23, 24))
    symmetric = "symmetric 6x6 matrix"
    revolute, prismatic = "reflected inertia of a revolute", "reflected inertia of a prismatic"
    composite = "composite inertia through a"
    zI, linkI = {"z_screw": 3, "I": 21}, _LINK | {"I": 21}
    zN, linkN = {"screw": 3, "N": 15}, _LINK | {"N": 15}
    K = {"x_screw": 3, "turn": 2, "d": 1, "K": 9, "mass": 1}
    fixed = ("z_screw",)
    return [
        Kernel(t21, f"z-screw of a {symmetric}", Cost(44, 46), z_screw, zI),
        Kernel(t21, f"constant z-screw of a {symmetric}", Cost(42, 43), z_screw, zI, fixed),
        Kernel(t21, f"link transform of a {symmetric}", Cost(86, 89), link, linkI, ("x_screw",)),
        Kernel(
            t21,
            f"constant link transform of a {symmetric}",
            Cost(84, 86),
            link,
            linkI,
            ("x_screw", "z_screw"),
        ),
        Kernel(t22, f"z-screw, {revolute} joint", Cost(34, 40), reflected(2, 2), zN),
        Kernel(t22, f"z-screw, {prismatic} joint", Cost(34, 40), reflected(2, 5), zN),
        Kernel(t23, f"x-screw, {revolute} joint", Cost(36, 31), reflected(0, 2), zN, ("screw",)),
        Kernel(t23, f"x-screw, {prismatic} joint", Cost(36, 31), reflected(0, 5), zN, ("screw",)),
        Kernel(
            "McMillan 1994, Tables 22 and 23",
            f"link transform, {revolute} joint",
            Cost(70, 71),
            reflected_link(2),
            linkN,
            ("x_screw",),
        ),
        Kernel(
            "McMillan 1994, Tables 22 and 23",
            f"link transform, {prismatic} joint",
            Cost(70, 71),
            reflected_link(5),
            linkN,
            ("x_screw",),
        ),
        Kernel(
            t24, f"{composite} revolute joint", Cost(32, 39), turning, K, ("x_screw", "d", "mass")
        ),
        Kernel(
            t24,
            f"{composite} prismatic joint",
            Cost(32, 36),
            turning,
            K,
            ("x_screw", "turn", "mass"),
        ),
    ]


KERNELS: tuple[Kernel, ...] = (*_featherstone(), *_mcmillan())
"""All single operations whose cost is published."""


@dataclass(frozen=True)
class Storage:
    """Number of stored values of a quantity (Featherstone 1987, Table 8-2)."""

    quantity: str
    published: int
    ours: int


STORAGE: tuple[Storage, ...] = (
    Storage("vector", 6, len(tuple(Motion.zero()))),
    Storage("transform", 12, len(_pose(Transform.identity()))),
    Storage("articulated-body inertia", 27, len(tuple(ArticulatedInertia.zero()))),
    Storage("rigid-body inertia", 13, len(tuple(RigidInertia.zero()))),
)
"""Table 8-2."""


# -- Table 4-1: recurrence relations ---------------------------------------------------------------

MATRIX_SIZES = (1, 2, 3, 5, 10, 20)
"""Numbers of matrices in Table 4-1."""


def matrix_products(n: int) -> tuple[tuple[int, int], tuple[int, int]]:
    """Count matrix products in the derivative of a product of n matrices, by two methods.

    Featherstone 1987, section 4.2. Written as a sum, d(A1 ... An)/dt takes n (n - 1) products; by
    the recurrence P_i = P_(i-1) A_i, Pd_i = Pd_(i-1) A_i + P_(i-1) Ad_i it takes 3 n - 4. Counted
    here on 2x2 matrices of variables, eight multiplications each. Our count of the sum is smaller
    than published because common subexpressions are computed once.

    Returns:
        The sum, then the recurrence; each (published, ours).
    """

    def algebraic(A: Any, Ad: Any) -> Any:
        total = None
        for differentiated in range(n):
            term = Ad[0] if differentiated == 0 else A[0]
            for i in range(1, n):
                term = term @ (Ad[i] if i == differentiated else A[i])
            total = term if total is None else total + term
        return total

    def recurrence(A: Any, Ad: Any) -> Any:
        P, Pd = A[0], Ad[0]
        for i in range(1, n):
            P, Pd = P @ A[i], Pd @ A[i] + P @ Ad[i]
        return Pd

    shapes = {"A": (n, 2, 2), "Ad": (n, 2, 2)}
    sums, steps = (
        count(trace(way, shapes)).multiplications // 8 for way in (algebraic, recurrence)
    )
    return (n * (n - 1), sums), (max(0, 3 * n - 4), steps)
