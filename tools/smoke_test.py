"""A short trial of an installed package: every dependency is used once, every command asked once.

Run by `tools/check_install.py` in a new environment, in an empty folder; a failure is a traceback
or the output of the command that failed. With the name of an extra, what that extra is for is tried
instead; without, what needs an extra must say which.
"""

import importlib.util
import json
import subprocess
import sys
import warnings
from collections.abc import Callable, Sequence
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np

import tiburon as tb

COLLADA = """<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><created>2026-01-01T00:00:00</created><modified>2026-01-01T00:00:00</modified></asset>
<library_geometries><geometry id="g" name="g"><mesh>
<source id="v"><float_array id="a" count="12">0 0 0 1 0 0 0 1 0 0 0 1</float_array>
<technique_common><accessor source="#a" count="4" stride="3"><param name="X" type="float"/>
<param name="Y" type="float"/><param name="Z" type="float"/></accessor></technique_common></source>
<vertices id="w"><input semantic="POSITION" source="#v"/></vertices>
<triangles count="4"><input semantic="VERTEX" source="#w" offset="0"/>
<p>0 2 1 0 1 3 0 3 2 1 2 3</p></triangles></mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="s"><node id="n"><instance_geometry url="#g"/></node>
</visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#s"/></scene></COLLADA>"""
"""A tetrahedron, a sixth of a unit cube."""

XACRO = """<robot name="arm" xmlns:xacro="http://www.ros.org/wiki/xacro">
<xacro:property name="mass" value="1.5"/>
<link name="base"/>
<xacro:macro name="part" params="name parent">
<link name="${name}"><inertial><mass value="${mass}"/>
<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>
<joint name="${name}_joint" type="continuous"><parent link="${parent}"/><child link="${name}"/>
<axis xyz="0 0 1"/></joint></xacro:macro>
<xacro:part name="a" parent="base"/><xacro:part name="b" parent="a"/></robot>"""
"""An arm of two links of 1.5 kg each."""

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
    run = tb.simulate(model, 0.05, q=q, record=tb.Record(store="library.zarr"))
    again = tb.load_run("library.zarr")
    np.testing.assert_array_equal(np.asarray(again.q), np.asarray(run.q))
    assert len(run.to_pandas()) > 0
    assert run.data.sizes["time"] > 1
    run.plot(path="figure.png")
    run.save_html("library.html")
    assert tb.mobility(tb.load("four_bar")).mobility == 1
    tb.save(model, "saved.urdf")
    assert tb.load("saved.urdf").nv == model.nv
    _mesh(0.0)
    _messages()


def _mesh(*places: float) -> None:
    """Write and read tetrahedra at places along x: each a sixth of a unit cube."""
    corners = ((0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1))
    faces = ((1, 3, 2), (1, 2, 4), (1, 4, 3), (2, 3, 4))
    lines = [f"v {x + a} {b} {c}" for x in places for a, b, c in corners]
    for k in range(0, 4 * len(places), 4):
        lines += [f"f {a + k} {b + k} {c + k}" for a, b, c in faces]
    Path("corners.obj").write_text("\n".join(lines) + "\n")
    mesh = tb.load_mesh("corners.obj")
    assert abs(mesh.volume - len(places) / 6.0) < 1e-12


def _messages() -> None:
    """Pack what drives robots; load the server of the page."""
    import msgpack
    from websockets.asyncio.server import serve

    assert msgpack.unpackb(msgpack.packb({"a": 1.5})) == {"a": 1.5}
    assert callable(serve)


# -- extras ----------------------------------------------------------------------------------------


def _states(model: tb.Model) -> tuple[Any, Any, Any]:
    """Return positions, velocities and forces of four cases."""
    rng = np.random.default_rng(3)
    q = np.tile(model.neutral(), (4, 1))
    return (q, *rng.standard_normal((2, 4, model.nv)))


