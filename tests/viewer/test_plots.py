"""Figures and pages of runs: labelled, with units, and complete in themselves."""

import re

import numpy as np
import pytest

import tiburon as tb
from tests.results import trajectory_samples as samples
from tests.robots import cart_pendulum, double_pendulum
from tiburon.results.outcome import EventRecord
from tiburon.simulation import recorder as recorder_module
from tiburon.simulation.recorder import Recorder
from tiburon.viewer import plots
from tiburon.viewer.report import Section, Verdict, report_html


def titles(figure):
    """Return the titles of all panels."""
    return [axes.get_title(loc="left") for axes in figure.axes]


def names(axes):
    """Return the names in the legend of a panel."""
    return [text.get_text() for text in axes.get_legend().get_texts()]


def test_each_unit_has_its_panel_and_each_curve_its_name():
    """Meters and radians do not share an axis; titles hold the units, legends the names."""
    model = cart_pendulum()
    run, time, columns = samples.recorded(model)
    figure = run.plot("joint_position", "joint_velocity", "power")
    assert titles(figure) == [
        "joint position [m]",
        "joint position [rad]",
        "joint velocity [m/s]",
        "joint velocity [rad/s]",
        "power [W]",
    ]
    assert names(figure.axes[1]) == [model.q_names[1]]
    assert figure.axes[-1].get_xlabel() == "time [s]"
    (line,) = figure.axes[3].get_lines()
    assert np.array_equal(line.get_xdata(), time)
    assert np.array_equal(line.get_ydata(), columns["v"][:, 1])


def test_zero_curves_are_named_and_not_drawn():
    """What never moves takes no place, and what is left out is told."""
    box = tb.Body("box", joint=tb.Free("base"), inertia=tb.Inertia.box(2.0, (0.3, 0.2, 0.1)))
    run = tb.simulate(
        tb.Model("box", [box]), 0.1, v=[0.0, 0.0, 2.0, 0.0, 0.0, 0.0], method=tb.RK4(dt=0.01)
    )
    figure = run.plot("joint_position", "body_velocity")
    texts = titles(figure)
    assert [x for axes in figure.axes for x in names(axes)] == [
        "base.qw",
        "base.qz",
        "base.z",
        "box.yaw",
        "box.wz",
        "box.vz",
    ]
    assert "(zero: base.qx, base.qy)" in texts[0]
    assert "(zero: base.x, base.y)" in texts[1]
    assert "(zero: box.roll, box.pitch)" in texts[2]
    # a quantity that is asked for by its label is shown
    assert names(run.plot("joint_position", labels="base.x").axes[0]) == ["base.x"]
    # a panel that is gone is named in the heading
    still = tb.simulate(
        tb.Model("box", [box]), 0.1, world=tb.World(gravity=(0, 0, 0)), method=tb.RK4(dt=0.01)
    )
    assert "(zero: joint position [m], " in still.plot()._suptitle.get_text()


def test_attitude_of_quaternions_stands_beside_them():
    """Roll, pitch and yaw are those of the rotation of the body."""
    box = tb.Body("box", joint=tb.Free("base"), inertia=tb.Inertia.sphere(2.0, 0.3))
    run = tb.simulate(
        tb.Model("box", [box]), 0.5, v=[0.0, 1.2, 0.0, 0.0, 0.0, 0.0], method=tb.RK4(dt=0.01)
    )
    panel = next(
        axes for axes in run.plot().axes if "roll, pitch and yaw" in axes.get_title("left")
    )
    (line,) = panel.get_lines()
    np.testing.assert_allclose(line.get_ydata()[-1], 0.6, rtol=1e-9)


def test_figures_of_the_package_have_one_style():
    """Demonstrations, measured runs and reproductions draw as runs do."""

    @plots.styled
    def draw():
        from matplotlib.figure import Figure

        axes = Figure().subplots()
        return axes.plot([0, 1], [0, 1])[0].get_color(), axes.spines["top"].get_visible()

    assert draw() == (plots.PALETTE[0], False)


