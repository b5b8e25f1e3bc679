"""Energy of a run: what drives, what is stored, what water takes."""

import numpy as np
import pytest

import tiburon as tb


def ball(linear=0.0):
    """A ball of 2 kg that slides along x in water with linear damping [N s/m]."""
    damping = [[0.0] * 6 for _ in range(6)]
    damping[3][3] = linear
    fluid = tb.BodyFluid(
        volume=1e-3, linear_damping=damping if linear else None, reference_density=1000.0
    )
    joint = tb.Prismatic("x", axis=(1, 0, 0))
    return tb.Model(
        "ball", [tb.Body("ball", joint=joint, inertia=tb.Inertia.point(2.0), fluid=fluid)]
    )


def test_stored_and_dissipated_work_equal_the_closed_form():
    """Pushed by F against c v: v = F/c (1 - exp(-c t/m)); work is F x, loss c v^2 over time."""
    F, c, m, T = 6.0, 3.0, 2.0, 1.0
    run = tb.simulate(
        ball(c),
        T,
        fluid=tb.Water(1000.0),
        command={"x": F},
        record=tb.Record(every=1),
        execution=tb.Execution(progress=False),
    )
    flow = tb.energy_flow(run)
    rest = np.exp(-c * T / m)
    x = F / c * (T - m / c * (1.0 - rest))
    v = F / c * (1.0 - rest)
    # the trapezoidal rule over rows of a millisecond
    assert flow.driven[-1] == pytest.approx(F * x, rel=1e-6)
    assert flow.stored[-1] == pytest.approx(0.5 * m * v * v, rel=1e-6)
    assert flow.lost[-1] == pytest.approx(F * x - 0.5 * m * v * v, rel=1e-5)
    assert 0.0 < flow.residual < 1e-6


def test_a_vehicle_is_seen_from_the_current_that_carries_it():
    """Adrift with the stream it neither works nor loses; at rest in it, drag takes energy."""
    rov = tb.load("bluerov2_heavy")
    sea = tb.Water(1025.0, current=(0.4, 0.0, 0.0))
    v = np.zeros(rov.nv)
    v[3] = 0.4
    level = tb.simulate(
        rov, 0.2, v=v, fluid=sea, record=tb.Record(every=1), execution=tb.Execution(progress=False)
    )
    held = tb.simulate(
        rov, 0.2, fluid=sea, record=tb.Record(every=1), execution=tb.Execution(progress=False)
    )
    assert abs(tb.energy_flow(level).lost[-1]) < 0.02 * tb.energy_flow(held).lost[-1]
    assert tb.energy_flow(held).residual < 1e-4


def test_a_current_past_a_robot_on_the_ground_is_refused():
    """A current past a robot on the ground does work that no such balance knows."""
    run = tb.simulate(
        ball(1.0),
        0.01,
        fluid=tb.Water(1000.0, current=(1.0, 0.0, 0.0)),
        execution=tb.Execution(progress=False),
    )
    with pytest.raises(tb.DomainError, match="uniform current around a floating robot"):
        tb.energy_flow(run)
