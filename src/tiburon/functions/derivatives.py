"""Derivatives of dynamics for users.

Algorithms are imported where they are traced: a kernel from the cache needs none of them.
"""

from typing import Any, NamedTuple, Unpack

from tiburon.algorithms.setting import Setting
from tiburon.arrays import Array, ArrayLike
from tiburon.functions.keywords import DYNAMICS_CALL, DynamicsCall
from tiburon.functions.library import closure_options, front_door, library_function
from tiburon.model import Model
from tiburon.record import named_line
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.array import as_traced


class InverseDynamicsDerivatives(NamedTuple):
    """Joint forces and their derivatives, for one state or a batch."""

    tau: Array
    """Joint force [N or N m], shape (..., nv)."""

    by_q: Array
    """By steps of position, column k for a step along velocity variable k, shape (..., nv, nv)."""

    by_v: Array
    """By velocities, shape (..., nv, nv)."""

    by_vd: Array
    """By accelerations: the mass matrix where no loops are closed, shape (..., nv, nv)."""

    def __repr__(self) -> str:
        return named_line(self)


class ForwardDynamicsDerivatives(NamedTuple):
    """Joint accelerations and their derivatives, for one state or a batch."""

    vd: Array
    """Joint acceleration [m/s^2 or rad/s^2], shape (..., nv)."""

    by_q: Array
    """By steps of position, column k for a step along velocity variable k, shape (..., nv, nv)."""

    by_v: Array
    """By velocities, shape (..., nv, nv)."""

    by_tau: Array
    """By joint forces: the inverse mass matrix where no loops are closed, shape (..., nv, nv)."""

    def __repr__(self) -> str:
        return named_line(self)


class InertiaDerivatives(NamedTuple):
    """Joint accelerations and their derivatives by inertial parameters, one state or a batch."""

    vd: Array
    """Joint acceleration [m/s^2 or rad/s^2], shape (..., nv)."""

    by_inertia: Array
    """By the parameters that `Model.parameter_names` lists, shape (..., nv, number of them)."""

    def __repr__(self) -> str:
        return named_line(self)


def acceleration_derivatives(
    setting: Setting, q: Scalars, v: Scalars, tau: Scalars
) -> tuple[tuple[Scalar, ...], Any, Any, Any]:
    """Compute accelerations and their derivatives, of trees and of robots with closed loops.

    Args:
        setting: What acts in this state.
        q: Position [m or rad], nq scalars.
        v: Joint velocity [m/s or rad/s], nv scalars.
        tau: Joint force [N or N m], nv scalars.

    Returns:
        vd, nv scalars, and its derivatives by steps of position, by velocity and by force, each an
        array of shape (nv, nv).
    """
    if setting.model.loops:
        from tiburon.loops.derivatives import constrained_derivatives

        return constrained_derivatives(setting, q, v, tau)
    from tiburon.algorithms.derivatives.dynamics import tree_acceleration_derivatives

    return tree_acceleration_derivatives(setting, q, v, tau)


@library_function(
    "inverse_dynamics_derivatives",
    ("q", "v", "vd"),
    make=InverseDynamicsDerivatives,
    keywords=DYNAMICS_CALL,
    checks_closure=True,
)
def _inverse(setting: Setting, q: Scalars, v: Scalars, vd: Scalars) -> Any:
    if setting.model.loops:
        from tiburon.loops.derivatives import actuated_derivatives

        tau, by_q, by_v, by_vd = actuated_derivatives(setting, q, v, vd)
        return {"tau": as_traced(list(tau)), "by_q": by_q, "by_v": by_v, "by_vd": by_vd}
    from tiburon.algorithms.derivatives.dynamics import force_derivatives

    return force_derivatives(setting, q, v, vd)


