"""Texts of robots, surroundings and results: one short line each."""

import numpy as np
import pytest

import tiburon as tb

SHORT = 200
"""Characters of a text at most."""

MANY = np.linspace(900.0, 1000.0, 500)


def _things():
    rov, bar = tb.load("bluerov2_heavy"), tb.load("four_bar")
    q, v = rov.neutral(), np.full(rov.nv, 0.1)
    tau = np.zeros(rov.nv)
    sea = tb.Water(density=MANY, current=np.ones((500, 3)))
    yield from (rov, bar, sea, tb.World(fluid=sea), tb.Water(current=tb.Tide((0.5, 0, 0), 10.0)))
    yield tb.World(fluid=tb.Water(current=tb.Waves((tb.Wave(1.0, 8.0),) * 20)))
    yield from (*rov.bodies, *rov.thrusters, *bar.loops)
    yield tb.linearize(rov, q, v, tau)
    yield tb.fossen_form(rov, q, v, fluid=tb.Water())
    yield tb.forward_dynamics_derivatives(rov, q, v, tau)
    yield tb.inverse_dynamics_derivatives(rov, q, v, tau)
    yield tb.prepare_dynamics(rov, q, v)
    yield tb.trim(rov, fluid=tb.Water())
    yield tb.check_model(rov, motion=False)
    yield from (tb.assemble(bar), tb.mobility(bar), tb.parameters(rov))
    run = tb.simulate(rov, 0.01, q=np.tile(q, (300, 1)))
    yield from (run, run.outcomes[0])


def test_texts_of_models_fluids_and_results_are_one_short_line():
    """Also of water with an entry per case, and of results of arrays."""
    for thing in _things():
        text = repr(thing)
        assert "\n" not in text, text
        assert len(text) <= SHORT, text


@pytest.mark.parametrize(
    "call",
    [
        lambda m, q: tb.mass_matrix(m, q, fluid=[tb.Water()] * 500 + [3]),
        lambda m, q: tb.mass_matrix(m, q, fluid=[tb.Water()] * 3 + [tb.Water(density=MANY)]),
        lambda m, q: tb.mass_matrix(m, q, world=[tb.World()] * 300),
        lambda m, q: tb.mass_matrix([m] * 300, q),
        lambda m, q: tb.simulate(m, 0.1, control=[m] * 300),
        lambda m, q: tb.simulate(m, 0.1, events=[[tb.Water(density=MANY)]]),
        lambda m, q: tb.simulate(m, 0.1, elements=[tb.World(fluid=tb.Water(density=MANY))]),
        lambda m, q: tb.World(ground=tb.Water(density=MANY)),
        lambda m, q: tb.Body("b", joint=[tb.Fixed("j")] * 300),
        lambda m, q: tb.Body("b", joint=tb.Fixed("j"), fluid=[tb.BodyFluid()] * 300),
    ],
)
def test_messages_print_no_whole_objects(call):
    """What was given stands in them as its kind, its size and how it begins."""
    rov = tb.load("bluerov2_heavy")
    with pytest.raises(tb.TiburonError) as caught:
        call(rov, rov.neutral())
    assert len(str(caught.value)) <= 400, str(caught.value)
