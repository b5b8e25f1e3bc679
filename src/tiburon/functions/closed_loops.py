"""Closed loops for users: residual, Jacobian, projections, dynamics with constraint forces.

Algorithms are imported where they are traced: a kernel from the cache needs none of them.
"""

from collections.abc import Callable, Iterable, Mapping
from typing import Any, Unpack

import numpy as np

from tiburon.algorithms.setting import Setting
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError, ModelError, OptionError, UnknownNameError, shown
from tiburon.functions.dynamics import method_options
from tiburon.functions.keywords import DYNAMICS_CALL, MODEL_CALL, DynamicsCall, ModelCall
from tiburon.functions.library import (
    INERTIA,
    closure_options,
    front_door,
    library_function,
)
from tiburon.model import JointCoupling, Model
from tiburon.record import record
from tiburon.spatial import Scalars
from tiburon.trace.array import as_traced


@record(eq=False)
class LoopDynamics:
    """How a robot with loops answers its forces, one state or a batch."""

    acceleration: Array
    """Joint acceleration [m/s^2 or rad/s^2], shape (..., nv)."""

    constraint_force: Array
    """Force or moment along each constraint, in the order of `constraint_names` [N or N m], shape
    (..., constraints); where constraints are redundant, the shortest of all that do."""

    rank: Array
    """Number of independent constraints, shape (...); -1 from "proximal", which decides none."""

    ratio: Array
    """Smallest over largest singular value of the independent constraints in the metric of the mass
    matrix, estimated, shape (...): near zero the robot is near a singular configuration. From
    "denoc" the smallest relative pivot of K, the sum of the legs' projectors: near zero, motors
    hardly hold the platform. From "proximal" of the constraints that carry load, by the rate of its
    convergence.
    """

    iterations: Array
    """Passes of "proximal", shape (...); 0 from methods that solve directly."""

    residual: Array
    """Largest acceleration at which a constraint is left [m/s^2 or rad/s^2], shape (...)."""

    is_singular: Array | None = None
    """Which arms are singular, in the order of `star(model).arms`, 1 or 0, shape (..., arms); None
    from methods other than "star"."""

    arms: tuple[str, ...] = ()
    """Names of the arms."""

    @property
    def singular_arms(self) -> tuple[Any, ...]:
        """Names of singular arms: of one state, or one tuple for each state of a batch.

        Raises:
            ModelError: If another method than "star" computed this.
        """
        if self.is_singular is None:
            raise ModelError(
                "singular_arms: expected a result of method 'star', which alone separates arms, "
                "got one of another method; pass method='star'"
            )
        return _named(self.arms, np.asarray(self.is_singular))


def _named(names: tuple[str, ...], flags: Array) -> tuple[Any, ...]:
    """Return the names whose flags are set, nested like the leading shape of the flags."""
    if flags.ndim > 1:
        return tuple(_named(names, row) for row in flags)
    return tuple(name for name, flag in zip(names, flags, strict=True) if flag > 0.5)


def _answered(model: Model) -> Callable[..., LoopDynamics]:
    """Return what makes the answer for a robot, with the names of its arms if it is a star."""

    def make(*results: Any) -> LoopDynamics:
        if len(results) == STAR_RESULTS:
            from tiburon.loops.star import arm_names

            results = (*results, arm_names(model))
        return LoopDynamics(*results)

    return make


STAR_RESULTS = 7
"""Results of a kernel of "star": one more than others have."""


@record(eq=False)
class ProjectedConfiguration:
    """Configurations projected onto the constraints."""

    q: Array
    """Position [m or rad], shape (..., nq)."""

    steps: Array
    """Newton steps it took, shape (...)."""

    residual: Array
    """Largest remaining constraint residual [m or rad], shape (...)."""


@record(eq=False)
class LoopForces:
    """Actuator and constraint forces of a given motion, one state or a batch."""

    tau: Array
    """Joint force [N or N m], shape (..., nv); zero where no actuator is."""

    constraint_force: Array
    """Force or moment along each constraint [N or N m], shape (..., constraints)."""


