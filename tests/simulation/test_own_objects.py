"""Objects of runs from outside the package: an integrator, a loop method, a contact law.

They are used as those of the package: traced, compiled, in batches, with events.
"""

from dataclasses import dataclass

import numpy as np
import pytest

import tiburon as tb

QUIET = tb.Execution(progress=False)


@dataclass(frozen=True)
class Heun(tb.FixedIntegrator):
    """The explicit trapezoidal rule on the manifold of positions."""

    dt: float = 1e-3
    order = 2

    def step(self, manifold, acceleration, q, w, h, *time):
        rate, a = manifold.rate(q, w), acceleration(q, w, *time)
        there = manifold.move(q, [[h * x for x in steps] for steps in rate])
        ahead = [x + h * y for x, y in zip(w, a, strict=True)]
        last = manifold.rate(there, ahead)
        b = acceleration(there, ahead, *(t + h for t in time))
        pairs = (zip(*steps, strict=True) for steps in zip(rate, last, strict=True))
        half = [[0.5 * h * (x + y) for x, y in steps] for steps in pairs]
        after = [x + 0.5 * h * (y + z) for x, y, z in zip(w, a, b, strict=True)]
        return manifold.normalize(manifold.move(q, half)), after


def tumbling(dt):
    """Return the end of a free body with an arm that tumbles for half a second."""
    hub = tb.Body("hub", joint=tb.Free("hub"), inertia=tb.Inertia.box(2.0, (0.3, 0.2, 0.1)))
    arm = tb.Body(
        "arm",
        "hub",
        joint=tb.Revolute("arm", (0, 1, 0)),
        inertia=tb.Inertia.box(1.0, (0.4, 0.1, 0.1)),
    )
    v = [1.0, -2.0, 0.5, 0.3, 0.1, -0.2, 2.0]
    model = tb.Model("tumbling", [hub, arm])
    method = tb.RK4(dt=1e-4) if dt is None else Heun(dt=dt)
    run = tb.simulate(model, 0.5, v=v, method=method, execution=QUIET)
    return np.concatenate([run.q[-1], run.v[-1]])


def test_an_integrator_of_users_has_its_order():
    """Heun's method on rotations: a quarter of the error with half the step."""
    exact = tumbling(None)
    errors = [np.abs(tumbling(dt) - exact).max() for dt in (1e-2, 5e-3)]
    assert 1e-7 < errors[1] < 1e-3
    assert errors[0] / errors[1] == pytest.approx(4.0, rel=0.15)


def test_an_integrator_of_users_takes_contacts_events_loops_and_batches():
    dog = tb.load("quadruped")
    floor = tb.World(ground=tb.Ground(static_friction=0.8))
    q = np.tile(dog.poses["stand"], (3, 1))
    q[1:, 6] += [0.01, 0.02]
    many = tb.simulate(dog, 0.05, q=q, world=floor, method=Heun(), execution=QUIET)
    for case in range(3):
        one = tb.simulate(dog, 0.05, q=q[case], world=floor, method=Heun(), execution=QUIET)
        assert np.array_equal(one.q, many.q[:, case])
    assert many.contact_summary().touching.max() > 0.0
    bar = tb.load("four_bar")
    turned = tb.Event("turned", lambda state: state.q[0] - bar.poses["home"][0] - 0.02)
    run = tb.simulate(
        bar, 0.5, q=bar.poses["home"], method=Heun(), events=[turned], execution=QUIET
    )
    assert np.abs(tb.constraint_residual(bar, run.q)).max() < 1e-10
    arms = tb.stepper(bar, method=Heun(), substeps=5)
    state = arms.step(arms.start(cases=2), np.zeros((2, arms.size))).state
    short = tb.simulate(bar, 0.005, method=Heun(), execution=QUIET)
    assert np.array_equal(state.q[0], short.q[-1])


