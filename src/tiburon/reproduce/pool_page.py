"""Pages of the validation on measured runs: table, plots, and measured and predicted vehicle."""

from typing import TYPE_CHECKING

import numpy as np

from tiburon.formats.load import load
from tiburon.reproduce.pool import PoolTable, quaternion_of
from tiburon.viewer.plots import PALETTE, styled
from tiburon.viewer.replay import replay_html
from tiburon.viewer.report import Section, Verdict, figure_markup, report_html, table_markup

if TYPE_CHECKING:
    from matplotlib.figure import Figure

SHOWN_PREDICTION = "identified, trimmed"
"""Prediction that figures and replay show."""

INTRODUCTION = (
    "A free-floating BlueROV2 in a pool reacts to its arm. The arm follows its measured joint "
    "angles, the vehicle is predicted from its measured start. Data: Kolano et al. (MIT)."
)

LIMITATIONS = (
    "The motions are slow: roll and pitch are nearly quasi-static and do not tell scalar from full "
    "added mass. Dynamics shows in the rates and in runs that ring. Drag as coded: the source's "
    "program applies coefficients of translation to rotation. Identified predictions pitch with "
    "their own rise, by one coefficient of the fitted runs: an observation, also made while the "
    "arm rests, whose cause is not modeled. Rows without height are of the same parameters."
)

CAUSES = (
    "Root mean squares of roll and pitch over all runs. Part: of the error. Change: of the "
    "prediction, when a value that is not known well is another. Measured: differences of sensors, "
    "and motion that no cause in the model explains."
)

OTHERS = (
    "Root mean square of a run, median over runs; pooled values in parentheses. A vehicle has no "
    "restoring moment in yaw and no restoring force: what tether and pilot left stays."
)


def pool_page(table: PoolTable) -> str:
    """Return the page of a validation."""
    judged = [row for row in table.rows if row.met is not None]
    good = sum(bool(row.met) for row in judged) + sum(r.met for r in table.ringing)
    count = len(judged) + len(table.ringing)
    constant = np.degrees(table.constant)
    verdicts = (
        Verdict(f"{good} of {count}", "bounds met", "good" if good == count else "bad"),
        Verdict(str(len(table.runs)), "measured runs"),
        Verdict(f"{constant[0]:.2f}, {constant[1]:.2f} deg", "roll and pitch of a vehicle at rest"),
    )
    rows = [
        (
            row.name,
            f"{row.roll:.3f}, {row.pitch:.3f}",
            f"{row.roll_rate:.3f}, {row.pitch_rate:.3f}",
            "" if row.bound is None else f"{row.bound[0]:g}, {row.bound[1]:g}; {row.bound[2]:g}",
            {None: "reported", True: "met", False: "MISSED"}[row.met],
        )
        for row in table.rows
    ]
    ringing = [
        (
            r.run,
            f"{r.measured:.3f} Hz",
            f"{r.reference:.2f} Hz",
            f"{r.predicted:.3f} Hz",
            "met" if r.met else "MISSED",
        )
        for r in table.ringing
    ]
    causes = [
        (
            cause.name,
            cause.kind,
            f"{np.degrees(cause.roll):.2f}, {np.degrees(cause.pitch):.2f} deg",
            cause.how,
        )
        for cause in table.causes
    ]
    others = [
        (
            other.name,
            f"{other.predicted:.3g} ({other.pooled[0]:.3g}) {other.unit}",
            f"{other.simple:.3g} ({other.pooled[1]:.3g}) {other.unit}",
            "constant heading" if other.name == "yaw" else "constant velocity",
        )
        for other in table.others
    ]
    sections = [
        Section(
            "Errors relative to a vehicle that stays as it starts",
            f"Identified parameters are judged on {table.judged_on}. {LIMITATIONS}",
            table_markup(rows, ("prediction", "roll, pitch", "rates", "bound", "verdict")),
        ),
        Section(
            "Pitch frequency of runs that ring",
            "",
            table_markup(ringing, ("run", "spectrum", "oscillations", "predicted", "verdict")),
        ),
        Section(
            "Causes of the remaining error",
            CAUSES,
            table_markup(causes, ("cause", "kind", "roll, pitch", "how it was found")),
        ),
    ]
    if others:
        heads = ("motion", "predicted", "without a model", "")
        text = OTHERS
        if table.drag is not None:
            zero = len(table.drag.at_bound)
            text += (
                f" Of the four entries of drag fitted to horizontal motion, {zero} end at zero: "
                "water or tether moved along, so the fit is not published as drag."
            )
        sections.append(Section("Yaw and displacements", text, table_markup(others, heads)))
    for k, angle in enumerate(("Roll", "Pitch")):
        figure = _runs_figure(table, k)
        sections.append(
            Section(
                f"{angle} of all runs",
                f"Measured (blue) and predicted (orange, {SHOWN_PREDICTION}) over time.",
                figure_markup(figure, f"{angle} of all runs"),
            )
        )
    fits = dict(table.fits)
    if table.drag is not None:
        fits["of horizontal motion, not to be taken for drag"] = table.drag
    for name, fit in fits.items():
        values = [
            (
                parameter,
                f"{fit.start[k]:.4g}",
                f"{fit.estimate[k]:.4g}",
                f"{fit.lower[k]:.4g} to {fit.upper[k]:.4g}",
                "at its bound" if parameter in fit.at_bound else "",
            )
            for k, parameter in enumerate(fit.names)
        ]
        ended = "converged" if fit.converged else "did NOT converge"
        text = f"Fit of {len(fit.runs)} runs, {ended} in {fit.iterations} steps."
        text += "".join(f" Not determined: {line}." for line in fit.undetermined)
        columns = ("parameter", "published", "estimate", "95 % interval", "")
        sections.append(Section(f"Parameters {name}", text, table_markup(values, columns)))
    return report_html("Validation on measured runs", INTRODUCTION, verdicts, sections)


