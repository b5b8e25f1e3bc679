"""Names and poses of the elements of a compiled MuJoCo model, including unnamed ones."""

from typing import Any

from tiburon.model import WORLD, Pose


class Names:
    """Gives each part of a MuJoCo model one name, unique as a model wants it.

    MuJoCo keeps a list of names for each kind of part and lets parts go without; here bodies and
    sites share one list, and every part has a name.
    """

    def __init__(self, mujoco: Any, compiled: Any) -> None:
        """Choose all names.

        Args:
            mujoco: The package.
            compiled: An `MjModel`.
        """
        self._mujoco = mujoco
        self._compiled = compiled
        kinds = mujoco.mjtObj
        places: set[str] = {WORLD}
        self._bodies = [WORLD]
        for i in range(1, compiled.nbody):
            self._bodies.append(_unique(self._given(kinds.mjOBJ_BODY, i) or f"body_{i}", places))
        self._places = places
        self._sites = [
            _unique(self._given(kinds.mjOBJ_SITE, i) or f"site_{i}", places, "_site")
            for i in range(compiled.nsite)
        ]
        self._joint_names: set[str] = {
            name for i in range(compiled.njnt) if (name := self._given(kinds.mjOBJ_JOINT, i))
        }
        self._joints = [
            self._given(kinds.mjOBJ_JOINT, i) or self.new_joint(f"joint_{i}")
            for i in range(compiled.njnt)
        ]

    def _given(self, kind: Any, index: int) -> str:
        """Return the name in the file, or nothing."""
        name = self._mujoco.mj_id2name(self._compiled, kind, index)
        return name if name and name.strip() else ""

    def body(self, index: int) -> str:
        """Return the name of a body."""
        return self._bodies[index]

    def site(self, index: int) -> str:
        """Return the name of the frame of a site."""
        return self._sites[index]

    def joint(self, index: int) -> str:
        """Return the name of a joint."""
        return self._joints[index]

    def geom(self, index: int) -> str:
        """Return the name of a geometry, which may be empty."""
        return self._given(self._mujoco.mjtObj.mjOBJ_GEOM, index)

    def mesh(self, index: int) -> str:
        """Return the name of a mesh."""
        return self._given(self._mujoco.mjtObj.mjOBJ_MESH, index)

    def key(self, index: int) -> str:
        """Return the name of a keyframe."""
        return self._given(self._mujoco.mjtObj.mjOBJ_KEY, index) or f"key_{index}"

    def equality(self, index: int) -> str:
        """Return the name of an equality."""
        return self._given(self._mujoco.mjtObj.mjOBJ_EQUALITY, index) or f"equality_{index}"

    def actuator(self, index: int) -> str:
        """Return the name of an actuator."""
        return self._given(self._mujoco.mjtObj.mjOBJ_ACTUATOR, index) or f"actuator_{index}"

    def new_place(self, wanted: str) -> str:
        """Return a name for a body that the file does not have."""
        return _unique(wanted, self._places)

    def new_joint(self, wanted: str) -> str:
        """Return a name for a joint that the file does not have, or does not name."""
        return _unique(wanted, self._joint_names)


def _unique(wanted: str, taken: set[str], suffix: str = "_") -> str:
    """Return a name that is not taken, and take it."""
    name, number = wanted, 1
    while name in taken:
        number += 1
        name = f"{wanted}{suffix}" if number == 2 and suffix != "_" else f"{wanted}_{number}"
    taken.add(name)
    return name


NO_TURN = [1.0, 0.0, 0.0, 0.0]


def pose_of(quaternion: Any, position: Any = (0.0, 0.0, 0.0)) -> Pose:
    """Return a pose from a quaternion (w, x, y, z) and a position [m].

    Most parts are not turned; they take the short way.

    Args:
        quaternion: Of length 1, shape (4,).
        position: Shape (3,).
    """
    x, y, z = map(float, position)
    if quaternion.tolist() == NO_TURN:
        return Pose(translation=(x, y, z)) if x or y or z else Pose()
    return Pose.from_quaternion(quaternion, (x, y, z))
