"""Derivatives of inverse and forward dynamics of trees.

Symbols:
    H       mass matrix
    ID      inverse dynamics, tau = ID(q, v, vd)

ID(q, v, FD(q, v, tau)) = tau for all states, so that forward dynamics FD has the derivatives
-H^-1 dID by position and velocity, and H^-1 by joint force (Carpentier and Mansard 2018,
"Analytical derivatives of rigid body dynamics algorithms", Robotics: Science and Systems).
"""

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

from tiburon.algorithms.bias import bias as bias_of
from tiburon.algorithms.crba import composite_products, mass_elements
from tiburon.algorithms.derivatives.inverse_dynamics import (
    ForceVectors,
    Turning,
    force_matrices,
    force_vectors,
    no_turning,
    state_terms,
)
from tiburon.algorithms.derivatives.local_forces import local_forces
from tiburon.algorithms.joint_space import expanded_parents
from tiburon.algorithms.kinematics import frame_places
from tiburon.algorithms.pair_products import Vectors, before_products
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Options, Setting, forces_of_options
from tiburon.algorithms.tape_calls import JointVector, scalars
from tiburon.model import Plan
from tiburon.model.plan import WORLD_BODY
from tiburon.spatial import Force, Scalar
from tiburon.spatial.vec3 import IDENTITY3, cross, matrix_vector, transpose
from tiburon.trace.array import as_traced
from tiburon.trace.primitives.tree import FactorTree, InvertTree, SolveTree, SolveTreeColumns

INLINE_DOF = 12
"""Degrees of freedom up to which equations with the mass matrix are solved inline."""


class AccelerationTerms(NamedTuple):
    """Forward dynamics, and what its derivatives consist of."""

    vd: list[Scalar]
    """Joint acceleration [m/s^2 or rad/s^2], nv scalars."""

    factor: list[Scalar]
    """Factor of H (`FactorTree`)."""

    by_q: list[Scalar]
    """-dID by configuration (tangent vectors), nv times nv scalars row by row."""

    by_v: list[Scalar]
    """-dID by velocity."""


def acceleration_terms(
    around: Setting, q: Sequence[Scalar], v: Sequence[Scalar], tau: Sequence[Scalar]
) -> AccelerationTerms:
    """Compute forward dynamics, and what its derivatives consist of.

    Args:
        around: Surroundings in this state.
        q: Configuration [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.
    """
    n, parents = around.plan.nv, expanded_parents(around.plan)
    inline = n <= INLINE_DOF
    bias, mass = _resting(around, q, v)
    tree = FactorTree(parents)
    factor = tree.apply([mass[i * n + j] for i, j in tree.layout.elements()], inline=inline)
    free = [force - c for force, c in zip(tau, bias, strict=True)]
    vd = SolveTree(parents).apply([*factor, *free], inline=inline)
    vectors = _force_vectors(around, q, opposite=True)
    by_q, by_v = force_matrices(around.plan, vectors(list(q), list(v), list(vd)))
    return AccelerationTerms(list(vd), list(factor), list(by_q), list(by_v))


def tree_acceleration_derivatives(
    around: Setting, q: Sequence[Scalar], v: Sequence[Scalar], tau: Sequence[Scalar]
) -> tuple[tuple[Scalar, ...], Any, Any, Any]:
    """Compute forward dynamics and its derivatives; arguments as in `acceleration_terms`.

    Returns:
        vd, nv scalars, and its derivatives with respect to configuration (tangent vectors),
        velocity and force, each of shape (nv, nv).
    """
    terms = acceleration_terms(around, q, v, tau)
    n, parents = around.plan.nv, expanded_parents(around.plan)
    by_q, by_v = (as_traced(part).reshape(n, n) for part in (terms.by_q, terms.by_v))
    # in water, loops over matrices are as fast and compile faster
    inline = n <= INLINE_DOF and around.is_rigid
    inverse = as_traced(InvertTree(parents).apply(terms.factor, inline=inline)).reshape(n, n)
    if inline and parents == tuple(range(-1, n - 1)):
        # for a chain, products are faster than substitutions
        return tuple(terms.vd), inverse @ by_q, inverse @ by_v, inverse
    solve = SolveTreeColumns(parents, n)
    by_q, by_v = (
        as_traced(solve.apply([*terms.factor, *part], inline=inline)).reshape(n, n)
        for part in (terms.by_q, terms.by_v)
    )
    return tuple(terms.vd), by_q, by_v, inverse


