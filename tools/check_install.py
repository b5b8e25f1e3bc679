"""Build what is released, install it in new environments, and try it there.

`python tools/check_install.py package` builds sdist and wheel, the wheel from the sdist, and checks
both with twine. `oldest` installs the wheel with the oldest version that `pyproject.toml` allows of
everything it needs, `newest` with the newest, each on every Python on PATH that the package allows
and for which all of it has wheels. `extras` installs each extra for users alone. All run
`tools/smoke_test.py` in the new environment. Exit code 0 if nothing fails; Pythons without wheels
are listed.
"""

import argparse
import os
import re
import shutil
import subprocess
import sys
import tempfile
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]

DEVELOPMENT = ("test", "interfaces", "lint", "bench", "docs")
"""Extras for development; all others are for users."""

FIRST_MINOR, LAST_MINOR = 8, 30
"""Python 3 versions that are looked for."""

NO_WHEEL = ("No matching distribution found", "ResolutionImpossible")
"""What pip says where something has no wheel, or none that goes with the others."""

PASSED, MISSING, FAILED = "passed", "no wheels", "failed"
"""How an installation ends."""


def project() -> dict[str, Any]:
    """Return what `pyproject.toml` says of the package."""
    found: dict[str, Any] = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    return found


def user_extras() -> dict[str, list[str]]:
    """Return what each extra for users needs, by name."""
    optional = project()["optional-dependencies"]
    return {name: lines for name, lines in optional.items() if name not in DEVELOPMENT}


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
    major, minor = re.findall(r"\d+", project()["requires-python"])[:2]
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


def build(folder: Path, target: Path) -> Path:
    """Build sdist and wheel, check both, and return the wheel.

    Args:
        folder: Empty folder for the tools.
        target: Folder for the two files.

    Raises:
        subprocess.CalledProcessError: If one cannot be built, or its metadata are wrong.
    """
    own = _environment(sys.executable, folder / "tools")
    pip = [own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, "build", "twine"], check=True)
    # with neither --sdist nor --wheel, the wheel is built from the sdist
    subprocess.run([own, "-m", "build", "--outdir", str(target), str(ROOT)], check=True)
    (wheel,), (source,) = target.glob("*.whl"), target.glob("*.tar.gz")
    subprocess.run([own, "-m", "twine", "check", "--strict", str(wheel), str(source)], check=True)
    return wheel


def _environment(python: str, folder: Path) -> str:
    """Make an environment; return its Python."""
    subprocess.run([python, "-m", "venv", str(folder)], check=True)
    return str(folder / ("Scripts" if os.name == "nt" else "bin") / "python")


def try_on(
    python: str, wheel: Path, lines: Sequence[str], folder: Path, extra: str | None = None
) -> str:
    """Install the package in a new environment, and run the smoke test.

    Args:
        python: The interpreter.
        wheel: The package.
        lines: Versions that are to be installed, others being free.
        folder: Empty folder for the environment.
        extra: An extra to install and try; None for none.

    Returns:
        One of PASSED, MISSING and FAILED.
    """
    own = _environment(python, folder / "environment")
    constraints = folder / "constraints.txt"
    constraints.write_text("\n".join(lines) + "\n")
    chosen = f"{wheel}[{extra}]" if extra else str(wheel)
    # wheels only: what has none on this Python is not to be built here
    done = subprocess.run(
        [
            *(own, "-m", "pip", "install", "--quiet", "--disable-pip-version-check"),
            *("--only-binary", ":all:", "--constraint", str(constraints), chosen),
        ],
        stderr=subprocess.PIPE,
        text=True,
        check=False,
    )
    if done.returncode != 0:
        missing = any(word in done.stderr for word in NO_WHEEL)
        words = [line for line in done.stderr.splitlines() if "ERROR" in line]
        print("\n".join(words if missing else done.stderr.splitlines()), file=sys.stderr)
        return MISSING if missing else FAILED
    if subprocess.run([own, "-m", "pip", "check"], check=False).returncode != 0:
        return FAILED
    work = folder / "work"
    work.mkdir()
    variables = {k: v for k, v in os.environ.items() if not k.startswith(("PYTHON", "TIBURON_"))}
    variables["TIBURON_CACHE_DIR"] = str(folder / "cache")
    variables["PATH"] = os.pathsep.join([str(Path(own).parent), variables.get("PATH", "")])
    smoke = [own, str(ROOT / "tools" / "smoke_test.py"), *([extra] if extra else [])]
    done = subprocess.run(smoke, cwd=work, env=variables, check=False)
    return FAILED if done.returncode else PASSED


def trials(
    which: str, known: Mapping[tuple[int, int], str], chosen: Sequence[str]
) -> Iterator[tuple[str, str, list[str], str | None]]:
    """List what is to be tried: a label, the Python, versions and the extra of each.

    Raises:
        ValueError: If an extra is unknown.
    """
    extras = user_extras()
    if unknown := sorted(set(chosen) - set(extras)):
        raise ValueError(f"expected extras of {', '.join(extras)}, got {', '.join(unknown)}")
    for version, python in known.items():
        label = f"Python {version[0]}.{version[1]}"
        if which == "oldest":
            yield f"{label}, oldest", python, pinned_to_oldest(project()["dependencies"]), None
        elif which == "newest":
            yield f"{label}, newest", python, [], None
        elif which == "extras":
            for extra in chosen or extras:
                yield f"{label}, {extra}", python, [], extra


def main(words: Sequence[str]) -> int:
    """Run one of the checks."""
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("which", choices=("package", "oldest", "newest", "extras"))
    parser.add_argument("chosen", nargs="*", help="extras to try; all by default")
    parser.add_argument("--python", help="one Python, such as 3.12; all on PATH by default")
    parser.add_argument("--out", type=Path, help="folder that keeps what was built")
    parser.add_argument("--wheel", type=Path, help="a wheel to install; built by default")
    options = parser.parse_args(words)
    known = interpreters()
    if options.python is not None:
        known = {v: p for v, p in known.items() if f"{v[0]}.{v[1]}" == options.python}
    if not known:
        print(f"no Python from {least_python()} on was found on PATH", file=sys.stderr)
        return 1
    ends = {}
    with tempfile.TemporaryDirectory(prefix="tiburon-build-") as name:
        if options.wheel:
            wheel = options.wheel.resolve()
        else:
            wheel = build(Path(name), options.out or Path(name) / "dist")
        for label, python, lines, extra in trials(options.which, known, options.chosen):
            print(f"{label}: {python}", flush=True)
            with tempfile.TemporaryDirectory(prefix="tiburon-install-") as place:
                ends[label] = try_on(python, wheel, lines, Path(place), extra)
            print(f"{label}: {ends[label]}", flush=True)
    for label, end in ends.items():
        print(f"{label:<24} {end}")
    if options.which == "package":
        return 0
    return 0 if FAILED not in ends.values() and PASSED in ends.values() else 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
