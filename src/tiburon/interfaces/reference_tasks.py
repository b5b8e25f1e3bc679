"""Five tasks by name: balancing, reaching, trotting, holding station, walking on the sea floor."""

from collections.abc import Callable
from functools import cache
from typing import Any

import numpy as np

from tiburon.errors import UnknownNameError
from tiburon.formats.load import load
from tiburon.functions.dynamics import inverse_dynamics
from tiburon.functions.kinematics import forward_kinematics
from tiburon.interfaces.task import Task
from tiburon.model import Ground, Water, World
from tiburon.simulation.integrators.euler import SemiImplicitEuler
from tiburon.simulation.integrators.rk4 import RK4
from tiburon.trace.declared import traced

Generator = np.random.Generator


def cart_pole() -> Task:
    """Balance a pole on a cart.

    Starts, ends and force are those of the pole-balancing task of Barto, Sutton and Anderson 1983,
    with a force of any size up to 10 N instead of two.
    """

    @traced
    def push(state: Any) -> Any:
        return {"motor": 10.0 * state.sensors["action"][0]}

    def observe(model: Any, q: Any, v: Any) -> Any:
        return [q[0], v[0], np.sin(q[1]), np.cos(q[1]), v[1]]

    def reward(model: Any, q: Any, u: Any) -> Any:
        return np.cos(q[1]) - 0.05 * q[0] * q[0] - 0.01 * u[0] * u[0]

    def terminated(model: Any, q: Any) -> Any:
        # 12 degrees, and the ends of the track
        return (np.abs(q[1]) > np.deg2rad(12.0)) | (np.abs(q[0]) > 2.39)

    def start(generator: Generator) -> dict[str, Any]:
        return {"q": generator.uniform(-0.05, 0.05, 2), "v": generator.uniform(-0.05, 0.05, 2)}

    return Task(
        name="cart_pole",
        model=load("cart_pole"),
        method=RK4(dt=5e-3),
        substeps=4,
        start=start,
        low=(-1.0,),
        high=(1.0,),
        control=push,
        observe=observe,
        reward=reward,
        terminated=terminated,
        max_steps=500,
        randomize={"pole.mass": (0.08, 0.12)},
    )


def panda_reach() -> Task:
    """Bring the hand of an arm to a point by joint torques, which add to those of its weight."""
    arm = load("panda")
    ready = np.array(arm.poses["ready"])
    # a quarter of the torques of the arm [N m], and the force of the fingers [N]
    scale = np.array([22.0, 22.0, 22.0, 22.0, 3.0, 3.0, 3.0, 10.0])

    @traced
    def drive(state: Any) -> Any:
        still = 0.0 * state.v
        weight = inverse_dynamics(state.model, state.q, still, still)
        return weight + scale * state.sensors["action"] - 0.5 * state.v

    def gap(model: Any, q: Any, target: Any) -> Any:
        return target - forward_kinematics(model, q, ["hand"])[1][0]

    def observe(model: Any, q: Any, v: Any, target: Any) -> Any:
        return [q, v, gap(model, q, target)]

    def reward(model: Any, q: Any, u: Any, target: Any) -> Any:
        off = gap(model, q, target)
        return -np.sqrt(np.sum(off * off) + 1e-8) - 1e-3 * np.sum(u * u)

    def start(generator: Generator) -> dict[str, Any]:
        goal = ready + generator.uniform(-0.4, 0.4, arm.nq) * ([1.0] * 7 + [0.0])
        _, position = forward_kinematics(arm, goal, ["hand"])
        return {"q": ready + generator.uniform(-0.05, 0.05, arm.nq) * 0.2, "target": position[0]}

    return Task(
        name="panda_reach",
        model=arm,
        method=SemiImplicitEuler(dt=2e-3),
        substeps=10,
        start=start,
        low=(-1.0,) * 8,
        high=(1.0,) * 8,
        control=drive,
        observe=observe,
        reward=reward,
        shapes={"target": 3},
        max_steps=100,
        randomize={"hand.mass": (0.5, 2.0)},
    )


