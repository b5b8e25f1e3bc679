"""Stars: a reference member, and arms that meet in it alone.

A load held by several arms, a platform on legs and an object in a hand are stars: without the
reference member (McMillan 1994, section 1.2) the mechanism falls apart into arms, each a tree. An
arm may stand on the world or on the reference member, and its loops may close at the reference
member or at the world; the tree of the model decides that, not the mechanism.

The velocity variables of the reference member are those of its own joint and of all joints that
carry it: a load that hangs at the tip of one arm is carried by that arm, which then belongs to the
center. A shared base that floats, the hull of an underwater robot with two arms for instance, is a
second reference member.

`star` finds reference members and arms. `layout` adds what algorithms need: for each arm the plan
of its bodies, and of those of the reference member that its loops and joints meet.
"""

from collections.abc import Iterable, Sequence
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from tiburon.algorithms.joint_space import expanded_parents, remaining_parents
from tiburon.algorithms.kinematics import WORLD_PLACE
from tiburon.algorithms.traversal import ancestors
from tiburon.arguments import public
from tiburon.errors import ModelError
from tiburon.loops.complement_basis import reduced_rows
from tiburon.loops.constraints import constraint_names, jacobian_pattern, loop_wrenches
from tiburon.model import LoopClosure, Model, Plan
from tiburon.model.joint_constraints import RelativeMotion
from tiburon.model.model import per_model
from tiburon.model.plan import WORLD_BODY, PlanFrame
from tiburon.record import record
from tiburon.spatial import Force, RigidInertia


@record
class StarArm:
    """One arm of a star."""

    name: str
    """What the names of its bodies have in common, or the name of its first loop."""

    joints: tuple[str, ...]
    """Its joints, parents first."""

    dof: int
    """Degrees of freedom of its joints."""

    loops: tuple[str, ...]
    """The loops that hold it; none for a branch that hangs on the reference member."""

    grasps: tuple[str, ...]
    """Kind of the joint of each loop: "fixed", "revolute", "spherical" and so on."""

    constraints: int
    """Number of constraints of its loops, those that no joint can violate left out."""


@record
class Star:
    """Reference members and arms of a mechanism; or why it is not a star."""

    reference: tuple[str, ...]
    """Bodies of the reference members: the load or the platform, after a base that arms share."""

    carriers: tuple[str, ...]
    """Joints of the model's tree that carry them, their own included."""

    arms: tuple[StarArm, ...]

    reason: str = ""
    """Why the mechanism is not a star; empty if it is one."""

    @property
    def is_star(self) -> bool:
        """Whether the mechanism is a star."""
        return not self.reason

    @property
    def summary(self) -> str:
        """One line: what is held by how many arms, and how; or why the mechanism is not a star."""
        if self.reason:
            return f"no star: {self.reason}"
        held = [arm for arm in self.arms if arm.loops]
        branches = len(self.arms) - len(held)
        joints = _listed(sorted({len(arm.joints) for arm in held}))
        unit = "joint" if joints == "1" else "joints"
        grasps = [GRASPS.get(kind, kind) for arm in held for kind in arm.grasps]
        ways = _listed(list(dict.fromkeys(grasps)))
        arms = "1 arm" if len(held) == 1 else f"{len(held)} arms"
        one = "grasp" if len(grasps) == 1 else "grasps"
        *bases, load = self.reference
        text = f"{load} held by {arms} of {joints} {unit}, {ways} {one}"
        if bases:
            text += f"; arms stand on {bases[0]}"
        if len(self.carriers) > len(self.reference):
            text += f"; carried by {len(self.carriers)} joints"
        if branches:
            text += f"; {branches} {'branch' if branches == 1 else 'branches'}"
        return text


GRASPS = {"fixed": "rigid", "revolute": "hinge", "spherical": "ball"}
"""Words for joints that close loops."""


def _listed(items: Sequence[object]) -> str:
    words = [str(item) for item in items]
    return words[0] if len(words) == 1 else ", ".join(words[:-1]) + " and " + words[-1]


class Grip(NamedTuple):
    """Wrenches by which a loop can act on the reference member, in any position of its joint.

    Constant in axes of the reference member: as many as the loop has constraints for joints that
    are the same seen from both bodies (fixed, revolute, prismatic, spherical, planar and so on),
    one more for a universal joint.
    """

    body: int
    """Body of the reference member in the arm's plan."""

    basis: tuple[tuple[float, ...], ...]
    """Rows of moment and force at its origin, in its axes, in reduced echelon form."""

    pivots: tuple[int, ...]
    """Components in which these are rows of the identity: those of a wrench there are its
    coordinates."""