def test_changed_code_of_an_integrator_is_traced_again():
    """Another class of the same name, and another value that the step reads, are other code."""
    arm, found = tb.load("double_pendulum"), []
    for factor in (1.0, 0.5):

        @dataclass(frozen=True)
        class Scaled(tb.FixedIntegrator):
            dt: float = 1e-3
            share: float = factor

            def step(self, manifold, acceleration, q, w, h, *time):
                a = acceleration(q, w, *time)
                after = [x + self.share * h * y for x, y in zip(w, a, strict=True)]
                rate = manifold.rate(q, after)
                return manifold.move(q, [[h * x for x in steps] for steps in rate]), after

        for method in (Scaled(), Scaled(share=0.0)):
            run = tb.simulate(arm, 0.1, q=[0.5, 0.2], method=method, execution=QUIET)
            found.append(abs(run.v[-1, 0]))
    assert found[0] > 1.5 * found[2] > 0.0
    assert found[1] == found[3] == 0.0


class Plain(tb.FixedIntegrator):
    """Without a dataclass, and without checks."""

    def __init__(self, *dt):
        if dt:
            (self.dt,) = dt


@pytest.mark.parametrize("dt", [(), (0.0,), (-1e-3,), ("fast",), (np.nan,)])
def test_the_step_of_an_integrator_of_users_is_checked(dt):
    with pytest.raises(tb.DomainError, match="Plain: dt: expected a number above 0"):
        tb.simulate(tb.load("pendulum"), 0.1, method=Plain(*dt))


def test_methods_that_lack_what_they_must_define_say_so():
    with pytest.raises(tb.ModelError, match=r"Plain: expected a step of its own.*def step\("):
        tb.simulate(tb.load("pendulum"), 0.1, method=Plain(1e-3))

    class Short(Plain):
        def step(self, manifold, acceleration, q, w, h, *time):
            return q, w[:-1]

    with pytest.raises(tb.ModelError, match=r"Short\.step: expected q and w .* 1 and 1 numbers"):
        tb.simulate(tb.load("pendulum"), 0.1, method=Short(1e-3))

    class Loose(tb.LoopMethod):
        pass

    bar = tb.load("four_bar")
    with pytest.raises(tb.ModelError, match=r"Loose: expected a motion of its own.*def motion\("):
        tb.simulate(bar, 0.1, loops=Loose())


SHARE = {"share": 1.0}


@dataclass(frozen=True)
class Shared(tb.FixedIntegrator):
    """Reads a value that is not its own."""

    dt: float = 1e-3

    def step(self, manifold, acceleration, q, w, h, *time):
        pairs = zip(w, acceleration(q, w, *time), strict=True)
        return q, [x + SHARE["share"] * h * y for x, y in pairs]


def test_values_that_a_step_reads_are_part_of_its_code(monkeypatch):
    arm, found = tb.load("double_pendulum"), []
    for share in (1.0, 0.5, 1.0):
        monkeypatch.setitem(SHARE, "share", share)
        run = tb.simulate(arm, 0.1, q=[0.5, 0.2], method=Shared(), execution=QUIET)
        found.append(run.v[-1, 0])
    assert found[0] == pytest.approx(2.0 * found[1], rel=0.05)
    assert found[2] == found[0]


@dataclass(frozen=True)
class Springs(tb.LoopMethod):
    """Loops held by springs and dampers: `Penalty` as a user would write it."""

    stiffness: float

    def motion(self, loops, here, q, v, x, force, guided):
        terms = loops.constraints(here, q, v, x)
        damping = 2.0 * self.stiffness**0.5
        pushes = [
            -(self.stiffness * c + damping * rate)
            for c, rate in zip(terms.value, terms.rate, strict=True)
        ]
        held = list(force)
        for row, push in zip(terms.jacobian, pushes, strict=True):
            for i, entry in row.items():
                held[i] = held[i] + entry * push
        return loops.tree_motion(here, q, v, held), pushes


def swung(loops, duration=0.05, **options):
    bar = tb.load("four_bar")
    q = np.array(bar.poses["home"])
    v = tb.project_velocity(bar, q, np.ones(bar.nv))
    return tb.simulate(bar, duration, q=q, v=v, loops=loops, execution=QUIET, **options)


