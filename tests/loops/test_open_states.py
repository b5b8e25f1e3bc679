"""States whose loops are open, or whose velocity opens them, are refused as `simulate` does."""

import inspect

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tests.loops.mechanisms import link
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.surroundings import DEFAULT_WORLD
from tiburon.algorithms.tape_calls import JointVector
from tiburon.functions.library import LIBRARY
from tiburon.loops.methods import constrained_motion
from tiburon.loops.projection import OPEN_STATE, START_TOLERANCE, closure_of

FOUR_BAR = tb.load("four_bar")
HOME = np.array(FOUR_BAR.poses["home"])
V = tb.project_velocity(FOUR_BAR, HOME, np.array([2.0, -1.0, 0.5]))
REST = np.zeros(3)
VD = tb.project_acceleration(FOUR_BAR, HOME, V, REST)

ASIDE = np.array([1.0, 0.0, 0.0])
OPEN, OFF = HOME + 0.1 * ASIDE, V + ASIDE
"""A configuration with an open loop, and a velocity that opens it."""

MOVING = {
    "forward_dynamics": (REST,),
    "inverse_dynamics": (VD,),
    "hybrid_dynamics": (REST, VD, "input"),
    "joint_reactions": (VD,),
    "loop_dynamics": (REST,),
    "loop_inverse_dynamics": (VD,),
    "loop_reactions": (REST,),
    "forward_dynamics_derivatives": (REST,),
    "inverse_dynamics_derivatives": (VD,),
    "inertia_derivatives": (REST,),
    "linearize": (REST,),
}
"""Functions of configuration and velocity, with their further arguments."""

RESTING = {
    "apparent_inertia": ("coupler",),
    "apparent_inverse_inertia": ("coupler",),
    "cross_inverse_inertia": ("coupler", "rocker"),
    "operational_space_inverse_inertia": ("coupler",),
}
"""Functions of the configuration alone."""


def arrays(result):
    """Return all arrays of a result."""
    if isinstance(result, (np.ndarray, np.floating)):
        return [np.asarray(result)]
    parts = result if isinstance(result, tuple) else [getattr(result, x) for x in result.__slots__]
    return [np.asarray(x) for x in parts if isinstance(x, (np.ndarray, np.floating))]


def test_every_function_that_checks_is_among_these():
    """Those that other tests of this file call; `loops.md` lists them for users."""
    for name in tb.__all__:
        getattr(tb, name)
    takes = {
        name
        for name in tb.__all__
        if inspect.isfunction(getattr(tb, name))
        and "closure" in inspect.signature(getattr(tb, name)).parameters
    }
    others = {"compile", "contact_dynamics", "impact", "operational_space_inertia"}
    assert takes == {*MOVING, *RESTING, *others}
    declared = {name for name, function in LIBRARY.items() if function.checks_closure}
    inner = {"contact_closing", "contact_problem", "linearize_step", "loop_closure"}
    assert declared - inner == takes - {"compile", "contact_dynamics", "impact"}


@pytest.mark.parametrize("name", MOVING)
@interpreting()
def test_open_loops_and_velocities_that_open_them_are_refused(name):
    """By the name of the loop; closed states have the bits of a call without the check."""
    function, more = getattr(tb, name), MOVING[name]
    with pytest.raises(
        tb.DomainError, match=r"^q: expected a position with closed loops.*'closure'"
    ):
        function(FOUR_BAR, OPEN, REST, *more)
    with pytest.raises(
        tb.DomainError, match=r"^v: expected a velocity that keeps.*of '\w+' where -?\d.* would"
    ):
        function(FOUR_BAR, HOME, OFF, *more)
    found = arrays(function(FOUR_BAR, HOME, V, *more))
    same = arrays(function(FOUR_BAR, HOME, V, *more, closure=False))
    assert found
    for x, y in zip(found, same, strict=True):
        np.testing.assert_array_equal(x, y)


@pytest.mark.parametrize("name", RESTING)
@interpreting()
def test_inertias_with_open_loops_are_refused(name):
    """They depend on the configuration alone."""
    function, more = getattr(tb, name), RESTING[name]
    with pytest.raises(tb.DomainError, match="closed loops, to 1e-06 m or rad, got loop 'closure'"):
        function(FOUR_BAR, OPEN, *more)
    found = arrays(function(FOUR_BAR, HOME, *more))
    same = arrays(function(FOUR_BAR, HOME, *more, closure=False))
    for x, y in zip(found, same, strict=True):
        np.testing.assert_array_equal(x, y)
    assert all(np.isfinite(x).all() for x in arrays(function(FOUR_BAR, OPEN, *more, closure=False)))


