"""Steppers: bits of `simulate`, masked starts, parameters per case, failures, refusals."""

import numpy as np
import pytest

import tiburon as tb

DT, SUBSTEPS, INTERVALS, CASES = 1e-3, 4, 3, 5
ARM = tb.Model("arm", tb.load("panda").bodies[:3])
DOG = tb.load("quadruped")
FLOOR = tb.World(ground=tb.Ground())
SOFT = tb.World(ground=tb.Ground(static_friction=0.6, normal_stiffness=1e4, normal_damping=40.0))


def hopper():
    """Build a trunk on one leg, whose foot is a ball."""
    foot = tb.Shape(tb.SphereShape(0.05), tb.Pose(translation=(0, 0, -0.3)))
    bodies = [
        tb.Body("trunk", joint=tb.Free("trunk"), inertia=tb.Inertia.box(3.0, (0.3, 0.2, 0.1))),
        tb.Body(
            "leg",
            "trunk",
            joint=tb.Revolute("hip", axis=(0, 1, 0)),
            inertia=tb.Inertia.cylinder(0.5, 0.02, 0.3, com=(0, 0, -0.15)),
            shapes=(foot,),
        ),
    ]
    return tb.Model("hopper", bodies, poses={"stand": [1, 0, 0, 0, 0, 0, 0.35, 0]})


METHOD = tb.RK4(dt=DT)


def stepped(model, q=None, v=None, method=METHOD, **options):
    """Return states after some intervals by a stepper, and by `simulate` with the same commands."""
    stepper = tb.stepper(model, method=method, substeps=SUBSTEPS, **options)
    first = state = stepper.start(cases=CASES, q=q, v=v)
    u = np.random.default_rng(3).standard_normal((INTERVALS, CASES, stepper.size))
    for row in u:
        state = stepper.step(state, row).state
    run = tb.simulate(
        model,
        INTERVALS * SUBSTEPS * DT,
        q=first.q,
        v=first.v,
        method=method,
        control=tb.Sampled(
            lambda now: u[min(int(now.time / (SUBSTEPS * DT) + 0.5), INTERVALS - 1)],
            dt=SUBSTEPS * DT,
        ),
        execution=tb.Execution(progress=False),
        record=tb.Record(every=SUBSTEPS),
        **options,
    )
    return state, run


@pytest.mark.parametrize(
    ("model", "options"),
    [
        ("panda", {}),
        (ARM, {"method": tb.SemiImplicitEuler(dt=DT)}),
        (ARM, {"method": tb.PredictorCorrector(points=2, dt=DT)}),
        ("four_bar", {}),
        ("bluerov2_heavy", {"fluid": tb.Water(current=(0.3, 0.0, 0.0))}),
        (hopper, {"world": FLOOR, "method": tb.SemiImplicitEuler(dt=DT)}),
        (hopper, {"world": SOFT}),
    ],
)
def test_states_are_those_of_simulate_in_bits(model, options):
    if model is hopper:
        robot = hopper()
        state, run = stepped(robot, q=robot.poses["stand"], **options)
        assert run.contact_summary().touching.max() > 0.5
    else:
        state, run = stepped(tb.load(model) if isinstance(model, str) else model, **options)
    assert not np.array_equal(run.q[0], run.q[-1])
    for name in ("q", "v", "x"):
        last = np.asarray(getattr(run, name))[-1]
        assert last.tobytes() == getattr(state, name).tobytes(), name
    assert (state.steps == INTERVALS * SUBSTEPS).all()


def test_time_of_each_case_is_its_own():
    """A case that starts again later meets the forces that its own time determines."""

    @tb.traced
    def pushed(state):
        return {"joint_1": np.sin(50.0 * state.time)}

    stepper = tb.stepper(ARM, method=tb.RK4(dt=DT), substeps=SUBSTEPS, control=pushed)
    start = stepper.start(cases=2)
    once = stepper.step(start).state
    mask = np.array([True, False])
    mixed = stepper.step(once, mask=mask, fresh=start).state
    np.testing.assert_array_equal(mixed.steps, [0.0, 2.0 * SUBSTEPS])
    later = stepper.step(mixed).state
    assert later.q[0].tobytes() == once.q[0].tobytes()
    assert later.q[1].tobytes() != once.q[1].tobytes()


def observed(model, q, v, previous_q, target, time):
    return [q - previous_q, v, target, [time]]


