"""Loops held by penalty forces or Baumgarte's correction, against projection and closed forms."""

import re

import numpy as np
import pytest

import tiburon as tb
from tests.integrators import integrator
from tests.loops.random_mechanisms import KINDS, random_mechanism
from tiburon.actuation.soft_loops import SoftLoops

WEIGHTLESS = tb.World(gravity=(0.0, 0.0, 0.0))


def moving_state(model, seed=3, speed=0.5):
    """Return a closed configuration away from the home pose, and a velocity that loops permit."""
    rng = np.random.default_rng(seed)
    home = np.array(model.poses.get("home", model.neutral()))
    q = tb.assemble(model, model.integrate(home, 0.05 * rng.normal(size=model.nv))).q
    return q, tb.project_velocity(model, q, speed * rng.normal(size=model.nv))


def residuals(model, run):
    """Return the largest constraint residual of each row."""
    return np.array([np.abs(tb.constraint_residual(model, q)).max() for q in run.q])


@pytest.mark.parametrize("name", ["four_bar", "planar_3rrr"])
def test_penalty_converges_to_projection_with_stiffness(name):
    """The residual is the constraint force over k, so it falls with slope -1."""
    model = tb.load(name)
    q, v = moving_state(model)
    exact = tb.simulate(model, 0.1, q=q, v=v, method=tb.RK4(dt=1e-4))
    left, off = [], []
    stiffnesses = np.array([1e4, 4e4, 16e4])
    for k in stiffnesses:
        # twice the damping of one constraint on a unit mass, so that the start dies away
        method = tb.Penalty(k, 4.0 * np.sqrt(k))
        run = tb.simulate(model, 0.1, q=q, v=v, method=tb.RK4(dt=1e-4), loops=method)
        left.append(residuals(model, run)[-1])
        off.append(np.abs(run.q[-1] - exact.q[-1]).max())
    slope = np.polyfit(np.log(stiffnesses), np.log(left), 1)[0]
    assert slope == pytest.approx(-1.0, abs=0.1)
    assert off[2] < 0.3 * off[0]


def test_default_damping_is_twice_the_root_of_the_stiffness():
    model = tb.load("planar_3rrr")
    q, v = moving_state(model)
    runs = [
        tb.simulate(model, 0.02, q=q, v=v, method=tb.RK4(dt=1e-4), loops=method)
        for method in (tb.Penalty(1e4), tb.Penalty(1e4, 200.0))
    ]
    assert np.array_equal(runs[0].q, runs[1].q)


@pytest.mark.parametrize("name", ["four_bar", "stewart"])
def test_baumgarte_residual_decays_by_its_own_equation(name):
    """From an open start: c = (c0 + (cd0 + a c0) t) exp(-a t) for equal gains."""
    model = tb.load(name)
    q, v = moving_state(model)
    rng = np.random.default_rng(8)
    q = np.array(model.integrate(q, 1e-3 * rng.normal(size=model.nv)))
    v = v + 1e-2 * rng.normal(size=model.nv)
    a = 8.0
    c0 = np.array(tb.constraint_residual(model, q))
    rate0 = np.array(tb.loop_jacobian(model, q)) @ v
    run = tb.simulate(
        model,
        0.3,
        q=q,
        v=v,
        method=tb.RK4(dt=5e-4),
        world=WEIGHTLESS,
        loops=tb.Baumgarte(a, a),
    )
    for t, state in zip(run.time, run.q, strict=True):
        expected = (c0 + (rate0 + a * c0) * t) * np.exp(-a * t)
        # RK4 leaves 1e-10; redundant rows of planar loops stay zero on both sides
        np.testing.assert_allclose(tb.constraint_residual(model, state), expected, atol=1e-8)


def test_batch_resumed_and_single_runs_have_the_same_bits(tmp_path):
    model = tb.load("four_bar")
    q, v = moving_state(model)
    method = tb.Baumgarte(20.0, 20.0)
    whole = tb.simulate(model, 0.1, q=q, v=v, loops=method)
    batch = tb.simulate(model, 0.1, q=[q, q], v=[v, 0.5 * v], loops=method)
    assert np.array_equal(batch.q[:, 0], whole.q)
    half = tb.simulate(model, 0.05, q=q, v=v, loops=method)
    half.save(tmp_path / "half.zarr")
    resumed = tb.load_run(tmp_path / "half.zarr").resume(0.05)
    assert np.array_equal(resumed.q[-1], whole.q[-1])


