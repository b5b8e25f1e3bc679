"""MuJoCo's XML format (MJCF): robots as MuJoCo itself understands them.

MuJoCo's own `MjSpec` reads the file, so that defaults, classes, includes, ``fromto``, units and
inertia from geometry are exactly MuJoCo's; a robot is then built from the compiled numbers. What
the file may open is checked before MuJoCo sees it (`mjcf_guard`).

Bodies, joints and sites keep their names and frames; joints keep their order, so that `to_mujoco`
and `from_mujoco` convert the numbers of both. Parts without a name get one from their kind and
number. Left out, because they are no part of a robot: geometry of the world body, cameras, lights,
sensors, contact parameters. Left out with a warning, because they act on the robot: tendons,
flexible parts, gravity compensation.
"""

import importlib
import re
import warnings
from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

import numpy as np

from tiburon.errors import ModelError, ModelFileError
from tiburon.formats.lenient import FilePart, Findings, lenient_model
from tiburon.formats.limits import LARGEST, Budget
from tiburon.formats.mjcf_bodies import FREE, read_actuators, read_bodies
from tiburon.formats.mjcf_equalities import left_out_tendons, read_equalities
from tiburon.formats.mjcf_guard import check_files
from tiburon.formats.mjcf_names import Names, pose_of
from tiburon.formats.mjcf_shapes import mesh_paths
from tiburon.model import Body, Frame, Model, Water, World

MEASURES = (
    *("body_pos", "body_quat", "body_ipos", "body_iquat", "body_mass", "body_inertia"),
    *("jnt_pos", "jnt_axis", "jnt_stiffness", "dof_armature", "dof_damping", "dof_frictionloss"),
    *("qpos0", "qpos_spring", "key_qpos", "geom_pos", "geom_quat", "geom_size", "geom_fluid"),
    *("site_pos", "site_quat", "eq_data", "actuator_gear", "actuator_gainprm", "mesh_pos"),
    *("mesh_quat", "mesh_scale"),
)
"""Tables of a compiled model that a robot is built from."""

_DAMAGED_BY: list[str] = []
"""Files on which MuJoCo failed without an error of its own, in this process."""

_LINE = re.compile(r"\bline(?: number)?\s*=?\s*(\d+)", re.IGNORECASE)
_NAME = re.compile(r"Element (?:name )?'([^']*)'")


def read_mjcf(path: Path, package_paths: Iterable[str | Path] = ()) -> Model:
    """Read a robot from an MJCF file.

    Args:
        path: The file.
        package_paths: Folders beside the file's own in which included files and meshes may lie.

    Returns:
        The robot. Positions of its keyframes are among its `poses`, and "initial" where MuJoCo's
        own starting position is not the neutral one.

    Raises:
        ModelFileError: If the file cannot be read; the message names file, line where known,
            element and cure.

    Warns:
        ModelWarning: If something that acts on the robot could not be expressed.
    """
    budget = Budget(str(path))
    compiled, spec = compile_mjcf(path, package_paths, budget)
    findings = Findings(budget.file)
    names = Names(importlib.import_module("mujoco"), compiled)
    _check_numbers(compiled, budget.file)
    try:
        meshes = mesh_paths(spec, compiled, names, path)
        _check_depth(compiled, names, budget)
        parts = _parts(spec, names, budget.file)
        bodies = read_bodies(compiled, names, meshes, parts, findings)
        budget.check_time()
        bodies, loops = read_equalities(compiled, names, bodies, findings)
        frames = [
            Frame(
                names.site(i),
                names.body(compiled.site_bodyid[i]),
                pose_of(compiled.site_quat[i], compiled.site_pos[i]),
            )
            for i in range(compiled.nsite)
        ]
        actuators, thrusters = read_actuators(compiled, names, findings)
        model = lenient_model(
            budget.file,
            _model_name(spec.modelname, path),
            bodies,
            findings=findings,
            frames=frames,
            loops=loops,
            actuators=actuators,
            thrusters=thrusters,
            poses=read_positions(compiled, names, bodies),
        )
    except ModelFileError:
        raise
    except ModelError as error:
        raise ModelFileError(budget.file, str(error), name=error.name) from error
    budget.check_time()
    _note_losses(compiled, findings)
    findings.warn()
    return model


def read_mjcf_world(path: Path, package_paths: Iterable[str | Path] = ()) -> World:
    """Read the surroundings that an MJCF file states: gravity and what fills the space.

    Args:
        path: The file.
        package_paths: As in `read_mjcf`.
    """
    compiled, _ = compile_mjcf(path, package_paths, Budget(str(path)))
    return world_of(compiled)


def world_of(compiled: Any) -> World:
    """Return the surroundings that an `MjModel` states."""
    options = compiled.opt
    x, y, z = options.gravity.tolist()
    switched_off = importlib.import_module("mujoco").mjtDisableBit.mjDSBL_GRAVITY
    if int(options.disableflags) & int(switched_off):
        x = y = z = 0.0
    density, viscosity = float(options.density), float(options.viscosity)
    fluid = None
    if density > 0.0 or viscosity > 0.0:
        wx, wy, wz = options.wind.tolist()
        fluid = Water(density, (wx, wy, wz), viscosity)
    return World(gravity=(x, y, z), fluid=fluid)


