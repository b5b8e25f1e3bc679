"""Trajectories: rows in, names, units and derived quantities out."""

from dataclasses import replace

import numpy as np
import pytest
import xarray

import tiburon as tb
from tests.results import trajectory_samples as samples
from tests.robots import cart_pendulum, double_pendulum, kicked
from tiburon.results.outcome import EventRecord
from tiburon.simulation import recorder as recorder_module
from tiburon.simulation.recorder import Recorder

ROUNDING = 1e-12
"""Relative: kernels and library functions may sum in another order."""


@pytest.mark.parametrize("known", [True, False])
@pytest.mark.parametrize("batch", [(), (3,), (2, 3)])
def test_recorded_rows_are_returned_unchanged(monkeypatch, batch, known):
    """Blocks of unknown number, and portions of any size, lose and change nothing."""
    monkeypatch.setattr(recorder_module, "FIRST_BLOCK", 4)
    run, time, columns = samples.recorded(double_pendulum(), batch=batch, known=known)
    assert np.array_equal(run.time, time)
    for key in ("q", "v", "u"):
        assert np.array_equal(getattr(run, key), columns[key])
    assert np.array_equal(run.array("power"), columns["power"])
    assert run.x.shape == (51, *batch, 0)


def test_fewer_rows_than_planned_are_accepted():
    """A run that ends early has the rows it wrote."""
    model = double_pendulum()
    time, columns = samples.rows(model, 5)
    recorder = Recorder(samples.header(model), rows=1000)
    recorder.append(time, columns, samples.checkpoint)
    run = recorder.finish(samples.outcomes(model), [], samples.checkpoint())
    assert len(run) == 5
    assert np.array_equal(run.q, columns["q"])


def test_rows_of_a_wrong_shape_are_refused():
    """The message names the column, what was expected and what it got."""
    model = double_pendulum()
    time, columns = samples.rows(model, 5)
    recorder = Recorder(samples.header(model), rows=5)
    with pytest.raises(tb.ShapeError, match=r"recorded joint_velocity: expected \(5, 2\)"):
        recorder.append(time, {**columns, "v": columns["v"][:, :1]}, samples.checkpoint)
    del columns["power"]
    with pytest.raises(tb.ShapeError, match="recorded power"):
        recorder.append(time, columns, samples.checkpoint)


def test_dataset_has_names_units_and_the_robot():
    """Users find dimensions, coordinates and units; mixed units stand beside each coordinate."""
    model = cart_pendulum()
    run, _, columns = samples.recorded(model, batch=(3,))
    data = run.data
    assert isinstance(data, xarray.Dataset)
    assert data["joint_position"].dims == ("time", "case", "position")
    assert data["power"].dims == ("time", "case")
    assert data["power"].attrs["units"] == "W"
    assert list(data["velocity"].values) == list(model.v_names)
    assert list(data["joint_position_unit"].values) == ["m", "rad"]
    assert list(data["command_unit"].values) == ["N", "N m"]
    slide = data["joint_velocity"].sel(velocity=model.v_names[0], case=2)
    assert np.array_equal(slide.values, columns["v"][:, 2, 0])
    assert data["time"].attrs["units"] == "s"
    assert list(data["status"].values) == ["finished"] * 3
    assert model.name in data.attrs["model"]


def test_units_follow_the_kind_of_coordinate():
    """Quaternions have no unit, places are in meters, angles in radians."""
    inertia = tb.Inertia(1.0, (0.0, 0.0, 0.0), np.eye(3))
    joints = (tb.Free("a"), tb.Planar("b.x"), tb.Cylindrical("c"), tb.Prismatic("d.angle"))
    bodies = [
        tb.Body(name, parent, joint=joint, inertia=inertia)
        for name, parent, joint in zip("abcd", ("world", *"abc"), joints, strict=True)
    ]
    model = tb.Model("all", bodies)
    run, _, _ = samples.recorded(model, count=2)
    position = run.header.column("q").units
    velocity = run.header.column("v").units
    assert position == ("1",) * 4 + ("m",) * 3 + ("m", "m", "rad") + ("rad", "m") + ("m",)
    angular, linear = "rad/s", "m/s"
    assert velocity == (angular,) * 3 + (linear,) * 3 + (linear, linear, angular) + (
        angular,
        linear,
        linear,
    )


