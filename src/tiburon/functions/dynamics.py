"""Dynamics for users: forward, inverse and hybrid, and the terms of the equation of motion.

Algorithms are imported where they are traced: a kernel from the cache needs none of them.
"""

from collections.abc import Mapping
from contextvars import Context
from functools import partial
from typing import Any, NamedTuple, Unpack

import numpy as np

from tiburon.algorithms.setting import Options, Setting
from tiburon.algorithms.surroundings import DEFAULT_WORLD
from tiburon.algorithms.tape_calls import JointVector
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ModelError, OptionError, ShapeError
from tiburon.functions.kernel_source import LibrarySource
from tiburon.functions.keywords import (
    DELIVERY,
    DYNAMICS_CALL,
    Delivery,
    DynamicsCall,
    WorldCall,
    takes_conditions,
)
from tiburon.functions.library import (
    GRAVITY,
    INERTIA,
    LibraryFunction,
    Measured,
    closure_options,
    front_door,
    inputs_of,
    library_function,
    pair,
)
from tiburon.model import Model
from tiburon.model.model import per_model
from tiburon.model.plan import INERTIAL_PARAMETERS
from tiburon.record import named_line, record
from tiburon.spatial import Scalars
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

# -- forward dynamics -----------------------------------------------------------------------------


TREE_METHODS = ("articulated", "composite")
"""Methods of forward dynamics of trees (`tiburon.algorithms.forward`)."""

LOOP_METHODS = ("augmented", "denoc", "handles", "proximal", "star")
"""Methods of forward dynamics where loops are closed (`tiburon.loops.methods`)."""


def method_options(method: str | None, model: Model | None = None) -> Options:
    """Return the option of code that uses a given method; no option for the default one."""
    if method is None:
        return ()
    known = LOOP_METHODS if model is not None and model.loops else TREE_METHODS
    if method not in known:
        raise OptionError("method", known, method)
    return (("method", method),)


@per_model
def cheaper_method(model: Model) -> str:
    """Return the method that is predicted to take less time for a model.

    Featherstone 1987, sec. 8.4 finds the crossover between 9 and 12 joints for his counts. Ours is
    between 4 and 8, depending on the directions of the joint axes. Up to six degrees of freedom all
    code is straight-line, and the exact operation count predicts the time; beyond that the
    factorization is a loop, and both costs follow from the shape of the tree (see `cost`).
    """
    from tiburon.algorithms.cost import articulated_cost, composite_cost
    from tiburon.trace.count import count
    from tiburon.trace.primitives.spd import INLINE_SIZE

    if model.nv > INLINE_SIZE:
        plan = model.plan
        cheaper = articulated_cost(plan) <= composite_cost(plan)
        return "articulated" if cheaper else "composite"

    def operations(method: str) -> int:
        options = method_options(method)
        source = LibrarySource(model, ("forward_dynamics",), DEFAULT_WORLD, options)
        found = count(source.program())
        return found.multiplications + found.additions + found.divisions

    # a surrounding trace must not be seen: its values belong to its graph
    return min(TREE_METHODS, key=lambda method: Context().run(operations, method))


def tree_motion(here: Setting, q: Scalars, v: Scalars, force: Scalars) -> Scalars:
    """Return the joint accelerations of a tree in a simulation step, without its loops.

    By the articulated-body algorithm, unless joints are coupled and the mass matrix costs less.
    """
    from tiburon.algorithms.forward import METHODS

    method = METHODS[cheaper_method(here.model) if here.plan.has_couplings else "articulated"]
    return method(here.plan, q, v, JointVector(force), here.gravity, here.external)


