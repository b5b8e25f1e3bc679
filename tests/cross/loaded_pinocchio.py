"""The robots of the package example-robot-data, compared with Pinocchio.

Pinocchio's own defaults are kept: no rotor inertia, no armature, no friction in the dynamics, and
joints that mimic others move by themselves. Its numbers are reduced to ours by the constant matrix
G of the ties: q' = G q + g, H = G^T H' G, tau = G^T tau'.
"""

import re
from pathlib import Path

import numpy as np
import pinocchio as pin

import tiburon as tb
from tests.cross.loaded import STATES, Compared, quietly, relative_error
from tests.running import OnFloats
from tiburon.algorithms.kinematics import frame_places
from tiburon.formats.urdf_read import read_urdf

HEADING = f"URDF, against Pinocchio {pin.__version__}"

ABOUT = (
    "All URDF files of `example-robot-data`. Root links are fixed, the default of both codes. "
    "Rotor inertias (kept in SRDF files), friction and damping are part of neither result. "
    "Pinocchio moves mimic joints independently by default; its results are reduced to the coupled "
    "variables."
)


def robot_folder():
    """Return the folder of example-robot-data, or None if it is not installed."""
    for root in Path(pin.__file__).resolve().parents:
        for share in (root / "share", root / "cmeel.prefix" / "share"):
            folder = share / "example-robot-data" / "robots"
            if folder.is_dir():
                return folder
    return None


def robot_files():
    """Return all URDF files, sorted."""
    folder = robot_folder()
    return [] if folder is None else sorted(folder.glob("**/*.urdf"))


class LoadedPeer:
    """A robot as Pinocchio reads it; takes and gives our numbers."""

    def __init__(self, path, model):
        """Load the file and find the ties.

        Args:
            path: The URDF file.
            model: The robot as we read it.
        """
        self.model = model
        self.pin_model = pin.buildModelFromUrdf(str(path))
        self.pin_data = self.pin_model.createData()
        names = list(self.pin_model.names)[1:]
        ours = {joint.name: joint for joint in model.joints if joint.dof}
        assert sorted(names) == sorted(ours)
        self.joints = [(ours[name], self.pin_model.joints[i + 1]) for i, name in enumerate(names)]
        self.G = np.zeros((self.pin_model.nv, model.nv))
        for joint, theirs in self.joints:
            rows = slice(theirs.idx_v, theirs.idx_v + theirs.nv)
            columns = model.slice(joint.name, of="v")
            self.G[rows, columns] = self._tie(joint)

    def _tie(self, joint):
        if joint.follows is not None:
            return [[joint.ratio]]
        if joint.kind == "free":
            # angular and linear part change places
            return np.roll(np.eye(6), 3, axis=0)
        return np.eye(joint.nv)

    def q(self, q):
        """Return Pinocchio's position for ours."""
        found = np.empty(self.pin_model.nq)
        for joint, theirs in self.joints:
            own = q[self.model.slice(joint.name)]
            if joint.follows is not None:
                own = joint.ratio * own + joint.offset
            if joint.kind == "free":
                own = own[[4, 5, 6, 1, 2, 3, 0]]
            elif theirs.nq == 2:
                own = np.array([np.cos(own[0]), np.sin(own[0])])
            found[theirs.idx_q : theirs.idx_q + theirs.nq] = own
        return found

    def compute(self, q, v, vd):
        """Return joint forces, mass matrix, and rotations and origins of all our bodies."""
        model, data = self.pin_model, self.pin_data
        pq = self.q(q)
        tau = self.G.T @ pin.rnea(model, data, pq, self.G @ v, self.G @ vd)
        upper = np.triu(pin.crba(model, data, pq))
        H = self.G.T @ (upper + np.triu(upper, 1).T) @ self.G
        pin.framesForwardKinematics(model, data, pq)
        frames = [
            data.oMf[model.getFrameId(name, pin.FrameType.BODY)] for name in self.model.body_names
        ]
        rotations = np.array([frame.rotation for frame in frames])
        origins = np.array([frame.translation for frame in frames])
        return tau, H, rotations, origins


def compare(path):
    """Load one file with both codes and compare their numbers."""
    folder = robot_folder()
    name = f"{path.relative_to(folder).parts[0]}/{path.name}"
    try:
        pin.buildModelFromUrdf(str(path))
        peer_loads = True
    except (RuntimeError, ValueError):
        peer_loads = False
    try:
        model, notes = quietly(read_urdf, path)
    except tb.ModelError as error:
        return Compared(name, peer_loads, loads=False, note=str(error).split(": ", 1)[-1])
    if not peer_loads:
        return Compared(name, False, loads=True, freedoms=model.nv, note="Pinocchio refuses it")
    note = _summary(notes, model)
    return Compared(name, True, True, model.nv, disagreement(path, model), note)


def disagreement(path, model, seed=7):
    """Return the largest relative error over random states."""
    peer = LoadedPeer(path, model)
    rng = np.random.default_rng(seed)
    q, v = model.random_state(rng, (STATES,), limits=False)
    vd = rng.standard_normal((STATES, model.nv))
    worst = 0.0
    for state in zip(q, v, vd, strict=True):
        pairs = zip(compute_ours(model, *state), peer.compute(*state), strict=True)
        worst = max(worst, *(relative_error(ours, theirs) for ours, theirs in pairs))
    return worst


def compute_ours(model, q, v, vd):
    """Return the same as `LoadedPeer.compute`, on plain numbers: no code to compile per robot."""
    run = OnFloats(model)
    places = frame_places(model.plan, q.tolist(), model.body_names)
    R, p = (np.array(x, dtype=float) for x in zip(*places, strict=True))
    # a robot without a joint has an empty matrix of no particular shape
    H = run.mass_matrix(q).reshape(model.nv, model.nv)
    return run.inverse_dynamics(q, v, vd), H, R, p


def _summary(notes, model):
    """Return what our reader noticed, in few words."""
    text = "\n".join(notes)
    counts = {
        "physically impossible inertia": len(
            re.findall("triangle|must not be negative|without mass can have", text)
        ),
        "joints that nothing resists": len(model.immovable_joint_names),
        "mimics an unknown joint": len(re.findall("mimics", text)),
    }
    return ", ".join(words for words, count in counts.items() if count)


def compare_all():
    """Compare all files."""
    return [compare(path) for path in robot_files()]
