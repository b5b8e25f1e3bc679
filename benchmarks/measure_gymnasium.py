"""Robots of Gymnasium whose shapes all may touch, against MuJoCo's steps of the same files.

Both sides take the files' steps, with contacts, joint limits and springs. One robot falls limp
from its reference configuration and lies on the ground; 1024 robots start from random states on
the ground, under random commands; and 20 m above it contacts cost what their tests cost. Contacts
of MuJoCo are soft: before times are compared, both sides must move alike in the air.
"""

from collections.abc import Iterator
from pathlib import Path
from typing import Any, NamedTuple

from benchmarks.figure import Figure, Measurement, MeasurementError
from benchmarks.timing import measure

ROBOTS = ("ant", "half_cheetah", "hopper", "walker2d", "humanoid")
"""Those with ground; a swimmer has none."""

LIMP_TIME = 2.0
"""Length of the run of a limp robot [s]."""

SIZE, PEER_SIZE, STEPS = 1024, 64, 20
"""Random states of our batch and of MuJoCo's, whose time per step does not depend on their number,
and their steps."""

PLANAR = ("half_cheetah", "hopper", "walker2d")
"""Robots whose second coordinate is their height."""

AIR = 20.0
"""Height of robots that touch nothing [m]."""

AIR_TIME = 1.5
"""Time in which robots fall by less than that [s]."""

ONE, ONE_AIM = 1.0, 2.0
BATCH, BATCH_AIM = 10.0, 20.0
BATCH_OF = {"humanoid": (4.0, 8.0)}
"""Bounds of batches where shapes are many."""

AIR_SHARE = 1.0 / 1.5
"""Time of steps without contact relative to that of steps with it, in the air."""

CHECKED_STEPS, MAX_HEIGHT_ERROR = 20, 0.02
"""Steps in the air after which centers of mass of both sides are compared, and how far they may be
from each other in height [m]: integrators, damping and limits of joints differ in kind."""


class _Robot(NamedTuple):
    name: str
    model: Any
    world: Any
    peer: Any
    """MuJoCo's model of the same file."""

    @property
    def step(self) -> float:
        """Length of a step [s]."""
        return float(self.peer.opt.timestep)

    def start(self, qpos: Any, qvel: Any) -> Any:
        """Return our state for one of MuJoCo's."""
        import tiburon as tb

        return tb.from_mujoco(self.model, qpos, qvel)

    def run(self, q: Any, v: Any, steps: int, **options: Any) -> Any:
        """Return a run of some steps, of which the last is recorded."""
        import tiburon as tb

        return tb.simulate(
            self.model,
            steps * self.step,
            q=q,
            v=v,
            world=self.world,
            method=tb.RK4(dt=self.step),
            record=tb.Record(every=steps),
            execution=tb.Execution(threads=1, progress=False),
            **options,
        )


def run(duration: float) -> Iterator[Figure]:
    """Measure each robot limp, in a batch and in the air.

    Args:
        duration: Time to spend on each side [s].
    """
    for name in ROBOTS:
        robot = _loaded(name)
        yield _limp(robot, duration)
        yield _batch(robot, duration)
        yield _in_air(robot, duration)


def _loaded(name: str) -> _Robot:
    import gymnasium
    import mujoco

    import tiburon as tb

    folder = Path(gymnasium.__file__).parent / "envs" / "mujoco" / "assets"
    path = folder / f"{name}.xml"
    peer = mujoco.MjModel.from_xml_path(str(path))
    robot = _Robot(name, tb.load(path), tb.load_world(path), peer)
    _check(robot)
    return robot


def _check(robot: _Robot) -> None:
    """Raise an error if both sides do not move alike where nothing touches."""
    import mujoco
    import numpy as np

    import tiburon as tb

    peer = robot.peer
    data = mujoco.MjData(peer)
    data.qpos[:] = _in_the_air(robot)
    data.qvel[:] = 0.1 * np.random.default_rng(3).standard_normal(peer.nv)
    start = robot.start(data.qpos.copy(), data.qvel.copy())
    found = robot.run(start.q, start.v, CHECKED_STEPS).q[-1]
    mujoco.mj_step(peer, data, nstep=CHECKED_STEPS)
    mujoco.mj_forward(peer, data)
    height = float(np.asarray(tb.center_of_mass(robot.model, found))[2])
    error = abs(height - data.subtree_com[0][2])
    masses = sum(body.inertia.mass for body in robot.model.bodies), peer.body_mass.sum()
    if not (error <= MAX_HEIGHT_ERROR and np.isclose(*masses)):
        raise MeasurementError(f"{robot.name}: heights in the air differ by {error:.2g} m")


def _reference(robot: _Robot) -> Any:
    """Return MuJoCo's reference configuration, with its joints within their limits."""
    import numpy as np

    peer = robot.peer
    qpos = peer.qpos0.copy()
    # those of hinges and slides, which have one coordinate
    limited = np.flatnonzero(peer.jnt_limited)
    places = peer.jnt_qposadr[limited]
    qpos[places] = np.clip(qpos[places], *peer.jnt_range[limited].T)
    return qpos


