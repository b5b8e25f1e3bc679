"""Keywords that all functions of dynamics share."""

import inspect

import numpy as np
import pytest

import tiburon as tb
from tests.robots import double_pendulum
from tiburon.functions.keywords import Conditions

FUNCTIONS = [
    tb.bias_force,
    tb.floating_base_inverse_dynamics,
    tb.forward_dynamics,
    tb.forward_dynamics_derivatives,
    tb.hybrid_dynamics,
    tb.inertia_derivatives,
    tb.inverse_dynamics,
    tb.inverse_dynamics_derivatives,
    tb.joint_reactions,
    tb.linearize,
    tb.prepare_dynamics,
]


@pytest.mark.parametrize("function", FUNCTIONS, ids=lambda function: function.__name__)
def test_help_spells_out_the_keywords_of_conditions(function):
    """The signature shown to users names every condition, as a keyword with a default."""
    shown = inspect.signature(function).parameters
    for name in Conditions.__annotations__:
        assert shown[name].kind is inspect.Parameter.KEYWORD_ONLY
        assert shown[name].default in (None, "frame")
    assert not any(x.kind is x.VAR_KEYWORD for x in shown.values())


@pytest.mark.parametrize(
    "function",
    [f for f in FUNCTIONS if f is not tb.hybrid_dynamics],
    ids=lambda function: function.__name__,
)
def test_misspelled_keyword_suggests_the_nearest(function):
    """A keyword that is no condition is refused, and the nearest one suggested."""
    model = double_pendulum()
    zeros = [np.zeros(2)] * (2 if function in (tb.bias_force, tb.prepare_dynamics) else 3)
    with pytest.raises(TypeError, match=r"keyword argument 'wrold'; did you mean 'world'\?"):
        function(model, *zeros, wrold=tb.World())


def test_conditions_given_as_their_defaults_change_no_bit():
    """World, forces and time that are named but the default ones give the plain result."""
    model = double_pendulum()
    q, v, tau = np.array([0.4, -1.1]), np.array([0.8, 2.0]), np.array([0.3, -0.2])
    plain = tb.forward_dynamics(model, q, v, tau)
    named = tb.forward_dynamics(
        model, q, v, tau, world=None, external_force=None, external_axes="frame", time=None
    )
    weightless = tb.forward_dynamics(model, q, v, tau, world=tb.World(gravity=(0, 0, 0)))
    assert plain.tobytes() == named.tobytes()
    assert np.abs(plain - weightless).max() > 1.0
