"""Rigid contact against MuJoCo's rollout at its fastest: robots that stand and trot, a stack.

Both sides hold the joints by position control (100 N m/rad, 3 N m s/rad) with steps of 1 ms.
MuJoCo's contacts are soft: before times are compared, both must carry the weight, and what either
side lets the feet sink and slide stands beside the times.
"""

import itertools
from collections.abc import Iterator
from typing import Any

from benchmarks.figure import Figure, Measurement, MeasurementError
from benchmarks.timing import measure

SIZE, PEER_SIZE = 4096, 128
"""Cases of our batch and of MuJoCo's, whose time per step does not depend on their number."""

STEPS, STEPS_OF_ONE = 20, 10000
STEP = 1e-3
GRAVITY = 9.81
FRICTION = 0.8
STIFFNESS, DAMPING = 100.0, 3.0
SLOPE = 20.0
"""Slope on which the sliding of the feet is measured, from 2 to 10 s [degrees]."""

SETTINGS = [(cone, solver) for cone in ("ELLIPTIC", "PYRAMIDAL") for solver in ("NEWTON", "PGS")]
"""MuJoCo's settings; the fastest counts."""

BATCH, BATCH_AIM = 8.0, 12.0
ONE, ONE_AIM = 3.0, 4.5
WEIGHT = 1e-2
"""How far the sum of the contact forces of both sides may be from the weight, relative to it."""


def run(duration: float) -> Iterator[Figure]:
    """Measure a quadruped that stands and trots, with few and many points, and a stack.

    Args:
        duration: Time to spend on each side [s].
    """
    for gait in ("standing", "trotting"):
        yield _figure(gait, (SIZE,), STEPS, BATCH, BATCH_AIM, duration)
    yield _figure("standing", (), STEPS_OF_ONE, ONE, ONE_AIM, duration)
    yield from _drake(duration)
    yield _many_points(duration)
    yield _foot_pads(duration)
    yield from _in_current(duration)
    yield _stack(duration)


def _peer(model: Any, cone: str, solver: str, gravity: tuple[float, float, float]) -> Any:
    """Return MuJoCo's robot with feet, floor and position actuators."""
    import mujoco

    from benchmarks.mujoco_peer import write_spec

    spec, bodies = write_spec(model, gravity)
    surface = {"friction": [FRICTION, 0.005, 0.0001], "condim": 3}
    sphere, plane = mujoco.mjtGeom.mjGEOM_SPHERE, mujoco.mjtGeom.mjGEOM_PLANE
    for point in model.contacts:
        bodies[point.body].add_geom(
            name=point.name,
            type=sphere,
            size=[point.radius, 0, 0],
            pos=list(point.position),
            mass=0,
            contype=1,
            conaffinity=2,
            **surface,
        )
    spec.worldbody.add_geom(type=plane, size=[50, 50, 1], contype=2, conaffinity=1, **surface)
    for actuator in model.actuators:
        kind = mujoco.mjtTrn.mjTRN_JOINT
        drive = spec.add_actuator(name=actuator.name, target=actuator.joint, trntype=kind)
        drive.set_to_position(kp=STIFFNESS, kv=DAMPING)
    option = spec.option
    option.timestep = STEP
    option.cone = getattr(mujoco.mjtCone, f"mjCONE_{cone}")
    option.solver = getattr(mujoco.mjtSolver, f"mjSOL_{solver}")
    # the sparse Newton solver of MuJoCo 4.0.0 has a defect
    option.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
    return spec.compile()


def _targets(stand: Any, time: Any, trotting: bool) -> list[Any]:
    """Return the target of each joint at a time [s]: diagonal legs swing together at 2 Hz."""
    import numpy as np

    found = list(stand)
    if trotting:
        for leg, shift in enumerate((0.0, np.pi, np.pi, 0.0)):
            phase = 4.0 * np.pi * time + shift
            lift, swing = np.maximum(0.0, np.sin(phase)), 0.075 * np.cos(phase)
            found[3 * leg + 1] = found[3 * leg + 1] + 0.35 * lift + swing
            found[3 * leg + 2] = found[3 * leg + 2] - 0.7 * lift
    return found


