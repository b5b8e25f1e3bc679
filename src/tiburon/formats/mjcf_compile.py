"""MJCF files compiled by MuJoCo, in this process or in one that can be ended.

MuJoCo compiles a file in one call, which neither a time limit nor Ctrl-C interrupts, and some small
files keep it busy for hours: hulls of meshes, flexible parts, thousands of elements. Files that may
take longer than a moment are therefore compiled in a process of their own, whose processor time and
memory the system limits. It starts an interpreter and imports MuJoCo: about 0.3 s of processor time
more than a small file takes. It returns arrays of numbers, which are read within bounds.
"""

import contextlib
import importlib
import importlib.util
import json
import math
import os
import re
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any, BinaryIO, NoReturn

import numpy as np

from tiburon.errors import ModelFileError
from tiburon.formats.limits import Budget
from tiburon.formats.mjcf_guard import check_files
from tiburon.operating_system import (
    limit_process,
    own_group,
    processor_time_is_limited,
    was_out_of_time,
)
from tiburon.regular_file import read_arrays

MAX_ARRAY_BYTES = 2**30
"""Largest size of all arrays of a compiled model [bytes]."""

MAX_MEMORY = 16 * 2**30
"""Most memory that a process may reserve while it compiles [bytes]; MuJoCo reserves more than it
uses."""

WALL_FACTOR, WALL_FACTOR_UNLIMITED = 20.0, 3.0
"""Wall-clock time after which a process is ended, as a multiple of its processor time: where the
system limits processor time, and where it does not."""

POLL_SECONDS = 0.5
"""Longest wait between two checks of a process [s]."""

ARRAY_PREFIXES = (
    *("body_", "jnt_", "dof_", "geom_", "site_", "eq_", "actuator_", "tendon_", "wrap_", "pair_"),
    *(
        "exclude_",
        "key_qpos",
        "key_ctrl",
        "hfield_",
        "qpos",
        "mat_rgba",
        "mesh_pos",
        "mesh_quat",
        "mesh_scale",
    ),
)
"""Beginnings of the names of arrays of `MjModel` that the reader may use."""

COUNTS = {
    "body": "nbody",
    "joint": "njnt",
    "geom": "ngeom",
    "site": "nsite",
    "mesh": "nmesh",
    "equality": "neq",
    "actuator": "nu",
    "tendon": "ntendon",
    "key": "nkey",
}
"""Number of elements in `MjModel`, by kind, of those whose names are read."""

OTHER_COUNTS = ("npair", "nflex", "nmocap")
"""Numbers of other elements."""

SWITCHED_OFF = {
    "CONTACT": ("geom_contype", "geom_conaffinity", "npair"),
    "EQUALITY": ("eq_active0",),
    "LIMIT": ("jnt_limited", "tendon_limited"),
    "FRICTIONLOSS": ("dof_frictionloss", "tendon_frictionloss"),
    "SPRING": ("jnt_stiffness", "tendon_stiffness"),
    "DAMPER": ("dof_damping", "tendon_damping"),
}
"""Flags of `<flag>` (mjtDisableBit), and what is zero in files that disable them."""

FLAG_GROUPS = {
    "CONSTRAINT": ("CONTACT", "EQUALITY", "LIMIT", "FRICTIONLOSS"),
    "PASSIVE": ("SPRING", "DAMPER"),
}
"""Flags that disable others."""

OPTIONS = ("density", "viscosity", "gravity", "wind")
"""Fields of `MjOption`; the gravity is zero where the file switches it off."""

TEXTS, PROBLEM = "texts", "problem"
"""Names of the arrays that hold JSON: texts of the model, or the error that was raised."""


class CompiledModel:
    """A model as MuJoCo compiled it: arrays by MuJoCo's names, and texts of its specification.

    Attributes:
        texts: "names" by kind, "model" (its name), "lines" of bodies and "meshes" (name and path
            of each file).
    """

    def __init__(self, arrays: Mapping[str, Any]) -> None:
        """Use `of`, or arrays of `arrays_of`."""
        self._arrays = arrays
        self.texts: dict[str, Any] = json.loads(bytes(arrays[TEXTS]))

    @classmethod
    def of(cls, compiled: Any, spec: Any) -> "CompiledModel":
        """Return what the reader needs of an `MjModel` and its `MjSpec`."""
        return cls(arrays_of(compiled, spec))

    def __getattr__(self, name: str) -> Any:
        try:
            found = self._arrays[name]
        except KeyError:
            raise AttributeError(name) from None
        return found if found.shape else found.item()

    def name(self, kind: str, index: int) -> str:
        """Return the name of an element in the file; "" if it has none."""
        name: str = self.texts["names"][kind][index]
        return name


