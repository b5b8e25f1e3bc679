"""Every measurement runs, compares equal things, and fails when they are not equal."""

import numpy as np
import pytest

from benchmarks.__main__ import find_measurements
from benchmarks.figure import DisagreementError
from benchmarks.requirements import missing_packages

pytestmark = pytest.mark.slow

pin = pytest.importorskip("pinocchio", reason="the peer is installed by `make bench`")


def _needs_mujoco(name):
    if name in ("humanoid", "water", "loop-runs"):
        pytest.importorskip("mujoco", reason="the peer is installed by `make bench`")


@pytest.mark.parametrize("name", find_measurements())
def test_measurement_gives_positive_figures(name):
    """Sides agree, and each figure has a time that can be compared."""
    _needs_mujoco(name)
    figures = list(find_measurements()[name].run(0.0))
    absent = missing_packages([find_measurements()[name]], optional=True)
    if not figures and absent:
        pytest.skip(f"all rows need packages that are not installed: {', '.join(absent)}")
    assert figures
    for figure in figures:
        assert 0.0 < figure.ours.minimum <= figure.ours.median
        assert figure.peer is None or 0.0 < figure.peer.minimum <= figure.peer.median
        assert bool(figure.peer_name) == (figure.peer is not None)
    # a family without any bound would decide nothing; threads are bound only where cores are free
    assert name == "threads" or any(figure.met is not None for figure in figures)


@pytest.mark.parametrize("name", ["one-call", "library-call", "inverse", "batch", "humanoid"])
def test_no_time_is_taken_when_the_peer_computes_something_else(name, monkeypatch):
    """A peer with another gravity disagrees, and the measurement stops."""
    _needs_mujoco(name)
    from benchmarks import cases

    real = cases.build_pinocchio
    # the mass matrix does not depend on gravity; inverse dynamics in the same family does
    monkeypatch.setattr(cases, "build_pinocchio", lambda model: real(model, (0.0, 0.0, -9.80)))
    with pytest.raises(DisagreementError, match="differ by"):
        list(find_measurements()[name].run(0.0))


@pytest.mark.parametrize(("gain", "bound"), [(1.9, 1.8), (1.5, None)])
def test_threads_are_bound_only_where_the_peer_gains_too(gain, bound, monkeypatch):
    """On a machine that gives the peer no second core, our own gain is only shown."""
    from benchmarks import measure_threads
    from benchmarks.timing import Timing

    class Sides:
        ours = peer = staticmethod(lambda threads: lambda: None)

    def measured(calls, duration):
        one, two = Timing(1.0, 1.0), Timing(1.0 / gain, 1.0)
        return {"ours 1": one, "ours 2": two, "peer 1": one, "peer 2": two}

    monkeypatch.setattr("benchmarks.parallel_peer.prepare_batch", lambda *_, **__: Sides())
    monkeypatch.setattr(measure_threads, "measure", measured)
    figures = list(measure_threads.run(0.0))
    assert [figure.must for figure in figures] == [bound] * 3
    assert f"gained {gain:.2f}x" in figures[0].note


def test_mujoco_state_conversion_round_trips_through_its_own_dynamics():
    """Conversions of free joints are checked on a kicked free body by Newton and Euler."""
    mujoco = pytest.importorskip("mujoco", reason="the peer is installed by `make bench`")
    import tiburon as tb
    from benchmarks.mujoco_peer import acceleration_from_mujoco, build_mujoco, set_state

    tensor = np.diag([0.3, 0.4, 0.5])
    inertia = tb.Inertia(mass=2.0, com=(0.0, 0.0, 0.0), tensor=tensor.tolist())
    model = tb.Model("top", bodies=[tb.Body("top", joint=tb.Free("base"), inertia=inertia)])
    rng = np.random.default_rng(11)
    q, v = model.random_state(rng)
    tau = rng.standard_normal(6)
    peer, data = build_mujoco(model, gravity=(0.0, 0.0, 0.0))
    set_state(model, data, q, v, tau)
    mujoco.mj_forward(peer, data)
    omega, linear = v[:3], v[3:]
    # I d(omega)/dt = n - omega x I omega;  m (dv/dt + omega x v) = f, all in body axes
    expected = [
        *np.linalg.solve(tensor, tau[:3] - np.cross(omega, tensor @ omega)),
        *(tau[3:] / 2.0 - np.cross(omega, linear)),
    ]
    # round-off of a few operations on numbers of order 1
    np.testing.assert_allclose(
        acceleration_from_mujoco(model, q, v, data.qacc), expected, atol=1e-13
    )
