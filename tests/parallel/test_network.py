"""Dask workers, and MPI ranks, in two network namespaces joined by a virtual cable that is cut."""

import os
import pickle
import subprocess
import sys

import pytest

import tiburon as tb
from benchmarks.cable import CABLE, ISOLATED, RANKS, WIRED, why_no_cable
from tests.parallel.studies import content, study
from tests.parallel.test_partition import short_chain
from tests.parallel.test_ranks import MPIEXEC, ROOT, bits_of, environment, told_by


@pytest.fixture(scope="module")
def cable():
    """Return the script that lays a cable; skip where that is not allowed."""
    reason = why_no_cable()
    if reason:
        pytest.skip(reason)
    return CABLE


RUN = """
export DASK_DISTRIBUTED__COMM__TIMEOUTS__TCP=12s DASK_DISTRIBUTED__COMM__TIMEOUTS__CONNECT=4s
python=%(python)s
scheduler="$python -m distributed.cli.dask_scheduler --no-dashboard"
$scheduler --host 10.9.0.1 --port 8786 > /dev/null 2>&1 &
scheduler=$!
worker="$python -m distributed.cli.dask_worker tcp://10.9.0.1:8786 --nthreads 1"
worker="$worker --no-nanny --no-dashboard"
$worker --host 10.9.0.1 --name near > /dev/null 2>&1 &
near=$!
$there $worker --host 10.9.0.2 --name far > /dev/null 2>&1 &
away=$!
$python %(driver)s %(folder)s cable0
code=$?
kill -9 $scheduler $near $away $far
exit $code
"""

DRIVER = """
import pickle, subprocess, sys, threading
from pathlib import Path
from distributed import Client
from tests.parallel.studies import study, content
from tests.parallel.test_faults import slow, wait_for

folder, cable = Path(sys.argv[1]), sys.argv[2]

def sent():
    # of the namespace of this process, which /sys does not show
    (line,) = [one for one in open("/proc/self/net/dev") if one.strip().startswith(cable)]
    return int(line.partition(":")[2].split()[8])

def cut():
    receipts = "cut.zarr/status/receipts/0/[0-9]*.json"
    wait_for(lambda: "far" in {worker(file) for file in folder.glob(receipts)})
    subprocess.run(["ip", "link", "set", cable, "down"], check=True)
    print("cable cut", flush=True)

def worker(file):
    import json
    pid = json.loads(json.loads(file.read_text())["receipt"])["worker"].rpartition(":")[2]
    return names.get(int(pid))

with Client("tcp://10.9.0.1:8786", timeout=60) as client:
    client.wait_for_workers(2, timeout=60)
    import os
    names = {pid: client.scheduler_info()["workers"][place]["name"]
             for place, pid in client.run(os.getpid).items()}
    print(names, flush=True)
    before = sent()
    study(folder / "whole.zarr", client=client, setup=slow)
    used = sent() - before
    assert used > 10_000, used
    killer = threading.Thread(target=cut)
    killer.start()
    found = study(folder / "cut.zarr", client=client, setup=slow)
    killer.join()
    assert found.is_complete
    result = {name: content(folder / f"{name}.zarr") for name in ("whole", "cut")}
    (folder / "result.pickle").write_bytes(pickle.dumps(result))
    os._exit(0)
"""


@pytest.mark.slow
def test_a_cut_cable_costs_no_row(tmp_path, cable):
    """Workers at both ends compute; when the cable is cut, the near one does the rest."""
    pytest.importorskip("distributed", reason="needs pip install 'tiburon[sweep]'")
    driver = tmp_path / "driver.py"
    driver.write_text(DRIVER)
    names = {"python": sys.executable, "driver": driver, "folder": tmp_path}
    env = {**os.environ, "PYTHONPATH": os.pathsep.join(p for p in sys.path if p)}
    done = subprocess.run(
        [*ISOLATED, cable + RUN % names],
        env=env,
        capture_output=True,
        text=True,
        check=False,
        timeout=200,
    )
    assert done.returncode == 0, done.stdout + done.stderr[-3000:]
    assert "cable cut" in done.stdout
    whole = content(study(tmp_path / "reference.zarr").path)
    assert pickle.loads((tmp_path / "result.pickle").read_bytes()) == {"whole": whole, "cut": whole}


@pytest.mark.slow
@pytest.mark.skipif(MPIEXEC is None, reason="needs mpi4py and mpiexec")
def test_ranks_at_both_ends_of_a_cable_that_is_cut(tmp_path, cable):
    """Messages pass over the cable; when it is cut, both ranks end and name each other."""
    pytest.importorskip("mpi4py", reason="needs pip install 'tiburon[mpi]'")
    script = ROOT / "tests" / "parallel" / "ranks.py"
    rank = f"{sys.executable} {script} cable {tmp_path}"
    done = subprocess.run(
        [*ISOLATED, cable + RANKS % {"mpiexec": MPIEXEC, "rank": rank}],
        env={**environment(), **WIRED},
        cwd=ROOT,
        capture_output=True,
        text=True,
        check=False,
        timeout=100,
    )
    found = told_by("cable", 2, tmp_path)
    assert 0 in found, done.stdout + done.stderr[-3000:]
    assert done.returncode == 75, done.stderr[-3000:]
    robot, parts = short_chain()
    whole = tb.simulate(robot, 0.01, q=[0.4] * robot.nq, execution=tb.Execution(partition=parts))
    for number, told in found.items():
        assert told["whole"] == bits_of(whole)
        # every number that the rank sent, and the headers of packets
        assert told["bytes"] > told["sent"] > 0
        assert told["status"] == "lost"
        assert f"rank {1 - number} did not answer" in told["message"]
    assert len({told["place"] for told in found.values()}) == len(found)