def test_the_words_are_those_of_a_run():
    """The same expectation, loop and size, and what to do."""
    with pytest.raises(tb.DomainError) as of_run:
        tb.simulate(FOUR_BAR, 0.01, q=OPEN)
    with pytest.raises(tb.DomainError) as of_function:
        tb.forward_dynamics(FOUR_BAR, OPEN, REST, REST)
    assert str(of_function.value).startswith(str(of_run.value))
    assert "pass closure=False" in str(of_function.value)
    with pytest.raises(tb.DomainError) as of_run:
        tb.simulate(FOUR_BAR, 0.01, q=HOME, v=OFF)
    with pytest.raises(tb.DomainError) as of_function:
        tb.forward_dynamics(FOUR_BAR, HOME, OFF, REST)
    assert str(of_function.value).startswith(str(of_run.value))


def test_failed_cases_of_a_batch_are_flagged():
    """Both kinds, in compiled code; other cases keep their bits."""
    q, v = np.stack([HOME, OPEN, HOME, HOME]), np.stack([V, V, OFF, REST])
    for function in (tb.forward_dynamics, tb.loop_dynamics):
        results, failed = function(FOUR_BAR, q, v, REST, errors="flag")
        np.testing.assert_array_equal(failed, [False, True, True, False])
        free = function(FOUR_BAR, q, v, REST, closure=False)
        for x, y in zip(arrays(results), arrays(free), strict=True):
            assert np.isnan(x[failed]).all()
            np.testing.assert_array_equal(x[~failed], y[~failed])
            assert np.isfinite(y).all()
    with pytest.raises(tb.DomainError, match=r"in case 1; close them.*errors='flag' marks such"):
        tb.forward_dynamics(FOUR_BAR, q, v, REST)
    known, failed = tb.hybrid_dynamics(FOUR_BAR, q, v, REST, VD, "input", errors="flag")
    assert failed[1:3].all()
    assert np.isnan(known[0][1:3]).all()


@pytest.mark.parametrize("part", [0.9, 1.1])
@interpreting()
def test_the_tolerance_is_that_of_a_run(part):
    """A residual of 1e-6 m or rad, and a rate of 1e-6 relative to 1 and the velocity."""
    J = tb.loop_jacobian(FOUR_BAR, HOME)
    aside = np.linalg.pinv(J)[:, 0] / np.abs(J @ np.linalg.pinv(J)[:, 0]).max()
    q = HOME + part * START_TOLERANCE * aside
    size = 1.0 + np.abs(V).max()
    v = V + part * START_TOLERANCE * size * aside
    calls = (
        lambda: tb.forward_dynamics(FOUR_BAR, q, REST, REST),
        lambda: tb.simulate(FOUR_BAR, 1e-3, method=tb.RK4(dt=1e-3), q=q, v=REST),
        lambda: tb.forward_dynamics(FOUR_BAR, HOME, v, REST),
    )
    for call in calls:
        if part < 1.0:
            call()
        else:
            with pytest.raises(tb.DomainError, match="closed"):
                call()


def skew_four_bar(tilt):
    """A four-bar linkage whose elbow is not quite parallel to the others, closed where it is."""
    bodies = [
        link("crank", "world", tb.Revolute("crank")),
        link(
            "coupler",
            "crank",
            tb.Revolute("elbow", pose=tb.Pose.from_rpy((tilt, 0, 0), (0.4, 0, 0))),
        ),
        link("rocker", "world", tb.Revolute("rocker", pose=tb.Pose(translation=(1.0, 0, 0)))),
    ]
    q = np.array([1.0, -0.5, 1.4])
    tip = tb.Frame("tip", "coupler", tb.Pose(translation=(1.1, 0, 0)))
    rotation, place = tb.forward_kinematics(tb.Model("open", bodies, [tip]), q, ["tip", "rocker"])
    end = tb.Pose(translation=rotation[1].T @ (place[0] - place[1]))
    ball = tb.Spherical("ball", pose=tb.Pose(translation=(1.1, 0, 0)))
    return tb.Model(
        "skew", bodies, loops=[tb.LoopClosure("pin", "coupler", "rocker", ball, end)]
    ), q


