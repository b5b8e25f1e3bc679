"""Every public function that a kernel runs takes the shared keywords, and heeds them.

Functions are found by their names in the library: a new one is tested without being listed here.
"""

import inspect
from dataclasses import is_dataclass
from functools import cache

import numpy as np
import pytest

import tiburon as tb
from tests.interpreted import interpreting
from tiburon.functions.keywords import DELIVERY, DYNAMICS_CALL, MODEL_CALL, WORLD_CALL
from tiburon.functions.library import GRAVITY, INERTIA, LIBRARY

SEARCHES = {"inverse_kinematics"}
"""Searches: a case that fails has an outcome of its own."""

MOTIONS = {
    "center_of_mass",
    "center_of_mass_jacobian",
    "project_configuration",
    "frame_acceleration",
    "frame_jacobian",
    "frame_jacobian_bias",
    "frame_velocity",
    "project_acceleration",
    "project_velocity",
}
"""Kinematics that reads masses, for a center of mass or a metric: nothing around enters it."""

NAMES = sorted(
    name
    for name in tb.__all__
    if inspect.isfunction(getattr(tb, name)) and name in LIBRARY and name not in SEARCHES
)
WATER = tb.Water(900.0, current=(0.3, -0.2, 0.1))
STILL = tb.Water(900.0)
CASES = 3


def fluid(seed, fins=()):
    G = np.random.default_rng(seed).normal(size=(6, 6))
    scale = np.diag([0.2] * 3 + [1.0] * 3)
    return tb.BodyFluid(
        volume=1e-3,
        center_of_buoyancy=(0.05, 0.02, 0.1),
        added_mass=scale @ G @ G.T @ scale,
        linear_damping=0.3 * scale @ G.T @ G @ scale,
        fins=fins,
    )


@cache
def robot(closed):
    """Build three links with water around them: a chain in space, or a planar four-bar."""
    rod = tb.Inertia.cylinder(1.0, 0.02, 0.5, com=(0, 0, 0.25))
    end, axis = tb.Pose(translation=(0, 0, 0.5)), (0, 1, 0)
    first, last = (axis, axis) if closed else ((0, 0.6, 0.8), (1, 0, 0))
    fin = tb.Fin(0.01, 3.0, (0.0, 0.0, 0.3), (0, 1, 0), (0, 0, 1), deflection=0.1, name="rudder")
    bodies = [
        tb.Body("upper", joint=tb.Revolute("a", first), inertia=rod, fluid=fluid(1)),
        tb.Body(
            "lower", "upper", joint=tb.Revolute("b", axis, pose=end), inertia=rod, fluid=fluid(2)
        ),
        tb.Body(
            "tool",
            "lower",
            joint=tb.Revolute("c", last, pose=end),
            inertia=rod,
            fluid=fluid(3, (fin,)),
        ),
    ]
    pin = tb.Revolute("d", axis, pose=end)
    loop = tb.LoopClosure("pin", "tool", "world", pin, tb.Pose(translation=(0.5, 0, 0)))
    return tb.Model(
        "contract",
        bodies,
        loops=[loop] if closed else [],
        thrusters=[tb.Thruster("prop", "tool", direction=(1, 0, 0.2), time_constant=0.3)],
        actuators=[tb.Actuator("motor", "a")],
    )


def state(closed):
    rng = np.random.default_rng(7)
    model = robot(closed)
    if not closed:
        q, v, vd = rng.normal(size=(3, CASES, model.nv))
        return q, v, vd
    # a rhombus: the coupler stays level, and the tool parallel to the crank
    angle, rate, change = rng.uniform(0.4, 1.1, CASES), *rng.normal(size=(2, CASES))
    shape = np.array([1.0, -1.0, 1.0])
    q = np.outer(angle, shape) + np.array([0.0, 0.5 * np.pi, 0.5 * np.pi])
    return q, np.outer(rate, shape), np.outer(change, shape)


@cache
def is_closed(name):
    """Return whether a function is for robots with loops."""
    try:
        call(name, closed=False)
    except tb.ModelError as error:
        if "is for robots with" not in str(error):
            raise
        return True
    return False


