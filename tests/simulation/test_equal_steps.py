"""The engine of equal steps: rows are written natively, with the bits of single steps."""

import copy
import os
import pickle
import signal

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.robots import double_pendulum
from tiburon.native.row_loop import CheckedLoop, RowLoop
from tiburon.results import store as store_module
from tiburon.simulation import recorder, step_plan
from tiburon.simulation import run as run_module

RANDOM = np.random.default_rng(20261116)

MOTOR = {"resistance": 0.8, "torque_constant": 0.05}


def start(model, shape, speed=1.0):
    """Return random positions and velocities."""
    q = model.integrate(
        np.broadcast_to(model.neutral(), (*shape, model.nq)),
        0.4 * RANDOM.standard_normal((*shape, model.nv)),
    )
    return {"q": q, "v": speed * RANDOM.standard_normal((*shape, model.nv))}


def floating():
    """Return a body that floats and turns, with an arm on it: positions are no vectors."""
    inertia = tb.Inertia(2.0, (0.01, 0.0, -0.02), (0.03, 0.04, 0.05))
    arm = tb.Inertia(0.5, (0.0, 0.1, 0.0), (0.002, 0.001, 0.002))
    return tb.Model(
        "floating",
        [
            tb.Body("base", joint=tb.Free("float"), inertia=inertia),
            tb.Body("arm", parent="base", joint=tb.Revolute("hinge", axis=(1, 0, 0)), inertia=arm),
        ],
    )


def both_ways(monkeypatch, model, duration, **keywords):
    """Run in native calls and by checked calls of one step, compare all, and return the first."""
    native = tb.simulate(model, duration, **keywords)
    with monkeypatch.context() as patch:
        for name in ("run_one", "run_many", "blocked_job"):
            patch.setattr(RowLoop, name, getattr(CheckedLoop, name))
        single = tb.simulate(model, duration, **keywords)
    compare(native, single)
    return native


def compare(one, other):
    """Check that two runs are equal in all bits."""
    for key in ("time", "q", "v", "x", "u"):
        assert np.array_equal(one.array(key), other.array(key), equal_nan=True), key
    assert np.array_equal(one.status, other.status)
    for a, b in zip(one.outcomes, other.outcomes, strict=True):
        assert (a.time, a.message, a.body, a.event) == (b.time, b.message, b.body, b.event)
        assert np.array_equal(a.q, b.q)
        assert np.array_equal(a.v, b.v)
    if not np.any(np.asarray(one.status) == "finished"):
        # how far a run went on without any case depends on the clock
        return
    assert one.checkpoint.step == other.checkpoint.step
    for name, values in one.checkpoint.arrays.items():
        assert np.array_equal(values, other.checkpoint.arrays[name]), name


@pytest.mark.parametrize("every", [1, 3])
@pytest.mark.parametrize("shape", [(), (1,), (5,), (67,), (2, 3)])
def test_rows_are_those_of_single_steps(monkeypatch, shape, every):
    """One robot and batches of odd sizes, every step or some recorded, 50 steps and 1."""
    model = double_pendulum()
    for steps in (50, 1):
        for method in ("rk4", "semi_implicit_euler"):
            both_ways(
                monkeypatch,
                model,
                1e-3 * steps,
                record=tb.Record(every=every),
                method=integrator(method),
                **start(model, shape),
            )


def test_rows_of_a_floating_robot_are_those_of_single_steps(monkeypatch):
    """Turns round differently where operands change places; they do not."""
    model = floating()
    for method in ("rk4", "semi_implicit_euler"):
        both_ways(
            monkeypatch,
            model,
            0.02,
            record=tb.Record(every=1),
            method=integrator(method),
            **start(model, (9,), speed=3.0),
        )


def test_blocks_of_cases_and_threads_change_no_bit(monkeypatch):
    """The last block is not full; two threads share the cases."""
    import tiburon.native.row_loop as row_loop_module

    model = double_pendulum()
    keywords = {"record": tb.Record(every=2), **start(model, (203,))}
    whole = tb.simulate(model, 0.03, execution=tb.Execution(threads=1), **keywords)
    monkeypatch.setattr(row_loop_module, "BLOCK_BYTES", 2000)
    compare(tb.simulate(model, 0.03, execution=tb.Execution(threads=1), **keywords), whole)
    monkeypatch.setattr(row_loop_module, "MIN_THREAD_WORK", 1e-9)
    compare(tb.simulate(model, 0.03, execution=tb.Execution(threads=2), **keywords), whole)


