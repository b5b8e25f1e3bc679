"""What users write is known by what it computes: code of one is never given to another."""

import inspect
import os
import subprocess
import sys
import textwrap
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tiburon as tb
from tiburon.errors import ModelError, TraceError
from tiburon.model.joints.joint import Joint
from tiburon.model.joints.user_joint import _CALLS, as_laid_out

MASS, GRAVITY = 2.0, 9.81

SCALE = 1.0
"""A global that paths and helpers below read."""


def _body(name: str, joint: Any, inertia: Any, parent: str = "world", fluid: Any = None) -> tb.Body:
    return tb.Body(name, parent, joint=joint, inertia=inertia, fluid=fluid)


def _carried(path: tb.Path) -> tb.Model:
    """Return a mass on a slide along z whose foot a path moves along z."""
    joint = tb.Driven(
        "lift", tb.Prismatic("drive", (0, 0, 1)), path, carried=tb.Prismatic("slide", (0, 0, 1))
    )
    return tb.Model("lifted", [_body("load", joint, tb.Inertia.point(MASS))])


def _force(model: tb.Model, time: float) -> float:
    """Return the force that holds the slide still: m (g + acceleration of the foot)."""
    return float(tb.inverse_dynamics(model, [0.1], [0.3], [0.0], time=time)[0])


def _swing(a: Any, time: Any) -> tuple[Any, Any, Any]:
    return a * np.sin(time), a * np.cos(time), -a * np.sin(time)


def _expected(a: float, time: float) -> float:
    return MASS * (GRAVITY - a * np.sin(time))


def _by_closure(a: float) -> tb.Path:
    @dataclass(frozen=True)
    class Swing(tb.Path):
        def at(self, time: Any) -> Any:
            return _swing(a, time)

    return Swing()


def _by_helper(a: float) -> tb.Path:
    def helper(time: Any) -> Any:
        return _swing(a, time)

    @dataclass(frozen=True)
    class Swing(tb.Path):
        def at(self, time: Any) -> Any:
            return helper(time)

    return Swing()


def _by_default_argument(a: float) -> tb.Path:
    @dataclass(frozen=True)
    class Swing(tb.Path):
        def at(self, time: Any, amplitude: float = a) -> Any:
            return _swing(amplitude, time)

    return Swing()


def _by_class_attribute(a: float) -> tb.Path:
    @dataclass(frozen=True)
    class Swing(tb.Path):
        amplitude = a

        def at(self, time: Any) -> Any:
            return _swing(self.amplitude, time)

    return Swing()


def _by_large_array(a: float) -> tb.Path:
    # its repr leaves the middle out
    table = np.zeros(5000)
    table[2500] = a

    @dataclass(frozen=True)
    class Swing(tb.Path):
        table: np.ndarray

        def at(self, time: Any) -> Any:
            return _swing(self.table[2500], time)

    return Swing(table)


def _by_attribute_set_later(a: float) -> tb.Path:
    @dataclass(frozen=True)
    class Swing(tb.Path):
        def at(self, time: Any) -> Any:
            return _swing(self.a, time)  # type: ignore[attr-defined]

    path = Swing()
    object.__setattr__(path, "a", a)
    return path


def _by_method_of_instance(a: float) -> tb.Path:
    path = tb.Harmonic(1.0, 1.0)
    object.__setattr__(path, "at", lambda time: _swing(a, time))
    return path


@pytest.mark.parametrize(
    "made",
    [
        _by_closure,
        _by_helper,
        _by_default_argument,
        _by_class_attribute,
        _by_large_array,
        _by_attribute_set_later,
        _by_method_of_instance,
    ],
)
def test_paths_that_differ_in_what_they_read_have_code_of_their_own(made: Any) -> None:
    """M (g + a''): the force follows each path, not the one that was compiled first."""
    for a in (0.5, 2.0):
        assert _force(_carried(made(a)), 0.7) == pytest.approx(_expected(a, 0.7), rel=1e-14)


class _Global(tb.Path):
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _Global)

    def __hash__(self) -> int:
        return 1

    def at(self, time: Any) -> Any:
        return _swing(SCALE, time)