def call(name, closed=None, spoil=None, **keywords):
    """Call a public function on a batch, its arguments found by their names."""
    closed = is_closed(name) if closed is None else closed
    q, v, vd = state(closed)
    values = {
        "model": robot(closed),
        "q": q,
        "v": v,
        "vd": vd,
        "tau": np.random.default_rng(8).normal(size=(CASES, 3)),
        "frames": "tool" if name.startswith("frame") else ["tool"],
        "frame": "tool",
        "other": "upper",
        "commands": np.full((CASES, 1), 0.4),
        "thrust": np.full((CASES, 1), 0.2),
        "deflections": np.full((CASES, 1), 0.3),
        "dt": np.full(CASES, 0.01),
        "known_acceleration": "b",
    }
    if name == "fin_force" and "world" not in keywords:
        keywords = {"fluid": WATER, **keywords}
    if name == "operational_space_inertia":
        # three joints turn a frame about three axes
        keywords = {"part": "orientation", **keywords}
    if spoil is not None:
        first = next(x for x in inspect.signature(getattr(tb, name)).parameters if x != "model")
        values[first] = values[first].copy()
        values[first][spoil] = np.nan
    given = {}
    for parameter in inspect.signature(getattr(tb, name)).parameters.values():
        if parameter.name in keywords:
            continue
        if parameter.name in ("known_acceleration",) or parameter.default is parameter.empty:
            assert parameter.name in values, f"teach this test what {parameter.name!r} may be"
            given[parameter.name] = values[parameter.name]
    return getattr(tb, name)(**given, **keywords)


def arrays(result):
    """Return the arrays in what a function returned."""
    if is_dataclass(result):
        parts = [getattr(result, name) for name in result.__dataclass_fields__]
        return [x for x in parts if isinstance(x, np.ndarray)]
    return list(result) if isinstance(result, tuple) else [result]


def same(one, other):
    for x, y in zip(arrays(one), arrays(other), strict=True):
        assert np.asarray(x).tobytes() == np.asarray(y).tobytes()


def test_signatures_name_the_shared_keywords():
    """Each function shows the keywords its library entry takes, at least `out` and `errors`."""
    for name in NAMES:
        shown = inspect.signature(getattr(tb, name)).parameters
        taken = LIBRARY[name].keywords
        assert taken in (DELIVERY, MODEL_CALL, WORLD_CALL, DYNAMICS_CALL), name
        for keyword in taken:
            assert shown[keyword].default in (None, "raise", "frame"), (name, keyword)
        assert not any(x.kind is x.VAR_KEYWORD for x in shown.values()), name


def test_functions_of_dynamics_take_world_and_fluid():
    """What inertia or gravity enter is computed in any surroundings."""
    for name in NAMES:
        enters = {INERTIA, GRAVITY} & set(LIBRARY[name].parameters)
        if enters and name not in MOTIONS:
            assert LIBRARY[name].keywords >= WORLD_CALL, name


@pytest.mark.parametrize("name", NAMES)
def test_out_takes_the_result_and_is_returned(name):
    """The same bits, in the caller's arrays; an earlier result serves again."""
    plain = call(name)
    targets = tuple(np.full_like(x, -1.0) for x in arrays(plain))
    out = targets if len(targets) > 1 or not isinstance(plain, np.ndarray) else targets[0]
    found = call(name, out=out)
    same(plain, found)
    for target, x in zip(targets, arrays(found), strict=True):
        assert x is target
    same(plain, call(name, out=found))


@pytest.mark.parametrize("name", NAMES)
def test_out_that_does_not_fit_is_refused(name):
    with pytest.raises(tb.ShapeError, match=r"^out"):
        call(name, out=np.zeros(7))


@pytest.mark.parametrize("name", NAMES)
def test_flag_marks_the_case_that_failed_and_keeps_the_others(name):
    """One case of NaN: the others have the bits of a call without it."""
    plain, (found, failed) = call(name), call(name, spoil=1, errors="flag")
    assert failed.tolist() == [False, True, False]
    for x, y in zip(arrays(plain), arrays(found), strict=True):
        assert np.isnan(y[1]).all()
        assert x[[0, 2]].tobytes() == y[[0, 2]].tobytes()
    with pytest.raises(tb.NonFiniteError):
        call(name, spoil=1)
    with pytest.raises(tb.OptionError, match="errors: expected 'raise' or 'flag', got 'ignore'"):
        call(name, errors="ignore")


@pytest.mark.parametrize("name", NAMES)
def test_a_misspelled_keyword_is_refused_by_the_function_that_got_it(name):
    with pytest.raises(TypeError, match=rf"{name}: unexpected keyword argument 'erors'"):
        call(name, erors="flag")


