"""Actuators of a compiled MuJoCo model: motors on joints, thrusters on sites."""

import math
from typing import Any

from tiburon.formats.findings import Findings
from tiburon.formats.mjcf_names import Names
from tiburon.model import Actuator, LinearThrust, Thruster
from tiburon.model.numbers import Vec3

JOINT, JOINT_IN_PARENT, _SLIDER_CRANK, _TENDON, SITE = range(5)
"""MuJoCo's numbers of what an actuator pulls at (mjtTrn)."""

FIXED_GAIN = 0
"""MuJoCo's number of a force in proportion to the control (mjtGain)."""

HINGE_OR_SLIDE = (2, 3)
"""MuJoCo's numbers of joints with one freedom (mjtJoint)."""


def read_actuators(
    compiled: Any, names: Names, findings: Findings
) -> tuple[list[Actuator], list[Thruster]]:
    """Return motors on joints, and those that push at a site along one direction.

    Servos and muscles keep where they act and how hard, not their control law.

    Args:
        compiled: An `MjModel`.
        names: Of its parts.
        findings: Receives what could not be expressed.
    """
    actuators: list[Actuator] = []
    thrusters: list[Thruster] = []
    others = 0
    for i in range(compiled.nu):
        kind, part = int(compiled.actuator_trntype[i]), int(compiled.actuator_trnid[i][0])
        if kind in (JOINT, JOINT_IN_PARENT) and _turns_one_way(compiled, i, part):
            actuators.append(_motor(compiled, names, i, part))
        elif kind == SITE and (thruster := _thruster(compiled, names, i, part)) is not None:
            thrusters.append(thruster)
        else:
            others += 1
    if others:
        findings.add(f"left out: {others} actuators that are neither motors nor thrusters")
    return actuators, thrusters


def _turns_one_way(compiled: Any, i: int, joint: int) -> bool:
    """Return whether an actuator drives a joint of one freedom, through a gear that turns."""
    one = int(compiled.jnt_type[joint]) in HINGE_OR_SLIDE
    return one and float(compiled.actuator_gear[i][0]) != 0.0


def _motor(compiled: Any, names: Names, i: int, joint: int) -> Actuator:
    ratio = float(compiled.actuator_gear[i][0])
    low, high = _range(compiled, i)
    # limits count at the joint, where the gear has multiplied them
    at_joint = sorted((ratio * low, ratio * high))
    own = getattr(compiled, "actuator_armature", None)
    return Actuator(
        names.actuator(i),
        names.joint(joint),
        ratio,
        force_limits=(at_joint[0], at_joint[1]),
        rotor_inertia=0.0 if own is None else float(own[i]),
    )


def _thruster(compiled: Any, names: Names, i: int, site: int) -> Thruster | None:
    """Return a push along a direction fixed to a site, with the moment of its propeller."""
    gear = compiled.actuator_gear[i].tolist()
    direction, moment = gear[:3], gear[3:]
    strength = math.hypot(*direction)
    away_from_site = int(compiled.actuator_trnid[i][1]) >= 0
    if strength == 0.0 or away_from_site or int(compiled.actuator_gaintype[i]) != FIXED_GAIN:
        return None
    unit: Vec3 = (direction[0] / strength, direction[1] / strength, direction[2] / strength)
    along = sum(m * u for m, u in zip(moment, unit, strict=True))
    across = math.hypot(*(m - along * u for m, u in zip(moment, unit, strict=True)))
    if across > 1e-9 * math.hypot(*moment):
        # a moment across the thrust is no propeller's
        return None
    low, high = _range(compiled, i)
    limits = (-math.inf, math.inf)
    if compiled.actuator_ctrllimited[i]:
        a, b = compiled.actuator_ctrlrange[i].tolist()
        limits = (a, b)
    return Thruster(
        names.actuator(i),
        names.site(site),
        direction=unit,
        curve=LinearThrust(strength * float(compiled.actuator_gainprm[i][0])),
        torque_ratio=along / strength,
        command_limits=limits,
        thrust_limits=(strength * low, strength * high),
    )


def _range(compiled: Any, i: int) -> tuple[float, float]:
    """Return the smallest and largest force before the gear."""
    if not compiled.actuator_forcelimited[i]:
        return -math.inf, math.inf
    low, high = compiled.actuator_forcerange[i].tolist()
    return low, high
