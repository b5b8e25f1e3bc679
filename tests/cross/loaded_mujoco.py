"""MJCF files of other packages, compared with MuJoCo.

MuJoCo's forces of springs, dampers, fluids, contacts and constraints are switched off: the model
holds them as data, and its dynamics functions do not apply them. Numbers are carried over by joint
name. Where the model has fewer variables (joints tied to others), MuJoCo's numbers are reduced by
the constant matrix G of the ties: M = G^T M' G, tau = G^T tau'.
"""

import importlib.metadata
import sys
from pathlib import Path

import mujoco
import numpy as np

from tests.cross.loaded import STATES, Compared, quietly, relative_error
from tests.running import OnFloats
from tiburon.algorithms.kinematics import frame_places
from tiburon.errors import ModelFileError
from tiburon.formats.lenient import Findings
from tiburon.formats.limits import Budget
from tiburon.formats.mjcf_compile import CompiledModel, compile_mjcf, silenced
from tiburon.formats.mjcf_read import Names, read_mjcf, world_of

PACKAGES = {
    "dm_control": "dm_control",
    "gymnasium": "gymnasium",
    "gymnasium_robotics": "gymnasium-robotics",
    "metaworld": "metaworld",
    "mujoco/mjx": "mujoco-mjx",
    "robosuite": "robosuite",
    "brax": "brax",
    "dm_robotics": "dm-robotics-moma",
    "robopal": "robopal",
    "robel": "robel",
    "myosuite": "myosuite",
}
"""Packages whose wheels carry MJCF: their folders, and their names to install."""

HEADING = f"MJCF, against MuJoCo {mujoco.__version__}"


def _versions():
    """Return the packages found, with their versions."""
    found = []
    for folder, name in PACKAGES.items():
        if package_folder(folder) is not None:
            found.append(f"{name} {importlib.metadata.version(name)}")
    return ", ".join(found) or "none"


def package_folder(name):
    """Return the folder of a package on the search path, without importing it."""
    for entry in sys.path:
        folder = Path(entry or ".") / name
        if entry and folder.is_dir() and folder.resolve() != Path("tests").resolve():
            return folder
    return None


ABOUT = (
    "All MJCF models with joints in the wheels of these packages that at least one of the two "
    f"codes loads (others are files to include): {_versions()}. The packages "
    "are not imported, so unpacked wheels on the search path suffice. Armature is part of both "
    "results. Springs, dampers, friction, fluids, contacts and equality constraints are off in "
    "MuJoCo: a model keeps them as data. Joints coupled by a linear equality have no variable "
    "here; MuJoCo's results are reduced to the others."
)


def compare_all():
    """Return one row per model that MuJoCo or we can load and that has joints."""
    rows = []
    for name in PACKAGES:
        folder = package_folder(name)
        for path in sorted(folder.glob("**/*.xml")) if folder is not None else []:
            row = compare_file(path, folder)
            if row is not None:
                rows.append(row)
    return rows


def compare_file(path, folder):
    """Compare one file; None if it is no model, neither loads it, or nothing in it moves.

    Args:
        path: The file.
        folder: The package it is in, from which it may take meshes.
    """
    robot = str(path.relative_to(folder.parent))
    start = path.read_text(errors="replace")
    if "<mujoco" not in start or "<mujocoinclude" in start:
        return None
    try:
        with silenced(mujoco):
            theirs = mujoco.MjSpec.from_file(str(path)).compile()
    except ValueError as error:
        theirs, why = None, " ".join(str(error).split())[:120]
    if theirs is not None and theirs.nv == 0:
        return None
    try:
        peer, warned = quietly(LoadedPeer, path, [folder])
    except ModelFileError as error:
        if theirs is None:
            return None
        return Compared(robot, True, False, note=error.problem)
    if theirs is None:
        if peer.model.nv == 0:
            return None
        return Compared(robot, False, True, peer.model.nv, note=f"MuJoCo: {why}".replace("|", "/"))
    return Compared(robot, True, True, peer.model.nv, peer.error(), peer.note(warned))