def test_equal_paths_that_read_a_global_have_code_of_their_own(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Models that compare by value do not share what follows from a global."""
    models = []
    for a in (0.5, 2.0):
        monkeypatch.setattr(sys.modules[__name__], "SCALE", a)
        models.append(_carried(_Global()))
        assert _force(models[-1], 0.7) == pytest.approx(_expected(a, 0.7), rel=1e-14)
    assert models[0] != models[1]


def test_changed_user_path_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    """A model is compiled from what its path was; another behavior needs another model."""
    model = _carried(_Global()).without_passive()
    assert _force(model, 0.7) == pytest.approx(_expected(SCALE, 0.7), rel=1e-14)
    tb.simulate(model, 0.01)
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 3.0)
    text = r"joint 'lift': your code computes something else than when model 'lifted' was built"
    with pytest.raises(ModelError, match=text):
        _force(model, 0.7)
    with pytest.raises(ModelError, match=text):
        tb.simulate(model, 0.01)
    with pytest.raises(ModelError, match=text):
        tb.compile(tb.inverse_dynamics, model)


def test_a_batch_of_a_kernel_whose_path_changed_is_refused(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Code for batches is made when first needed, and must be that of single calls."""
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 1.25)
    kernel = tb.compile(tb.inverse_dynamics, _carried(_Global()))
    assert kernel([0.1], [0.3], [0.0], time=0.7)[0] == pytest.approx(_expected(1.25, 0.7))
    monkeypatch.setattr(sys.modules[__name__], "SCALE", 3.25)
    zeros = np.zeros((8, 1))
    with pytest.raises((ModelError, TraceError), match="your code computes something else"):
        kernel(zeros, zeros, zeros, time=0.7)


SCRIPT = """
import sys
import numpy as np
import tiburon as tb

A = float(sys.argv[1])

class Swing(tb.Path):
    def at(self, time):
        return A * np.sin(time), A * np.cos(time), -A * np.sin(time)

class Geared(tb.Revolute):
    def transform(self, q):
        return super().transform((A * q[0],))
    def subspace(self, q):
        return tuple(S * A for S in super().subspace(q))
    motion, project = tb.Joint.motion, tb.Joint.project

slide = tb.Driven("lift", tb.Prismatic("drive"), Swing(), carried=tb.Prismatic("slide"))
lifted = tb.Model("lifted", [tb.Body("load", joint=slide, inertia=tb.Inertia.point(2.0))])
wheel = tb.Inertia.cylinder(3.0, 0.2, 0.1)
disc = tb.Model("disc", [tb.Body("disc", joint=Geared("axle"), inertia=wheel)])
print(tb.inverse_dynamics(lifted, [0.1], [0.0], [0.0], time=0.7)[0])
print(tb.mass_matrix(disc, [0.2])[0, 0])
"""


def test_user_code_is_not_shared_between_processes_by_the_cache(tmp_path: Path) -> None:
    """The same text with another number in a global runs code of its own in every process."""
    script = tmp_path / "script.py"
    script.write_text(textwrap.dedent(SCRIPT))
    environment = {**os.environ, "TIBURON_CACHE_DIR": str(tmp_path / "cache")}
    inertia = float(tb.Inertia.cylinder(3.0, 0.2, 0.1).tensor[5])
    for a in (0.5, 2.0, 0.5):
        done = subprocess.run(
            [sys.executable, str(script), str(a)],
            capture_output=True,
            text=True,
            check=True,
            env=environment,
        )
        force, felt = map(float, done.stdout.split())
        assert force == pytest.approx(_expected(a, 0.7), rel=1e-14)
        # a gear of ratio a in front of an inertia is felt as its square
        assert felt == pytest.approx(a * a * inertia, rel=1e-14)


# joints

SHIFT = (0.13, -0.21, 0.08)

KINDS: dict[str, Any] = {
    "revolute": lambda kind, name: kind(name, (0, 0.6, 0.8), offset=0.2),
    "prismatic": lambda kind, name: kind(name, (0, 0.6, 0.8)),
    "screw": lambda kind, name: kind(name, (0.6, 0, 0.8), pitch=0.07),
    "cylindrical": lambda kind, name: kind(name, (0, 0, 1)),
    "universal": lambda kind, name: kind(name),
    "spherical": lambda kind, name: kind(name),
    "planar": lambda kind, name: kind(name),
    "free": lambda kind, name: kind(name),
}
CLASSES = {
    "revolute": tb.Revolute,
    "prismatic": tb.Prismatic,
    "screw": tb.Screw,
    "cylindrical": tb.Cylindrical,
    "universal": tb.Universal,
    "spherical": tb.Spherical,
    "planar": tb.Planar,
    "free": tb.Free,
}


