"""Runs in parts: the same bits in one process and in threads, and what is refused."""

import threading

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.loops.parallel_robots import parallel_robot
from tests.loops.test_star_singular import BENT, arms_on_load, stretched
from tests.parallel.test_partition import chain
from tests.robots import kicked
from tests.tolerances import ALGEBRA, assert_close
from tiburon.loops.like_parts import like_parts
from tiburon.native import code
from tiburon.parallel.branches import Branch, branch_layout
from tiburon.parallel.exchange import _Meeting, _Thread


def four_bar_like():
    """Return the planar platform, its home pose, and its parts."""
    robot = tb.load("planar_3rrr")
    return robot, tb.partition(robot, "legs")


def same(a, b):
    """Return whether two runs have the same bits in all rows."""
    return all(
        np.array_equal(a.array(key), b.array(key), equal_nan=True)
        for key in ("time", "q", "v", "u")
    )


@pytest.mark.parametrize("method", ["rk4", "dopri5", "semi_implicit_euler"])
def test_threads_have_the_bits_of_one_process(method):
    robot = chain(9)
    parts = tb.partition(robot, cuts=["joint_3", "joint_6"])
    q = np.linspace(0.2, 0.9, robot.nq)
    one = tb.simulate(
        robot, 0.05, q=q, method=integrator(method), execution=tb.Execution(partition=parts)
    )
    for threads in (1, 2, 3):
        found = tb.simulate(
            robot,
            0.05,
            q=q,
            method=integrator(method),
            execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(threads)),
        )
        assert found.outcome.status == "finished"
        assert same(found, one)
    whole = tb.simulate(robot, 0.05, q=q, method=integrator(method))
    # the motion amplifies rounding a little
    assert np.abs(one.q - whole.q).max() < 1e-10


def test_loops_across_parts_stay_closed_and_keep_their_energy():
    robot, parts = four_bar_like()
    one = tb.simulate(robot, 0.2, execution=tb.Execution(partition=parts))
    found = tb.simulate(
        robot, 0.2, execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(4))
    )
    assert same(found, one)
    energy = tb.kinetic_energy(robot, found.q, found.v) + tb.potential_energy(robot, found.q)
    assert np.ptp(energy) < 1e-6 * np.abs(energy).max()
    residual = [np.abs(tb.constraint_residual(robot, q)).max() for q in found.q]
    assert max(residual) < 1e-10


@pytest.mark.parametrize(
    "seed", [pytest.param(k, marks=pytest.mark.slow) for k in range(1, 6)] + [0]
)
def test_random_closed_mechanisms_with_random_cuts_have_the_same_bits(seed):
    rng = np.random.default_rng(seed)
    robot, q = parallel_robot(rng, 2 + seed % 3, planar=bool(seed % 2), wet=seed > 3)[:2]
    joints = [body.joint.name for body in robot.plan.bodies if body.parent >= 0]
    count = int(rng.integers(1, min(5, len(joints)) + 1))
    parts = tb.partition(robot, cuts=sorted(rng.choice(joints, size=count, replace=False)))
    v = tb.project_velocity(robot, q, 0.2 * rng.standard_normal(robot.nv))
    how = {"q": q, "v": v, "fluid": tb.Water() if seed > 3 else None}
    one = tb.simulate(robot, 0.01, execution=tb.Execution(partition=parts), **how)
    for threads in (2, 3, 4):
        exchange = tb.ThreadExchange(threads)
        assert same(
            tb.simulate(
                robot, 0.01, execution=tb.Execution(partition=parts, exchange=exchange), **how
            ),
            one,
        )
    # 10 steps of motions that amplify rounding
    assert np.abs(one.q - tb.simulate(robot, 0.01, **how).q).max() < 1e-9


LEGGED = ["quadruped", "planar_3rrr", "aquarobot", "four_pumas", "stewart"]


def moving(name):
    """Return a robot, its legs as parts, and how it moves; a hexapod in a current."""
    robot, rng = tb.load(name), np.random.default_rng(0)
    if robot.loops:
        q = np.array(robot.poses.get("home", robot.neutral()))
        v = tb.project_velocity(robot, q, 0.3 * rng.standard_normal(robot.nv))
    else:
        q, v = robot.random_state(rng)
        v = 0.2 * v
    fluid = tb.Water(current=(0.3, 0.1, 0.0)) if name == "aquarobot" else None
    return robot, tb.partition(robot, "legs"), {"q": q, "v": v, "fluid": fluid, "contact": None}


