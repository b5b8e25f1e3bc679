"""Good values for the arguments of public callables, by name, for the probe of wrong ones."""

import math
import tempfile
from collections.abc import Callable
from functools import cache
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np

import tiburon as tb


@cache
def arm() -> tb.Model:
    """Two wet links with thruster, fin and actuators, small enough to compile at once."""
    fluid = tb.BodyFluid(
        0.01,
        (0.0, 0.0, 0.02),
        np.diag([0.1, 0.2, 0.2, 1.0, 2.0, 2.0]),
        (tb.CylinderDrag(0.05, 0.4),),
        fins=(tb.Fin(0.02, 3.0, deflection=0.1, name="rudder"),),
    )
    inertia = tb.Inertia(5.0, (0.1, 0.0, 0.05), (0.2, 0.3, 0.4))
    limits = tb.JointLimits(-3.0, 3.0)
    hull = tb.Body("hull", joint=tb.Free("base"), inertia=inertia, fluid=fluid)
    arm = tb.Body(
        "arm",
        "hull",
        joint=tb.Revolute("elbow", (0.0, 1.0, 0.0), limits=limits),
        inertia=inertia,
        fluid=tb.BodyFluid(0.002),
        shapes=(tb.Shape(tb.SphereShape(0.1)),),
    )
    return tb.Model(
        "probe",
        (hull, arm),
        (tb.Frame("tip", "arm", tb.Pose(translation=(0.3, 0.0, 0.1))),),
        thrusters=(tb.Thruster("main", "hull"),),
        actuators=(tb.Actuator("motor", "elbow"),),
    )


def _weight(model: tb.Model) -> np.ndarray:
    """Joint forces of a robot at rest: a function without arrays."""
    return tb.gravity_force(model, np.array(model.neutral()))


@cache
def linkage() -> tb.Model:
    """A four-bar linkage, for functions that need a loop."""
    return tb.load("four_bar")


@cache
def _chain() -> tb.Model:
    return tb.Model.from_dh("chain", _links(), convention="modified")


def _links() -> list[tb.DHLink]:
    inertia = tb.Inertia(1.0, (0.2, 0.0, 0.0), (0.1, 0.1, 0.1))
    return [tb.DHLink(a=0.3, alpha=1.0, inertia=inertia) for _ in range(2)]


PANDA = (0.0, 0.3, 0.0, -1.8, 0.0, 2.0, 0.8, 0.02)
"""A bent position of the arm with the gripper a little open."""


@cache
def _reachable() -> tb.CartesianPath:
    """A short way of the arm's hand, its orientation left free."""
    _, p = tb.forward_kinematics(tb.load("panda"), PANDA, ["hand"])
    start = np.asarray(p).reshape(-1)[:3]
    return tb.CartesianPath.through((0, 1), [start, start + np.array([0.01, 0.0, 0.0])])


@cache
def _bent() -> Any:
    model = linkage()
    return tb.assemble(model, hold={model.moving_joint_names[0]: 0.5}).q


def _ground() -> tb.World:
    return tb.World(ground=tb.Ground(height=-5.0))


@cache
def _state() -> Any:
    """A state of a robot whose loop can be switched, as an event's action sees it."""
    seen = []
    loop = linkage().loops[0].name
    watch = tb.TimeEvent("look", 0.002, action=seen.append)
    switch = tb.LoopSwitch("switch", loop)
    tb.simulate(
        linkage(),
        0.004,
        elements=(switch,),
        events=(watch,),
        execution=tb.Execution(progress=False),
    )
    return seen[0]


@cache
def _run() -> tb.Trajectory:
    return tb.simulate(arm(), 0.01, execution=tb.Execution(progress=False))


def _sweep(path: Path) -> None:
    tb.sweep(arm(), 0.01, design={"hull.mass": [5.0, 6.0]}, store=path, workers=0)


MEASURED = """time,qw,qx,qy,qz,wx,wy,wz,elbow
0.0,1,0,0,0,0,0,0,0.1
0.02,1,0,0,0,0,0,0,0.1
0.04,1,0,0,0,0,0,0,0.1
"""
"""A short measured run."""


@cache
def _measured() -> tb.MeasuredRun:
    return tb.load_measured(_file("measured.csv", lambda p: p.write_text(MEASURED)))