def _mjcf() -> None:
    text = '<mujoco><worldbody><body><joint name="a" axis="0 1 0"/><geom size=".1"/></body>'
    Path("robot.xml").write_text(text + "</worldbody></mujoco>")
    assert tb.load("robot.xml").nv == 1


def _view() -> None:
    from tiburon.viewer import LiveScene

    with LiveScene(tb.load("double_pendulum")) as scene:
        assert scene.url.startswith("http://")


def _video() -> None:
    run = tb.simulate(tb.load("double_pendulum"), 0.1, q=[0.5, 0.2])
    try:
        run.save_video("swing.mp4", width=160, height=120, fps=10.0)
    except tb.DomainError as error:
        if "browser" not in str(error):
            raise
        # Playwright is there; a browser is not part of an extra
        print(f"no video was written: {error}")
        return
    assert Path("swing.mp4").stat().st_size > 1000


def _collada() -> None:
    Path("corner.dae").write_text(COLLADA)
    assert abs(tb.load_mesh("corner.dae").volume - 1.0 / 6.0) < 1e-12


def _xacro() -> None:
    Path("arm.urdf.xacro").write_text(XACRO)
    assert tb.load("arm.urdf.xacro").total_mass == 3.0


def _mesh_contact() -> None:
    # two: not convex
    _mesh(0.0, 1.5)
    shape = tb.Shape(tb.MeshShape("corners.obj"))
    inertia = tb.Inertia.box(1.0, (0.5, 0.5, 0.5))
    body = tb.Body("body", joint=tb.Free("body"), inertia=inertia, shapes=(shape,))
    fixed = tb.Body("floor", joint=tb.Fixed("floor"), shapes=(shape,))
    model = tb.Model("meshes", [body, fixed])
    q = model.neutral()
    q[model.q_names.index("body.x")] = 3.0
    assert tb.contacts(model, q, pairs=[("body", "floor")]).gap.min() > 0.0


def _lp() -> None:
    from tiburon.load_sharing.linear_program import LinearProgram, solve_linear

    one, rows = np.ones(2), np.eye(2)
    program = LinearProgram(one, one[None, :], np.ones(1), rows, np.zeros(2))
    assert abs(solve_linear(program).value - 1.0) < 1e-9


def _gym() -> None:
    from tiburon import gym

    check_env = importlib.import_module("gymnasium.utils.env_checker").check_env
    check_env(gym.Env("cart_pole"), skip_render_check=True)
    environments = gym.VectorEnv("cart_pole", 4)
    environments.reset(seed=1)
    assert environments.step(environments.action_space.sample())[1].shape == (4,)


def _jax() -> None:
    model = tb.load("panda")
    function = tb.to_jax(tb.forward_dynamics, model)
    import jax

    jax.config.update("jax_enable_x64", True)
    given = _states(model)
    expected = tb.forward_dynamics(model, *given)
    np.testing.assert_array_equal(np.asarray(jax.jit(function)(*given)), expected)


def _torch() -> None:
    model = tb.load("panda")
    function = tb.to_torch(tb.forward_dynamics, model)
    import torch

    given = _states(model)
    found = function(*(torch.from_numpy(x) for x in given)).numpy()
    np.testing.assert_array_equal(found, tb.forward_dynamics(model, *given))


def _casadi() -> None:
    model = tb.load("double_pendulum")
    function = tb.to_casadi(tb.forward_dynamics, model)
    q, v, tau = (x[0] for x in _states(model))
    found = np.asarray(function(q, v, tau)).ravel()
    np.testing.assert_allclose(found, tb.forward_dynamics(model, q, v, tau), rtol=1e-12)


def _c() -> None:
    kernel = tb.compile(tb.forward_dynamics, tb.load("double_pendulum"))
    (library,) = tb.build_library(kernel, "library").values()
    assert library.is_file()


def _fmu() -> None:
    path = tb.export_fmu(tb.load("double_pendulum"), "robot.fmu", method=tb.RK4(dt=1e-3))
    assert Path(path).stat().st_size > 1000


