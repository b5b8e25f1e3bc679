"""Parquet tables and MCAP logs: read again by the libraries of their formats."""

import json

import numpy as np
import pytest

import tiburon as tb

ARM = tb.load("panda")


def run(**options):
    q = np.array(ARM.poses["ready"])
    return tb.simulate(
        ARM, 0.05, q=q, record=tb.Record(dt=0.01), execution=tb.Execution(progress=False), **options
    )


def test_parquet_has_all_columns_their_units_and_all_digits(tmp_path):
    parquet = pytest.importorskip(
        "pyarrow.parquet", reason="needs pyarrow: pip install 'tiburon[logs]'"
    )
    one = run()
    one.to_parquet(tmp_path / "run.parquet")
    table = parquet.read_table(tmp_path / "run.parquet")
    expected = one.to_pandas()
    assert table.column_names == ["time", *expected.columns]
    for name in expected.columns:
        assert table[name].to_numpy().tobytes() == expected[name].to_numpy().tobytes()
        unit = expected.attrs["units"][name]
        assert (table.schema.field(name).metadata or {}).get(b"unit", b"").decode() == unit
    many = run(v=np.zeros((3, ARM.nv)))
    many.to_parquet(tmp_path / "many.parquet")
    assert parquet.read_table(tmp_path / "many.parquet").num_rows == 3 * len(many)


def test_mcap_has_states_and_poses_of_bodies(tmp_path):
    pytest.importorskip("mcap", reason="needs mcap: pip install 'tiburon[logs]'")
    from mcap.reader import make_reader

    one = run()
    one.to_mcap(tmp_path / "run.mcap")
    with (tmp_path / "run.mcap").open("rb") as file:
        rows = list(make_reader(file).iter_messages())
    states = [json.loads(m.data) for _, channel, m in rows if channel.topic == "/state"]
    stamps = [m.log_time for _, channel, m in rows if channel.topic == "/state"]
    np.testing.assert_allclose(stamps, 1e9 * one.time, atol=1.0)
    q = [list(state["joint_position"].values()) for state in states]
    assert np.array(q).tobytes() == one.q.tobytes()
    schemas = {channel.topic: schema.name for schema, channel, _ in rows}
    assert schemas == {"/state": "tiburon.State", "/tf": "foxglove.FrameTransforms"}
    last = [json.loads(m.data) for _, channel, m in rows if channel.topic == "/tf"][-1]
    placed = {t["child_frame_id"]: t for t in last["transforms"]}
    _, position = tb.forward_kinematics(ARM, one.q[-1], ["hand"])
    found = [placed["hand"]["translation"][k] for k in "xyz"]
    np.testing.assert_allclose(found, position[0], atol=1e-6)


def test_what_a_log_cannot_hold_is_refused(tmp_path):
    with pytest.raises(tb.DomainError, match="that of one robot"):
        run(v=np.zeros((2, ARM.nv))).to_mcap(tmp_path / "run.mcap")
    with pytest.raises(tb.DomainError, match="times of at least 0 s"):
        run(time=-1.0).to_mcap(tmp_path / "run.mcap")