def test_number_of_steps_per_call_changes_no_bit(monkeypatch):
    """Calls that end between two rows, and calls of one step."""
    model = double_pendulum()
    for shape in ((), (5,)):
        keywords = {"record": tb.Record(every=3), **start(model, shape)}
        whole = tb.simulate(model, 0.05, **keywords)
        for most in (1, 4, 7):
            with monkeypatch.context() as patch:
                patch.setattr(step_plan, "PLAN_STEPS", most)
                compare(tb.simulate(model, 0.05, **keywords), whole)


@tb.traced
def lively(state):
    """Push the elbow harder the faster it turns: slow ones turn on, fast ones run away."""
    return {"elbow": 0.05 * state.v[1] * state.v[1] * state.v[1]}


@pytest.mark.parametrize("every", [1, 4])
def test_diverged_cases_end_at_the_step_of_a_single_run(monkeypatch, every):
    """Two of many run away at different times; the others do not notice."""
    model = double_pendulum()
    state = start(model, (41,))
    state["v"][3], state["v"][30], state["v"][31] = (1.0, 8.0), (1.0, 12.0), (0.0, 1e160)
    run = both_ways(
        monkeypatch, model, 0.05, record=tb.Record(every=every), control=lively, **state
    )
    assert np.flatnonzero(run.status == "diverged").tolist() == [3, 30, 31]
    # one at once, two on the way
    ends = [run.outcomes[case].time for case in (31, 30, 3)]
    assert ends[0] == 0.0 < 2e-3 < ends[1] < ends[2]
    assert np.isnan(run.q[-1, [3, 30, 31]]).all()
    assert np.isfinite(run.q[-1, :3]).all()


def test_diverged_single_run_ends_at_the_diverging_step(monkeypatch):
    """So does a run of which nothing is left."""
    model = double_pendulum()
    run = both_ways(
        monkeypatch,
        model,
        0.05,
        record=tb.Record(every=1),
        control=lively,
        q=[0.3, 0.2],
        v=[1.0, 10.0],
    )
    assert run.status == "diverged"
    assert 5 < len(run) < 50


def test_controller_of_a_batch_is_called_between_rows(monkeypatch):
    """Its intervals and those of recording do not fit; rows wait for its commands."""
    model = double_pendulum()

    def control(state):
        return -2.0 * state.v - state.q * state.time

    for hold in (4e-3, 6e-3):
        both_ways(
            monkeypatch,
            model,
            0.05,
            control=tb.Sampled(control, dt=hold),
            record=tb.Record(every=3),
            **start(model, (5,)),
        )


@tb.traced
def spring(state):
    """Hold both joints, the harder the later."""
    return {"shoulder": -3.0 * state.time * state.q[0], "elbow": -2.0 * state.v[1]}


def test_commands_of_a_traced_controller_are_recorded(monkeypatch):
    """They are computed from the rows, one robot or a batch."""
    model = double_pendulum()
    for shape in ((), (5,)):
        run = both_ways(
            monkeypatch,
            model,
            0.02,
            control=spring,
            record=tb.Record(every=2),
            **start(model, shape),
        )
        expected = -3.0 * run.time.reshape(-1, *[1] * len(shape)) * run.q[..., 0]
        np.testing.assert_allclose(run.u[..., 0], expected, rtol=1e-14)


def test_continuous_states_and_parameters_of_cases(monkeypatch):
    """Currents of motors move with the joints; masses differ from case to case."""
    base = double_pendulum()
    motor = tb.Actuator("drive", "elbow", motor=tb.Motor(inductance=2e-3, **MOTOR))
    model = tb.Model("driven", base.bodies, actuators=[motor])
    mass = base.bodies[0].inertia.mass * (1.0 + 0.1 * np.arange(5.0))
    run = both_ways(
        monkeypatch,
        model,
        0.02,
        record=tb.Record(every=1),
        command={"drive": 5.0},
        parameters={f"{base.bodies[0].name}.mass": mass},
        **start(model, (5,)),
    )
    assert run.x.shape == (21, 5, 1)
    assert np.ptp(run.x[-1]) > 0.0