def _shifted(base: Any) -> Any:
    """Return a joint kind whose body frame lies shifted in what the base moves."""
    move = tb.Pose(translation=SHIFT).transform

    class Shifted(base):  # type: ignore[misc]
        def transform(self, q: Any) -> Any:
            return super().transform(q).then(move)

        def subspace(self, q: Any) -> Any:
            return tuple(move.motion(S) for S in super().subspace(q))

        def subspace_rate(self, q: Any, v: Any) -> Any:
            return tuple(move.motion(S) for S in super().subspace_rate(q, v))

        def bias(self, q: Any, v: Any) -> Any:
            return move.motion(super().bias(q, v))

        def bias_derivative(self, q: Any, v: Any) -> Any:
            return tuple(move.motion(c) for c in super().bias_derivative(q, v))

        motion, project = Joint.motion, Joint.project

    return Shifted


def _chain(joint: Any, shift: Any) -> tb.Model:
    """Return a body on a joint, and an elbow on it; both lie shifted in the body's frame."""
    com, place = np.add(shift, (0.05, 0.02, -0.11)), np.add(shift, (0.3, 0, 0.1))
    inertia = tb.Inertia(2.0, com, (0.04, 0.001, -0.002, 0.05, 0.003, 0.06))
    elbow = tb.Revolute("elbow", (0, 1, 0), pose=tb.Pose(translation=place))
    fore = tb.Inertia(1.0, (0.1, 0.0, 0.02), (0.01, 0, 0, 0.02, 0, 0.02))
    return tb.Model(
        "chain",
        [_body("upper", joint, inertia), _body("fore", elbow, fore, parent="upper")],
    )


@pytest.mark.parametrize("kind", CLASSES)
def test_joints_derived_from_any_kind_follow_their_methods(kind: str) -> None:
    """A joint with a shift built in equals the plain joint under a body that is shifted."""
    base = CLASSES[kind]
    plain = _chain(KINDS[kind](base, "first"), np.array(SHIFT))
    own = _chain(KINDS[kind](_shifted(base), "first"), np.zeros(3))
    rng = np.random.default_rng(5)
    q = np.concatenate([plain.joints[0].random(rng), [0.4]])
    v, tau = rng.standard_normal(plain.nv), rng.standard_normal(plain.nv)
    unshifted = _chain(KINDS[kind](base, "first"), np.zeros(3))
    for function in (tb.forward_dynamics, tb.inverse_dynamics):
        # this one first: it differs from ours in the class alone
        function(unshifted, q, v, tau)
        expected = function(plain, q, v, tau)
        # sums in other frames: rounding of some hundred operations
        np.testing.assert_allclose(function(own, q, v, tau), expected, rtol=1e-9, atol=1e-11)
    run = [
        tb.simulate(m.without_passive(), 0.2, q=q, v=v, method=tb.RK4(dt=1e-3)).q[-1]
        for m in (plain, own)
    ]
    np.testing.assert_allclose(run[1], run[0], rtol=1e-8, atol=1e-9)


def test_a_joint_that_overrides_transform_alone_has_code_of_its_own() -> None:
    """Where only `transform` is overridden, positions of frames follow it."""

    class Doubled(tb.Revolute):
        def transform(self, q: Any) -> Any:
            return super().transform((2.0 * q[0],))

    def tip(joint: tb.Joint) -> Any:
        model = tb.Model(
            "arm",
            [_body("link", joint, tb.Inertia.point(1.0, (1, 0, 0)))],
            [tb.Frame("tip", "link", tb.Pose(translation=(1, 0, 0)))],
        )
        return tb.forward_kinematics(model, [0.3], frames="tip")[1]

    plain, doubled = (tip(kind("axle")) for kind in (tb.Revolute, Doubled))
    c, s = np.cos(0.3), np.sin(0.3)
    np.testing.assert_allclose(np.ravel(plain)[:2], (c, s), atol=1e-15)
    np.testing.assert_allclose(np.ravel(doubled)[:2], (np.cos(0.6), np.sin(0.6)), atol=1e-15)