class ArmLayout(NamedTuple):
    """What algorithms need of one arm. Local variables are those of its plan, in order."""

    name: str
    bodies: tuple[int, ...]
    """Plan bodies of its plan: its own, and those of reference members that it meets."""

    own_bodies: frozenset[int]
    """Those that belong to the arm."""

    q: tuple[int, ...]
    """Position variables of its plan in the robot's."""

    v: tuple[int, ...]
    """Velocity variables of its plan in the robot's."""

    own: tuple[int, ...]
    """Local velocity variables of the arm."""

    border: tuple[int, ...]
    """Local velocity variables of reference members."""

    at: tuple[int, ...]
    """Place of each of `border` among all variables of reference members."""

    border_q: tuple[int, ...]
    """Local position variables of reference members."""

    at_q: tuple[int, ...]
    """Place of each of `border_q` among all position variables of reference members."""

    parents: tuple[int, ...]
    """Expanded parents among `own`."""

    loops: tuple[LoopClosure, ...]
    rows: tuple[int, ...]
    """The robot's constraints that hold the arm, without those that no joint can violate."""

    live: tuple[int, ...]
    """The same, counted within the arm's loops."""

    entries: tuple[frozenset[int], ...]
    """For each of `rows`, the local velocity variables in it."""

    hangs: tuple[int, ...]
    """Those of `border` that carry bodies of the arm, as places in `border`."""

    grips: tuple[Grip, ...] = ()
    """One per loop, if all loops together act in fewer directions than `border` has variables: the
    arm then sends its inertia in these; otherwise empty."""

    @property
    def directions(self) -> int:
        """Number of directions in which an arm sends inertia and force."""
        return sum(len(grip.basis) for grip in self.grips) or len(self.border)

    def plan_of(self, plan: Plan) -> Plan:
        """Return the arm's part of the robot's plan; reference members have no inertia in it."""
        return part_of(plan, self.bodies, self.own_bodies, self.q, self.v)

    def forces_of(self, external: Sequence[Force] | None) -> list[Force] | None:
        """Return the external forces on the bodies of the arm's plan."""
        if external is None:
            return None
        return [external[k] if k in self.own_bodies else Force.zero() for k in self.bodies]


def arm_numbers(arm: ArmLayout) -> int:
    """Return how many numbers an arm sends: its inertia and force, and three of its condition."""
    size = arm.directions
    return size * (size + 1) // 2 + size + 3


class StarLayout(NamedTuple):
    """What algorithms need of a star."""

    arms: tuple[ArmLayout, ...]
    bodies: tuple[int, ...]
    """Plan bodies of the center: reference members, and what carries them."""

    q: tuple[int, ...]
    v: tuple[int, ...]
    """Position and velocity variables of the center in the robot's."""

    def plan_of(self, plan: Plan) -> Plan:
        """Return the center's part of the robot's plan."""
        return part_of(plan, self.bodies, frozenset(self.bodies), self.q, self.v)


def part_of(
    plan: Plan, bodies: Sequence[int], own: frozenset[int], q: Sequence[int], v: Sequence[int]
) -> Plan:
    """Return the plan of some bodies, parents first; those that are not its own have no inertia.

    q and v are the variables of the bodies, in order.
    """
    place = {old: new for new, old in enumerate(bodies)}
    q_place = {old: new for new, old in enumerate(q)}
    v_place = {old: new for new, old in enumerate(v)}
    found = []
    for old in bodies:
        body = plan.bodies[old]
        moved = replace(
            body,
            index=place[old],
            parent=place.get(body.parent, WORLD_BODY),
            children=tuple(place[k] for k in body.children if k in place),
            q=_moved(body.q, q_place),
            v=_moved(body.v, v_place),
        )
        if old not in own:
            moved = replace(moved, inertia=RigidInertia.zero(), added=None, armature=None)
        found.append(moved)
    frames = {
        name: PlanFrame(place.get(frame.body, WORLD_BODY), frame.transform)
        for name, frame in plan.frames.items()
        if frame.body in place or frame.body == WORLD_BODY
    }
    return Plan(plan.name, len(q), len(v), tuple(found), frames, (), plan.time, ends=plan.ends)


def _moved(old: slice, place: dict[int, int]) -> slice:
    """Return a slice of variables at their new places."""
    if old.start == old.stop:
        return slice(0, 0)
    return slice(place[old.start], place[old.stop - 1] + 1)


# -- search ----------------------------------------------------------------------------------------


