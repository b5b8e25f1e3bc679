"""Loops of files whose constraints are soft: runs close them at their start, and say so."""

import warnings
from dataclasses import replace

import numpy as np
import pytest

import tiburon as tb
from tiburon.functions.assembly import closed_start

PAIR = """<mujoco model="pair"><option><flag contact="disable"/></option><worldbody>
<body name="left"><joint name="turn" axis="0 1 0"/><geom type="capsule" size=".02"
  fromto="0 0 0 0 0 -.5"/><site name="tip" pos="0 0 -.5"/></body>
<body name="right" pos=".3 0 0"><joint name="slide" type="slide" axis="0 0 1"/>
  <joint name="swing" axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 0 0 -.5"/>
  <site name="end" pos="0 0 -.5"/></body></worldbody>
<equality>{equality}</equality></mujoco>"""

EQUALITIES = {
    "connect": '<connect name="hold" site1="tip" site2="end"/>',
    "joint": '<joint name="hold" joint1="turn" joint2="swing" polycoef="0.3 1 0.2 0 0"/>',
}


@pytest.mark.parametrize("equality", EQUALITIES.values(), ids=EQUALITIES)
def test_a_file_with_open_equalities_runs(tmp_path, equality):
    """The run closes them, and names the equality, how far it was open and what moved most."""
    pytest.importorskip("mujoco")
    path = tmp_path / "pair.xml"
    path.write_text(PAIR.format(equality=equality))
    model = tb.load(path)
    with pytest.warns(
        tb.ModelWarning, match=r"'pair': loops were open at the start \('hold' by 0.3 .* moved most"
    ):
        run = tb.simulate(model, 0.02)
    assert np.abs(tb.constraint_residual(model, run.q[0])).max() < 1e-9
    # the nearest closed position, not any other
    assert np.abs(run.q[0]).max() < 0.6


def soft_four_bar():
    model = tb.load("four_bar")
    return model, tb.Model(
        model.name,
        model.bodies,
        model.frames,
        loops=[replace(loop, may_start_open=True) for loop in model.loops],
        poses=model.poses,
    )


def test_only_loops_that_may_start_open_are_closed():
    """Others are refused, as before; closed ones keep their bits, without a warning."""
    rigid, soft = soft_four_bar()
    home = np.array(rigid.poses["home"])
    q = home + np.array([0.1, 0.0, 0.0])
    rest = np.zeros((2, 3))
    with pytest.raises(tb.DomainError, match="closed loops"):
        closed_start(rigid, np.array([q, home]), rest, 0.0)
    with pytest.warns(tb.ModelWarning, match=r"at the start in 1 of 2 cases \('closure' by"):
        found = closed_start(soft, np.array([q, home]), rest, 0.0)
    np.testing.assert_array_equal(found.q[1], home)
    assert np.abs(tb.constraint_residual(soft, found.q)).max() < 1e-9
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        closed_start(soft, home[None], rest[:1], 0.0)


def test_velocities_of_closed_starts_keep_the_loops_closed():
    """A velocity is projected where the position was moved."""
    _, soft = soft_four_bar()
    q = np.array(soft.poses["home"]) + np.array([0.1, 0.0, 0.0])
    with pytest.warns(tb.ModelWarning, match="open at the start"):
        found = closed_start(soft, q[None], np.array([[1.0, 0.0, 0.0]]), 0.0)
    rates = tb.loop_jacobian(soft, found.q[0]) @ found.v[0]
    assert np.abs(rates).max() < 1e-9
    assert np.abs(found.v).max() > 0.1


def test_loops_that_cannot_close_are_refused(tmp_path):
    """No position closes them: the error says which loop stays open, and by how much."""
    pytest.importorskip("mujoco")
    path = tmp_path / "pair.xml"
    path.write_text(
        PAIR.format(equality='<connect name="hold" body1="left" anchor="0 0.2 0"/>').replace(
            "<equality>", '<equality><connect name="far" body1="left" anchor="3 0 0"/>'
        )
    )
    model = tb.load(path)
    apart = [replace(loop, second="right") for loop in model.loops]
    broken = tb.Model(model.name, model.bodies, model.frames, loops=apart)
    with pytest.raises(tb.LoopError, match=r"'far'|'hold'"):
        tb.simulate(broken, 0.02)


def test_native_files_keep_the_mark(tmp_path):
    """Whether a loop may start open is part of the model."""
    pytest.importorskip("mujoco")
    for name, equality in EQUALITIES.items():
        path = tmp_path / f"{name}.xml"
        path.write_text(PAIR.format(equality=equality))
        model = tb.load(path)
        assert model.loops[0].may_start_open
        assert tb.save(model, tmp_path / f"{name}.toml") == ()
        assert tb.load(tmp_path / f"{name}.toml") == model
        text = (tmp_path / f"{name}.toml").read_text()
        wrong = tmp_path / "wrong.toml"
        wrong.write_text(text.replace("may_start_open = true", "may_start_open = 3"))
        with pytest.raises(tb.ModelFileError, match="may_start_open must be true or false, got 3"):
            tb.load(wrong)