@library_function(
    "forward_dynamics", ("q", "v", "tau"), keywords=DYNAMICS_CALL, checks_closure=True
)
def _forward(setting: Setting, q: Scalars, v: Scalars, tau: Scalars) -> Any:
    if setting.model.loops:
        from tiburon.loops.methods import constrained_motion

        motion = constrained_motion(setting, q, v, tau)
        return Measured(as_traced(list(motion.vd)), motion.closure)
    from tiburon.algorithms.forward import METHODS

    method = METHODS[dict(setting.options).get("method") or cheaper_method(setting.model)]
    found = method(setting.plan, q, v, tau, setting.gravity, setting.external)
    return as_traced(list(found))


@front_door(_forward)
def forward_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    method: str | None = None,
    closure: bool | None = None,
    **conditions: Unpack[DynamicsCall],
) -> Array:
    """Compute the joint accelerations that given joint forces produce.

    Args:
        q, v, tau: Configuration, joint velocity and joint force.
        method: "articulated" for articulated bodies, whose cost is linear in the number of bodies;
            "composite" for the mass matrix and its factors; by default the one that is predicted
            to cost less. Their results differ by rounding. Robots with loops have methods of their
            own: "augmented", "handles", "proximal" and "star", see `loop_dynamics`.

    Returns:
        Joint acceleration, the time derivative of v [m/s^2 or rad/s^2], shape (..., nv).

    Example:
        ``tb.forward_dynamics(arm, q, v, tau, world=tb.World(gravity=(0, 0, -1.62)))``
    """
    options = (*method_options(method, model), *closure_options(model, closure))
    return _forward.request(model, (q, v, tau), conditions, options)


# -- inverse dynamics -----------------------------------------------------------------------------


@library_function("inverse_dynamics", ("q", "v", "vd"), keywords=DYNAMICS_CALL, checks_closure=True)
def _inverse(setting: Setting, q: Scalars, v: Scalars, vd: Scalars) -> Any:
    if setting.model.loops:
        from tiburon.loops.inverse import actuated_forces

        actuators = setting.model.actuated_joint_names
        return as_traced(actuated_forces(setting, q, v, vd, actuators).tau)
    from tiburon.algorithms.rnea import rnea

    given = q, v, vd, setting.gravity, setting.external
    return as_traced(list(rnea(setting.plan, *given, lanes=True)))


@front_door(_inverse)
def inverse_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    *,
    closure: bool | None = None,
    **conditions: Unpack[DynamicsCall],
) -> Array:
    """Compute the joint forces that produce given joint accelerations.

    Args:
        q, v, vd: Configuration, joint velocity and joint acceleration.

    Returns:
        Joint force [N or N m], shape (..., nv).

    Example:
        ``tb.inverse_dynamics(arm, q, v, vd, external_force={"tool": (0, 0, 0, 0, 0, -20)})``
    """
    return _inverse.request(model, (q, v, vd), conditions, closure_options(model, closure))


@library_function(
    "floating_base_inverse_dynamics",
    ("q", "v", "vd"),
    make=pair,
    keywords=DYNAMICS_CALL,
    trees_only=True,
    instead="hybrid_dynamics with the accelerations that are known",
)
def _floating(setting: Setting, q: Scalars, v: Scalars, vd: Scalars) -> Any:
    from tiburon.algorithms.floating_base import floating_rnea

    rates, forces = floating_rnea(setting.plan, q, v, vd, setting.gravity, setting.external)
    return {"vd": as_traced(list(rates)), "tau": as_traced(list(forces))}


@front_door(_floating)
def floating_base_inverse_dynamics(
    model: Model, q: ArrayLike, v: ArrayLike, vd: ArrayLike, **conditions: Unpack[DynamicsCall]
) -> tuple[Array, Array]:
    """Compute the motion of a floating base, and joint forces, from the motion of the other joints.

    Nothing holds a floating base: momentum, gravity and external forces determine its motion.

    Args:
        model: The robot; bodies that float in the world are its bases.
        q, v: Configuration and joint velocity.
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv); entries of floating bases are
            ignored.

    Returns:
        Joint accelerations with those of the bases filled in, and joint forces, zero at the bases,
        shape (..., nv) each.
    """
    return _floating.request(model, (q, v, vd), conditions)


