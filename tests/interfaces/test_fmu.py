"""Units of FMI 2.0 and 3.0: validated and run by FMPy, against `simulate` in bits."""

import numpy as np
import pytest

import tiburon as tb
from tiburon.interfaces import c_library, fmu

ARM = tb.load("panda")
DOG = tb.load("quadruped")
FLOOR = tb.World(ground=tb.Ground())
DT = 1e-3


def exported(model, path, **options):
    pytest.importorskip("ziglang", reason="needs ziglang: pip install 'tiburon[fmu]'")
    return pytest.importorskip("fmpy", reason="needs FMPy to run units"), tb.export_fmu(
        model, path, method=tb.RK4(dt=DT), **options
    )


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.0", "3.0"])
@pytest.mark.parametrize(
    ("name", "command", "options"),
    [
        ("panda", {"joint_2": 5.0}, {}),
        ("stewart", {}, {}),
        ("bluerov2_heavy", {"front_left": 5.0}, {"fluid": tb.Water(current=(0.2, 0.0, 0.0))}),
        (
            "quadruped",
            {},
            {
                "world": FLOOR,
                "method": tb.SemiImplicitEuler(dt=DT),
                "q": np.array(DOG.poses["stand"]),
            },
        ),
    ],
)
def test_a_unit_has_the_bits_of_simulate(name, command, options, version, tmp_path):
    model = tb.load(name)
    frame = model.bodies[0].name
    sensors = [tb.PoseSensor("pose", frame, rate=1.0 / DT)]
    if name != "quadruped":
        # rigid contact has no accelerations
        sensors.append(tb.InertialSensor("imu", frame, rate=1.0 / DT))
    fmpy, path = exported(
        model, tmp_path / "robot.fmu", version=version, sensors=sensors, **options
    )
    from fmpy.validation import validate_fmu

    assert validate_fmu(str(path)) == []
    run = tb.simulate(
        model,
        0.1,
        method=tb.RK4(dt=DT),
        command=command or None,
        record=tb.Record(every=10),
        execution=tb.Execution(progress=False),
        sensors=sensors,
        **options,
    )
    names = [f"position.{n}" for n in model.q_names] + [f"velocity.{n}" for n in model.v_names]
    channels = [
        f"sensor.{sensor.name}.{channel}" for sensor in sensors for channel in sensor.CHANNELS
    ]
    rows = fmpy.simulate_fmu(
        str(path),
        stop_time=0.1,
        step_size=10 * DT,
        output_interval=10 * DT,
        start_values={f"command.{key}": value for key, value in command.items()},
        output=[*names, *channels],
    )
    found = np.array([[row[n] for n in names] for row in rows])
    expected = np.concatenate([run.q, run.v], axis=1)
    assert np.abs(expected[-1] - expected[0]).max() > 1e-4
    assert found.tobytes() == expected.tobytes()
    read = np.array([[row[n] for n in channels] for row in rows])
    assert read.tobytes() == np.ascontiguousarray(run.array("sensor")).tobytes()


class Unit:
    """A unit that FMPy runs, with the same calls for both versions."""

    def __init__(self, path, folder, version):
        import fmpy

        description = fmpy.read_model_description(str(path))
        self.places = {v.name: v.valueReference for v in description.modelVariables}
        self.units = {v.name: v.unit for v in description.modelVariables}
        identity = description.guid if version == "2.0" else description.instantiationToken
        kind = fmpy.fmi2.FMU2Slave if version == "2.0" else fmpy.fmi3.FMU3Slave
        self.own = own = kind(
            guid=identity,
            unzipDirectory=str(fmpy.extract(str(path), folder)),
            modelIdentifier=description.coSimulation.modelIdentifier,
        )
        self.two = version == "2.0"
        own.instantiate()
        if self.two:
            own.setupExperiment(startTime=0.0)
            own.enterInitializationMode()
        else:
            own.enterInitializationMode(startTime=0.0)

    def get(self, names):
        read = self.own.getReal if self.two else self.own.getFloat64
        return np.array(read([self.places[n] for n in names]))

    def set(self, names, values):
        write = self.own.setReal if self.two else self.own.setFloat64
        write([self.places[n] for n in names], [float(x) for x in values])

    def derivative(self, unknowns, knowns, seed):
        numbers = ([self.places[n] for n in names] for names in (unknowns, knowns))
        return np.array(self.own.getDirectionalDerivative(*numbers, [float(x) for x in seed]))

    def end(self):
        self.own.terminate()
        self.own.freeInstance()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.0", "3.0"])