def test_recorded_quantities_of_simulate_are_part_of_the_dataset():
    """The keyword `record` names quantities; "energy" stands for three."""
    run, _, _ = samples.recorded(double_pendulum(), setup={"record": ("energy", "momentum")})
    data = run.data
    assert {"kinetic_energy", "potential_energy", "total_energy", "momentum"} <= set(data)
    kinetic = tb.kinetic_energy(run.model, run.q, run.v)
    assert np.allclose(data["kinetic_energy"], kinetic, rtol=ROUNDING)


@pytest.mark.parametrize("batch", [(), (4,)])
def test_derived_quantities_are_those_of_the_library(batch):
    """Energies, momenta and poses of a run equal those of its states."""
    world = tb.World(gravity=(0.5, 0.0, -3.0))
    run, _, columns = samples.recorded(double_pendulum(), batch=batch, world=world)
    model, q, v = run.model, columns["q"], columns["v"]
    kinetic, potential = tb.kinetic_energy(model, q, v), tb.potential_energy(model, q, world=world)
    names = [body.name for body in model.bodies]
    rotation, origin = tb.forward_kinematics(model, q, names)
    wanted = {
        "kinetic_energy": kinetic,
        "potential_energy": potential,
        "total_energy": kinetic + potential,
        "momentum": tb.momentum(model, q, v),
        "center_of_mass": tb.center_of_mass(model, q),
        "body_position": origin,
        "body_velocity": tb.frame_velocity(model, q, v, names),
    }
    for name, values in wanted.items():
        assert np.allclose(run.get(name), values, rtol=ROUNDING, atol=1e-13), name
    w, x, y, z = np.moveaxis(run.get("body_orientation").values, -1, 0)
    # the last row of the matrix of a quaternion
    assert np.allclose(2 * (x * z - w * y), rotation[..., 2, 0], atol=1e-12)
    assert np.allclose(1 - 2 * (x * x + y * y), rotation[..., 2, 2], atol=1e-12)
    angles = run.get("body_attitude").values.reshape(-1, 3)
    turned = [tb.Pose.from_rpy(tuple(angle)).rotation for angle in angles]
    assert np.allclose(turned, rotation.reshape(-1, 3, 3), atol=1e-12)


def test_accelerations_come_from_commands_and_elements():
    """What a run accelerates by is forward dynamics under commands, friction and wrenches."""
    model = double_pendulum()
    passive = tb.JointPassive(damping=0.3)
    bodies = [
        tb.Body(b.name, b.parent, joint=replace(b.joint, passive=passive), inertia=b.inertia)
        for b in model.bodies
    ]
    damped = tb.Model("damped", bodies)
    elements = tb.elements_of(damped)
    run, _, columns = samples.recorded(damped, count=9, elements=elements)
    q, v, u = columns["q"], columns["v"], columns["u"]
    force = u - 0.3 * v
    assert np.allclose(run.get("joint_force"), force, rtol=1e-12)
    vd = tb.forward_dynamics(model, q, v, force)
    assert np.allclose(run.get("joint_acceleration"), vd, rtol=1e-10)
    carried = tb.joint_reactions(model, q, v, vd)
    reaction = carried.actuator + carried.bearing
    assert np.allclose(run.get("joint_reaction"), reaction, rtol=1e-9, atol=1e-9)


def test_element_wrenches_enter_joint_reactions():
    """A push on the tip reaches the joints, and is not taken for a joint force."""
    model = double_pendulum()
    tip = model.bodies[-1].name
    push = tb.WrenchSchedule("push", tip, (0.0, 1.0), ((0, 0, 0, 1.0, 0, 2.0),) * 2)
    run, _, columns = samples.recorded(model, count=5, elements=(push,))
    q, v, u = columns["q"], columns["v"], columns["u"]
    outside = {tip: np.tile([0.0, 0.0, 0.0, 1.0, 0.0, 2.0], (5, 1))}
    vd = tb.forward_dynamics(model, q, v, u, external_force=outside)
    assert np.allclose(run.get("joint_acceleration"), vd, rtol=1e-10)
    assert np.array_equal(run.get("joint_force").values, u)
    carried = tb.joint_reactions(model, q, v, vd, external_force=outside)
    assert np.allclose(
        run.get("joint_reaction"), carried.actuator + carried.bearing, rtol=1e-9, atol=1e-9
    )