def _controller(model: Any, trotting: bool) -> Any:
    """Return position control of all joints, compiled into the run."""
    import tiburon as tb

    stand = [float(x) for x in model.poses["stand"][7:]]

    @tb.traced
    def control(state: Any) -> Any:
        wanted = _targets(stand, state.time, trotting)
        rows = zip(wanted, state.q[7:], state.v[6:], strict=True)
        return [0.0] * 6 + [STIFFNESS * (a - q) - DAMPING * v for a, q, v in rows]

    return control


def _sides(
    gait: str, shape: tuple[int, ...], steps: int, model: Any = None
) -> tuple[Any, dict[str, Any], str]:
    """Return our run, MuJoCo's by setting, and what each side lets the feet do."""
    import mujoco
    import numpy as np
    from mujoco import rollout

    import tiburon as tb

    model = tb.load("quadruped") if model is None else model
    model = model.without_passive().without_limits()
    trotting = gait == "trotting"
    control = _controller(model, trotting)
    ground = tb.Ground(static_friction=FRICTION)
    options = {
        "contact": tb.RigidContact(),
        "method": tb.SemiImplicitEuler(dt=STEP),
        "execution": tb.Execution(progress=False),
    }
    world = tb.World(gravity=(0.0, 0.0, -GRAVITY), ground=ground)
    stand = np.array(model.poses["stand"])
    settled = tb.simulate(
        model, 1.0, q=stand, world=world, control=_controller(model, False), **options
    )
    weight = GRAVITY * sum(body.inertia.mass for body in model.bodies)
    points = len(model.contacts)
    carried = settled.z[-1, : 4 * points].reshape(points, 4)[:, 2].sum()
    if abs(carried - weight) > WEIGHT * weight:
        raise MeasurementError(f"our feet carry {carried:.4g} N of {weight:.4g} N")
    generator = np.random.default_rng(5)
    q = np.broadcast_to(settled.q[-1], (*shape, model.nq))
    v = settled.v[-1] + 0.02 * generator.standard_normal((*shape, model.nv))
    threads = 1 if shape else None

    def ours() -> Any:
        return tb.simulate(
            model,
            steps * STEP,
            q=q,
            v=v,
            world=world,
            control=control,
            record=tb.Record(every=steps),
            **{**options, "execution": tb.Execution(threads=threads, progress=False)},
        )

    peers = {}
    times = np.arange(steps) * STEP
    commands = np.array([_targets(stand[7:], t, trotting) for t in times])
    count = PEER_SIZE if shape else 1
    for cone, solver in SETTINGS:
        peer = _peer(model, cone, solver, world.gravity)
        data = mujoco.MjData(peer)
        data.qpos[:] = np.r_[stand[4:7], stand[:4], stand[7:]]
        data.ctrl[:] = stand[7:]
        mujoco.mj_step(peer, data, nstep=1000)
        force = np.zeros(6)
        total = 0.0
        for index in range(data.ncon):
            mujoco.mj_contactForce(peer, data, index, force)
            total += force[0]
        if abs(total - weight) > WEIGHT * weight:
            raise MeasurementError(f"MuJoCo's feet carry {total:.4g} N of {weight:.4g} N")
        kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
        rows = np.zeros((count, mujoco.mj_stateSize(peer, kind)))
        start = data.qvel.copy()
        for row in rows:
            data.qvel[:] = start + 0.02 * generator.standard_normal(model.nv)
            mujoco.mj_getState(peer, data, row, kind)
        orders = np.broadcast_to(commands, (count, *commands.shape)).copy()
        peers[f"{cone.lower()} {solver}"] = (rollout.rollout, peer, data, rows, orders)
    return ours, peers, _sliding(model, options)