def test_sensors_sample_between_rows(monkeypatch):
    """What they say lasts until they look again."""
    model = double_pendulum()
    sensors = [tb.JointSensor("joints", rate=250.0, noise=0.01, seed=3)]
    run = both_ways(
        monkeypatch, model, 0.03, record=tb.Record(every=1), sensors=sensors, **start(model, (5,))
    )
    assert np.isfinite(run.array("sensed")).all()


def test_robot_without_joints_has_continuous_states():
    """A propeller on a test stand has a lag and nothing that moves."""
    thruster = tb.Thruster("t", body="stand", direction=(1, 0, 0), time_constant=0.2)
    stand = tb.Body("stand", joint=tb.Fixed("bolts"), inertia=tb.Inertia.point(1.0))
    model = tb.Model("stand", [stand], thrusters=[thruster])
    run = tb.simulate(model, 0.1, v=np.zeros((3, 0)), command={"t": 3.0})
    # order four at steps of 1/200 of the lag: 1e-12
    np.testing.assert_allclose(run.x[-1], 3.0 * (1.0 - np.exp(-0.5)), rtol=1e-10)
    with pytest.raises(tb.ModelError, match="expected a joint that moves"):
        tb.simulate(tb.Model("rock", [stand]), 0.1)


@pytest.mark.parametrize("shape", [(), (5,)])
def test_ctrl_c_keeps_the_computed_rows(monkeypatch, shape):
    """The rows up to there, and a state to continue from."""
    model = double_pendulum()
    keywords = {"record": tb.Record(every=1), **start(model, shape)}
    whole = tb.simulate(model, 0.2, **keywords)
    monkeypatch.setattr(run_module, "INTERVAL", 0.0)
    monkeypatch.setattr(step_plan, "PLAN_STEPS", 16)

    def stop(done, duration):
        if done > 0.05:
            os.kill(os.getpid(), signal.SIGINT)

    with pytest.raises(KeyboardInterrupt) as interrupted:
        tb.simulate(model, 0.2, execution=tb.Execution(progress=stop), **keywords)
    run = interrupted.value.run
    assert np.all(np.asarray(run.status) == "interrupted")
    assert 50 < len(run) < 80
    assert np.array_equal(run.q, whole.q[: len(run)])
    compare(run.resume(execution=tb.Execution(progress=False)), whole)


def test_a_batch_that_streams_is_that_in_memory(monkeypatch, tmp_path):
    """Chunks of seven rows: native calls end where a chunk is full, and start from its end."""
    model = double_pendulum()
    keywords = {"record": tb.Record(every=1), **start(model, (5,))}
    whole = tb.simulate(model, 0.05, **keywords)
    for rows in (1, 7):
        row = 8 * (1 + 5 * 6)
        monkeypatch.setattr(store_module, "CHUNK_BYTES", rows * row)
        run = tb.simulate(
            model,
            0.05,
            **{**keywords, "record": tb.Record(every=1, store=tmp_path / f"{rows}.zarr")},
        )
        assert run.store.chunk_rows == rows
        compare(run, whole)


def test_constant_commands_are_expanded_on_first_access():
    """All rows have them, whatever is read first; parts and saved runs as well."""
    model = double_pendulum()
    run = tb.simulate(
        model, 0.02, command=[0.5, -1.0], record=tb.Record(every=1), **start(model, (3,))
    )
    part = run.part(stop=0.01, case=1)
    assert np.array_equal(part.u, np.tile([0.5, -1.0], (11, 1)))
    assert np.array_equal(run.u, np.tile([0.5, -1.0], (21, 3, 1)))
    longer = run.resume(0.01)
    assert np.array_equal(longer.u, np.tile([0.5, -1.0], (31, 3, 1)))


