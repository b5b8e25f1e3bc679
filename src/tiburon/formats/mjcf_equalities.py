"""Equalities of a compiled MuJoCo model: loops, welds and gears.

MuJoCo holds equalities by stiff springs; here they hold exactly. A joint tied to another by a
straight line becomes a `Coupled` joint, one tied to a constant is fixed; both leave fewer variables
than MuJoCo has. Everything else closes a loop.
"""

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tiburon.formats.findings import Findings
from tiburon.formats.mjcf_names import Names
from tiburon.formats.mjcf_pose import pose_of
from tiburon.model import (
    WORLD,
    Body,
    Coupled,
    Fixed,
    Joint,
    JointCoupling,
    LoopClosure,
    Pose,
    Prismatic,
    Revolute,
    Spherical,
)
from tiburon.model.closure import Closure

CONNECT, WELD, JOINT = range(3)
"""MuJoCo's numbers of equalities (mjtEq) that have a counterpart."""

SITE = 6
"""MuJoCo's number of sites among kinds of objects (mjtObj)."""


class _Tie(NamedTuple):
    """position of joint = polynomial in the position of the leader."""

    name: str
    joint: str
    leader: str | None
    coefficients: tuple[float, ...]


def read_equalities(
    compiled: Any, names: Names, bodies: Sequence[Body], findings: Findings
) -> tuple[list[Body], list[Closure]]:
    """Return the bodies with reduced joints, and the loops that remain.

    Args:
        compiled: An `MjModel`.
        names: Of its parts.
        bodies: The bodies without ties.
        findings: Receives what could not be expressed.
    """
    loops: list[Closure] = []
    ties: list[_Tie] = []
    others = 0
    for i in range(compiled.neq):
        if not compiled.eq_active0[i]:
            continue
        kind = int(compiled.eq_type[i])
        if kind in (CONNECT, WELD):
            loops.append(_loop(compiled, names, i))
        elif kind == JOINT:
            ties.append(_tie(compiled, names, i))
        else:
            others += 1
    if others:
        findings.add(f"left out: {others} equalities of tendons or flexible parts")
    reduced, kept = _reduce(list(bodies), ties)
    loops += [JointCoupling(*tie) for tie in kept]
    return reduced, loops


def _loop(compiled: Any, names: Names, i: int) -> LoopClosure:
    """Return a closure between two bodies or sites."""
    name = names.equality(i)
    on_sites = int(compiled.eq_objtype[i]) == SITE
    place = names.site if on_sites else names.body
    first = place(int(compiled.eq_obj1id[i]))
    second = place(int(compiled.eq_obj2id[i])) if int(compiled.eq_obj2id[i]) >= 0 else WORLD
    data = compiled.eq_data[i]
    if on_sites:
        # sites coincide, as points or as frames
        pose, second_pose = Pose(), Pose()
    elif int(compiled.eq_type[i]) == CONNECT:
        pose, second_pose = Pose(translation=data[0:3]), Pose(translation=data[3:6])
    else:
        pose = pose_of(data[6:10], data[3:6])
        second_pose = Pose(translation=data[0:3])
    kind = Spherical if int(compiled.eq_type[i]) == CONNECT else Fixed
    return LoopClosure(name, first, second, kind(name, pose=pose), second_pose)


def _tie(compiled: Any, names: Names, i: int) -> _Tie:
    """Return q1 = q1_0 + p(q2 - q2_0) as a polynomial in q2 itself."""
    first, second = int(compiled.eq_obj1id[i]), int(compiled.eq_obj2id[i])
    coefficients = compiled.eq_data[i][:5].tolist()
    start = float(compiled.qpos0[compiled.jnt_qposadr[first]])
    if second < 0:
        return _Tie(names.equality(i), names.joint(first), None, (start + coefficients[0],))
    shift = float(compiled.qpos0[compiled.jnt_qposadr[second]])
    # Horner's rule in powers of (x - shift)
    powers = [0.0]
    for c in reversed(coefficients):
        moved = [0.0, *powers]
        for k, p in enumerate(powers):
            moved[k] -= shift * p
        moved[0] += c
        powers = moved
    powers[0] += start
    while len(powers) > 1 and powers[-1] == 0.0:
        powers.pop()
    return _Tie(names.equality(i), names.joint(first), names.joint(second), tuple(powers))


def _reduce(bodies: list[Body], ties: list[_Tie]) -> tuple[list[Body], list[_Tie]]:
    """Apply the ties that reduce variables; return the bodies and the ties that do not."""
    where = {body.joint.name: i for i, body in enumerate(bodies)}
    # joint -> (leader, ratio, offset); a leader may itself turn out to follow
    follows: dict[str, tuple[str | None, float, float]] = {}
    kept: list[_Tie] = []
    for tie in ties:
        joint = bodies[where[tie.joint]].joint
        leads = None if tie.leader is None else bodies[where[tie.leader]].joint
        straight = len(tie.coefficients) <= 2 and isinstance(joint, Revolute | Prismatic)
        single = leads is None or isinstance(leads, Revolute | Prismatic)
        if not (straight and single) or tie.joint in follows:
            kept.append(tie)
            continue
        offset, ratio = (*tie.coefficients, 0.0)[:2]
        root, r, o = _root(follows, tie.leader if ratio else None)
        if root == tie.joint:
            # a ring of ties leaves no leader
            kept.append(tie)
            continue
        follows[tie.joint] = (root, ratio * r, offset + ratio * o)
    for name in follows:
        leader, ratio, offset = _resolved(follows, name)
        body = bodies[where[name]]
        bodies[where[name]] = replace(body, joint=_reduced(body.joint, leader, ratio, offset))
    return bodies, kept


def _root(
    follows: dict[str, tuple[str | None, float, float]], name: str | None
) -> tuple[str | None, float, float]:
    """Return the joint that moves another in the end, with ratio and offset."""
    ratio, offset = 1.0, 0.0
    while name in follows:
        name, r, o = follows[name]
        offset += ratio * o
        ratio *= r
    return name, ratio, offset


def _resolved(
    follows: dict[str, tuple[str | None, float, float]], name: str
) -> tuple[str | None, float, float]:
    leader, ratio, offset = follows[name]
    root, r, o = _root(follows, leader)
    return root, ratio * r, offset + ratio * o


def _reduced(joint: Joint, leader: str | None, ratio: float, offset: float) -> Joint:
    """Return the joint without a variable of its own."""
    assert isinstance(joint, Revolute | Prismatic)
    if leader is None:
        return joint.locked((offset,))
    moves = type(joint)(f"{joint.name}_motion", joint.axis, joint.offset)
    return Coupled(
        joint.name,
        moves,
        leader,
        ratio,
        offset,
        pose=joint.pose,
        limits=joint.limits,
        passive=joint.passive,
        armature=joint.armature,
    )