@pytest.mark.parametrize(
    ("change", "named"),
    [
        ({"loops": "penalty"}, r"write loops=tb.Penalty\(1e5\)"),
        ({"loops": tb.Penalty(1e4), "method": tb.Rosenbrock()}, "Rosenbrock"),
        ({"loops": tb.Penalty(1e4), "method": tb.RK4(keep_inertia=2)}, "keep_inertia"),
    ],
)
def test_unsupported_combinations_are_refused(change, named):
    model = tb.load("four_bar")
    with pytest.raises(tb.TiburonError, match=named):
        tb.simulate(model, 0.1, **change)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("seed", [0, 1])
def test_stiff_springs_across_loops_converge_to_an_adaptive_reference(kind, seed):
    """Half the step, a quarter of the error or less, of random mechanisms."""
    rng = np.random.default_rng([seed, KINDS.index(kind)])
    model, q = random_mechanism(kind, rng)
    v = tb.project_velocity(model, q, 0.5 * rng.standard_normal(model.nv))
    how = {"q": q, "v": v, "loops": tb.Penalty(1e5)}
    exact = tb.simulate(model, 0.2, method=tb.DormandPrince(rtol=1e-9, atol=1e-11), **how)
    errors = []
    for dt in (2e-3, 1e-3):
        run = tb.simulate(model, 0.2, method=tb.RK4(dt=dt), **how)
        assert run.outcome.status == "finished"
        assert isinstance(run.header.elements[-1], SoftLoops)
        errors.append(np.abs(run.q[-1] - exact.q[-1]).max())
    assert errors[0] < 1e-3
    assert np.log2(errors[0] / errors[1]) > 1.8


@pytest.mark.parametrize(
    ("method", "open_by"), [("rk4", 3e-3), ("euler", 3e-2), ("semi_implicit_euler", 3e-2)]
)
@pytest.mark.parametrize("damping", [None, 10.0])
def test_springs_across_loops_hold_at_any_step(method, open_by, damping):
    """At 20 ms, of joints that turn by 0.3 rad in a step; explicit steps would diverge at once."""
    model = tb.load("four_bar")
    q, v = moving_state(model)
    penalty = tb.Penalty(1e6, damping)
    run = tb.simulate(
        model,
        1.0,
        q=q,
        v=v,
        method=integrator(method, dt=0.02, adaptive=False),
        loops=penalty,
    )
    assert run.outcome.status == "finished"
    assert residuals(model, run).max() < open_by


def test_cases_with_stiff_springs_across_loops_and_resumed_runs_have_the_same_bits(tmp_path):
    """Their mean forces are states of the run."""
    model = tb.load("four_bar")
    q, v = moving_state(model)
    how = {"loops": tb.Penalty(1e7), "method": tb.RK4(dt=2e-3)}
    whole = tb.simulate(model, 0.1, q=q, v=v, **how)
    assert np.abs(whole.z).max() > 0.0
    batch = tb.simulate(model, 0.1, q=[q, q], v=[v, 0.5 * v], **how)
    assert np.array_equal(batch.q[:, 0], whole.q)
    half = tb.simulate(model, 0.05, q=q, v=v, **how)
    half.save(tmp_path / "half.zarr")
    resumed = tb.load_run(tmp_path / "half.zarr").resume(0.05)
    assert np.array_equal(resumed.q[-1], whole.q[-1])


@pytest.mark.parametrize("method", ["b1pc5", "b4pc5"])
@pytest.mark.parametrize(
    ("name", "penalty"),
    [
        ("four_bar", tb.Penalty(1e6)),
        ("planar_3rrr", tb.Penalty(1e5)),
        ("planar_3rrr", tb.Penalty(1e6, 1e3)),
        ("four_bar", tb.Penalty(1e6, 10.0)),
    ],
)
def test_a_diverged_penalty_run_advises_a_step_that_is_stable(name, penalty, method):
    """The advice can be followed, and helps."""
    model = tb.load(name)
    q, v = moving_state(model)
    how = {"q": q, "v": v, "loops": penalty}
    run = tb.simulate(model, 1.0, method=integrator(method, dt=0.02, adaptive=False), **how)
    assert run.outcome.status == "diverged"
    assert "Rosenbrock" not in run.outcome.message
    found = re.search(
        r"take a dt of (\S+) s, .* or write loops=tb\.Projection", run.outcome.message
    )
    assert found is not None, run.outcome.message
    dt = float(found[1])
    helped = tb.simulate(model, 200 * dt, method=integrator(method, dt=dt, adaptive=False), **how)
    assert helped.outcome.status == "finished"
    # springs hold: the residual is a force over the stiffness
    assert residuals(model, helped).max() < 1e-2


