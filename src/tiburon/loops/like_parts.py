"""Parts of a mechanism that differ in numbers only: like arms and legs.

Such parts share one traced function, whose arguments are the numbers in which they differ; those
that all of them have stay constants, which fold. A kernel for one case then calls it in lanes
(`tiburon.trace.regions.lanes`), once for all parts.
"""

from collections.abc import Callable, Hashable, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

from tiburon.algorithms.like_branches import without_offset
from tiburon.algorithms.tape_calls import flat, joint_code, unflat
from tiburon.model import LoopClosure, Plan, PlanBody, Pose
from tiburon.model.plan import PlanFrame
from tiburon.spatial import Rotation, Transform, Translation


class Apart(NamedTuple):
    """A part taken apart."""

    form: Hashable
    """What code depends on apart from the values of numbers."""

    numbers: Any
    """Its numbers, nested; those of bodies as `Placed`."""

    make: Callable[[Any], Any]
    """Returns the part with other numbers."""


class Placed(NamedTuple):
    """Numbers of a body, whose offset and placement can be written in two ways."""

    given: tuple[Any, ...]
    """As the plan has them."""

    turned: tuple[Any, ...]
    """With a right-angled turn about the joint's axis as part of an offset, which may be zero."""


def _placed(body: PlanBody) -> Placed:
    """Return the numbers of a body."""
    joint, given = body.joint.without_offset()
    others = (joint.parameters(), body.inertia, body.added, body.armature)
    _, turned, placement = without_offset(body)
    return Placed((given, body.placement, *others), (turned, placement, *others))


def plan_apart(plan: Plan, loops: Sequence[LoopClosure] = ()) -> Apart:
    """Take a plan apart, and the loops closed on it.

    Loops are made again with both of their ends as frames of the plan, so that `make` returns a
    plan and loops.
    """
    # joints that follow each other are coupled by names and numbers: such plans are all unlike
    form: list[Any] = [plan.nq, plan.nv, object() if plan.has_couplings else None]
    numbers: list[Any] = []
    for body in plan.bodies:
        places = (body.parent, body.children, _ends(body.q), _ends(body.v))
        form.append((joint_code(body.joint.without_offset()[0]), places))
        numbers.append(_placed(body))
    made = []
    for k, loop in enumerate(loops):
        ends = []
        poses = ((loop.first, loop.joint.pose), (loop.second, loop.second_pose))
        for number, (name, pose) in enumerate(poses):
            frame = plan.frame(name)
            ends.append(frame.body)
            numbers.append((frame.transform.then(plan.end(loop.name, number, pose)),))
        form.append((joint_code(loop.joint), loop.joint.parameters(), *ends))
        joint = replace(loop.joint, name=f"loop {k}", pose=Pose())
        closed = LoopClosure(f"loop {k}", f"first end {k}", f"second end {k}", joint)
        made.append((closed, ends))

    def make(given: Any) -> tuple[Plan, tuple[LoopClosure, ...]]:
        bodies = []
        for body, own in zip(plan.bodies, given, strict=False):
            offset, placement, parameters, inertia, added, armature = own
            stripped, _ = body.joint.without_offset()
            bodies.append(
                replace(
                    body,
                    joint=stripped.with_parameters(parameters).with_offset(offset),
                    placement=placement,
                    inertia=inertia,
                    added=added,
                    armature=armature,
                )
            )
        left = iter(given[len(plan.bodies) :])
        frames = {}
        for loop, (first, second) in made:
            frames[loop.first] = PlanFrame(first, *next(left))
            frames[loop.second] = PlanFrame(second, *next(left))
        whole = replace(plan, bodies=tuple(bodies), frames=frames, ends={})
        return whole, tuple(loop for loop, _ in made)

    return Apart(tuple(form), tuple(numbers), make)


def _ends(of: slice) -> tuple[int, int]:
    return of.start, of.stop


