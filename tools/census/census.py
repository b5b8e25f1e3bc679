"""Robots that nobody here wrote: do they load, run at the step of their own file, and end sane?

    python tools/census/census.py fetch gymnasium ...  # downloads wheels with pip, unpacks them
    python tools/census/census.py run [--seconds 60] [--most 10] [--jobs 2]
    python tools/census/census.py table                # the summary
    python tools/census/census.py publish              # docs/census.json and docs/census.md
    python tools/census/census.py one FILE             # the measurements of one file

Wheels are unpacked into `census-files`, and rows written into `census.jsonl`, one line of JSON per
file, both in the working directory. Needs mujoco beside tiburon. Each file runs limp for 2 s, here
and in MuJoCo, in a process of its own. A file behaves if it finishes here and its largest joint
speed at the end is at most 10 times MuJoCo's plus 1. `make census` does all of it.
"""

import argparse
import json
import random
import statistics
import subprocess
import sys
import tarfile
import time
import warnings
import zipfile
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
sys.path[:0] = [place for place in (str(ROOT),) if place not in sys.path]

Row = dict[str, Any]

FILES = Path("census-files")
ROWS = Path("census.jsonl")
RUN = Path("census-run.json")
"""Machine and versions of the run that wrote the rows."""

WHEELS = (
    *("gymnasium", "dm_control", "robosuite", "brax", "mujoco_warp", "gymnasium_robotics"),
    *("safety_gymnasium", "mani_skill", "gym_aloha", "gym_xarm"),
)
DURATION = 2.0
"""Duration of all runs [s]."""

EARLY = 0.1
"""First time at which places of bodies are compared [s]."""