class _Cut(NamedTuple):
    """A mechanism without some reference members."""

    references: tuple[int, ...]
    center: frozenset[int]
    """Plan bodies of reference members, and of what carries them."""

    groups: tuple[tuple[frozenset[int], tuple[int, ...]], ...]
    """Bodies of each arm or branch, and the indices of its loops."""

    problem: str
    """Why this is not a star; empty if it is."""

    work: float
    """Predicted multiplications of a solve."""

    @property
    def holds(self) -> bool:
        """Whether several arms hold the reference member, one that carries it included."""
        return self.held + (len(self.center) > len(self.references)) > 1

    @property
    def held(self) -> int:
        """Number of arms with loops."""
        return sum(bool(loops) for _, loops in self.groups)


def _closures(model: Model) -> tuple[LoopClosure, ...]:
    """Return the loops of a mechanism whose loops are all closed by joints."""
    return tuple(loop for loop in model.loops if isinstance(loop, LoopClosure))


def _ends(plan: Plan, loop: LoopClosure) -> tuple[int, int]:
    return plan.frame(loop.first).body, plan.frame(loop.second).body


def _cut(model: Model, references: tuple[int, ...]) -> _Cut:
    """Remove reference members, and return the connected components of what remains."""
    plan = model.plan
    center = frozenset().union(*(ancestors(plan, body) for body in references))
    above = {k for body in plan.bodies if body.index in center for k in range(*_range(body.v))}
    root = list(range(len(plan.bodies)))

    def top(body: int) -> int:
        while root[body] != body:
            body = root[body]
        return body

    leader: dict[int, int] = {}
    for body in plan.bodies:
        if body.index in center:
            continue
        if body.parent != WORLD_BODY and body.parent not in center:
            root[top(body.index)] = top(body.parent)
        # coupled joints share variables
        for k in range(*_range(body.v)):
            root[top(body.index)] = top(leader.setdefault(k, body.index))
    problem = ""
    loops_of: dict[int, list[int]] = {}
    closures = _closures(model)
    for index, loop in enumerate(closures):
        free = [end for end in _ends(plan, loop) if end != WORLD_BODY and end not in center]
        if not free:
            problem = problem or (
                f"loop {loop.name!r} holds the reference member without joints between"
            )
            continue
        if len(free) == 2:
            problem = problem or f"loop {loop.name!r} closes inside an arm"
            root[top(free[0])] = top(free[1])
        loops_of.setdefault(free[0], []).append(index)
    members: dict[int, set[int]] = {}
    for body in plan.bodies:
        if body.index not in center:
            members.setdefault(top(body.index), set()).add(body.index)
            shared = above & set(range(*_range(body.v)))
            if shared and not problem:
                problem = f"joint {body.joint.name!r} follows a joint of the reference member"
    groups = []
    work = len(above) ** 3 / 6.0
    for bodies in sorted(members.values(), key=min):
        loops = tuple(sorted(k for body in bodies for k in loops_of.get(body, ())))
        groups.append((frozenset(bodies), loops))
        n = len({k for i in bodies for k in range(*_range(plan.bodies[i].v))})
        c = sum(len(closures[k].joint.loop_constraints()) for k in loops)
        work += n**3 / 6.0 + n * n * c / 2.0 + n * c * c + c * c * 6.0 / 2.0 + c * 36.0 / 2.0
        if loops and len(references) > 1 and references[0] not in ancestors(plan, min(bodies)):
            problem = problem or "its arms stand on no common base"
    if not any(loops for _, loops in groups):
        problem = problem or "no arm is held by a loop"
    return _Cut(references, center, tuple(groups), problem, work)


def _range(part: slice) -> tuple[int, int]:
    return part.start, part.stop


@per_model
def _best_cut(model: Model) -> _Cut | str:
    """Return the cut of least predicted work; or why there is none."""
    plan = model.plan
    if not model.loops:
        return "it has no loops"
    for loop in model.loops:
        if not isinstance(loop, LoopClosure):
            return f"loop {loop.name!r} is a {type(loop).__name__}, no joint between two bodies"
    ends = {end for loop in _closures(model) for end in _ends(plan, loop)} - {WORLD_BODY}
    # members that arms meet in; arms are not cut in the middle
    forks = {body.index for body in plan.bodies if len(body.children) > 1}
    floating = {body.index for body in plan.bodies if body.v.stop - body.v.start == 6}
    singles = sorted(ends | forks | floating)
    bases = sorted(k for k in forks | floating if plan.bodies[k].parent == WORLD_BODY)
    pairs = [(base, k) for base in bases for k in singles if k != base]
    cuts = [_cut(model, (k,)) for k in singles]
    possible = [cut for cut in cuts if not cut.problem]
    if not any(cut.holds for cut in possible):
        # all arms stand on one moving base: a second reference member
        cuts += [_cut(model, pair) for pair in pairs]
        possible = [cut for cut in cuts if not cut.problem]
    if possible:
        return min(possible, key=lambda cut: (not cut.holds, -cut.held, len(cut.center), cut.work))
    # the single member with most arms explains best what is wrong
    return max(cuts[: len(singles)], key=lambda cut: len(cut.groups)).problem