@record(eq=False)
class LoopReactions:
    """Loads of all joints of a robot with loops, one state or a batch.

    Wrenches are [n; f] [N m, N].
    """

    acceleration: Array
    """Joint acceleration [m/s^2 or rad/s^2], shape (..., nv)."""

    actuator: Array
    """Wrench of the joint force on each body that a joint holds, in axes of the body about its
    origin, in the order of `model.joint_names`, shape (..., joints, 6)."""

    bearing: Array
    """Wrench of the bearing on it, likewise, shape (..., joints, 6)."""

    loop: Array
    """Wrench of each joint that closes a loop on its second place, at the frame that the joint
    moves and in its axes, in the order of `model.loops`, others left out, shape (..., loops, 6).
    """


def _need_loops(model: Model, function: str) -> None:
    if not model.loops:
        raise ModelError(
            f"model {model.name!r}: {function} is for robots with loops, got none; give it "
            "loops=(LoopClosure(...), ...)"
        )


@library_function(
    "loop_dynamics",
    ("q", "v", "tau"),
    make=LoopDynamics,
    keywords=DYNAMICS_CALL,
    checks_closure=True,
)
def _motion(setting: Setting, q: Scalars, v: Scalars, tau: Scalars) -> Any:
    from tiburon.loops.constraints import constraints
    from tiburon.loops.methods import constrained_motion, residual

    _need_loops(setting.model, "loop_dynamics")
    found = constrained_motion(setting, q, v, tau)
    rank, ratio = found.conditioning()
    held = constraints(setting.model, setting.plan, q, v)
    arms = {"is_singular": as_traced(list(found.singular_arms))} if found.singular_arms else {}
    return {
        "acceleration": as_traced(list(found.vd)),
        "constraint_force": as_traced(list(found.multipliers)),
        "rank": as_traced(rank),
        "ratio": as_traced(ratio),
        "iterations": as_traced(found.iterations),
        "residual": as_traced(residual(held, found.vd)),
        **arms,
    }


@library_function("constraint_residual", ("q",), parameters=(), keywords=MODEL_CALL)
def _residual(setting: Setting, q: Scalars) -> Any:
    from tiburon.loops.constraints import constraints

    return as_traced(list(constraints(setting.model, setting.plan, q).value))


@library_function("loop_jacobian", ("q",), parameters=(), keywords=MODEL_CALL)
def _jacobian(setting: Setting, q: Scalars) -> Any:
    from tiburon.loops.constraints import constraints

    rows, n = constraints(setting.model, setting.plan, q).jacobian, setting.plan.nv
    return as_traced([row.get(i, 0.0) for row in rows for i in range(n)]).reshape(len(rows), n)


@library_function(
    "loop_closure", ("q", "v"), parameters=(), keywords=MODEL_CALL, checks_closure=True
)
def _closure(setting: Setting, q: Scalars, v: Scalars) -> Any:
    from tiburon.loops.projection import closure_of

    return as_traced(list(closure_of(setting, q, v)))


@library_function(
    "project_configuration",
    ("q",),
    make=ProjectedConfiguration,
    parameters=(INERTIA,),
    keywords=MODEL_CALL,
)
def _configuration(setting: Setting, q: Scalars) -> Any:
    from tiburon.loops.projection import projected_configuration

    found = projected_configuration(setting.model, setting.plan, q)
    return {
        "q": as_traced(list(found.q)),
        "steps": as_traced(found.steps),
        "residual": as_traced(found.residual),
    }


@library_function("project_velocity", ("q", "v"), parameters=(INERTIA,), keywords=MODEL_CALL)
def _velocity(setting: Setting, q: Scalars, v: Scalars) -> Any:
    from tiburon.loops.projection import projected_velocity

    hold = dict(setting.options).get("hold", ())
    return as_traced(list(projected_velocity(setting.model, setting.plan, q, v, hold=hold)))


@library_function(
    "project_acceleration", ("q", "v", "vd"), parameters=(INERTIA,), keywords=MODEL_CALL
)
def _acceleration(setting: Setting, q: Scalars, v: Scalars, vd: Scalars) -> Any:
    from tiburon.loops.projection import projected_acceleration

    hold = dict(setting.options).get("hold", ())
    return as_traced(list(projected_acceleration(setting.model, setting.plan, q, v, vd, hold=hold)))


