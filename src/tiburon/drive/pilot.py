"""The pilot: turns sticks into commands, by hand or with a place to keep.

Symbols:
    e       step from where the robot is to where it should be [rad, m]
    k       frequency of the answer [rad/s]; the closed loop has three roots at -k where nothing
            else acts
    M       inertia along an axis
"""

import math
from collections.abc import Hashable, Sequence
from typing import Any

import numpy as np

from tiburon.actuation.defaults import elements_of
from tiburon.algorithms.bias import gravity_force
from tiburon.control.joint_choice import entries, joined
from tiburon.drive.panel import AXES, JointGrip, Panel, VehicleGrip, grips_of
from tiburon.model import Model, World
from tiburon.record import record
from tiburon.simulation.state import CommandRow, State
from tiburon.simulation.system import System
from tiburon.spatial import (
    quaternion_conjugate,
    quaternion_log,
    quaternion_multiply,
    quaternion_to_matrix,
)
from tiburon.spatial.vec3 import matrix_vector, subtract, transpose
from tiburon.trace.traced import traced

__all__ = ["Pilot", "piloted"]

FOLLOW = 20.0
"""How fast a target follows a robot that is driven by hand [1/s]: what is kept is where it is."""

EMPTY = 5.0
"""How fast integrals empty while nothing is kept [1/s]."""

TARGETS = ("qw", "qx", "qy", "qz", "x", "y", "z")


@traced
@record
class Pilot:
    """Reads a `Panel` and commands thrusters and joints.

    Vehicle, by hand: a stick asks for its share of the largest force along its axis. Keeping
    station: M (3 k^2 e + 3 k de/dt + k^3 integral of e) and the weight are shared out over the
    thrusters; sticks move the place that is kept. Joints alike: by hand a stick asks for force;
    held, it moves the angle that is kept. Targets and integrals are states of the run. What else is
    commanded, such as the force of a single thruster, is added to what sticks ask for by hand; a
    force along a joint itself pushes at it from outside, held or not.
    """

    vehicle: VehicleGrip | None
    joints: tuple[JointGrip, ...]
    panel: Panel
    bears_weight: bool
    """Whether weight less buoyancy is computed as it moves; with loops, that of the start holds."""

    def state_names(self, model: Model) -> tuple[str, ...]:
        """Return targets [1, m, rad] and integrals [rad s, m s]."""
        names = [f"pilot.target.{word}" for word in TARGETS] if self.vehicle else []
        names += [f"pilot.integral.{word}" for word in AXES] if self.vehicle else []
        names += [f"pilot.target.{grip.joint}" for grip in self.joints]
        return (*names, *(f"pilot.integral.{grip.joint}" for grip in self.joints))

    def initial_state(self, model: Model) -> tuple[float, ...]:
        """Return targets at the neutral position."""
        return self.start(model, model.neutral().tolist())

    def start(self, model: Model, q: Sequence[float]) -> tuple[float, ...]:
        """Return targets where the robot is, and empty integrals."""
        found: list[float] = []
        if self.vehicle is not None:
            found += [*q[model.slice(self.vehicle.joint, of="q")], *[0.0] * 6]
        found += [q[grip.q] for grip in self.joints]
        return (*found, *[0.0] * len(self.joints))

    def structure(self) -> Hashable:
        """Return all numbers but the gains, which are commands: they are compiled in."""
        return self

    def __call__(self, state: State) -> Any:
        """Return commands, and the rates of targets and integrals where there are any."""
        if self.vehicle is None and not self.joints:
            # nothing to hold: such a robot only swings
            return {}
        u = dict(zip(state.system.command_names, entries(state.u), strict=True))
        held = {word: u[f"{self.panel.name}.{word}"] for word in self.panel.inputs}
        own = entries(state.own)
        weight = [0.0] * state.model.nv
        if self.bears_weight:
            now = {"time": state.time} if state.system.time_matters else {}
            tau = gravity_force(state.model, state.q, world=state.system.world, **now)
            weight = entries(tau)
        for grip in self.joints:
            weight[grip.v] = weight[grip.v] + grip.weight
        commands: dict[str, Any] = {}
        rates: list[Any] = []
        if self.vehicle is not None:
            rates += self._steer(self.vehicle, state, u, held, own[:13], weight, commands)
            own = own[13:]
        rates += self._move(state, u, held, own, weight, commands)
        return commands, joined(rates, state.v)

    def _steer(
        self,
        grip: VehicleGrip,
        state: State,
        u: dict[str, Any],
        held: dict[str, Any],
        own: list[Any],
        weight: list[Any],
        commands: dict[str, Any],
    ) -> list[Any]:
        """Command the thrusters; return the rates of target and integrals."""
        model = state.model
        q = entries(state.q[..., model.slice(grip.joint, of="q")])
        v = entries(state.v[..., model.slice(grip.joint, of="v")])
        keeping = held["station"] > 0.5
        able = [float(most > 0.0) for most in grip.strength]
        sticks = [a * held[axis] for a, axis in zip(able, AXES, strict=True)]
        paces = [held["turn_rate"]] * 3 + [held["speed"]] * 3
        wanted = [stick * pace for stick, pace in zip(sticks, paces, strict=True)]
        length = np.sqrt(sum(x * x for x in own[:4]))
        aim = [x / length for x in own[:4]]
        R = transpose(quaternion_to_matrix(q[:4]))
        turn = quaternion_log(quaternion_multiply(quaternion_conjugate(q[:4]), aim))
        shift = matrix_vector(R, subtract(tuple(own[4:7]), tuple(q[4:])))
        e = [a * x for a, x in zip(able, (*turn, *shift), strict=True)]
        k = held["station_frequency"]
        asked = []
        where = model.slice(grip.joint, of="v")
        parts = zip(
            grip.inertia, e, wanted, v, own[7:], grip.strength, sticks, weight[where], strict=True
        )
        for m, error, rate, speed, integral, most, stick, borne in parts:
            kept = m * (3.0 * k * k * error + 3.0 * k * (rate - speed) + k * k * k * integral)
            asked.append(np.where(keeping, kept + borne, stick * most))
        shares = grip.allocation.share(joined(asked, state.v))
        full = sum(entries(shares.saturated)) > 0.5
        for thruster, share in zip(grip.allocation.thrusters, entries(shares.command), strict=True):
            # a slider of its own is added by hand
            commands[thruster.name] = share + np.where(keeping, 0.0, u[thruster.name])
        integrals = [
            np.where(keeping, np.where(full, 0.0, error), -EMPTY * integral)
            for error, integral in zip(e, own[7:], strict=True)
        ]
        moved = self._moved(own[:7], aim, wanted, 1.0 - length * length)
        side = np.where(sum(a * b for a, b in zip(q[:4], own[:4], strict=True)) < 0.0, -1.0, 1.0)
        here = [*(side * x for x in q[:4]), *q[4:]]
        followed = [FOLLOW * (x - y) for x, y in zip(here, own[:7], strict=True)]
        targets = [np.where(keeping, a, b) for a, b in zip(moved, followed, strict=True)]
        return [*targets, *integrals]

    @staticmethod
    def _moved(own: list[Any], aim: list[Any], wanted: list[Any], short: Any) -> list[Any]:
        """Return how sticks move the pose that is kept, its own axes; its length is restored."""
        spin = quaternion_multiply(aim, [0.0, *wanted[:3]])
        way = matrix_vector(quaternion_to_matrix(aim), tuple(wanted[3:]))
        return [*(0.5 * s + short * x for s, x in zip(spin, own[:4], strict=True)), *way]

    def _move(
        self,
        state: State,
        u: dict[str, Any],
        held: dict[str, Any],
        own: list[Any],
        weight: list[Any],
        commands: dict[str, Any],
    ) -> list[Any]:
        """Command the joints; return the rates of targets and integrals."""
        count = len(self.joints)
        q, v = entries(state.q), entries(state.v)
        targets, integrals = [], []
        for grip, target, integral in zip(self.joints, own[:count], own[count:], strict=True):
            keeping = held["arm_hold"] > 0.5
            stick = held[f"joint.{grip.joint}"]
            pace = stick * held["arm_rate"]
            # the angle that is kept stays where the joint can go
            pace = np.where((target >= grip.upper) & (pace > 0.0), 0.0, pace)
            pace = np.where((target <= grip.lower) & (pace < 0.0), 0.0, pace)
            e, k, m = target - q[grip.q], held["arm_frequency"], grip.inertia
            kept = m * (3.0 * k * k * e + 3.0 * k * (pace - v[grip.v]) + k * k * k * integral)
            kept = kept + weight[grip.v]
            added = 0.0 if grip.motor or grip.direct else u[grip.command]
            by_hand = stick * grip.strength + added
            force = np.where(keeping, kept, by_hand)
            missing = e
            if math.isfinite(grip.most):
                # integrals wait while there is no more to give
                missing = np.where(np.abs(force) > grip.most, 0.0, e)
                force = np.minimum(np.maximum(force, -grip.most), grip.most)
            commands[grip.command] = _command(grip, force, v[grip.v])
            if grip.direct:
                # a push from outside acts whoever holds the joint
                commands[grip.command] += u[grip.command]
            if grip.motor:
                commands[grip.command] += np.where(keeping, 0.0, u[grip.command])
            targets.append(np.where(keeping, pace, FOLLOW * (q[grip.q] - target)))
            integrals.append(np.where(keeping, missing, -EMPTY * integral))
        return [*targets, *integrals]


