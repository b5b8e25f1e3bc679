"""Parameters estimated from runs: exact sensitivities, recovery, bounds, what data miss."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.identification.identify import student_t
from tiburon.identification.sensitivity import RunPredictor

SEA = tb.Water(density=1000.0)
NAMES = (
    "hull.center_of_buoyancy.z",
    "hull.center_of_buoyancy.x",
    "arm.volume",
    "hull.added_mass.wy",
    "hull.linear_damping.wx",
    "hull.linear_damping.wy",
)
TRUE = np.array([0.031, 0.002, 2.1e-4, 0.12, 0.31, 0.22])


def vehicle():
    """Return a hull whose arm swings about a skew axis."""
    water = tb.BodyFluid(
        volume=0.0121,
        center_of_buoyancy=(0.0, 0.001, 0.025),
        added_mass=np.diag([0.05, 0.1, 0.1, 5.0, 9.0, 11.0]),
        linear_damping=np.diag([0.2, 0.2, 0.2, 4.0, 6.0, 5.0]),
        quadratic_damping=np.diag([0.5, 0.5, 0.5, 18.0, 21.0, 30.0]),
        reference_density=1000.0,
    )
    hull = tb.Body(
        "hull",
        joint=tb.Free("base"),
        inertia=tb.Inertia(12.0, (0.0, 0.0, 0.0), (0.2, 0.0, 0.0, 0.3, 0.0, 0.35)),
        fluid=water,
    )
    joint = tb.Revolute("shoulder", (0.0, 0.6, 0.8), pose=tb.Pose(translation=(0.2, -0.1, -0.05)))
    arm = tb.Body(
        "arm",
        "hull",
        joint=joint,
        inertia=tb.Inertia(0.9, (0.25, 0.0, 0.0), (0.001, 0.0, 0.0, 0.01, 0.0, 0.01)),
        fluid=tb.BodyFluid(
            volume=2.5e-4, center_of_buoyancy=(0.25, 0.0, 0.0), reference_density=1000.0
        ),
    )
    return tb.Model("swimmer", [hull, arm])


def measured(robot, parameters, count, seed, *, noise=0.0, offset=0.0, duration=4.0, dt=0.05):
    """Return runs of a robot with given parameters, with noise, and an offset of each run."""
    rng = np.random.default_rng(seed)
    time = dt * np.arange(round(duration / dt) + 1)
    found = []
    for k in range(count):
        phase, rate, size = rng.uniform(0.0, 6.0), rng.uniform(1.0, 2.5), rng.uniform(0.4, 1.2)
        swing = size * np.sin(rate * time + phase)
        empty = tb.MeasuredRun(f"run {k}", time, joints={"shoulder": swing})
        path = empty.joint_path(smoothing=0.5)
        q = np.array(robot.neutral())
        v = np.zeros(robot.nv)
        v[:2] = 0.1 * rng.normal(size=2)
        v[6] = path.at(0.0).velocity[0]
        q[7] = path.at(0.0).position[0]
        run = tb.simulate(
            robot.without_passive().without_limits(),
            duration,
            q=q,
            v=v,
            fluid=SEA,
            prescribed={"shoulder": path},
            method=tb.RK4(dt=dt),
            record=tb.Record(dt=dt),
            parameters=parameters,
        )
        attitude = run.q[:, :4] + noise * rng.normal(size=(len(time), 4))
        attitude[0] = run.q[0, :4]
        # tether or ballast: a tilt of the whole run but its start
        attitude[1:, 1:3] += offset * rng.normal(size=2)
        attitude /= np.linalg.norm(attitude, axis=1, keepdims=True)
        rates = run.v[:, :3].copy()
        rates[time <= 0.2 + 1e-9] = v[:3]
        found.append(tb.MeasuredRun(f"run {k}", time, attitude, rates, joints={"shoulder": swing}))
    return found


def truth():
    return dict(zip(NAMES, TRUE.tolist(), strict=True))


@pytest.fixture(scope="module")
def robot():
    return vehicle()


@pytest.fixture(scope="module")
def runs(robot):
    return measured(robot, truth(), 5, 0)


def options(**changes):
    return {"fluid": SEA, "method": tb.RK4(dt=0.05), "smoothing": 0.5, **changes}


@pytest.mark.parametrize("trim", [None, 1.0])
def test_sensitivities_are_derivatives_of_whole_runs(robot, runs, trim):
    start = np.array([0.025, 0.0, 2.5e-4, 0.1, 0.2, 0.2])
    scale = np.array([0.01, 0.01, 1e-4, 0.1, 0.1, 0.1])
    predictor = RunPredictor(
        robot,
        runs[:2],
        NAMES,
        world=tb.World(fluid=SEA),
        method=tb.RK4(dt=0.05),
        smoothing=0.5,
        trim=trim,
        execution=tb.Execution(threads=1),
    )
    found = predictor.predict(start, scale)
    for k in range(len(NAMES)):
        h = 1e-4 * scale * (np.arange(len(NAMES)) == k)
        up, down = (
            predictor.predict(start + sign * h, scale, derivatives=False) for sign in (1, -1)
        )
        for part in ("q", "v"):
            exact = getattr(found, f"d{part}")[:, :, k]
            near = (getattr(up, part) - getattr(down, part)) / (2.0 * h[k])
            # central differences: truncation of 1e-8 of the third derivative, and rounding
            assert np.abs(near - exact).max() < 1e-5 * np.abs(exact).max() + 1e-9
            assert np.abs(exact).max() > 1e-3


def test_exact_data_return_the_parameters(robot, runs):
    found = tb.identify(robot, runs, NAMES, **options())
    assert found.converged
    assert not found.undetermined
    assert not found.at_bound
    assert np.abs(found.estimate / TRUE - 1.0).max() < 1e-3
    assert max(found.errors.values()) < 1e-5
    assert max(found.before.values()) > 1e-2
    run = tb.simulate(robot, 0.1, fluid=SEA, method=tb.RK4(dt=0.05), parameters=found.parameters)
    assert run.outcome.status == "finished"


def placed(robot, run, valid):
    """Return a run of 3 s with positions, of which some are not valid and far off."""
    seen = tb.simulate(
        robot.without_passive().without_limits(),
        3.0,
        q=np.array([1.0, 0, 0, 0, 0.2, 0.1, -0.3, 0.0]),
        v=np.array([0.0, 0, 0, 0.2, -0.1, 0.05, 0.0]),
        fluid=SEA,
        prescribed={"shoulder": run},
        method=tb.RK4(dt=0.05),
        record=tb.Record(dt=0.05),
        parameters={"hull.volume": 0.0124},
    )
    position = np.where(valid[:, None], seen.q[:, 4:7], 1e3)
    joints = {"shoulder": np.zeros(len(seen.time))}
    return tb.MeasuredRun("rise", seen.time, seen.q[:, :4], seen.v[:, :3], position, valid, joints)


def test_positions_determine_the_volume_and_invalid_ones_do_not_enter(robot):
    still = tb.MeasuredRun("still", 0.05 * np.arange(61), joints={"shoulder": np.zeros(61)})
    path = still.joint_path(smoothing=0.5)
    valid = np.arange(61) % 5 > 0
    run = placed(robot, path, valid)
    found = tb.identify(robot, [run], ["hull.volume"], **options(fit={"z": 1.0}))
    assert found.converged
    # the velocity at the start is a slope over 1 s, in which this vehicle speeds up
    assert found.estimate[0] == pytest.approx(0.0124, rel=1.5e-2)
    assert found.errors["z"] < 0.1 * found.before["z"]
    assert " m" in found.summary
    whole = placed(robot, path, np.ones(61, dtype=bool))
    other = tb.identify(robot, [whole], ["hull.volume"], **options(fit={"z": 1.0}))
    assert found.estimate[0] == pytest.approx(other.estimate[0], rel=2e-3)
    none = placed(robot, path, np.zeros(61, dtype=bool))
    with pytest.raises(tb.ModelError, match="expected measured z"):
        tb.identify(robot, [none], ["hull.volume"], **options(fit={"z": 1.0}))


def test_degrees_beyond_the_limits_of_a_joint_are_refused(robot, runs):
    from dataclasses import replace

    limited = tb.load("bluerov2_alpha")
    turned = np.where(np.arange(len(runs[0].time)) == 3, 45.0, 0.1)
    run = replace(runs[0], joints={"joint_4": turned})
    with pytest.raises(tb.DomainError, match=r"'joint_4', row 4.*degrees"):
        tb.identify(limited, [run], ["wrist.volume"], fluid=SEA)


def coverage(robot, draws, seed):
    """Return how often intervals hold the true value."""
    inside = []
    names = NAMES[:2]
    for draw in range(draws):
        runs = measured(robot, truth(), 8, seed + draw, noise=2e-3, offset=2e-3, duration=1.5)
        start = {name: value for name, value in truth().items() if name in names}
        rest = {name: value for name, value in truth().items() if name not in names}
        found = tb.identify(
            with_parameters(robot, rest), runs, names, **options(start=start, max_iterations=6)
        )
        inside.append((found.lower <= TRUE[:2]) & (found.upper >= TRUE[:2]))
    return np.mean(inside)


def with_parameters(robot, values):
    """Return the robot with other numbers."""
    hull, arm = robot.bodies
    matrix = np.array(hull.fluid.added_mass)
    matrix[1, 1] = values["hull.added_mass.wy"]
    drag = np.array(hull.fluid.linear_damping)
    drag[0, 0], drag[1, 1] = values["hull.linear_damping.wx"], values["hull.linear_damping.wy"]
    from dataclasses import replace

    def nested(x):
        return tuple(map(tuple, x.tolist()))

    return robot.with_fluids(
        {
            "hull": replace(hull.fluid, added_mass=nested(matrix), linear_damping=nested(drag)),
            "arm": replace(arm.fluid, volume=values["arm.volume"]),
        }
    )


def test_intervals_hold_the_truth_as_often_as_they_say(robot):
    # 30 draws of two parameters: four standard errors below 95 % are 0.84
    assert coverage(robot, 15, 100) >= 0.83


@pytest.mark.slow
def test_intervals_hold_the_truth_in_95_percent_of_200_draws(robot):
    # the standard error of the fraction is 0.011 for 400 values
    assert 0.91 <= coverage(robot, 200, 1000) <= 0.99


def test_directions_that_data_do_not_determine_are_named(robot, runs):
    # the rotor of a joint that follows a path does not move the hull
    free = ["hull.center_of_buoyancy.z", "shoulder.armature", "hull.linear_damping.wy"]
    found = tb.identify(robot, runs, free, **options())
    assert found.undetermined == ("+1.00 shoulder.armature",)
    # round-off of the decomposition moves it
    assert abs(found.estimate[1]) < 1e-12
    assert "not determined" in found.summary


def test_a_fit_that_ends_at_a_bound_says_so(robot, runs):
    found = tb.identify(
        robot,
        runs,
        ["hull.center_of_buoyancy.z"],
        **options(bounds={"hull.center_of_buoyancy.z": (0.01, 0.028)}),
    )
    assert found.at_bound == ("hull.center_of_buoyancy.z",)
    assert "at its bound" in str(found)
    assert found.estimate[0] == 0.028


def test_intervals_of_one_run_are_not_made_up(robot, runs):
    found = tb.identify(robot, runs[:1], ["hull.center_of_buoyancy.z"], **options())
    assert np.isnan(found.lower).all()
    assert "takes two runs" in str(found)


def test_a_fit_that_did_not_converge_says_so(robot, runs):
    found = tb.identify(robot, runs, NAMES, **options(max_iterations=1))
    assert not found.converged
    assert "did NOT converge" in found.summary


@pytest.mark.parametrize(
    ("changes", "error", "words"),
    [
        ({"free": ["hull.colour"]}, tb.UnknownNameError, "hull.colour"),
        ({"free": []}, tb.ShapeError, "names of parameters"),
        ({"free": ["hull.center_of_buoyancy"]}, tb.ShapeError, "components"),
        ({"runs": []}, tb.ShapeError, "load_measured"),
        ({"runs": [3]}, tb.ModelError, "load_measured"),
        (
            {"runs": [tb.MeasuredRun("swim", np.arange(3.0), joints={"elbw": np.zeros(3)})]},
            tb.UnknownNameError,
            r"run 'swim': unknown joint 'elbw'.*with_joints",
        ),
        ({"fit": {"heave": 1.0}}, tb.UnknownNameError, "heave"),
        ({"fit": {}}, tb.ShapeError, "one channel"),
        ({"method": tb.PredictorCorrector()}, tb.DomainError, "RK4"),
        ({"start": {"arm.volume": -1.0}, "free": ["arm.volume"]}, tb.DomainError, "arm.volume"),
        ({"start": {"arm.mass": 1.0}}, tb.UnknownNameError, "arm.mass"),
        ({"trim": -1.0}, tb.DomainError, "trim"),
        ({"trim": 1.0, "elements": [object()]}, tb.ModelError, "leave one of the two out"),
    ],
)
def test_bad_input_is_refused_by_name(robot, runs, changes, error, words):
    given = {"runs": runs, "free": NAMES, **options(), **changes}
    with pytest.raises(error, match=words):
        tb.identify(robot, given.pop("runs"), given.pop("free"), **given)


def test_students_quantile():
    # tabulated values
    known = {1: 12.706, 2: 4.303, 4: 2.776, 7: 2.365, 10: 2.228, 37: 2.026, 1000: 1.962}
    for freedom, value in known.items():
        assert abs(student_t(freedom) / value - 1.0) < 2e-3