@library_function(
    "loop_inverse_dynamics",
    ("q", "v", "vd"),
    make=LoopForces,
    keywords=DYNAMICS_CALL,
    checks_closure=True,
)
def _forces(setting: Setting, q: Scalars, v: Scalars, vd: Scalars) -> Any:
    from tiburon.loops.inverse import actuated_forces, denoc_actuated_forces

    options = dict(setting.options)
    actuators = options.get("actuators", setting.model.actuated_joint_names)
    if options.get("method") == "denoc":
        found = denoc_actuated_forces(setting, q, v, vd, actuators, options["shares"])
    else:
        found = actuated_forces(setting, q, v, vd, actuators)
    return {"tau": as_traced(found.tau), "constraint_force": as_traced(found.multipliers)}


@library_function(
    "loop_reactions",
    ("q", "v", "tau"),
    make=LoopReactions,
    keywords=DYNAMICS_CALL,
    checks_closure=True,
)
def _reactions(setting: Setting, q: Scalars, v: Scalars, tau: Scalars) -> Any:
    from tiburon.loops.reactions import constrained_reactions

    return constrained_reactions(setting, q, v, tau)


@library_function("tracking_forces", ("q", "v", "vd"), keywords=DYNAMICS_CALL)
def _tracking(setting: Setting, q: Scalars, v: Scalars, vd: Scalars) -> Any:
    from tiburon.loops.inverse import tracking_joint_forces

    return as_traced(tracking_joint_forces(setting, q, v, vd))


@front_door(_motion)
def loop_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    method: str | None = None,
    redundant_forces: str = "shortest",
    closure: bool | None = None,
    **conditions: Unpack[DynamicsCall],
) -> LoopDynamics:
    """Compute joint accelerations of a robot with loops, and the forces that keep them closed.

    The state must keep the loops closed, see `project_configuration` and `project_velocity`. With
    `closure=False`, accelerations leave the constraint residual and its rate as they are.
    `forward_dynamics` returns the accelerations alone.

    Args:
        q, v, tau: Configuration, joint velocity and joint force.
        method: "augmented" for the sparse system of motion and constraints together, the reference;
            "handles" for articulated bodies, without a mass matrix; "proximal" for iterations that
            decide no rank; "star" for arms that meet in one load or platform, see `star`; "denoc"
            for a platform on legs, recursively (Khan 2002, chapter 3). By default "handles" where
            the mass matrix of the tree alone is predicted to cost more, as in rings of many links,
            "star" for stars whose arms are not all singular in every pose, and "augmented"
            everywhere else.
        redundant_forces: Which constraint forces are returned where the motion does not determine
            them: "shortest" for those of least norm; with method="star" also "zero", which sets
            free components of singular arms to zero (McMillan 1994, section 4.2).

    Example:
        ``tb.loop_dynamics(stewart, q, v, tau).constraint_force``
    """
    options = (*method_options(method, model), *closure_options(model, closure))
    if redundant_forces != "shortest":
        from tiburon.loops.star_singular import REDUNDANT_FORCES

        if redundant_forces not in REDUNDANT_FORCES:
            raise OptionError("redundant_forces", REDUNDANT_FORCES, redundant_forces)
        if method != "star":
            raise OptionError(
                "redundant_forces without method='star'", ("shortest",), redundant_forces
            )
        options = (*options, ("redundant_forces", redundant_forces))
    return _motion.request(model, (q, v, tau), conditions, options, make=_answered(model))


@front_door(_residual)
def constraint_residual(model: Model, q: ArrayLike, **options: Unpack[ModelCall]) -> Array:
    """Compute the constraint residual of all loops, one value per constraint [m or rad].

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        Shape (..., constraints), in the order of `constraint_names`.

    Example:
        ``abs(tb.constraint_residual(linkage, linkage.poses["home"])).max()``
    """
    _need_loops(model, "constraint_residual")
    return _residual.request(model, (q,), options)


def check_closed(model: Model, q: ArrayLike, v: ArrayLike, **at: Unpack[ModelCall]) -> None:
    """Refuse states with open loops, or whose velocity opens them, as `simulate` does.

    For functions that no single kernel computes; the kernels of others have this check.

    Args:
        model: The robot; it has loops.
        q: Configuration [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        **at: Time and parameters.

    Raises:
        DomainError: If loops are open, or the velocity opens them.
    """
    _closure.call(model, (q, v), at, closure_options(model, True))


