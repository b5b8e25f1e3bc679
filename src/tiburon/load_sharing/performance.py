"""Power of motors, and indices that compare two ways to share a load (Nahon 1991, section 6.2.7).

Symbols:
    pi      electrical power of all motors: heat in the windings and mechanical power    (6.50)
    x^      scaled forces: x^T W x with the weights of (6.20)
    eta_f   (x^ . x^) of least internal force over that of least power                   (6.55)
    eta_p   pi of least power over that of least internal force                          (6.56)

Their global versions integrate numerator and denominator over a task (6.57).
"""

from typing import NamedTuple

import numpy as np

from tiburon.argument_checks import check_finite
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike, NDArray
from tiburon.errors import DomainError, ModelError, ShapeError
from tiburon.load_sharing.objectives.motor_loss import MotorLoss
from tiburon.load_sharing.problem import Layout
from tiburon.model import Model


class MotorPower(NamedTuple):
    """Power of each actuator's motor [W], shape (..., actuators)."""

    loss: Array
    """Heat in the windings, i^2 R: the only part that sharing a load changes."""

    mechanical: Array
    """Power of the motor's torque, against its own inertia and friction, and at the joint."""

    @property
    def total(self) -> Array:
        """Electrical power of all motors together [W], shape (...)."""
        return np.asarray(np.sum(self.loss + self.mechanical, axis=-1))


@public
def motor_power(model: Model, v: ArrayLike, vd: ArrayLike, tau: ArrayLike) -> MotorPower:
    """Compute the power of the motors of a motion (6.50).

    Motors carry the joint force, their rotor's inertia as far as the armature of the joint does not
    include it, and their own friction.

    Args:
        model: The robot; every actuator has a motor with resistance and torque constant.
        v: Joint velocity [m/s or rad/s], shape (..., nv).
        vd: Joint acceleration [m/s^2 or rad/s^2], shape (..., nv).
        tau: Joint force [N or N m], shape (..., nv).

    Raises:
        ModelError: If an actuator lacks a motor, its resistance or its torque constant.
    """
    objective = MotorLoss()
    driven = tuple(int(i) for i in model.indices(model.actuated_joint_names, of="v"))
    try:
        objective.check(model, Layout((), 0, driven, ()))
    except ModelError as error:
        raise ModelError(f"model {model.name!r}: {error}") from error
    arrays = []
    for name, given in (("v", v), ("vd", vd), ("tau", tau)):
        array = np.asarray(given, dtype=np.float64)
        if array.shape[-1:] != (model.nv,):
            raise ShapeError(name, f"(..., {model.nv})", array.shape)
        arrays.append(array)
    places = [model.slice(actuator.joint, of="v").start for actuator in model.actuators]
    rate, acceleration, force = (array[..., places] for array in arrays)
    weight, inertia, damping, friction, _ = np.array(objective.parameters(model)).reshape(-1, 5).T
    torque = force + inertia * acceleration + damping * rate + friction * np.sign(rate)
    return MotorPower(0.5 * weight * torque**2, torque * rate)


class PerformanceIndices(NamedTuple):
    """How least power compares with least internal force."""

    force: Array
    """eta_f at each instant: 1 where least power has least internal force, 0 at worst."""

    power: Array
    """eta_p at each instant: below 1 where least power saves. NaN where `is_bounded` is False."""

    is_bounded: NDArray[np.bool_]
    """Where both powers are positive: elsewhere eta_p is not a measure, and may exceed 1."""

    global_force: float
    """eta_f over the task."""

    global_power: float
    """eta_p over the task; NaN if an integral of power is not positive."""


@public
def performance_indices(
    time: ArrayLike,
    internal_force: ArrayLike,
    force_at_least_power: ArrayLike,
    internal_power: ArrayLike,
    least_power: ArrayLike,
) -> PerformanceIndices:
    """Compare two ways to share a load over a task (6.55)-(6.57).

    Args:
        time: Instants [s], increasing, shape (n,).
        internal_force: x^ . x^ of the solution of least internal force [N^2 m^2], shape (n,).
        force_at_least_power: x^ . x^ of the solution of least power [N^2 m^2], shape (n,).
        internal_power: Power of the former [W], shape (n,).
        least_power: Power of the latter [W], shape (n,).
    """
    t = np.asarray(time, dtype=np.float64)
    if t.ndim != 1 or t.size < 2 or not np.all(np.diff(t) > 0.0):
        raise DomainError("time", "two or more increasing instants", f"shape {t.shape}")
    rows = []
    for name, given in (
        ("internal_force", internal_force),
        ("force_at_least_power", force_at_least_power),
        ("internal_power", internal_power),
        ("least_power", least_power),
    ):
        row = np.asarray(given, dtype=np.float64)
        if row.shape != t.shape:
            raise ShapeError(name, f"{t.shape}, one value per instant", row.shape)
        check_finite(name, row)
        rows.append(row)
    f_int, f_power, p_int, p_power = rows
    # scaled by their largest value, quotients of sums neither overflow nor vanish
    scales = [
        max(float(np.abs(row).max()), float(np.abs(other).max())) or 1.0
        for row, other in ((f_int, f_power), (p_int, p_power))
    ]
    good = (p_int > 0.0) & (p_power > 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        force = np.where(f_power > 0.0, f_int / f_power, 1.0)
        power = np.where(good, p_power / p_int, np.nan)
    span = (t - t[0]) / (t[-1] - t[0])
    totals = [float(np.trapezoid(row / scales[k // 2], span)) for k, row in enumerate(rows)]
    return PerformanceIndices(
        force,
        power,
        good,
        totals[0] / totals[1] if totals[1] > 0.0 else 1.0,
        totals[3] / totals[2] if min(totals[2:]) > 0.0 else float("nan"),
    )