def _sliding(model: Any, options: dict[str, Any]) -> str:
    """Describe how far feet slide on a slope from 2 to 10 s, and how deep they sink."""
    import mujoco
    import numpy as np

    import tiburon as tb

    angle = np.deg2rad(SLOPE)
    gravity = (GRAVITY * np.sin(angle), 0.0, -GRAVITY * np.cos(angle))
    world = tb.World(gravity=gravity, ground=tb.Ground(static_friction=FRICTION))
    stand = np.array(model.poses["stand"])
    run = tb.simulate(
        model,
        10.0,
        q=stand,
        world=world,
        control=_controller(model, False),
        record=tb.Record(dt=2.0),
        **options,
    )
    here = tb.contacts(model, run.q, world=world)
    moved = np.linalg.norm((here.point[-1] - here.point[1])[:, :2], axis=1).max()
    depth = max(0.0, -float(here.gap[1:].min()))
    peer = _peer(model, "ELLIPTIC", "NEWTON", gravity)
    data = mujoco.MjData(peer)
    data.qpos[:] = np.r_[stand[4:7], stand[:4], stand[7:]]
    data.ctrl[:] = stand[7:]
    feet = [peer.geom(point.name).id for point in model.contacts]
    mujoco.mj_step(peer, data, nstep=2000)
    before = data.geom_xpos[feet].copy()
    mujoco.mj_step(peer, data, nstep=8000)
    slid = np.linalg.norm((data.geom_xpos[feet] - before)[:, :2], axis=1).max()
    sunk = -min(contact.dist for contact in data.contact)
    return (
        f"on a slope of {SLOPE:g} degrees feet slide {1e3 * moved:.1e} mm from 2 to 10 s and sink "
        f"{1e6 * depth:.1e} um, those of MuJoCo (elliptic, Newton) {1e3 * slid:.3g} mm and "
        f"{1e6 * sunk:.3g} um"
    )


def _figure(
    gait: str, shape: tuple[int, ...], steps: int, must: float, aim: float, duration: float
) -> Figure:
    ours, peers, note = _sides(gait, shape, steps)
    times = measure({"ours": ours, **peers}, duration=duration)
    fastest = min(peers, key=lambda name: times[name].minimum)
    count, peer_count = (steps * (size if shape else 1) for size in (SIZE, PEER_SIZE))
    cases = f"{shape[0]} cases, one thread" if shape else "one robot"
    return Figure(
        f"quadruped {gait}, {cases}",
        times["ours"].per(count),
        f"mujoco.rollout, {fastest}",
        times[fastest].per(peer_count),
        must,
        aim,
        note=note if gait == "standing" and shape else "",
    )


DRAKE = 40.0
"""How many times faster than Drake one robot must be."""

DRAKE_STEPS = 50


def _drake(duration: float) -> Iterator[Figure]:
    """Measure one standing quadruped against Drake, where that is installed."""
    try:
        from benchmarks.drake_contact_peer import APPROXIMATIONS, DrakeFeet
    except ImportError:
        return
    import numpy as np

    import tiburon as tb

    model = tb.load("quadruped")
    stand = np.array(model.poses["stand"])
    gravity = (0.0, 0.0, -GRAVITY)
    weight = GRAVITY * sum(body.inertia.mass for body in model.bodies)
    ours, _, _ = _sides("standing", (), STEPS_OF_ONE, model)
    peers = {}
    for name in APPROXIMATIONS:
        peer = DrakeFeet(
            model,
            stand,
            approximation=name,
            step=STEP,
            friction=FRICTION,
            gravity=gravity,
            gains=(STIFFNESS, DAMPING),
        )
        peer.advance(1.0)
        if abs(peer.carried() - weight) > WEIGHT * weight:
            raise MeasurementError(f"Drake's feet carry {peer.carried():.4g} N of {weight:.4g} N")
        peers[name] = (peer.advance, DRAKE_STEPS * STEP)
    times = measure({"ours": ours, **peers}, duration=duration)
    fastest = min(peers, key=lambda name: times[name].minimum)
    yield Figure(
        "quadruped standing, one robot",
        times["ours"].per(STEPS_OF_ONE),
        f"Drake, {fastest.lower()}",
        times[fastest].per(DRAKE_STEPS),
        DRAKE,
    )


