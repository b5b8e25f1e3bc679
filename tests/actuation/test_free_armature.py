"""Armature of free joints resists the acceleration of the body origin, as in MuJoCo."""

import numpy as np
import pytest

import tiburon as tb

SPACE = tb.World(gravity=(0.0, 0.0, 0.0))
SPINNING = [3.0, -2.0, 5.0, 1.0, 0.5, -0.3]


def ball(armature):
    inertia = tb.Inertia.sphere(1.0, 0.1)
    body = tb.Body("ball", joint=tb.Free("float", armature=armature), inertia=inertia)
    return tb.Model("ball", [body])


@pytest.mark.parametrize("method", [tb.RK4(dt=1e-3), tb.DormandPrince(rtol=1e-10, atol=1e-12)])
def test_a_turning_body_moves_straight(method):
    """Its velocity in the world is constant, whatever its axes do."""
    run = tb.simulate(ball(0.4), 1.0, v=SPINNING, method=method, world=SPACE)
    np.testing.assert_allclose(run.q[-1, 4:], SPINNING[3:], rtol=0.0, atol=1e-9)


def test_unequal_armatures_keep_energy_and_angular_momentum():
    """Momentum A v turns with the body: kinetic energy stays."""
    armature = (0.0, 0.0, 0.0, 0.1, 0.5, 0.9)
    run = tb.simulate(ball(armature), 1.0, v=SPINNING, world=SPACE)
    v = run.v
    tensor = np.diag(tb.mass_matrix(ball(armature), ball(armature).neutral()))
    energy = 0.5 * (v * v * tensor).sum(axis=1)
    np.testing.assert_allclose(energy, energy[0], rtol=1e-9)
    # momentum in the world
    momentum = [
        np.array(tb.Pose.from_quaternion(q[:4]).rotation) @ (tensor[3:] * w[3:])
        for q, w in zip(run.q, v, strict=True)
    ]
    np.testing.assert_allclose(momentum, momentum[:1] * len(v), rtol=0.0, atol=1e-8)


def test_armatures_of_cases_act():
    """Values of a run replace those of the robot, also where that has none."""
    values = np.array([0.0, 0.4, 1.7])
    given = {"float.armature": np.repeat(values[:, None], 6, axis=1)}
    run = tb.simulate(ball(0.0), 0.5, v=SPINNING, world=SPACE, parameters=given)
    for k in range(3):
        np.testing.assert_allclose(run.q[-1, k, 4:], 0.5 * np.array(SPINNING[3:]), atol=1e-9)


def test_a_body_of_a_file_moves_as_in_mujoco(tmp_path):
    """A lopsided body, whose moments and forces are coupled, under gravity."""
    mujoco = pytest.importorskip("mujoco")
    path = tmp_path / "thrown.xml"
    path.write_text(
        """<mujoco><option integrator="RK4" timestep="0.001"/><worldbody><body>
        <joint type="free" armature="0.3"/><geom type="box" size=".1 .2 .3" pos=".1 .2 .1" mass="1"
        contype="0" conaffinity="0"/></body></worldbody></mujoco>"""
    )
    model = tb.load(path)
    peer = mujoco.MjModel.from_xml_path(str(path))
    data = mujoco.MjData(peer)
    # MuJoCo has the translation first, in world axes
    data.qvel[:] = [*SPINNING[3:], *SPINNING[:3]]
    for _ in range(500):
        mujoco.mj_step(peer, data)
    run = tb.simulate(model, 0.5, v=SPINNING, method=tb.RK4(dt=1e-3), contact=None)
    np.testing.assert_allclose(run.q[-1, 4:], data.qpos[:3], rtol=0.0, atol=1e-8)
    np.testing.assert_allclose(run.q[-1, :4], data.qpos[3:], rtol=0.0, atol=1e-8)
