"""`tiburon validate`: predictions beside measured runs, with a verdict for each bound."""

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from tiburon.cli.console import FAILURE, open_console

if TYPE_CHECKING:
    from tiburon.reproduce.pool import PoolTable

application = typer.Typer(
    help="Compare predictions with measured runs.", no_args_is_help=True, rich_markup_mode=None
)

EXAMPLES = """
tiburon validate pool --data pool
tiburon validate pool --data pool_kept_back --fit pool
tiburon validate pool --data pool --html pool.html --replay run_005-1
"""

WORDS = {None: "reported", True: "met", False: "MISSED"}
"""Verdicts."""


@application.callback()
def _group() -> None:
    """Group the data sets as subcommands."""


@application.command("pool")
def pool(
    data: Annotated[Path, typer.Option(help="Folder of the measured runs, run_*.npz.")] = Path(
        "pool"
    ),
    fit: Annotated[
        Path | None,
        typer.Option(
            help="Folder of other runs: fit all of these and judge the runs of --data. By default "
            "trajectories of --data are left out in turn (cross-validation)."
        ),
    ] = None,
    html: Annotated[Path | None, typer.Option(help="Write table and plots as a page.")] = None,
    replay: Annotated[
        str | None,
        typer.Option(
            help="Name of a run: beside the page, write one on which the measured vehicle "
            "(translucent) and the predicted one move."
        ),
    ] = None,
) -> None:
    """Predict a BlueROV2 that floats freely in a pool while its arm moves, and compare.

    Errors of roll, pitch and their rates are ratios to those of a vehicle that stays as it starts.
    Parameters are identified on some trajectories and judged on the others, or with --fit on all
    runs of another folder. Exits with 1 if a bound is missed.
    """
    from tiburon.errors import UnknownNameError
    from tiburon.reproduce.pool import load_pool, validate_pool

    if replay is not None:
        # before minutes of work
        if html is None:
            raise typer.BadParameter("--replay writes a page beside that of --html; give both")
        names = dict.fromkeys(run.name for run in load_pool(data))
        if replay not in names:
            raise UnknownNameError("run", replay, names, where=str(data))
    console = open_console()
    with console.status("reading runs") as status:
        table = validate_pool(data, fit=fit, progress=status.update)
    _print(table)
    if html is not None:
        from tiburon.errors import RunFileError
        from tiburon.reproduce.pool_page import pool_page, pool_replay
        from tiburon.written_file import write_file

        write_file(html, pool_page(table), RunFileError)
        print(f"page: {html}")
        if replay is not None:
            beside = html.with_name(f"{html.stem}_{replay}.html")
            write_file(beside, pool_replay(table, replay), RunFileError)
            print(f"replay: {beside}")
    raise typer.Exit(0 if table.met else FAILURE)


def _print(table: "PoolTable") -> None:
    from math import degrees

    roll, pitch, roll_rate, pitch_rate = map(degrees, table.constant)
    print(
        f"{len(table.runs)} runs; a vehicle that stays as it starts is off by {roll:.2f} and "
        f"{pitch:.2f} deg, {roll_rate:.2f} and {pitch_rate:.2f} deg/s"
    )
    print(f"identified parameters are judged on {table.judged_on}")
    width = max(len(row.name) for row in table.rows)
    print(f"{'prediction':{width}}   roll  pitch   rates         bound             verdict")
    for row in table.rows:
        bound = "" if row.bound is None else "{:.2f}, {:.2f}; {:.2f}".format(*row.bound)
        print(
            f"{row.name:{width}}  {row.roll:.3f}  {row.pitch:.3f}   {row.roll_rate:.3f} "
            f"{row.pitch_rate:.3f}   {bound:16}  {WORDS[row.met]}"
        )
    for ring in table.ringing:
        print(
            f"{ring.run}: pitch rings at {ring.measured:.3f} Hz (spectrum), {ring.reference:.2f} "
            f"(oscillations), predicted {ring.predicted:.3f} Hz  {WORDS[ring.met]}"
        )
    print("\ncauses of the remaining error, RMS of roll and pitch [deg]")
    width = max(len(cause.name) for cause in table.causes)
    for cause in table.causes:
        size = f"{degrees(cause.roll):.3f}  {degrees(cause.pitch):.3f}"
        print(f"{cause.name:{width}}  {cause.kind:8}  {size}  {cause.how}")
    for other in table.others:
        kept = "heading" if other.name == "yaw" else "velocity"
        print(
            f"{other.name}: error {other.predicted:.3g} {other.unit}, of constant {kept} "
            f"{other.simple:.3g} {other.unit} (medians); pooled {other.pooled[0]:.3g} and "
            f"{other.pooled[1]:.3g} {other.unit}"
        )
    for name, fit in table.fits.items():
        print(f"\n{name}, {len(fit.runs)} runs")
        print(fit.summary)
    if table.drag is not None:
        print("\nhorizontal drag, fitted to horizontal motion: not to be taken for drag, water or")
        print("tether move along with the vehicle")
        print(table.drag.summary)