def compile_mjcf(
    path: Path, package_paths: Iterable[str | Path], budget: Budget
) -> tuple[Any, Any]:
    """Return MuJoCo's compiled model, and the specification it came from.

    Args:
        path: The file.
        package_paths: As in `read_mjcf`.
        budget: Clock and counts.

    Returns:
        An `MjModel` without pictures and skins, and its `MjSpec`.
    """
    try:
        mujoco = importlib.import_module("mujoco")
    except ImportError as error:
        raise ModelFileError(
            budget.file,
            "MJCF is read by MuJoCo, which is not installed; run `pip install 'tiburon[mjcf]'`",
        ) from error
    check_files(path, package_paths, budget)
    if _DAMAGED_BY:
        raise ModelFileError(
            budget.file,
            f"MuJoCo failed on {_DAMAGED_BY[0]} in a way that may make it wait forever on others; "
            "start Python again to read more MJCF files",
        )
    with silenced(mujoco):
        try:
            spec = mujoco.MjSpec.from_file(str(path))
            budget.check_links(len(spec.bodies) - 1)
            budget.check_time()
            _drop_scenery(spec)
            compiled = spec.compile()
        except ModelFileError:
            raise
        except Exception as error:
            if not isinstance(error, ValueError):
                # not one of its own errors: it was left in the middle, with its locks held
                _DAMAGED_BY.append(budget.file)
            _fail(budget.file, error)
    budget.check_time()
    return compiled, spec


@contextmanager
def silenced(mujoco: Any) -> Iterator[None]:
    """Keep MuJoCo from warning, which it does in a file in the current folder, too.

    It warns of its own settings, and of mass matrices that are noted here anyway.
    """
    before = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda message: None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        mujoco.set_mju_user_warning(before)


def _drop_scenery(spec: Any) -> None:
    """Remove what costs time or memory to compile and is not used: pictures, sensors, buffers."""
    for material in spec.materials:
        material.textures = [""] * len(material.textures)
    for kind in ("textures", "skins", "tuples", "sensors", "numerics", "texts"):
        for part in list(getattr(spec, kind)):
            spec.delete(part)
    # the range of lengths of each muscle would be found by simulating
    spec.compiler.LRopt.mode = 0
    spec.nuserdata = spec.nkey = 0
    # room for contacts, which nobody simulates here; -1 is MuJoCo's own choice
    for size in ("memory", "nconmax", "njmax", "nstack"):
        try:
            setattr(spec, size, -1)
        except TypeError:
            # sizes without a sign, up to MuJoCo 3.7
            setattr(spec, size, 2**64 - 1)


def _fail(file: str, error: Exception) -> NoReturn:
    """Raise a `ModelFileError` from what MuJoCo says."""
    text = " ".join(str(error).split())
    line, name = _LINE.search(text), _NAME.search(text)
    raise ModelFileError(
        file,
        f"MuJoCo cannot read it: {text}; correct the file so that MuJoCo loads it",
        line=int(line[1]) or None if line else None,
        element=f"element {name[1]!r}" if name else None,
    ) from error


def _model_name(given: str, path: Path) -> str:
    """Return the name of a model; MuJoCo has one for those without, too."""
    name = given.strip()
    return path.stem if name in ("", "MuJoCo Model") else name


def _check_numbers(compiled: Any, file: str) -> None:
    """Refuse numbers whose products would overflow; MuJoCo takes any."""
    for table in MEASURES:
        numbers = np.asarray(getattr(compiled, table))
        if not (np.abs(numbers) < LARGEST).all():
            raise ModelFileError(
                file,
                f"numbers must be finite and below {LARGEST:g}, got larger ones in MuJoCo's "
                f"{table}; correct the units",
            )
    options = [compiled.opt.density, compiled.opt.viscosity, *compiled.opt.gravity]
    if not max(map(abs, options)) < LARGEST:
        raise ModelFileError(file, f"options must be below {LARGEST:g}, got more; correct them")


def _check_depth(compiled: Any, names: Names, budget: Budget) -> None:
    """Refuse bodies that stand too deep on one another."""
    depth = [0] * compiled.nbody
    for i, parent in enumerate(compiled.body_parentid.tolist()[1:], start=1):
        depth[i] = depth[parent] + max(1, int(compiled.body_jntnum[i]))
        budget.check_depth(depth[i], names.body(i))


def _parts(spec: Any, names: Names, file: str) -> dict[int, FilePart]:
    """Return where each body stands in the file."""
    parts: dict[int, FilePart] = {}
    for body in spec.bodies:
        line = _LINE.search(body.info)
        words = f"body {names.body(body.id)!r}"
        parts[body.id] = FilePart(file, int(line[1]) if line else None, words)
    return parts


def _note_losses(compiled: Any, findings: Findings) -> None:
    """Name the parts that act on a robot and have no counterpart."""
    for count, words in [
        (left_out_tendons(compiled), "tendons"),
        (compiled.nflex, "flexible parts"),
        (int((compiled.body_gravcomp != 0.0).sum()), "compensations of gravity"),
        (compiled.nmocap, "bodies that a user moves (mocap), which are fixed here"),
    ]:
        if count:
            findings.add(f"left out: {count} {words}; a model has no such part")


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
