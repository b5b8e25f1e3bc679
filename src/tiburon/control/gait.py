"""Gaits of legged robots: foot paths, their joint angles as Fourier series, and joint control."""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array, ArrayLike
from tiburon.errors import DomainError
from tiburon.functions.inverse_kinematics import FrameTarget, inverse_kinematics
from tiburon.functions.kinematics import forward_kinematics
from tiburon.model import Fixed, Frame, Model, Pose
from tiburon.record import record
from tiburon.trace.declared import traced

SAMPLES = 96
"""Configurations of one cycle that inverse kinematics solves for."""

HARMONICS = 10
"""Harmonics of joint angles: feet leave the ground within a tenth of a cycle."""


class GaitSeries(NamedTuple):
    """Joint angles over one cycle, as Fourier series in the phase."""

    lift: Array
    """A walk on the spot, from standing [rad], shape (joints, 2 HARMONICS + 1)."""

    stride: Array
    """What the stride adds [rad], shape (joints, 2 HARMONICS + 1)."""

    turn: Array
    """What one radian of turning in one cycle adds, shape (joints, 2 HARMONICS + 1)."""

    level: Array
    """What one radian of roll and of pitch needs to keep the body level, shape (joints, 2)."""


@record
class Gait:
    """How feet move relative to the body: on the ground straight back, in the air forward in a bow.

    Feet of different phases take turns.
    """

    phases: Mapping[str, float]
    """Phase of each foot, 0 to 1, by its frame or contact point."""

    period: float
    """Time of one cycle [s]."""

    duty: float
    """Share of the cycle on the ground."""

    stride: tuple[float, float]
    """Way of the body in one cycle, body axes x and y [m]."""

    lift: float
    """Height of the bow [m]."""

    turn: float = 0.0
    """Angle by which the body turns in one cycle [rad]."""

    def offsets(self, phase: Array, place: Array) -> Array:
        """Return the displacement of a foot from its place, body axes [m], shape (..., 3).

        Args:
            phase: Phase of the foot, shape (...).
            place: Where the foot stands, body axes [m], shape (3,).
        """
        share = phase % 1.0
        on_ground = share < self.duty
        # from 1/2 ahead to 1/2 behind on the ground, and back through the air
        back = 0.5 - share / self.duty
        air = np.clip((share - self.duty) / (1.0 - self.duty), 0.0, 1.0)
        # a quintic blend on top of the speed of the ground, which the foot has at both ends
        slope = -(1.0 - self.duty) / self.duty
        blend = air**3 * (10.0 - 15.0 * air + 6.0 * air**2)
        ahead = -0.5 + slope * air + (1.0 - slope) * blend
        along = np.where(on_ground, back, ahead)
        height = np.where(on_ground, 0.0, self.lift * 16.0 * (air * (1.0 - air)) ** 2)
        x, y = self.stride
        step = np.array([x - self.turn * place[1], y + self.turn * place[0]]) * self.duty
        return np.stack([step[0] * along, step[1] * along, height], axis=-1)

    def angles(self, model: Model, stand: Sequence[float]) -> Array:
        """Return the joint angles of one cycle [rad], shape (samples, joints).

        Args:
            model: A robot whose first body floats.
            stand: Configuration in which it stands [m or rad], shape (nq,).

        Raises:
            DomainError: If a foot path leaves the reach of its leg.
        """
        fixed, start = on_a_stand(model, stand, tuple(self.phases))
        _, places = forward_kinematics(fixed, start, tuple(self.phases))
        cycle = np.arange(SAMPLES) / SAMPLES
        targets = [
            FrameTarget(name, position=place + self.offsets(cycle + phase, place))
            for (name, phase), place in zip(self.phases.items(), places, strict=True)
        ]
        found = inverse_kinematics(fixed, np.tile(start, (SAMPLES, 1)), targets)
        if not np.all(found.reached):
            raise DomainError(
                "gait",
                "foot paths within the reach of the legs",
                f"{np.max(found.error):.3g} m beyond it",
                advice="shorten the stride",
            )
        places_of = [fixed.slice(joint).start for joint in leg_joints(model)]
        angles: Array = found.q[:, places_of]
        return angles

    def series(self, model: Model, stand: Sequence[float]) -> GaitSeries:
        """Return the joint angles of one cycle as Fourier series; see `angles`."""
        rest = np.array(stand)[[model.slice(joint).start for joint in leg_joints(model)]]
        spot = replace(self, stride=(0.0, 0.0), turn=0.0)
        lift = spot.angles(model, stand)
        walk = replace(self, turn=0.0).angles(model, stand)
        small = 0.1
        turned = replace(spot, turn=small).angles(model, stand)
        return GaitSeries(
            _fourier(lift - rest),
            _fourier(walk - lift),
            _fourier((turned - lift) / small),
            self._leveling(model, stand, rest),
        )

    def _leveling(self, model: Model, stand: Sequence[float], rest: Array) -> Array:
        """Return how joints change with the angles of the ground under a level body."""
        fixed, start = on_a_stand(model, stand, tuple(self.phases))
        _, places = forward_kinematics(fixed, start, tuple(self.phases))
        at = [fixed.slice(joint).start for joint in leg_joints(model)]
        found = []
        small = 0.02
        for slope in ((1.0, 0.0), (0.0, 1.0)):
            # the side of the body that is up needs shorter legs: their feet come closer
            targets = [
                FrameTarget(
                    name,
                    position=place
                    + np.array([0.0, 0.0, small * (slope[0] * place[1] - slope[1] * place[0])]),
                )
                for name, place in zip(self.phases, places, strict=True)
            ]
            solved = inverse_kinematics(fixed, start, targets)
            found.append((solved.q[at] - rest) / small)
        return np.stack(found, axis=-1)