def fetch(names: list[str]) -> None:
    """Download wheels and unpack their files."""
    for name in names or WHEELS:
        folder = FILES / name
        folder.mkdir(parents=True, exist_ok=True)
        download = [sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", folder, name]
        subprocess.run(download, check=False)
        for archive in folder.iterdir():
            if archive.suffix == ".whl":
                zipfile.ZipFile(archive).extractall(folder)
            elif archive.name.endswith(".tar.gz"):
                with tarfile.open(archive) as packed:
                    packed.extractall(folder, filter="data")


# -- one file --------------------------------------------------------------------------------------


def one(path: str) -> Row:
    """Return the measurements of one file."""
    warnings.simplefilter("ignore")
    import mujoco
    import numpy as np

    row: Row = {"file": path}
    try:
        peer = mujoco.MjModel.from_xml_path(path)
    except Exception as error:
        return {**row, "skip": str(error)[:80]}
    if not 0 < peer.nv <= 90:
        return {**row, "skip": f"{peer.nv} DoF"}
    dt = peer.opt.timestep
    data = mujoco.MjData(peer)
    if peer.nkey:
        mujoco.mj_resetDataKeyframe(peer, data, 0)
    start, steps = data.qpos.copy(), round(DURATION / dt)
    begin = time.process_time()
    for _ in range(steps):
        mujoco.mj_step(peer, data)
    row |= {
        "nv": peer.nv,
        "dt": dt,
        "peer_us": (time.process_time() - begin) / steps * 1e6,
        "peer_speed": float(np.abs(data.qvel).max()),
        "peer_rows": int(data.nefc),
    }
    import tiburon as tb

    try:
        model, world = tb.load(path), tb.load_world(path)
    except Exception as error:
        return {**row, "load": f"{type(error).__name__}: {error}"[:250]}
    try:
        q = tb.from_mujoco(model, start, np.zeros(peer.nv)).q
    except Exception as error:
        row["state"], q = str(error)[:120], model.neutral()
    given, every = q, rows_every(steps, dt)
    try:
        begin = time.process_time()
        try:
            tb.simulate(model, 2 * dt, q=q, method=tb.RK4(dt=dt), world=world)
        except tb.DomainError as error:
            if "penetration" not in str(error):
                raise
            q = tb.lift_out(model, q, world=world)
            tb.simulate(model, 2 * dt, q=q, method=tb.RK4(dt=dt), world=world)
        row["first_s"] = time.process_time() - begin
        begin = time.process_time()
        run = tb.simulate(
            model,
            steps * dt,
            q=q,
            method=tb.RK4(dt=dt),
            world=world,
            record=tb.Record(every=every),
        )
        row |= {
            "us": (time.process_time() - begin) / steps * 1e6,
            "outcome": str(run.outcome)[:220],
            "speed": float(np.abs(run.v[-1]).max()),
        }
    except Exception as error:
        return {**row, "error": f"{type(error).__name__}: {error}"[:250]}
    try:
        row |= compared(run, given, start, peer, every)
    except Exception as error:
        row["not_compared"] = f"{type(error).__name__}: {error}"[:250]
    return row


def rows_every(steps: int, dt: float) -> int:
    """Return the number of steps between recorded rows: about 50 rows, one of them at `EARLY`."""
    early, most = round(EARLY / dt), max(1, steps // 50)
    return max(n for n in range(1, most + 1) if early % n == 0)


def compared(run: Any, given: Any, start: Any, peer: Any, every: int) -> Row:
    """Return how far bodies are from MuJoCo's, and what energy both gained.

    Args:
        run: Our run.
        given: Its start before overlaps and open equalities were corrected.
        start: MuJoCo's qpos at the start.
        peer: MuJoCo's model.
        every: Steps between the rows of the run.
    """
    import mujoco
    import numpy as np

    names = [mujoco.mj_id2name(peer, mujoco.mjtObj.mjOBJ_BODY, i) for i in range(peer.nbody)]
    bodies = [(i, name or f"body_{i}") for i, name in enumerate(names) if i]
    ours = {body.name for body in run.model.bodies}
    bodies = [(i, name) for i, name in bodies if name in ours]
    indices = [i for i, _ in bodies]

    def places(q: Any) -> Any:
        """Return the centers of mass of all bodies, shape (..., bodies, 3)."""
        found = [center_of_mass(run.model, q, name) for _, name in bodies]
        return np.stack(found, axis=-2)

    def peer_places() -> Any:
        """Return the same in MuJoCo; bodies without mass are at their origins."""
        heavy = peer.body_mass[indices, None] > 0.0
        return np.where(heavy, data.xipos[indices], data.xpos[indices])

    peer.opt.enableflags |= mujoco.mjtEnableBit.mjENBL_ENERGY
    data = mujoco.MjData(peer)
    data.qpos[:] = start
    mujoco.mj_forward(peer, data)
    there, energies = [peer_places()], [data.energy.sum()]
    for _ in range(len(run.time) - 1):
        mujoco.mj_step(peer, data, nstep=every)
        mujoco.mj_forward(peer, data)
        there.append(peer_places())
        energies.append(data.energy.sum())
    here = places(run.q)
    apart = np.linalg.norm(here - np.array(there), axis=-1).max(axis=-1)
    early = round(EARLY / peer.opt.timestep) // every
    found: Row = {
        "corrected": float(np.linalg.norm(here[0] - places(given), axis=-1).max()),
        "apart": float(apart[-1]),
        **energy_of(run),
        "peer_gain": largest_gain(energies),
    }
    if early < len(apart):
        found["apart_early"] = float(apart[early])
    return found


def energy_of(run: Any) -> Row:
    """Return the largest gain of energy and the largest kinetic energy of recorded rows [J].

    The energy is that of motion, gravity and springs of joints. Energies of stops, soft equalities
    and servos are not recorded, and would only be exchanged with it.
    """
    import numpy as np

    import tiburon as tb

    model, world = run.model, run.world
    kinetic = np.asarray(tb.kinetic_energy(model, run.q, run.v, fluid=world.fluid))
    total = kinetic + np.asarray(tb.potential_energy(model, run.q, world=world))
    gravity = np.array(world.gravity)
    for body in model.bodies:
        joint, passive = body.joint, body.joint.passive
        if passive is not None and np.any(passive.stiffness):
            total = total + spring_energy(joint, run.q[:, model.slice(joint.name)])
        if body.gravity_compensation:
            share = body.gravity_compensation * body.inertia.mass
            total = total + share * (center_of_mass(model, run.q, body.name) @ gravity)
    return {"gain": largest_gain(total), "kinetic": float(kinetic.max())}


def center_of_mass(model: Any, q: Any, name: str) -> Any:
    """Return where the center of mass of a body is, shape (..., 3)."""
    import numpy as np

    import tiburon as tb

    R, p = tb.forward_kinematics(model, q, name)
    return p + R @ np.array(model.body(name).inertia.com)


def spring_energy(joint: Any, q: Any) -> Any:
    """Return the energy of the springs of a joint at each row [J]."""
    import numpy as np

    passive = joint.passive
    rest = np.broadcast_to(np.asarray(passive.rest, dtype=float), (joint.nq,))
    away = np.array([joint.difference(rest, row) for row in q])
    return 0.5 * (np.asarray(passive.stiffness) * away**2).sum(axis=-1)


def largest_gain(energies: Any) -> float:
    """Return the largest rise above the least energy before [J]."""
    import numpy as np

    values = np.asarray(energies, dtype=float)
    return float((values - np.minimum.accumulate(values)).max())


# -- all files -------------------------------------------------------------------------------------


def selected(most: int) -> Iterator[Path]:
    """Iterate over the files of the census: of each wheel at most a number, always the same."""
    random.seed(3)
    for folder in sorted(place for place in FILES.iterdir() if place.is_dir()):
        files = [
            file
            for file in sorted(folder.rglob("*.xml"))
            if b"<mujoco" in file.read_bytes()[:3000] and b"<worldbody" in file.read_bytes()
        ]
        random.shuffle(files)
        yield from files[:most]


def wheel_versions() -> list[str]:
    """Return name and version of each wheel of the census."""
    found = [folder.name for folder in sorted(FILES.glob("*/*.dist-info"))]
    return [name.removesuffix(".dist-info").replace("-", " ") for name in found]


def run_file(file: Path, seconds: float) -> Row:
    """Return the measurements of a file, from a process of its own."""
    command = [sys.executable, __file__, "one", str(file)]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=seconds)
    except subprocess.TimeoutExpired:
        return {"file": str(file), "error": f"no end in {seconds} s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
    if not lines:
        return {"file": str(file), "error": f"exit {done.returncode}: {done.stderr[-200:]}"}
    found: Row = json.loads(lines[-1])
    return found


def run(seconds: float, most: int, jobs: int) -> None:
    """Measure all files, `jobs` at a time, and write one line for each."""
    from benchmarks.machine import describe_run

    made_of = {**describe_run(), "command": "make census", "files at a time": jobs}
    RUN.write_text(json.dumps(made_of | {"wheels": ", ".join(wheel_versions())}))
    with ROWS.open("w") as out, ThreadPoolExecutor(jobs) as pool:
        for row in pool.map(lambda file: run_file(file, seconds), selected(most)):
            print(json.dumps(row), file=out, flush=True)


def verdict_of(row: Row) -> str:
    """Return one word for a file that MuJoCo runs."""
    if "outcome" not in row:
        return "refused"
    if row["outcome"].startswith("diverged"):
        return "diverged"
    return "wild" if row["speed"] > 10 * row["peer_speed"] + 1 else "behaves"


def read_rows() -> list[Row]:
    """Return the rows of files that MuJoCo runs."""
    rows = [json.loads(line) for line in ROWS.read_text().splitlines()]
    return [row for row in rows if "skip" not in row]


def summary(rows: list[Row]) -> str:
    """Return the summary in one line."""
    verdicts = [verdict_of(row) for row in rows]
    ratios = sorted(row["us"] / row["peer_us"] for row in rows if "outcome" in row)
    count = verdicts.count
    return (
        f"{count('behaves')} of {len(rows)} behave; refused {count('refused')}, diverged "
        f"{count('diverged')}, wild {count('wild')}; time per step of MuJoCo's: "
        f"median {statistics.median(ratios):.2f}, worst {ratios[-1]:.0f}"
    )


def reason_of(row: Row) -> str:
    """Return why a file does not behave."""
    found: str = row.get("load") or row.get("error") or row.get("outcome") or ""
    return found


def table() -> None:
    """Print the files that do not behave, and the summary."""
    rows = read_rows()
    for row in rows:
        verdict = verdict_of(row)
        if verdict != "behaves":
            print(f"{verdict:9}", row["file"], reason_of(row)[:140])
    print(summary(rows))


def main() -> None:
    """Do what the command line says."""
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["fetch", "run", "one", "table", "publish"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--most", type=int, default=10)
    parser.add_argument("--jobs", type=int, default=1)
    given = parser.parse_args()
    if given.what == "fetch":
        fetch(given.names)
    elif given.what == "run":
        run(given.seconds, given.most, given.jobs)
    elif given.what == "one":
        print(json.dumps(one(given.names[0])))
    elif given.what == "table":
        table()
    else:
        from tools.census.page import publish

        publish(read_rows(), json.loads(RUN.read_text()))


if __name__ == "__main__":
    main()
