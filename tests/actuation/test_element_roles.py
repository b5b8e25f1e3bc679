"""Elements of users that do more in a run than exert forces: paths, inertias, carried forces."""

import numpy as np
import pytest

import tiburon as tb
from tests.robots import double_pendulum
from tests.tolerances import assert_close
from tiburon.actuation.piecewise import PathSample, Prescribed
from tiburon.simulation.code_key import CodeKey
from tiburon.simulation.system import System

ARM = double_pendulum()
QUIET = tb.Execution(progress=False)


FLOOR = tb.World(ground=tb.Ground(height=-5.0))
FALLING = tb.Model(
    "falling",
    [
        *ARM.bodies[:1],
        tb.Body(
            "lower",
            parent="upper",
            joint=ARM.bodies[1].joint,
            inertia=ARM.bodies[1].inertia,
            shapes=(tb.Shape(tb.SphereShape(0.1)),),
        ),
    ],
)


def swung(*elements, model=ARM, **options):
    how = {"q": [0.4, 0.2], "v": [0.0, 0.5], "execution": QUIET, **options}
    if "contact" not in how:
        how.setdefault("method", tb.RK4(dt=1e-3))
    return tb.simulate(model, 0.05, elements=elements, **how)


class Crank(tb.Element):
    """Turns the shoulder at constant speed from where it is."""

    def __init__(self, speed):
        self.name, self.speed = "crank", speed

    def prescribed(self, model, time, p, tables):
        sample = PathSample((0.4 + self.speed * time,), (self.speed,), (0.0,))
        return (Prescribed(0, 0, sample),)

    def act(self, now):
        return tb.Action()


class Flywheel(tb.Element):
    """Adds inertia at the elbow at the stages of steps."""

    def __init__(self, inertia):
        self.name, self.inertia = "flywheel", inertia

    def stage_inertias(self, model, p):
        return {1: self.inertia}

    def act(self, now):
        return tb.Action()


class Carried(tb.Element):
    """A torque at the elbow that every step takes over from the last one."""

    def __init__(self, torque):
        self.name, self.torque = "carried", torque

    def discrete_state_names(self, model):
        return ("carried.torque",)

    def initial_discrete_state(self, model):
        return (self.torque,)

    def carried_forces(self, z):
        return (0.0, 2.0 * z[0])

    def act(self, now):
        return tb.Action()

    def update_discrete_state(self, now):
        return now.z


def test_a_joint_that_an_element_prescribes_is_on_the_same_path_as_others():
    """Two elements of one class that differ in numbers alone are two programs."""
    for speed in (0.5, -0.25):
        own = swung(Crank(speed), v=[speed, 0.5])
        path = tb.Polynomial((0.4, speed))
        known = swung(prescribed={"shoulder": path}, v=[speed, 0.5])
        assert_close(own.q[:, 0], 0.4 + speed * own.time)
        assert_close(own.q, known.q)
        assert_close(own.v, known.v)


def test_prescribed_joints_of_elements_are_refused_like_others():
    with pytest.raises(tb.ModelError, match="prescribed joint 'crank': exact contact"):
        swung(Crank(0.5), contact=tb.ExactContact(), model=FALLING, world=FLOOR)


def test_inertia_that_an_element_adds_at_stages_is_that_of_an_armature():
    """The motion of a robot whose motor has it; others have other motions."""
    bodies = ARM.bodies
    first = swung(Flywheel(0.3))
    for inertia, same in ((0.3, True), (0.7, False)):
        joint = tb.Revolute(
            "elbow",
            axis=(0, 1, 0),
            pose=bodies[1].joint.pose,
            armature=inertia,
        )
        lower = tb.Body("lower", parent="upper", joint=joint, inertia=bodies[1].inertia)
        heavy = swung(model=tb.Model("heavy", [bodies[0], lower]))
        assert np.allclose(heavy.q, first.q, rtol=0.0, atol=1e-13) is same
        assert_close(swung(Flywheel(inertia)).q, heavy.q)


def test_forces_that_elements_carry_act_within_the_next_step():
    """As the same torque by a command; recorded accelerations have them, too."""
    run = swung(Carried(0.4))
    known = swung(command={"elbow": 0.8})
    assert_close(run.q, known.q)
    accelerations = (one.get("joint_acceleration").values for one in (run, known))
    assert_close(*accelerations)
    assert np.abs(run.q - swung().q).max() > 1e-4


def test_what_elements_of_users_are_to_a_run_is_part_of_the_code():
    """Two that differ in it are never served by the code of each other."""

    def key(element):
        return CodeKey().text(System(ARM, elements=[element], steps=True))

    keys = {key(one) for one in (Crank(0.5), Crank(0.25))}
    keys |= {key(one) for one in (Flywheel(0.5), Flywheel(0.25))}
    assert len(keys) == 4
    begins = Flywheel(0.5)
    begins.starts_steps = True
    assert key(begins) not in keys