def _many_points(duration: float) -> Figure:
    """Measure a quadruped with 24 candidate points, of which the four feet touch."""
    from dataclasses import replace

    import tiburon as tb

    model = tb.load("quadruped")
    points = list(model.contacts)
    for point in model.contacts:
        x, y, z = point.position
        points += [
            replace(point, name=f"{point.name}_{k}", position=(x, y, z + 0.03 * k))
            for k in range(1, 6)
        ]
    model = tb.Model(
        "quadruped with 24 points",
        model.bodies,
        actuators=model.actuators,
        contacts=points,
        poses=model.poses,
    )
    ours, peers, _ = _sides("standing", (SIZE,), STEPS, model)
    peers = {name: call for name, call in peers.items() if name.endswith("NEWTON")}
    times = measure({"ours": ours, **peers}, duration=duration)
    fastest = min(peers, key=lambda name: times[name].minimum)
    return Figure(
        f"quadruped with {len(points)} candidate points, {SIZE} cases, one thread",
        times["ours"].per(STEPS * SIZE),
        f"mujoco.rollout, {fastest}",
        times[fastest].per(STEPS * PEER_SIZE),
        3.0,
        6.0,
    )


PAD_SIZE, PAD_STIFFNESS, PAD_DAMPING = 256, 20000.0, 300.0
"""Cases of our batch of robots with foot pads, and their position control [N m/rad, N m s/rad]."""


def _held_hinges(model: Any, stand: Any, stiffness: float, damping: float) -> Any:
    """Return position control of all hinges; pads on ball joints are passive."""
    import tiburon as tb

    hinges = [
        (model.slice(joint.name, of="q").start, model.slice(joint.name, of="v").start)
        for joint in model.joints
        if joint.nv == 1
    ]

    @tb.traced
    def hold(state: Any) -> Any:
        force: list[Any] = [0.0] * model.nv
        for place, k in hinges:
            error = float(stand[place]) - state.q[place]
            force[k] = stiffness * error - damping * state.v[k]
        return force

    return hold


def _foot_pads(duration: float) -> Figure:
    """Measure `aquarobot`, which stands on six pads of nine points each."""
    import mujoco
    import numpy as np
    from mujoco import rollout

    import tiburon as tb
    from benchmarks.mujoco_peer import write_spec

    model = tb.load("aquarobot").without_limits()
    stand = np.array(model.poses["stand"])
    hold = _held_hinges(model, stand, PAD_STIFFNESS, PAD_DAMPING)
    world = tb.World(gravity=(0.0, 0.0, -GRAVITY), ground=tb.Ground(static_friction=0.6))
    options = {
        "contact": tb.RigidContact(),
        "method": tb.SemiImplicitEuler(dt=STEP),
        "execution": tb.Execution(progress=False),
    }
    options |= {
        "world": world,
        "control": hold,
    }
    settled = tb.simulate(model, 0.5, q=stand, record=tb.Record(dt=0.5), **options)
    generator = np.random.default_rng(5)
    q = np.tile(settled.q[-1], (PAD_SIZE, 1))
    v = settled.v[-1] + 1e-3 * generator.standard_normal((PAD_SIZE, model.nv))

    def ours() -> Any:
        return tb.simulate(
            model,
            STEPS * STEP,
            q=q,
            v=v,
            record=tb.Record(every=STEPS),
            **{**options, "execution": tb.Execution(threads=1, progress=False)},
        )

    peers = {}
    for cone, solver in SETTINGS:
        spec, bodies = write_spec(model, world.gravity)
        for point in model.contacts:
            bodies[point.body].add_geom(
                type=mujoco.mjtGeom.mjGEOM_SPHERE,
                size=[0.005, 0, 0],
                pos=list(point.position),
                mass=0,
                contype=1,
                conaffinity=2,
            )
        plane = mujoco.mjtGeom.mjGEOM_PLANE
        spec.worldbody.add_geom(type=plane, size=[50, 50, 1], contype=2, conaffinity=1)
        spec.option.timestep = STEP
        spec.option.cone = getattr(mujoco.mjtCone, f"mjCONE_{cone}")
        spec.option.solver = getattr(mujoco.mjtSolver, f"mjSOL_{solver}")
        spec.option.jacobian = mujoco.mjtJacobian.mjJAC_DENSE
        peer = spec.compile()
        start = np.r_[stand[4:7], stand[:4], stand[7:]]
        start[2] += 0.005
        peer.dof_damping[6:], peer.jnt_stiffness[1:] = PAD_DAMPING, PAD_STIFFNESS
        peer.qpos_spring[:] = start
        data = mujoco.MjData(peer)
        data.qpos[:] = start
        mujoco.mj_step(peer, data, nstep=200)
        peers[f"{cone.lower()} {solver}"] = (rollout.rollout, peer, data, *_rows(peer, data, 4))
    times = measure({"ours": ours, **peers}, duration=duration)
    fastest = min(peers, key=lambda name: times[name].minimum)
    summary = settled.contact_summary()
    return Figure(
        f"aquarobot standing, {len(model.contacts)} points, {PAD_SIZE} cases, one thread",
        times["ours"].per(STEPS * PAD_SIZE),
        f"mujoco.rollout, {fastest}",
        times[fastest].per(STEPS * 4),
        4.0,
        8.0,
        note=f"largest depth {summary.depth.max():.1e} m, residual {summary.residual:.1e}",
    )