def test_copies_of_a_run_contain_constant_commands():
    """An unread run is pickled completely."""
    model = double_pendulum()
    commands = RANDOM.standard_normal(model.nv)
    run = tb.simulate(model, 0.02, command=commands, **start(model, ()))
    copies = pickle.loads(pickle.dumps(run)), copy.deepcopy(run)
    for one in (*copies, run):
        np.testing.assert_array_equal(one.u, np.tile(commands, (len(run), 1)))


@pytest.mark.parametrize("shape", [(), (3,)])
def test_controller_may_modify_its_arrays(shape):
    """In-place changes such as `state.q -= target` do not affect the run."""
    model = double_pendulum()
    begin = start(model, shape)
    sensors = [tb.JointSensor("joints", rate=50.0)]

    def in_place(state):
        for array in (state.q, state.v, state.u, *state.sensors.values()):
            array -= 0.3
        return -2.0 * state.v

    def aside(state):
        return -2.0 * (state.v - 0.3)

    for more in ({}, {"sensors": sensors}):
        one, other = (
            tb.simulate(model, 0.1, control=c, **begin, **more) for c in (in_place, aside)
        )
        np.testing.assert_array_equal(one.q, other.q)
        np.testing.assert_array_equal(one.v, other.v)
        np.testing.assert_array_equal(one.u, other.u)


def test_outcomes_of_a_batch_are_built_on_first_access():
    """They behave as a tuple does."""
    model = double_pendulum()
    state = start(model, (7,))
    state["v"][2] = 1e160
    run = tb.simulate(model, 0.01, **state)
    outcomes = run.outcomes
    assert len(outcomes) == 7
    assert [o.status for o in outcomes] == run.status.tolist()
    assert outcomes[-1] is outcomes[6]
    assert [o.ok for o in outcomes[1:4]] == [True, False, True]
    assert run.outcome is outcomes[2]
    np.testing.assert_array_equal(outcomes[6].q, run.q[-1, 6])
    with pytest.raises(IndexError):
        outcomes[7]


def test_runs_of_one_robot_share_the_system():
    """Equal surroundings are put together once; others are others."""
    model, other = double_pendulum(), tb.World(gravity=(0.0, 0.0, -1.62))
    state = start(model, ())
    first = tb.simulate(model, 0.01, **state)
    moon = tb.simulate(model, 0.01, world=other, **state)
    again = tb.simulate(model, 0.01, **state)
    compare(first, again)
    assert not np.array_equal(first.v, moon.v)
    free = tb.simulate(model.without_passive().without_limits(), 0.01, **state)
    assert free.header.elements == ()


def test_many_short_runs_keep_few_systems():
    """Those of long ago are forgotten."""
    from tiburon.simulation import surrounded

    model = double_pendulum()
    for gravity in range(surrounded.SYSTEMS + 4):
        tb.simulate(model, 1e-3, world=tb.World(gravity=(0.0, 0.0, -float(gravity))))
    assert len(surrounded._recent.known) == surrounded.SYSTEMS


def test_sparse_rows_are_stored_with_intermediate_checkpoints(monkeypatch, tmp_path):
    """Plans that end between rows hand over checkpoints too, where they are due."""
    steps = []

    class Watched(recorder.RowWriter):
        def wrote(self, times, lasting, *, whole):
            steps.append((float(times[-1]), whole))
            super().wrote(times, lasting, whole=whole)

    monkeypatch.setattr(recorder, "MAX_ROW_DELAY", -1.0)
    monkeypatch.setattr(step_plan, "PLAN_STEPS", 250)
    monkeypatch.setattr(run_module, "RowWriter", Watched)
    found = tb.simulate(
        tb.load("pendulum"),
        1.0,
        record=tb.Record(dt=0.1, store=tmp_path / "run"),
        execution=tb.Execution(progress=False),
    )
    assert len(found) == 11
    assert any(whole for time, whole in steps if time < 0.9)


def plate():
    """Return a plate with nine contact points on soft ground: 78 held values."""
    points = [
        tb.ContactPoint(f"p{i}{j}", "plate", (0.1 * i, 0.1 * j, -0.02), 0.0)
        for i in (-1, 0, 1)
        for j in (-1, 0, 1)
    ]
    body = tb.Body("plate", joint=tb.Free("float"), inertia=tb.Inertia.box(1.0, (0.2, 0.2, 0.04)))
    ground = tb.Ground(static_friction=0.5, normal_stiffness=2e3, normal_damping=5.0)
    return tb.Model("plate", [body], contacts=points), tb.World(ground=ground)