def make(**options):
    return tb.stepper(
        ARM,
        method=tb.RK4(dt=DT),
        substeps=SUBSTEPS,
        observe=observed,
        reward=lambda model, q, u: -np.sum(q * q) - np.sum(u * u),
        done=lambda model, v: v[0] > 0.0,
        shapes={"target": 3},
        parameters={"link_3.mass": 3.0},
        **options,
    )


def test_observation_reward_and_end_are_those_of_the_functions():
    stepper = make()
    state = stepper.start(cases=CASES, parameters={"link_3.mass": np.linspace(1.0, 5.0, CASES)})
    generator = np.random.default_rng(1)
    u, target = generator.standard_normal((CASES, ARM.nv)), generator.random((CASES, 3))
    u[2:] *= 10.0
    result = stepper.step(state, u, inputs={"target": target})
    now = result.state
    expected = np.concatenate(
        [now.q - state.q, now.v, target, np.full((CASES, 1), SUBSTEPS * DT)], axis=1
    )
    np.testing.assert_array_equal(result.observation, expected)
    reward = -np.sum(now.q**2, axis=1) - np.sum(u**2, axis=1)
    np.testing.assert_allclose(result.reward, reward, rtol=1e-14)
    np.testing.assert_array_equal(result.done, now.v[:, 0] > 0.0)
    assert result.done.any()
    assert not result.done.all()
    run = tb.simulate(
        ARM,
        SUBSTEPS * DT,
        q=state.q,
        command=u,
        method=tb.RK4(dt=DT),
        parameters={"link_3.mass": np.linspace(1.0, 5.0, CASES)},
        record=tb.Record(every=SUBSTEPS),
        execution=tb.Execution(progress=False),
    )
    assert run.q[-1].tobytes() == now.q.tobytes()


def test_marked_cases_start_again_with_parameters_of_their_own():
    stepper, target = make(), np.zeros((CASES, 3))
    state = stepper.start(cases=CASES, parameters={"link_3.mass": np.ones(CASES)})
    u = np.random.default_rng(2).standard_normal((CASES, ARM.nv))
    plain = stepper.step(state, u, inputs={"target": target})
    mask = np.zeros(CASES, dtype=bool)
    mask[[1, 3]] = True
    fresh = stepper.start(q=np.full((2, ARM.nq), 0.1), parameters={"link_3.mass": [7.0, 8.0]})
    mixed = stepper.step(state, u, mask, fresh, inputs={"target": target})
    np.testing.assert_array_equal(mixed.state.q[mask], fresh.q)
    assert (mixed.reward[mask] == 0.0).all()
    assert not mixed.done[mask].any()
    assert mixed.state.q[~mask].tobytes() == plain.state.q[~mask].tobytes()
    # the next interval is that of a robot with the new mass
    after = stepper.step(mixed.state, u, inputs={"target": target}).state
    alone = stepper.start(q=np.full((2, ARM.nq), 0.1), parameters={"link_3.mass": [7.0, 8.0]})
    alone = stepper.step(alone, u[mask], inputs={"target": target[mask]}).state
    assert after.q[mask].tobytes() == alone.q.tobytes()


def test_a_case_that_diverges_stays_and_leaves_the_others_alone():
    stepper, target = make(), np.zeros((CASES, 3))
    state = stepper.start(cases=CASES)
    u = np.random.default_rng(2).standard_normal((CASES, ARM.nv))
    good = stepper.step(state, u, inputs={"target": target})
    state.v[2] = 1e200
    result = stepper.step(state, u, inputs={"target": target})
    np.testing.assert_array_equal(result.failed, np.arange(CASES) == 2)
    others = ~result.failed
    assert result.state.q[others].tobytes() == good.state.q[others].tobytes()
    assert np.isfinite(result.state.q).all()
    assert result.state.steps[2] == 0.0
    # a marked case does not take the step that would fail
    fresh = stepper.start(cases=1)
    again = stepper.step(state, u, result.failed, fresh, inputs={"target": target})
    assert not again.failed.any()


def test_results_are_written_where_asked_and_batches_agree_with_single_cases():
    stepper, target = make(), np.zeros((CASES, 3))
    state = stepper.start(cases=CASES)
    u = np.random.default_rng(2).standard_normal((CASES, ARM.nv))
    new = stepper.step(state, u, inputs={"target": target})
    room = stepper.step(state, 0.0 * u, inputs={"target": target})
    assert stepper.step(state, u, inputs={"target": target}, out=room) is room
    assert room.state.q.tobytes() == new.state.q.tobytes()
    one = stepper.step(state.rows([3]), u[3:4], inputs={"target": target[3:4]})
    assert one.state.q[0].tobytes() == new.state.q[3].tobytes()
    np.testing.assert_array_equal(one.observation[0], new.observation[3])
    same = stepper.observe(new.state, u, inputs={"target": target})
    np.testing.assert_array_equal(same[:, ARM.nq :], new.observation[:, ARM.nq :])