class LoadedPeer:
    """One MJCF file in both codes; takes and gives our numbers."""

    def __init__(self, path, package_paths=()):
        self.model = read_mjcf(Path(path), package_paths)
        self.tree = self.model.without_loops()
        # compiled as the reader does, without pictures
        self.compiled, spec = compile_mjcf(Path(path), Budget(str(path)))
        read = CompiledModel.of(self.compiled, spec)
        self.ours = OnFloats(self.tree, world_of(read, Findings("")).gravity)
        self.names = Names(read)
        self._silence()
        self.data = mujoco.MjData(self.compiled)

    def note(self, warned):
        """Return what is particular about the model."""
        parts = []
        if getattr(self.compiled, "tendon_armature", np.zeros(0)).any():
            parts.append("armature of tendons, which a model does not have")
        if any(joint.kind == "free" and joint.armature for joint in self.model.joints):
            parts.append("armature of free bodies, which resists rates in world axes in MuJoCo")
        if self.model.nv < self.compiled.nv:
            parts.append(f"{self.compiled.nv - self.model.nv} joints tied to others")
        if self.model.loops:
            parts.append(f"{len(self.model.loops)} loops, cut open for the comparison")
        if self.model.immovable_joint_names:
            parts.append("singular mass matrix")
        return "; ".join(parts)

    def _silence(self):
        """Switch off everything but inertia and gravity."""
        bits = mujoco.mjtDisableBit
        off = ("CONSTRAINT", "EQUALITY", "FRICTIONLOSS", "LIMIT", "CONTACT", "ACTUATION")
        off += ("PASSIVE", "SPRING", "DAMPER")
        for name in off:
            bit = getattr(bits, f"mjDSBL_{name}", None)
            if bit is not None:
                self.compiled.opt.disableflags |= int(bit)
        self.compiled.body_gravcomp[:] = 0.0
        self.compiled.opt.density = self.compiled.opt.viscosity = 0.0

    def _joints(self):
        """Iterate over MuJoCo's joints: ours, where their q and v stand, whether free."""
        for j in range(self.compiled.njnt):
            joint = self.model.joint(self.names.joint(j))
            kind = int(self.compiled.jnt_type[j])
            q = int(self.compiled.jnt_qposadr[j])
            v = int(self.compiled.jnt_dofadr[j])
            nq, nv = [(7, 6), (4, 3), (1, 1), (1, 1)][kind]
            yield joint, slice(q, q + nq), slice(v, v + nv), kind == 0

    def qpos(self, q):
        """Return MuJoCo's position."""
        qpos = np.array(self.compiled.qpos0)
        for joint, at, _, free in self._joints():
            if joint.kind == "fixed":
                qpos[at] = self._locked_position(joint.name)
            elif joint.kind == "coupled":
                qpos[at] = joint.ratio * q[self.model.slice(joint.name)] + joint.offset
            else:
                own = q[self.model.slice(joint.name)]
                qpos[at] = np.concatenate([own[4:], own[:4]]) if free else own
        return qpos

    def _locked_position(self, name):
        """Return where a joint tied to a constant is held."""
        for i in range(self.compiled.neq):
            first = int(self.compiled.eq_obj1id[i])
            if int(self.compiled.eq_type[i]) == 2 and self.names.joint(first) == name:
                start = self.compiled.qpos0[self.compiled.jnt_qposadr[first]]
                return start + self.compiled.eq_data[i][0]
        raise AssertionError(f"joint {name!r} is fixed without an equality")

    def reduction(self, q):
        """Return G in v_mujoco = G v, shape (MuJoCo's nv, ours)."""
        G = np.zeros((self.compiled.nv, self.model.nv))
        for joint, _, at, free in self._joints():
            ours = self.model.slice(joint.name, of="v")
            if joint.kind == "coupled":
                G[at, ours] = joint.ratio
            elif free:
                R = self._rotation(q, joint)
                G[at.start : at.start + 3, ours.start + 3 : ours.stop] = R
                G[at.start + 3 : at.stop, ours.start : ours.start + 3] = np.eye(3)
            elif joint.kind != "fixed":
                G[at, ours] = np.eye(joint.nv)
        return G

    def _rotation(self, q, joint):
        R = np.empty(9)
        mujoco.mju_quat2Mat(R, q[self.model.slice(joint.name)][:4])
        return R.reshape(3, 3)

    def acceleration(self, q, v, a, G):
        """Return MuJoCo's qacc: G a, and what turns with free bodies."""
        qacc = G @ a
        for joint, _, at, free in self._joints():
            if free:
                own = v[self.model.slice(joint.name, of="v")]
                R = self._rotation(q, joint)
                qacc[at.start : at.start + 3] += R @ np.cross(own[:3], own[3:])
        return qacc

    def error(self, seed=7):
        """Return how far both are apart over a few random states."""
        rng = np.random.default_rng(seed)
        worst = 0.0
        for _ in range(STATES):
            q, v = self.model.random_state(rng)
            worst = max(worst, *self.errors(q, v, rng.standard_normal(self.model.nv)))
        return worst

    def errors(self, q, v, a):
        """Return the relative errors of mass matrix, inverse dynamics and poses."""
        G = self.reduction(q)
        self.data.qpos[:] = self.qpos(q)
        self.data.qvel[:] = G @ v
        self.data.qacc[:] = self.acceleration(q, v, a, G)
        with silenced(mujoco):
            mujoco.mj_inverse(self.compiled, self.data)
        matrix = G.T @ self._mass_matrix() @ G
        force = G.T @ self.data.qfrc_inverse
        return (
            relative_error(self.ours.mass_matrix(q), matrix, floor=0.0),
            relative_error(self.ours.inverse_dynamics(q, v, a), force, floor=1e-12),
            self._pose_error(q),
        )

    def _mass_matrix(self):
        columns = []
        for unit in np.eye(self.compiled.nv):
            column = np.zeros(self.compiled.nv)
            mujoco.mj_mulM(self.compiled, self.data, column, unit)
            columns.append(column)
        return np.array(columns)

    def _pose_error(self, q):
        """Compare the frames of all bodies and sites."""
        names = [self.names.body(i) for i in range(1, self.compiled.nbody)]
        names += [self.names.site(i) for i in range(self.compiled.nsite)]
        places = frame_places(self.tree.plan, q.tolist(), names)
        R, p = (np.array(x, dtype=float) for x in zip(*places, strict=True))
        their_R = np.concatenate([self.data.xmat[1:], self.data.site_xmat]).reshape(-1, 3, 3)
        their_p = np.concatenate([self.data.xpos[1:], self.data.site_xpos])
        return max(relative_error(R, their_R), relative_error(p, their_p))