def arrays_of(compiled: Any, spec: Any) -> dict[str, Any]:
    """Return the arrays of an `MjModel` that the reader may use, and the texts of its `MjSpec`."""
    mujoco = importlib.import_module("mujoco")
    arrays: dict[str, Any] = {}
    for name in dir(compiled):
        if name.startswith(ARRAY_PREFIXES):
            value = getattr(compiled, name)
            if isinstance(value, np.ndarray):
                arrays[name] = value
    for name in (*COUNTS.values(), *OTHER_COUNTS):
        arrays[name] = np.array(getattr(compiled, name))
    for name in OPTIONS:
        arrays[f"opt_{name}"] = np.array(getattr(compiled.opt, name))
    disabled = _disabled(int(compiled.opt.disableflags), mujoco.mjtDisableBit)
    if "GRAVITY" in disabled:
        arrays["opt_gravity"] = np.zeros(3)
    for flag in disabled & set(SWITCHED_OFF):
        for name in SWITCHED_OFF[flag]:
            arrays[name] = np.zeros_like(arrays[name])
    names = {
        kind: [
            mujoco.mj_id2name(compiled, getattr(mujoco.mjtObj, f"mjOBJ_{kind.upper()}"), i) or ""
            for i in range(getattr(compiled, count))
        ]
        for kind, count in COUNTS.items()
    }
    texts = {
        "names": names,
        "model": spec.modelname,
        "lines": {body.id: _line(body.info) for body in spec.bodies},
        "meshes": [(mesh.name, _mesh_file(mesh, spec)) for mesh in spec.meshes if mesh.file],
    }
    return {**arrays, TEXTS: _as_array(texts)}


def _disabled(bits: int, flags: Any) -> set[str]:
    """Return the names of the flags that a file disables; `flags` is MuJoCo's mjtDisableBit."""
    known = ("GRAVITY", *SWITCHED_OFF, *FLAG_GROUPS)
    # older versions of MuJoCo do not have all of them
    found = {name for name in known if bits & int(getattr(flags, f"mjDSBL_{name}", 0))}
    return found.union(*(FLAG_GROUPS[name] for name in found & set(FLAG_GROUPS)))


def _mesh_file(mesh: Any, spec: Any) -> str:
    """Return the path of a mesh file relative to the folder of the model."""
    folder = getattr(getattr(mesh, "compiler", spec), "meshdir", "") or ""
    return os.path.join(folder, Path(mesh.file).name if spec.strippath else mesh.file)


def _line(info: str) -> int | None:
    found = _LINE.search(info)
    return int(found[1]) or None if found else None


def _as_array(value: Any) -> Any:
    """Return data as an array of the bytes of a JSON text."""
    return np.frombuffer(json.dumps(value).encode(), np.uint8)


# -- the compiler ----------------------------------------------------------------------------------

_CRASHED_ON: list[str] = []
"""Files on which MuJoCo failed with an unexpected exception in this process."""

_LINE = re.compile(r"\bline(?: number)?\s*=?\s*(\d+)", re.IGNORECASE)
_NAME = re.compile(r"Element (?:name )?'([^']*)'")


def read_compiled(
    path: Path,
    package_paths: Iterable[str | Path],
    budget: Budget,
    root: str | Path | None = None,
) -> CompiledModel:
    """Check an MJCF file and return what MuJoCo compiles it to.

    Args:
        path: The file.
        package_paths: As in `read_mjcf`.
        budget: Time and size limits.
        root: As in `read_mjcf`.

    Raises:
        ModelFileError: If it exceeds the limits, or MuJoCo cannot read it.
    """
    if importlib.util.find_spec("mujoco") is None:
        raise ModelFileError(
            budget.file,
            "MJCF is read by MuJoCo, which is not installed; run `pip install 'tiburon[mjcf]'`",
        )
    is_small = check_files(path, package_paths, budget, root)
    if is_small or not sys.executable or getattr(sys, "frozen", False):
        return CompiledModel.of(*compile_mjcf(path, budget))
    return _compile_apart(path, budget)


