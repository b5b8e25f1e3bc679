"""The run that `tiburon demo` shows: an underwater vehicle holds its place while its arm reaches.

Two controllers that ship, side by side, speak a hundred times a second as computers on board do;
they are part of the native loop, in which the vehicle moves in a current with all that water does
to each of its links.
"""

from typing import TYPE_CHECKING

import tiburon as tb

if TYPE_CHECKING:
    from collections.abc import Callable

    from tiburon.model import Model, Water
    from tiburon.results.trajectory import Trajectory

VEHICLE = "tiburon_titan"

CONTROL_INTERVAL = 0.01
"""Time between two words of the controllers [s]."""

REACH = {"azimuth": 0.7, "shoulder": -0.5, "elbow": 1.3, "wrist_pitch": -0.6, "wrist_roll": 1.0}
"""How far the joints of the arm go [rad]."""

REACH_BEGIN, REACH_TIME = 2.0, 6.0
"""When the arm starts, and how long it takes [s]."""

STATION_FREQUENCY = 0.8
"""Frequency at which station keeping answers [rad/s]; thrusters lag by 0.2 s."""

IMPORTANCE = (1.0, 1e-3, 1.0, 1.0, 1.0, 1.0)
"""Of moments, then forces: only surge could pitch the vehicle, which must not give its place for
that; buoyancy rights it."""

ARM_FREQUENCY = 12.0
"""Frequency at which the joints of the arm answer [rad/s]."""


def arm_path(vehicle: "Model") -> "tb.JointPath":
    """Return where the arm is asked to be: from rest to rest, of fifth order."""
    joints = [joint.name for joint in vehicle.joints if joint.nv == 1]
    start = [float(vehicle.neutral()[vehicle.slice(name, of="q").start]) for name in joints]
    goal = [angle + REACH.get(name, 0.0) for name, angle in zip(joints, start, strict=True)]
    times = (REACH_BEGIN, REACH_BEGIN + REACH_TIME)
    return tb.JointPath.through(times, [start, goal], kind="quintic", joints=joints)


def simulate(
    vehicle: "Model",
    water: "Water",
    duration: float,
    step: float,
    progress: "Callable[[float, float], None] | None" = None,
) -> "Trajectory":
    """Let the vehicle hold its place in a current while its arm reaches; every step is recorded.

    Args:
        vehicle: A free body with thrusters, and an arm.
        water: What it is in.
        duration: Simulated time [s].
        step: Step of the integrator [s].
        progress: Told simulated time and duration now and then.
    """
    shares = tb.ThrusterAllocation.of(vehicle, importance=IMPORTANCE)
    keeper = tb.StationKeeping.of(
        vehicle, frequency=STATION_FREQUENCY, fluid=water, allocation=shares
    )
    path = arm_path(vehicle)
    arm = tb.ComputedTorque.critical(path, ARM_FREQUENCY, joints=path.joints)
    # steps that fit the controllers' interval, which fits the duration
    inner = max(1, round(CONTROL_INTERVAL / step))
    words = max(1, round(duration / CONTROL_INTERVAL))
    return tb.simulate(
        vehicle,
        words * CONTROL_INTERVAL,
        fluid=water,
        control=tb.CombinedControl((keeper, arm)),
        control_dt=CONTROL_INTERVAL,
        dt=CONTROL_INTERVAL / inner,
        record_every=1,
        progress=False if progress is None else progress,
    )