@library_function(
    "forward_dynamics_derivatives",
    ("q", "v", "tau"),
    make=ForwardDynamicsDerivatives,
    keywords=DYNAMICS_CALL,
    checks_closure=True,
)
def _forward(setting: Setting, q: Scalars, v: Scalars, tau: Scalars) -> Any:
    vd, by_q, by_v, by_tau = acceleration_derivatives(setting, q, v, tau)
    return {"vd": as_traced(list(vd)), "by_q": by_q, "by_v": by_v, "by_tau": by_tau}


@library_function(
    "inertia_derivatives",
    ("q", "v", "tau"),
    make=InertiaDerivatives,
    keywords=DYNAMICS_CALL,
    checks_closure=True,
)
def _by_inertia(setting: Setting, q: Scalars, v: Scalars, tau: Scalars) -> Any:
    if setting.model.loops:
        from tiburon.loops.derivatives import constrained_derivatives_by_inertia

        return constrained_derivatives_by_inertia(setting, q, v, tau)
    from tiburon.algorithms.derivatives.inertia import derivatives_by_inertia

    return derivatives_by_inertia(setting, q, v, tau)


@front_door(_inverse)
def inverse_dynamics_derivatives(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    vd: ArrayLike,
    *,
    closure: bool | None = None,
    **conditions: Unpack[DynamicsCall],
) -> InverseDynamicsDerivatives:
    """Compute joint forces and their derivatives by configuration, velocity and acceleration.

    Positions change by steps, as `Model.integrate` takes them: the derivative by q has one column
    per velocity variable, also where q holds a quaternion. External forces are held constant,
    in the axes in which they are given. With loops, forces are those of the robot's own actuators,
    the shortest that do; derivatives hold for changes that keep loops closed.

    Args:
        q, v, vd: Configuration, joint velocity and joint acceleration.

    Returns:
        Joint force, and its derivatives by q, v and vd.
    """
    options = closure_options(model, closure)
    return _inverse.request(model, (q, v, vd), conditions, options)


@front_door(_forward)
def forward_dynamics_derivatives(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    closure: bool | None = None,
    **conditions: Unpack[DynamicsCall],
) -> ForwardDynamicsDerivatives:
    """Compute joint accelerations and their derivatives by configuration, velocity and joint force.

    Positions change by steps, as `Model.integrate` takes them: the derivative by q has one column
    per velocity variable, also where q holds a quaternion. External forces are held constant,
    in the axes in which they are given. With loops, configurations may also leave the constraint
    manifold: the residual and its rate then stay constant.

    Args:
        q, v, tau: Configuration, joint velocity and joint force.

    Returns:
        Joint acceleration, and its derivatives by q, v and tau.

    Example:
        ``vd, by_q, by_v, by_tau = tb.forward_dynamics_derivatives(arm, q, v, tau)``
    """
    options = closure_options(model, closure)
    return _forward.request(model, (q, v, tau), conditions, options)


@front_door(_by_inertia)
def inertia_derivatives(
    model: Model,
    q: ArrayLike,
    v: ArrayLike,
    tau: ArrayLike,
    *,
    closure: bool | None = None,
    **conditions: Unpack[DynamicsCall],
) -> InertiaDerivatives:
    """Compute joint accelerations and their derivatives by masses and inertias.

    The parameters are those of `Model.parameters`, in the order of `Model.parameter_names`: mass,
    first moments and inertia of each body in its own frame, then armatures. Columns of bodies are
    -H^-1 times those of `regressor`, which have the same names.

    Args:
        q, v, tau: Configuration, joint velocity and joint force.
        **conditions: What acts on the robot, and when: the keywords of `Conditions`; `out` and
            `errors`: those of `Delivery`.

    Returns:
        Joint acceleration, and its derivative by the inertial parameters.

    Example:
        ``d = tb.inertia_derivatives(arm, q, v, tau)`` and ``d.by_inertia[:,
        arm.parameter_names.index("hand.mass")]``
    """
    options = closure_options(model, closure)
    return _by_inertia.request(model, (q, v, tau), conditions, options)
