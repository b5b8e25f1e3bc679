"""Thruster allocation against least squares, commands against curves, vehicles that stay."""

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close
from tiburon.control.allocation import ThrusterAllocation, command_of_thrust
from tiburon.control.cartesian_path import CartesianPath
from tiburon.control.combined import CombinedControl
from tiburon.control.computed_torque import ComputedTorque
from tiburon.control.station_keeping import StationKeeping
from tiburon.hydro.thrust import thrust_of
from tiburon.simulation.control_calls import decide
from tiburon.trace import interpret, trace

RANDOM = np.random.default_rng(12)


def vehicle(limit=np.inf, lag=0.0, count=8, curve=None):
    """A box with thrusters in many directions, and a short arm."""
    rng = np.random.default_rng(1)
    thrusters = []
    for k in range(count):
        direction = rng.normal(size=3)
        thrusters.append(
            tb.Thruster(
                f"t{k}",
                "hull",
                tuple(rng.uniform(-0.4, 0.4, 3)),
                tuple(direction / np.linalg.norm(direction)),
                curve=curve or tb.LinearThrust(2.0),
                torque_ratio=0.01 * (-1) ** k,
                time_constant=lag,
                thrust_limits=(-limit, limit),
            )
        )
    mass = 40.0
    hull = tb.Body(
        "hull",
        joint=tb.Free("base"),
        inertia=tb.Inertia(mass, (0, 0, -0.03), (1.2, 1.6, 1.9)),
        fluid=tb.BodyFluid(
            mass / 1025.0,
            added_mass=(0.5, 0.6, 0.7, 10.0, 20.0, 30.0),
            linear_damping=(4.0, 4.0, 4.0, 10.0, 15.0, 20.0),
            quadratic_damping=(5.0, 5.0, 5.0, 40.0, 50.0, 60.0),
        ),
    )
    arm = tb.Body(
        "arm",
        "hull",
        joint=tb.Revolute("elbow", axis=(0, 1, 0), pose=tb.Pose(translation=(0.4, 0, -0.1))),
        inertia=tb.Inertia(2.0, (0.2, 0, 0), (0.01, 0.03, 0.03)),
        fluid=tb.BodyFluid(1.5e-3),
    )
    return tb.Model("vehicle", [hull, arm], thrusters=tuple(thrusters))


SEA = tb.Water(1025.0, current=(0.15, -0.1, 0.05))


def test_without_limits_it_is_weighted_least_squares():
    """F minimizes sum c f^2 with A f = b: against lstsq of the scaled problem; nothing missing."""
    costs = RANDOM.uniform(0.5, 4.0, 8)
    shares = ThrusterAllocation.of(vehicle(), costs=costs)
    A = np.array(shares.matrix)
    for _ in range(5):
        b = RANDOM.normal(size=6) * [5, 5, 5, 30, 30, 30]
        found = shares.allocate(b)
        root = np.sqrt(costs)
        expected = np.linalg.lstsq(A / root, b, rcond=None)[0] / root
        assert_close(found.thrust, expected, 1e-11)
        assert_close(found.missing, np.zeros(6), 1e-11)
        assert not found.saturated.any()


def test_the_allocation_matrix_holds_the_wrenches_of_thrusters():
    """A column is the joint force on the free joint of a unit thrust."""
    model = vehicle()
    A = np.array(ThrusterAllocation.of(model).matrix)
    q, _ = model.random_state(np.random.default_rng(3))
    for k, unit in enumerate(np.eye(8)):
        assert_close(A[:, k], tb.thruster_force_of_thrust(model, q, unit)[:6])


def test_too_few_thrusters_minimize_the_wrench_error():
    """Four thrusters for six rows: the least error, weighted by importance, against lstsq."""
    importance = np.array([1.0, 2.0, 0.5, 1.0, 3.0, 0.2])
    shares = ThrusterAllocation.of(vehicle(count=4), importance=importance)
    A, b = np.array(shares.matrix), RANDOM.normal(size=6)
    found = shares.allocate(b)
    expected = np.linalg.lstsq(importance[:, None] * A, importance * b, rcond=None)[0]
    assert_close(found.thrust, expected, 1e-11)
    assert_close(found.missing, b - A @ expected, 1e-11)