def test_a_loop_method_of_users_moves_as_that_of_the_package():
    """The same springs and dampers, bit for bit; others with another stiffness."""
    own = swung(Springs(1e4))
    assert np.array_equal(own.q, swung(tb.Penalty(1e4, implicit=False)).q)
    assert not np.array_equal(own.q, swung(Springs(2e4)).q)
    assert "Springs" in repr(own.header.setup["loops"])


def test_runs_with_objects_of_users_that_go_to_disk(tmp_path, monkeypatch):
    """Files hold no code: the run is readable, and what is missing is named.

    Other methods of this name, of the same process, have a number after it.
    """
    record = tb.Record(store=tmp_path / "run.zarr")
    run = swung(Springs(1e4), method=Heun(), record=record)
    stored = tb.load_run(tmp_path / "run.zarr")
    assert np.array_equal(stored.q, run.q)
    assert stored.system.system is None
    with pytest.raises(tb.RunFileError, match=r"its loops: code.*run\.resume\(loops=\.\.\.\)"):
        stored.resume(0.01)
    monkeypatch.setattr("tiburon.simulation.run.OWN", {})
    with pytest.raises(
        tb.RunFileError, match=r"its method 'Heun( \d+)?': code.*resume\(method=\.\.\.\)"
    ):
        stored.resume(0.01, loops=Springs(1e4))
    monkeypatch.undo()
    with pytest.raises(
        tb.ModelError, match=r"method: expected that of the start, 'Heun( \d+)?' with"
    ):
        stored.resume(0.01, loops=Springs(1e4), method=tb.RK4())
    more = stored.resume(0.01, loops=Springs(1e4), method=Heun())
    assert np.array_equal(more.q[-1], swung(Springs(1e4), method=Heun(), duration=0.06).q[-1])


class Pushes(tb.Element):
    """A spring between a ball and the plane z = 0."""

    def __init__(self, body, radius, stiffness):
        self.name, self.body = "pushes", body
        self.radius, self.stiffness = radius, stiffness

    def act(self, now):
        depth = self.radius - now.frame_pose(self.body).p[2]
        push = np.where(depth > 0.0, self.stiffness * depth, 0.0)
        R = now.frame_pose(self.body).R
        return tb.Action(wrenches={self.body: (0.0, 0.0, 0.0, *(push * R[2][k] for k in range(3)))})


@dataclass(frozen=True)
class SpringFloor(tb.ContactModel):
    """Balls on springs."""

    stiffness: float
    pairs = None

    def element(self, model, world):
        if world.ground is None:
            return None
        (body,) = model.bodies
        return Pushes(body.name, body.shapes[0].geometry.radius, self.stiffness)


def test_a_contact_law_of_users_is_an_object_like_others():
    """A ball on a spring oscillates about its weight, with the period 2 pi sqrt(m / k)."""
    shape = tb.Shape(tb.SphereShape(0.1))
    inertia = tb.Inertia(1.0, (0, 0, 0), np.eye(3) * 0.004)
    ball = tb.Model(
        "ball", [tb.Body("ball", joint=tb.Free("ball"), inertia=inertia, shapes=(shape,))]
    )
    floor = tb.World(ground=tb.Ground())
    k, low = 1e4, 9.81 / 1e4
    period = 2.0 * np.pi * np.sqrt(1.0 / k)
    run = tb.simulate(
        ball,
        round(period / 2.0, 4),
        q=[1, 0, 0, 0, 0, 0, 0.1],
        world=floor,
        contact=SpringFloor(k),
        method=tb.RK4(dt=1e-4),
        record=tb.Record(every=1),
        execution=QUIET,
    )
    # after half a period at the lowest point, twice as low as at rest
    assert run.q[-1, 6] == pytest.approx(0.1 - 2.0 * low, abs=1e-7)
    with pytest.raises(tb.ModelError, match=r"contact=SpringFloor\(\.\.\.\) needs shapes"):
        tb.simulate(ball, 0.01, contact=SpringFloor(k))
