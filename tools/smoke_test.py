"""A short trial of an installed package: every dependency is used once, every command asked once.

Run by `tools/check_install.py` in a new environment, in an empty folder; a failure is a traceback
or the output of the command that failed.
"""

import json
import subprocess
import sys
import warnings
from importlib.metadata import version
from pathlib import Path

import numpy as np

import tiburon as tb

COMMANDS = (
    ("--version",),
    ("--help",),
    ("models",),
    ("info", "panda"),
    ("check", "double_pendulum"),
    ("simulate", "panda", "-t", "0.05", "--store", "run.zarr"),
    ("report", "run.zarr"),
    ("convert", "panda", "panda.urdf"),
    ("cache", "size", "--json"),
)
"""What the command line is tried with, beside the help of every subcommand."""

# `bench` belongs to the source checkout
SUBCOMMANDS = (
    *("simulate", "view", "drive", "report", "demo", "check", "models", "info", "convert"),
    *("hydro", "cache", "reproduce"),
)


def library() -> None:
    """Use what the package needs: arrays, code, tables, stores, figures, meshes, graphs, pages."""
    model = tb.load("panda")
    q, v = model.random_state(1)
    tau = np.linspace(-1.0, 1.0, model.nv)
    vd = tb.forward_dynamics(model, q, v, tau)
    # two algorithms, each the inverse of the other
    np.testing.assert_allclose(tb.inverse_dynamics(model, q, v, vd), tau, rtol=1e-8, atol=1e-8)
    run = tb.simulate(model, 0.05, q=q, store="library.zarr")
    again = tb.load_run("library.zarr")
    np.testing.assert_array_equal(np.asarray(again.q), np.asarray(run.q))
    assert len(run.to_pandas()) > 0
    assert run.data.sizes["time"] > 1
    run.plot(path="figure.png")
    run.save_html("library.html")
    assert tb.mobility(tb.load("four_bar")).mobility == 1
    tb.save(model, "saved.urdf")
    assert tb.load("saved.urdf").nv == model.nv
    _mesh()
    _messages()
    _mjcf()


def _mesh() -> None:
    """Read a tetrahedron: a sixth of a unit cube."""
    corners = ["0 0 0", "1 0 0", "0 1 0", "0 0 1"]
    faces = ((0, 2, 1), (0, 1, 3), (0, 3, 2), (1, 2, 3))
    lines = [f"v {corner}" for corner in corners]
    lines += [f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces]
    Path("corner.obj").write_text("\n".join(lines) + "\n")
    mesh = tb.load_mesh("corner.obj")
    assert abs(mesh.volume - 1.0 / 6.0) < 1e-12


def _messages() -> None:
    """Pack what drives robots; load the server of the page."""
    import msgpack
    from websockets.asyncio.server import serve

    assert msgpack.unpackb(msgpack.packb({"a": 1.5})) == {"a": 1.5}
    assert callable(serve)


def _mjcf() -> None:
    """Read a robot by the extra that reads MuJoCo's files, and load the one that shows scenes."""
    import viser  # noqa: F401

    text = '<mujoco><worldbody><body><joint name="a" axis="0 1 0"/><geom size=".1"/></body>'
    Path("robot.xml").write_text(text + "</worldbody></mujoco>")
    assert tb.load("robot.xml").nv == 1


def command(words: tuple[str, ...]) -> str:
    """Run the command line; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "tiburon", *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0 or "Traceback" in done.stderr:
        told = f"{done.stdout}{done.stderr}"
        raise SystemExit(f"tiburon {' '.join(words)}: exit code {done.returncode}\n{told}")
    return done.stdout


def main() -> None:
    """Try everything."""
    warnings.simplefilter("error", tb.TiburonWarning)
    names = ("numpy", "llvmlite", "typer", "rich", "matplotlib", "xarray", "zarr", "pandas")
    print(sys.version.split()[0], *(f"{name} {version(name)}" for name in names))
    library()
    for words in COMMANDS:
        printed = command(words)
        assert printed.strip(), words
    for name in SUBCOMMANDS:
        assert "Usage" in command((name, "--help")), name
    json.loads(command(("cache", "size", "--json")))


if __name__ == "__main__":
    main()
