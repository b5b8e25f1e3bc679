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


def test_loops_that_cannot_close_are_springs(tmp_path):
    """No position closes them: a warning says which loop stays open, and by how much."""
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
    with pytest.warns(tb.ModelWarning, match=r"cannot start closed .*'far'|'hold'.* by springs"):
        run = tb.simulate(broken, 0.02)
    assert run.outcome.status == "finished"
    hard = [replace(loop, may_start_open=False) for loop in apart]
    with pytest.raises(tb.TiburonError, match=r"'far'|'hold'"):
        tb.simulate(tb.Model(model.name, model.bodies, model.frames, loops=hard), 0.02)


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


TETHERED = """
<mujoco model="tethered">
  <compiler angle="radian"/>
  <option timestep="0.002"/>
  <worldbody>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" damping="{damping}" range="{low} 3" limited="true"/>
      <geom type="capsule" fromto="0 0 0 0.5 0 0" size="0.03"/>
      <body name="middle" pos="0.5 0 0">
        <joint name="elbow" axis="0 1 0" damping="{damping}"/>
        <geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.03"/>
        <body name="lower" pos="0.25 0 0">
          <joint name="wrist" axis="0 1 0" damping="{damping}"/>
          <geom type="capsule" fromto="0 0 0 0.25 0 0" size="0.03"/>
          <site name="tip" pos="0.25 0 0"/>
        </body>
      </body>
    </body>
    <site name="pin" pos="{reach} 0 1"/>
  </worldbody>
  <equality><connect site1="tip" site2="pin"/></equality>
</mujoco>
"""


@pytest.mark.parametrize(
    ("low", "damping", "fold"), [(-3.0, 0.5, np.pi), (0.3, 0.5, 0.0), (0.3, 40.0, 0.0)]
)
def test_equalities_that_cannot_hold_at_the_start_are_springs_as_in_mujoco(
    tmp_path, low, damping, fold
):
    """An arm pinned at its tip: folded in a line, which is singular, or beyond its own limit.

    Damping that steps of 2 ms do not resolve acts at their ends, as the springs do.
    """
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "tethered.xml"
    reach = 0.5 if fold else 1.0
    path.write_text(TETHERED.format(low=low, damping=damping, reach=reach))
    model, world = tb.load(path), tb.load_world(path)
    start = np.array([0.0, fold, fold])
    with pytest.warns(tb.ModelWarning) as caught:
        run = tb.simulate(
            model,
            10.0,
            q=start,
            world=world,
            method=tb.RK4(dt=2e-3),
            execution=tb.Execution(progress=False),
        )
    assert any("its loops cannot start closed" in str(one.message) for one in caught)
    assert run.outcome.status == "finished"
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    data.qpos[:] = start
    mujoco.mj_step(peer, data, nstep=5000)
    # both hang by springs of the same time constant; how masses weigh in them differs, and stops of
    # MuJoCo are soft, too
    assert np.abs(run.v[-1]).max() < 5e-2 + 2.0 * np.abs(data.qvel).max()
    assert np.abs(run.q[-1] - data.qpos).max() < 0.15


def test_springs_across_loops_act_together_with_contacts_and_fast_joints():
    """A chain of four links, closed by stiff springs, falls onto the ground as the closed one."""
    link = tb.Inertia.box(0.5, (0.3, 0.05, 0.05))
    box = (tb.Shape(tb.BoxShape((0.3, 0.05, 0.05)), pose=tb.Pose(translation=(0.15, 0, 0))),)
    end = tb.Pose(translation=(0.3, 0.0, 0.0))
    slow = tb.JointPassive(damping=5.0)
    bodies = [tb.Body("a", joint=tb.Free("a"), inertia=link, shapes=box)]
    for name, parent in (("b", "a"), ("c", "b"), ("d", "c")):
        joint = tb.Revolute(name, (0, 1, 0), pose=end, passive=slow)
        bodies.append(tb.Body(name, parent, joint=joint, inertia=link, shapes=box))
    frames = [tb.Frame("tip", "d", end)]
    loop = tb.LoopClosure("pin", "a", "tip", tb.Revolute("pin", (0, 1, 0)))
    model = tb.Model("ring", bodies, frames=frames, loops=[loop])
    q = tb.assemble(model, [1, 0, 0, 0, 0, 0, 0.5, 1.3, 1.8, 1.3], hold=["a"]).q
    floor = tb.World(ground=tb.Ground(static_friction=0.6))
    how = {"q": q, "world": floor, "method": tb.RK4(dt=1e-3)}
    closed = tb.simulate(model, 0.6, **how)
    assert closed.contact_summary().peak_force.max() > 1.0
    apart = []
    for k in (1e5, 1e7):
        run = tb.simulate(model, 0.6, loops=tb.Penalty(k, 2e-2 * k), **how)
        assert run.outcome.status == "finished"
        apart.append(np.abs(run.q[-1] - closed.q[-1]).max())
    assert apart[1] < 2e-3
    assert apart[1] < 0.3 * apart[0]


def test_springs_of_each_constraint():
    model = tb.load("four_bar")
    rows = len(tb.constraint_residual(model, model.poses["home"]))
    q, v = model.poses["home"], np.zeros(model.nv)
    how = {"q": q, "v": v, "method": tb.RK4(dt=2e-3)}
    alike = tb.simulate(model, 0.05, loops=tb.Penalty((1e5,) * rows, (700.0,) * rows), **how)
    assert np.array_equal(alike.q, tb.simulate(model, 0.05, loops=tb.Penalty(1e5, 700.0), **how).q)
    with pytest.raises(tb.TiburonError, match=rf"one per constraint \({rows}\), got 2 numbers"):
        tb.simulate(model, 0.05, loops=tb.Penalty((1e5, 1e5)), **how)