def test_outputs_of_elements_are_available_by_name():
    """A wrench by a table is what the table says at the recorded times."""
    model = double_pendulum()
    rows = ((0, 0, 0, 1.0, 0, 2.0), (0, 0, 0, 3.0, 0, 2.0))
    push = tb.WrenchSchedule("push", model.bodies[-1].name, (0.0, 0.04), rows)
    run, time, _ = samples.recorded(
        model, count=5, batch=(2,), elements=(push,), setup={"record": ("push.fx",)}
    )
    assert "push.fx" in run.names
    wanted = np.tile((1.0 + 2.0 * time / 0.04)[:, None], (1, 2))
    assert np.allclose(run.data["push.fx"], wanted, rtol=1e-14)


def test_unknown_quantities_are_refused_before_the_run():
    """A run of hours must not end with an error about a name."""
    with pytest.raises(
        tb.UnknownNameError, match="quantity to record 'enrgy'; did you mean 'energ"
    ):
        tb.simulate(double_pendulum(), 1.0, record=tb.Record(quantities=["enrgy"]))


def test_rows_of_ended_cases_are_nan():
    """NaN rows give NaN, and do not disturb the others."""
    model = double_pendulum()
    time, columns = samples.rows(model, 20, (3,))
    columns["q"][10:, 1] = np.nan
    columns["v"][10:, 1] = np.nan
    recorder = Recorder(samples.header(model, (3,)), rows=20)
    recorder.append(time, columns, samples.checkpoint)
    run = recorder.finish(samples.outcomes(model, 3, bad=(1,)), [], samples.checkpoint())
    energy = run.get("kinetic_energy").values
    assert np.isnan(energy[10:, 1]).all()
    assert np.isfinite(energy[:10]).all()
    assert np.isfinite(energy[:, [0, 2]]).all()
    assert run.outcome.message == "case 1 diverged"
    assert list(run.status) == ["finished", "diverged", "finished"]


def test_energies_use_the_parameters_of_each_case():
    """Cases of other masses have the energies of robots of these masses."""
    light, heavy = double_pendulum(), double_pendulum(masses=(2.0, 0.3))
    table = np.array([light.plan.parameters, heavy.plan.parameters])
    run, _, columns = samples.recorded(light, batch=(2,), case_parameters={"inertia": table})
    energy = run.get("total_energy").values
    for case, model in enumerate((light, heavy)):
        q, v = columns["q"][:, case], columns["v"][:, case]
        own = tb.kinetic_energy(model, q, v) + tb.potential_energy(model, q)
        assert np.allclose(energy[:, case], own, rtol=1e-12)


def test_part_takes_times_and_cases():
    """Times are inclusive; one case loses its dimension; outcomes and events go along."""
    model = double_pendulum()
    time, columns = samples.rows(model, 51, (4,))
    recorder = Recorder(samples.header(model, (4,)), rows=51)
    recorder.append(time, columns, samples.checkpoint)
    zero = np.zeros(2)
    events = [
        EventRecord("a", 0.15, 1, zero, zero, zero),
        EventRecord("b", 0.2, 2, zero, zero, zero),
    ]
    run = recorder.finish(samples.outcomes(model, 4, bad=(2,)), events, samples.checkpoint())
    part = run.part(0.1, 0.3, case=2)
    assert part.time[0] == time[10]
    assert part.time[-1] == time[30]
    assert np.array_equal(part.q, columns["q"][10:31, 2])
    assert part.status == "diverged"
    assert [event.name for event in part.events] == ["b"]
    assert run.part(case=[0, 3]).batch == (2,)
    assert np.array_equal(run.part(case=[0, 3]).v, columns["v"][:, [0, 3]])
    with pytest.raises(tb.DomainError, match="case: expected indices below 4"):
        run.part(case=4)
    with pytest.raises(tb.RunFileError, match="no checkpoint"):
        part.resume(1.0)


