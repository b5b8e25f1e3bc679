"""Compliant contact: what it adds to a step, and a walking machine with 54 points against MuJoCo.

Both sides hold the joints by position control with steps of 1 ms. Before times are compared, both
must carry the weight of the robot; how deep their feet sink stands beside the times.
"""

from collections.abc import Iterator
from typing import Any

from benchmarks.figure import Figure, Measurement, MeasurementError
from benchmarks.measure_contact import SETTINGS, WEIGHT
from benchmarks.timing import measure
from tiburon.simulation.integrators.methods import integrator_named

SIZE, WALKER_SIZE, PEER_SIZE = 1024, 256, 4
"""Cases of our batches and of MuJoCo's, whose time per step does not depend on their number."""

STEPS = 200
"""Steps of a run, which begins with some milliseconds of checks however short it is."""

STEP = 1e-3
GRAVITY = 9.81
FRICTION = 0.8

FEET, FEET_AIM = 1.0 / 1.6, 1.0 / 1.3
"""Speed of a step with feet on the ground, relative to one without contact."""

WALKER = {"semi_implicit_euler": (50.0, 80.0), "rk4": (20.0, 30.0)}
"""Bound and aim of the walking machine by method, relative to MuJoCo's fastest setting."""

SETTLING = 3.0
"""Time in which robots come to rest [s]."""


class _Robot:
    """A robot that stands on compliant ground, held by its joints."""

    def __init__(
        self,
        name: str,
        method: str,
        stiffness: float,
        damping: float,
        gains: tuple[float, float],
        size: int,
    ) -> None:
        """Let a robot settle.

        Args:
            name: Of the robot.
            method: Of integration.
            stiffness: Of one contact point [N/m].
            damping: Of one contact point [N s/m].
            gains: Stiffness and damping of the joints [N m/rad, N m s/rad].
            size: Cases of the batch.
        """
        import numpy as np

        import tiburon as tb

        self.model = model = tb.load(name)
        ground = tb.Ground(
            static_friction=FRICTION, normal_stiffness=stiffness, normal_damping=damping
        )
        self.gains, self.method = gains, method
        self.world = tb.World(gravity=(0.0, 0.0, -GRAVITY), ground=ground)
        self.stand = np.array(model.poses["stand"])
        here = tb.contacts(model, self.stand, world=self.world)
        self.stand[6] -= here.gap.min()
        self.joints = [
            (model.slice(joint.name, of="q").start, model.slice(joint.name, of="v").start)
            for joint in model.joints
            if joint.kind == "revolute"
        ]
        self.control = self._controller()
        self.weight = GRAVITY * sum(body.inertia.mass for body in model.bodies)
        self.settled = self.run(self.stand, None, SETTLING)
        points = len(model.contacts)
        carried = self.settled.z[-1, : 4 * points].reshape(points, 4)[:, 2].sum()
        if abs(carried - self.weight) > WEIGHT * self.weight:
            raise MeasurementError(f"our feet carry {carried:.4g} N of {self.weight:.4g} N")
        here = tb.contacts(model, self.settled.q[-1], world=self.world)
        self.depth = -float(here.gap.min())
        self.touching = int((here.gap < 0.0).sum())
        generator = np.random.default_rng(5)
        self.q = np.broadcast_to(self.settled.q[-1], (size, model.nq))
        self.v = self.settled.v[-1] + 0.02 * generator.standard_normal((size, model.nv))

    def _controller(self) -> Any:
        import tiburon as tb

        (kp, kd), joints, size = self.gains, self.joints, self.model.nv
        targets = [float(self.stand[a]) for a, _ in joints]

        @tb.traced
        def control(state: Any) -> Any:
            force: list[Any] = [0.0] * size
            for (a, b), target in zip(joints, targets, strict=True):
                force[b] = kp * (target - state.q[a]) - kd * state.v[b]
            return force

        return control

    def run(self, q: Any, v: Any, duration: float, touches: bool = True) -> Any:
        """Run one robot or a batch."""
        import tiburon as tb

        return tb.simulate(
            self.model.without_passive().without_limits(),
            duration,
            q=q,
            v=v,
            world=self.world,
            control=self.control,
            contact=tb.CompliantContact() if touches else None,
            method=integrator_named(self.method, dt=STEP),
            execution=tb.Execution(threads=1, progress=False),
            record=tb.Record(dt=duration),
        )