def test_saturated_allocation_is_optimal_within_limits():
    """The least error against projected gradients: no other thrusts come nearer to the wrench."""
    model = vehicle(limit=12.0)
    shares = ThrusterAllocation.of(model)
    A = np.array(shares.matrix)
    step = 1.0 / np.linalg.norm(A, 2) ** 2
    reached = 0
    for _ in range(12):
        b = A @ RANDOM.uniform(-12.0, 12.0, 8) * 1.5
        found = shares.allocate(b)
        assert (np.abs(found.thrust) <= 12.0 * (1 + 1e-12)).all()
        assert_close(found.missing, b - A @ found.thrust, 1e-9)
        at_limit = np.abs(np.abs(found.thrust) - 12.0) < 1e-7
        reached += at_limit.any()
        f = np.clip(found.thrust, -12.0, 12.0)
        for _ in range(3000):
            f = np.clip(f + step * A.T @ (b - A @ f), -12.0, 12.0)
        error = np.linalg.norm(found.missing)
        assert error <= np.linalg.norm(b - A @ f) * (1 + 1e-6) + 1e-7
        if error > 1e-6:
            assert np.array_equal(found.saturated > 0.5, at_limit)
    assert reached > 5


def test_saturated_thrusters_can_keep_the_direction():
    """The largest part of a wrench in its own direction: one more percent is out of reach."""
    shares = ThrusterAllocation.of(vehicle(limit=12.0), keep="direction")
    A = np.array(shares.matrix)
    for _ in range(12):
        b = A @ RANDOM.uniform(-12.0, 12.0, 8) * 3.0
        done = b - shares.allocate(b).missing
        part = (done @ b) / (b @ b)
        assert 0.0 < part <= 1.0 + 1e-9
        assert_close(done, part * b, 1e-6 * np.abs(b).max())
        if part < 0.99:
            more = ThrusterAllocation.of(vehicle(limit=12.0)).allocate(1.01 * part * b)
            assert np.linalg.norm(more.missing) > 1e-6 * np.linalg.norm(b)


def test_failed_thrusters_are_compensated_by_others():
    """Eight thrusters less one still reach six components; the report names the saturated."""
    whole = ThrusterAllocation.of(vehicle(limit=60.0))
    b = RANDOM.normal(size=6)
    left = whole.without("t3")
    found = left.allocate(b)
    assert found.thrust[3] == 0.0
    assert_close(found.missing, np.zeros(6), 1e-6)
    with pytest.raises(tb.UnknownNameError, match="t9"):
        whole.without("t9")


def test_batches_and_traces_agree_with_single_wrenches():
    shares = ThrusterAllocation.of(vehicle(limit=12.0))
    b = RANDOM.normal(size=(7, 6)) * [3, 3, 3, 40, 40, 40]
    many = shares.allocate(b)
    program = trace(lambda b: shares.allocate(b)._asdict(), {"b": (6,)})
    traced = interpret(program, [b])
    for k in range(7):
        one = shares.allocate(b[k])
        for single, batch, graph in zip(one, many, traced, strict=True):
            assert_close(batch[k], single)
            assert_close(graph[k], single)


CURVES = {
    "linear": tb.LinearThrust(2.5),
    "dead": tb.LinearThrust(2.5, dead_band=(-0.2, 0.1)),
    "quadratic": tb.QuadraticThrust(0.02),
    "unequal": tb.QuadraticThrust(0.02, 0.013, dead_band=(-5.0, 8.0)),
    "table": tb.TableThrust((-2.0, -1.0, -0.1, 0.1, 1.0, 2.0), (-30.0, -10.0, 0, 0, 15.0, 50.0)),
}


@pytest.mark.parametrize("name", CURVES)
def test_commands_produce_the_requested_thrusts(name):
    thruster = tb.Thruster("t", "hull", curve=CURVES[name])
    thrust = np.array([-28.0, -9.0, -0.3, 0.0, 0.4, 12.0, 44.0])
    command = command_of_thrust(thruster, thrust)
    assert_close([thrust_of(thruster, u) for u in command], thrust)
    assert_close(thrust_of(thruster, float(command_of_thrust(thruster, 0.0))), 0.0)
    program = trace(lambda f: command_of_thrust(thruster, f), {"f": ()})
    assert_close(interpret(program, [thrust]), command)


def test_non_monotonic_thrust_curve_is_refused():
    falling = tb.Thruster("t", "hull", curve=tb.LinearThrust(-1.0))
    with pytest.raises(tb.ModelError, match="reverse its direction"):
        command_of_thrust(falling, 1.0)