@interpreting()
def test_velocities_across_constraints_that_projection_ignores_are_refused():
    """Redundant up to rounding, a constraint is ignored by projections and kept by dynamics.

    The acceleration would be as far off as that of another mechanism; the message says why
    `project_velocity` does not help.
    """
    true, q = skew_four_bar(0.0)
    model, _ = skew_four_bar(3e-5)
    v = tb.project_velocity(model, q, np.array([3.0, 0.0, 0.0]))
    moving = tb.forward_dynamics(true, q, tb.project_velocity(true, q, v), REST)
    found = tb.forward_dynamics(model, q, v, REST, closure=False)
    assert np.abs(found - moving).max() > 1.0
    words = r"opens loop 'pin' by 0.000104 .*; project_velocity keeps it.*with more digits"
    with pytest.raises(tb.DomainError, match=words):
        tb.forward_dynamics(model, q, v, REST)
    with pytest.raises(tb.DomainError, match=r"^v: .*of '\w+' where .* would; take"):
        tb.forward_dynamics(model, q, v + ASIDE, REST)


@pytest.mark.parametrize("method", [None, "augmented", "handles", "proximal", "star", "denoc"])
@interpreting()
def test_all_methods_check(method):
    """Also stars, whose arms measure their own loops: states of every arm are found."""
    model = tb.load("planar_3rrr")
    home, rest = np.array(model.poses["home"]), np.zeros(model.nv)
    fine = tb.forward_dynamics(model, home, rest, rest, method=method)
    free = tb.forward_dynamics(model, home, rest, rest, method=method, closure=False)
    np.testing.assert_array_equal(fine, free)
    for k in range(model.nv):
        step = np.eye(model.nv)[k]
        with pytest.raises(tb.DomainError, match=r"^q: expected a position with closed loops"):
            tb.forward_dynamics(model, home + 0.01 * step, rest, rest, method=method)
        with pytest.raises(tb.DomainError, match=r"^v: expected a velocity that keeps"):
            tb.forward_dynamics(model, home, 0.01 * step, rest, method=method)


def test_traced_functions_do_not_check_unless_asked_and_kernels_do():
    """What users trace has the graph of before; `compile` of our functions has that of a call."""

    def plain(model, q, v, tau):
        return tb.forward_dynamics(model, q, v, tau)

    def strict(model, q, v, tau):
        return tb.forward_dynamics(model, q, v, tau, closure=True)

    answer = tb.compile(plain, FOUR_BAR)(OPEN, REST, REST)
    free = tb.compile(tb.forward_dynamics, FOUR_BAR, closure=False)(OPEN, REST, REST)
    np.testing.assert_array_equal(answer, free)
    with pytest.raises(tb.DomainError, match="a state with closed loops, to 1e-06 m or rad"):
        tb.compile(strict, FOUR_BAR)(OPEN, REST, REST)
    with pytest.raises(tb.DomainError, match=r"^q: expected a position with closed loops"):
        tb.compile(tb.forward_dynamics, FOUR_BAR)(OPEN, REST, REST)
    # functions that do not check are left as they are
    both = tb.compile([tb.constraint_residual, tb.loop_jacobian], FOUR_BAR)
    assert np.abs(both(OPEN)[0]).max() > 0.1


def test_code_without_the_check_has_no_part_of_it():
    """Steps of runs and functions of users do not pay: arms of stars measure only if asked."""
    model = tb.load("planar_3rrr")
    q = np.array(model.poses["home"]) + 0.01 * np.arange(model.nq)
    v, tau = np.random.default_rng(1).standard_normal((2, model.nv))
    state = [JointVector(x.tolist()) for x in (q, v, tau)]
    plain = Setting(model, (("method", "star"),), (), model.plan, DEFAULT_WORLD.gravity)
    asked = plain._replace(options=(*plain.options, ("closure", True)))
    assert constrained_motion(plain, *state).closure is None
    measured = constrained_motion(asked, *state).closure
    np.testing.assert_allclose(measured, closure_of(asked, *state[:2]), rtol=1e-12)
    kernel = tb.compile(lambda m, q, v, tau: tb.forward_dynamics(m, q, v, tau), FOUR_BAR)
    messages = {x for x in kernel.__self__.program().graph.payloads if isinstance(x, str)}
    assert OPEN_STATE not in messages
    checked = tb.compile(tb.forward_dynamics, FOUR_BAR).__self__.program().graph
    assert OPEN_STATE in {x for x in checked.payloads if isinstance(x, str)}


