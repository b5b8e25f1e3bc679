"""Functions that serve trees and closed chains alike, and those that refuse loops with a reason."""

import numpy as np
import pytest

import tiburon as tb
from tests.loops.dense import dense_constraints
from tests.loops.test_apparent import dense_inverse
from tests.loops.test_inverse import moving
from tests.model.samples import named_inertias

RANDOM = np.random.default_rng(33)


def blocks(matrix, row, column):
    return matrix[6 * row : 6 * row + 6, 6 * column : 6 * column + 6]


def test_inverse_inertias_of_links_account_for_loops():
    """Cross and apparent inverse inertia are blocks of J (H^-1 less what loops resist) J^T."""
    model, q, _ = moving("planar_3rrr")
    # tied to each other by a hinge: they move differently
    names = ("platform", "distal_1")
    Phi = dense_inverse(model, q, names)
    scale = np.abs(Phi).max()
    cross = tb.cross_inverse_inertia(model, q, *names)
    np.testing.assert_allclose(cross, blocks(Phi, 0, 1), atol=1e-11 * scale)
    both = tb.operational_space_inverse_inertia(model, q, names)
    np.testing.assert_allclose(both, Phi, atol=1e-11 * scale)
    # pulled apart at the origin of the first: J of the difference, the second carried there
    (_, at), (_, from_) = (tb.forward_kinematics(model, q, name) for name in names)
    x, y, z = at - from_
    carried = np.eye(6)
    carried[3:, :3] = [[0.0, z, -y], [-z, 0.0, x], [y, -x, 0.0]]
    apart = np.hstack([np.eye(6), -carried])
    found = tb.apparent_inverse_inertia(model, q, *names)
    np.testing.assert_allclose(found, apart @ Phi @ apart.T, atol=1e-10 * scale)
    # the open chain feels lighter: the test would not see loops left out otherwise
    free = tb.cross_inverse_inertia(model.without_loops(), q, *names)
    assert np.abs(free - cross).max() > 1e-3 * scale


def test_operational_space_inertia_is_that_of_the_platform():
    model, q, _ = moving("planar_3rrr")
    Phi = dense_inverse(model, q, ("platform",))
    found = tb.operational_space_inverse_inertia(model, q, "platform", part="position")
    np.testing.assert_allclose(found, Phi[3:, 3:], atol=1e-11 * np.abs(Phi).max())
    # it stays in its plane: its inertia in the third direction is infinite
    with pytest.raises(tb.DomainError, match="independent directions"):
        tb.operational_space_inertia(model, q, "platform", part="position")


def test_derivatives_by_masses_equal_differences():
    """Constraints know no masses: their rows stay, and forces make up for the change."""
    model, q, v = moving("four_bar")
    tau = RANDOM.standard_normal(3)
    found = tb.inertia_derivatives(model, q, v, tau)
    np.testing.assert_allclose(found.vd, tb.forward_dynamics(model, q, v, tau), atol=1e-10)
    numbers = model.parameters()
    assert found.by_inertia.shape == (3, len(numbers))

    def accelerations(table):
        return tb.forward_dynamics(model, q, v, tau, parameters=named_inertias(model, table))

    for k in range(len(numbers)):
        if model.parameter_names[k].endswith("armature"):
            continue
        step = 1e-6 * max(1.0, abs(numbers[k])) * np.eye(len(numbers))[k]
        slope = (accelerations(numbers + step) - accelerations(numbers - step)) / (2.0 * step[k])
        np.testing.assert_allclose(found.by_inertia[:, k], slope, atol=1e-6)
    assert np.abs(dense_constraints(model, q).J @ found.by_inertia).max() < 1e-9


def test_functions_for_trees_alone_refuse_loops_and_name_the_alternative():
    model, q, v = moving("four_bar")
    calls = {
        "mass_matrix": (q,),
        "inverse_mass_matrix": (q,),
        "bias_force": (q, v),
        "gravity_force": (q,),
        "coriolis_matrix": (q, v),
        "fossen_form": (q, v),
        "regressor": (q, v, v),
        "floating_base_inverse_dynamics": (q, v, v),
        "prepare_dynamics": (q, v),
        "trim": (),
    }
    for name, arguments in calls.items():
        with pytest.raises(
            tb.ModelError, match=rf"{name} is for trees .* take model.without_loops"
        ):
            getattr(tb, name)(model, *arguments)
