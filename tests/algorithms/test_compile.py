"""Kernels on request: library functions, lists of them, users' functions, parameters."""

import os
import pickle
import subprocess
import sys

import numpy as np
import pytest

import tiburon as tb
from tests.oracles import absolute
from tests.robots import ROBOTS, kicked, pendulum
from tests.tolerances import ALGEBRA, assert_close
from tiburon.errors import ModelError, ShapeError, TraceError, UnknownNameError
from tiburon.functions.kernel_source import LibrarySource

ROVER = ROBOTS["rover"]

TOGETHER = 1e-12
"""Functions compiled together share sub-expressions, which may round in another order than alone:
a few units of 2e-16, magnified by the condition of the mass matrix (about 100 for this robot)."""


def test_a_compiled_library_function_takes_arrays_only():
    """The kernel equals the public function in bits, and describes itself."""
    q, v, tau = kicked(ROVER, 1)
    kernel = tb.compile(tb.forward_dynamics, ROVER)
    assert np.array_equal(kernel(q, v, tau), tb.forward_dynamics(ROVER, q, v, tau))
    about = kernel.__self__
    assert [item.name for item in about.inputs] == ["q", "v", "tau"]
    assert set(about.parameters) == {"inertia", "gravity"}
    assert kernel.__name__ == "forward_dynamics"


def test_several_functions_share_arguments_and_give_a_flat_tuple():
    """One kernel for dynamics, mass matrix and frames, with q and v named once."""
    q, v, tau = kicked(ROVER, 2, (4,))
    functions = [tb.forward_dynamics, tb.mass_matrix, tb.forward_kinematics, tb.kinetic_energy]
    kernel = tb.compile(functions, ROVER, frames="tip")
    assert [item.name for item in kernel.__self__.inputs] == ["q", "v", "tau"]
    vd, H, rotation, translation, energy = kernel(q, v, tau)
    assert_close(vd, tb.forward_dynamics(ROVER, q, v, tau), TOGETHER)
    assert_close(H, tb.mass_matrix(ROVER, q), TOGETHER)
    expected = tb.forward_kinematics(ROVER, q, "tip")
    assert_close(rotation, expected[0], TOGETHER)
    assert_close(translation, expected[1], TOGETHER)
    assert_close(energy, tb.kinetic_energy(ROVER, q, v), TOGETHER)


def test_a_users_function_calls_the_library_on_traced_arrays():
    """A controller and the motion it makes, traced through."""

    def swing(model, q, v, target):
        tau = 40.0 * np.tanh(target - q[1:]) - 6.0 * v
        return {"force": tau, "acceleration": tb.forward_dynamics(model, q, v, tau)}

    kernel = tb.compile(swing, ROVER, shapes={"target": ROVER.nv})
    q, v, target = kicked(ROVER, 3, (5,))
    force, acceleration = kernel(q, v, target)
    expected = 40.0 * np.tanh(target - q[..., 1:]) - 6.0 * v
    # the engine's tanh is good to a few units in the last place
    assert_close(force, expected, 1e-14, 40.0)
    assert_close(acceleration, tb.forward_dynamics(ROVER, q, v, force), ALGEBRA)
    assert [result.name for result in kernel.__self__.outputs] == ["force", "acceleration"]


def test_every_library_function_can_be_called_inside_a_users_function():
    """Each gives the same numbers inside as outside."""

    def everything(model, q, v, tau, wrench):
        rotation, translation = tb.forward_kinematics(model, q, "tip")
        return (
            tb.forward_dynamics(model, q, v, tau, external_force={"tip": wrench}),
            tb.inverse_dynamics(model, q, v, tau),
            tb.mass_matrix(model, q),
            tb.kinetic_energy(model, q, v),
            tb.potential_energy(model, q),
            rotation,
            translation,
        )

    q, v, tau = kicked(ROVER, 4)
    wrench = np.arange(6.0)
    actual = tb.compile(everything, ROVER, shapes={"wrench": 6})(q, v, tau, wrench)
    expected = [
        tb.forward_dynamics(ROVER, q, v, tau, external_force={"tip": wrench}),
        tb.inverse_dynamics(ROVER, q, v, tau),
        tb.mass_matrix(ROVER, q),
        tb.kinetic_energy(ROVER, q, v),
        tb.potential_energy(ROVER, q),
        *tb.forward_kinematics(ROVER, q, "tip"),
    ]
    for ours, theirs in zip(actual, expected, strict=True):
        assert_close(ours, theirs, TOGETHER)