@cache
def _kernel() -> Any:
    return tb.compile(tb.mass_matrix, _chain())


@cache
def _folder() -> Path:
    return Path(tempfile.mkdtemp(prefix="tiburon-probe-"))


def _file(name: str, write: Callable[[Path], Any]) -> Path:
    path = _folder() / name
    if not path.exists():
        write(path)
    return path


HOME = (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.2)
"""Pose of the platform of the cable robot."""


@cache
def _standing() -> tb.Model:
    """Return a body with a foot."""
    body = tb.Body("body", joint=tb.Free("base"), inertia=tb.Inertia.box(1.0, (1, 1, 1)))
    return tb.Model("standing", [body], contacts=[tb.ContactPoint("foot", "body")])


@cache
def _dog_plan() -> tb.LoadSharing:
    return tb.LoadSharing.of(tb.load("quadruped"))


@cache
def _rov() -> tb.Model:
    return tb.load("bluerov2_heavy")


def _obj() -> str:
    corners, faces = _cube()
    lines = [f"v {x} {y} {z}" for x, y, z in corners]
    return "\n".join([*lines, *(f"f {a + 1} {b + 1} {c + 1}" for a, b, c in faces)])


def _cube() -> Any:
    corners = [(x, y, z) for x in (0.0, 1.0) for y in (0.0, 1.0) for z in (0.0, 1.0)]
    faces = [
        *((0, 1, 3), (0, 3, 2), (4, 6, 7), (4, 7, 5), (0, 4, 5), (0, 5, 1)),
        *((2, 3, 7), (2, 7, 6), (0, 2, 6), (0, 6, 4), (1, 5, 7), (1, 7, 3)),
    ]
    return corners, faces


IDENTITY = np.eye(3)
SIX = np.eye(6)

SAMPLES: dict[str, Callable[[tb.Model], Any]] = {
    # robots and states
    "model": lambda m: m,
    "other": lambda m: m.bodies[0].name,
    "q": lambda m: m.neutral(),
    "v": lambda m: np.full(m.nv, 0.1),
    "tau": lambda m: np.zeros(m.nv),
    "vd": lambda m: np.zeros(m.nv),
    "x": lambda m: np.arange(6.0),
    "known_acceleration": lambda m: np.zeros(m.nv, dtype=bool),
    "world": lambda m: tb.World(),
    "fluid": lambda m: tb.Water(),
    "frame": lambda m: m.bodies[-1].name,
    "contacts": lambda m: ("foot",),
    "frames": lambda m: [m.bodies[-1].name],
    "first": lambda m: m.bodies[0].name,
    "second": lambda m: m.bodies[-1].name,
    "body": lambda m: m.bodies[0].name,
    "loop": lambda m: m.loops[0].name,
    "joints": lambda m: [m.moving_joint_names[-1]],
    "targets": lambda m: tb.FrameTarget("tip", position=(0.2, 0.0, 0.1)),
    "deflections": lambda m: [0.1],
    "commands": lambda m: np.zeros(len(m.thrusters)),
    "thrust": lambda m: np.zeros(len(m.thrusters)),
    "run": lambda m: _run(),
    "kernel": lambda m: _kernel(),
    "rotation": lambda m: IDENTITY,
    "motion": lambda m: np.arange(6.0),
    "wrench": lambda m: np.arange(6.0),
    "matrix": lambda m: SIX,
    "shapes": lambda m: [tb.Shape(tb.SphereShape(0.1))],
    "mesh": lambda m: tb.Mesh(*_cube()),
    # numbers
    "duration": lambda m: 0.005,
    "dt": lambda m: 1e-3,
    "steps": lambda m: 3,
    "time": lambda m: 0.1,
    "length": lambda m: 1.0,
    "segments": lambda m: 2,
    "youngs_modulus": lambda m: 7e10,
    "density": lambda m: 1000.0,
    "ratio": lambda m: 2.0,
    "mass": lambda m: 1.0,
    "inertia": lambda m: 0.1,
    "radius": lambda m: 0.1,
    "weight": lambda m: 2.0,
    "row": lambda m: {0: 1.0},
    "radii": lambda m: (0.1, 0.2, 0.3),
    "size": lambda m: (1.0, 2.0, 3.0),
    "amplitude": lambda m: (0.1, 0.0, 0.0),
    "frequency": lambda m: 1.0,
    "period": lambda m: 8.0,
    "height": lambda m: 1.0,
    "depth": lambda m: 10.0,
    "surface_speed": lambda m: (1.0, 0.0, 0.0),
    "target": lambda m: 0.0,
    "stiffness": lambda m: 1.0,
    "damping": lambda m: 1.0,
    "alpha": lambda m: 10.0,
    "beta": lambda m: 10.0,
    "integral": lambda m: 1.0,
    "resistance": lambda m: 1.0,
    "torque_constant": lambda m: 0.1,
    "forward": lambda m: 1.0,
    "coefficients": lambda m: (0.0, 1.0),
    "quaternion": lambda m: (1.0, 0.0, 0.0, 0.0),
    "rpy": lambda m: (0.1, 0.2, 0.3),
    "times": lambda m: (0.0, 1.0, 2.0),
    "positions": lambda m: POINTS,
    "points": lambda m: (0.0, 1.0, 0.0),
    "speed": lambda m: 1.0,
    "acceleration": lambda m: 1.0,
    # names
    "name": lambda m: "sample",
    "joint": lambda m: m.moving_joint_names[-1],
    "housing": lambda m: "arm",
    "drives": lambda m: "elbow",
    # files
    "source": lambda m: "four_bar",
    "path": lambda m: _folder() / "saved.toml",
}
"""Good values by the name of an argument; each is made for the robot of the call."""