@styled
def _runs_figure(table: PoolTable, k: int) -> "Figure":
    from matplotlib.figure import Figure

    columns = 6
    rows = -(-len(table.runs) // columns)
    figure = Figure(figsize=(13.0, 1.5 * rows), layout="constrained")
    axes = figure.subplots(rows, columns, squeeze=False)
    found = table.predictions[SHOWN_PREDICTION]
    for place, ax in enumerate(axes.flat):
        if place >= len(table.runs):
            ax.set_axis_off()
            continue
        run = table.runs[place]
        time = run.time - run.time[0]
        ax.plot(time, np.degrees(run.attitude[:, k]), color=PALETTE[0], linewidth=1.0)
        ax.plot(time, np.degrees(found[place][:, k]), color=PALETTE[1], linewidth=1.0)
        ax.set_title(run.name.removeprefix("run_"), fontsize=7)
        ax.tick_params(labelsize=6)
    figure.supxlabel("time [s]", fontsize=8)
    figure.supylabel(f"{('roll', 'pitch')[k]} [deg]", fontsize=8)
    return figure


def pool_replay(table: PoolTable, name: str) -> str:
    """Return a replay of one run: the predicted vehicle, and the measured one translucent."""
    place = [run.name for run in table.runs].index(name)
    run, model = table.runs[place], load("bluerov2_alpha")
    path = run.joint_path()
    q = np.tile(np.array(model.neutral(), dtype=np.float64), (len(run.time), 2, 1))
    q[..., model.indices(path.joints, of="q")] = path.at(run.time).position[:, None, :]
    predicted = np.column_stack([table.predictions[SHOWN_PREDICTION][place], run.attitude[:, 2]])
    q[:, 0, :4] = quaternion_of(predicted)
    q[:, 1, :4] = quaternion_of(run.attitude)
    time = run.time - run.time[0]
    plots = {
        f"{angle} [deg]": {
            "predicted": np.degrees(predicted[:, k]),
            "measured": np.degrees(run.attitude[:, k]),
        }
        for k, angle in enumerate(("roll", "pitch"))
    }
    title = f"{name}: predicted (solid) and measured (translucent), at the same place and heading"
    return replay_html(model, time, q, plots=plots, title=title, fps=25.0)