def test_a_derived_fixed_joint_may_move_its_body() -> None:
    """What is derived from a fixed joint holds its body where its `transform` says."""

    class Bracket(tb.Fixed):
        def transform(self, q: Any) -> Any:
            return tb.Pose(translation=(0, 0, 0.5)).transform

    model = tb.Model(
        "arm",
        [
            _body("link", tb.Revolute("axle", (0, 1, 0)), tb.Inertia.point(1.0, (0, 0, 1))),
            _body("bob", Bracket("bracket"), tb.Inertia.point(2.0), parent="link"),
        ],
    )
    # 1 kg at 1 m and 2 kg at 0.5 m
    assert tb.mass_matrix(model, [0.3])[0, 0] == pytest.approx(1.5, rel=1e-14)


@pytest.mark.slow
def test_large_models_run_joints_of_users_on_the_tape() -> None:
    """On the tape bodies share code by class; a joint of a user's own is a class of its own."""

    def chain(kinds: Any, shifts: Any) -> tb.Model:
        bodies, parent = [], "world"
        for k in range(48):
            shift = np.array(shifts[k % 2])
            pose = tb.Pose(translation=(0.1, 0, 0.02) + np.array(shifts[(k + 1) % 2]) * (k > 0))
            joint = kinds[k % 2](f"joint {k}", (0, 1, 0) if k % 3 else (0, 0, 1), pose=pose)
            com = np.add(shift, (0.05, 0.01, 0))
            inertia = tb.Inertia(0.5, com, (1e-3, 0, 0, 2e-3, 0, 2e-3))
            bodies.append(_body(f"body {k}", joint, inertia, parent=parent))
            parent = f"body {k}"
        return tb.Model("long", bodies)

    zero = (0.0, 0.0, 0.0)
    plain = chain((tb.Revolute, tb.Revolute), (zero, SHIFT))
    own = chain((tb.Revolute, _shifted(tb.Revolute)), (zero, zero))
    rng = np.random.default_rng(6)
    q, v, vd = rng.standard_normal((3, 48))
    expected = tb.inverse_dynamics(plain, q, v, vd)
    # forces add up along 48 bodies
    np.testing.assert_allclose(
        tb.inverse_dynamics(own, q, v, vd), expected, rtol=1e-9, atol=1e-9 * abs(expected).max()
    )


