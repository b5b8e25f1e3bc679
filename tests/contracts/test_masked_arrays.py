"""Masked elements of NumPy arrays are refused wherever arrays enter: a mask is never dropped."""

import numpy as np
import pytest

import tiburon as tb
from tests.contracts.test_shared_keywords import NAMES, call, is_closed, robot, state
from tiburon.errors import TiburonError

ARM = robot(False)
Q, V, VD = state(False)


def masked(x, place=None):
    """Return numbers of which one is masked; what lies under the mask looks like any other."""
    found = np.ma.masked_array(np.array(x, dtype=float))
    found[tuple(0 for _ in found.shape) if place is None else place] = np.ma.masked
    return found


def refuses(run, what="masked element"):
    with pytest.raises(TiburonError, match=what):
        run()


@pytest.mark.parametrize("name", NAMES)
def test_every_function_refuses_masked_elements(name):
    """The first array of each, with the place of the element; a mask of nothing is taken."""
    import inspect

    first = next(x for x in inspect.signature(getattr(tb, name)).parameters if x != "model")
    closed = is_closed(name)
    value = {"q": state(closed)[0], "thrust": np.full((3, 1), 0.2)}[first]
    with pytest.raises(tb.DomainError) as caught:
        call(name, **{first: masked(value, (1, 0))})
    assert str(caught.value).startswith(
        f"{first}: expected a real number in every element, got a masked element at index (1, 0) "
    )
    plain = call(name)
    bare = call(name, **{first: np.ma.masked_array(value)})
    parts = plain if isinstance(plain, tuple) else (plain,)
    others = bare if isinstance(bare, tuple) else (bare,)
    for x, y in zip(parts, others, strict=True):
        if isinstance(x, np.ndarray):
            assert x.tobytes() == np.asarray(y).tobytes()


def test_single_cases_lists_and_parameters_of_kernels():
    """Also where the fast path would take a plain array, and inside lists."""
    refuses(lambda: tb.forward_dynamics(ARM, masked(Q[0]), V[0], VD[0]))
    refuses(lambda: tb.forward_dynamics(ARM, [masked(Q[0]), Q[1]], V[0], VD[0]))
    kernel = tb.compile(tb.mass_matrix, ARM)
    refuses(lambda: kernel(masked(Q)))
    masses = masked(np.linspace(1.0, 2.0, len(Q)))
    named = tb.compile(tb.mass_matrix, ARM, parameters=("tool.mass",))
    refuses(lambda: named(Q, parameters={"tool.mass": masses}))
    refuses(lambda: kernel(Q, out=np.ma.masked_array(np.zeros((3, 3, 3)))), "without a mask")
    refuses(lambda: tb.forward_dynamics(ARM, Q, V, VD, external_force={"tool": masked(np.ones(6))}))


MODEL_CALLS = {
    "integrate": lambda: ARM.integrate(masked(Q[0]), V[0]),
    "difference": lambda: ARM.difference(Q[0], masked(Q[1])),
    "normalize": lambda: ARM.normalize(masked(Q[0])),
    "pose": lambda: tb.Pose(translation=masked(np.ones(3))),
    "rotation": lambda: tb.Pose(rotation=masked(np.eye(3))),
    "inertia": lambda: tb.Inertia(1.0, masked(np.ones(3))),
    "tensor": lambda: tb.Inertia(1.0, tensor=masked(np.eye(3))),
    "axis": lambda: tb.Revolute("j", masked([0.0, 1.0, 0.0])),
    "added mass": lambda: tb.BodyFluid(added_mass=masked(np.eye(6))),
    "gravity": lambda: tb.World(gravity=masked([0.0, 0.0, -9.81])),
    "current": lambda: tb.Water(current=masked([0.1, 0.0, 0.0])),
    "ground": lambda: tb.GroundGrid(masked(np.zeros((3, 3))), (1.0, 1.0)),
    "polynomial": lambda: tb.Polynomial(masked([1.0, 2.0])),
    "poses": lambda: tb.Model("m", ARM.bodies, poses={"home": {"a": masked([0.1])}}),
    "pinocchio": lambda: tb.to_pinocchio(ARM, masked(Q[0])),
    "joint_actuation": lambda: tb.joint_actuation(ARM.joints[0], masked(np.ones((1, 6)))),
    "mesh": lambda: tb.Mesh(masked(np.eye(3)), [(0, 1, 2)]),
}


@pytest.mark.parametrize("name", MODEL_CALLS)
def test_models_refuse_masked_elements(name):
    refuses(MODEL_CALLS[name])


RUNS = {
    "q": lambda: tb.simulate(ARM, 0.01, q=masked(Q[0])),
    "v": lambda: tb.simulate(ARM, 0.01, q=Q[0], v=masked(V[0])),
    "command": lambda: tb.simulate(ARM, 0.01, q=Q[0], command={"b": masked(np.ones(3))}),
    "parameters": lambda: tb.simulate(
        ARM, 0.01, q=Q, parameters={"tool.mass": masked(np.linspace(1.0, 2.0, 3))}
    ),
    "control": lambda: tb.simulate(ARM, 0.01, q=Q[0], control=lambda now: masked(np.ones(3))),
    "path": lambda: tb.JointPath.through([0.0, 1.0], masked(Q[:2])),
    "cartesian": lambda: tb.CartesianPath.through([0.0, 1.0], masked(np.eye(3)[:2])),
    "schedule": lambda: tb.JointForceSchedule("s", "a", [0.0, 1.0], masked([1.0, 2.0])),
    "target": lambda: tb.inverse_kinematics(
        ARM, Q[0], tb.FrameTarget("tool", position=masked(np.ones(3)))
    ),
    "orientation": lambda: tb.inverse_kinematics(
        ARM, Q[0], tb.FrameTarget("tool", orientation=masked(np.eye(3)))
    ),
    "limits": lambda: tb.inverse_kinematics(
        ARM, Q[0], tb.FrameTarget("tool", position=np.ones(3)), limits={"a": masked([0.0, 1.0])}
    ),
    "trim": lambda: tb.trim(ARM, masked(Q[0])),
    "modes": lambda: tb.modes(ARM, masked(Q[0])),
    "assemble": lambda: tb.assemble(robot(True), masked(state(True)[0][0])),
    "mobility": lambda: tb.mobility(robot(True), masked(state(True)[0][0])),
}


@pytest.mark.parametrize("name", RUNS)
def test_runs_paths_and_searches_refuse_masked_elements(name):
    refuses(RUNS[name])


@pytest.mark.parametrize(
    "call",
    [
        lambda m: tb.Pose(translation=np.array([1.0, 2.0, 3.0j])),
        lambda m: tb.Inertia(np.complex128(1.0 + 2.0j)),
        lambda m: m.normalize(m.neutral() + 1.0j),
        lambda m: tb.simulate(m, 0.01, q=m.neutral() * (1.0 + 1.0j)),
        lambda m: tb.simulate(m, 0.01, parameters={"link_1.mass": np.array([1.0 + 2.0j])}),
        lambda m: tb.simulate(m, 0.01, command={"joint_1": np.array([1.0j])}),
        lambda m: tb.forward_dynamics(m, m.neutral() + 0.0j, np.zeros(m.nv), np.zeros(m.nv)),
    ],
)
def test_complex_arrays_are_refused(call):
    """NumPy drops imaginary parts with a warning only."""
    with pytest.raises(tb.TiburonError, match="got complex numbers"):
        call(tb.load("panda"))