POINTS = ((0.0, 0.0, 0.0), (1.0, 0.0, 0.0), (1.0, 1.0, 0.0))

OWN: dict[str, dict[str, Callable[[tb.Model], Any]]] = {
    "BeamSection": {
        "area": lambda m: 1e-4,
        "second_moment_y": lambda m: 1e-9,
        "second_moment_z": lambda m: 1e-9,
        "torsion_constant": lambda m: 1e-9,
    },
    "BeamSection.rectangle": {"width": lambda m: 0.1, "height": lambda m: 0.01},
    "Body": {"joint": lambda m: tb.Revolute("hinge")},
    "CartesianPath": {"positions": lambda m: tb.CartesianPath.through((0, 1, 2), POINTS).positions},
    "CombinedControl": {"parts": lambda m: (tb.PD(0.0, 1.0, 1.0), tb.GravityCompensation())},
    "ConstraintFunction": {"function": lambda m: lambda q: q[0], "joints": lambda m: ("elbow",)},
    "Coupled": {"moves": lambda m: tb.Revolute("inner"), "leader": lambda m: "elbow"},
    "CurrentSum": {"parts": lambda m: (tb.UniformCurrent((1.0, 0.0, 0.0)),)},
    "Drive": {"model": lambda m: linkage()},
    "Event": {"expression": lambda m: lambda state: state.time - 1.0},
    "Fin": {"area": lambda m: 0.1, "aspect_ratio": lambda m: 3.0},
    "FrameTarget": {"position": lambda m: (0.2, 0.0, 0.1)},
    "ForceFunction": {"function": lambda m: lambda moment: {}},
    "GroundPatch": {
        "lower": lambda m: (0.0, 0.0),
        "upper": lambda m: (1.0, 1.0),
        "material": lambda m: tb.ContactMaterial(),
    },
    "GripLimit": {
        "loop": lambda m: "pin",
        "normal": lambda m: (0.0, 0.0, 1.0),
        "friction": lambda m: 0.5,
    },
    "GroundGrid": {"spacing": lambda m: (1.0, 1.0), "heights": lambda m: np.zeros((3, 3))},
    "export_fmu": {"model": lambda m: m, "path": lambda m: _folder() / "robot.fmu"},
    "build_library": {"kernel": lambda m: _kernel(), "path": lambda m: _folder() / "library"},
    "to_casadi": {"function": lambda m: tb.forward_dynamics, "model": lambda m: m},
    "to_jax": {"function": lambda m: tb.forward_dynamics, "model": lambda m: m},
    "to_torch": {"function": lambda m: tb.forward_dynamics, "model": lambda m: m},
    "hunt_crossley_dissipation": {"restitution": lambda m: 0.5},
    "Harmonic": {"amplitude": lambda m: 0.1},
    "HydraulicCylinder": {"joint": lambda m: "elbow"},
    "JointCoupling": {"leader": lambda m: m.moving_joint_names[0]},
    "JointForceSchedule": {"forces": lambda m: [0.0, 1.0, 0.0]},
    "JointPath": {"pieces": lambda m: tb.JointPath.through((0, 1, 2), (0, 1, 0)).pieces},
    "JointPath.along": {
        "path": lambda m: _reachable(),
        "model": lambda m: tb.load("panda"),
        "frame": lambda m: "hand",
        "q": lambda m: PANDA,
    },
    "JointStop": {"dof_index": lambda m: 0, "lower": lambda m: -1.0, "upper": lambda m: 1.0},
    "JointStops": {"stops": lambda m: tb.JointStops.of(m).stops},
    "ContactSite": {"friction": lambda m: 0.5, "half_size": lambda m: (0.1, 0.05)},
    "Cable": {"tension_limits": lambda m: (1.0, 50.0)},
    "CableControl.of": {"model": lambda m: tb.load("cable_robot"), "target": lambda m: HOME},
    "CableControl": {
        "plan": lambda m: tb.LoadSharing.of(tb.load("cable_robot"), relax=True),
        "target": lambda m: HOME,
        "joint": lambda m: "platform",
    },
    "cable_tensions": {"model": lambda m: tb.load("cable_robot"), "q": lambda m: HOME},
    "structure_matrix": {"model": lambda m: tb.load("cable_robot"), "q": lambda m: HOME},
    "JointWrenchLimit": {"moment": lambda m: 5.0, "force": lambda m: 100.0},
    "StrainEnergy": {"compliance": lambda m: {"foot": (1e-5, 1e-5, 1e-5)}},
    "BendingEnergy": {"links": lambda m: {"knee": ((0.0, 0.0, -0.2), 30.0)}},
    "JointWrenchNorm": {"joints": lambda m: ("knee",)},
    "NormalForceLimit": {"forces": lambda m: {"foot": (0.0, 10.0)}},
    "LoopClosure": {"joint": lambda m: tb.Revolute("closing")},
    "Mesh": {"vertices": lambda m: _cube()[0], "faces": lambda m: _cube()[1]},
    "MeshShape": {"path": lambda m: "hull.stl"},
    "Model": {"bodies": lambda m: m.bodies},
    "Model.from_dh": {"links": lambda m: _links(), "convention": lambda m: "modified"},
    "Pose.from_axis_angle": {"axis": lambda m: (0.0, 0.0, 1.0), "angle": lambda m: 0.3},
    "Sampled": {"controller": lambda m: tb.GravityCompensation()},
    "Replay": {"names": lambda m: ("elbow",), "rows": lambda m: np.zeros((3, 1))},
    "Replay.from_csv": {"file": lambda m: _file("log.csv", lambda p: p.write_text(LOG))},
    "Replay.of": {"names": lambda m: ("elbow",), "commands": lambda m: np.zeros((3, 1))},
    "Shape": {"geometry": lambda m: tb.SphereShape(0.1)},
    "StationKeeping": {
        "target": lambda m: tb.Pose(),
        "inertia": lambda m: tb.StationKeeping.of(_rov(), frequency=1.0).inertia,
        "allocation": lambda m: tb.ThrusterAllocation.of(_rov()),
    },
    "StationKeeping.of": {"model": lambda m: _rov()},
    "StickSlip": {"friction": lambda m: 0.2},
    "TableCurrent": {"speeds": lambda m: np.zeros((3, 3))},
    "TableFoil": {
        "angles": lambda m: (-math.pi, 0.0, math.pi),
        "lift": lambda m: (0.0, 0.0, 0.0),
        "drag": lambda m: (1.0, 0.0, 1.0),
    },
    "TableThrust": {"commands": lambda m: (-1.0, 0.0, 1.0), "forces": lambda m: (-1.0, 0.0, 1.0)},
    "TendonCoupling": {"arms": lambda m: (0.1,)},
    "ThrusterAllocation": {
        "thrusters": lambda m: ("main",),
        "matrix": lambda m: np.eye(6)[:, :1],
        "limits": lambda m: ((-1.0, 1.0),),
        "costs": lambda m: (1.0,),
    },
    "Waves": {"trains": lambda m: (tb.Wave(1.0, 8.0),)},
    "WrenchSchedule": {"wrenches": lambda m: np.zeros((3, 6))},
    "assembly_branches": {
        "hold": lambda m: {m.moving_joint_names[0]: 0.5},
        "starts": lambda m: 32,
        "patience": lambda m: 16,
    },
    "check_model": {"motion": lambda m: False},
    "compile": {"function": lambda m: tb.mass_matrix, "model": lambda m: m},
    "share_free_motion": {
        "plan": lambda m: tb.LoadSharing.of(tb.load("five_bar"), torque_limits=False),
        "q": lambda m: tb.load("five_bar").poses["home"],
        "v": lambda m: np.zeros(4),
        "vd": lambda m: np.zeros(4),
        "motions": lambda m: np.ones((1, 4)),
    },
    "gait_mobility": {
        "model": lambda m: _standing(),
        "q": lambda m: _standing().neutral(),
        "phases": lambda m: [["foot"], []],
    },
    "LoadSharingControl": {
        "plan": lambda m: _dog_plan(),
        "path": lambda m: _dog_plan().model.poses["stand"],
    },
    "MotionPath": {"posture": lambda m: (0.0, 0.1)},
    "LoadTarget": {"forces": lambda m: {"foot": (0.0, 0.0, 10.0)}},
    "share_load": {
        "model": lambda m: tb.load("quadruped"),
        "q": lambda m: tb.load("quadruped").poses["stand"],
    },
    "balance_frame": {
        "model": lambda m: linkage(),
        "q": lambda m: _bent(),
        "v": lambda m: np.zeros(linkage().nv),
        "vd": lambda m: np.zeros(linkage().nv),
    },
    "drive_cut_joint": {"model": lambda m: linkage(), "loop": lambda m: linkage().loops[0].name},
    "driven_cut_state": {
        "model": lambda m: linkage(),
        "other": lambda m: tb.drive_cut_joint(linkage(), linkage().loops[0].name),
        "q": lambda m: _bent(),
        "v": lambda m: np.zeros(linkage().nv),
        "vd": lambda m: np.zeros(linkage().nv),
    },
    "motor_power": {
        "model": lambda m: tb.load("two_pumas"),
        "v": lambda m: np.zeros(18),
        "vd": lambda m: np.zeros(18),
        "tau": lambda m: np.zeros(18),
    },
    "performance_indices": {
        "time": lambda m: (0.0, 1.0),
        "internal_force": lambda m: (1.0, 1.0),
        "force_at_least_power": lambda m: (2.0, 2.0),
        "internal_power": lambda m: (2.0, 2.0),
        "least_power": lambda m: (1.0, 1.0),
    },
    "contact_dynamics": {"world": lambda m: _ground()},
    "contact_closure": {
        "world": lambda m: _ground(),
        "contact": lambda m: tb.contacts(m, m.neutral(), world=_ground()).names[0],
    },
    "contact_dependence": {"world": lambda m: _ground()},
    "contacts": {"world": lambda m: _ground()},
    "cylinder_flows": {"fluid": lambda m: tb.Water(viscosity=1e-3)},
    "fluid_regressor": {
        "fluid": lambda m: tb.Water(),
        "bodies": lambda m: [m.bodies[-1].name],
    },
    "fin_force": {"fluid": lambda m: tb.Water()},
    "flexible_link": {"section": lambda m: tb.BeamSection.tube(0.1)},
    "from_fossen": {"q": lambda m: tb.to_fossen(m, m.neutral()).q},
    "impact": {"world": lambda m: _ground()},
    "hybrid_dynamics": {"known_acceleration": lambda m: [m.moving_joint_names[-1]]},
    "lift_out": {"world": lambda m: _ground()},
    "latch": {"state": lambda m: _state()},
    "cover_mesh": {
        "mesh": lambda m: tb.MeshShape(
            str(_file("cover.obj", lambda p: p.write_text(_obj()))),
        ),
        "kind": lambda m: "box",
    },
    "cover_meshes": {"kind": lambda m: "box"},
    "contact_pad": {
        "body": lambda m: "arm",
        "outline": lambda m: [(0.0, 0.0), (0.1, 0.0), (0.0, 0.1)],
    },
    "load_mesh": {"path": lambda m: _file("cube.obj", lambda p: p.write_text(_obj()))},
    "load_measured": {"path": lambda m: _file("measured.csv", lambda p: p.write_text(MEASURED))},
    "parameter_derivatives": {
        "kernel": lambda m: tb.compile(_weight, arm(), parameters="elbow.translation"),
        "parameters": lambda m: {"elbow.translation": (0.0, 0.0, 0.1)},
        "by": lambda m: "elbow.translation",
    },
    "calibrate": {
        "model": lambda m: arm(),
        "q": lambda m: np.array(arm().neutral())[None],
        "measured": lambda m: {"tip": np.array([[0.3, 0.0, 0.1]])},
        "free": lambda m: ["elbow.translation"],
    },
    "identify_dynamics": {
        "model": lambda m: arm(),
        "q": lambda m: np.array(arm().neutral())[None],
        **{name: lambda m: np.ones((1, arm().nv)) for name in ("v", "vd", "tau")},
        "free": lambda m: ["hull.mass"],
        "max_iterations": lambda m: 1,
    },
    "with_parameters": {
        "model": lambda m: arm(),
        "parameters": lambda m: {"hull.mass": 5.0},
    },
    "Model.attach": {"other": lambda m: _chain(), "at": lambda m: "hull", "prefix": lambda m: "b_"},
    "Model.replace": {"body": lambda m: "arm", "other": lambda m: _chain()},
    "Model.by_joint": {"values": lambda m: np.zeros(m.nv), "of": lambda m: "v"},
    "Model.joint_array": {"values": lambda m: {"elbow": 0.1}},
    "Model.without": {"body": lambda m: "arm"},
    "MeasuredRun.compare": {
        "run": lambda m: tb.simulate(arm(), 0.3, execution=tb.Execution(progress=False))
    },
    "Trajectory.get": {"name": lambda m: "joint_position"},
    "Trajectory.array": {"key": lambda m: "q"},
    "identify": {
        "model": lambda m: arm(),
        "runs": lambda m: [_measured()],
        "free": lambda m: ["hull.mass"],
        "max_iterations": lambda m: 1,
    },
    "MeasuredRun": {"time": lambda m: np.array([0.0, 0.1, 0.2])},
    "lqr": {
        "model": lambda m: arm(),
        "q": lambda m: np.array(arm().neutral()),
        "v": lambda m: None,
        "Q": lambda m: np.ones(2 * arm().nv),
        "R": lambda m: 1.0,
        "inputs": lambda m: arm().moving_joint_names,
    },
    "load_run": {"path": lambda m: _file("run.zarr", lambda p: _run().save(p))},
    "MPIExchange": {"comm": lambda m: SimpleNamespace(Iallgatherv=None)},
    "partition": {"model": lambda m: arm(), "cuts": lambda m: []},
    "load_sweep": {"path": lambda m: _file("sweep.zarr", _sweep)},
    "sweep": {
        "model": lambda m: arm(),
        "duration": lambda m: 0.01,
        "design": lambda m: {"hull.mass": [5.0, 6.0]},
        "store": lambda m: _folder() / "sweep.zarr",
        "workers": lambda m: 0,
    },
    "load_world": {"source": lambda m: _file("world.xml", lambda p: p.write_text(WORLD))},
    **{
        f"loop_{function}": {
            "model": lambda m: linkage(),
            "q": lambda m: _bent(),
            **{name: lambda m: np.zeros(linkage().nv) for name in ("v", "vd", "tau")},
        }
        for function in ("dynamics", "inverse_dynamics", "reactions")
    },
    "loop_motion": {"model": lambda m: linkage(), "q": lambda m: _bent()},
    "recut_state": {"other": lambda m: tb.recut(m)},
    "joint_actuation": {"joint": lambda m: m.joint(m.moving_joint_names[-1])},
    "traced": {"function": lambda m: lambda x: x},
    "release": {"state": lambda m: _state()},
    "trim": {"fluid": lambda m: tb.Water(), "model": lambda m: _rov()},
    "rotor": {"inertia": lambda m: 0.01},
}
"""Good values where a callable means something else by a name."""