def compile_mjcf(path: Path, budget: Budget) -> tuple[Any, Any]:
    """Return MuJoCo's compiled model and its specification; the file has been checked.

    Args:
        path: The file.
        budget: Time and size limits.

    Returns:
        An `MjModel` without textures and skins, and its `MjSpec`.
    """
    mujoco = importlib.import_module("mujoco")
    if _CRASHED_ON:
        raise ModelFileError(
            budget.file,
            f"MuJoCo failed on {_CRASHED_ON[0]} in a way that may make it hang on other files; "
            "restart Python to read more MJCF files",
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
                # an unexpected exception leaves its locks held
                _CRASHED_ON.append(budget.file)
            _fail(budget.file, error)
    budget.check_time()
    return compiled, spec


@contextmanager
def silenced(mujoco: Any) -> Iterator[None]:
    """Suppress MuJoCo's warnings, which also go to a file in the working directory.

    They are about simulation settings, and mass matrices that are reported here anyway.
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
    """Remove unused elements that cost time or memory: textures, sensors, buffers."""
    for material in spec.materials:
        material.textures = [""] * len(material.textures)
    for kind in ("textures", "skins", "tuples", "sensors", "numerics", "texts"):
        for part in list(getattr(spec, kind)):
            spec.delete(part)
    # length ranges of muscles would be found by simulation
    spec.compiler.LRopt.mode = 0
    spec.nuserdata = spec.nkey = 0
    # contact buffers are not needed; -1 is MuJoCo's default
    for size in ("memory", "nconmax", "njmax", "nstack"):
        try:
            setattr(spec, size, -1)
        except TypeError:
            # unsigned sizes, up to MuJoCo 3.7
            setattr(spec, size, 2**64 - 1)


def _fail(file: str, error: Exception) -> NoReturn:
    """Raise a `ModelFileError` from an error of MuJoCo."""
    text = " ".join(str(error).split())
    name = _NAME.search(text)
    raise ModelFileError(
        file,
        f"MuJoCo cannot read it: {text}; correct the file so that MuJoCo loads it",
        line=_line(text),
        element=f"element {name[1]!r}" if name else None,
    ) from error


# -- a process of its own --------------------------------------------------------------------------

_START = (
    "import json, sys; given = json.load(sys.stdin); sys.path[:] = given['path']; "
    "from tiburon.formats.mjcf_compile import serve; serve(**given['arguments'])"
)
"""What the process runs; isolated, so that no module is imported from the working directory."""


def serve(file: str, name: str, seconds: float) -> None:
    """Compile a file and write its arrays to the standard output; run in a process of its own.

    Args:
        file: Path of the file.
        name: Its name in messages.
        seconds: Processor time that is left [s].
    """
    limit_process(math.ceil(seconds), MAX_MEMORY)
    out = os.fdopen(os.dup(1), "wb")
    # what libraries print must not reach the result
    os.dup2(2, 1)
    try:
        arrays = arrays_of(*compile_mjcf(Path(file), Budget(name, seconds)))
    except ModelFileError as error:
        fields = {"problem": error.problem, "line": error.line, "element": error.element}
        arrays = {PROBLEM: _as_array(fields)}
    arrays["seconds"] = np.array(time.process_time())
    np.savez(out, **arrays)
    out.close()


def _compile_apart(path: Path, budget: Budget) -> CompiledModel:
    """Compile a file in a process of its own, and return what it wrote."""
    request = {
        # without the working directory, which may hold anything
        "path": [place for place in (*sys.path, str(Path(__file__).parents[2])) if place],
        "arguments": {"file": os.fspath(path), "name": budget.file, "seconds": budget.left},
    }
    with tempfile.TemporaryFile() as result, tempfile.TemporaryFile() as messages:
        code = _run_process(json.dumps(request).encode(), result, messages, budget)
        if code:
            _raise_ended(code, messages, budget)
        result.seek(0)
        try:
            arrays, _ = read_arrays(result, MAX_ARRAY_BYTES, kinds="biuf")
            fields = json.loads(bytes(arrays[PROBLEM])) if PROBLEM in arrays else {}
            found = None if fields else CompiledModel(arrays)
            budget.spend(float(arrays["seconds"]))
        except Exception as error:
            # damaged archives raise anything
            raise ModelFileError(
                budget.file, f"MuJoCo's model of it cannot be used ({error}); make it smaller"
            ) from error
    if found is None:
        raise ModelFileError(budget.file, **(fields or {}))
    budget.check_time()
    return found


def _run_process(request: bytes, result: BinaryIO, messages: BinaryIO, budget: Budget) -> int:
    """Run a process until it ends or its time is over; return its exit code."""
    is_limited = processor_time_is_limited()
    wall = budget.left * (WALL_FACTOR if is_limited else WALL_FACTOR_UNLIMITED)
    end = time.monotonic() + wall
    try:
        process = subprocess.Popen(
            [sys.executable, "-I", "-c", _START],
            stdin=subprocess.PIPE,
            stdout=result,
            stderr=messages,
            **own_group(),
        )
    except OSError as error:
        raise ModelFileError(
            budget.file,
            f"is read by a process of its own, which cannot be started ({error}); allow more "
            "processes, or make the file smaller",
        ) from error
    try:
        assert process.stdin is not None
        with contextlib.suppress(OSError), process.stdin as stream:
            stream.write(request)
        while process.poll() is None:
            if time.monotonic() > end:
                budget.exceed()
            with contextlib.suppress(subprocess.TimeoutExpired):
                # short waits, so that Ctrl-C is noticed on every system
                process.wait(POLL_SECONDS)
        return process.returncode
    finally:
        process.kill()
        process.wait()


def _raise_ended(code: int, messages: BinaryIO, budget: Budget) -> NoReturn:
    """Raise the error of a process that ended without a result."""
    if was_out_of_time(code):
        budget.exceed()
    messages.seek(0)
    lines = messages.read(100_000).decode("utf-8", "replace").split("\n")
    last = next((line.strip() for line in reversed(lines) if line.strip()), "no message")
    raise ModelFileError(
        budget.file,
        f"MuJoCo cannot read it: its process ended with {code} ({last[:200]}); correct the file "
        "so that MuJoCo loads it",
    )
