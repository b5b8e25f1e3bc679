"""From a list of bodies to a tree: names, parents, order."""

from collections.abc import Iterable, Sequence

from tiburon.errors import ModelError, UnknownNameError
from tiburon.model.body import WORLD, Body, Frame


def check_unique(model: str, kind: str, names: Iterable[str]) -> None:
    """Raise `ModelError` if a name occurs twice."""
    seen: set[str] = set()
    for name in names:
        if name in seen:
            raise ModelError(
                f"model {model!r}: {kind} name {name!r} is used twice; rename one of them",
                name=name,
            )
        seen.add(name)


def parents_first(bodies: Sequence[Body]) -> tuple[Body, ...]:
    """Order bodies so that every parent precedes its children, otherwise as they were given.

    Raises:
        UnknownNameError: If a parent does not exist.
        ModelError: If bodies carry each other in a cycle.
    """
    by_name = {body.name: body for body in bodies}
    placed: set[str] = {WORLD}
    order: list[Body] = []
    for body in bodies:
        # walk towards the world until something placed, then place what was passed on the way
        path: list[Body] = []
        on_path: set[str] = set()
        current = body
        while current.name not in placed:
            if current.name in on_path:
                raise _cycle_error([b.name for b in path], current.name)
            path.append(current)
            on_path.add(current.name)
            if current.parent == WORLD:
                break
            if current.parent not in by_name:
                raise UnknownNameError(
                    "parent body",
                    current.parent,
                    [WORLD, *by_name],
                    where=f"body {current.name!r}",
                )
            current = by_name[current.parent]
        for passed in reversed(path):
            placed.add(passed.name)
            order.append(passed)
    return tuple(order)


def _cycle_error(path: Sequence[str], closing: str) -> ModelError:
    """Name the bodies of a cycle, child before parent."""
    cycle = [*path[path.index(closing) :], closing]
    return ModelError(
        f"body {closing!r}: bodies must form a tree that hangs on 'world', got the cycle "
        f"{' -> '.join(cycle)} (child -> parent); give one of them another parent",
        name=closing,
    )


def check_frames(frames: Sequence[Frame], body_names: Sequence[str]) -> None:
    """Raise `UnknownNameError` if a frame sits on a body that does not exist."""
    known = {WORLD, *body_names}
    for frame in frames:
        if frame.body not in known:
            raise UnknownNameError(
                "body", frame.body, [WORLD, *body_names], where=f"frame {frame.name!r}"
            )


def check_leaders(bodies: Sequence[Body]) -> None:
    """Raise if a joint follows one that does not exist, or has not one freedom of its own."""
    joints = {body.joint.name: body.joint for body in bodies}
    for joint in joints.values():
        if joint.follows is None:
            continue
        if joint.follows not in joints:
            raise UnknownNameError(
                "leader joint", joint.follows, joints, where=f"joint {joint.name!r}"
            )
        leader = joints[joint.follows]
        if leader.nq != 1 or leader.nv != 1:
            raise ModelError(
                f"joint {joint.name!r}: its leader must have one freedom of its own, got the "
                f"{leader.kind} joint {leader.name!r}; follow the joint that moves it all",
                name=joint.name,
            )


def check_mass(bodies: Sequence[Body]) -> None:
    """Raise `ModelError` if a joint moves nothing that has mass, and has no armature.

    Args:
        bodies: Parents first.
    """
    carries = {body.name: body.inertia.mass > 0.0 for body in bodies}
    for body in reversed(bodies):
        if carries[body.name] and body.parent != WORLD:
            carries[body.parent] = True
    # from the leaves, so that the message names the body that lacks the mass
    for body in reversed(bodies):
        # a rotor resists by itself
        resists = carries[body.name] or all(body.joint.armatures)
        if body.joint.nv > 0 and not resists:
            raise ModelError(
                f"body {body.name!r}: mass must be positive on the {body.joint.kind} joint "
                f"{body.joint.name!r}, got 0 kg and nothing heavy beyond it; give the body an "
                "inertia, or hold it by a Fixed joint",
                name=body.name,
            )