RESULTS = frozenset(
    {
        *("Identification", "LinearQuadraticRegulator"),
        *(
            "LoadShare",
            "LoadSharing",
            "FrameBalance",
            "GaitPath",
            "MotorPower",
            "PerformanceIndices",
            "WrenchMap",
            "Action",
            "ApparentInertia",
            "Assembly",
            "AssemblyBranches",
            "BodyHydrodynamics",
        ),
        *(
            "ProjectedConfiguration",
            "Conditions",
            "CylinderFlow",
            "Delivery",
            "EnergyFlow",
            "Finding",
        ),
        *("ForwardDynamicsDerivatives", "FossenForm", "EventRecord", "InertiaDerivatives"),
        *("InverseDynamicsDerivatives", "InverseKinematics", "InverseKinematicsOutcome"),
        *(
            "ContactLinearization",
            "JointLine",
            "JointValues",
            "Linearization",
            "LoopDynamics",
            "LoopForces",
            "LoopMotion",
        ),
        *(
            "LoopReactions",
            "Mobility",
            "MobilityMap",
            "Mode",
            "ModelCheck",
            "Modes",
            "ElementContext",
            "MotorSet",
        ),
        *("Outcome", "PanelAddedMass", "Parameter", "ParameterTable", "JointActuation", "State"),
        *(
            "StateRecord",
            "CFiles",
            "Stepped",
            "Stepper",
            "StepperState",
            "System",
            "Star",
            "StarArm",
            "Topology",
            "ContactDependence",
            "Contacts",
            "DependentContacts",
            "ContactSummary",
            "DeepestContact",
            "Impact",
            "Touch",
        ),
        *(
            "FreeMotionShare",
            "ContactDynamics",
            "Feathering",
            "PhaseMobility",
            "CableTensions",
        ),
        *(
            "MessageCount",
            "Partition",
            "Study",
            "Trajectory",
            "Trim",
            "TrimOutcome",
            "HydrodynamicEstimate",
        ),
        # bases of users' own classes
        *("Current", "Element", "Path", "Sensor"),
    }
)
"""Classes that users get and do not make."""