def test_a_controller_reads_the_action_and_keeps_discrete_states():
    @tb.traced
    class Counting:
        discrete_state_names = ("count",)

        def __call__(self, state):
            wanted = state.sensors["action"] + 0.01 * state.own_z[0]
            return 40.0 * (wanted - state.q) - 2.0 * state.v, [state.own_z[0] + 1.0]

    stepper = tb.stepper(
        ARM, method=tb.RK4(dt=DT), substeps=SUBSTEPS, control=Counting(), action=ARM.nq
    )
    state = stepper.start(cases=2)
    action = np.full((2, ARM.nq), 0.2)
    q, v = state.q, state.v
    for count in range(3):
        force = 40.0 * (action + 0.01 * count - q) - 2.0 * v
        run = tb.simulate(
            ARM,
            SUBSTEPS * DT,
            q=q,
            v=v,
            command=force,
            method=tb.RK4(dt=DT),
            record=tb.Record(every=SUBSTEPS),
            execution=tb.Execution(progress=False),
        )
        state = stepper.step(state, action).state
        q, v = run.q[-1], run.v[-1]
        np.testing.assert_allclose(state.q, q, rtol=0, atol=1e-13)
    assert state.held[0, -1] == 3.0


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: tb.stepper(ARM, method=tb.RK4(dt=DT), events=[]), "events"),
        (
            lambda: tb.stepper(ARM, method=tb.RK4(dt=DT), control=tb.Sampled(len, dt=0.1)),
            "got Sampled",
        ),
        (lambda: tb.stepper(ARM, method=tb.RK4(dt=DT), q=np.zeros(ARM.nq)), "'q'"),
        (lambda: _changed(q=np.zeros((2, ARM.nq), dtype=np.float32)), "state.q.*float32"),
        (lambda: _changed(v=np.zeros((1, ARM.nv))), r"state.v.*\(2, "),
        (lambda: _changed(q=np.zeros((2, 2 * ARM.nq))[:, ::2]), "state.q.*not contiguous"),
        (lambda: _arm().step(_arm().start(cases=2), out=_of_another(2)), "out.state.q"),
        (lambda: _arm().step(_of_another(2).state), "state.q"),
        (
            lambda: tb.stepper(ARM, method=tb.RK4(dt=DT), control=lambda s: s.q),
            "marked with tiburon.traced",
        ),
        (lambda: tb.stepper(ARM, method=tb.RK4(dt=DT), action=3), "a controller that reads it"),
        (lambda: tb.stepper(ARM, method=tb.RK4(dt=DT), substeps=0), "substeps"),
        (
            lambda: tb.stepper(DOG, method=tb.RK4(dt=DT), world=FLOOR, contact=tb.ExactContact()),
            "exact contact",
        ),
        (lambda: tb.stepper(ARM, method=tb.RK4(dt=DT), shapes={"q": 3}), "shapes"),
        (lambda: tb.stepper(ARM, method=tb.RK4(dt=DT), shapes={"goal": 3}), "goal"),
        (lambda: make().start(cases=2, parameters={}), "link_3.mass"),
        (lambda: make().start(cases=2, q=np.zeros((3, ARM.nq))), "cases"),
        (lambda: make().step(make().start(cases=2)), "target"),
        (lambda: _arm().step(_arm().start(cases=2), np.zeros((3, ARM.nv))), "u"),
        (lambda: _arm().step(_arm().start(cases=2), mask=[1, 0]), "mask"),
        (lambda: _arm().step(_arm().start(cases=2), mask=np.array([True, False])), "fresh"),
    ],
)
def test_wrong_arguments_are_refused_with_their_name(call, message):
    with pytest.raises(tb.TiburonError, match=message):
        call()


def _arm():
    return tb.stepper(ARM, method=tb.RK4(dt=DT))


def _changed(**arrays):
    """Take a step from states of two cases in which some arrays are others."""
    stepper = _arm()
    state = stepper.start(cases=2)
    for name, values in arrays.items():
        setattr(state, name, values)
    return stepper.step(state)


def _of_another(cases):
    """Return the result of a step of another robot."""
    stepper = tb.stepper(tb.load("double_pendulum"), method=tb.RK4(dt=DT))
    return stepper.step(stepper.start(cases=cases))


