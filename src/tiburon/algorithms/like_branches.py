"""Like branches of a tree: legs and fingers that differ in numbers only, visited side by side.

Branches are alike if their bodies have the same kinds of joints, placements made of the same kinds
of screws, and the same parameters, body by body. One function visits the bodies of such a branch,
and calls of it in lanes (`tiburon.trace.regions.lanes`) visit all branches: a kernel for one case
then computes four legs with the instructions of one. Numbers that all branches share, and products
of them, stay outside of the function; numbers that differ, such as the signs of mirrored legs, are
constants of the lanes.

Only the drivers of `tiburon.algorithms.traversal` visit branches so: algorithms need not know.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from tiburon.algorithms.tape_calls import JointVector, Local, NoIndex, flat, joint_code, unflat
from tiburon.model import Joint, Plan, PlanBody
from tiburon.model.joints.axial import turned_further
from tiburon.spatial import Rotation, Scalar, Transform
from tiburon.trace.program import current_graph
from tiburon.trace.regions.lanes import Lift, in_lanes
from tiburon.trace.value import Value

MIN_BRANCHES = 2
"""Branches from which on they are visited side by side: a humanoid with two legs gains 1.4."""

MIN_VARIABLES = 2
"""Velocity variables of a branch from which on it is worth it: not for single pendulums."""

LikeBranches = tuple[tuple[int, ...], ...]
"""Indices of the bodies of each branch, parents first; those at the same place are alike."""


def like_branches(plan: Plan, *, anywhere: bool = False) -> tuple[LikeBranches, ...]:
    """Return all groups of like branches on one body, those that contain others only.

    None where nothing is traced, unless asked for `anywhere`.
    """
    if plan.has_couplings or (current_graph() is None and not anywhere):
        return ()
    forms: dict[int, Any] = {}
    for body in reversed(plan.bodies):
        below = tuple(forms[child] for child in body.children)
        forms[body.index] = (_form(body), below)
    groups: list[LikeBranches] = []
    pending = [[body.index for body in plan.bodies if body.parent < 0]]
    while pending:
        siblings = pending.pop()
        alike: dict[Any, list[int]] = {}
        for index in siblings:
            alike.setdefault(forms[index], []).append(index)
        for found in alike.values():
            branch = [plan.bodies[index] for index in _branch(plan, found[0])]
            size = sum(body.v.stop - body.v.start for body in branch)
            if len(found) >= MIN_BRANCHES and size >= MIN_VARIABLES:
                groups.append(tuple(tuple(_branch(plan, index)) for index in found))
            else:
                pending += [list(plan.bodies[index].children) for index in found]
    return tuple(groups)


def _branch(plan: Plan, root: int) -> Iterator[int]:
    """Visit the bodies of a branch, parents first, in the same order for all like branches."""
    yield root
    for child in plan.bodies[root].children:
        yield from _branch(plan, child)


def _form(body: PlanBody) -> Any:
    """Return what the code of a visit depends on, apart from the values of numbers."""
    leaves: list[Any] = []
    joint, _, placement = without_offset(body)
    own = (joint.parameters(), placement, body.inertia, body.added, body.armature)
    structure = flat(own, leaves, lift_all=True)
    kinds = tuple(isinstance(x, Value) for x in leaves)
    return (joint_code(joint), structure, kinds)


RIGHT_ANGLES = ((0.0, 1.0), (-1.0, 0.0), (0.0, -1.0))
"""Turns that placements keep, those that only exchange axes: cosine and sine of the angle."""


def without_offset(body: PlanBody) -> tuple[Joint, tuple[float, ...], Transform]:
    """Return the joint of a body without its offset, the offset, and the placement before it.

    A turn about the joint's own axis at the end of the placement is part of the offset, so that
    legs at right angles are like those between them.
    """
    joint, offset = body.joint.without_offset()
    offset = offset or joint.no_offset()
    factors = body.placement.factors
    if len(offset) != 2 or not factors or not isinstance(factors[-1], Rotation):
        return joint, offset, body.placement
    for right in RIGHT_ANGLES:
        turn = joint.with_offset(right).transform((0.0,)).factors
        if len(turn) == 1 and _is_turn(turn[0], factors[-1]):
            return joint, turned_further(*offset, *right), Transform(factors[:-1])
    return joint, offset, body.placement


def _is_turn(turn: Any, kept: Rotation) -> bool:
    """Return whether two constant rotations are the same."""
    rows = [x for of in (turn, kept) for x in Transform((of,)).rotation]
    if any(isinstance(x, Value) for row in rows for x in row):
        return False
    return all(
        abs(x - y) < 1e-15
        for a, b in zip(rows[:3], rows[3:], strict=True)
        for x, y in zip(a, b, strict=True)
    )


class Stage:
    """The bodies of like branches while one function is traced for all of them."""

    def __init__(self, plan: Plan, branches: LikeBranches, lift: Lift) -> None:
        self._plan = plan
        self._branches = branches
        self._lift = lift

    def numbers(self, values: Sequence[Any]) -> Any:
        """Return a nested value that stands for those of all branches.

        Args:
            values: One per branch, of the same structure.
        """
        taken: list[list[Any]] = [[] for _ in values]
        forms = [
            flat(value, leaves, lift_all=True) for value, leaves in zip(values, taken, strict=True)
        ]
        return unflat(forms[0], iter([self._lift(column) for column in zip(*taken, strict=True)]))

    def body(self, place: int) -> PlanBody:
        """Return a body that stands for those at one place of all branches."""
        bodies = [self._plan.bodies[branch[place]] for branch in self._branches]
        joints = [(*body.joint.without_offset(), body.placement) for body in bodies]
        if len({(len(own), flat(before, [], lift_all=True)) for _, own, before in joints}) > 1:
            joints = [without_offset(body) for body in bodies]
        parts = [
            (joint.parameters(), before, body.inertia, body.added, body.armature)
            for (joint, _, before), body in zip(joints, bodies, strict=True)
        ]
        parameters, placement, inertia, added, armature = self.numbers(parts)
        offset = [self._lift(column) for column in zip(*(own for _, own, _ in joints), strict=True)]
        here = _Place(bodies, self._lift)
        q: Any = Local("q", here)
        v: Any = Local("v", here)
        index: Any = NoIndex("index")
        parent: Any = NoIndex("parent")
        return dataclasses.replace(
            bodies[0],
            index=index,
            name="",
            parent=parent,
            children=(),
            q=q,
            v=v,
            joint=joints[0][0].with_parameters(parameters).with_offset(offset),
            placement=placement,
            inertia=inertia,
            added=added,
            armature=armature,
        )


class _Place:
    """Values of the joints at one place of all branches."""

    def __init__(self, bodies: Sequence[PlanBody], lift: Lift) -> None:
        self._bodies, self._lift = bodies, lift

    def local(self, vector: JointVector, name: str) -> list[Scalar]:
        """Return the elements of a vector that belong to these joints."""
        taken = [vector[getattr(body, name)] for body in self._bodies]
        return [self._lift(column) for column in zip(*taken, strict=True)]


def side_by_side(
    plan: Plan, branches: LikeBranches, run: Callable[[Stage], list[Any]]
) -> list[list[Any]]:
    """Visit like branches at once.

    Args:
        plan: The bodies.
        branches: The branches.
        run: Visits the bodies of one branch, which stand for those of all; returns some values.

    Returns:
        For each branch these values.
    """
    forms: list[Any] = []

    def traced(lift: Lift) -> list[Any]:
        leaves: list[Any] = []
        for value in run(Stage(plan, branches, lift)):
            forms.append(flat(value, leaves, lift_all=True))
        return leaves

    found = in_lanes(len(branches), traced, name="branch")
    results = []
    for values in found:
        leaves = iter(values)
        results.append([unflat(form, leaves) for form in forms])
    return results
