"""Recorded contacts: forces, modes, slip, points and gaps with names and units; their summary."""

import numpy as np
import pytest

import tiburon as tb
from tests.contact_models import CONTACTS

G = 9.81
MASS, SIZE, MU_S, MU_K = 2.0, 0.2, 0.5, 0.4
FLOOR = tb.World(ground=tb.Ground(static_friction=MU_S, kinetic_friction=MU_K))
RECORDED = ("contact_force", "contact_mode", "contact_slip", "contact_point", "contact_gap")


def box():
    inertia = tb.Inertia(MASS, (0, 0, 0), np.eye(3) * 0.02)
    shapes = (tb.Shape(tb.BoxShape((SIZE, SIZE, SIZE))),)
    body = tb.Body("box", "world", joint=tb.Free("box"), inertia=inertia, shapes=shapes)
    return tb.Model("box", [body])


def slide(quantities=(), **options):
    """A box that falls a little and slides askew until it stops, and one that rests beside it."""
    turn = [np.cos(0.3), 0.0, 0.0, np.sin(0.3)]
    q = [[*turn, 0.0, 0.0, SIZE / 2 + 1e-3], [*turn, 1.0, 2.0, SIZE / 2]]
    # the velocity is in body axes
    v = [[0.0, 0.0, 0.0, 0.6, 0.2, 0.0], [0.0] * 6]
    return tb.simulate(
        box(),
        0.3,
        q=q,
        v=v,
        world=FLOOR,
        record=tb.Record(dt=1e-3, quantities=quantities),
        **options,
    )


RUN = slide(RECORDED)


def test_recorded_contacts_have_dimensions_names_and_units():
    data = RUN.data
    points = [f"box/ground[{k}]" for k in range(8)]
    for name, unit in zip(RECORDED, ("N", "1", "m/s", "m", "m"), strict=True):
        assert data[name].attrs["units"] == unit
        assert data[name].dims[:3] == ("time", "case", "contact")
        assert data[name].contact.values.tolist() == points
    assert data["contact_force"].axis.values.tolist() == ["x", "y", "z"]
    assert data["contact_mode"].attrs["flag_meanings"] == "separated slipping sticking"
    assert set(np.unique(data["contact_mode"])) == {0.0, 1.0, 2.0}
    assert set(RECORDED) <= set(RUN.names)


def test_forces_slip_points_and_gaps_are_those_of_a_sliding_box():
    """Coulomb: friction of mu N against the slip; the slip ends, then the box sticks."""
    data = RUN.data.isel(contact=np.flatnonzero(RUN.data["contact_gap"].values[-1, 0] < 0.1))
    force, mode = data["contact_force"].values[:, 0], data["contact_mode"].values[:, 0]
    assert force.shape[1] == 4
    slip, gap = data["contact_slip"].values[:, 0], data["contact_gap"].values[:, 0]
    flying = (mode == 0).all(axis=-1)
    assert flying[1:10].all()
    assert (gap[1:10] > 0.0).all()
    assert not slip[flying].any()
    # four corners are one more than the weight determines: one of them may carry nothing
    loaded = mode > 0
    fast = np.linalg.norm(slip, axis=-1) > 1e-2
    slips = (loaded.sum(axis=-1) >= 3) & (~loaded | ((mode == 1) & fast)).all(axis=-1)
    assert slips.sum() > 20
    weights = loaded[slips] / loaded[slips].sum(axis=-1, keepdims=True)
    total, speed = force[slips].sum(axis=1), np.einsum("tk,tkx->tx", weights, slip[slips])
    # each loaded corner obeys the law by itself
    along = np.linalg.norm(force[slips][..., :2], axis=-1)
    np.testing.assert_allclose(along[5:], MU_K * force[slips][5:, :, 2], atol=1e-5)
    # after the impact of landing the weight alone presses
    total, speed = total[5:], speed[5:]
    np.testing.assert_allclose(total[:, 2], MASS * G, rtol=1e-6)
    direction = speed / np.linalg.norm(speed, axis=-1, keepdims=True)
    np.testing.assert_allclose(total[:, :2], -MU_K * MASS * G * direction[:, :2], rtol=1e-5)
    assert np.abs(gap[slips]).max() < 1e-9
    assert (mode[-1] != 1).all()
    assert (mode[-1] == 2).sum() >= 3
    assert np.abs(slip[-1]).max() < 1e-8
    points = data["contact_point"].values[-1, 0]
    np.testing.assert_allclose(points[:, 2], 0.0, atol=1e-9)
    np.testing.assert_allclose(points.mean(axis=0)[:2], RUN.q[-1, 0, 4:6], atol=1e-9)