@front_door(_jacobian)
def loop_jacobian(model: Model, q: ArrayLike, **options: Unpack[ModelCall]) -> Array:
    """Compute the Jacobian of all loops: the rates of `constraint_residual` are J v.

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        Shape (..., constraints, nv); transposed, it maps constraint forces to joint forces.
    """
    _need_loops(model, "loop_jacobian")
    return _jacobian.request(model, (q,), options)


@front_door(_configuration)
def project_configuration(
    model: Model, q: ArrayLike, **options: Unpack[ModelCall]
) -> ProjectedConfiguration:
    """Project a nearly closed configuration onto the constraints, by at most ten Newton steps.

    Args:
        q: Configuration [m or rad], shape (..., nq).

    Returns:
        The nearest configuration in the metric of the mass matrix, and the remaining residual:
        loops that stay open raise no error, see `residual`. For rough guesses take `assemble`.
    """
    _need_loops(model, "project_configuration")
    return _configuration.request(model, (q,), options)


@front_door(_velocity)
def project_velocity(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    *,
    hold: str | Iterable[str] = (),
    **options: Unpack[ModelCall],
) -> Array:
    """Project a joint velocity onto those that keep loops closed.

    Args:
        q: Configuration with closed loops [m or rad], shape (..., nq).
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        hold: Joints that keep their velocity exactly, by name, as motors do.

    Returns:
        The nearest velocity in the metric of the mass matrix, shape (..., nv).

    Raises:
        DomainError: If loops cannot stay closed while these joints keep their velocities.

    Example:
        ``tb.project_velocity(stewart, q, v, hold=stewart.actuated_joint_names)``
    """
    _need_loops(model, "project_velocity")
    return _velocity.request(model, (q, v), options, _held(model, hold))


@front_door(_acceleration)
def project_acceleration(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    *,
    hold: str | Iterable[str] = (),
    **options: Unpack[ModelCall],
) -> Array:
    """Project a joint acceleration onto those that keep loops closed.

    Args:
        q: Configuration with closed loops [m or rad], shape (..., nq).
        v: Joint velocity that keeps them closed [m/s or rad/s], shape (..., nv).
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv).
        hold: Joints that keep their acceleration exactly, by name, as motors do.

    Returns:
        The nearest acceleration in the metric of the mass matrix, shape (..., nv).

    Raises:
        DomainError: If loops cannot stay closed while these joints keep their accelerations.

    Example:
        ``tb.project_acceleration(stewart, q, v, vd, hold=stewart.actuated_joint_names)``
    """
    _need_loops(model, "project_acceleration")
    return _acceleration.request(model, (q, v, vd), options, _held(model, hold))


def _held(model: Model, hold: str | Iterable[str]) -> tuple[tuple[str, Any], ...]:
    """Return the option of held velocity variables."""
    names = (hold,) if isinstance(hold, str) else tuple(hold)
    held = tuple(int(k) for k in model.indices(names, of="v")) if names else ()
    return (("hold", held),) if held else ()


