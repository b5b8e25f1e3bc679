"""Robots that nobody here wrote: do they load, run at the time step of their own file, and end sane?

    python tools/census/census.py fetch gymnasium dm_control ...   # downloads wheels with pip, unpacks their model files
    python tools/census/census.py run [--seconds 60] [--most 10]   # one line of JSON per file into census.jsonl
    python tools/census/census.py table                            # the summary

Needs mujoco beside tiburon. Each file runs limp for 2 s, here and in MuJoCo, in a process of its own.
A file behaves if it finishes here and its largest joint speed at the end is at most 10 times MuJoCo's plus 1.
"""
import argparse, json, pathlib, random, statistics, subprocess, sys, tarfile, time, zipfile

HERE = pathlib.Path("census-files")
WHEELS = ["gymnasium", "dm_control", "robosuite", "brax", "mujoco_warp", "gymnasium_robotics",
          "safety_gymnasium", "mani_skill", "gym_aloha", "gym_xarm"]


def fetch(names):
    for name in names or WHEELS:
        folder = HERE / name
        folder.mkdir(parents=True, exist_ok=True)
        subprocess.run([sys.executable, "-m", "pip", "download", "--no-deps", "-q", "-d", folder, name], check=False)
        for archive in folder.iterdir():
            if archive.suffix == ".whl":
                zipfile.ZipFile(archive).extractall(folder)
            elif archive.name.endswith(".tar.gz"):
                tarfile.open(archive).extractall(folder, filter="data")


def one(path):
    import warnings
    warnings.simplefilter("ignore")
    import mujoco, numpy as np
    row = {"file": path}
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
    start, steps = data.qpos.copy(), round(2.0 / dt)
    begin = time.process_time()
    for _ in range(steps):
        mujoco.mj_step(peer, data)
    row |= {"nv": peer.nv, "dt": dt, "peer_us": (time.process_time() - begin) / steps * 1e6,
            "peer_speed": float(np.abs(data.qvel).max()), "peer_rows": int(data.nefc)}
    import tiburon as tb
    try:
        model, world = tb.load(path), tb.load_world(path)
    except Exception as error:
        return {**row, "load": f"{type(error).__name__}: {error}"[:250]}
    try:
        q = tb.from_mujoco(model, start, np.zeros(peer.nv)).q
    except Exception as error:
        row["state"], q = str(error)[:120], model.neutral()
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
        run = tb.simulate(model, steps * dt, q=q, method=tb.RK4(dt=dt), world=world, record=tb.Record(every=max(1, steps // 50)))
        row |= {"us": (time.process_time() - begin) / steps * 1e6, "outcome": str(run.outcome)[:220],
                "speed": float(np.abs(run.v[-1]).max())}
    except Exception as error:
        row["error"] = f"{type(error).__name__}: {error}"[:250]
    return row


def run(seconds, most):
    random.seed(3)
    with open("census.jsonl", "w") as out:
        for folder in sorted(p for p in HERE.iterdir() if p.is_dir()):
            files = [f for f in sorted(folder.rglob("*.xml")) if b"<mujoco" in f.read_bytes()[:3000] and b"<worldbody" in f.read_bytes()]
            random.shuffle(files)
            for file in files[:most]:
                try:
                    done = subprocess.run([sys.executable, __file__, "one", str(file)], capture_output=True, text=True, timeout=seconds)
                    lines = [line for line in done.stdout.splitlines() if line.startswith("{")]
                    row = json.loads(lines[-1]) if lines else {"file": str(file), "error": f"exit {done.returncode}: {done.stderr[-200:]}"}
                except subprocess.TimeoutExpired:
                    row = {"file": str(file), "error": f"no end in {seconds} s"}
                print(json.dumps(row), file=out, flush=True)


def table():
    rows = [json.loads(line) for line in open("census.jsonl")]
    rows = [row for row in rows if "skip" not in row]
    ran = [row for row in rows if "outcome" in row]
    diverged = [row for row in ran if row["outcome"].startswith("diverged")]
    wild = [row for row in ran if row not in diverged and row["speed"] > 10 * row["peer_speed"] + 1]
    for row in rows:
        verdict = "diverged" if row in diverged else "wild" if row in wild else "behaves" if row in ran else "refused"
        if verdict != "behaves":
            print(f"{verdict:9}", row["file"], (row.get("load") or row.get("error") or row.get("outcome"))[:140])
    ratios = sorted(row["us"] / row["peer_us"] for row in ran)
    good = len(ran) - len(diverged) - len(wild)
    print(f"{good} of {len(rows)} behave; refused {len(rows) - len(ran)}, diverged {len(diverged)}, wild {len(wild)}; "
          f"time per step of MuJoCo's: median {statistics.median(ratios):.2f}, worst {ratios[-1]:.0f}")


if __name__ == "__main__":
    parser = argparse.ArgumentParser()
    parser.add_argument("what", choices=["fetch", "run", "one", "table"])
    parser.add_argument("names", nargs="*")
    parser.add_argument("--seconds", type=float, default=60)
    parser.add_argument("--most", type=int, default=10)
    given = parser.parse_args()
    if given.what == "fetch": fetch(given.names)
    elif given.what == "run": run(given.seconds, given.most)
    elif given.what == "one": print(json.dumps(one(given.names[0])))
    else: table()
