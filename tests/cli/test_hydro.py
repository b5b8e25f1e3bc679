"""`tiburon hydro`: what it prints and writes, and how it fails."""

import json
import re

import numpy as np
import pytest
from typer.testing import CliRunner

import tiburon as tb
from tiburon.cli.application import application


def run(*words):
    return CliRunner().invoke(application, ["hydro", *(str(word) for word in words)])


def test_coefficients_and_their_quality_are_shown_and_written(tmp_path):
    """The table grades each number; the file holds them."""
    target = tmp_path / "wet.toml"
    result = run("panda", target)
    assert result.exit_code == 0, result.output
    assert "guessed" in result.output or "fitted" in result.output
    assert f"wrote {target}" in result.output.replace("\n", "")
    written, shipped = tb.load(target), tb.load("panda")
    assert any(body.fluid for body in written.bodies)
    assert written.with_fluids({b.name: None for b in written.bodies}) == shipped


def test_bodies_with_coefficients_keep_them():
    output = run("tiburon_titan").output
    assert output.count("has coefficients already") == 9
    assert "has coefficients already" not in run("tiburon_titan", "--overwrite").output


def test_json_lists_every_body():
    found = json.loads(run("remus100", "--json", "--overwrite", "--density", "1000").output)
    assert found["density"] == 1000.0
    (body,) = found["bodies"]
    assert body["estimated"]
    assert body["quality"]["volume"] in ("exact", "fitted", "guessed")
    assert len(body["added_mass"]) == 6


def test_only_native_files_are_written_and_none_is_replaced(tmp_path):
    assert isinstance(run("panda", tmp_path / "wet.urdf").exception, tb.ModelFileError)
    target = tmp_path / "wet.toml"
    target.write_text("mine")
    with pytest.raises(tb.ModelFileError, match="exists already"):
        raise run("panda", target).exception
    assert target.read_text() == "mine"
    assert run("panda", target, "--force").exit_code == 0


SHEET = """
[hull]
volume = 0.0113
center_of_buoyancy = [0.0, 0.0, -0.01]
reference_density = 1000.0
derivatives = { X_udot = -5.5, Y_vdot = -12.7, Z_wdot = -14.57, K_pdot = -0.12, M_qdot = -0.12, \
N_rdot = -0.12, Y_rdot = 0.4, X_u = -4.03, N_r = -0.07, "X_u|u|" = -18.18, Z_ww = -36.99 }
"""


def test_a_data_sheet_in_marine_order_becomes_coefficients(tmp_path):
    """Linear first, z down, negative derivatives; other bodies are estimated, these are kept."""
    (tmp_path / "sheet.toml").write_text(SHEET.replace("\\\n", ""))
    hull = tb.Body("hull", joint=tb.Free("base"), inertia=tb.Inertia.sphere(11.0, 0.1))
    arm = tb.Body("arm", "hull", joint=tb.Revolute("arm"), inertia=tb.Inertia.sphere(1.0, 0.1),
                  shapes=(tb.Shape(tb.SphereShape(0.1)),))  # fmt: skip
    tb.save(tb.Model("rov", [hull, arm]), tmp_path / "rov.toml")
    words = (tmp_path / "rov.toml", tmp_path / "wet.toml", "--fossen", tmp_path / "sheet.toml")
    result = run(*words, "--overwrite")
    assert result.exit_code == 0, result.output
    assert "from the data sheet" in result.output
    wet = tb.load(tmp_path / "wet.toml")
    fluid = wet.body("hull").fluid
    assert fluid.volume == 0.0113
    assert fluid.center_of_buoyancy == (0.0, 0.0, 0.01)
    marine = tb.matrix_to_fossen(fluid.added_mass)
    expected = np.diag([5.5, 12.7, 14.57, 0.12, 0.12, 0.12])
    expected[1, 5] = expected[5, 1] = -0.4
    np.testing.assert_array_equal(marine, expected)
    # in our axes starboard is -y and yaw is -z: the coupling keeps its sign
    assert fluid.added_mass[2][4] == -0.4
    assert fluid.linear_damping[3][3] == 4.03
    assert fluid.linear_damping[2][2] == 0.07
    assert [fluid.quadratic_damping[k][k] for k in (3, 4, 5)] == [18.18, 0.0, 36.99]
    assert wet.body("arm").fluid.volume == pytest.approx(4.0 / 3.0 * np.pi * 1e-3)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("[hull", "is no TOML file"),
        ("", "has no body"),
        ("hull = 1", "body 'hull': expected a table of the body"),
        ("[hull]\nmass = 1", "body 'hull': expected entries of volume, .*, got mass"),
        ("[hull]\nderivatives = { X_zdot = 1 }", "expected numbers by names such as X_udot"),
        ("[hull]\nderivatives = { X_uv = 1 }", "products of two motions are not represented"),
        ("[hull]\nderivatives = { X_udot = 5 }", "must not be indefinite"),
        ("[hull]\nderivatives = { X_qq = -1.9 }", r"X_qq: of a square like q\^2.*write X_q\|q\|"),
        (
            '[hull]\nderivatives = { X_uu = -1, "X_|u|u" = -2 }',
            r"X_uu and X_\|u\|u are the same; leave out one",
        ),
        (
            "[hull]\nderivatives = { Y_vdot = -9, N_rdot = -9, Y_rdot = 1, N_vdot = 0 }",
            "added mass must be symmetric",
        ),
        ("[hull]\ncenter_of_buoyancy = [0, 1]", "center_of_buoyancy must be 3 numbers"),
        ("[hull]\ncenter_of_buoyancy = 0.1", "center_of_buoyancy must be 3 numbers"),
        ('[hull]\nabout = "keel"', "about must be 3 numbers, got 'keel'"),
        ("[hull]\nlinear_damping = [1, 2]", "linear damping: matrix must be 6 x 6 numbers"),
        ("[hull]\nadded_mass = [1, 2]", "added mass"),
        (
            "[hull]\nlinear_damping = [1, 1, 1, 1, 1, 1]\nderivatives = { X_u = -1 }",
            "give a matrix or derivatives, got both",
        ),
        (
            "[hull]\nlinear_damping = [1, 1, 1, 1, 1, 1]\nabout = [1, 0, 0]",
            "about: is for added mass alone",
        ),
        ("[keel]\nvolume = 1", "keel"),
    ],
)
def test_a_wrong_data_sheet_is_refused_by_body_and_entry(tmp_path, text, message):
    (tmp_path / "sheet.toml").write_text(text)
    result = run("bluerov2_heavy", "--fossen", tmp_path / "sheet.toml")
    assert isinstance(result.exception, tb.ModelError)
    assert re.search(message, str(result.exception)), result.exception


