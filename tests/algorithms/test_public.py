"""The public functions: shapes, batches, worlds, frames, and what they say when refused."""

import numpy as np
import pytest

import tiburon as tb
from tests.oracles import absolute
from tests.robots import ROBOTS, kicked, pendulum
from tests.tolerances import assert_close
from tiburon.errors import DomainError, NonFiniteError, OptionError, ShapeError, UnknownNameError
from tiburon.functions import library

ROVER = ROBOTS["rover"]


def test_leading_dimensions_broadcast():
    """Positions of one shape and forces of another make a batch of the common shape."""
    q, v, _ = kicked(ROVER, 1, (3, 1))
    _, _, tau = kicked(ROVER, 2, (4,))
    vd = tb.forward_dynamics(ROVER, q, v, tau)
    assert vd.shape == (3, 4, ROVER.nv)
    assert np.array_equal(vd[2, 1], tb.forward_dynamics(ROVER, q[2, 0], v[2, 0], tau[1]))
    assert tb.inverse_dynamics(ROVER, q, v, tau).shape == (3, 4, ROVER.nv)
    assert tb.mass_matrix(ROVER, q).shape == (3, 1, ROVER.nv, ROVER.nv)
    assert np.shape(tb.kinetic_energy(ROVER, q, v)) == (3, 1)
    assert np.shape(tb.potential_energy(ROVER, q)) == (3, 1)


def test_one_state_gives_plain_numbers_of_energy():
    """Energies of one state are numbers, not arrays without dimensions."""
    q, v, _ = kicked(ROVER, 3)
    assert isinstance(tb.kinetic_energy(ROVER, q, v), float)
    assert isinstance(tb.potential_energy(ROVER, q), float)


def test_lists_and_integers_are_converted():
    """Anything NumPy can read is accepted."""
    model = pendulum()
    expected = tb.forward_dynamics(model, np.array([1.0]), np.array([2.0]), np.array([3.0]))
    assert np.array_equal(tb.forward_dynamics(model, [1], [2], [3]), expected)


def test_gravity_of_the_world_is_used_and_has_a_default():
    """A world with the default gravity changes nothing; another one does."""
    q, v, tau = kicked(ROVER, 4)
    usual = tb.inverse_dynamics(ROVER, q, v, tau)
    assert np.array_equal(usual, tb.inverse_dynamics(ROVER, q, v, tau, world=tb.World()))
    for gravity in [(0.0, 0.0, 0.0), (0.0, 0.0, -1.62), (3.0, 0.0, 4.0)]:
        actual = tb.inverse_dynamics(ROVER, q, v, tau, world=tb.World(gravity=gravity))
        assert_close(actual, absolute.rnea(ROVER, q, v, tau, gravity))


def test_frames_by_default_are_all_but_the_world_in_order():
    """One row per frame name; one name alone gives no such dimension."""
    q, *_ = kicked(ROVER, 5, (2,))
    rotation, translation = tb.forward_kinematics(ROVER, q)
    names = ROVER.frame_names[1:]
    assert rotation.shape == (2, len(names), 3, 3)
    assert translation.shape == (2, len(names), 3)
    for place, name in enumerate(names):
        pose = absolute.frame_pose(ROVER, q[1], name)
        assert_close(rotation[1, place], pose[:3, :3])
        assert_close(translation[1, place], pose[:3, 3])
    one = tb.forward_kinematics(ROVER, q, "tip")
    assert [part.shape for part in one] == [(2, 3, 3), (2, 3)]
    assert np.array_equal(one[1], translation[:, names.index("tip")])
    two = tb.forward_kinematics(ROVER, q, ["tip", "world"])
    assert np.array_equal(two[0][:, 1], np.broadcast_to(np.eye(3), (2, 3, 3)))
    assert np.array_equal(two[1][:, 0], one[1])


def test_external_forces_may_have_their_own_batch():
    """One state under many forces."""
    q, v, tau = kicked(ROVER, 6)
    wrenches = np.random.default_rng(7).standard_normal((5, 6))
    vd = tb.forward_dynamics(ROVER, q, v, tau, external_force={"tip": wrenches, "base": [0.0] * 6})
    assert vd.shape == (5, ROVER.nv)
    one = tb.forward_dynamics(ROVER, q, v, tau, external_force={"tip": wrenches[3]})
    assert_close(vd[3], one)


@pytest.mark.parametrize(
    ("call", "error", "message"),
    [
        (
            lambda q, v, t: (q[:5], v, t),
            ShapeError,
            r"q: expected 10 \(7 base \+ 3 joints\), got 5",
        ),
        (
            lambda q, v, t: (q, v, t[:2]),
            ShapeError,
            r"tau: expected 9 \(6 base \+ 3 joints\), got 2",
        ),
        (lambda q, v, t: (q, v * np.nan, t), NonFiniteError, "v: every value must be finite"),
        (
            lambda q, v, t: (np.array([*(0.1 * q[:4]), *q[4:]]), v, t),
            DomainError,
            "quaternion of joint 'float'",
        ),
    ],
)
def test_wrong_arguments_are_refused(call, error, message):
    """The message names the argument, what was expected and what was given."""
    q, v, tau = kicked(ROVER, 8)
    with pytest.raises(error, match=message):
        tb.forward_dynamics(ROVER, *call(q, v, tau))