def _in_the_air(robot: _Robot) -> Any:
    """Return the reference configuration, raised."""
    qpos = _reference(robot)
    qpos[1 if robot.name in PLANAR else 2] += AIR
    return qpos


def _limp(robot: _Robot, duration: float) -> Figure:
    """Measure one robot that falls limp."""
    import mujoco

    data = mujoco.MjData(robot.peer)
    steps = round(LIMP_TIME / robot.step)
    start = robot.start(_reference(robot), data.qvel.copy())

    def theirs() -> None:
        mujoco.mj_resetData(robot.peer, data)
        data.qpos[:] = _reference(robot)
        mujoco.mj_step(robot.peer, data, nstep=steps)

    def ours() -> Any:
        return robot.run(start.q, start.v, steps)

    found = ours()
    times = measure({"ours": ours, "peer": theirs}, duration=duration)
    summary = found.contact_summary()
    return Figure(
        f"{robot.name} limp, one robot",
        times["ours"].per(steps),
        "mj_step",
        times["peer"].per(steps),
        ONE,
        ONE_AIM,
        note=f"{robot.name}: residual {summary.residual:.1e}",
    )


def _states(robot: _Robot) -> tuple[list[Any], list[Any], Any]:
    """Return states of MuJoCo on the ground, ours, and the commands of both."""
    import mujoco
    import numpy as np

    import tiburon as tb

    generator = np.random.default_rng(7)
    data = mujoco.MjData(robot.peer)
    low, high = robot.peer.actuator_ctrlrange.T
    theirs, ours, commands = [], [], []
    while len(ours) < PEER_SIZE:
        mujoco.mj_resetData(robot.peer, data)
        data.qpos[:] = _reference(robot)
        data.qvel[:] = generator.standard_normal(robot.peer.nv)
        for _ in range(generator.integers(0, round(1.0 / robot.step), endpoint=True)):
            data.ctrl[:] = generator.uniform(low, high)
            mujoco.mj_step(robot.peer, data)
        state = robot.start(data.qpos.copy(), data.qvel.copy())
        try:
            # contacts and limits of MuJoCo are soft
            q = tb.lift_out(robot.model, state.q, world=robot.world)
            robot.run(q, state.v, 1)
        except tb.TiburonError:
            continue
        theirs.append((data.qpos.copy(), data.qvel.copy()))
        ours.append((q, state.v))
        commands.append(generator.uniform(low, high))
    return theirs, ours, np.array(commands)


def _batch(robot: _Robot, duration: float) -> Figure:
    """Measure robots in random states under random commands, on one core."""
    import mujoco
    import numpy as np
    from mujoco import rollout

    theirs, states, commands = _states(robot)
    data = mujoco.MjData(robot.peer)
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    rows = np.zeros((PEER_SIZE, mujoco.mj_stateSize(robot.peer, kind)))
    for row, (qpos, qvel) in zip(rows, theirs, strict=True):
        data.qpos[:], data.qvel[:] = qpos, qvel
        mujoco.mj_getState(robot.peer, data, row, kind)
    orders = np.repeat(commands[:, None], STEPS, axis=1)
    copies = SIZE // PEER_SIZE
    q, v = (np.tile(np.array(x), (copies, 1)) for x in zip(*states, strict=True))
    names = [actuator.name for actuator in robot.model.actuators]
    ordered = zip(names, np.tile(commands, (copies, 1)).T, strict=True)
    options = {"command": dict(ordered)}

    def ours() -> Any:
        return robot.run(q, v, STEPS, **options)

    found = ours()
    times = measure(
        {"ours": ours, "peer": (rollout.rollout, robot.peer, data, rows, orders)},
        duration=duration,
    )
    must, aim = BATCH_OF.get(robot.name, (BATCH, BATCH_AIM))
    solved = sum(outcome.ok for outcome in found.outcomes)
    return Figure(
        f"{robot.name}, {SIZE} random states, one thread",
        times["ours"].per(SIZE * STEPS),
        "mujoco.rollout",
        times["peer"].per(PEER_SIZE * STEPS),
        must,
        aim,
        note=f"{robot.name}: {solved} of {SIZE} cases solved in all steps",
    )


def _in_air(robot: _Robot, duration: float) -> Figure:
    """Measure what contacts cost where nothing touches."""
    import numpy as np

    start = robot.start(_in_the_air(robot), np.zeros(robot.peer.nv))
    steps = round(AIR_TIME / robot.step)
    times = measure(
        {
            "with": lambda: robot.run(start.q, start.v, steps),
            "without": lambda: robot.run(start.q, start.v, steps, contact=None),
        },
        duration=duration,
    )
    return Figure(
        f"{robot.name} in the air, one robot",
        times["with"].per(steps),
        "without contact",
        times["without"].per(steps),
        AIR_SHARE,
    )


MEASUREMENT = Measurement(
    "gymnasium",
    "Robots of Gymnasium in contact, with the steps of their files",
    run,
    place=19,
)
