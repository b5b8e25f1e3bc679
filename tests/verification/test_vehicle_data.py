"""A vehicle's data sheet against predictions of its models, as in docs/water.md."""

from pathlib import Path

import numpy as np
import pytest

import tiburon as tb
from tests.tolerances import assert_close

PAGE = (Path(__file__).parents[2] / "docs" / "water.md").read_text()

THRUST = 9.0 * 9.80665
"""Forward thrust of a BlueROV2 that is held fast, by its maker: 9 kgf [N]."""

SPEED = 1.0
"""Its largest forward speed, by its maker [m/s]."""

SIZE = (0.457, 0.338, 0.254)


def plain_box():
    """The vehicle as nothing but its size."""
    body = tb.Body(
        "hull",
        joint=tb.Free("base"),
        inertia=tb.Inertia.box(11.0, SIZE),
        shapes=(tb.Shape(tb.BoxShape(SIZE)),),
    )
    return tb.add_hydrodynamics(tb.Model("box", [body]), 1000.0)


MODELS = {
    "`bluerov2_heavy`, identified by von Benzon et al. 2022": lambda: tb.load("bluerov2_heavy"),
    "`bluerov2_alpha`, with its arm, identified in a wave tank": lambda: tb.load("bluerov2_alpha"),
    "a plain box of its size, `add_hydrodynamics`": plain_box,
}


def thrust_at(model, speed):
    """Force along x that keeps the speed [N]."""
    v = np.zeros(model.nv)
    v[3] = speed
    rest = np.zeros(model.nv)
    return tb.inverse_dynamics(model, model.neutral(), v, rest, fluid=tb.Water(1000.0))[3]


def speed_at(model, thrust):
    """Speed at which drag is as large as a thrust [m/s]."""
    low, high = 0.0, 10.0
    for _ in range(50):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if thrust_at(model, middle) < thrust else (low, middle)
    return middle


@pytest.mark.parametrize("name", MODELS)
def test_the_page_reports_speeds_and_errors_as_they_are(name):
    """Speed at the measured thrust, and its error against the measured speed."""
    speed = speed_at(MODELS[name](), THRUST)
    error = 100.0 * (speed / SPEED - 1.0)
    assert f"| {name} | {speed:.2f} m/s | {error:+.0f} % |" in PAGE


def test_the_box_has_the_drag_of_its_face():
    """1/2 rho C A v^2 with C = 1.1."""
    expected = 0.5 * 1000.0 * 1.1 * SIZE[1] * SIZE[2]
    assert_close(thrust_at(plain_box(), 1.0), expected, scale=expected)


def test_a_run_ends_at_that_speed():
    """Pushed from rest with quadratic drag: V tanh(t / T), T = (m + m_A) V / F."""
    model = plain_box()
    push = np.array([0.0, 0.0, 0.0, THRUST, 0.0, 0.0])
    weightless = tb.World(gravity=(0.0, 0.0, 0.0), fluid=tb.Water(1000.0))
    # long enough for the speed, too short for a box to turn broadside as rounding grows (Munk)
    run = tb.integrate_rk4(
        model, model.neutral(), np.zeros(6), push, dt=0.005, steps=700, world=weightless
    )
    final = speed_at(model, THRUST)
    mass = 11.0 + model.body("hull").fluid.added_mass[3][3]
    expected = final * np.tanh(run.time * THRUST / (mass * final))
    # order 4 at a hundredth of T
    assert_close(run.v[:, 3], expected, 1e-7)
    assert_close(run.v[-1, 3], final, 1e-6)
