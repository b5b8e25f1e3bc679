"""Loops that open and close during a run."""

import numpy as np
import pytest

import tiburon as tb

RANDOM = np.random.default_rng(25)

POINT = tb.Inertia(2.0, (0.0, 0.0, 0.0), (0.1, 0.0, 0.0, 0.1, 0.0, 0.1))


def two_sliders():
    """Two masses on one rail along x, which a latch can tie together."""
    bodies = [
        tb.Body("left", joint=tb.Prismatic("left slide", (1, 0, 0)), inertia=POINT),
        tb.Body("right", joint=tb.Prismatic("right slide", (1, 0, 0)), inertia=POINT),
    ]
    tie = tb.LoopClosure("tie", "left", "right", tb.Fixed("tie joint"))
    return tb.Model("rail", bodies, loops=[tie])


@pytest.fixture(scope="module")
def rail():
    return two_sliders()


def meeting(model, here, **more):
    @tb.traced
    def distance(state):
        return state.q[1] - state.q[0] - 0.2

    touch = tb.Event(
        "touch", distance, direction=-1, action=lambda s: tb.latch(s, "tie", here=here)
    )
    switch = tb.LoopSwitch("latch", "tie", closed=False)
    return tb.simulate(model, 1.0, elements=[switch], events=[touch], **more)


def test_a_grasp_holds_the_object_at_the_point_of_contact(rail):
    """Equal masses, one at rest: half the speed is left, half the energy, and the distance."""
    run = meeting(rail, here=True, q=[0.0, 0.7], v=[1.0, 0.0])
    assert run.outcome.status == "finished"
    (touch,) = run.events
    assert abs(touch.time - 0.5) < 1e-9
    np.testing.assert_allclose(run.v[-1], [0.5, 0.5], atol=1e-12)
    np.testing.assert_allclose(run.q[-1], [0.75, 0.95], atol=1e-9)
    after = run.time > 0.5
    assert np.abs(run.q[after, 1] - run.q[after, 0] - 0.2).max() < 1e-10


def test_latch_closes_at_its_current_joint_position(rail):
    run = meeting(rail, here=False, q=[0.0, 0.7], v=[1.0, 0.0])
    after = run.time > 0.5
    assert np.abs(run.q[after, 1] - run.q[after, 0]).max() < 1e-10
    np.testing.assert_allclose(run.v[-1], [0.5, 0.5], atol=1e-12)


def test_a_released_object_moves_freely(rail):
    """Pushed at one mass both go together, and apart from then on."""
    drop = tb.TimeEvent("drop", 0.5, action=lambda state: tb.release(state, "tie"))
    run = tb.simulate(
        rail,
        1.0,
        q=[0.0, 0.0],
        command=[8.0, 0.0],
        elements=[tb.LoopSwitch("latch", "tie")],
        events=[drop],
    )
    # 8 N on 4 kg for half a second, then on 2 kg
    np.testing.assert_allclose(run.v[-1], [1.0 + 2.0, 1.0], atol=1e-9)
    # closed or not, and six numbers that a rigid tie holds on to
    assert run.x.shape[-1] == 7
    assert (run.x[0, 0], run.x[-1, 0]) == (1.0, 0.0)


def test_cases_of_a_batch_switch_independently(rail):
    starts = np.array([[0.0, 0.7], [0.0, 5.0]])
    run = meeting(rail, here=True, q=starts, v=[1.0, 0.0])
    np.testing.assert_allclose(run.v[-1, 0], [0.5, 0.5], atol=1e-12)
    np.testing.assert_allclose(run.v[-1, 1], [1.0, 0.0], atol=1e-12)


def test_adaptive_steps_switch_loops(rail):
    run = meeting(rail, here=True, q=[0.0, 0.7], v=[1.0, 0.0], method=tb.DormandPrince())
    np.testing.assert_allclose(run.q[-1], [0.75, 0.95], atol=1e-8)


def test_states_that_do_not_fit_their_switches_are_refused(rail):
    with pytest.raises(tb.DomainError, match=r"loop 'tie' open by 0\.7"):
        tb.simulate(rail, 0.1, q=[0.0, 0.7], elements=[tb.LoopSwitch("latch", "tie")])
    with pytest.raises(tb.DomainError, match="opens loop 'tie' by 1"):
        tb.simulate(rail, 0.1, q=[0.0, 0.0], v=[1.0, 0.0], elements=[tb.LoopSwitch("latch", "tie")])
    with pytest.raises(tb.UnknownNameError, match="knot"):
        tb.simulate(rail, 0.1, elements=[tb.LoopSwitch("latch", "knot")])