def test_class_with_a_replaced_method_counts_as_user_code(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    """Replacing a method of a shipped class changes the key of models built from then on."""

    def model() -> tb.Model:
        return tb.Model("m", [_body("b", tb.Revolute("j"), tb.Inertia.point(1.0, (1, 0, 0)))])

    before = model().structure_key()
    shipped = tb.Revolute.transform
    monkeypatch.setattr(tb.Revolute, "transform", lambda self, q: shipped(self, (3 * q[0],)))
    assert model().structure_key() != before


def test_every_method_of_joints_is_traced_or_enters_no_kernel() -> None:
    """A new method of joints has to be put on one of the two lists."""
    of_layout = {
        "structure",
        "without_offset",
        "no_offset",
        "with_offset",
        "parameters",
        "with_parameters",
        "canonical",
    }
    of_users = {"q_names", "v_names", "random", "locked", "at", "register", "check_data"}
    methods = {
        name
        for name, method in inspect.getmembers(Joint, inspect.isfunction)
        if not name.startswith("_")
    }
    assert methods - of_layout - of_users == set(_CALLS)


# loops

HEIGHT = 1.0


def test_closing_joints_of_users_have_code_of_their_own() -> None:
    """A joint that closes a loop is known by its measures."""

    def model(distance: float) -> tb.Model:
        class Pin(tb.Spherical):
            def loop_constraints(self) -> Any:
                x, y, z = super().loop_constraints()
                return (x, y, type(z)(z.axis, distance))  # type: ignore[attr-defined,call-arg]

        slides = [
            _body("a", tb.Prismatic("x", (1, 0, 0)), tb.Inertia.point(1.0)),
            _body("b", tb.Prismatic("z", (0, 0, 1)), tb.Inertia.point(1.0), parent="a"),
        ]
        return tb.Model("m", slides, loops=[tb.LoopClosure("pin", "world", "b", Pin("ball"))])

    assert model(0.1).structure_key() != model(0.2).structure_key()
    assert model(0.1).structure_key() == model(0.1).structure_key()


def _bead(function: Any) -> tb.Model:
    bodies = [
        _body("a", tb.Prismatic("x", (1, 0, 0)), tb.Inertia.point(1e-9)),
        _body("bead", tb.Prismatic("z", (0, 0, 1)), tb.Inertia.point(1.0), parent="a"),
    ]
    loop = tb.ConstraintFunction("wire", function, frames="bead")
    return tb.Model("bead", bodies, loops=[loop])


def test_a_constraint_function_that_changes_later_is_refused() -> None:
    """Sliding on z = s x under gravity; when s changes, the model is no longer what was built."""
    slope = np.array([1.0])
    model = _bead(lambda bead: bead.p[2] - slope[0] * bead.p[0])
    found = tb.forward_dynamics(model, [0.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    # m = 1e-9 + 1 kg along x, 1 kg along z: a_x = -g s / (1 + s^2)
    assert found[0] == pytest.approx(-GRAVITY / 2, rel=1e-6)
    slope[0] = 2.0
    with pytest.raises(ModelError, match=r"loop 'wire': your code computes something else"):
        tb.forward_dynamics(model, [0.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    fresh = _bead(lambda bead: bead.p[2] - slope[0] * bead.p[0])
    found = tb.forward_dynamics(fresh, [0.0, 0.0], [0.0, 0.0], [0.0, 0.0])
    assert found[0] == pytest.approx(-GRAVITY * 2 / 5, rel=1e-6)


def test_closures_derived_from_ours_have_code_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """A contact that users derived is known by what it measures, not by its fields."""

    class Lifted(tb.Blade):
        def touch(self, plane: Any, body: Any) -> Any:
            found = super().touch(plane, body)
            return found._replace(height=found.height - HEIGHT)

    def model() -> tb.Model:
        body = _body("skate", tb.Free("base"), tb.Inertia.box(1.0, (0.3, 0.1, 0.1)))
        return tb.Model("m", [body], loops=[Lifted("blade", "world", "skate")])

    first = model()
    key = first.structure_key()
    monkeypatch.setattr(sys.modules[__name__], "HEIGHT", 2.0)
    second = model()
    assert second.structure_key() != key
    assert first != second
    with pytest.raises(ModelError, match=r"loop 'blade': your code computes something else"):
        first.structure_key()


class OwnTurn(tb.Revolute):
    """A hinge that reads no offset."""

    def transform(self, q: Any) -> Any:
        return tb.Revolute(self.name, self.axis).transform(q)


@pytest.mark.parametrize("followers", [1, 48])
def test_followers_with_a_motion_of_the_user_keep_their_offset(followers: int) -> None:
    """Inlined and on the tape: its own class need not know of the coupling's offset."""
    inertia = tb.Inertia.box(1.0, (0.1, 0.2, 0.3), com=(0.1, 0.05, 0.0))

    def robot(kind: type[tb.Revolute]) -> tb.Model:
        bodies = [tb.Body("lead", joint=tb.Revolute("lead", (0, 0, 1)), inertia=inertia)]
        for k in range(followers):
            moves = kind("turn", (0.0, 0.6, 0.8))
            joint = tb.Coupled(f"gear{k}", moves, "lead", 0.5, offset=0.4 + 0.01 * k)
            parent = f"wheel{k - 1}" if k else "lead"
            bodies.append(tb.Body(f"wheel{k}", parent, joint=joint, inertia=inertia))
        return tb.Model("geared", bodies)

    ours, theirs = (
        tb.inverse_dynamics(robot(kind), [0.3], [1.2], [-0.7]) for kind in (OwnTurn, tb.Revolute)
    )
    np.testing.assert_allclose(ours, theirs, rtol=1e-12)


def test_a_joint_of_the_user_keeps_its_offset_in_a_plan() -> None:
    """Parts of a robot that share code put offsets back; its own stays as it is."""
    joint = as_laid_out(OwnTurn("own", (0, 0, 1), offset=0.3))
    assert joint.without_offset() == (joint, ())
    assert joint.with_offset(()) is joint
