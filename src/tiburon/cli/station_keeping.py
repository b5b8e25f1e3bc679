"""The run that `tiburon demo` shows: an underwater vehicle holds its place while its arm reaches.

A controller in plain Python speaks a hundred times a second; in between, the vehicle moves natively
in steps of a millisecond, in a current, with all that water does to each of its links.
"""

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tiburon as tb

if TYPE_CHECKING:
    from tiburon.model import Model, Water

Array = NDArray[np.float64]

CONTROL_INTERVAL = 0.01
"""Time between two words of the controller [s]."""

REACH = {"azimuth": 0.7, "shoulder": -0.5, "elbow": 1.3, "wrist_pitch": -0.6, "wrist_roll": 1.0}
"""Where the joints of the arm go [rad]."""

REACH_BEGIN, REACH_TIME = 2.0, 6.0
"""When the arm starts, and how long it takes [s]."""

STIFFNESS = 0.8
"""Frequency at which station keeping answers [rad/s]; thrusters lag by 0.2 s."""

ARM_STIFFNESS = 12.0
"""Frequency at which the joints of the arm answer [rad/s]."""


class Run(NamedTuple):
    """What was recorded, one row per word of the controller."""

    time: Array
    q: Array
    v: Array
    tau: Array
    thrust: Array
    wanted: Array
    """Angles the arm was asked for [rad]."""


@dataclass
class StationKeeper:
    """Holds the vehicle at its first place with thrusters, and moves the arm along a path.

    The wrench on the vehicle is a proportional, integral and derivative answer to its error, shared
    out over the thrusters by least squares. The motors of the arm bear its weight and the drag of
    the water, and answer errors through the mass matrix (computed torque).
    """

    vehicle: "Model"
    water: "Water"
    start: Array

    def __post_init__(self) -> None:
        model = self.vehicle
        count = len(model.thrusters)
        shares = [tb.thruster_force_of_thrust(model, self.start, e) for e in np.eye(count)]
        self.allocation = np.linalg.pinv(np.array(shares).T[:6])
        self.lags = np.array([thruster.time_constant for thruster in model.thrusters])
        self.limits = np.array([thruster.thrust_limits for thruster in model.thrusters])
        H = tb.mass_matrix(model, self.start, fluid=self.water)
        self.inertia = np.diag(H).copy()
        self.thrust = np.zeros(count)
        self.collected = np.zeros(6)
        self.goal = self.start[7:].copy()
        for name, angle in REACH.items():
            self.goal[model.slice(name).start - 7] += angle

    def path(self, time: float) -> tuple[Array, Array]:
        """Return angles and rates the arm is asked for: from rest to rest, of fifth order."""
        s = min(max((time - REACH_BEGIN) / REACH_TIME, 0.0), 1.0)
        way = self.goal - self.start[7:]
        rate = 30.0 * s**2 * (1.0 - s) ** 2 / REACH_TIME
        return self.start[7:] + way * s**3 * (10.0 - 15.0 * s + 6.0 * s**2), way * rate

    def forces(self, time: float, q: Array, v: Array) -> tuple[Array, Array]:
        """Return joint forces for the next interval, and the angles the arm was asked for."""
        model = self.vehicle
        step = model.difference(q, self.start)[:6]
        self.collected += step * CONTROL_INTERVAL
        k, m = STIFFNESS, self.inertia[:6]
        wrench = m * (3.0 * k**2 * step - 3.0 * k * v[:6] + k**3 * self.collected)
        asked = np.clip(self.allocation @ wrench, *self.limits.T)
        self.thrust += (asked - self.thrust) * -np.expm1(-CONTROL_INTERVAL / self.lags)
        tau = tb.thruster_force_of_thrust(model, q, self.thrust)
        wanted, rate = self.path(time)
        k, H = ARM_STIFFNESS, tb.mass_matrix(model, q, fluid=self.water)[6:, 6:]
        borne = tb.bias_force(model, q, v, fluid=self.water)[6:]
        tau[6:] += borne + H @ (k**2 * (wanted - q[7:]) + 2.0 * k * (rate - v[6:]))
        return tau, wanted


def simulate(
    vehicle: "Model",
    water: "Water",
    duration: float,
    step: float,
    progress: Callable[[float], None] | None = None,
) -> Run:
    """Let the vehicle hold its place in a current while its arm reaches.

    Args:
        vehicle: A free body with thrusters, and an arm.
        water: What it is in.
        duration: Simulated time [s].
        step: Step of the integrator [s].
        progress: Told the simulated time now and then.
    """
    q, v = vehicle.neutral(), np.zeros(vehicle.nv)
    keeper = StationKeeper(vehicle, water, q)
    inner = max(1, round(CONTROL_INTERVAL / step))
    count = max(1, round(duration / CONTROL_INTERVAL))
    rows: list[Sequence[Array]] = []
    for k in range(count):
        time = k * CONTROL_INTERVAL
        tau, wanted = keeper.forces(time, q, v)
        rows.append((q, v, tau, keeper.thrust.copy(), wanted))
        after = tb.integrate_rk4(
            vehicle,
            q,
            v,
            tau,
            dt=CONTROL_INTERVAL / inner,
            steps=inner,
            fluid=water,
            time=time,
            record_every=inner,
        )
        q, v = after.q[-1], after.v[-1]
        if progress is not None:
            progress(time + CONTROL_INTERVAL)
    recorded = [np.array(column) for column in zip(*rows, strict=True)]
    return Run(CONTROL_INTERVAL * np.arange(count, dtype=np.float64), *recorded)


class EnergyBalance(NamedTuple):
    """Where the work goes, one number per recorded row, seen from the water [J]."""

    work: Array
    """Done by thrusters and motors."""

    energy: Array
    """Gained by the robot and the water around it, kinetic and potential."""

    lost: Array
    """Taken by drag and damping."""


def energy_balance(vehicle: "Model", water: "Water", run: Run) -> EnergyBalance:
    """Follow the energy of a run in a uniform, steady current.

    Seen from the water the current stands still: velocities are relative ones, and work is that of
    forces along them.
    """
    R, _ = tb.forward_kinematics(vehicle, run.q, vehicle.bodies[0].name)
    v = run.v.copy()
    v[:, 3:6] -= np.einsum("tji,j->ti", R, np.array(water.current))
    still = tb.Water(water.density)
    energy = np.asarray(tb.kinetic_energy(vehicle, run.q, v, fluid=still)) + np.asarray(
        tb.potential_energy(vehicle, run.q, fluid=still)
    )
    rest = np.zeros(vehicle.nv)
    resisted = tb.inverse_dynamics(vehicle, run.q, v, rest, fluid=still)
    smooth = tb.inverse_dynamics(_without_drag(vehicle), run.q, v, rest, fluid=still)
    lost = np.sum((resisted - smooth) * v, axis=1)
    # forces are held between two rows, velocities are not
    middle = 0.5 * (v[1:] + v[:-1])
    work = np.sum(run.tau[:-1] * middle, axis=1)
    interval = np.diff(run.time)
    return EnergyBalance(
        np.concatenate([[0.0], np.cumsum(work * interval)]),
        energy - energy[0],
        np.concatenate([[0.0], np.cumsum(0.5 * (lost[1:] + lost[:-1]) * interval)]),
    )


def _without_drag(model: "Model") -> "Model":
    bodies = []
    for body in model.bodies:
        fluid = body.fluid
        if fluid is not None:
            fluid = replace(fluid, drag=(), linear_damping=None, quadratic_damping=None)
        bodies.append(replace(body, fluid=fluid))
    return tb.Model(f"{model.name}, smooth", bodies, model.frames)
