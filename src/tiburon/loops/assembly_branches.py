"""All ways to assemble a robot: the branches of its position problem, labelled.

With the joints of the motors held this is forward kinematics of a parallel robot, with its platform
placed inverse kinematics: legs of three joints have up to four ways each, so p legs up to 4^p
(Nahon 1991, section 3.1.2). Random starts are followed until new ones find nothing new. A branch is
labelled by signs that change only where it meets another in a singular pose: for each leg the sign
of the determinant of its Jacobian, then that of the joints that are not held.
"""

from collections.abc import Iterable, Mapping, Sequence

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tiburon.argument_checks import at_least
from tiburon.arguments import public
from tiburon.errors import DomainError, LoopError
from tiburon.loops.assembly import Hold, assemble, prepared, reversed_loops
from tiburon.loops.assembly_descent import Closing, descend_all, spread_starts
from tiburon.loops.assembly_joint import places_of
from tiburon.loops.mobility import null_space
from tiburon.loops.topology import Topology, topology
from tiburon.loops.topology_screws import about, joint_screws
from tiburon.model import Model, Pose
from tiburon.record import record

__all__ = ["AssemblyBranches", "assembly_branches"]

Array = NDArray[np.float64]

AT_ONCE = 64
"""Starts that are followed together."""

SAME = 1e-6
"""Distance of body axes and origins below which two positions are one [m and rad]."""

FLAT = 1e-9
"""Determinant, relative to the lengths of its columns, that has no sign."""


@record(eq=False)
class AssemblyBranches:
    """All ways to assemble a robot that were found."""

    q: Array
    """Positions [m or rad], shape (branches, nq); hinges between -pi and pi."""

    labels: tuple[str, ...]
    """Signs of each leg, a slash, the sign of the whole, and a number where several share them."""

    hits: tuple[int, ...]
    """How many starts led to each: where every branch has several, hardly one is missing."""

    starts: int
    """How many starts were followed."""


@public
def assembly_branches(
    model: Model,
    guess: ArrayLike | None = None,
    *,
    hold: Hold = (),
    place: Mapping[str, Pose] | None = None,
    distinct: str | Iterable[str] | None = None,
    starts: int = 512,
    patience: int = 192,
    seed: int = 0,
    tolerance: float = 1e-11,
    max_iterations: int = 60,
) -> AssemblyBranches:
    """Find all ways to assemble a robot while some joints are held or some frames placed.

    Args:
        model: The robot; it has loops.
        guess: Where held joints take their positions from, and one of the starts, shape (nq,).
        hold: Joints that stay, by name, or with their positions [m or rad] by name.
        place: Frames that are to lie somewhere, by name: their pose in the world.
        distinct: Bodies that tell branches apart, such as a platform whose legs may stand
            either way; by default all.
        starts: Most starts to follow.
        patience: Starts without a new branch after which the search ends.
        seed: Of the random starts.
        tolerance: Gap that counts as closed [m or rad].
        max_iterations: Most steps from each start.

    Raises:
        LoopError: If no start led to closed loops.
        DomainError: If freedoms are left, so that there are not single positions but families.

    Example:
        Forward kinematics of a platform::

            tb.assembly_branches(stewart, hold={name: 0.0 for name in stewart.actuated_joint_names})
    """
    at_least("patience", patience, 1)
    at_least("max_iterations", max_iterations, 1)
    at_least("seed", seed, 0)
    closing, given = prepared(model, guess, hold, place or {}, starts, tolerance)
    row = given.reshape(-1, model.nq)[0]
    named = (distinct,) if isinstance(distinct, str) else distinct
    bodies = model.body_names if named is None else tuple(model.body(x).name for x in named)
    if not bodies:
        raise DomainError("distinct", "one body or more", "none")
    rng = np.random.default_rng(seed)
    found: list[Array] = []
    shapes: list[Array] = []
    hits: list[int] = []
    followed, quiet = 0, 0
    while followed < starts and quiet < patience:
        more = spread_starts(model, row, closing.free.tolist(), AT_ONCE, rng)
        if not followed:
            more[0] = row
        followed += AT_ONCE
        quiet += AT_ONCE
        ended = descend_all(closing, more, tolerance, max_iterations)
        for q in ended.q[ended.gap <= tolerance]:
            shape = _shape(model, q, bodies)
            same = [k for k, old in enumerate(shapes) if float(np.abs(old - shape).max()) < SAME]
            if same:
                hits[same[0]] += 1
            elif not reversed_loops(model, q):
                _check_single(closing, q)
                found.append(_unwound(model, q, closing))
                shapes.append(shape)
                hits.append(1)
                quiet = 0
    if not found:
        raise _none(model, row, hold, place)
    labels = _labels(model, closing, found)
    order = sorted(range(len(found)), key=lambda k: (labels[k], tuple(np.round(found[k], 6))))
    return AssemblyBranches(
        np.array([found[k] for k in order]),
        _numbered([labels[k] for k in order]),
        tuple(hits[k] for k in order),
        followed,
    )


