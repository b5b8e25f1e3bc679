"""Robots without control fall onto the ground: many contacts that slide, of light links."""

import numpy as np
import pytest

import tiburon as tb

trimesh = pytest.importorskip("trimesh")

FLOOR = tb.World(ground=tb.Ground(static_friction=0.8))
POSES = 4


def at(*translation):
    return tb.Pose(translation=translation)


def hulls(folder):
    """Return a ball of 162 vertices and a rod of 24, whose corners are millimeters apart."""
    solids = {
        "ball": trimesh.creation.icosphere(subdivisions=2, radius=0.02),
        "rod": trimesh.creation.cylinder(radius=0.02, height=0.2, sections=12),
    }
    for name, solid in solids.items():
        solid.export(folder / f"{name}.obj")
    return [tb.MeshShape(str(folder / f"{name}.obj")) for name in solids]


def trunk(mass, size):
    shapes = (tb.Shape(tb.BoxShape(size)),)
    return tb.Body(
        "trunk", joint=tb.Free("trunk"), inertia=tb.Inertia.box(mass, size), shapes=shapes
    )


def quadruped(folder):
    """Return four legs of hulls with faceted balls as feet; a shank weighs 1 / 80 of the trunk."""
    ball, rod = hulls(folder)
    bodies = [trunk(8.0, (0.4, 0.2, 0.1))]
    for k, (x, y) in enumerate([(x, y) for x in (0.18, -0.18) for y in (0.14, -0.14)]):
        hip, thigh, shank = (f"{part}{k}" for part in ("hip", "thigh", "shank"))
        limb = tb.Shape(rod, pose=at(0, 0, -0.1))
        foot = tb.Shape(ball, pose=at(0, 0, -0.2))
        down = (0, 0, -0.1)
        bodies += [
            tb.Body(
                hip,
                "trunk",
                joint=tb.Revolute(hip, (1, 0, 0), pose=at(x, y, 0)),
                inertia=tb.Inertia(0.4, (0, 0, 0), 4e-4 * np.eye(3)),
            ),
            tb.Body(
                thigh,
                hip,
                joint=tb.Revolute(thigh, (0, 1, 0)),
                inertia=tb.Inertia(0.6, down, np.diag([2e-3, 2e-3, 1e-4])),
                shapes=(limb,),
            ),
            tb.Body(
                shank,
                thigh,
                joint=tb.Revolute(shank, (0, 1, 0), pose=at(0, 0, -0.2)),
                inertia=tb.Inertia(0.1, down, np.diag([4e-4, 4e-4, 1e-5])),
                shapes=(limb, foot),
            ),
        ]
    return tb.Model("quadruped", bodies)


def tree(folder, links, seed):
    """Return a random tree of rods and boxes of 20 g to 2 kg on a trunk."""
    ball, rod = hulls(folder)
    rng = np.random.default_rng(seed)
    bodies = [trunk(3.0, (0.3, 0.2, 0.1))]
    for k in range(links):
        parent = bodies[rng.integers(0, k + 1)].name
        mass = 10.0 ** rng.uniform(-1.7, 0.3)
        shape = (tb.BoxShape((0.05, 0.04, 0.2)), rod, ball)[k % 3]
        axis = rng.normal(size=3)
        joint = tb.Revolute(
            f"joint{k}", tuple(axis / np.linalg.norm(axis)), pose=at(*rng.uniform(-0.15, 0.15, 3))
        )
        inertia = tb.Inertia(mass, (0, 0, -0.1), mass * np.diag([4e-3, 4e-3, 1e-3]))
        shapes = (tb.Shape(shape, pose=at(0, 0, -0.1)),)
        bodies.append(tb.Body(f"link{k}", parent, joint=joint, inertia=inertia, shapes=shapes))
    return tb.Model("tree", bodies)


@pytest.mark.parametrize("robot", ["quadruped", "tree of 8", "tree of 12"])
def test_limp_robots_fall_with_all_steps_solved(robot, tmp_path):
    """To the tolerance, by one solution of each method at most; contact adds no energy."""
    if robot == "quadruped":
        model = quadruped(tmp_path)
    else:
        links = int(robot.split()[-1])
        model = tree(tmp_path, links, seed=links)
    rng = np.random.default_rng(0)
    q = np.tile(model.neutral(), (POSES, 1))
    q[:, 1:4] = rng.normal(0.0, 0.2, (POSES, 3))
    q[:, :4] /= np.linalg.norm(q[:, :4], axis=1, keepdims=True)
    q[:, 7:] = rng.uniform(-1.0, 1.0, (POSES, model.nq - 7))
    gaps = tb.contacts(model, q, world=FLOOR).gap
    q[:, 6] += 0.01 - gaps.min(axis=1)
    run = tb.simulate(model, 0.4, q=q, world=FLOOR, record=tb.Record(every=1))
    assert [str(outcome) for outcome in run.outcomes] == ["finished at 0.4 s"] * POSES
    own = run.z[..., 4 * gaps.shape[1] :]
    assert own[..., 0].max() <= 1e-8
    assert own[..., 1].max() <= 500
    # where something lands, forces of the last step are no exact guess of those of this one
    energy = run.get("total_energy").values
    kinetic = (energy - energy.min(axis=0)).max(axis=0)
    assert np.all(np.diff(energy, axis=0) < 1e-4 * kinetic)


KNEES = """<mujoco><option timestep="0.005"/><worldbody><geom type="plane" size="9 9 .1"/>
<body name="trunk" pos="0 0 0.5"><freejoint/>
<geom type="box" size="0.15 0.1 0.05" mass="8"/>
{legs}</body></worldbody></mujoco>"""

LEG = """<body pos="{x} {y} 0">
<joint name="hip{k}" axis="0 1 0" range="-20 20" limited="true"/>
<geom type="capsule" fromto="0 0 0 {lean} 0 -0.2" size="0.03" mass="1"/>
<body pos="{lean} 0 -0.2"><joint name="knee{k}" axis="0 1 0" range="-40 2" limited="true"/>
<geom type="capsule" fromto="0 0 0 -{lean} 0 -0.2" size="0.03" mass="0.5"/></body></body>
"""


def test_a_robot_rests_on_its_stops_and_its_contacts(tmp_path):
    """Stops that the last step closed do not land: no step of 5 ms begins without their forces."""
    legs = [
        LEG.format(k=k, x=x, y=y, lean=0.05)
        for k, (x, y) in enumerate([(x, y) for x in (0.12, -0.12) for y in (0.12, -0.12)])
    ]
    path = tmp_path / "knees.xml"
    path.write_text(KNEES.format(legs="".join(legs)))
    model, world = tb.load(path), tb.load_world(path)
    run = tb.simulate(model, 6.0, world=world, method=tb.RK4(dt=5e-3), record=tb.Record(every=1))
    names = list(run.header.column("z").labels)
    z = run.z[-200:]
    stops = [k for k, name in enumerate(names) if name.endswith("stop_force")]
    assert (np.abs(z[-1, stops]) > 0.1).any()
    assert z[-1, names.index("contact.acting")] == 2.0
    assert np.abs(np.diff(run.q[-200:], axis=0)).max() < 1e-9
    assert z[:, names.index("contact.iterations")].max() <= 2