@pytest.mark.parametrize(
    "name", [*LEGGED[:2], *(pytest.param(x, marks=pytest.mark.slow) for x in LEGGED[2:])]
)
def test_legs_and_arms_have_the_same_bits_in_lanes_and_in_threads(name):
    """One process computes like legs in lanes, in another kernel than threads have.

    Iterations for dry friction of joints have the same bits with any number of threads, and those
    of one process to rounding.
    """
    robot, parts, how = moving(name)
    one = lanes = tb.simulate(robot, 0.01, execution=tb.Execution(partition=parts), **how)
    if any(joint.passive is not None and joint.passive.friction for joint in robot.joints):
        exchange = tb.ThreadExchange(1)
        one = tb.simulate(
            robot, 0.01, execution=tb.Execution(partition=parts, exchange=exchange), **how
        )
        for ours, theirs in ((lanes.q, one.q), (lanes.v, one.v)):
            np.testing.assert_allclose(ours, theirs, rtol=0.0, atol=1e-14)
        smooth = robot.without_passive("friction")
        cut = tb.partition(smooth, "legs")
        alone = tb.simulate(smooth, 0.01, execution=tb.Execution(partition=cut), **how)
        apart = tb.Execution(partition=cut, exchange=exchange)
        assert same(tb.simulate(smooth, 0.01, execution=apart, **how), alone)
    for threads in (1, 2, 4):
        found = tb.simulate(
            robot,
            0.01,
            execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(threads)),
            **how,
        )
        assert found.outcome.status == "finished"
        assert same(found, one), threads
    # the recursion of the undivided robot, 10 steps
    assert np.abs(one.q - tb.simulate(robot, 0.01, **how).q).max() < 1e-13
    # as cut at the same joints, in whatever way
    again = tb.partition(robot, cuts=parts.cuts) if parts.cuts else parts
    assert same(tb.simulate(robot, 0.01, execution=tb.Execution(partition=again), **how), lanes)


def leg_layout(model):
    """The trunk and legs of a robot."""
    roots = [body.index for body in model.plan.bodies if body.parent == 0]
    return branch_layout(model, roots)


def test_legs_at_right_angles_are_like_those_between_them():
    """A kernel for one case computes the six legs of aquarobot, 60 degrees apart, at once."""
    model = tb.load("aquarobot")
    parts = [Branch(share.plan_of(model.plan), None) for share in leg_layout(model).branches]
    (group,) = like_parts(parts, [None] * len(parts))
    assert group.places == (0, 1, 2, 3, 4, 5)
    # made again from numbers, each leg is where it was
    q = kicked(model, seed=3)[0]
    for part, own, share in zip(parts, group.numbers, leg_layout(model).branches, strict=True):
        made = group.make(own).plan
        for body, same in zip(part.plan.bodies, made.bodies, strict=True):
            angles = q[list(share.q)][body.q].tolist()
            found, expected = same.transform(angles), body.transform(angles)
            assert_close(found.translation, expected.translation, ALGEBRA)
            assert_close(found.rotation, expected.rotation, ALGEBRA)


def test_a_leg_of_a_tree_sends_its_articulated_inertia():
    robot, parts, how = moving("quadruped")
    run = tb.simulate(
        robot, 0.01, execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2)), **how
    )
    legs = parts.names[1:]
    assert [(m.phase, m.part, m.numbers, m.times) for m in run.messages] == [
        (phase, leg, numbers, 40)
        for phase, numbers in (("carried", 27), ("results", 3))
        for leg in legs
    ]
    assert parts.numbers == (0, 27, 27, 27, 27)


def test_singular_arms_are_computed_by_all_threads():
    """What an arm keeps does not travel; a wrist whose axes coincide makes its arm singular."""
    robot, q = arms_on_load(np.random.default_rng(11), [stretched("wrist"), BENT + 0.1])
    parts = tb.partition(robot, "legs")
    assert parts.has_arms
    how = {"q": q, "contact": None}
    one = tb.simulate(robot, 0.002, execution=tb.Execution(partition=parts), **how)
    two = tb.simulate(
        robot, 0.002, execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2)), **how
    )
    assert one.outcome.status == "finished"
    assert same(one, two)
    assert np.abs(one.q - tb.simulate(robot, 0.002, **how).q).max() < 1e-12


def test_messages_are_counted():
    robot = chain(9)
    parts = tb.partition(robot, cuts=["joint_3", "joint_6"])
    run = tb.simulate(
        robot, 0.01, execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2))
    )
    evaluations = 4 * 10
    told = [(m.phase, m.part, m.sender, m.receivers, m.numbers, m.times) for m in run.messages]
    owners = parts.owners(2)
    # three joints before one handle; three joints and a base with two; three and a base with one
    sizes = {"handles": (15 + 6, 21 + 36 + 15 + 12, 21 + 6), "results": (3, 3, 3)}
    assert told == [
        (phase, part, owner, (1 - owner,), numbers, evaluations)
        for phase, counts in sizes.items()
        for part, owner, numbers in zip(parts.names, owners, counts, strict=True)
    ]
    assert tb.simulate(robot, 0.01, execution=tb.Execution(partition=parts)).messages == ()