@pytest.mark.parametrize("name", [x for x in NAMES if LIBRARY[x].keywords >= WORLD_CALL])
@interpreting()
def test_a_world_with_a_fluid_is_the_fluid(name):
    """`world=` and `fluid=` give the same bits, and water is never left out."""
    water = STILL if name == "fossen_form" else WATER
    if name == "regressor":
        for keywords in ({"fluid": water}, {"world": tb.World(fluid=water)}):
            with pytest.raises(tb.ModelError, match="regressor has columns for inertial"):
                call(name, **keywords)
        return
    wet = call(name, fluid=water)
    same(wet, call(name, world=tb.World(fluid=water)))
    if name != "fin_force":
        dry = arrays(call(name))
        assert any(np.abs(x - y).max() > 1e-3 for x, y in zip(dry, arrays(wet), strict=True))


@pytest.mark.parametrize("name", [x for x in NAMES if GRAVITY in LIBRARY[x].parameters])
@interpreting()
def test_gravity_of_the_world_is_used(name):
    """Where gravity is a parameter, another one gives another result."""
    if name in ("fin_force", "linearize", "forward_dynamics_derivatives"):
        # fins feel no gravity; of derivatives only those by q do
        return
    dry, moon = call(name), call(name, world=tb.World(gravity=(0.0, 0.0, -1.62)))
    assert any(np.abs(x - y).max() > 1e-3 for x, y in zip(arrays(dry), arrays(moon), strict=True))


@pytest.mark.parametrize("name", [x for x in NAMES if LIBRARY[x].keywords == WORLD_CALL])
def test_forces_are_refused_where_they_would_not_enter(name):
    """Not ignored: refused, with the keywords there are."""
    with pytest.raises(TypeError, match=rf"{name}: takes no 'external_force', which would not"):
        call(name, external_force={"tool": np.zeros(6)})


def test_a_traced_call_refuses_to_write_into_arrays():
    model = robot(False)

    def user(model, q):
        return tb.mass_matrix(model, q, errors="flag")

    with pytest.raises(tb.TraceError, match="mass_matrix: a traced call returns values and cannot"):
        tb.compile(user, model)


@pytest.mark.parametrize("name", NAMES)
@interpreting()
def test_functions_of_masses_take_them_by_name(name):
    """Numbers that are those of the robot change nothing but rounding; others do."""
    if "parameters" not in LIBRARY[name].keywords:
        assert not {INERTIA, GRAVITY} & set(LIBRARY[name].parameters) or name in MOTIONS
        return
    own = {"tool.mass": robot(is_closed(name)).body("tool").inertia.mass}
    plain = call(name)
    for x, y in zip(arrays(plain), arrays(call(name, parameters=own)), strict=True):
        # the same sums with more terms that are zero; derivatives lose some digits more
        np.testing.assert_allclose(y, x, rtol=1e-8, atol=1e-8 * max(1.0, np.abs(x).max()))
    if INERTIA in LIBRARY[name].parameters:
        heavier = call(name, parameters={"tool.mass": 3.0 * own["tool.mass"]})
        changed = [
            not np.allclose(x, y, rtol=1e-6, atol=1e-9)
            for x, y in zip(arrays(plain), arrays(heavier), strict=True)
        ]
        assert any(changed) or name in UNCHANGED


UNCHANGED = {
    *("project_configuration", "project_velocity", "project_acceleration"),
    *("fin_force", "loop_jacobian"),
    *("frame_velocity", "frame_acceleration", "frame_jacobian", "frame_jacobian_bias"),
}
"""Functions that masses enter as a metric, or for ``at="com"``: nothing is to see here."""


@pytest.mark.parametrize("name", NAMES)
@interpreting()
def test_functions_take_geometry_by_name(name):
    """Its own geometry leaves a robot as it is to rounding, other geometry does not."""
    if "parameters" not in LIBRARY[name].keywords:
        return
    closed = is_closed(name)
    own = robot(closed).joint("b").pose
    values = {"b.translation": own.translation, "b.rotation": np.zeros(3)}
    plain = call(name)
    # of loop_dynamics the accelerations: its ratio is an estimate that other zeros change
    count = 1 if name == "loop_dynamics" else None
    pairs = zip(arrays(plain), arrays(call(name, parameters=values)), strict=True)
    for x, y in list(pairs)[:count]:
        np.testing.assert_allclose(y, x, rtol=1e-8, atol=1e-8 * max(1.0, np.abs(x).max()))
    # loops that are closed with its own geometry are open with this
    able = {"closure": False} if LIBRARY[name].checks_closure else {}
    longer = call(name, parameters={"b.translation": (0.0, 0.0, 0.51)}, **able)
    changed = [
        not np.allclose(x, y, rtol=1e-6, atol=1e-9)
        for x, y in zip(arrays(plain), arrays(longer), strict=True)
    ]
    assert any(changed) or name in ("fossen_form", "project_velocity", "project_acceleration")