@public
def star(model: Model) -> Star:
    """Find the reference member of a mechanism and the arms that hold it.

    Args:
        model: The robot.

    Returns:
        Reference members and arms; for a mechanism that is not a star, the reason.

    Example:
        ``tb.star(tb.load("four_pumas")).summary``
    """
    found = _best_cut(model)
    if isinstance(found, str):
        return Star((), (), (), found)
    plan = model.plan
    names = _names(model, found)
    arms = []
    for name, (bodies, loops), arm in zip(names, found.groups, layout(model).arms, strict=True):
        closures = [_closures(model)[k] for k in loops]
        joints = [plan.bodies[k].joint for k in sorted(bodies)]
        arms.append(
            StarArm(
                name,
                tuple(joint.name for joint in joints),
                len(arm.own),
                tuple(loop.name for loop in closures),
                tuple(loop.joint.kind for loop in closures),
                len(arm.rows),
            )
        )
    return Star(
        tuple(plan.bodies[k].name for k in found.references),
        tuple(plan.bodies[k].joint.name for k in sorted(found.center)),
        tuple(arms),
    )


@per_model
def arm_names(model: Model) -> tuple[str, ...]:
    """Return the names of the arms of a star, in order."""
    return tuple(arm.name for arm in layout(model).arms)


def _names(model: Model, cut: _Cut) -> list[str]:
    """Name each arm by the common start of its body names, else by its first loop."""
    plan = model.plan
    starts = []
    for bodies, loops in cut.groups:
        words = [plan.bodies[k].name for k in sorted(bodies)]
        common = _common_start(words)
        if len(words) > 1 and common not in words:
            # whole words only
            common = common[: max(common.rfind(mark) for mark in "_-./ ") + 1]
        common = common.rstrip("_-./ ")
        starts.append(common or (model.loops[loops[0]].name if loops else words[0]))
    firsts = [model.loops[loops[0]].name if loops else "" for _, loops in cut.groups]
    found: list[str] = []
    for start, first in zip(starts, firsts, strict=True):
        name = start if starts.count(start) == 1 else first or start
        found.append(name if name not in found else f"{name} {len(found) + 1}")
    return found


def _common_start(words: Sequence[str]) -> str:
    """Return the characters that all words begin with."""
    first, last = min(words), max(words)
    same = (k for k, (a, b) in enumerate(zip(first, last, strict=False)) if a != b)
    return first[: next(same, min(len(first), len(last)))]


@per_model
def layout(model: Model) -> StarLayout:
    """Return the layout of a star.

    Raises:
        ModelError: If the mechanism is not a star.
    """
    cut = _best_cut(model)
    if isinstance(cut, str):
        raise ModelError(
            f"model {model.name!r}: expected a star of arms for method 'star', got a mechanism "
            f"that is none: {cut}; use method='augmented'",
            name=model.name,
        )
    plan = model.plan
    center = tuple(sorted(cut.center))
    center_v = _variables(plan, center, "v")
    arms = []
    for name, (bodies, loops) in zip(_names(model, cut), cut.groups, strict=True):
        arms.append(_arm(model, name, bodies, loops, cut.center))
    return StarLayout(tuple(arms), center, _variables(plan, center, "q"), center_v)


MAX_ARM_VARIABLES = 12
"""Degrees of freedom of an arm, and of the center, up to which a star is solved as one by default:
code of an arm is spelled out, and grows with their cube."""


@per_model
def suits_star(model: Model) -> bool:
    """Return whether a mechanism is a star that the method for stars computes at least as quickly.

    Several arms hold the reference member, and each has as many degrees of freedom as constraints:
    otherwise it would be singular in every pose, and so computed by the rare branch.
    """
    cut = _best_cut(model)
    if isinstance(cut, str) or not cut.holds:
        return False
    found = layout(model)
    sizes = [len(found.v), *(len(arm.own) for arm in found.arms)]
    regular = all(len(arm.own) >= len(arm.rows) for arm in found.arms)
    return regular and max(sizes) <= MAX_ARM_VARIABLES