def test_controller_in_python_is_called_by_the_first_alone():
    robot = chain(6)
    parts = tb.partition(robot, cuts=["joint_3"])
    callers = set()

    def control(state):
        callers.add(threading.current_thread().name)
        return -0.02 * state.v + 0.1 * np.sin(3.0 * state.time)

    run = tb.simulate(
        robot,
        0.1,
        execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2)),
        control=control,
    )
    assert run.outcome.status == "finished"
    assert len(callers) == 1
    assert same(
        run, tb.simulate(robot, 0.1, execution=tb.Execution(partition=parts), control=control)
    )
    commands = [m for m in run.messages if m.phase == "commands"]
    assert [(m.sender, m.numbers, m.times) for m in commands] == [(0, robot.nv, 11)]


def test_controller_may_simulate_another_robot():
    robot, other = chain(4), chain(3)
    parts = tb.partition(robot, cuts=["joint_2"])

    def control(state):
        ahead = tb.simulate(other, 0.01, execution=tb.Execution(progress=False))
        return 0.01 * np.ones(4) * ahead.q[-1, 0]

    run = tb.simulate(robot, 0.02, execution=tb.Execution(partition=parts), control=control)
    assert run.outcome.status == "finished"
    threads = tb.ThreadExchange(2)
    assert same(
        tb.simulate(
            robot, 0.02, execution=tb.Execution(partition=parts, exchange=threads), control=control
        ),
        run,
    )


def test_penalty_forces_at_loops():
    robot, parts = four_bar_like()
    how = {"loops": tb.Penalty(1e4), "method": tb.RK4(dt=1e-4)}
    one = tb.simulate(robot, 0.02, execution=tb.Execution(partition=parts), **how)
    assert same(
        tb.simulate(
            robot,
            0.02,
            execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2)),
            **how,
        ),
        one,
    )
    whole = tb.simulate(robot, 0.02, **how)
    assert np.abs(one.q - whole.q).max() < 1e-10


def test_events_stop_all_threads_alike():
    robot = chain(6)
    parts = tb.partition(robot, cuts=["joint_3"])
    event = tb.Event("low", lambda state: state.q[0] - 0.3, terminal=True)
    q = np.full(robot.nq, 0.5)
    one = tb.simulate(robot, 1.0, q=q, events=[event], execution=tb.Execution(partition=parts))
    assert one.outcome.status == "event"
    found = tb.simulate(
        robot,
        1.0,
        q=q,
        events=[event],
        execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2)),
    )
    assert same(found, one)
    assert found.outcome.time == one.outcome.time


@pytest.mark.parametrize("method", ["rk4", "dopri5"])
def test_threads_compile_their_common_step_once(method, monkeypatch):
    """Which parts a thread computes is a parameter: the others wait for the code of the first."""
    monkeypatch.setenv("TIBURON_CACHE_DIR", "off")
    texts, compiled = [], code.compile_module

    def noted(text, **options):
        texts.append(text)
        return compiled(text, **options)

    monkeypatch.setattr(code, "compile_module", noted)
    code.forget_codes()
    robot = chain(5)
    parts = tb.partition(robot, cuts=["joint_2"])
    q = np.linspace(0.2, 0.9, robot.nq)
    tb.simulate(
        robot,
        0.01,
        q=q,
        method=integrator(method),
        execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2)),
    )
    assert texts
    assert len(set(texts)) == len(texts)


def test_run_in_threads_resumes_in_one_process(tmp_path):
    robot = chain(6)
    parts = tb.partition(robot, cuts=["joint_3"])
    q = np.full(robot.nq, 0.5)
    whole = tb.simulate(robot, 0.1, q=q, execution=tb.Execution(partition=parts))
    path = tmp_path / "run.zarr"
    tb.simulate(
        robot,
        0.05,
        q=q,
        execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2)),
        record=tb.Record(store=path),
    )
    found = tb.load_run(path)
    again = found.resume(0.05, execution=tb.Execution(partition=parts))
    assert same(again, whole)
    on_two = tb.simulate(robot, 0.05, q=q, execution=tb.Execution(partition=parts))
    assert same(
        on_two.resume(0.05, execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2))),
        whole,
    )
    with pytest.raises(tb.RunFileError, match="joint_3"):
        on_two.resume(0.05)
    with pytest.raises(tb.RunFileError, match="joint_2"):
        on_two.resume(0.05, execution=tb.Execution(partition=tb.partition(robot, cuts=["joint_2"])))