def test_summary_shows_shares_of_time_and_the_path_of_slip():
    summary = RUN.part(case=0).contact_summary()
    np.testing.assert_allclose(summary.touching, summary.sticking + summary.slipping)
    mode, slip = RUN.data["contact_mode"].values[:, 0], RUN.data["contact_slip"].values[:, 0]
    np.testing.assert_allclose(summary.slipping, (mode == 1).mean(axis=0))
    speed = np.linalg.norm(slip, axis=-1)
    np.testing.assert_allclose(summary.slip, speed[1:].sum(axis=0) * 1e-3, rtol=0.02)
    # v^2 / (2 mu g), but for the loss of speed in the landing
    assert 0.7 < summary.slip.max() / (0.4 / (2 * MU_K * G)) < 1.0
    text = str(summary)
    assert "slipping" in text
    assert "slip path" in text
    assert "box/ground[3]" in text


@pytest.mark.parametrize("contact", ["rigid", "compliant", "exact"])
def test_all_models_of_contact_record_the_same_way(contact):
    """A hollow ball that slides until it rolls: friction, weight, and the path of its slip."""
    radius, speed = 0.1, 1.0
    inertia = tb.Inertia(MASS, (0, 0, 0), np.eye(3) * MASS * radius**2)
    shapes = (tb.Shape(tb.SphereShape(radius)),)
    body = tb.Body("ball", "world", joint=tb.Free("ball"), inertia=inertia, shapes=shapes)
    stiff = {"normal_stiffness": 1e5, "normal_damping": 500.0} if contact == "compliant" else {}
    world = tb.World(ground=tb.Ground(static_friction=0.3, **stiff))
    run = tb.simulate(
        tb.Model("ball", [body]), 0.3, q=[1, 0, 0, 0, 0, 0, radius], v=[0, 0, 0, speed, 0, 0],
        world=world, contact=CONTACTS[contact], record=tb.Record(quantities=RECORDED),
    )  # fmt: skip
    data = run.data
    at_ten = data.isel(time=10, contact=0)
    # springs of the ground still swing by some thousandths
    exact = 1e-6 if contact != "compliant" else 0.02
    np.testing.assert_allclose(
        at_ten["contact_force"].values, [-0.3 * MASS * G, 0.0, MASS * G], rtol=exact, atol=1e-9
    )
    assert at_ten["contact_mode"] == 1
    assert data["contact_mode"].values[-1, 0] == 2
    # slip ends after v / (mu g (1 + m r^2 / I)); its speed falls linearly
    end = speed / (0.3 * G * 2.0)
    slip = at_ten["contact_slip"].values
    assert slip[0] == pytest.approx(speed * (1.0 - 0.1 / end), rel=0.01)
    assert run.contact_summary().slip[0] == pytest.approx(0.5 * speed * end, rel=0.01)
    assert abs(at_ten["contact_gap"].values) < 1e-3
    assert at_ten["contact_point"].values[2] == pytest.approx(0.0, abs=1e-3)


def test_contacts_of_loaded_runs_and_parts_are_the_same(tmp_path):
    RUN.save(tmp_path / "run.zarr")
    again = tb.load_run(tmp_path / "run.zarr")
    for name in RECORDED:
        np.testing.assert_array_equal(again.get(name).values, RUN.data[name].values)
    part = RUN.part(0.1, 0.2, case=1)
    force = part.get("contact_force").values.sum(axis=1)
    np.testing.assert_allclose(force, [[0, 0, MASS * G]] * len(part), atol=1e-6)


def test_contacts_can_be_plotted():
    figure = RUN.plot("contact_force", "contact_mode", labels="[0]", case=0)
    titles = [axes.get_title(loc="left") for axes in figure.axes]
    assert "contact force" in titles[0]
    assert titles[0].endswith("[N]")


def test_runs_without_contact_refuse_to_record_it():
    with pytest.raises(tb.ModelError, match="record: 'contact_force': expected a run with contact"):
        tb.simulate(box(), 0.1, record=tb.Record(quantities=("contact_force",)))
    run = tb.simulate(box(), 0.1)
    assert "contact_force" not in run.names
    with pytest.raises(tb.ModelError, match="'contact_gap': expected a run with contact"):
        run.get("contact_gap")


def test_reports_list_the_contacts_that_touched(tmp_path):
    text = RUN.part(case=0).report(tmp_path / "run.html").read_text()
    assert "Contacts" in text
    assert "slip path" in text
    touched = np.flatnonzero(RUN.part(case=0).contact_summary().touching)
    assert all(f"box/ground[{k}]" in text for k in touched)


def drop(dt, record_dt, **options):
    """A box bounces on its face between two recorded rows: it falls for 30 ms, rows are 200 ms."""
    method = tb.RK4(dt=dt)
    if isinstance(options.get("contact"), tb.ExactContact):
        method = tb.Dop853(rtol=1e-12, atol=1e-13, dt=dt)
    ground = tb.Ground(**{"static_friction": 0.0, "restitution": 0.5, **options.pop("ground", {})})
    q = [1.0, 0.0, 0.0, 0.0, 0.0, 0.0, SIZE / 2 + 0.05]
    v = [0.0, 0.0, 0.0, 0.0, 0.0, -1.5]
    return tb.simulate(
        box(),
        0.2,
        q=q,
        v=v,
        world=tb.World(ground=ground),
        method=method,
        record=tb.Record(dt=record_dt),
        **options,
    )