@pytest.mark.parametrize("threads", [1, 2])
def test_steps_of_a_batch_with_many_held_values_equal_those_of_single_cases(threads):
    """Lane-blocked buffers between rows change no bits, whatever the number of cases is."""
    model, world = plate()
    states = start(model, (21,), 0.3)
    states["q"][:, 6] = 0.1 + 0.05 * RANDOM.random(21)
    options = {
        "world": world,
        "method": tb.RK4(dt=1e-3),
        "record": tb.Record(every=7),
        "execution": tb.Execution(progress=False),
    }
    execution = tb.Execution(threads=threads, progress=False)
    batch = tb.simulate(model, 0.3, **states, **{**options, "execution": execution})
    assert batch.z.shape[-1] >= 64
    assert (batch.z[-1] != 0.0).any(axis=-1).all()
    for case in (0, 8, 15, 16, 20):
        one = tb.simulate(model, 0.3, **{k: x[case] for k, x in states.items()}, **options)
        for key in ("q", "v", "z", "u"):
            assert np.array_equal(one.array(key), batch.array(key)[:, case]), key


def test_cases_that_diverge_between_rows_leave_others_their_bits(monkeypatch):
    """Steps that fail in one case are taken again for the others, from lane-blocked buffers."""
    model, world = plate()
    states = start(model, (11,), 0.3)
    states["q"][:, 6] = np.linspace(0.1, 0.5, 11)

    @tb.traced
    def control(state):
        # not a number below a height, which cases reach one after the other or never
        return [0.0] * 5 + [1e-9 * np.sqrt(state.q[6] - 0.12)]

    options = {
        "world": world,
        "method": tb.RK4(dt=1e-3),
        "record": tb.Record(every=9),
        "execution": tb.Execution(progress=False),
    }
    run = both_ways(monkeypatch, model, 0.2, control=control, **states, **options)
    assert 2 < (run.status != "finished").sum() < 11


@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_lane_blocked_values_that_are_put_back_are_read_again(lanes):
    """The cases of a group follow each other element by element; the last case fills its group."""
    plan = step_plan.StepPlan(0, 10, 5, {"q": 3, "u": 70}, 11, (0.0,) * 9, recorded=True)
    plan._lanes["u"] = lanes
    values = {"q": RANDOM.random((11, 3)), "u": RANDOM.random((11, 70))}
    plan.put(3, values)
    for name, expected in values.items():
        assert np.array_equal(plan.at(3)[name], expected)
    groups = plan._groups(3, "u")
    assert np.array_equal(groups[0, 4], values["u"][:lanes, 4])
    assert (groups[-1] == groups[-1][:, [(11 - 1) % lanes]])[:, (11 - 1) % lanes :].all()


def test_runs_that_share_a_plan_have_rows_of_their_own():
    """A plan that the next run takes over leaves no trace of the run before and keeps its rows."""
    robots = [floating(), floating()]
    starts = [start(robots[0], ()) for _ in range(3)]
    runs = [tb.simulate(robots[0], 0.03, **options) for options in starts]
    apart = []
    for options in starts:
        # a run of another length in between takes no part of the plan
        apart.append(tb.simulate(robots[1], 0.03, **options))
        tb.simulate(robots[1], 0.02, **options)
    for one, other in zip(runs, apart, strict=True):
        compare(one, other)


def test_run_that_a_controller_starts_has_a_plan_of_its_own():
    """A run inside a run of the same robot and steps changes no bit of it."""
    model = floating()
    outer, inner = start(model, ()), start(model, ())
    alone = tb.simulate(model, 0.02, **inner)
    nested = []

    def control(state):
        nested.append(tb.simulate(model, 0.02, **inner))
        return {}

    plain = tb.simulate(model, 0.02, **outer)
    compare(tb.simulate(model, 0.02, control=tb.Sampled(control, dt=0.001), **outer), plain)
    for run in nested:
        compare(run, alone)