def test_thread_that_does_not_answer_is_named():
    meeting = _Meeting(3, patience=0.05)
    failed = []
    # nobody's patience begins before both have come, however loaded the machine is
    arrived, wait = threading.Barrier(2), meeting.barrier.wait

    def wait_together(patience):
        arrived.wait(60.0)
        wait(patience)

    meeting.barrier.wait = wait_together

    def work(rank):
        try:
            _Thread(meeting, rank).gather(np.zeros(3), [1, 1, 1])
        except tb.PartnerError as error:
            failed.append(str(error))

    threads = [threading.Thread(target=work, args=(rank,)) for rank in (0, 2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join(60.0)
    assert len(failed) == 2
    assert all("thread 1 did not answer" in text for text in failed)


def test_lost_partner_ends_the_run_with_its_last_state(monkeypatch):
    robot = chain(6)
    parts = tb.partition(robot, cuts=["joint_3"])
    gather = _Thread.gather
    count = [0]

    def failing(self, values, counts):
        count[0] += 1
        if count[0] > 400:
            raise tb.PartnerError("thread 1 did not answer for 60 s")
        gather(self, values, counts)

    monkeypatch.setattr(_Thread, "gather", failing)
    run = tb.simulate(
        robot, 1.0, execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(1))
    )
    assert run.outcome.status == "lost"
    assert "thread 1 did not answer" in run.outcome.message
    assert 0.0 < run.outcome.time < 1.0
    assert np.isfinite(run.outcome.q).all()
    monkeypatch.undo()
    # it goes on from its last state
    again = run.resume(execution=tb.Execution(partition=parts))
    assert again.outcome.status == "finished"
    assert same(again, tb.simulate(robot, 1.0, execution=tb.Execution(partition=parts)))


def test_threads_that_start_different_runs_are_refused(monkeypatch):
    from tiburon.simulation import simulate as module

    robot = chain(4)
    parts = tb.partition(robot, cuts=["joint_2"])
    digest = module.run_digest
    seen = []

    def differing(*given):
        seen.append(1)
        return digest(*given)[:-1] + str(len(seen) % 2)

    monkeypatch.setattr(module, "run_digest", differing)
    with pytest.raises(tb.PartnerError, match="another run"):
        tb.simulate(
            robot, 0.01, execution=tb.Execution(partition=parts, exchange=tb.ThreadExchange(2))
        )


# -- options that parts cannot honor --------------------------------------------------------------


@pytest.mark.parametrize(
    ("options", "named"),
    [
        ({"method": tb.RK4(keep_inertia=2)}, "method"),
        ({"prescribed": {"joint_1": tb.Harmonic(0.1, 1.0)}}, "prescribed"),
        ({"parameters": {"link_1.mass": 2.0}}, "parameters"),
        ({"method": tb.Rosenbrock()}, "method"),
        ({"method": tb.PredictorCorrector(points=2)}, "method"),
        ({"method": tb.PredictorCorrector(points=4)}, "method"),
    ],
)
def test_options_are_refused_by_name(options, named):
    robot = chain(4)
    parts = tb.partition(robot, cuts=["joint_2"])
    with pytest.raises((tb.OptionError, tb.DomainError), match=named):
        tb.simulate(robot, 0.01, execution=tb.Execution(partition=parts), **options)


def test_executions_that_contradict_themselves_are_refused():
    """Before any run: no run could honor them."""
    parts = tb.partition(chain(4), cuts=["joint_2"])
    with pytest.raises(tb.ModelError, match="case_numbers"):
        tb.Execution(partition=parts, case_numbers=[1])
    with pytest.raises(tb.ModelError, match="budget"):
        tb.Execution(partition=parts, exchange=tb.ThreadExchange(1), budget=1.0)
    with pytest.raises(tb.OptionError, match="exchange"):
        tb.simulate(chain(4), 0.01, execution=tb.Execution(partition=parts, exchange="mpi"))


def test_batches_and_other_robots_are_refused():
    robot = chain(4)
    parts = tb.partition(robot, cuts=["joint_2"])
    with pytest.raises(tb.ModelError, match="batch"):
        tb.simulate(robot, 0.01, q=np.zeros((2, 4)), execution=tb.Execution(partition=parts))
    with pytest.raises(tb.ModelError, match="another robot"):
        tb.simulate(chain(5), 0.01, execution=tb.Execution(partition=parts))
    with pytest.raises(tb.OptionError, match="exchange"):
        tb.simulate(robot, 0.01, execution=tb.Execution(exchange=tb.ThreadExchange()))


def test_mpi_tells_what_to_install(monkeypatch):
    import sys

    monkeypatch.setitem(sys.modules, "mpi4py", None)
    with pytest.raises(tb.ModelError, match=r"tiburon\[mpi\]"):
        tb.MPIExchange()