class Shared(NamedTuple):
    """Numbers of like parts: one form, constants that all share, and those that differ."""

    form: Any
    same: tuple[float | None, ...]
    """By place the number that all parts have, None where they differ."""

    own: tuple[tuple[Any, ...], ...]
    """For each part, the numbers in which parts differ."""

    def put_together(self, given: Sequence[Any]) -> Any:
        """Return the numbers of a part from those in which it differs."""
        left = iter(given)
        return unflat(self.form, iter([next(left) if x is None else x for x in self.same]))


def shared_numbers(parts: Sequence[Sequence[Any]]) -> Shared | None:
    """Return what the numbers of parts have in common; None if their forms differ.

    Args:
        parts: For each part, groups of numbers. Transforms of a group that consist of different
            moves are written in general form.
    """
    columns = [_alike(column) for column in zip(*parts, strict=True)]
    taken: list[list[Any]] = [[] for _ in parts]
    forms = [
        flat(tuple(column[k] for column in columns), leaves, lift_all=True)
        for k, leaves in enumerate(taken)
    ]
    if any(form != forms[0] for form in forms):
        return None
    same: list[float | None] = []
    for first, *others in zip(*taken, strict=True):
        known = isinstance(first, float) and all(
            isinstance(x, float) and x == first for x in others
        )
        same.append(first if known else None)
    own = tuple(
        tuple(x for x, known in zip(leaves, same, strict=True) if known is None) for leaves in taken
    )
    return Shared(forms[0], tuple(same), own)


def _alike(groups: Sequence[Placed | tuple[Any, ...]]) -> list[tuple[Any, ...]]:
    """Return numbers at one place of all parts, with transforms of one form."""
    plain: list[tuple[Any, ...]] = []
    for side in ("given", "turned"):
        plain = [getattr(group, side) if isinstance(group, Placed) else group for group in groups]
        if len({flat(group, [], lift_all=True) for group in plain}) == 1:
            return plain
    return [tuple(_general(x) if isinstance(x, Transform) else x for x in group) for group in plain]


def _general(transform: Transform) -> Transform:
    """Return a constant transform in general form: translation, then rotation."""
    return Transform((Translation(transform.translation), Rotation(transform.rotation)))


class LikeParts(NamedTuple):
    """Some parts that share one function."""

    places: tuple[int, ...]
    """Their places among all parts, in order."""

    numbers: tuple[tuple[Any, ...], ...]
    """For each of them, the numbers in which they differ."""

    make: Callable[[Sequence[Any]], Any]
    """Returns a part from these."""

    def of(self, call: Callable[..., Any]) -> Callable[..., Any]:
        """Return a function of a part as one of the numbers of the part."""

        def shared(own: Sequence[Any], *arguments: Any) -> Any:
            return call(self.make(own), *arguments)

        return shared


def like_parts(parts: Sequence[Any], structures: Sequence[Hashable]) -> list[LikeParts]:
    """Return groups of like parts, in the order of their first parts.

    Args:
        parts: Those with a method `apart` are compared; all others are alone. A method `among`
            returns a part that can stand for all of its like.
        structures: Structure of each part's state, which like parts have in common.
    """
    groups: dict[Hashable, list[int]] = {}
    apart: dict[int, Apart] = {}
    for k, (part, structure) in enumerate(zip(parts, structures, strict=True)):
        taken = part.apart() if hasattr(part, "apart") else None
        if taken is not None:
            apart[k] = taken
        groups.setdefault(k if taken is None else (taken.form, structure), []).append(k)
    found = []
    for places in groups.values():
        shared = shared_numbers([apart[k].numbers for k in places]) if len(places) > 1 else None
        if shared is None:
            found += [_alone(k, parts[k]) for k in places]
            continue
        first, members = parts[places[0]], [parts[k] for k in places]
        taken = first.among(members).apart() if hasattr(first, "among") else apart[places[0]]

        def make(own: Sequence[Any], taken: Apart = taken, shared: Shared = shared) -> Any:
            return taken.make(shared.put_together(own))

        found.append(LikeParts(tuple(places), shared.own, make))
    return sorted(found, key=lambda group: group.places)


def _alone(place: int, part: Any) -> LikeParts:
    return LikeParts((place,), ((),), lambda _: part)