def leg_joints(model: Model) -> tuple[str, ...]:
    """Return the joints with motors of a legged robot."""
    return tuple(actuator.joint for actuator in model.actuators)


def gait_control(
    model: Model,
    stand: Sequence[float],
    gait: Gait,
    stiffness: float,
    damping: float,
    *,
    start: float = 0.3,
    stop: float = np.inf,
    ramp: float = 2.0,
    heading: float = 2.0,
    leveling: float = 0.0,
    torque_limit: float = np.inf,
) -> Callable[[Any], Any]:
    """Return a controller: joints follow the gait, and the robot keeps its heading.

    Args:
        model: A robot whose first body floats.
        stand: Configuration in which it stands [m or rad], shape (nq,).
        gait: The gait.
        stiffness: Of the joints [N m/rad].
        damping: Of the joints [N m s/rad].
        start: Time of the first step [s].
        stop: Time at which it stands again [s].
        ramp: Periods in which steps grow to their full length, and shrink again.
        heading: Angle of turning in one cycle per angle off the x axis of the world.
        leveling: Share of roll and pitch that legs make up for by their length.
        torque_limit: Of the joints [N m].
    """
    series = gait.series(model, stand)
    joints = leg_joints(model)
    at_q = [model.slice(joint).start for joint in joints]
    at_v = [model.slice(joint, of="v").start for joint in joints]
    rest = np.array(stand)[at_q]
    base = model.slice(model.bodies[0].joint.name).start
    body = model.slice(model.bodies[0].joint.name, of="v").start
    most_turn = 0.3

    @traced
    def control(state: Any) -> Any:
        cycles = (state.time - start) / gait.period
        left = (stop - state.time) / gait.period if np.isfinite(stop) else ramp
        grown = np.clip(np.minimum(cycles, left) / ramp, 0.0, 1.0)
        pace = 2.0 * np.pi / gait.period
        waves, slopes = gait_waves(2.0 * np.pi * cycles)
        w, x, y, z = (state.q[base + k] for k in range(4))
        # direction of the body's x axis on the ground, and how far it is off that of the world
        yaw = np.arctan2(2.0 * (w * z + x * y), 1.0 - 2.0 * (y * y + z * z))
        turn = np.clip(-heading * yaw, -most_turn, most_turn)
        tilt = [
            leveling * x for x in leveling_angles((w, x, y, z), state.v[body], state.v[body + 1])
        ]
        forces: list[Any] = [0.0] * model.nv
        for k, (i, j) in enumerate(zip(at_q, at_v, strict=True)):
            table = [series.lift[k] + series.stride[k], series.turn[k]]
            ahead = [sum(float(c) * f for c, f in zip(row, waves, strict=True)) for row in table]
            speed = [sum(float(c) * f for c, f in zip(row, slopes, strict=True)) for row in table]
            wanted = float(rest[k]) + grown * (ahead[0] + turn * ahead[1])
            wanted = wanted + sum(float(c) * x for c, x in zip(series.level[k], tilt, strict=True))
            moving = grown * pace * (speed[0] + turn * speed[1])
            torque = stiffness * (wanted - state.q[i]) + damping * (moving - state.v[j])
            if np.isfinite(torque_limit):
                torque = np.clip(torque, -torque_limit, torque_limit)
            forces[j] = torque
        return forces

    control_of: Callable[[Any], Any] = control
    return control_of


def leveling_angles(quaternion: Sequence[Any], *rates: Any) -> list[Any]:
    """Return roll and pitch of a base plus 0.05 s of their rates, within 0.3 rad."""
    w, x, y, z = quaternion
    roll = np.arctan2(2.0 * (w * x + y * z), 1.0 - 2.0 * (x * x + y * y))
    pitch = 2.0 * (w * y - z * x)
    angles = zip((roll, pitch), rates, strict=True)
    return [np.clip(angle + 0.05 * rate, -0.3, 0.3) for angle, rate in angles]


def gait_waves(angle: Any) -> tuple[list[Any], list[Any]]:
    """Return 1, cosines and sines of multiples of an angle, and their derivatives."""
    c1, s1 = np.cos(angle), np.sin(angle)
    cosines, sines = [c1], [s1]
    for _ in range(HARMONICS - 1):
        c, s = cosines[-1], sines[-1]
        cosines.append(c * c1 - s * s1)
        sines.append(s * c1 + c * s1)
    order = range(1, HARMONICS + 1)
    slopes = [0.0, *(-k * s for k, s in zip(order, sines, strict=True)),
              *(k * c for k, c in zip(order, cosines, strict=True))]  # fmt: skip
    return [1.0, *cosines, *sines], slopes


def _fourier(samples: Array) -> Array:
    """Return mean, cosine and sine coefficients of columns, shape (columns, 2 HARMONICS + 1)."""
    spectrum = np.fft.rfft(samples, axis=0) / len(samples)
    kept = spectrum[1 : HARMONICS + 1]
    return np.concatenate([spectrum[:1].real, 2.0 * kept.real, -2.0 * kept.imag]).T


def on_a_stand(model: Model, stand: ArrayLike, feet: tuple[str, ...]) -> tuple[Model, Array]:
    """Return the robot with its body fixed and its feet as frames, and its configuration."""
    body = model.bodies[0]
    fixed = replace(body, joint=Fixed("stand"))
    known = {frame.name for frame in model.frames} | {part.name for part in model.bodies}
    points = {point.name: point for point in model.contacts}
    frames: list[Any] = [
        Frame(name, points[name].body, Pose(translation=points[name].position))
        for name in feet
        if name not in known
    ]
    tree = Model(model.name, [fixed, *model.bodies[1:]], [*model.frames, *frames])
    return tree, np.array(stand, dtype=np.float64)[body.joint.nq :]
