"""Water and gravity that differ from case to case: used, or refused by name."""

import numpy as np
import pytest

import tiburon as tb


@pytest.mark.parametrize("given", ["array", "list", "world"])
def test_functions_of_one_water_refuse_water_per_case(given):
    """Never the first water, or none, in place of all."""
    rov = tb.load("bluerov2_heavy")
    q, v = rov.neutral(), np.full(rov.nv, 0.1)
    water = tb.Water(density=[1000.0, 900.0])
    fluid = [tb.Water(1000.0), tb.Water(900.0)] if given == "list" else water
    how = {"world": tb.World(fluid=water)} if given == "world" else {"fluid": fluid}
    calls = {
        "trim": lambda: tb.trim(rov, q, **how),
        "modes": lambda: tb.modes(rov, q, **how),
        "integrate_rk4": lambda: tb.integrate_rk4(rov, q, v, dt=1e-3, steps=2, **how),
        "compile": lambda: tb.compile(tb.forward_dynamics, rov, **how),
        "Drive": lambda: tb.Drive(rov, **how),
        "System": lambda: tb.System(rov, tb.World(fluid=fluid), ()),
    }
    if given == "array":
        viscous = tb.Water(density=[1000.0, 900.0], viscosity=1e-3)
        calls["check_model"] = lambda: tb.check_model(rov, fluid=water)
        calls["cylinder_flows"] = lambda: tb.cylinder_flows(rov, q, v, viscous)
    for name, run in calls.items():
        with pytest.raises(tb.ModelError) as caught:
            run()
        wanted = f"{name}: fluid: expected the water of one case, got 2 cases; take water.case(k)"
        assert str(caught.value).startswith(wanted), name


def test_wrong_number_of_waters_raises_an_error():
    """Which arrays have cases, and how many each."""
    rov = tb.load("bluerov2_heavy")
    q = np.tile(rov.neutral(), (3, 1))
    for run in (
        lambda fluid: tb.mass_matrix(rov, q, fluid=fluid),
        lambda fluid: tb.potential_energy(rov, q, fluid=fluid),
    ):
        with pytest.raises(tb.ShapeError, match=r"got q \(3,\), fluid \(2,\); give every array"):
            run([tb.Water(1000.0), tb.Water(900.0)])


def test_linearize_uses_the_water_of_each_case():
    """The same as one case at a time."""
    rov = tb.load("bluerov2_heavy")
    q, v = rov.neutral(), np.linspace(0.1, 0.6, rov.nv)
    both = tb.linearize(rov, q, v, np.zeros(rov.nv), fluid=[tb.Water(1000.0), tb.Water(0.0)])
    for k, water in enumerate((tb.Water(1000.0), tb.Water(0.0))):
        one = tb.linearize(rov, q, v, np.zeros(rov.nv), fluid=water)
        # other code for a density that is zero in the model: rounding
        np.testing.assert_allclose(both.A[k], one.A, rtol=1e-12, atol=1e-12)


def test_named_gravity_must_be_normal_to_a_surface():
    """As in `World`; the case is named."""
    rov = tb.load("bluerov2_heavy")
    q, v, tau = rov.neutral(), np.zeros(rov.nv), np.zeros(rov.nv)
    sea = tb.Water(surface=0.0)
    kernel = tb.compile(tb.forward_dynamics, rov, fluid=sea, parameters=("world.gravity",))
    calls = (
        lambda named: kernel(q, v, tau, parameters=named),
        lambda named: tb.forward_dynamics(rov, q, v, tau, fluid=sea, parameters=named),
        lambda named: tb.simulate(rov, 0.01, fluid=sea, parameters=named),
    )
    for gravity, case in (
        ([[0.0, 0.0, -9.81], [1.0, 0.0, -9.0]], ", case 1"),
        ([0.0, 0.0, 9.81], ""),
    ):
        for call in calls:
            with pytest.raises(tb.ModelError, match=f"parameters{case}: world: gravity must point"):
                call({"world.gravity": gravity})