def test_units_are_tuned_by_name_saved_and_refuse_parts_of_steps(version, tmp_path):
    names = ["link_3.mass", "link_3.center_of_mass", "world.gravity", "joint_2.damping"]
    _, path = exported(ARM, tmp_path / "arm.fmu", parameters=names, version=version)
    unit = Unit(path, tmp_path / "unit", version)
    q0 = np.array(ARM.poses["ready"])
    where = [f"position.{n}" for n in ARM.q_names]
    unit.set(where, q0)
    tuned = {"link_3.mass": 5.25, "link_3.center_of_mass.y": 0.07, "world.gravity.z": -3.7}
    tuned["joint_2.damping"] = 2.5
    unit.set(tuned, tuned.values())
    assert unit.units["link_3.mass"] == "kg"
    assert unit.units["joint_2.damping"] == "N m s/rad"
    with pytest.raises(Exception, match="fmi"):
        unit.set(["link_3.mass"], [0.0])
    unit.own.exitInitializationMode()
    saved = unit.own.getFMUState()
    unit.own.doStep(0.0, 5 * DT)
    # limits= states that stops, which nothing touches, keep their stiffness in units
    run = tb.simulate(
        ARM,
        5 * DT,
        q=q0,
        method=tb.RK4(dt=DT),
        record=tb.Record(every=5),
        parameters=tuned,
        execution=tb.Execution(progress=False),
    )
    np.testing.assert_allclose(unit.get(where), run.q[-1], rtol=1e-14, atol=1e-15)
    plain = tb.simulate(
        ARM,
        5 * DT,
        q=q0,
        method=tb.RK4(dt=DT),
        record=tb.Record(every=5),
        execution=tb.Execution(progress=False),
    )
    assert np.abs(plain.q[-1] - run.q[-1]).max() > 1e-6
    with pytest.raises(Exception, match="DoStep"):
        unit.own.doStep(5 * DT, 0.4 * DT)
    with pytest.raises(Exception, match="DoStep"):
        # not where the last step ended
        unit.own.doStep(7 * DT, DT)
    # the refused steps have not moved it
    unit.own.doStep(5 * DT, DT)
    unit.own.setFMUState(saved)
    assert unit.get(where).tobytes() == q0.tobytes()
    unit.end()