# -- terms of the equation of motion --------------------------------------------------------------


@library_function(
    "mass_matrix",
    ("q",),
    parameters=(INERTIA,),
    trees_only=True,
    instead="apparent_inertia for that of links with loops closed",
)
def _mass_matrix(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.crba import mass_elements

    n = setting.plan.nv
    return as_traced(mass_elements(setting.plan, q, lanes=True)).reshape(n, n)


@library_function(
    "inverse_mass_matrix",
    ("q",),
    parameters=(INERTIA,),
    trees_only=True,
    instead="forward_dynamics_derivatives(...).by_tau for what loops leave of it",
)
def _inverse_mass_matrix(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.joint_space import inverse_mass_elements

    n = setting.plan.nv
    return as_traced(inverse_mass_elements(setting.plan, q)).reshape(n, n)


@library_function(
    "bias_force",
    ("q", "v"),
    keywords=DYNAMICS_CALL,
    trees_only=True,
    instead="inverse_dynamics for what actuators must do",
)
def _bias(setting: Setting, q: Scalars, v: Scalars) -> Any:
    from tiburon.algorithms.bias import bias

    given = q, v, setting.gravity, setting.external
    return as_traced(list(bias(setting.plan, *given, lanes=True)))


@library_function(
    "gravity_force",
    ("q",),
    trees_only=True,
    instead="inverse_dynamics at rest for what actuators must do",
)
def _gravity(setting: Setting, q: Scalars) -> Any:
    from tiburon.algorithms.bias import gravity_forces

    return as_traced(list(gravity_forces(setting.plan, q, setting.gravity, setting.water)))


@library_function("coriolis_matrix", ("q", "v"), parameters=(INERTIA,), trees_only=True)
def _coriolis(setting: Setting, q: Scalars, v: Scalars) -> Any:
    from tiburon.algorithms.coriolis import coriolis

    rows, n = coriolis(setting.plan, q, v), setting.plan.nv
    return as_traced([x for row in rows for x in row]).reshape(n, n)


@front_door(_mass_matrix)
def mass_matrix(model: Model, q: ArrayLike, **options: Unpack[WorldCall]) -> Array:
    """Compute the mass matrix: the joint forces per joint acceleration, at rest without gravity.

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        Mass matrix, symmetric, in the order of v [kg, kg m or kg m^2], shape (..., nv, nv).

    Example:
        ``np.linalg.eigvalsh(tb.mass_matrix(arm, q))``
    """
    return _mass_matrix.request(model, (q,), options)


@front_door(_inverse_mass_matrix)
def inverse_mass_matrix(model: Model, q: ArrayLike, **options: Unpack[WorldCall]) -> Array:
    """Compute the inverse of the mass matrix: joint accelerations per joint force.

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        Inverse mass matrix, symmetric, in the order of v [1/kg, 1/(kg m) or 1/(kg m^2)], shape
        (..., nv, nv).
    """
    return _inverse_mass_matrix.request(model, (q,), options)


@front_door(_bias)
def bias_force(
    model: Model, q: ArrayLike, v: ArrayLike, **conditions: Unpack[DynamicsCall]
) -> Array:
    """Compute the joint forces that hold all joint accelerations at zero.

    They balance Coriolis and centrifugal effects, gravity and external forces: the C of H vd +
    C = tau.

    Args:
        q, v: Configuration and joint velocity.

    Returns:
        Joint force [N or N m], shape (..., nv).
    """
    return _bias.request(model, (q, v), conditions)


@front_door(_gravity)
def gravity_force(model: Model, q: ArrayLike, **options: Unpack[WorldCall]) -> Array:
    """Compute the joint forces that hold the robot at rest against gravity.

    They are the gradient of `potential_energy`. In water they balance weight minus buoyancy; a
    current has no effect.

    Args:
        q: Configuration [m or rad], shape (..., nq).
        **options: `time`, `world` and `fluid`; `out` and `errors`: see `Conditions` and
            `Delivery`.

    Returns:
        Joint force [N or N m], shape (..., nv).

    Example:
        ``tb.gravity_force(rov, rov.neutral(), fluid=tb.Water(1025.0))``
    """
    return _gravity.request(model, (q,), options)


@front_door(_coriolis)
def coriolis_matrix(
    model: Model, q: ArrayLike, v: ArrayLike, **options: Unpack[WorldCall]
) -> Array:
    """Compute the Coriolis matrix C, with H vd + C v + gravity force = tau.

    Of the many matrices with this product, it is one for which dH/dt - 2 C is skew-symmetric, as
    passivity-based and adaptive control require. At a free surface this holds for the rate of H at
    constant wetted fractions: slamming is not modeled. Where `Driven`
    joints move by themselves, their motion adds to the joint forces beyond C v.

    Args:
        q: Configuration [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv); in water, relative to the water.

    Returns:
        Coriolis matrix, joint force per joint velocity, in the order of v, shape (..., nv, nv).
    """
    return _coriolis.request(model, (q, v), options)


# -- one factorization for many forces ------------------------------------------------------------


def _prepare(setting: Setting, q: Scalars, v: Scalars) -> Any:
    from tiburon.algorithms.joint_space import expanded_parents, joint_space_terms
    from tiburon.trace.primitives.tree import FactorTree

    plan = setting.plan
    matrix, C = joint_space_terms(plan, q, v, setting.gravity, setting.external)
    factor = FactorTree(expanded_parents(plan)).apply(matrix)
    return {"factor": as_traced(factor), "bias": as_traced(list(C))}


_PREPARE: LibraryFunction["PreparedDynamics"] = LibraryFunction(
    "prepare_dynamics",
    ("q", "v"),
    _prepare,
    keywords=DYNAMICS_CALL,
    trees_only=True,
    instead="forward_dynamics",
)


def _finish_inputs(model: Model, options: Options) -> list[Input]:
    from tiburon.algorithms.joint_space import expanded_parents
    from tiburon.trace.primitives.tree import FactorTree

    stored = FactorTree(expanded_parents(model.plan)).result_count
    return [Input("factor", (stored,)), *inputs_of("bias", "tau")(model, options)]


@library_function("prepared_dynamics", _finish_inputs, parameters=(), keywords=DELIVERY)
def _finish(setting: Setting, factor: Scalars, bias: Scalars, tau: Scalars) -> Any:
    from tiburon.algorithms.joint_space import expanded_parents
    from tiburon.trace.primitives.tree import SolveTree

    right = [force - c for force, c in zip(tau, bias, strict=True)]
    return as_traced(SolveTree(expanded_parents(setting.model.plan)).apply([*factor, *right]))


@record
class PreparedDynamics:
    """Factored mass matrix and bias force of one state or a batch, ready for many joint forces."""

    model: Model
    """The robot."""

    factor: Array
    """Elements of L and 1/D, row by row of the tree's sparse matrix, shape (..., stored)."""

    bias: Array
    """Bias force C [N or N m], shape (..., nv)."""

    @takes_conditions
    def accelerations(self, tau: ArrayLike, **delivery: Unpack[Delivery]) -> Array:
        """Return the joint accelerations that joint forces produce in this state.

        Args:
            tau: Joint force [N or N m], shape (..., nv); broadcasts with the prepared states.
            **delivery: `out` and `errors`, the keywords of `Delivery`.

        Returns:
            Joint acceleration [m/s^2 or rad/s^2], shape (..., nv).
        """
        return _finish.call(self.model, (self.factor, self.bias, tau), delivery)


@front_door(_PREPARE)
def prepare_dynamics(
    model: Model, q: ArrayLike, v: ArrayLike, **conditions: Unpack[DynamicsCall]
) -> PreparedDynamics:
    """Factor the equation of motion once, to solve it for many joint forces.

    Where joint forces change much faster than the robot moves, as under a stiff controller, the
    result may serve several time steps (Featherstone 1987, sec. 5.2); the error grows in proportion
    to the time since it was made. One state or a batch.

    Args:
        q, v: Configuration and joint velocity.

    Returns:
        Data for ``prepared.accelerations(tau)``.

    Example:
        ``prepared = prepare_dynamics(arm, q, v); vd = prepared.accelerations(tau)``
    """
    make = partial(PreparedDynamics, model)
    return _PREPARE.request(model, (q, v), conditions, make=make)


# -- joint reactions ------------------------------------------------------------------------------


class JointReactions(NamedTuple):
    """Loads of every moving joint, in the order of `model.joint_names`.

    Wrenches [n; f] act on the body that the joint holds, in its axes about its origin; the opposite
    wrench acts on the parent.
    """

    tau: Array
    """Joint force [N or N m], shape (..., nv), including that which accelerates armatures."""

    actuator: Array
    """Wrench of the actuator on the body [N m, N], shape (..., joints, 6)."""

    bearing: Array
    """Wrench of the bearing [N m, N], shape (..., joints, 6)."""

    def __repr__(self) -> str:
        return named_line(self)


def _reaction_inputs(model: Model, options: Options) -> list[Input]:
    described = "6 (moment and force of a unit actuator force)"
    lines = dict(options).get("actuators", ())
    return [
        *inputs_of("q", "v", "vd")(model, options),
        *(Input(f"actuators[{name!r}]", (count, 6), described=described) for name, count in lines),
    ]


@library_function(
    "joint_reactions",
    _reaction_inputs,
    make=JointReactions,
    keywords=DYNAMICS_CALL,
    checks_closure=True,
)
def _reactions(
    setting: Setting, q: Scalars, v: Scalars, vd: Scalars, *lines: Scalars
) -> dict[str, Any]:
    if setting.model.loops:
        from tiburon.loops.reactions import actuated_reactions

        return actuated_reactions(setting, q, v, vd, *lines)
    from tiburon.algorithms.reactions import reactions_under

    return reactions_under(setting, q, v, vd, *lines)


def _actuator_options(model: Model, actuators: Mapping[str, ArrayLike] | None) -> Options:
    """Return the option of code for actuators with given lines of action."""
    found = []
    for name, wrenches in (actuators or {}).items():
        shape, dof = np.shape(wrenches), model.joint(name).nv
        if len(shape) < 2 or shape[-1] != 6:
            raise ShapeError(
                f"actuators[{name!r}]", "(..., actuators, 6)", shape, advice="one row [n; f] each"
            )
        if shape[-2] < dof or not dof:
            raise DomainError(
                f"actuators[{name!r}]",
                f"at least one for each of {dof} degrees of freedom, and a joint that moves",
                f"{shape[-2]}",
                advice="leave out joints without power, which joint_actuation() lists",
            )
        found.append((name, shape[-2]))
    return (("actuators", tuple(found)),) if found else ()


@front_door(_reactions)
def joint_reactions(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    *,
    actuators: Mapping[str, ArrayLike] | None = None,
    closure: bool | None = None,
    **conditions: Unpack[DynamicsCall],
) -> JointReactions:
    """Compute the load of every joint, split into the wrenches of its actuator and its bearing.

    The actuator's wrench is what the joint force stands for: a couple about the axis of a hinge, a
    force along a slide, unless actuators with lines of their own are named. The bearing carries the
    rest and does no work. With loops, the robot's own actuators are taken to drive the motion
    (`loop_inverse_dynamics`); `loop_reactions` takes joint forces instead.

    Args:
        q, v, vd: Configuration, joint velocity and joint acceleration.
        actuators: By joint name, the wrench [n; f] of a unit force of each of its actuators on the
            body, body axes about the body origin, shape (..., actuators, 6), as `joint_actuation`
            accepts them. With more actuators than degrees of freedom, their forces are those of
            least squares.

    Returns:
        Joint forces, actuator wrenches and bearing wrenches of all joints that move, in the order
        of `model.joint_names`; fixed joints are left out, their bodies being one with their parent.

    Raises:
        DomainError: If a joint has fewer actuators than degrees of freedom, or they drive fewer.

    Example:
        A cylinder that pushes along x, 0.1 m above a hinge about y, loads its bearing::

            cylinder = {"hinge": [(0, 0.1, 0, 1, 0, 0)]}
            bearing = tb.joint_reactions(arm, q, v, vd, actuators=cylinder).bearing
    """
    lines = () if actuators is None else tuple(actuators.values())
    options = (*_actuator_options(model, actuators), *closure_options(model, closure))
    return _reactions.request(model, (q, v, vd, *lines), conditions, options)


# -- inertial parameters --------------------------------------------------------------------------


@library_function("regressor", ("q", "v", "vd"), parameters=(GRAVITY,), trees_only=True)
def _regressor(setting: Setting, q: Scalars, v: Scalars, vd: Scalars) -> Any:
    from tiburon.algorithms.regressor import regressor_rows

    model = setting.model
    if setting.water is not None:
        raise ModelError(
            f"model {model.name!r}: regressor has columns for inertial parameters alone, expected "
            "surroundings without fluid, got Water; call regressor without it and add the forces "
            "of the water, which no inertial parameter enters: inverse_dynamics(..., fluid=water) "
            "- inverse_dynamics(...)"
        )
    rows = regressor_rows(setting.plan, model.body_names, q, v, vd, setting.gravity)
    shape = (model.nv, len(INERTIAL_PARAMETERS) * len(model.bodies))
    return as_traced([x for row in rows for x in row]).reshape(shape)


@front_door(_regressor)
def regressor(
    model: Model, q: ArrayLike, v: ArrayLike, vd: ArrayLike, **options: Unpack[WorldCall]
) -> Array:
    """Compute the matrix that maps inertial parameters to joint forces.

    ``regressor(model, q, v, vd) @ inertial_parameters(model)`` equals ``inverse_dynamics(model, q,
    v, vd)``; stacked over many states, it finds the parameters from measured forces by least
    squares. Armatures are not parameters of bodies; to identify them too, append ``np.diag(vd)``.
    Hydrodynamic coefficients are not included: a `fluid` is rejected, see `Raises`.

    Args:
        model: The robot; its own masses do not matter.
        q, v, vd: Configuration, joint velocity and joint acceleration.
        **options: `time` and `world`, without a fluid; `out` and `errors`: see `Conditions` and
            `Delivery`.

    Returns:
        Joint force per parameter, shape (..., nv, 10 bodies), columns in the order of
        `inertial_parameter_names`. Columns of bodies fixed to the world are zero.

    Raises:
        ModelError: If there is a fluid. No inertial parameter enters hydrodynamic forces, which
            are ``inverse_dynamics(..., fluid=water) - inverse_dynamics(...)``.
    """
    return _regressor.request(model, (q, v, vd), options)


@public
def inertial_parameter_names(model: Model) -> tuple[str, ...]:
    """Return one name per column of `regressor`, such as "upper.mass" or "upper.inertia_xx"."""
    return tuple(f"{body}.{name}" for body in model.body_names for name in INERTIAL_PARAMETERS)


@public
def inertial_parameters(model: Model) -> Array:
    """Return the ten inertial parameters of every body, in which inverse dynamics is linear.

    Per body, in its own frame: mass [kg], first moment = mass times center of mass [kg m], and the
    rotational inertia xx, xy, xz, yy, yz, zz about the body's origin, not its center of mass
    [kg m^2].

    Args:
        model: The robot.

    Returns:
        Parameters in the order of `inertial_parameter_names`, shape (10 bodies,).
    """
    return np.array([x for body in model.bodies for x in body.inertia.rigid], dtype=np.float64)