def test_inertias_inside_a_users_function_stay_parameters():
    """Even where the function calls the library with plain numbers."""

    def weight(model, tau):
        return tb.mass_matrix(model, np.array([0.3])) @ tau

    model = pendulum(mass=2.0)
    kernel = tb.compile(weight, model, parameters="rod.mass")
    doubled = kernel([1.0], parameters={"rod.mass": 4.0})
    assert np.array_equal(doubled, 2.0 * kernel([1.0]))


def test_parameters_vary_per_case_without_compiling():
    """One mass per case equals one model per case; numbers that are zero cost some roundings."""
    masses = [0.5, 1.0, 4.0]
    names = ("rod.mass", "world.gravity")
    kernel = tb.compile(tb.forward_dynamics, pendulum(), parameters=names)
    q, v, tau = np.array([0.3]), np.array([0.1]), np.array([0.2])
    rows = kernel(q, v, tau, parameters={"rod.mass": masses})
    for row, m in zip(rows, masses, strict=True):
        assert_close(row, tb.forward_dynamics(pendulum(mass=m), q, v, tau), ALGEBRA)
    world = tb.World(gravity=(0.0, 0.0, -1.62))
    on_the_moon = kernel(q, v, tau, parameters={"world.gravity": world.gravity})
    assert_close(on_the_moon, tb.forward_dynamics(pendulum(), q, v, tau, world=world), ALGEBRA)


def test_world_and_external_forces_are_options_of_compile():
    """The kernel takes one more array per frame a force acts on."""
    q, v, tau = kicked(ROVER, 5)
    wrench = np.arange(6.0)
    world = tb.World(gravity=(1.0, 2.0, 3.0))
    kernel = tb.compile(
        tb.inverse_dynamics, ROVER, world=world, external_force="tip", external_axes="world"
    )
    expected = absolute.rnea(ROVER, q, v, tau, world.gravity, {"tip": wrench}, "world")
    assert_close(kernel(q, v, tau, wrench), expected)


def test_equal_structure_means_an_equal_key_without_tracing(monkeypatch):
    """The key depends on structure and options, not on masses, and needs no trace."""
    monkeypatch.setattr(LibrarySource, "program", lambda self: pytest.fail("traced"))

    def key(model, world=tb.World(), names=("forward_dynamics",), options=()):  # noqa: B008
        return LibrarySource(model, names, world, options).key

    base = key(pendulum(mass=1.0))
    assert key(pendulum(mass=2.0)) == base
    assert key(pendulum(), tb.World(gravity=(0.0, 0.0, -1.0))) == base
    assert key(pendulum(), tb.World(gravity=(0.0, 1.0, -1.0))) != base
    assert key(pendulum(), names=("inverse_dynamics",)) != base
    assert key(pendulum(), options=(("frames", "rod"),)) != base
    assert key(ROVER) != base


def test_a_known_kernel_is_found_without_tracing(monkeypatch):
    """Another model of the same structure compiles nothing."""
    tb.compile(tb.forward_dynamics, pendulum(mass=1.0))
    monkeypatch.setattr(LibrarySource, "program", lambda self: pytest.fail("traced"))
    kernel = tb.compile(tb.forward_dynamics, pendulum(mass=2.5))
    q, v, tau = np.array([0.3]), np.array([0.1]), np.array([0.2])
    expected = absolute.aba(pendulum(mass=2.5), q, v, tau, (0.0, 0.0, -9.81))
    assert_close(kernel(q, v, tau), expected)


