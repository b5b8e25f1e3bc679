"""Named positions of a compiled MuJoCo model: where it starts, and its keyframes."""

from collections.abc import Sequence
from typing import Any

from tiburon.formats.mjcf_bodies import FREE
from tiburon.formats.mjcf_names import Names
from tiburon.model import Body

INITIAL = "initial"
"""Name of the position in which MuJoCo starts, `qpos0`."""

Positions = dict[str, tuple[float, ...]]
"""Position variables by joint name."""


def read_positions(compiled: Any, names: Names, bodies: Sequence[Body]) -> dict[str, Positions]:
    """Return the positions that the file names, by joint.

    Joints that follow others have no number of their own: their leaders' is kept.

    Args:
        compiled: An `MjModel`.
        names: Of its parts.
        bodies: Those of the robot built from it.
    """
    joints = {body.joint.name: body.joint for body in bodies if body.joint.nq > 0}
    found: dict[str, Positions] = {}
    start = _positions(compiled, names, set(joints), compiled.qpos0)
    if any(numbers != joints[name].neutral() for name, numbers in start.items()):
        found[INITIAL] = start
    for i in range(compiled.nkey):
        key = _positions(compiled, names, set(joints), compiled.key_qpos[i])
        found.setdefault(names.key(i), key)
    return found


def _positions(compiled: Any, names: Names, joints: set[str], qpos: Any) -> Positions:
    """Return MuJoCo's qpos by joint, in our order."""
    found: Positions = {}
    for j in range(compiled.njnt):
        name, kind = names.joint(j), int(compiled.jnt_type[j])
        if name in joints:
            start = int(compiled.jnt_qposadr[j])
            numbers = qpos[start : start + (7, 4, 1, 1)[kind]].tolist()
            # ours puts the quaternion of a free joint before the position
            found[name] = tuple(numbers[3:] + numbers[:3] if kind == FREE else numbers)
    return found
