"""Say on what a figure was measured: machine, versions, command."""

import os
import platform
import shlex
import subprocess
import sys
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path

PACKAGES = ("tiburon", "numpy", "llvmlite", "pin", "mujoco", "drake", "exudyn")


def _without_folder(word: str) -> str:
    """Leave out where files lie on this machine: that is nobody's business but its own."""
    path = Path(word)
    return path.name if path.is_absolute() else word


def processor_name() -> str:
    """Name the processor, as precisely as the system tells."""
    # platform.processor() is empty or generic on Linux
    information = Path("/proc/cpuinfo")
    if information.is_file():
        for line in information.read_text().splitlines():
            key, _, value = line.partition(":")
            if key.strip() == "model name":
                return value.strip()
    return platform.processor() or platform.machine()


def vector_width() -> str:
    """Say how many numbers one instruction handles, which decides how batches compare."""
    from tiburon.native.engine import host

    machine = host()
    fused = "fused multiply-add" if machine.fused else "no fused multiply-add"
    return (
        f"{machine.lanes} float64 numbers ({machine.cpu}, {fused}); "
        "bounds were set on a machine with 8"
    )


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
    """Name the commit measured, with a mark if the sources differ from it."""
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