CURRENT = (0.0, 0.3, 0.0)
"""Velocity of the water around `aquarobot` [m/s]."""

SEA_STEPS = 10000
"""Steps of one call of the robot in the sea."""

REAL_TIME = 100.0
"""How many times faster than time itself one robot in the sea must run."""


def _in_current(duration: float) -> Iterator[Figure]:
    """Measure one `aquarobot` that stands on the sea floor in a current, and one that walks."""
    import numpy as np

    import tiburon as tb
    from tiburon.control.gait import gait_control
    from tiburon.demos.walk import aquarobot_gait

    model = tb.load("aquarobot").without_limits()
    stand = np.array(model.poses["stand"])
    gait = aquarobot_gait()
    gains = (30_000.0, 1500.0)
    controls = {
        "standing": _held_hinges(model, stand, *gains),
        "walking": gait_control(model, stand, gait, *gains, ramp=1.0, heading=1.0),
    }
    sea = tb.Water(1025.0, current=CURRENT)
    ground = tb.Ground(static_friction=0.7, kinetic_friction=0.6)
    world = tb.World(gravity=(0.0, 0.0, -GRAVITY), ground=ground, fluid=sea)
    points = len(model.contacts)
    volume = sum(body.fluid.volume for body in model.bodies if body.fluid is not None)
    weight = GRAVITY * (sum(body.inertia.mass for body in model.bodies) - 1025.0 * volume)
    for name, control in controls.items():
        must = STEP / REAL_TIME if name == "standing" else None
        options = {
            "world": world,
            "control": control,
            "contact": tb.RigidContact(),
            "method": tb.RK4(dt=STEP),
        }
        options |= {
            "method": tb.SemiImplicitEuler(dt=STEP),
            "execution": tb.Execution(progress=False),
        }
        settled = tb.simulate(model, 3.0, q=stand, record=tb.Record(every=10), **options)
        forces = settled.z[-200:, : 4 * points].reshape(200, points, 4)[..., 2]
        carried = forces.sum(axis=1).mean()
        # a walker is not in equilibrium
        if abs(carried - weight) > (WEIGHT if must else 0.1) * weight:
            raise MeasurementError(f"pads carry {carried:.4g} N of {weight:.4g} N in water")
        here = tb.contacts(model, settled.q[[100, -1]], world=world)
        slid = np.linalg.norm((here.point[1] - here.point[0])[:, :2], axis=1).max()
        summary = settled.contact_summary()

        def ours(q: Any = settled.q[-1], v: Any = settled.v[-1], options: Any = options) -> Any:
            return tb.simulate(
                model,
                SEA_STEPS * STEP,
                q=q,
                v=v,
                record=tb.Record(every=SEA_STEPS),
                time=3.0,
                **options,
            )

        times = measure({"ours": ours}, duration=duration)["ours"].per(SEA_STEPS)
        moved = f"pads slide {1e3 * slid:.1e} mm from 1 to 3 s"
        if must is None:
            moved = f"walks {settled.q[-1, 4] - settled.q[0, 4]:.2f} m in 3 s"
        yield Figure(
            f"aquarobot {name} in a current of {CURRENT[1]:g} m/s, one robot",
            times,
            must=must,
            note=f"{STEP / times.minimum:.0f} times real time; pads carry {carried:.0f} N, sink "
            f"{summary.depth.max():.1e} m; {moved}; residual {summary.residual:.1e}",
        )