def _upward(q: Any) -> list[Any]:
    """Return the upward direction of the world in axes of a free base, from its quaternion."""
    w, x, y, z = (q[k] for k in range(4))
    return [2.0 * (x * z - w * y), 2.0 * (y * z + w * x), w * w - x * x - y * y + z * z]


def _base_velocity(q: Any, v: Any) -> list[Any]:
    """Return the forward and sideward velocity of a free base over ground [m/s]."""
    w, x, y, z = (q[k] for k in range(4))
    a, b, c = (v[k] for k in range(3, 6))
    return [
        (1.0 - 2.0 * (y * y + z * z)) * a + 2.0 * (x * y - w * z) * b + 2.0 * (x * z + w * y) * c,
        2.0 * (x * y + w * z) * a + (1.0 - 2.0 * (x * x + z * z)) * b + 2.0 * (y * z - w * x) * c,
    ]


def _walk(
    name: str,
    robot: str,
    world: World,
    reference: Callable[[Any], list[Any]],
    stiffness: float,
    damping: float,
    reach: float,
    speed: tuple[float, float],
    height: float,
    period: float,
    **more: Any,
) -> Task:
    """Return a task of a robot on legs: follow a speed with joint angles about those of a gait.

    Args:
        name: Of the task.
        robot: In the zoo, with a pose "stand".
        world: Its surroundings.
        reference: Returns the change of each joint angle at a phase of the gait [rad].
        stiffness: Of position control [N m/rad].
        damping: Of position control [N m s/rad].
        reach: Change of the angles by the largest action [rad].
        speed: Bounds of the speed that is wanted [m/s].
        height: Of the base, below which a robot has fallen [m].
        period: Of the gait [s].
        **more: Of `Task`.
    """
    model = load(robot)
    stand = np.array(model.poses["stand"])
    joints = [
        (motor.name, *(model.slice(motor.joint, of=of).start for of in ("q", "v")))
        for motor in model.actuators
    ]
    rate = 2.0 * np.pi / period

    @traced
    def control(state: Any) -> Any:
        swing = reference(rate * state.time)
        return {
            motor: stiffness
            * (float(stand[i]) + swing[k] + reach * state.sensors["action"][k] - state.q[i])
            - damping * state.v[j]
            for k, (motor, i, j) in enumerate(joints)
        }

    def observe(model: Any, q: Any, v: Any, time: Any, target: Any) -> Any:
        angles = [q[i] - float(stand[i]) for _, i, _ in joints]
        rates = [v[j] for _, _, j in joints]
        phase = [np.sin(rate * time), np.cos(rate * time)]
        return [_upward(q), v[:6], angles, rates, phase, [target]]

    def reward(model: Any, q: Any, v: Any, u: Any, target: Any) -> Any:
        forward, sideward = _base_velocity(q, v)
        off = (forward - target) ** 2 + sideward**2
        level = q[6] - float(stand[6])
        return np.exp(-off / 0.1) + 0.2 * _upward(q)[2] - level * level - 0.01 * np.sum(u * u)

    def terminated(model: Any, q: Any) -> Any:
        return (q[6] < height) | (_upward(q)[2] < 0.5)

    def start(generator: Generator) -> dict[str, Any]:
        q, v = stand.copy(), 0.02 * generator.standard_normal(model.nv)
        return {"q": q, "v": v, "target": generator.uniform(*speed)}

    return Task(
        name=name,
        model=model,
        start=start,
        low=(-1.0,) * len(joints),
        high=(1.0,) * len(joints),
        control=control,
        observe=observe,
        reward=reward,
        terminated=terminated,
        shapes={"target": ()},
        options={"world": world},
        **more,
    )


