"""Machine, versions and command of a measurement, and the bounds that apply to the machine."""

import os
import platform
import shlex
import subprocess
import sys
from collections.abc import Mapping
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import TypeVar

T = TypeVar("T")

PACKAGES = ("tiburon", "numpy", "llvmlite", "pin", "mujoco", "drake", "exudyn")


def _without_folder(word: str) -> str:
    """Strip the folder of absolute paths."""
    path = Path(word)
    return path.name if path.is_absolute() else word


def processor_name() -> str:
    """Return the model name of the processor, as precisely as the system reports it."""
    # platform.processor() is empty or generic on Linux
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def vector_width() -> str:
    """Describe the vector unit, which determines the speed of batches."""
    from tiburon.native.engine import host

    machine = host()
    fused = "fused multiply-add" if machine.fused else "no fused multiply-add"
    return f"{machine.lanes} float64 lanes ({machine.cpu}, {fused})"


def bounds_of_machine(bounds: Mapping[int, T]) -> tuple[T | None, str]:
    """Select the bounds that apply to this machine's vector unit.

    Args:
        bounds: Bounds by lane width, in float64 lanes.

    Returns:
        The bounds of the widest width that the machine has, None if it has none of them; and a
        note that names the width.
    """
    from tiburon.native.engine import host

    lanes = host().lanes
    width = max((width for width in bounds if width <= lanes), default=None)
    if width is None:
        listed = " and ".join(str(width) for width in sorted(bounds))
        return None, f"batches: bounds exist for {listed} lanes, this machine has {lanes}"
    return bounds[width], f"batches: bounds of {width} lanes, this machine has {lanes}"


def usable_cores() -> int:
    """Count the logical cores this process may run on."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def package_version(name: str) -> str:
    """Return the installed version of a distribution, or "not installed"."""
    try:
        return version(name)
    except PackageNotFoundError:
        return "not installed"


def source_revision() -> str:
    """Return the measured commit, marked if the sources differ from it."""
    result = subprocess.run(
        ["git", "describe", "--always", "--dirty", "--abbrev=12"],
        capture_output=True,
        text=True,
        check=False,
        cwd=Path(__file__).parent,
    )
    return result.stdout.strip() or "unknown"


def describe_run() -> dict[str, str]:
    """Collect what a reader needs to repeat the measurement, in printing order."""
    load = f"{os.getloadavg()[0]:.2f}" if hasattr(os, "getloadavg") else "unknown"
    return {
        "command": shlex.join(["python", "-m", "benchmarks", *map(_without_folder, sys.argv[1:])]),
        "processor": f"{processor_name()}, {usable_cores()} logical cores",
        "vector": vector_width(),
        "load before": load,
        "system": f"{platform.system()} {platform.release()}",
        "python": platform.python_version(),
        "revision": source_revision(),
        **{name: package_version(name) for name in PACKAGES},
    }