def _rows(peer: Any, data: Any, count: int) -> tuple[Any, Any]:
    """Return initial states of some cases and commands of all steps for a rollout."""
    import mujoco
    import numpy as np

    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    rows = np.zeros((count, mujoco.mj_stateSize(peer, kind)))
    for row in rows:
        mujoco.mj_getState(peer, data, row, kind)
    return rows, np.zeros((count, STEPS, peer.nu))


BOXES, SIDE = 10, 0.2
"""Boxes of a stack, and their side [m]."""


def _stack(duration: float) -> Figure:
    """Measure a stack of boxes at rest, each a little beside the one below."""
    import mujoco
    import numpy as np
    from mujoco import rollout

    import tiburon as tb

    material = tb.ContactMaterial(static_friction=FRICTION, kinetic_friction=FRICTION)
    shape = tb.Shape(tb.BoxShape((SIDE, SIDE, SIDE)), material=material)
    inertia = tb.Inertia.box(1.0, (SIDE, SIDE, SIDE))
    names = [f"box{k}" for k in range(BOXES)]
    bodies = [
        tb.Body(name, joint=tb.Free(name), inertia=inertia, shapes=(shape,)) for name in names
    ]
    model = tb.Model("stack", bodies)
    places = [(3e-3 * (-1) ** k, 2e-3 * (-1) ** (k // 2), SIDE * (k + 0.5)) for k in range(BOXES)]
    q = np.concatenate([(1.0, 0.0, 0.0, 0.0, *place) for place in places])
    ground = tb.Ground(static_friction=FRICTION)
    options: dict[str, Any] = {
        "world": tb.World(gravity=(0.0, 0.0, -GRAVITY), ground=ground),
        "contact": tb.DefaultContact(pairs=[*itertools.pairwise(names), (names[0], "world")]),
        "method": tb.SemiImplicitEuler(dt=STEP),
        "execution": tb.Execution(progress=False),
    }
    settled = tb.simulate(model, 0.5, q=q, record=tb.Record(dt=0.5), **options)
    sunk = float(np.abs(settled.q[-1] - q)[6::7].max())
    if sunk > 1e-8:
        raise MeasurementError(f"our stack sinks {sunk:.2g} m")

    def ours() -> Any:
        return tb.simulate(
            model,
            100 * STEP,
            q=settled.q[-1],
            v=settled.v[-1],
            record=tb.Record(every=100),
            **options,
        )

    peers, sinks = {}, {}
    for cone, solver in SETTINGS:
        spec = mujoco.MjSpec()
        spec.option.timestep, spec.option.gravity = STEP, [0.0, 0.0, -GRAVITY]
        spec.option.cone = getattr(mujoco.mjtCone, f"mjCONE_{cone}")
        spec.option.solver = getattr(mujoco.mjtSolver, f"mjSOL_{solver}")
        surface = {"friction": [FRICTION, 0.005, 0.0001], "condim": 3}
        plane, cube = mujoco.mjtGeom.mjGEOM_PLANE, mujoco.mjtGeom.mjGEOM_BOX
        spec.worldbody.add_geom(type=plane, size=[5, 5, 1], **surface)
        for place in places:
            made = spec.worldbody.add_body(pos=list(place))
            made.add_freejoint()
            made.add_geom(type=cube, size=[SIDE / 2] * 3, mass=1.0, **surface)
        peer = spec.compile()
        data = mujoco.MjData(peer)
        mujoco.mj_step(peer, data, nstep=1000)
        name = f"{cone.lower()} {solver}"
        sinks[name] = places[-1][2] - data.qpos[-5]
        peers[name] = (rollout.rollout, peer, data, *_rows(peer, data, 1))
    times = measure({"ours": ours, **peers}, duration=duration)
    fastest = min(peers, key=lambda name: times[name].minimum)
    return Figure(
        f"stack of {BOXES} boxes at rest, one case",
        times["ours"].per(100),
        f"mujoco.rollout, {fastest}",
        times[fastest].per(STEPS),
        1.0 / 3.0,
        1.0,
        note=f"boxes sink {sunk:.1e} m, MuJoCo's top {1e3 * sinks[fastest]:.2g} mm",
    )


MEASUREMENT = Measurement("contact", "Rigid contact with friction, time of a step", run, place=18)
