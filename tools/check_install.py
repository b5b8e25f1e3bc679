"""Install the package in a new environment, with the oldest or newest versions, and try it.

`python tools/check_install.py oldest` takes the oldest version that `pyproject.toml` allows of
everything the package needs, on the oldest Python that it allows and that is on PATH;
`python tools/check_install.py newest` the newest of everything, on the newest Python for which all
of it has wheels. Both then run `tools/smoke_test.py`: library and command line. Exit code 0 if it
passes.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]

EXTRAS = ("mjcf", "view")
"""Extras that users install, beside what the package itself needs."""

FIRST_MINOR, LAST_MINOR = 8, 30
"""Python 3 versions that are looked for."""


def requirements() -> list[str]:
    """Return what the package and the extras for users need, as `pyproject.toml` says."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    optional = project["optional-dependencies"]
    return [*project["dependencies"], *(line for extra in EXTRAS for line in optional[extra])]


def pinned_to_oldest(lines: Sequence[str]) -> list[str]:
    """Return requirements with each lower bound as the one version.

    Raises:
        ValueError: If a requirement has no lower bound.
    """
    found = []
    for line in lines:
        match = re.fullmatch(r"([A-Za-z0-9_.\[\]-]+)>=([0-9][\w.]*)((?:,[^;]*)?)(;.*)?", line)
        if match is None:
            raise ValueError(f"expected 'package>=version', got {line!r}; give it a lower bound")
        name, version, _, marker = match.groups()
        found.append(f"{name}=={version}{marker or ''}")
    return found


def least_python() -> tuple[int, int]:
    """Return the oldest Python that the package allows."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    major, minor = re.findall(r"\d+", project["requires-python"])[:2]
    return int(major), int(minor)


def interpreters() -> dict[tuple[int, int], str]:
    """Find Pythons on PATH that the package allows, by version; the first of each counts."""
    found: dict[tuple[int, int], str] = {}
    for minor in range(FIRST_MINOR, LAST_MINOR):
        for path in _candidates(f"python3.{minor}"):
            version = _version(path)
            if version is not None and version >= least_python():
                found.setdefault(version, path)
    return dict(sorted(found.items()))


def _candidates(name: str) -> list[str]:
    """Return programs of a name on PATH; where pyenv stands in for them, those it stands for."""
    path = os.environ.get("PATH", "").split(os.pathsep)
    listed = [found for place in path if (found := shutil.which(name, path=place))]
    if shutil.which("pyenv"):
        done = subprocess.run(
            ["pyenv", "whence", "--path", name], capture_output=True, text=True, check=False
        )
        listed += done.stdout.split() if done.returncode == 0 else []
    return listed


def _version(python: str) -> tuple[int, int] | None:
    """Return the version of a program; None if it does not run, or cannot make environments."""
    code = "import sys, venv, ensurepip; print(*sys.version_info[:2])"
    done = subprocess.run([python, "-c", code], capture_output=True, text=True, check=False)
    if done.returncode != 0:
        return None
    major, minor = done.stdout.split()
    return int(major), int(minor)


def try_on(python: str, lines: Sequence[str], folder: Path) -> bool:
    """Install the package and requirements in a new environment, and run the smoke test."""
    environment = folder / "environment"
    subprocess.run([python, "-m", "venv", str(environment)], check=True)
    scripts = environment / ("Scripts" if os.name == "nt" else "bin")
    own = str(scripts / "python")
    # wheels only: what has none on this Python is not to be built here
    install = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    wheel = folder / "wheel"
    done = subprocess.run([*install, "--only-binary", ":all:", *lines], check=False)
    if done.returncode != 0:
        return False
    subprocess.run(
        [own, "-m", "pip", "wheel", "--quiet", "--no-deps", "--wheel-dir", str(wheel), str(ROOT)],
        check=True,
    )
    subprocess.run([*install, "--no-deps", *map(str, wheel.glob("*.whl"))], check=True)
    if subprocess.run([own, "-m", "pip", "check"], check=False).returncode != 0:
        return False
    work = folder / "work"
    work.mkdir()
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TIBURON_"))}
    variables["TIBURON_CACHE_DIR"] = str(folder / "cache")
    variables["PATH"] = os.pathsep.join([str(scripts), variables.get("PATH", "")])
    smoke = [own, str(ROOT / "tools" / "smoke_test.py")]
    return subprocess.run(smoke, cwd=work, env=variables, check=False).returncode == 0


def main(words: Sequence[str]) -> int:
    """Run one of the checks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("which", choices=("oldest", "newest"))
    options = parser.parse_args(words)
    known = interpreters()
    if not known:
        print(f"no Python from {least_python()} on was found on PATH", file=sys.stderr)
        return 1
    lines = requirements()
    if options.which == "oldest":
        lines, tried = pinned_to_oldest(lines), [next(iter(known.items()))]
    else:
        # an older Python is tried only where a newer one lacks wheels
        tried = list(known.items())[::-1]
    for version, python in tried:
        label = f"{options.which} versions on Python {version[0]}.{version[1]}"
        print(f"{label}: {python}", flush=True)
        with tempfile.TemporaryDirectory(prefix="tiburon-install-") as name:
            if try_on(python, lines, Path(name)):
                print(f"{label}: passed")
                return 0
        print(f"{label}: failed", file=sys.stderr)
    return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