def run(duration: float) -> Iterator[Figure]:
    """Measure feet of a quadruped against none, and a walking machine against MuJoCo.

    Args:
        duration: Time to spend on each side [s].
    """
    dog = _Robot("quadruped", "rk4", 1e4, 40.0, (100.0, 3.0), SIZE)
    times = measure(
        {
            kind: (dog.run, dog.q, dog.v, STEPS * STEP, touches)
            for kind, touches in (("feet", True), ("none", False))
        },
        duration=duration,
    )
    yield Figure(
        f"quadruped on compliant feet, RK4, {SIZE} cases, one thread",
        times["feet"].per(STEPS * SIZE),
        "the same without contact",
        times["none"].per(STEPS * SIZE),
        FEET,
        FEET_AIM,
        note=f"{dog.touching} points touch and sink {1e3 * dog.depth:.2g} mm",
    )
    yield from _walker(duration)


def _walker(duration: float) -> Iterator[Figure]:
    from mujoco import rollout

    for method, (must, aim) in WALKER.items():
        robot = _Robot("aquarobot", method, 3e4, 300.0, (3e4, 2e3), WALKER_SIZE)
        peers, sunk = {}, []
        for cone, solver in SETTINGS:
            peer, data, rows, depth = _peer(robot, cone, solver)
            peers[f"{cone.lower()} {solver}"] = (rollout.rollout, peer, data, rows)
            sunk.append(depth)
        ours = (robot.run, robot.q, robot.v, STEPS * STEP)
        times = measure({"ours": ours, **_called(peers)}, duration=duration)
        fastest = min(peers, key=lambda name: times[name].minimum)
        points = len(robot.model.contacts)
        yield Figure(
            f"aquarobot, {points} points, {method}, {WALKER_SIZE} cases, one thread",
            times["ours"].per(STEPS * WALKER_SIZE),
            f"mujoco.rollout, {fastest}",
            times[fastest].per(STEPS * PEER_SIZE),
            must,
            aim,
            note=f"{robot.touching} points touch and sink {1e3 * robot.depth:.2g} mm, those of "
            f"MuJoCo {1e3 * max(sunk):.2g} mm",
        )


def _called(peers: dict[str, Any]) -> dict[str, Any]:
    """Return calls of MuJoCo's rollout, which takes the number of steps by name."""
    return {
        name: (lambda call=call: call[0](*call[1:], nstep=STEPS)) for name, call in peers.items()
    }


def _peer(robot: _Robot, cone: str, solver: str) -> tuple[Any, Any, Any, float]:
    """Return MuJoCo's robot on its floor, settled, with states of a batch and the depth of feet."""
    import mujoco
    import numpy as np

    from benchmarks.mujoco_peer import write_spec

    model = robot.model
    spec, bodies = write_spec(model, robot.world.gravity)
    surface = {"friction": [FRICTION, 0.005, 0.0001], "condim": 3}
    radius = 5e-3
    for point in model.contacts:
        bodies[point.body].add_geom(
            name=point.name,
            type=mujoco.mjtGeom.mjGEOM_SPHERE,
            size=[radius, 0, 0],
            pos=list(point.position),
            mass=0,
            contype=1,
            conaffinity=2,
            **surface,
        )
    plane = mujoco.mjtGeom.mjGEOM_PLANE
    spec.worldbody.add_geom(type=plane, size=[50, 50, 1], contype=2, conaffinity=1, **surface)
    for joint in model.joints:
        if joint.kind == "revolute":
            drive = spec.add_actuator(
                name=joint.name, target=joint.name, trntype=mujoco.mjtTrn.mjTRN_JOINT
            )
            drive.set_to_position(kp=robot.gains[0], kv=robot.gains[1])
    option = spec.option
    option.timestep = STEP
    option.cone = getattr(mujoco.mjtCone, f"mjCONE_{cone}")
    option.solver = getattr(mujoco.mjtSolver, f"mjSOL_{solver}")
    # the sparse Newton solver of MuJoCo 4.0.0 has a defect
    option.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    peer = spec.compile()
    data = mujoco.MjData(peer)
    q = robot.stand
    data.qpos[:] = np.r_[q[4:7], q[:4], q[7:]]
    data.qpos[2] += radius
    data.ctrl[:] = [float(q[a]) for a, _ in robot.joints]
    mujoco.mj_step(peer, data, nstep=int(SETTLING / STEP))
    force, total = np.zeros(6), 0.0
    for index in range(data.ncon):
        mujoco.mj_contactForce(peer, data, index, force)
        total += force[0]
    if abs(total - robot.weight) > WEIGHT * robot.weight:
        raise MeasurementError(f"MuJoCo's feet carry {total:.4g} N of {robot.weight:.4g} N")
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    rows = np.zeros((PEER_SIZE, mujoco.mj_stateSize(peer, kind)))
    start = data.qvel.copy()
    generator = np.random.default_rng(5)
    for row in rows:
        data.qvel[:] = start + 0.02 * generator.standard_normal(model.nv)
        mujoco.mj_getState(peer, data, row, kind)
    return peer, data, rows, -min(contact.dist for contact in data.contact)


MEASUREMENT = Measurement("compliant-contact", "Compliant contact, time of a step", run, place=20)