def test_notebooks_show_figures_of_runs():
    """As a picture, also where pyplot is not used."""
    run = tb.simulate(double_pendulum(), 0.02, q=[0.3, 0.1], method=tb.RK4(dt=0.01))
    assert run.plot("joint_position")._repr_png_().startswith(b"\x89PNG")


def test_powers_in_units_are_shown_as_such():
    """Accelerations are in m/s², not m/s^2."""
    run, _, _ = samples.recorded(cart_pendulum(), count=3)
    assert titles(run.plot("joint_acceleration")) == [
        "joint acceleration [m/s²]",
        "joint acceleration [rad/s²]",
    ]


def test_labels_select_curves():
    """Only curves whose names hold the word are drawn; a word that fits none is an error."""
    model = double_pendulum()
    run, _, _ = samples.recorded(model)
    figure = run.plot("joint_position", labels=model.q_names[1])
    assert names(figure.axes[0]) == [model.q_names[1]]
    with pytest.raises(tb.UnknownNameError, match="joint position: unknown coordinate 'nothing'"):
        run.plot("joint_position", labels="nothing")
    with pytest.raises(tb.UnknownNameError, match="unknown quantity"):
        run.plot("joint_positions_of_all")


def test_few_cases_are_lines_and_many_a_band():
    """The line is the median of the cases; beside it thin lines, or the middle 90 % of them."""
    model = double_pendulum()
    few, _, columns = samples.recorded(model, batch=(4,))
    axes = few.plot("joint_velocity").axes[0]
    assert len(axes.get_lines()) == 2 * (4 + 1)
    assert not axes.collections
    many, _, columns = samples.recorded(model, batch=(50,))
    axes = many.plot("joint_velocity").axes[0]
    assert len(axes.get_lines()) == len(axes.collections) == 2
    middle = axes.get_lines()[1].get_ydata()
    assert np.array_equal(middle, np.median(columns["v"][:, :, 1], axis=1))
    low, high = np.percentile(columns["v"][:, :, 1], (5, 95), axis=1)
    corners = axes.collections[1].get_paths()[0].vertices
    assert np.isin(low, corners[:, 1]).all()
    assert np.isin(high, corners[:, 1]).all()


def test_one_case_of_a_batch_is_drawn_alone():
    """The keyword `case` picks one."""
    run, _, columns = samples.recorded(double_pendulum(), batch=(3,))
    axes = run.plot("joint_position", case=2).axes[0]
    assert np.array_equal(axes.get_lines()[0].get_ydata(), columns["q"][:, 2, 0])


def test_median_ignores_ended_cases():
    """NaN rows are left out of bands and medians; without any case there is a gap."""
    model = double_pendulum()
    time, columns = samples.rows(model, 30, (20,))
    columns["v"][10:, :5] = np.nan
    columns["v"][25:] = np.nan
    recorder = Recorder(samples.header(model, (20,)), rows=30)
    recorder.append(time, columns, samples.checkpoint)
    run = recorder.finish(samples.outcomes(model, 20), [], samples.checkpoint())
    middle = run.plot("joint_velocity").axes[0].get_lines()[0].get_ydata()
    assert np.array_equal(middle[10:25], np.median(columns["v"][10:25, 5:, 0], axis=1))
    assert np.isnan(middle[25:]).all()


def test_decimated_lines_keep_extremes_ends_and_gaps():
    """A spike of one point among a million is still seen, and a gap is not bridged."""
    time = np.linspace(0.0, 1.0, 1_000_001)
    values = np.sin(20.0 * time)
    values[345_678] = 9.0
    values[700_000:710_000] = np.nan
    few, shown = plots.decimated(time, values)
    assert len(few) < 2 * plots.MAX_POINTS
    assert few[0] == time[0]
    assert few[-1] == time[-1]
    assert np.nanmax(shown) == 9.0
    assert np.nanmin(shown) == np.nanmin(values)
    assert np.isnan(shown[(few > 0.7) & (few < 0.71)]).all()
    assert np.isnan(shown).any()
    assert np.array_equal(np.interp(few, time, time), few)


