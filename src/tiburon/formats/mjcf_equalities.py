"""Equalities of a compiled MuJoCo model: loops, welds and gears.

MuJoCo holds equalities by stiff springs; here they hold exactly. A joint tied to another by a
straight line becomes a `Coupled` joint, one tied to a constant is fixed; both leave fewer variables
than MuJoCo has. Fixed tendons tie sums of joints. Everything else closes a loop.
"""

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any, NamedTuple

from tiburon.formats.lenient import Findings
from tiburon.formats.mjcf_names import Names, pose_of
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
)
from tiburon.model.closure import Closure
from tiburon.model.closure_kinds import TendonCoupling
from tiburon.model.joints import Spherical

CONNECT, WELD, JOINT, TENDON = range(4)
"""MuJoCo's numbers of equalities (mjtEq) that have a counterpart."""

SITE = 6
"""MuJoCo's number of sites among kinds of objects (mjtObj)."""


WRAP_JOINT = 1
"""MuJoCo's number of what a fixed tendon runs over (mjtWrap)."""


Follows = dict[str, tuple[str | None, float, float]]
"""Leader, ratio and offset by joint; a leader may itself follow, none means a constant."""


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
    tendons: list[int] = []
    others = 0
    for i in range(compiled.neq):
        if not compiled.eq_active0[i]:
            continue
        kind = int(compiled.eq_type[i])
        if kind in (CONNECT, WELD):
            loops.append(_loop(compiled, names, i))
        elif kind == JOINT:
            ties.append(_tie(compiled, names, i))
        elif kind == TENDON and all(map(partial(_is_fixed, compiled), _tendons(compiled, i))):
            tendons.append(i)
        else:
            others += 1
    if others:
        findings.add(f"left out: {others} equalities of tendons through space or flexible parts")
    reduced, kept, follows = _reduce(list(bodies), ties)
    loops += [JointCoupling(*tie) for tie in kept]
    for i in tendons:
        tie = _tendon_tie(compiled, names, i, follows)
        if tie is None:
            findings.add(f"left out: the equality {names.equality(i)!r}: no joint of it moves")
        else:
            loops.append(tie)
    return reduced, loops


def left_out_tendons(compiled: Any) -> int:
    """Return how many tendons do something that no model can say: all but those of equalities.

    Args:
        compiled: An `MjModel`.
    """
    tied: set[int] = set()
    for i in range(compiled.neq):
        if compiled.eq_active0[i] and int(compiled.eq_type[i]) == TENDON:
            tied.update(_tendons(compiled, i))
    acts = (compiled.tendon_stiffness != 0.0) | (compiled.tendon_limited != 0)
    acts |= (compiled.tendon_damping != 0.0) | (compiled.tendon_frictionloss != 0.0)
    return sum(
        k not in tied or acts[k] or not _is_fixed(compiled, k) for k in range(compiled.ntendon)
    )


def _tendons(compiled: Any, i: int) -> list[int]:
    """Return the one or two tendons of an equality."""
    both = (int(compiled.eq_obj1id[i]), int(compiled.eq_obj2id[i]))
    return [tendon for tendon in both if tendon >= 0]


def _is_fixed(compiled: Any, tendon: int) -> bool:
    """Return whether the length of a tendon is a sum of joint positions."""
    return bool((compiled.wrap_type[_wraps(compiled, tendon)] == WRAP_JOINT).all())


def _wraps(compiled: Any, tendon: int) -> slice:
    start = int(compiled.tendon_adr[tendon])
    return slice(start, start + int(compiled.tendon_num[tendon]))


def _arms(
    compiled: Any, names: Names, tendon: int, follows: Follows
) -> tuple[dict[str, float], float]:
    """Return how much of a tendon each joint with a variable takes up, and what is constant."""
    own = _wraps(compiled, tendon)
    found: dict[str, float] = {}
    constant = 0.0
    for joint, arm in zip(compiled.wrap_objid[own], compiled.wrap_prm[own], strict=True):
        leader, ratio, offset = _root(follows, names.joint(int(joint)))
        constant += float(arm) * offset
        if leader is not None:
            found[leader] = found.get(leader, 0.0) + float(arm) * ratio
    return found, constant


def _tendon_tie(compiled: Any, names: Names, i: int, follows: Follows) -> TendonCoupling | None:
    """Return l1 - l1_0 = p(l2 - l2_0) between the lengths of tendons; None if nothing moves."""
    tendon, *others = _tendons(compiled, i)
    arms, constant = _arms(compiled, names, tendon, follows)
    start = float(compiled.tendon_length0[tendon]) - constant
    coefficients = compiled.eq_data[i][:5].tolist()
    leader_arms: dict[str, float] = {}
    powers: tuple[float, ...] = (coefficients[0],)
    if others:
        leader_arms, still = _arms(compiled, names, others[0], follows)
        powers = _shifted(coefficients, float(compiled.tendon_length0[others[0]]) - still)
    if len(powers) == 1 or not any(leader_arms.values()):
        leader_arms, powers = {}, powers[:1]
    if not any(arms.values()):
        return None
    return TendonCoupling(
        names.equality(i),
        tuple(arms),
        tuple(arms.values()),
        leaders=tuple(leader_arms),
        leader_arms=tuple(leader_arms.values()),
        coefficients=(powers[0] + start, *powers[1:]),
    )


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
    powers = list(_shifted(coefficients, shift))
    powers[0] += start
    return _Tie(names.equality(i), names.joint(first), names.joint(second), tuple(powers))


def _shifted(coefficients: Sequence[float], shift: float) -> tuple[float, ...]:
    """Return a polynomial in x - shift as one in x: Horner's rule in powers of the difference."""
    powers = [0.0]
    for c in reversed(coefficients):
        moved = [0.0, *powers]
        for k, p in enumerate(powers):
            moved[k] -= shift * p
        moved[0] += c
        powers = moved
    while len(powers) > 1 and powers[-1] == 0.0:
        powers.pop()
    return tuple(powers)


def _reduce(bodies: list[Body], ties: list[_Tie]) -> tuple[list[Body], list[_Tie], Follows]:
    """Apply the ties that reduce variables; return bodies, the other ties, and what follows."""
    where = {body.joint.name: i for i, body in enumerate(bodies)}
    follows: Follows = {}
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
    return bodies, kept, follows


def _root(follows: Follows, name: str | None) -> tuple[str | None, float, float]:
    """Return the joint that moves another in the end, with ratio and offset."""
    ratio, offset = 1.0, 0.0
    while name in follows:
        name, r, o = follows[name]
        offset += ratio * o
        ratio *= r
    return name, ratio, offset


def _resolved(follows: Follows, name: str) -> tuple[str | None, float, float]:
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