@pytest.mark.parametrize(
    "function", [tb.forward_dynamics, lambda model, q, v, tau: tb.mass_matrix(model, q) @ tau]
)
def test_kernels_pickle(function):
    """A copy made from bytes gives the same bits."""
    kernel = tb.compile(function, ROVER)
    copy = pickle.loads(pickle.dumps(kernel))
    q, v, tau = kicked(ROVER, 6)
    assert np.array_equal(copy(q, v, tau), kernel(q, v, tau))


def test_a_function_without_model_compiles_too():
    """Plain array functions need shapes and no robot."""
    kernel = tb.compile(lambda x, y: np.sin(x) @ y, shapes={"x": 3, "y": (3,)})
    assert_close(kernel([0.1, 0.2, 0.3], [1, 2, 3]), np.sin([0.1, 0.2, 0.3]) @ [1, 2, 3])


def test_arguments_with_defaults_keep_them():
    """An option of the user's own is no input."""

    def scaled(model, q, factor=3.0):
        return factor * q

    kernel = tb.compile(scaled, ROVER)
    assert [item.name for item in kernel.__self__.inputs] == ["q"]
    q, *_ = kicked(ROVER, 7)
    assert np.array_equal(kernel(q), 3.0 * q)


def test_errors_name_the_remedy():
    """Unknown shapes, clashing shapes, missing models, batches inside traced code."""
    with pytest.raises(ShapeError, match=r"argument 'x'.*shapes=\{'x': \(\.\.\.\)\}"):
        tb.compile(lambda model, x: x, ROVER)
    with pytest.raises(ModelError, match="mass_matrix: needs a model"):
        tb.compile(tb.mass_matrix)
    with pytest.raises(UnknownNameError, match="unknown frame"):
        tb.compile(tb.forward_dynamics, ROVER, external_force="nobody")

    with pytest.raises(ShapeError, match="one shape in all functions"):
        tb.compile([tb.mass_matrix, lambda model, q: q], ROVER, shapes={"q": 3})

    def batched(model, q):
        return tb.mass_matrix(model, np.stack([q, q]))

    with pytest.raises(ShapeError, match="inside a traced function pass one case"):
        tb.compile(batched, ROVER)

    def branching(model, q):
        return q if q[0] > 0.0 else -q

    with pytest.raises(TraceError, match="where"):
        tb.compile(branching, ROVER)


def test_a_kernel_works_in_a_process_that_has_not_loaded_its_function(tmp_path):
    """The kernel alone determines the algorithm that a new process traces."""
    model = pendulum()
    kernel = tb.compile(tb.coriolis_matrix, model)
    given = pickle.dumps((kernel, [0.4], [1.3]))
    program = (
        "import pickle, sys; kernel, q, v = pickle.load(sys.stdin.buffer); print(*kernel(q, v)[0])"
    )
    # an empty cache: the kernel must be traced again
    environment = {**os.environ, "TIBURON_CACHE_DIR": str(tmp_path)}
    done = subprocess.run(
        [sys.executable, "-c", program], input=given, env=environment, capture_output=True
    )
    assert done.returncode == 0, done.stderr.decode()
    assert float(done.stdout) == kernel([0.4], [1.3])[0, 0]


def test_functions_with_options_are_compiled_inside_user_functions():
    """Which joints have known accelerations is not an array; the message gives an alternative."""
    with pytest.raises(tb.TraceError, match=r"compile a function of your own .*known_acc"):
        tb.compile(tb.hybrid_dynamics, ROVER)

    def held(model, q, v, tau, vd):
        return tb.hybrid_dynamics(model, q, v, tau, vd, known_acceleration="elbow")

    q, v, tau = kicked(ROVER, 9)
    found = tb.compile(held, ROVER)(q, v, tau, v)
    expected = tb.hybrid_dynamics(ROVER, q, v, tau, v, known_acceleration="elbow")
    for ours, theirs in zip(found, expected, strict=True):
        assert_close(ours, theirs, TOGETHER)