def test_many_curves_have_colors_of_their_own():
    """Forty curves have forty colors."""
    colors = plots._colors(40)
    assert len({tuple(color) for color in colors}) == 40


def test_figure_format_follows_the_file_extension(tmp_path):
    """The same call draws and saves."""
    run, _, _ = samples.recorded(double_pendulum(), count=5)
    run.plot(path=tmp_path / "run.png")
    run.plot(path=tmp_path / "run.svg")
    assert (tmp_path / "run.png").read_bytes().startswith(b"\x89PNG")
    assert "<svg" in (tmp_path / "run.svg").read_text()


def test_a_report_is_one_page_that_needs_nothing_else(tmp_path):
    """Summary, outcome, events, energies and figures, without a link to anywhere."""
    model = double_pendulum()
    time, columns = samples.rows(model, 51)
    recorder = Recorder(samples.header(model, (), {"method": "rk4", "dt": 1e-3}), rows=51)
    recorder.append(time, columns, samples.checkpoint)
    zero = np.zeros(2)
    events = [EventRecord("touch <&>", 0.25, 0, zero, zero, zero)]
    run = recorder.finish(samples.outcomes(model), events, samples.checkpoint())
    path = run.report(tmp_path / "page.html")
    text = path.read_text()
    for word in ("double_pendulum", "finished at 0.5 s", "rk4, step 0.001 s", "51 times", "Energy"):
        assert word in text, word
    assert "touch &lt;&amp;&gt;" in text
    assert "touch <&>" not in text
    assert text.count("<svg") == 4
    # names of other documents, beside the definitions that SVG itself wants
    links = re.findall(r'(?:src|href)="([^"#][^"]*)"', text)
    assert links == []
    assert "@import" not in text
    assert "url(http" not in text
    # the same run gives the same page
    again = run.report(tmp_path / "again.html").read_text()
    assert again == text


def test_a_report_lists_the_cases_that_did_not_end_well(tmp_path):
    """Of a batch: how many, which, when and why."""
    run, _, _ = samples.recorded(double_pendulum(), batch=(5,), bad=(1, 3))
    text = run.report(tmp_path / "page.html").read_text()
    assert "3 of 5" in text
    assert "case 1 diverged" in text
    assert "case 3 diverged" in text
    assert "case 2 diverged" not in text


def test_a_report_of_a_killed_run_states_it(tmp_path, monkeypatch):
    """A killed run has an outcome of its own, and rows to show."""
    monkeypatch.setattr(recorder_module, "FLUSH_SECONDS", 0.0)
    model = double_pendulum()
    time, columns = samples.rows(model, 9)
    recorder = Recorder(samples.header(model), rows=20, store=tmp_path / "run.zarr")
    recorder.append(time, columns, lambda: samples.checkpoint(9))
    del recorder
    run = tb.load_run(tmp_path / "run.zarr")
    assert len(run) == 9
    text = run.report(tmp_path / "page.html").read_text()
    assert "killed after 0.09 s" in text
    assert "resume() continues from there" in text


def test_pages_escape_their_text():
    """Names of robots are not trusted to be harmless."""
    page = report_html("<i>", "a & b", [Verdict("<x>", "y")], [Section("<s>", "<t>")], "<f>")
    for given in ("<i>", "<x>", "<s>", "<t>", "<f>"):
        assert given not in page
    assert "a &amp; b" in page


def test_reports_that_cannot_be_written_are_reported(tmp_path):
    """A missing folder is named."""
    run, _, _ = samples.recorded(double_pendulum(), count=3)
    with pytest.raises(tb.RunFileError, match="cannot be written"):
        run.report(tmp_path / "no" / "page.html")
