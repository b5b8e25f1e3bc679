"""From the joints of an SDF file, which may form any graph, to a tree and what closes loops."""

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from tiburon.formats.limits import Budget
from tiburon.formats.sdf_joints import SdfJoint
from tiburon.model.body import WORLD

TURNABLE = ("revolute", "continuous", "prismatic", "screw", "fixed", "ball")
"""Joints that may also be read from child to parent."""


@dataclass(frozen=True, slots=True)
class Hold:
    """How a link of the tree is held."""

    joint: SdfJoint
    parent: str
    """Link, or the world."""

    child: str
    """The link held."""

    is_turned: bool = False
    """Whether parent and child have changed places."""


@dataclass(frozen=True, slots=True)
class SdfTree:
    """The tree of a file."""

    roots: tuple[str, ...]
    """Links that nothing holds."""

    holds: tuple[Hold, ...]
    """In the order of the file's joints."""

    loops: tuple[SdfJoint, ...]
    """Joints between links that hang together already."""


def grow_tree(links: Iterable[str], joints: Sequence[SdfJoint], budget: Budget) -> SdfTree:
    """Choose the joints of the tree.

    A joint holds its child, unless something holds the child already; where parent and child do not
    hang together yet, it then holds the parent. What is left closes loops. Joints that the file
    wants to be cut come last.

    Args:
        links: Whole names.
        joints: In the order of the file.
        budget: Counts.
    """
    names = list(links)
    group = {name: name for name in (WORLD, *names)}

    def find(name: str) -> str:
        # the representative of all links that hang together, with paths halved on the way
        while group[name] != name:
            group[name] = group[group[name]]
            name = group[name]
        return name

    held: dict[str, Hold] = {}
    loops: list[SdfJoint] = []
    for joint in sorted(joints, key=lambda joint: joint.is_cut):
        first, second = find(joint.parent), find(joint.child)
        hold: Hold | None = None
        if first != second:
            if joint.child not in held:
                hold = Hold(joint, joint.parent, joint.child)
            elif joint.parent not in held and joint.parent != WORLD and joint.kind in TURNABLE:
                hold = Hold(joint, joint.child, joint.parent, is_turned=True)
        if hold is None:
            loops.append(joint)
            continue
        held[hold.child] = hold
        group[second] = first
    order = {joint.name: number for number, joint in enumerate(joints)}
    holds = sorted(held.values(), key=lambda hold: order[hold.joint.name])
    _check_depth(names, held, budget)
    return SdfTree(tuple(n for n in names if n not in held), tuple(holds), tuple(loops))


def _check_depth(names: Iterable[str], held: dict[str, Hold], budget: Budget) -> None:
    depth: dict[str, int] = {WORLD: 0}
    for name in names:
        path: list[str] = []
        while name not in depth:
            path.append(name)
            if name not in held:
                break
            name = held[name].parent
        for passed in reversed(path):
            depth[passed] = depth[held[passed].parent] + 1 if passed in held else 1
            budget.check_depth(depth[passed], passed)