def _none(model: Model, row: Array, hold: Hold, place: Mapping[str, Pose] | None) -> LoopError:
    """Return the error about a robot that cannot be assembled at all."""
    try:
        assemble(model, row, hold=hold, place=place)
    except LoopError as error:
        return error
    return LoopError(
        f"model {model.name!r}: no start led to closed loops; allow more starts (starts, patience, "
        "max_iterations) or a larger tolerance",
        {},
    )


def _shape(model: Model, q: Array, bodies: Sequence[str]) -> Array:
    """Return axes and origins of some bodies: positions that look the same are the same."""
    places = places_of(model, q)
    return np.array([[x for row in (*places[n].R, places[n].p) for x in row] for n in bodies])


def _check_single(closing: Closing, q: Array) -> None:
    """Raise if a position belongs to a family of them."""
    loose = null_space(closing.rates(q[None])[0])
    if loose.shape[1]:
        model = closing.model
        names = {model.v_names[closing.free[k]] for k in np.argmax(np.abs(loose), axis=0)}
        raise DomainError(
            "hold",
            "as many joints as the robot has freedoms",
            f"{loose.shape[1]} freedom{'s' if loose.shape[1] > 1 else ''} left",
            advice=f"hold more, such as {', '.join(sorted(names))}",
        )


def _unwound(model: Model, q: Array, closing: Closing) -> Array:
    """Return a position with the angles of free hinges between -pi and pi."""
    found = np.array(q)
    free = set(closing.free.tolist())
    for joint in model.joints:
        v = model.slice(joint.name, of="v")
        own = joint.kind in ("revolute", "universal") and joint.follows is None
        if own and free.issuperset(range(v.start, v.stop)):
            angles = found[model.slice(joint.name)]
            found[model.slice(joint.name)] = np.pi - (np.pi - angles) % (2.0 * np.pi)
    return found


# -- labels ----------------------------------------------------------------------------------------


def _labels(model: Model, closing: Closing, found: list[Array]) -> list[str]:
    """Return signs of legs and of the whole, one string per branch."""
    shape = topology(model)
    basis = _motions(model, shape)
    labels = []
    for q in found:
        at = joint_screws(model, q)
        legs = ""
        for path in shape.paths:
            columns = np.hstack([at.of[name].columns for name in path])
            reference = np.array(at.places[shape.poles[1]].p)
            legs += _sign(basis.T @ _about(columns, reference, basis))
        J = closing.rates(q[None])[0]
        labels.append(f"{legs}/{_whole(J)}")
    return labels


def _about(columns: Array, point: Array, basis: Array) -> Array:
    """Return screws about a point where all of space is open; planes stay as they are."""
    return about(columns, point) if basis.shape[1] == 6 else columns


def _motions(model: Model, shape: Topology) -> Array:
    """Return a basis of the motions that legs can give, shape (6, d); the same for all branches."""
    d = max((line.dimension for line in shape.joints), default=6)
    if d == 6 or not shape.paths:
        return np.eye(6)
    rng = np.random.default_rng(4)
    names = [name for path in shape.paths for name in path]
    some = [joint_screws(model, model.random_state(rng, limits=False)[0], rng).of for _ in range(3)]
    stacked = np.hstack([at[name].columns for at in some for name in names])
    return np.asarray(np.linalg.svd(stacked)[0][:, :d])


def _sign(matrix: Array) -> str:
    """Return the sign of a determinant: "0" where it vanishes, "." where there is none."""
    if matrix.shape[0] != matrix.shape[1]:
        return "."
    size = float(np.prod(np.linalg.norm(matrix, axis=0)))
    value = float(np.linalg.det(matrix))
    return "0" if abs(value) <= FLAT * size else ("+" if value > 0.0 else "-")


def _whole(J: Array) -> str:
    """Return the sign of the determinant of the live rows, where they are as many as columns."""
    live = J[np.abs(J).max(axis=1, initial=0.0) > FLAT]
    return _sign(live)


def _numbered(labels: list[str]) -> tuple[str, ...]:
    """Return labels with a number behind those that several branches share."""
    found = []
    for k, label in enumerate(labels):
        count = labels.count(label)
        found.append(f"{label} {labels[:k].count(label) + 1}" if count > 1 else label)
    return tuple(found)