def test_a_craft_of_a_data_sheet_moves_by_the_equations_of_the_book(tmp_path):
    """M nu' + C nu + D nu + D_q |nu| nu + g = tau in marine order and axes, all entries nonzero."""
    rng = np.random.default_rng(3)
    G = rng.normal(size=(6, 6))
    added = G @ G.T + 6.0 * np.eye(6)
    linear, square = (0.3 * rng.normal(size=(6, 6)) + x * np.eye(6) for x in (3.0, 4.0))
    forces, motions = "XYZKMN", "uvwpqr"
    pairs = [(i, j) for i in range(6) for j in range(6)]
    names = {
        **{f"{forces[i]}_{motions[j]}dot": -added[i, j] for i, j in pairs if i <= j},
        **{f"{forces[i]}_{motions[j]}": -linear[i, j] for i, j in pairs},
        # both ways to write them
        **{f"{forces[i]}_|{motions[j]}|{motions[j]}": -square[i, j] for i, j in pairs[:18]},
        **{f"{forces[i]}_{motions[j]}|{motions[j]}|": -square[i, j] for i, j in pairs[18:]},
    }
    mass, volume, g = 20.0, 0.021, 9.81
    center, buoyancy = np.array([0.03, 0.02, 0.05]), np.array([0.01, -0.02, -0.06])
    tensor = np.diag([1.0, 1.5, 2.0]) + 0.1
    listed = ", ".join(f'"{name}" = {float(x)!r}' for name, x in names.items())
    (tmp_path / "sheet.toml").write_text(
        f"[hull]\nvolume = {volume}\nreference_density = 1000.0\n"
        f"center_of_buoyancy = {buoyancy.tolist()}\nderivatives = {{ {listed} }}\n"
    )
    # marine axes are ours turned by half a turn about x
    S = np.diag([1.0, -1.0, -1.0])
    hull = tb.Body(
        "hull", joint=tb.Free("base"), inertia=tb.Inertia(mass, S @ center, S @ tensor @ S)
    )
    tb.save(tb.Model("rov", [hull]), tmp_path / "rov.toml")
    words = (tmp_path / "rov.toml", tmp_path / "wet.toml", "--fossen", tmp_path / "sheet.toml")
    assert run(*words).exit_code == 0
    model = tb.load(tmp_path / "wet.toml")
    q, v = model.random_state(rng)
    tau = rng.normal(size=6)

    def turned(x):
        return np.concatenate([S @ x[3:], S @ x[:3]])

    def cross(a):
        return np.cross(np.eye(3), a)

    def coriolis(M, nu):
        a = M @ nu
        top = [np.zeros((3, 3)), -cross(a[:3])]
        return np.block([top, [-cross(a[:3]), -cross(a[3:])]])

    shifted = mass * cross(center)
    M = added + np.block(
        [[mass * np.eye(3), -shifted], [shifted, tensor - shifted @ cross(center)]]
    )
    nu = turned(v)
    down = S @ np.asarray(tb.forward_kinematics(model, q, "hull")[0]).reshape(3, 3).T @ (0, 0, -1.0)
    weight, lift = mass * g * down, -1000.0 * volume * g * down
    loads = [weight + lift, np.cross(center, weight) + np.cross(buoyancy, lift)]
    drag = linear @ nu + square @ (np.abs(nu) * nu)
    expected = np.linalg.solve(M, tau + np.concatenate(loads) - coriolis(M, nu) @ nu - drag)
    found = tb.forward_dynamics(model, q, v, turned(tau), fluid=tb.Water(1000.0))
    np.testing.assert_allclose(turned(found), expected, rtol=0, atol=1e-12)