def test_peak_forces_include_impacts_between_recorded_rows():
    """Momentum m v (1 + e) in one step of 1 ms, on four corners; rows show no force at all."""
    run = drop(1e-3, 0.2)
    assert not run.get("contact_force").any()
    summary = run.contact_summary()
    speed = np.hypot(1.5, np.sqrt(2 * G * 0.05))
    touched = summary.peak_force > 0.0
    assert touched.sum() == 4
    impulse = summary.peak_force[touched].sum() * 1e-3
    # the weight over the rest of the step adds at most m g dt
    assert impulse == pytest.approx(1.5 * MASS * speed, abs=MASS * G * 1e-3)
    assert not summary.touching.any()
    assert "N" in str(summary)
    # whatever is recorded, each step counts once
    fine = drop(1e-3, 1e-3).contact_summary()
    np.testing.assert_array_equal(summary.peak_force, fine.peak_force)
    assert summary.residual == fine.residual


def test_peaks_of_resumed_runs_are_those_of_whole_runs():
    whole = drop(1e-3, 0.1)
    part = tb.simulate(
        box(),
        0.1,
        q=whole.q[0],
        v=whole.v[0],
        world=whole.world,
        method=tb.RK4(dt=1e-3),
        record=tb.Record(dt=0.1),
    )
    part = part.resume(0.1)
    assert part.z[-1].tobytes() == whole.z[-1].tobytes()
    assert part.contact_summary().peak_force.max() > 1000.0


def test_peak_forces_of_compliant_contact_include_all_steps():
    """Undamped springs on four corners: k d^2 / 2 each is the energy, but for order of the step."""
    stiff = {"restitution": 0.0, "normal_stiffness": 1e5}
    summary = drop(1e-4, 0.2, ground=stiff).contact_summary()
    touched = summary.peak_force > 0.0
    assert touched.sum() == 4
    energy = 0.5 * MASS * (1.5**2 + 2 * G * 0.05)
    depth = np.sqrt(2 * energy / 4e5)
    np.testing.assert_allclose(summary.peak_force[touched], 1e5 * depth, rtol=0.02)


def test_event_driven_runs_report_the_largest_impulse_of_a_collision():
    """Momentum m v (1 + e), shared by four corners."""
    summary = drop(1e-3, 0.2, contact=tb.ExactContact()).contact_summary()
    speed = np.hypot(1.5, np.sqrt(2 * G * 0.05))
    assert summary.peak_impulse.sum() == pytest.approx(1.5 * MASS * speed, rel=1e-9)
    assert "peak impulse" in str(summary)


@pytest.mark.parametrize("contact", ["rigid", "compliant", "exact"])
def test_accelerations_and_reactions_include_contact_forces(contact):
    """A sprung leg on its foot: its hip accelerates as the velocity does, its foot does not."""
    soft = {"normal_stiffness": 1e4, "normal_damping": 100.0} if contact == "compliant" else {}
    world = tb.World(ground=tb.Ground(static_friction=0.8, **soft))
    spring = tb.JointPassive(stiffness=300.0, damping=4.0, rest=-0.3)
    hip = tb.Body("hip", joint=tb.Prismatic("rail", (0, 0, 1)), inertia=tb.Inertia.point(1.5))
    foot = tb.Prismatic("shank", (0, 0, 1), passive=spring)
    foot = tb.Body("foot", "hip", joint=foot, inertia=tb.Inertia.point(0.5))
    leg = tb.Model("leg", [hip, foot], contacts=[tb.ContactPoint("sole", "foot")])
    h = 1e-4
    method = tb.RK4(dt=h)
    if contact == "exact":
        method = tb.Dop853(rtol=1e-12, atol=1e-13, dt=h)
    run = tb.simulate(
        leg,
        0.1,
        q=[0.28, -0.28],
        world=world,
        contact=CONTACTS[contact],
        method=method,
        record=tb.Record(every=1),
    )
    vd = run.get("joint_acceleration").values[-1]
    # forces over a step are those of its middle: off by h / 2 times their rate, 150 N/s at the foot
    np.testing.assert_allclose(vd, (run.v[-1] - run.v[-2]) / h, atol=0.5 * h * 150.0 / 0.5 * 2)
    force = run.get("contact_force").values[-1, 0, 2]
    assert force > 15.0
    assert 1.5 * (vd[0] + G) + 0.5 * (vd.sum() + G) == pytest.approx(force, rel=1e-9)
    # nothing holds the hip on its rail; the spring carries the hip, and presses on the foot
    reaction = run.get("joint_reaction").values[-1]
    np.testing.assert_allclose(reaction[0], np.zeros(6), atol=1e-9)
    np.testing.assert_allclose(reaction[1], [0, 0, 0, 0, 0, -1.5 * (vd[0] + G)], atol=1e-9)
