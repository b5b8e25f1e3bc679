"""Values by joint name: arrays and dictionaries are converted both ways, and never mixed."""

import inspect

import numpy as np
import pytest

import tiburon as tb
from tests.contracts.bad_arguments import _arguments, callables
from tests.contracts.good_arguments import arm, linkage
from tiburon.errors import ShapeError, TiburonError, UnknownNameError

STATES = {"q", "v", "vd", "tau", "q0", "q1", "dv"}
"""Arguments that are values of all joints."""

PUBLIC = dict(callables())

CASES = [
    (name, key)
    for name, function in PUBLIC.items()
    for key in inspect.signature(function).parameters
    if key in STATES
]


@pytest.mark.parametrize("name", sorted({name for name, _ in CASES}))
def test_states_by_name_are_refused_with_the_way_to_an_array(name):
    """Every public function of a state returns arrays, so it takes arrays."""
    function = PUBLIC[name]
    for key in (key for one, key in CASES if one == name):
        said = []
        for model in (arm(), linkage()):
            try:
                given = {**_arguments(name, function, model), key: {model.joint_names[0]: 0.1}}
                function(**given)
            except TiburonError as error:
                said.append(str(error))
        # samples of the other arguments fit one of the two robots
        assert any("joint_array" in text for text in said), (key, said)


@pytest.mark.parametrize("of", ["q", "v"])
def test_arrays_become_dictionaries_and_back_for_batches_of_every_joint(of):
    """A free base, joints of three variables and single ones, kicked."""
    for name in ("quadruped", "stewart", "panda"):
        robot = tb.load(name)
        array = robot.random_state(5, (2, 3))[0 if of == "q" else 1]
        found = robot.by_joint(array, of=of)
        assert list(found) == list(robot.moving_joint_names)
        for joint, values in found.items():
            assert np.array_equal(values, array[..., robot.slice(joint, of=of)])
        assert np.array_equal(robot.joint_array(found, of=of), array)


def test_joints_left_out_are_neutral_or_at_rest():
    """Scalars for joints with one variable; leading dimensions broadcast."""
    robot = tb.load("quadruped")
    hinge, base = robot.moving_joint_names[1], robot.moving_joint_names[0]
    q = robot.joint_array({hinge: 0.3})
    assert np.array_equal(
        np.delete(q, robot.indices(hinge)), np.delete(robot.neutral(), robot.indices(hinge))
    )
    assert q[robot.indices(hinge)] == 0.3
    v = robot.joint_array({hinge: [[1.0], [2.0]], base: np.arange(6.0)}, of="v")
    assert v.shape == (2, robot.nv)
    assert np.array_equal(v[:, robot.slice(base, of="v")], [np.arange(6.0)] * 2)
    assert np.array_equal(v[:, robot.slice(hinge, of="v")], [[1.0], [2.0]])
    assert np.count_nonzero(v) == 2 * 6


def test_functions_of_named_joints_compile():
    """Values by name pass through a traced function."""
    robot = tb.load("panda")
    name = robot.moving_joint_names[2]

    def turned(model, q):
        found = model.by_joint(q)
        return tb.gravity_force(model, model.joint_array({name: 2.0 * found[name]}))

    q = np.linspace(-0.4, 0.5, robot.nq)
    other = robot.neutral()
    other[robot.indices(name)] = 2.0 * q[robot.indices(name)]
    assert np.array_equal(tb.compile(turned, robot)(q), tb.gravity_force(robot, other))


def test_wrong_names_and_shapes_are_named():
    """Of the dictionary, and of its entries."""
    robot = tb.load("panda")
    name = robot.moving_joint_names[0]
    with pytest.raises(UnknownNameError, match="elbow"):
        robot.joint_array({"elbow": 1.0})
    with pytest.raises(ShapeError, match=name):
        robot.joint_array({name: [1.0, 2.0]})
    with pytest.raises(ShapeError, match="by joint name"):
        robot.joint_array([1.0])
    with pytest.raises(TiburonError, match="of"):
        robot.by_joint(robot.neutral(), of="tau")
    with pytest.raises(ShapeError, match="values"):
        robot.by_joint([1.0, 2.0])


def test_results_for_named_parts_have_the_names_that_were_given():
    """Functions that take dictionaries of joints, parameters or poses return the same keys."""
    robot = tb.load("panda")
    names = [f"{body}.mass" for body in robot.body_names[2:4]]
    kernel = tb.compile(tb.gravity_force, robot, parameters=names)
    q = np.linspace(-0.4, 0.5, robot.nq)
    found = tb.parameter_derivatives(kernel, q, parameters=dict.fromkeys(reversed(names), 1.0))
    assert set(found) == set(names)
    joint = robot.moving_joint_names[3]
    posed = robot.with_poses({"bent": {joint: 0.7}})
    assert posed.by_joint(posed.poses["bent"])[joint] == 0.7
    held = tb.assemble(tb.load("four_bar"), hold={tb.load("four_bar").moving_joint_names[0]: 0.6})
    assert held.q[tb.load("four_bar").indices(tb.load("four_bar").moving_joint_names[0])] == 0.6