@pytest.mark.parametrize(
    ("method", "advised"),
    [
        (tb.Baumgarte(5e3, 5e3), r"take gains of Baumgarte below 35 1/s at this dt, a dt below"),
        (tb.Embedding("gauss", 1e3), r"take a decay of Embedding below 35 1/s at this dt"),
    ],
)
def test_gains_too_large_for_the_step_are_named(method, advised):
    """Neither implicit methods nor the method itself are advised."""
    model = tb.load("planar_3rrr")
    q, v = moving_state(model)
    q = model.integrate(q, 1e-6 * np.arange(model.nv))
    run = tb.simulate(model, 1.0, q=q, v=v, method=tb.RK4(dt=0.01), loops=method)
    assert run.outcome.status == "diverged"
    assert re.search(advised, run.outcome.message), run.outcome.message
    assert "Rosenbrock" not in run.outcome.message


LEANING = np.array([1.0, 1.0, 1.0, -1.0, -1.0])
"""How two four-bars lean; at a quarter turn they lie on one line."""


@pytest.mark.parametrize("gain", [1.0, 2.0, 20.0])
def test_baumgarte_passes_singular_configurations_or_says_that_it_did_not(gain):
    """Errors that small gains leave are amplified where two four-bars lie on a line."""
    model = tb.load("n_four_bar_2")
    method = tb.Baumgarte(gain, gain)
    q, v = 0.3 * LEANING, 3.0 * LEANING
    run = tb.simulate(model, 5.0, q=q, v=v, record=tb.Record(dt=0.02), loops=method)
    kinetic = np.asarray(tb.kinetic_energy(model, run.q, run.v))
    energy = kinetic + np.asarray(tb.potential_energy(model, run.q))
    lost = np.abs(energy - energy[0]).max() / kinetic.max()
    if gain < 10.0:
        assert lost > 1e-3
        assert run.outcome.status == "diverged" or re.search(
            r"; loop 'pin_\d' opened by \S+ m or rad at \S+ s, beyond 1e-06 from \S+ s on, as near "
            r"a singular configuration: write loops=tb\.Projection\(\), or take a smaller dt or "
            "larger gains",
            run.outcome.message,
        )
    else:
        assert lost < 1e-9
        assert run.outcome.message == "finished at 5 s"


def test_each_case_of_a_batch_reports_its_own_loops():
    """One turns through singular configurations, the other stays beside them."""
    model = tb.load("n_four_bar_2")
    v, q = (np.array([x, 0.0])[:, None] * LEANING for x in (3.0, 0.3))
    how = {"record": tb.Record(dt=0.02), "loops": tb.Baumgarte(1.0, 1.0)}
    run = tb.simulate(model, 5.0, q=q, v=v, **how)
    assert [" opened by " in outcome.message for outcome in run.outcomes] == [True, False]


def test_errors_at_the_start_are_not_reported():
    """They decay: the loops are open at the start, by what the caller gave."""
    model = tb.load("planar_3rrr")
    q, v = moving_state(model)
    q = model.integrate(q, 1e-3 * np.arange(model.nv))
    run = tb.simulate(model, 0.5, q=q, v=v, loops=tb.Baumgarte(20.0, 20.0))
    assert residuals(model, run)[0] > 1e-4
    assert run.outcome.message == "finished at 0.5 s"


@pytest.mark.parametrize(
    ("method", "reported"),
    [
        (tb.Baumgarte(10.0, 10.0), "rank of its constraints changed from 2 to 4"),
        # three velocities are independent at the start, of which loops leave one
        (tb.Embedding("gauss"), "' opened by "),
    ],
)
def test_leaving_a_singular_configuration_is_reported(method, reported):
    """Runs that start where two four-bars lie on a line, as those by projection."""
    model = tb.load("n_four_bar_2")
    q, v = 0.5 * np.pi * LEANING, 0.7 * LEANING
    run = tb.simulate(model, 0.2, q=q, v=v, loops=method)
    assert reported in run.outcome.message


def test_trees_and_wrong_gains_are_refused():
    with pytest.raises(tb.TiburonError, match="robots with loops"):
        tb.simulate(tb.load("panda"), 0.1, loops=tb.Penalty(1e4))
    for wrong in (-1.0, 0.0, np.nan, np.inf, "stiff"):
        with pytest.raises(tb.TiburonError, match=r"Penalty\.stiffness"):
            tb.Penalty(wrong)
    with pytest.raises(tb.TiburonError, match=r"Baumgarte\.beta"):
        tb.Baumgarte(10.0, -10.0)
