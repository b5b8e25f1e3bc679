"""Worlds in native files: what is written is read, and what is wrong is named."""

import pytest

import tiburon as tb
from tiburon.formats.native_write import native_text

BALL = tb.Model("ball", [tb.Body("b", joint=tb.Free("f"), inertia=tb.Inertia.sphere(1.0, 0.1))])

WORLDS = [
    tb.World(),
    tb.World(gravity=(1.0, 0.0, -9.0), ground=tb.Ground(0.3, static_friction=0.5)),
    tb.World(ground=tb.Ground(contact_bits=(3, 4), friction_rule="larger")),
    tb.World(
        ground=tb.Ground(
            grid=tb.GroundGrid((0.5, 0.25), ((0.0, 0.1, 0.2), (0.3, -0.1, 0.0)), (1.0, -2.0), True),
            static_friction=0.8,
            kinetic_friction=0.6,
            restitution=0.25,
            normal_stiffness=1e5,
            normal_damping=300.0,
        )
    ),
    tb.World(
        ground=tb.Ground(
            static_friction=0.8,
            patches=(
                tb.GroundPatch("ice", (0.0, 0.0), (1.0, 2.0), tb.ContactMaterial(0.05, 0.02)),
            ),
        )
    ),
    tb.World(fluid=tb.Water(1000.0, (0.1, 0.0, -0.2), viscosity=1e-3, surface=2.0)),
]


@pytest.mark.parametrize("world", WORLDS)
def test_worlds_round_trip(world, tmp_path):
    path = tmp_path / "ball.toml"
    assert tb.save(BALL, path, world=world) == ()
    assert tb.load_world(path) == world
    assert tb.load(path) == BALL


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[world]\ngravty = [0, 0, -9]", r"line \d+.*unknown key 'gravty'.*gravity"),
        ("[world.ground]\nstatic_friction = -1", "static_friction must be at least 0"),
        ("[world.ground]\nmu = 1", "unknown key 'mu'"),
        ("[world.ground.grid]\nspacing = [1, 1]", "expected the key 'heights'"),
        ("[world.water]\ndensity = 'salt'", "density must be a number"),
        ("world = 3", "world must be a table"),
    ],
)
def test_wrong_worlds_are_refused_where_robot_or_world_is_loaded(text, message, tmp_path):
    path = tmp_path / "ball.toml"
    before, after = ("", f"\n{text}\n") if text.startswith("[") else (f"{text}\n", "")
    path.write_text(before + native_text(BALL) + after)
    with pytest.raises(tb.ModelFileError, match=message):
        tb.load(path)
    with pytest.raises(tb.ModelFileError, match=message):
        tb.load_world(path)


def test_robots_without_a_world_raise_an_error(tmp_path):
    with pytest.raises(tb.ModelFileError, match=r"no table \[world\]"):
        tb.load_world("panda")
    with pytest.raises(tb.ModelFileError, match="has no world"):
        tb.load_world("chain_10")
    with pytest.raises(tb.ModelFileError, match="did you mean 'block_slope'"):
        tb.load_world("block_slop")


def test_data_that_a_file_cannot_hold_are_reported(tmp_path):
    shear = tb.World(fluid=tb.Water(current=lambda t, p: (0.1 * p[2], 0.0, 0.0)))
    with pytest.raises(tb.ModelError, match="constant current"):
        tb.save(BALL, tmp_path / "ball.toml", world=shear)
    (loss,) = tb.save(tb.load("double_pendulum"), tmp_path / "arm.urdf", world=tb.World())[-1:]
    assert "world is left out" in loss