def quadruped_trot() -> Task:
    """Trot at a given speed: diagonal legs swing together, actions change their joint angles."""

    def trot(phase: Any) -> list[Any]:
        found: list[Any] = [0.0] * 12
        for leg, shift in enumerate((0.0, np.pi, np.pi, 0.0)):
            lift = np.maximum(0.0, np.sin(phase + shift))
            found[3 * leg + 1] = 0.35 * lift + 0.1 * np.cos(phase + shift)
            found[3 * leg + 2] = -0.7 * lift
        return found

    return _walk(
        "quadruped_trot",
        "quadruped",
        World(ground=Ground(static_friction=0.8)),
        trot,
        100.0,
        3.0,
        0.3,
        (0.0, 0.6),
        0.15,
        0.5,
        method=SemiImplicitEuler(dt=2e-3),
        substeps=10,
        max_steps=500,
        randomize={"ground.static_friction": (0.5, 1.0), "trunk.mass": (5.0, 8.0)},
    )


def sea_floor_walk() -> Task:
    """Walk on the sea floor, on six legs in tripods, across a current that differs per episode."""

    def tripods(phase: Any) -> list[Any]:
        found: list[Any] = [0.0] * 18
        for leg in range(6):
            here = phase + np.pi * (leg % 2)
            found[3 * leg + 1] = 0.15 * np.maximum(0.0, np.sin(here))
        return found

    sea = Water(1025.0, current=(0.0, 0.3, 0.0))
    floor = Ground(
        static_friction=0.7, kinetic_friction=0.6, normal_stiffness=3e4, normal_damping=600.0
    )
    return _walk(
        "sea_floor_walk",
        "aquarobot",
        World(ground=floor, fluid=sea),
        tripods,
        20_000.0,
        500.0,
        0.2,
        (0.0, 0.2),
        0.5,
        3.0,
        method=SemiImplicitEuler(dt=1e-3),
        substeps=20,
        max_steps=500,
        randomize={"fluid.current": lambda g: (*g.uniform(-0.4, 0.4, 2), 0.0)},
    )


def rov_station() -> Task:
    """Hold a vehicle at a point in a current that differs per episode, by its eight thrusters."""
    rov = load("bluerov2_heavy")
    names = [thruster.name for thruster in rov.thrusters]
    most = 30.0

    @traced
    def thrust(state: Any) -> Any:
        return {name: most * state.sensors["action"][k] for k, name in enumerate(names)}

    def observe(model: Any, q: Any, v: Any) -> Any:
        return [q, v]

    def reward(model: Any, q: Any, v: Any, u: Any) -> Any:
        off = q[4] * q[4] + q[5] * q[5] + q[6] * q[6]
        turned = 1.0 - q[0] * q[0]
        still = np.sum(v[:3] * v[:3])
        return np.exp(-off) - 0.5 * turned - 0.05 * still - 0.01 * np.sum(u * u)

    def terminated(model: Any, q: Any) -> Any:
        return q[4] * q[4] + q[5] * q[5] + q[6] * q[6] > 9.0

    def start(generator: Generator) -> dict[str, Any]:
        q = rov.integrate(rov.neutral(), generator.uniform(-0.3, 0.3, 6))
        return {"q": q, "v": generator.uniform(-0.1, 0.1, 6)}

    return Task(
        name="rov_station",
        model=rov,
        method=RK4(dt=5e-3),
        substeps=10,
        start=start,
        low=(-1.0,) * len(names),
        high=(1.0,) * len(names),
        control=thrust,
        observe=observe,
        reward=reward,
        terminated=terminated,
        max_steps=400,
        options={"fluid": Water(1000.0, current=(0.2, 0.0, 0.0))},
        randomize={"fluid.current": lambda g: tuple(g.uniform(-0.4, 0.4, 3))},
    )


TASKS: dict[str, Callable[[], Task]] = {
    "cart_pole": cart_pole,
    "panda_reach": panda_reach,
    "quadruped_trot": quadruped_trot,
    "rov_station": rov_station,
    "sea_floor_walk": sea_floor_walk,
}
"""Reference tasks by name."""


@cache
def task(name: str) -> Task:
    """Return a reference task; the same object for the same name.

    Raises:
        UnknownNameError: If there is none of that name.
    """
    if name not in TASKS:
        raise UnknownNameError("task", name, tuple(TASKS))
    return TASKS[name]()