def _variables(plan: Plan, bodies: Iterable[int], of: str) -> tuple[int, ...]:
    """Return the position or velocity variables of bodies, in order."""
    parts = [getattr(plan.bodies[k], of) for k in bodies]
    return tuple(sorted({i for part in parts for i in range(*_range(part))}))


def _arm(
    model: Model, name: str, bodies: frozenset[int], loops: Sequence[int], center: frozenset[int]
) -> ArmLayout:
    plan = model.plan
    center_q, center_v = (_variables(plan, sorted(center), of) for of in ("q", "v"))
    closures = []
    rows: list[int] = []
    live: list[int] = []
    names = [row.rpartition(".")[0] for row in constraint_names(model)]
    pattern = jacobian_pattern(model)
    met: set[int] = set(bodies)
    count = 0
    for k in loops:
        loop = _closures(model)[k]
        closures.append(loop)
        met.update(end for end in _ends(plan, loop) if end != WORLD_BODY)
        start = names.index(loop.name)
        for row in range(start, start + names.count(loop.name)):
            if pattern[row]:
                rows.append(row)
                live.append(count)
            count += 1
    # joints that carry bodies must be in the plan, too
    whole = sorted(frozenset().union(*(ancestors(plan, k) for k in met)))
    q, v = _variables(plan, whole, "q"), _variables(plan, whole, "v")
    own_v = set(_variables(plan, sorted(bodies), "v"))
    own = tuple(i for i, k in enumerate(v) if k in own_v)
    border = tuple(i for i, k in enumerate(v) if k not in own_v)
    above = frozenset().union(*(ancestors(plan, k) for k in bodies)) & center
    carrying = set(_variables(plan, sorted(above), "v"))
    local = {k: i for i, k in enumerate(v)}
    part = part_of(plan, whole, bodies, q, v)
    hangs = tuple(j for j, i in enumerate(border) if v[i] in carrying)
    grips = () if hangs else _grips(model, closures, live, center, whole)
    if not 0 < sum(len(grip.basis) for grip in grips) < len(border):
        grips = ()
    return ArmLayout(
        name=name,
        bodies=tuple(whole),
        own_bodies=bodies,
        q=q,
        v=v,
        own=own,
        border=border,
        at=tuple(center_v.index(v[i]) for i in border),
        border_q=tuple(i for i, k in enumerate(q) if k in center_q),
        at_q=tuple(center_q.index(k) for k in q if k in center_q),
        parents=remaining_parents(expanded_parents(part), own),
        loops=tuple(closures),
        rows=tuple(rows),
        live=tuple(live),
        entries=tuple(frozenset(local[k] for k in pattern[row]) for row in rows),
        hangs=hangs,
        grips=grips,
    )


GRIP_SAMPLES = 4
"""Random positions of a joint that determine the wrenches it can transmit."""


def _grips(
    model: Model,
    loops: Sequence[LoopClosure],
    live: Sequence[int],
    center: frozenset[int],
    bodies: Sequence[int],
) -> tuple[Grip, ...]:
    """Return how the loops of an arm act on the reference member; empty where one does not."""
    plan, found, start = model.plan, [], 0
    if plan.geometry is not None:
        # wrenches on a reference member differ with where and how loops are fixed to it
        return ()
    for loop in loops:
        measures = loop.joint.loop_constraints()
        used = [measure for k, measure in enumerate(measures, start) if k in live]
        start += len(measures)
        first, second = _ends(plan, loop)
        if (first in center) == (second in center):
            return ()
        end, name, pose = second, loop.second, loop.second_pose
        if first in center:
            end, name, pose = first, loop.first, loop.joint.pose
        X = plan.frame(name).transform.then(pose.transform)
        rng = np.random.default_rng(17)
        wrenches = []
        for _ in range(GRIP_SAMPLES):
            place = WORLD_PLACE.moved(loop.joint.transform(loop.joint.random(rng)))
            at = RelativeMotion(place.R, place.p)
            on_ends = loop_wrenches(at, [measure.wrench(at) for measure in used])
            own = on_ends[0] if end == first else on_ends[1]
            moved = [X.force_to_parent(f) for f in own]
            wrenches += [[float(x) for x in (*f.moment, *f.force)] for f in moved]
        basis, pivots = reduced_rows(np.array(wrenches).reshape(-1, 6))
        rows = tuple(tuple(row) for row in basis.tolist())
        found.append(Grip(list(bodies).index(end), rows, pivots))
    return tuple(found)