@front_door(_forces)
def loop_inverse_dynamics(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    *,
    actuators: str | Iterable[str] | None = None,
    method: str | None = None,
    shares: Mapping[str, float] | str | None = None,
    closure: bool | None = None,
    **conditions: Unpack[DynamicsCall],
) -> LoopForces:
    """Compute the forces of chosen actuators that produce a motion of a robot with loops.

    Redundant actuators share the load with the least sum of squares; those of a platform on legs
    (`method="denoc"`) by shares of the legs in the load of the platform.

    Args:
        q: Configuration with closed loops [m or rad], shape (..., nq).
        v: Joint velocity that keeps them closed [m/s or rad/s], shape (..., nv).
        vd: Joint acceleration that keeps them closed [m/s^2 or rad/s^2], shape (..., nv).
        actuators: Names of the joints that are driven; by default those that have motors.
        method: "denoc" for a platform on legs, recursively (Khan 2002, chapter 3); by default a
            projection for all mechanisms.
        shares: With "denoc", the share of each leg in the load of the platform, by name of one of
            its joints, relative to 1 for legs that are not named; or "condition" for the condition
            of the leg's screws. Where as many joints are driven as there are degrees of freedom,
            shares change nothing; a leg of which all joints are driven carries its share.

    Raises:
        ModelError: If the robot has no loops, no such joint, or is not a platform on legs.
        DomainError: If these actuators cannot make the motion, or it would open loops.

    Example:
        ``tb.loop_inverse_dynamics(linkage, linkage.poses["home"], np.zeros(3), np.zeros(3)).tau``
    """
    if not model.loops:
        raise ModelError(
            f"model {model.name!r}: loop_inverse_dynamics is for robots with loops, got none; take "
            "inverse_dynamics"
        )
    options = closure_options(model, closure)
    if actuators is not None:
        names = (actuators,) if isinstance(actuators, str) else tuple(actuators)
        if not names:
            raise DomainError("actuators", "one joint or more", "none")
        for name in names:
            model.joint(name)
        options = (*options, ("actuators", names))
    if method is not None:
        if method != "denoc":
            raise OptionError("method", ("denoc", "None"), method)
        options = (*options, ("method", method), ("shares", _leg_shares(model, shares)))
    elif shares is not None:
        raise OptionError("shares without method='denoc'", ("None",), shares)
    return _forces.request(model, (q, v, vd), conditions, options)


def _leg_shares(model: Model, shares: object) -> tuple[float, ...] | None:
    """Return one weight per leg, in the order of legs; None for those by condition."""
    from tiburon.loops.legs import platform_on_legs

    legs = platform_on_legs(model).legs
    if isinstance(shares, str) and shares == "condition":
        return None
    if shares is not None and not isinstance(shares, Mapping):
        raise OptionError("shares", ("'condition'", "weights by joint", "None"), shares)
    found = [1.0] * len(legs)
    for name, weight in (shares or {}).items():
        places = [k for k, leg in enumerate(legs) if name in leg.joints]
        if not places:
            known = [joint for leg in legs for joint in leg.joints]
            raise UnknownNameError("joint of a leg", name, known, where=f"model {model.name!r}")
        try:
            found[places[0]] = float(weight)
        except (TypeError, ValueError):
            found[places[0]] = float("nan")
        if not 0.0 < found[places[0]] < float("inf"):
            raise DomainError(f"shares[{name!r}]", "a positive number", shown(weight))
    return tuple(found)


@front_door(_reactions)
def loop_reactions(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    closure: bool | None = None,
    **conditions: Unpack[DynamicsCall],
) -> LoopReactions:
    """Compute the load of every joint of a robot with loops, cut joints included.

    `joint_reactions` answers the same for a given motion and the robot's own actuators.

    Args:
        q: Configuration with closed loops [m or rad], shape (..., nq).
        v: Joint velocity that keeps them closed [m/s or rad/s], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv).

    Raises:
        ModelError: If the robot has no loops.

    Example:
        ``tb.loop_reactions(four_bar, q, v, tau).loop[0]``
    """
    if all(isinstance(loop, JointCoupling) for loop in model.loops):
        raise ModelError(
            f"model {model.name!r}: loop_reactions is for robots with joints that close loops, got "
            "none; take joint_reactions"
        )
    options = closure_options(model, closure)
    return _reactions.request(model, (q, v, tau), conditions, options)


def tracking_forces(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    desired: ArrayLike,
    *,
    joints: tuple[str, ...],
    actuators: tuple[str, ...],
    **conditions: Unpack[DynamicsCall],
) -> Any:
    """Compute forces of actuators that bring a robot with loops nearest to desired accelerations.

    Args:
        q: Configuration with closed loops [m or rad], shape (..., nq).
        v: Joint velocity that keeps them closed [m/s or rad/s], shape (..., nv).
        desired: Desired acceleration [m/s^2 or rad/s^2], shape (..., nv); only those of `joints`
            count.
        joints: Names of the joints that are controlled.
        actuators: Names of the joints that are driven.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`.

    Returns:
        Joint force [N or N m], shape (..., nv), zero at joints that are not driven.
    """
    options = (("joints", joints), ("actuators", actuators))
    return _tracking.call(model, (q, v, desired), conditions, options)
