"""The scripts of the page about sweeps: a stand-in for sbatch runs one, others are checked."""

import os
import re
import subprocess
import sys
from pathlib import Path

import pytest

from tests.parallel.studies import content, study

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
        assert container["args"][0] == f"dask-{part}"
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


def test_scripts_of_the_page_are_python():
    """Blocks that need a cluster are compiled at least."""
    for word in ("SLURMCluster", "Security"):
        compile(block("text", word), "<sweeps.md>", "exec")