@pytest.mark.slow
@pytest.mark.parametrize("version", ["2.0", "3.0"])
@pytest.mark.parametrize(
    ("name", "names", "options"),
    [
        ("panda", ["link_3.mass", "link_3.center_of_mass.x", "world.gravity.z"], {}),
        (
            "bluerov2_heavy",
            ["vehicle.volume", "vehicle.center_of_buoyancy.z", "vehicle.added_mass.vx"],
            {"fluid": tb.Water(current=(0.2, 0.0, 0.0))},
        ),
        ("stewart", ["platform.mass"], {}),
    ],
)
def test_directional_derivatives_are_those_of_accelerations(
    name, names, options, version, tmp_path
):
    model = tb.load(name)
    body = model.bodies[0].name
    names = [x.replace("vehicle", body) for x in names]
    _, path = exported(model, tmp_path / "robot.fmu", parameters=names, version=version, **options)
    unit = Unit(path, tmp_path / "unit", version)
    rates = [f"der(velocity.{n})" for n in model.v_names]
    commands = [n for n in unit.places if n.startswith("command.")][: model.nv]
    known = [*commands, *names]
    if not model.loops:
        rng = np.random.default_rng(3)
        speeds = [f"velocity.{n}" for n in model.v_names]
        unit.set(speeds, rng.normal(0.0, 0.3, model.nv))
        places = [f"position.{n}" for n in model.q_names]
        # away from stops, where forces have a kink
        unit.set(places, model.integrate(unit.get(places), np.full(model.nv, 0.01)))
        known += [*speeds, *places]
    values = unit.get(known)
    direction = np.random.default_rng(4).normal(0.0, 1.0, len(known))
    direction *= np.maximum(np.abs(values), 0.1)
    exact = unit.derivative(rates, known, direction)
    h = 1e-6
    ends = []
    for sign in (1.0, -1.0):
        unit.set(known, values + sign * h * direction)
        ends.append(unit.get(rates))
    difference = (ends[0] - ends[1]) / (2.0 * h)
    scale = np.abs(difference).max()
    assert scale > 1e-2
    # rounding of differences
    np.testing.assert_allclose(exact, difference, rtol=2e-7, atol=2e-7 * scale)
    # each parameter has a part in it
    for one in names:
        assert np.abs(unit.derivative(rates, [one], [1.0])).max() > 1e-6
    # states do not depend on commands of the same moment
    outputs = [f"position.{n}" for n in model.q_names]
    assert not unit.derivative(outputs, commands[:1], [1.0]).any()
    unit.end()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": "linux-aarch64"}, "targets"),
        ({"version": "1.0"}, "version"),
        ({"parameters": ["link_3.weight"]}, "link_3.weight"),
        ({"sensors": [tb.DepthSensor("depth", "link_7", noise=0.1)]}, "noise"),
        ({"method": tb.PredictorCorrector(points=2)}, "multi-step method"),
        ({"model": DOG, "world": FLOOR, "contact": tb.ExactContact()}, "exact contact"),
        ({"events": []}, "events"),
    ],
)
def test_what_a_unit_cannot_hold_is_refused(options, message, tmp_path):
    given = {"model": ARM, **options}
    with pytest.raises(tb.TiburonError, match=message):
        tb.export_fmu(path=tmp_path / "robot.fmu", **given)


def test_the_command_line_exports_a_vehicle_in_its_water(tmp_path, monkeypatch):
    pytest.importorskip("ziglang", reason="needs ziglang: pip install 'tiburon[fmu]'")
    fmpy = pytest.importorskip("fmpy", reason="needs FMPy to run units")
    from typer.testing import CliRunner

    from tiburon.cli.application import application

    monkeypatch.chdir(tmp_path)
    words = ["export", "fmu", "bluerov2_heavy", "--fluid", "current=0.3,0,0"]
    result = CliRunner().invoke(application, words)
    assert result.exit_code == 0, result.output
    wanted = "position.base.x"
    found = fmpy.simulate_fmu("bluerov2_heavy.fmu", stop_time=0.5, step_size=0.1, output=[wanted])
    water = tb.Water(current=(0.3, 0.0, 0.0))
    run = tb.simulate(tb.load("bluerov2_heavy"), 0.5, method=tb.RK4(dt=1e-3), fluid=water)
    assert found[wanted][-1] == run.q[-1][4] > 0.01


@pytest.mark.slow
def test_long_derivatives_are_compiled_without_optimization(tmp_path, monkeypatch):
    """The step itself is always optimized; both kinds of derivatives have the same bits."""
    start, levels = c_library._started, []

    def spy(command, folder):
        levels.extend(word for word in command if word in ("-O0", "-O1"))
        return start(command, folder)

    monkeypatch.setattr(c_library, "_started", spy)
    model = tb.load("double_pendulum")
    found = []
    for most, expected in ((10**9, ["-O1", "-O1"]), (0, ["-O1", "-O0"])):
        monkeypatch.setattr(fmu, "LONG_DERIVATIVES", most)
        levels.clear()
        _, path = exported(model, tmp_path / f"robot{most}.fmu", q=[0.3, -0.7], v=[1.0, 2.0])
        assert levels == expected
        unit = Unit(path, tmp_path / f"unit{most}", "2.0")
        rates = [f"der(velocity.{n})" for n in model.v_names]
        known = [f"{word}.{n}" for n in model.v_names for word in ("position", "velocity")]
        found.append(unit.derivative(rates, known, [1.0, -0.5, 0.25, 2.0]))
        unit.end()
    assert np.abs(found[0]).max() > 0.1
    assert found[0].tobytes() == found[1].tobytes()