def _logs() -> None:
    run = tb.simulate(tb.load("double_pendulum"), 0.05, q=[0.5, 0.2])
    run.to_parquet("run.parquet")
    run.to_mcap("run.mcap")
    import pyarrow.parquet

    assert pyarrow.parquet.read_table("run.parquet").num_rows == len(run)


def _sweep() -> None:
    import distributed

    def setup(point: Any, stream: Any) -> dict[str, Any]:
        # a function of this script, which other processes cannot import
        return {"q": [point.angle, 0.2]}

    model = tb.load("double_pendulum")
    design = {"angle": [0.1, 0.3]}
    local = distributed.LocalCluster(n_workers=1, processes=False, dashboard_address=None)
    with local as cluster, distributed.Client(cluster) as client:
        options = {
            "design": design,
            "setup": setup,
            "client": client,
            "execution": tb.Execution(progress=False),
        }
        found = tb.sweep(model, 0.05, store="sweep.zarr", **options)
    assert found.data.sizes["angle"] == 2


def _mpi() -> None:
    try:
        tb.MPIExchange()
    except tb.ModelError as error:
        if importlib.util.find_spec("mpi4py") is None:
            raise
        # an MPI is not part of an extra
        print(f"no MPI was found: {error}")


FEATURES: dict[str, tuple[Callable[[], None], str]] = {
    "mjcf": (_mjcf, "mujoco"),
    "view": (_view, "viser"),
    "video": (_video, "playwright"),
    "collada": (_collada, "collada"),
    "xacro": (_xacro, "xacro"),
    "mesh": (_mesh_contact, "coal"),
    "lp": (_lp, "scipy"),
    "gym": (_gym, "gymnasium"),
    "jax": (_jax, "jax"),
    "torch": (_torch, "torch"),
    "casadi": (_casadi, "casadi"),
    "c": (_c, "ziglang"),
    "fmu": (_fmu, "ziglang"),
    "logs": (_logs, "pyarrow"),
    "sweep": (_sweep, "distributed"),
    "mpi": (_mpi, "mpi4py"),
}
"""What each extra is for, and a package it installs."""


def refusals() -> None:
    """Ask for everything that needs an extra: each says which, in an error of this package."""
    for extra, (feature, package) in FEATURES.items():
        if importlib.util.find_spec(package) is not None or extra == "sweep":
            # sweeps do without: scripts that use Dask import it themselves
            continue
        try:
            feature()
        except (tb.TiburonError, ImportError) as error:
            told = str(error)
        else:
            told = f"it worked without {package}"
        assert f"tiburon[{extra}]" in told, f"{extra}: {told}"


def command(words: tuple[str, ...]) -> str:
    """Run the command line; return what it printed."""
    done = subprocess.run(
        [sys.executable, "-m", "tiburon", *words], capture_output=True, text=True, check=False
    )
    if done.returncode != 0 or "Traceback" in done.stderr:
        told = f"{done.stdout}{done.stderr}"
        raise SystemExit(f"tiburon {' '.join(words)}: exit code {done.returncode}\n{told}")
    return done.stdout


def main(extras: Sequence[str]) -> None:
    """Try everything, or one extra."""
    warnings.simplefilter("error", tb.TiburonWarning)
    for extra in extras:
        feature, package = FEATURES[extra]
        importlib.import_module(package)
        feature()
        print(sys.version.split()[0], extra, "works")
    if extras:
        return
    names = ("numpy", "llvmlite", "typer", "rich", "matplotlib", "xarray", "zarr", "pandas")
    print(sys.version.split()[0], *(f"{name} {version(name)}" for name in names))
    library()
    refusals()
    for words in COMMANDS:
        printed = command(words)
        assert printed.strip(), words
    for name in SUBCOMMANDS:
        assert "Usage" in command((name, "--help")), name
    json.loads(command(("cache", "size", "--json")))


if __name__ == "__main__":
    main(sys.argv[1:])