@interpreting()
def test_joints_that_time_drives_open_loops():
    """A rod tied to a slide, its foot driven away: the slide must move, also of a robot at rest."""
    pull = tb.Driven("pull", tb.Prismatic("away", (1, 0, 0)), tb.Polynomial((0.5, 0.2)))
    bodies = [
        link("foot", "world", pull),
        link("rod", "foot", tb.Revolute("hinge", (0, 1, 0))),
        link("slide", "world", tb.Prismatic("up", (0, 0, 1))),
    ]
    tip = tb.Spherical("tip", pose=tb.Pose(translation=(1.0, 0.0, 0.0)))
    model = tb.Model("tied", bodies, loops=[tb.LoopClosure("tie", "rod", "slide", tip)])
    rest = np.zeros(2)
    q = tb.project_configuration(model, [-2.1, 0.85]).q
    with pytest.raises(tb.DomainError, match=r"^v: .*got 0 of '(hinge|up)' where"):
        tb.forward_dynamics(model, q, rest, rest)
    v = tb.project_velocity(model, q, rest)
    assert np.isfinite(tb.forward_dynamics(model, q, v, rest)).all()
    with pytest.raises(tb.DomainError, match=r"^q: .*loop 'tie' open by 0.0866 m"):
        tb.forward_dynamics(model, q, v, rest, time=0.5)


@interpreting()
def test_geometry_by_name_opens_loops():
    """Closed is what the lengths of the call close."""
    lengths = {"elbow.translation": np.array(FOUR_BAR.joint("elbow").pose.translation) * 1.01}
    with pytest.raises(tb.DomainError, match=r"^q: .*'closure' open by"):
        tb.forward_dynamics(FOUR_BAR, HOME, REST, REST, parameters=lengths)
    q = tb.project_configuration(FOUR_BAR, HOME, parameters=lengths).q
    tb.forward_dynamics(FOUR_BAR, q, REST, REST, parameters=lengths)
    with pytest.raises(tb.DomainError, match=r"^q: .*'closure' open by"):
        tb.forward_dynamics(FOUR_BAR, q, REST, REST)


@interpreting()
def test_reactions_of_accelerations_that_open_loops_are_refused():
    """As inverse dynamics refuses them: the forces of the loops are those of no motion."""
    for function in (tb.inverse_dynamics, tb.joint_reactions):
        with pytest.raises(tb.DomainError, match="v and vd that keep loops closed"):
            function(FOUR_BAR, HOME, V, VD + ASIDE)


@pytest.mark.parametrize("law", ["rigid", "compliant"])
def test_contact_of_open_loops_is_refused(law):
    """The coupler of the linkage touches level ground: forces, collisions, linear models."""
    middle = tb.ContactPoint("middle", "coupler", (0.55, 0.0, 0.0))
    model = tb.Model(
        "four_bar", FOUR_BAR.bodies, loops=FOUR_BAR.loops, contacts=[middle], poses=FOUR_BAR.poses
    )
    height = float(tb.contacts(model, HOME, world=tb.World(ground=tb.Ground())).gap[0])
    stiff = {} if law == "rigid" else {"normal_stiffness": 1e4, "normal_damping": 10.0}
    world = tb.World(ground=tb.Ground(height=height, **stiff))
    calls = [lambda q, v, **more: tb.linearize(model, q, v, REST, dt=1e-3, world=world, **more)]
    if law == "rigid":
        calls += [
            lambda q, v, **more: tb.impact(model, q, v, world=world, **more),
            lambda q, v, **more: tb.contact_dynamics(model, q, v, REST, world=world, **more),
        ]
    lifted = HOME + 1e-4 * np.eye(3)[1]
    for call in calls:
        with pytest.raises(tb.DomainError, match=r"^q: expected a position with closed loops"):
            call(lifted, REST)
        with pytest.raises(tb.DomainError, match=r"^v: expected a velocity that keeps"):
            call(HOME, np.array([0.0, 1.0, 0.0]))
        call(HOME, REST)
        call(lifted, REST, closure=False)


def test_runs_in_parts_check_as_the_whole_robot():
    """`Partition.forward_dynamics` answers for the undivided robot, and refuses what it does."""
    model = tb.load("planar_3rrr")
    parts = tb.partition(model, processes=2)
    home, rest = np.array(model.poses["home"]), np.zeros(model.nv)
    whole = tb.forward_dynamics(model, home, rest, rest)
    np.testing.assert_allclose(parts.forward_dynamics(home, rest, rest), whole, atol=1e-9)
    with pytest.raises(tb.DomainError, match=r"^q: expected a position with closed loops"):
        parts.forward_dynamics(home + 0.01 * np.eye(model.nq)[0], rest, rest)


@pytest.mark.parametrize("bad", [1, "no", np.True_, [True]])
def test_closure_is_true_or_false(bad):
    """Anything else is refused, whatever it is worth as a truth."""
    with pytest.raises(tb.OptionError, match="closure: expected True or False or None"):
        tb.forward_dynamics(FOUR_BAR, HOME, REST, REST, closure=bad)
    with pytest.raises(tb.OptionError, match="closure: expected True or False"):
        tb.compile(tb.forward_dynamics, FOUR_BAR, closure=bad)
