"""Mass matrix: the composite-rigid-body algorithm in body coordinates.

Symbols (Featherstone 1987, chapter 5):
    X       motion transform from the parent's frame to the body's
    S       motion subspace of a joint, its columns in body coordinates
    IC      inertia of a subtree as one rigid body
    F       force of a unit acceleration of that composite body along each joint axis
    H       mass matrix
"""

from collections.abc import Callable, Sequence

from tiburon.algorithms.like_branches import like_branches
from tiburon.algorithms.pair_products import (
    Vectors,
    before_products,
    components,
    is_taped,
    joint_matrix,
    tree_matrix,
)
from tiburon.algorithms.root_frame import Place, places_of
from tiburon.algorithms.tape_calls import JointVector, recorder
from tiburon.algorithms.traversal import inward, outward, path, with_armature
from tiburon.model import Plan, PlanBody
from tiburon.record import record
from tiburon.spatial import ArticulatedInertia, Force, RigidInertia, Scalar, Scalars, Transform

Forces = tuple[Force, ...]
Components = tuple[Scalar, ...]
Projected = tuple[Components, ...]
AnyInertia = RigidInertia | ArticulatedInertia


@record
class _Subtree:
    """A composite body, and the forces that unit accelerations of joints in it need; they add."""

    IC: AnyInertia
    forces: tuple[tuple[float, Forces], ...]
    """Index of a body, and the forces of the axes of its joint."""

    def __add__(self, other: "_Subtree") -> "_Subtree":
        return _Subtree(self.IC + other.IC, self.forces + other.forces)


def crba(plan: Plan, q: Scalars, *, lanes: bool = False) -> tuple[tuple[Scalar, ...], ...]:
    """Compute the mass matrix.

    Featherstone 1987, eqs. 5.7-5.14 in link coordinates, for trees (7.9) and joints with several
    degrees of freedom (7.18). Entries between branches are zero and cost nothing; symmetric entries
    are computed once.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        lanes: Whether like branches are computed side by side; q is a `JointVector` then.

    Returns:
        Rows of the mass matrix [kg, kg m or kg m^2], nv times nv scalars.
    """

    def place(body: PlanBody, _: object) -> tuple[AnyInertia, Transform]:
        return body.effective_inertia, body.transform(q[body.q])

    def compose(
        body: PlanBody, total: _Subtree, X: Transform, number: float
    ) -> tuple[tuple[tuple[float, Projected], ...], Callable[[], _Subtree]]:
        F = tuple(total.IC.apply(S) for S in body.joint.subspace(q[body.q]))
        pushed = (*total.forces, (number, F))
        projected = tuple(
            (of, tuple(body.joint.project(q[body.q], f) for f in forces)) for of, forces in pushed
        )

        def to_parent() -> _Subtree:
            carried = ((of, tuple(X.force_to_parent(f) for f in forces)) for of, forces in pushed)
            return _Subtree(X.inertia_to_parent(total.IC), tuple(carried))

        return projected, to_parent

    # outward: transforms
    nowhere: tuple[AnyInertia, Transform] = (RigidInertia.zero(), Transform.identity())
    visits = outward(plan, place, nowhere, lanes=lanes)
    # inward: composite bodies, and forces of unit joint accelerations on all ancestors
    alone = [_Subtree(inertia, ()) for inertia, _ in visits]
    numbers = [float(body.index) for body in plan.bodies]
    kept = inward(plan, compose, alone, [X for _, X in visits], numbers, lanes=lanes)
    found = {
        (int(float(of)), ancestor.index): columns
        for ancestor, pushed in zip(plan.bodies, kept, strict=True)
        for of, columns in pushed
    }
    H: list[list[Scalar]] = [[0.0] * plan.nv for _ in range(plan.nv)]
    for body in plan.bodies:
        for index in path(plan, body.index):
            ancestor = plan.bodies[index]
            for column, entries in enumerate(found[body.index, index], start=body.v.start):
                for row, entry in enumerate(entries, start=ancestor.v.start):
                    # the diagonal block is symmetric: use its upper part
                    if body is not ancestor or row <= column:
                        # shared variables add up, twice if one joint carries the other
                        value = entry + entry if body is not ancestor and row == column else entry
                        H[row][column] = H[column][row] = H[row][column] + value
    return with_armature(plan, H)


def composite_vectors(plan: Plan, q: Scalars) -> tuple[Vectors, Vectors]:
    """Compute S and F of every joint axis in the frame of the first body of its tree.

    Composite bodies are computed in body coordinates, as in `crba`, for accuracy; S and F are then
    transformed to the common frame, where an entry of H is S . F. No force is propagated per pair
    of bodies. Returns six rows each, with one component per axis.
    """

    @before_products(plan)
    def vectors(q: Scalars) -> tuple[Vectors, Vectors]:
        position = JointVector(q)

        def compose(
            body: PlanBody, IC: AnyInertia, place: Place, X: Transform
        ) -> tuple[tuple[tuple[Components, ...], tuple[Components, ...]], AnyInertia]:
            S = body.joint.subspace(position[body.q])
            axes = tuple(tuple(place.motion(s)) for s in S)
            forces = tuple(tuple(place.force(IC.apply(s))) for s in S)
            return (axes, forces), X.inertia_to_parent(IC)

        found = places_of(plan, position)
        places, transforms = [x.place for x in found], [x.X for x in found]
        alone = [body.effective_inertia for body in plan.bodies]
        kept = inward(plan, compose, alone, places, transforms)
        S, F = [s for S, _ in kept for s in S], [f for _, F in kept for f in F]
        return components(S, 6), components(F, 6)

    S, F = vectors(list(q))
    return S, F


def mass_elements(plan: Plan, q: Scalars, *, lanes: bool = False) -> list[Scalar]:
    """Compute the mass matrix, nv times nv scalars row by row, by the method for its size.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        lanes: Whether like branches are computed side by side, which is then the method.
    """
    side_by_side = lanes and recorder() is None and like_branches(plan)
    if side_by_side or not is_taped(plan):
        return [x for row in crba(plan, q, lanes=lanes) for x in row]
    return composite_products(plan, *composite_vectors(plan, q))


def chosen_mass_elements(
    plan: Plan, q: Scalars, elements: Sequence[tuple[int, int]]
) -> list[Scalar]:
    """Compute selected elements of the mass matrix; on the tape only these.

    Args:
        plan: Layout of the model.
        q: Configuration [m or rad], nq scalars.
        elements: Row and column of each; the column is the row or an ancestor of it.
    """
    if not is_taped(plan) or plan.has_couplings:
        H = mass_elements(plan, q)
        return [H[i * plan.nv + j] for i, j in elements]
    S, F = composite_vectors(plan, q)
    return tree_matrix(elements, (F, S), _armatures(plan))


def _armatures(plan: Plan) -> list[Scalar] | None:
    """Return the armature of each joint axis; None if all are zero."""
    if all(body.armature is None for body in plan.bodies):
        return None
    return [
        own
        for body in plan.bodies
        for own in body.armature or (0.0,) * (body.v.stop - body.v.start)
    ]


def composite_products(plan: Plan, S: Vectors, F: Vectors) -> list[Scalar]:
    """Compute the mass matrix from S and F, with armatures, row by row."""
    H = joint_matrix(plan, above=[(S, F)], below=[(F, S)], diagonal=_armatures(plan))
    if plan.has_couplings:
        # symmetrize, since shared variables were added in different orders
        for i in range(plan.nv):
            for j in range(i):
                H[i * plan.nv + j] = H[j * plan.nv + i]
    return H