QUIET = {"progress": None, "panels": 20}
"""Options that keep calls short."""


LOG = "time,elbow\n0.0,0.0\n1.0,1.0\n"
WORLD = """<mujoco><option gravity="0 0 -9.8"/><worldbody/></mujoco>"""


OPENING = frozenset({"view", "save_video", "carry_out"})
"""Methods that open windows or browsers, or wait for partners."""


def of_joint(joint: tb.Joint) -> dict[str, Callable[[tb.Model], Any]]:
    """Return samples for the methods of a joint."""
    rates = tuple(0.1 * (k + 1) for k in range(joint.nv))
    found: dict[str, Callable[[tb.Model], Any]] = {
        name: lambda m: joint.neutral() for name in ("q", "q0", "q1", "qd")
    }
    found |= {name: lambda m: rates for name in ("v", "dv", "step", "a", "b")}
    return found | {"rng": lambda m: np.random.default_rng(0)}


INSTANCES: dict[str, Callable[[], Any]] = {
    "Drive": cache(lambda: tb.Drive(linkage())),
    "GaitPath": cache(lambda: tb.GaitPath.trot(tb.load("quadruped"))),
    "JointActuation": lambda: tb.joint_actuation(arm().joint("elbow")),
    "LinearQuadraticRegulator": cache(
        lambda: tb.lqr(
            arm(),
            np.array(arm().neutral()),
            None,
            Q=np.ones(2 * arm().nv),
            R=1.0,
            inputs=arm().moving_joint_names,
        )
    ),
    "LoadShare": cache(
        lambda: tb.share_load(tb.load("quadruped"), tb.load("quadruped").poses["stand"])
    ),
    "LoadSharing": _dog_plan,
    "Model": arm,
    "ModelCheck": cache(lambda: tb.check_model(arm(), motion=False)),
    "Modes": cache(lambda: tb.modes(arm(), arm().neutral(), solve=False)),
    "Partition": cache(lambda: tb.partition(arm(), cuts=[])),
    "State": _state,
    "Stepper": cache(lambda: tb.stepper(arm(), method=tb.RK4(dt=0.01))),
    "StepperState": cache(lambda: tb.stepper(arm(), method=tb.RK4(dt=0.01)).start(cases=2)),
    "Study": cache(lambda: tb.load_sweep(_file("sweep.zarr", _sweep))),
    "Topology": cache(lambda: tb.topology(linkage())),
    "Trajectory": _run,
}
"""Instances of classes that users get, and of those that are slow to make."""
