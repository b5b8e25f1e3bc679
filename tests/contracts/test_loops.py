"""Functions that are for trees alone refuse robots with loops; kinematics continues."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.functions.library import LIBRARY


def four_bar():
    rod = tb.Inertia.cylinder(1.0, 0.02, 0.5, com=(0, 0, 0.25))
    end = tb.Pose(translation=(0, 0, 0.5))
    axis = (0, 1, 0)
    return tb.Model(
        "four bar",
        [
            tb.Body("crank", joint=tb.Revolute("a", axis), inertia=rod),
            tb.Body("coupler", "crank", joint=tb.Revolute("b", axis, pose=end), inertia=rod),
            tb.Body("rocker", "coupler", joint=tb.Revolute("c", axis, pose=end), inertia=rod),
        ],
        loops=[tb.LoopClosure("ground pin", "rocker", "world", tb.Revolute("d", axis, pose=end))],
    )


MODEL = four_bar()
Q = np.array([0.3, 0.2, 0.1])

REFUSED = {
    "mass_matrix": lambda m: tb.mass_matrix(m, Q),
    "inverse_mass_matrix": lambda m: tb.inverse_mass_matrix(m, Q),
    "bias_force": lambda m: tb.bias_force(m, Q, Q),
    "gravity_force": lambda m: tb.gravity_force(m, Q),
    "coriolis_matrix": lambda m: tb.coriolis_matrix(m, Q, Q),
    "prepare_dynamics": lambda m: tb.prepare_dynamics(m, Q, Q),
    "regressor": lambda m: tb.regressor(m, Q, Q, Q),
    "floating_base_inverse_dynamics": lambda m: tb.floating_base_inverse_dynamics(m, Q, Q, Q),
    "fossen_form": lambda m: tb.fossen_form(m, Q, Q),
    "inverse_kinematics": lambda m: tb.inverse_kinematics(
        m, Q, tb.FrameTarget("rocker", position=(0.1, 0.0, 0.2))
    ),
    "trim": lambda m: tb.trim(m, Q),
}


@pytest.mark.parametrize("name", REFUSED)
def test_dynamics_of_loops_names_the_alternative(name):
    with pytest.raises(tb.ModelError, match="would ignore what closes loops") as caught:
        REFUSED[name](MODEL)
    message = str(caught.value)
    assert name in message
    assert "'ground pin'" in message
    assert "model.without_loops()" in message
    assert caught.value.name == "ground pin"


def test_loops_are_refused_after_the_tree_was_compiled():
    """The tree has the same bodies; its code must not be found for the robot with loops."""
    tree = MODEL.without_loops()
    assert tree.structure_key() != MODEL.structure_key()
    tb.mass_matrix(tree, Q)
    with pytest.raises(tb.ModelError, match="closes loops"):
        tb.mass_matrix(MODEL, Q)
    with pytest.raises(tb.ModelError, match="closes loops"):
        tb.compile(tb.mass_matrix, MODEL)
    with pytest.raises(tb.ModelError, match="closes loops"):
        tb.compile(lambda model, q: tb.mass_matrix(model, q), MODEL)


def test_kinematics_and_energies_accept_loops():
    tree = MODEL.without_loops()
    for function in (
        lambda m: tb.forward_kinematics(m, Q, "rocker")[0],
        lambda m: tb.frame_jacobian(m, Q, "rocker"),
        lambda m: tb.center_of_mass(m, Q),
        lambda m: tb.kinetic_energy(m, Q, Q),
        lambda m: tb.potential_energy(m, Q),
        lambda m: tb.momentum(m, Q, Q),
    ):
        np.testing.assert_array_equal(function(MODEL), function(tree))


def test_every_library_function_declares_its_handling_of_loops():
    """A new function must say whether loops concern it: dynamics by forces or mass does."""
    for name in tb.__all__:
        getattr(tb, name)  # loads its module
    with pytest.raises(tb.UnknownNameError):
        LIBRARY["no such function"]
    kinematics = {name for name, function in LIBRARY.items() if not function.trees_only}
    assert kinematics <= {
        "apparent_inertia",
        "apparent_inverse_inertia",
        "center_of_mass",
        "center_of_mass_jacobian",
        "closed_motion",
        "contact_approach",
        "contact_closing",
        "contact_geometry",
        "contact_impact",
        "contact_normals",
        "contact_lift",
        "contact_motion",
        "contact_problem",
        "shared_load",
        "load_matrices",
        "load_squares",
        "load_supports",
        "load_wrenches",
        "cross_inverse_inertia",
        "forward_dynamics",
        "forward_dynamics_derivatives",
        "forward_kinematics",
        "fin_force",
        "frame_acceleration",
        "frame_jacobian",
        "frame_jacobian_bias",
        "frame_velocity",
        "hybrid_dynamics",
        "inertia_derivatives",
        "inverse_dynamics",
        "inverse_dynamics_derivatives",
        "inverse_kinematics",
        "joint_reactions",
        "kinetic_energy",
        "momentum",
        "linearize",
        "linearize_contact_step",
        "linearize_step",
        "loop_inverse_dynamics",
        "tracked_load",
        "tracking_forces",
        "loop_reactions",
        "loop_closure",
        "loop_jacobian",
        "constraint_residual",
        "loop_dynamics",
        "project_acceleration",
        "project_velocity",
        "project_configuration",
        "momentum_matrix",
        "operational_space_inertia",
        "operational_space_inverse_inertia",
        "potential_energy",
        "prepared_dynamics",
        "thrust_after",
        "thruster_force",
        "thruster_force_of_thrust",
    }