def test_unknown_quantity_names_the_nearest():
    """A slip of the keyboard is answered with the right name."""
    run, _, _ = samples.recorded(double_pendulum(), count=3)
    with pytest.raises(tb.UnknownNameError, match="did you mean 'kinetic_energy'"):
        run.get("kinetic_enrgy")
    with pytest.raises(tb.UnknownNameError, match=r"run\.names lists all"):
        run.array("nonsense")


def test_table_has_a_column_for_each_component():
    """One robot is indexed by time, a batch by time and case."""
    model = cart_pendulum()
    run, time, columns = samples.recorded(model, batch=(3,))
    table = run.to_pandas()
    assert table.index.names == ["time", "case"]
    name = f"joint_position.{model.q_names[1]}"
    assert np.array_equal(table[name].xs(2, level="case"), columns["q"][:, 2, 1])
    assert table.attrs["units"][name] == "rad"
    single, time, columns = samples.recorded(model)
    assert np.array_equal(single.to_pandas().index, time)


def test_csv_keeps_every_bit(tmp_path):
    """Names, units and all digits: what is read is what was recorded."""
    model = cart_pendulum()
    run, time, columns = samples.recorded(model)
    run.to_csv(tmp_path / "run.csv")
    lines = (tmp_path / "run.csv").read_text().splitlines()
    assert lines[0].split(",")[:2] == ["time", f"joint_position.{model.q_names[0]}"]
    assert lines[1].split(",")[:3] == ["[s]", "[m]", "[rad]"]
    numbers = np.array([[float(x) for x in line.split(",")] for line in lines[2:]])
    assert np.array_equal(numbers[:, 0], time)
    assert np.array_equal(numbers[:, 1:3], columns["q"])
    with pytest.raises(tb.RunFileError, match="cannot be written"):
        run.to_csv(tmp_path / "no" / "run.csv")


def test_short_descriptions_name_robot_and_duration():
    """In the terminal and in notebooks: robot, times, cases, how it ended; names are escaped."""
    run, _, _ = samples.recorded(double_pendulum(), batch=(5,), bad=(3,))
    text = repr(run)
    assert "'double_pendulum': 51 times of 5 cases from 0 to 0.5 s" in text
    assert "1 diverged, 4 finished" in text
    html = run._repr_html_()
    assert "double_pendulum" in html
    assert "4 finished, 1 diverged" in html
    odd = tb.Model("<b>", double_pendulum().bodies)
    run, _, _ = samples.recorded(odd, count=2)
    assert "<b>:" not in run._repr_html_()


def test_derived_quantities_equal_those_of_the_states():
    """What `simulate` returns has the energy of its states, to the last row."""
    model = double_pendulum()
    _, v, _ = kicked(model)
    run = tb.simulate(model, 0.2, v=v, method=tb.RK4(dt=1e-3), record=tb.Record(every=10))
    assert run.status == "finished"
    energy = run.get("total_energy").values
    # nothing drives or resists: RK4 at this step keeps energy far better than this
    assert np.ptp(energy) < 1e-6 * np.abs(energy).max()


def test_reactions_of_an_open_loop_are_those_of_the_tree():
    bar = tb.load("four_bar")
    switch = tb.LoopSwitch("switch", bar.loops[0].name, closed=False)
    run = tb.simulate(bar, 0.02, q=bar.poses["home"], elements=[switch])
    tree = bar.without_loops()
    found = tb.joint_reactions(tree, run.q, run.v, run.get("joint_acceleration").values)
    expected = found.actuator + found.bearing
    np.testing.assert_allclose(run.get("joint_reaction"), expected, rtol=0, atol=1e-9)
    # the coupler hangs on its hinge, which it turns about freely
    assert np.abs(expected[-1, 1, 3:]).max() > 1.0
    np.testing.assert_allclose(expected[:, 1, :3], 0.0, atol=1e-9)
