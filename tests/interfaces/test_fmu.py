"""Units of FMI 2.0: validated and run by FMPy, against `simulate` in bits."""

import numpy as np
import pytest

import tiburon as tb

ARM = tb.load("panda")
DOG = tb.load("quadruped")
FLOOR = tb.World(ground=tb.Ground())
DT = 1e-3


def exported(model, path, **options):
    pytest.importorskip("ziglang", reason="needs ziglang: pip install 'tiburon[fmu]'")
    return pytest.importorskip("fmpy", reason="needs FMPy to run units"), tb.export_fmu(
        model, path, DT, **options
    )


@pytest.mark.slow
@pytest.mark.parametrize(
    ("name", "command", "options"),
    [
        ("panda", {"joint_2": 5.0}, {}),
        ("stewart", {}, {}),
        ("bluerov2_heavy", {"front_left": 5.0}, {"fluid": tb.Water(current=(0.2, 0.0, 0.0))}),
        (
            "quadruped",
            {},
            {"world": FLOOR, "method": "semi_implicit_euler", "q": np.array(DOG.poses["stand"])},
        ),
    ],
)
def test_a_unit_has_the_bits_of_simulate(name, command, options, tmp_path):
    model = tb.load(name)
    fmpy, path = exported(model, tmp_path / "robot.fmu", **options)
    from fmpy.validation import validate_fmu

    assert validate_fmu(str(path)) == []
    run = tb.simulate(
        model, 0.1, dt=DT, command=command or None, record_every=10, progress=False, **options
    )
    names = [f"position.{n}" for n in model.q_names] + [f"velocity.{n}" for n in model.v_names]
    rows = fmpy.simulate_fmu(
        str(path),
        stop_time=0.1,
        step_size=10 * DT,
        output_interval=10 * DT,
        start_values={f"command.{key}": value for key, value in command.items()},
        output=names,
    )
    found = np.array([[row[n] for n in names] for row in rows])
    expected = np.concatenate([run.q, run.v], axis=1)
    assert np.abs(expected[-1] - expected[0]).max() > 1e-4
    assert found.tobytes() == expected.tobytes()


@pytest.mark.slow
def test_units_are_tuned_saved_and_refuse_parts_of_steps(tmp_path):
    fmpy, path = exported(ARM, tmp_path / "arm.fmu")
    description = fmpy.read_model_description(str(path))
    places = {v.name: v.valueReference for v in description.modelVariables}
    folder = fmpy.extract(str(path), tmp_path / "unit")
    unit = fmpy.fmi2.FMU2Slave(
        guid=description.guid,
        unzipDirectory=str(folder),
        modelIdentifier=description.coSimulation.modelIdentifier,
    )
    unit.instantiate()
    unit.setupExperiment(startTime=0.0)
    unit.enterInitializationMode()
    q0 = np.array(ARM.poses["ready"])
    where = [places[f"position.{n}"] for n in ARM.q_names]
    unit.setReal(where, q0.tolist())
    # gravity is a parameter
    unit.setReal([places["gravity[0]"]], [-3.7])
    unit.exitInitializationMode()
    saved = unit.getFMUState()
    unit.doStep(0.0, 5 * DT)
    mars = tb.World(gravity=(0.0, 0.0, -3.7))
    run = tb.simulate(
        ARM, 5 * DT, q=q0, world=mars, dt=DT, record_every=5, passive=True, progress=False
    )
    assert np.array(unit.getReal(where)).tobytes() == run.q[-1].tobytes()
    with pytest.raises(Exception, match="fmi2DoStep"):
        unit.doStep(5 * DT, 0.4 * DT)
    unit.setFMUState(saved)
    assert np.array(unit.getReal(where)).tobytes() == q0.tobytes()
    unit.terminate()
    unit.freeInstance()


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"targets": "linux-aarch64"}, "targets"),
        ({"method": "b2pc5"}, "multi-step method"),
        ({"model": DOG, "world": FLOOR, "contact": "exact"}, "exact contact"),
        ({"events": []}, "events"),
    ],
)
def test_what_a_unit_cannot_hold_is_refused(options, message, tmp_path):
    given = {"model": ARM, **options}
    with pytest.raises(tb.TiburonError, match=message):
        tb.export_fmu(path=tmp_path / "robot.fmu", **given)