def test_drifted_quaternion_is_normalized():
    """Lengths near one are accepted, and only the direction counts."""
    q, v, tau = kicked(ROVER, 9)
    drifted = np.array([*(1.1 * q[:4]), *q[4:]])
    expected = tb.forward_dynamics(ROVER, q, v, tau)
    assert_close(tb.forward_dynamics(ROVER, drifted, v, tau), expected, 1e-11)


def test_unknown_frames_axes_and_wrong_wrenches_are_refused():
    """Names are checked with the nearest match, wrenches by their frame."""
    q, v, tau = kicked(ROVER, 10)
    with pytest.raises(UnknownNameError, match="did you mean 'tip'"):
        tb.forward_dynamics(ROVER, q, v, tau, external_force={"tipp": np.zeros(6)})
    with pytest.raises(UnknownNameError, match="unknown frame 'hand'"):
        tb.forward_kinematics(ROVER, q, "hand")
    with pytest.raises(OptionError, match="external_axes: expected 'frame' or 'world'"):
        tb.inverse_dynamics(
            ROVER, q, v, tau, external_force={"tip": np.zeros(6)}, external_axes="body"
        )
    with pytest.raises(ShapeError, match=r"external_force\['tip'\]: expected 6"):
        tb.forward_dynamics(ROVER, q, v, tau, external_force={"tip": np.zeros(3)})


def test_models_of_equal_structure_keep_their_own_masses():
    """Two pendulums share code, not numbers."""
    q, v, tau = np.array([0.3]), np.array([0.1]), np.array([0.2])
    light, heavy = pendulum(mass=1.0), pendulum(mass=3.0)
    assert light.structure_key() == heavy.structure_key()
    for model in (light, heavy, light):
        expected = absolute.aba(model, q, v, tau, (0.0, 0.0, -9.81))
        assert_close(tb.forward_dynamics(model, q, v, tau), expected)


def test_kernels_in_memory_are_bounded_and_rebuilt(monkeypatch):
    """Many models do not pile up kernels; a model used again works again."""
    monkeypatch.setattr(library, "KERNELS_PER_FUNCTION", 6)
    function = library.LIBRARY["forward_dynamics"]
    function.latest[0] = (None, None)
    function.kernels.clear()
    q, v, tau = np.array([0.3]), np.array([0.1]), np.array([0.2])
    models = [pendulum(mass=1.0 + k) for k in range(10)]
    for model in [*models, *models, models[-1], models[-2], models[-1]]:
        expected = absolute.aba(model, q, v, tau, (0.0, 0.0, -9.81))
        assert_close(tb.forward_dynamics(model, q, v, tau), expected)
        assert len(function.kernels) <= 6


def test_a_robot_that_cannot_move_has_frames_and_empty_dynamics():
    """No freedom is a size like any other."""
    post = tb.Body("post", joint=tb.Fixed("weld"), inertia=tb.Inertia.box(1.0, (1, 1, 1)))
    tip = tb.Frame("tip", "post", tb.Pose(translation=(1.0, 2.0, 3.0)))
    model = tb.Model("post", [post], [tip])
    none = np.zeros(0)
    assert tb.forward_dynamics(model, none, none, none).shape == (0,)
    assert tb.inverse_dynamics(model, np.zeros((3, 0)), none, none).shape == (3, 0)
    assert tb.mass_matrix(model, none).shape == (0, 0)
    assert tb.kinetic_energy(model, none, none) == 0.0
    assert np.array_equal(tb.forward_kinematics(model, none, "tip")[1], [1.0, 2.0, 3.0])


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"model": "pendulum"}, "model: expected a Model, got 'pendulum'"),
        ({"world": (0.0, 0.0, -1.6)}, r"world: expected a World, got \(0.0.*write World\(gravity="),
        ({"external_force": [np.ones(6)]}, "external_force: expected forces by name of a body"),
    ],
)
def test_anything_but_a_robot_world_or_force_is_refused_with_a_message(arguments, message):
    """Such slips are common, and an AttributeError would not tell which argument."""
    given = {"model": pendulum(), "q": [0.1], "v": [0.2], "tau": [0.3]} | arguments
    with pytest.raises(tb.TiburonError, match=message):
        tb.forward_dynamics(**given)


def test_kernels_are_not_compiled_for_invalid_robots():
    with pytest.raises(tb.ModelError, match="model: expected a Model"):
        tb.compile(tb.mass_matrix, "pendulum")
    with pytest.raises(tb.ModelError, match="world: expected a World"):
        tb.compile(tb.mass_matrix, pendulum(), world=9.81)


def test_a_method_can_be_chosen_while_a_driven_robot_is_traced():
    """The first call of a robot may come inside a trace; what chooses the method traces, too."""
    slide = tb.Driven("lift", tb.Prismatic("rail"), tb.Harmonic(0.1, 2.0))
    body = tb.Inertia.sphere(1.0, 0.1)
    arm = tb.Model(
        "lifted",
        [
            tb.Body("stage", joint=slide, inertia=body),
            tb.Body("rod", "stage", joint=tb.Revolute("swing", (0, 1, 0)), inertia=body),
        ],
    )

    def rates(model, q, v, t):
        return tb.forward_dynamics(model, q, v, [0.0] * model.nv, time=t)

    kernel = tb.compile(rates, arm, shapes={"t": ()})
    q, v = np.full(arm.nq, 0.3), np.full(arm.nv, -0.4)
    expected = tb.forward_dynamics(arm, q, v, np.zeros(arm.nv), time=0.7)
    np.testing.assert_allclose(kernel(q, v, 0.7), expected, rtol=1e-13)