def _resting(
    around: Setting, q: Sequence[Scalar], v: Sequence[Scalar]
) -> tuple[Sequence[Scalar], Sequence[Scalar]]:
    """Compute bias force and mass matrix, row by row."""
    plan, gravity, external = around.plan, around.gravity, around.external
    if not around.is_rigid:

        @before_products(plan)
        def bias_force(*state: Any) -> tuple[Scalar, ...]:
            position, rate = map(JointVector, state)
            here = around.at(position, rate, *around.now)
            return bias_of(plan, position, rate, gravity, here.external)

        return bias_force(list(q), list(v)), mass_elements(plan, q)
    turning = turning_forces(plan, q, around.options, around.arrays)

    @before_products(plan)
    def vectors(*state: Any) -> tuple[tuple[Scalar, ...], Vectors, Vectors]:
        position, rate = map(JointVector, state)
        terms = state_terms(plan, position, rate, gravity, external, turning)
        return terms.bias, terms.S, terms.inertial

    bias, S, inertial = vectors(list(q), list(v))
    return bias, composite_products(plan, S, inertial)


def _force_vectors(
    around: Setting, q: Sequence[Scalar], *, opposite: bool = False
) -> Callable[..., ForceVectors]:
    """Return a function of position, velocity and acceleration for `force_matrices`."""
    plan = around.plan
    turning = turning_forces(plan, q, around.options, around.arrays)

    # with a free surface visits are long: use a tape for small models, too
    at_surface = around.water is not None and around.water.floating is not None

    @before_products(plan, always=at_surface)
    def vectors(*state: Any) -> ForceVectors:
        position, rate, change = map(JointVector, state)
        external, local = around.external, None
        if not around.is_rigid:
            # water and given inertias are differentiated as local forces, with their values
            external = forces_of_options(plan, position, around.options, around.arrays)
            local = partial(local_forces, around, position)
        terms = state_terms(plan, position, rate, around.gravity, external, turning)
        return force_vectors(plan, position, rate, change, terms, opposite=opposite, local=local)

    return vectors


def turning_forces(
    plan: Plan, q: Sequence[Scalar], options: Options, wrenches: Sequence[Any]
) -> tuple[Turning, ...] | None:
    """Compute the change of external forces with the rotation of their bodies, in body axes.

    A force given in frame axes rotates with its body. One given in world axes keeps its direction:
    in body axes, a small rotation w changes moment n and force f at the frame's origin by -w x n
    and -w x f, and the required force by the opposite.

    Returns:
        For each plan body the change of its required force per unit rotation about its axes; None
        if there is none.
    """
    choices = dict(options)
    names = choices.get("external_force", ())
    if not names or choices.get("external_axes") != "world":
        return None
    total = [no_turning() for _ in plan.bodies]
    places = frame_places(plan, q, names)
    for name, place, wrench in zip(names, places, wrenches[: len(names)], strict=True):
        frame = plan.frame(name)
        if frame.body == WORLD_BODY:
            continue
        given, R = Force.from_array(tuple(scalars(wrench))), transpose(place.R)
        n, f = matrix_vector(R, given.moment), matrix_vector(R, given.force)
        X = frame.transform
        columns = []
        for axis, known in zip(IDENTITY3, total[frame.body], strict=True):
            w = X.direction(axis)
            columns.append(known + X.force_to_parent(Force(cross(w, n), cross(w, f))))
        total[frame.body] = (columns[0], columns[1], columns[2])
    return tuple(total)


def force_derivatives(
    around: Setting, position: Sequence[Scalar], rate: Sequence[Scalar], change: Sequence[Scalar]
) -> Any:
    """Compute inverse dynamics and its derivatives, by name."""
    plan, n = around.plan, around.plan.nv
    found = _force_vectors(around, position)(list(position), list(rate), list(change))
    if around.is_rigid:
        tau, mass = found.tau, composite_products(plan, found.S, found.inertial)
    else:
        tau = rnea(plan, position, rate, change, around.gravity, around.external)
        mass = mass_elements(plan, position)
    by_q, by_v = force_matrices(plan, found)
    return {
        "tau": as_traced(list(tau)),
        "by_q": as_traced(by_q).reshape(n, n),
        "by_v": as_traced(by_v).reshape(n, n),
        "by_vd": as_traced(mass).reshape(n, n),
    }