def test_a_vehicle_stays_in_a_current():
    """Integrals take away what the current leaves; without them it would stand off."""
    model = vehicle(limit=60.0, lag=0.1, curve=tb.QuadraticThrust(0.5))
    target = model.integrate(model.neutral(), [0.1, -0.2, 0.7, 0.5, -0.3, -1.0, 0.0])[:7]
    keeper = StationKeeping.of(model, frequency=0.8, target=target, fluid=SEA)
    elbow = ComputedTorque.critical({"elbow": 0.5}, 6.0)
    q = model.neutral()
    run = tb.simulate(
        model,
        50.0,
        q=q,
        fluid=SEA,
        control=CombinedControl((keeper, elbow)),
        method=tb.RK4(dt=1e-2),
    )
    assert run.outcome.status == "finished"
    assert_close(np.abs(run.q[-1][:4] @ target[:4]), 1.0, 1e-6)
    # the slowest of the three roots near 0.8 rad/s leaves exp(-40 / 2) after 50 s
    assert_close(run.q[-1][4:7], target[4:7], 1e-3)
    assert_close(run.q[-1][7], 0.5, 1e-3)
    # thrusts bear the drag of the current and what the arm weighs in water
    held = tb.trim(model, run.q[-1], fluid=SEA, free=())
    assert_close(
        tb.thruster_force_of_thrust(model, run.q[-1], run.x[-1][:8])[:6],
        tb.thruster_force_of_thrust(model, run.q[-1], held.thrust)[:6],
        1e-2,
    )


def test_a_vehicle_follows_a_path():
    """A slow path in still water: the error stays small beside the way, and ends at zero."""
    model = vehicle(limit=200.0)
    still = tb.Water(1025.0)
    way = CartesianPath.through(
        [0.0, 20.0], [(0, 0, 0), (2.0, 1.0, -0.5)], [(1, 0, 0, 0), (0.8, 0, 0, 0.6)]
    )
    keeper = StationKeeping.of(model, frequency=1.5, target=way, fluid=still)
    run = tb.simulate(
        model,
        30.0,
        fluid=still,
        method=tb.RK4(dt=1e-2),
        control=CombinedControl((keeper, ComputedTorque.critical(0.0, 6.0))),
    )
    wanted = way.at(run.time)
    error = np.linalg.norm(run.q[:, 4:7] - wanted.position, axis=1)
    assert error.max() < 0.15
    assert error[-1] < 2e-3
    assert np.abs(np.sum(run.q[-1][:4] * wanted.quaternion[-1])) > 1.0 - 1e-5


def test_station_keeping_is_the_same_traced_and_in_python():
    """Commands of one state called with floats, with cases, and in the graph."""
    from tiburon.simulation.state import State
    from tiburon.simulation.system import System
    from tiburon.trace import Input

    model = vehicle(limit=15.0)
    keeper = StationKeeping.of(model, frequency=0.8, fluid=SEA)
    system = System(model, tb.World(fluid=SEA), tb_elements(model), keeper)
    states = [model.random_state(np.random.default_rng(k)) for k in range(4)]
    q = np.array([s[0] for s in states])
    q[:, 4:7] *= 0.2
    v = 0.1 * np.array([s[1] for s in states])
    own = 0.1 * RANDOM.normal(size=(4, 6))

    def call(q, v, own):
        state = State(system, 0.0, q, v, own)
        state.own = own
        commands, rates = keeper(state)
        return np.concatenate([np.stack(list(commands.values()), axis=-1), rates], axis=-1)

    many = call(q, v, own)

    def run(given):
        u, rates, _ = decide(
            system,
            given["q"].tolist(),
            given["v"].tolist(),
            given["x"].tolist(),
            [0.0] * len(system.command_names),
            0.0,
        )
        return [*u[-8:], *rates]

    inputs = [Input("q", (8,)), Input("v", (7,)), Input("x", (system.nx,))]
    program = system.trace(run, inputs, "keeper")
    for k in range(4):
        one = call(q[k], v[k], own[k])
        assert_close(one, many[k])
        given = {"q": q[k], "v": v[k], "x": own[k], **system.parameters()}
        # once thrusters are held, rounding of 2e-16 counts by the ridge of 1e-9
        assert_close(interpret(program, [given[i.name] for i in program.inputs]), one, 3e-7)


def tb_elements(model):
    from tiburon.actuation.defaults import elements_of

    return elements_of(model)


def test_invalid_arguments_are_refused():
    model = vehicle()
    with pytest.raises(tb.ModelError, match="fixed to body 'arm'"):
        ThrusterAllocation.of(model, "arm")
    with pytest.raises(tb.UnknownNameError, match="t7"):
        ThrusterAllocation.of(model, thrusters=["t77"])
    with pytest.raises(tb.DomainError, match="costs"):
        ThrusterAllocation.of(model, costs=0.0)
    with pytest.raises(tb.DomainError, match="frequency"):
        StationKeeping.of(model, frequency=0.0)
    with pytest.raises(tb.ModelError, match="one floating base"):
        StationKeeping.of(tb.load("pendulum"), frequency=1.0)