def _command(grip: JointGrip, force: Any, speed: Any) -> Any:
    """Return the command that gives a force: itself, or the voltage of a motor."""
    if not grip.motor:
        return force
    R, K, B, n = grip.motor
    return R * force / (K * n) + B * n * speed


def piloted(
    model: Model,
    world: World,
    forces: Sequence[Any] = (),
    *,
    passive: bool | str = True,
    limits: bool = True,
) -> tuple[System, dict[str, float]]:
    """Put a robot together with a pilot.

    Args:
        model: The robot.
        world: Its surroundings.
        forces: Elements that act beside the robot's own.
        passive: As in `elements_of`.
        limits: As in `elements_of`.

    Returns:
        The system, and what the panel says at first, by name of the command.
    """
    from tiburon.actuation.defaults import as_elements

    own = (*elements_of(model, world, passive=passive, limits=limits), *as_elements(forces))
    vehicle, joints = grips_of(model, world, CommandRow(model, own))
    start: dict[str, float] = {}
    if vehicle is not None:
        start |= dict.fromkeys(AXES, 0.0)
        # some times slower than thrusters lag
        pace = min(2.0, 0.16 / vehicle.lag) if vehicle.lag > 0.0 else 2.0
        start |= {"station": 0.0, "station_frequency": pace, "speed": 0.5, "turn_rate": 0.3}
    if joints:
        start |= {f"joint.{grip.joint}": 0.0 for grip in joints}
        start |= {"arm_hold": 1.0, "arm_frequency": 6.0, "arm_rate": 0.4}
    panel = Panel("panel", tuple(start))
    pilot = Pilot(vehicle, joints, panel, not model.loops)
    system = System(model, world, (*own, panel), pilot)
    return system, {f"panel.{word}": value for word, value in start.items()}