def test_parameters_that_all_cases_share_are_those_of_each():
    """One value for all cases, such as the one that the stepper was made with."""
    gravity = {"world.gravity": (1.0, 2.0, -3.0)}
    stepper = tb.stepper(ARM, method=tb.RK4(dt=DT), substeps=SUBSTEPS, parameters=gravity)
    q = np.random.default_rng(4).standard_normal((CASES, ARM.nq))
    run = tb.simulate(
        ARM,
        SUBSTEPS * DT,
        q=q,
        method=tb.RK4(dt=DT),
        parameters=gravity,
        record=tb.Record(every=SUBSTEPS),
        execution=tb.Execution(progress=False),
    )
    for start in (stepper.start(q=q), stepper.start(q=q, parameters=gravity)):
        assert stepper.step(start).state.q.tobytes() == run.q[-1].tobytes()


def test_paths_of_cases_remain_where_other_parameters_are_given():
    paths = [
        tb.JointPath.through([0.0, 0.5, 1.0], [(0.0,), (a,), (2.0 * a,)], kind="quintic")
        for a in (0.1, 0.5, 1.0)
    ]
    given = {"parameters": {"link_3.mass": 3.0}, "prescribed": {"joint_1": paths}}
    stepper = tb.stepper(ARM, method=tb.RK4(dt=DT), substeps=SUBSTEPS, **given)
    run = tb.simulate(
        ARM,
        SUBSTEPS * DT,
        method=tb.RK4(dt=DT),
        record=tb.Record(every=SUBSTEPS),
        execution=tb.Execution(progress=False),
        **given,
    )
    start = stepper.start(cases=3, parameters={"link_3.mass": np.full(3, 3.0)})
    assert stepper.step(start).state.q.tobytes() == run.q[-1].tobytes()
    assert run.q[-1, 0, 0] != run.q[-1, 2, 0]


def test_a_result_that_is_overwritten_takes_the_parameters_of_the_state():
    stepper = tb.stepper(ARM, method=tb.RK4(dt=DT), parameters={"world.gravity": (0.0, 0.0, 0.0)})
    light = stepper.start(cases=2)
    heavy = stepper.start(cases=2, parameters={"world.gravity": (0.0, 0.0, -30.0)})
    expected = stepper.step(stepper.step(heavy).state).state
    room = stepper.step(light)
    found = stepper.step(stepper.step(heavy, out=room).state).state
    assert found.q.tobytes() == expected.q.tobytes()


def test_a_sampled_controller_that_gives_no_number_fails_its_case():
    @tb.traced
    class Rooted:
        discrete_state_names = ("count",)

        def __call__(self, state):
            return np.sqrt(state.sensors["action"]), [state.own_z[0] + 1.0]

    stepper = tb.stepper(
        ARM,
        method=tb.RK4(dt=DT),
        control=Rooted(),
        action=ARM.nv,
        observe=lambda model, u: u,
    )
    state = stepper.start(cases=3)
    action = np.ones((3, ARM.nv))
    action[1] = -1.0
    result = stepper.step(state, action)
    np.testing.assert_array_equal(result.failed, [False, True, False])
    np.testing.assert_array_equal(result.state.steps, [1.0, 0.0, 1.0])
    np.testing.assert_array_equal(result.state.q[1], state.q[1])
    np.testing.assert_array_equal(result.state.held[1], state.held[1])
    # a case that starts again has not been commanded
    again = stepper.step(state, action, np.array([False, True, False]), stepper.start(cases=1))
    assert not again.failed.any()
    np.testing.assert_array_equal(again.observation, [action[0], 0.0 * action[0], action[0]])


def test_arrays_that_replace_checked_ones_are_checked():
    """States are known again by their arrays: one that was exchanged must be refused."""
    stepper = tb.stepper(ARM, method=tb.RK4(dt=DT), parameters={"link_3.mass": 3.0})
    state = stepper.start(cases=2)
    stepper.step(state)
    name = next(iter(state.parameters))
    for part, wrong in (("v", state.v[:1]), ("steps", np.zeros(2, dtype=np.float32))):
        kept = getattr(state, part)
        setattr(state, part, wrong)
        with pytest.raises(tb.ShapeError, match=f"state.{part}"):
            stepper.step(state)
        setattr(state, part, kept)
    rows = state.parameters[name]
    state.parameters[name] = rows[:, :1]
    with pytest.raises(tb.ShapeError, match=r"state\.parameters"):
        stepper.step(state)
    state.parameters[name] = rows
    stepper.step(state)
