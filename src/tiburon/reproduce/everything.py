"""All reproductions as tables of cells: one page with every published value beside ours."""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from time import perf_counter
from typing import Any, NamedTuple

import numpy as np

from tiburon.errors import TiburonError
from tiburon.formats.load import load
from tiburon.functions.compilation import compile as compiled
from tiburon.functions.dynamics import forward_dynamics
from tiburon.functions.hybrid_dynamics import hybrid_dynamics
from tiburon.model import Fixed, Inertia, Model, Water, World
from tiburon.reproduce import chains, operation_counts, stars
from tiburon.reproduce.cells import (
    BASES,
    DERIVED,
    Cells,
    CellTable,
    cell_table,
    chosen_names,
    count_cells,
    measured,
    print_check,
    timing,
)
from tiburon.reproduce.contact_statistics import statistics_tables
from tiburon.reproduce.iftomm import benchmarks
from tiburon.reproduce.khan import khan_tables
from tiburon.reproduce.mcmillan import mcmillan_tables
from tiburon.reproduce.nahon import nahon_tables
from tiburon.reproduce.published import ALGORITHMS, STARS, Cost
from tiburon.reproduce.solids import added_mass_table

STATES = 64
"""Random states of the study of decoupled dynamics."""

MASS_RATIOS = (0.001, 0.01, 0.03, 0.1, 0.3, 1.0)
"""Mass of the arm over that of the vehicle."""


class Group(NamedTuple):
    """Reproductions that one command runs."""

    source: str
    """Author and year, or name of the collection."""

    tables: Callable[[], Iterable[CellTable]]


class Reproduced(NamedTuple):
    """Tables of one group."""

    name: str
    source: str
    tables: tuple[CellTable, ...]
    skipped: str = ""
    """Why there are none; empty where there are."""


@cell_table("McMillan, Orin and McGhee 1995, table II", "what water adds")
def _vehicle_paper() -> Cells:
    """McMillan, Orin and McGhee 1995: what water and a mobile base add, in operations and time."""
    known = {**ALGORITHMS, **STARS}
    names = ("paper_articulated", "paper_mobile", "paper_vehicle")
    printed = [known[name].at(6) for name in names]
    ours = [
        chains.articulated_body(6),
        chains.mobile_articulated_body(6),
        stars.vehicle_with_arm(6),
    ]

    def increase(costs: list[Cost], over: int) -> float:
        return 100.0 * (costs[2].total / costs[over].total - 1.0)

    bases = (("a mobile base", 1, 75.0, 78.8), ("a fixed base", 0, 115.0, 116.9))
    for what, over, published, right in bases:
        yield print_check(
            f"operations under water above those of {what} [%]",
            published,
            increase(printed, over),
            0.05,
            corrected=right,
            reason=f"the totals of table II differ by {right} %",
        )
    for what, over, *_ in bases:
        yield measured(
            f"the same by our counts [%], {what}",
            f"{increase(printed, over):.1f}",
            f"{increase(ours, over):.1f}",
            DERIVED,
        )


THIS_MACHINE = "ours: compiled kernels of this machine"
"""Remark on run times, which are shown, not judged."""


@cell_table("McMillan 1994, Table 20", "time of one iteration on a 150 MHz R4400")
def _iterations() -> Cells:
    """Forward dynamics under water of the vehicle with its arm, and of the walker on six legs."""
    for name, what, published in (
        ("tiburon_titan", "vehicle with an arm of six joints", "0.68 to 0.73"),
        ("aquarobot", "walker on six legs of four joints", "2.5 to 2.8"),
    ):
        robot = load(name)
        time = _time_of(compiled(forward_dynamics, robot, fluid=Water()), robot)
        yield measured(f"{what} [ms]", published, f"{1e3 * time:.3g}")
    yield THIS_MACHINE


@cell_table(
    "McMillan, Orin and McGhee 1995, section VI",
    "run time of an evaluation on a 150 MHz R4400, relative to a fixed base",
)
def _run_times() -> Cells:
    """Times of forward dynamics of an arm on a fixed, on a floating base, and under water."""
    rov = load("tiburon_titan")
    first, *rest = rov.bodies
    fixed = Model("arm", [replace(first, joint=Fixed("dock")), *rest])
    times = []
    for model, fluid in ((fixed, None), (rov, None), (rov, Water())):
        kernel = compiled(forward_dynamics, model, fluid=fluid)
        times.append(_time_of(kernel, model))
    for what, published, ours in (
        ("mobile base", 0.38 / 0.30, times[1] / times[0]),
        ("under water", 0.52 / 0.30, times[2] / times[0]),
    ):
        yield timing(f"{what}, relative to a fixed base", published, ours)
    for what, published, ours in zip(
        ("fixed base", "mobile base", "under water"), (0.30, 0.38, 0.52), times, strict=True
    ):
        yield measured(f"{what} [us]", f"{1e3 * published:.0f}", f"{1e6 * ours:.2f}")
    yield THIS_MACHINE


def _time_of(kernel: Callable[..., Any], model: Any) -> float:
    q, v = model.random_state(1)
    tau = np.zeros(model.nv)
    best = np.inf
    for _ in range(20):
        start = perf_counter()
        for _ in range(200):
            kernel(q, v, tau)
        best = min(best, (perf_counter() - start) / 200)
    return best


@cell_table(
    "McMillan 1994, section 7.5.2", "error of accelerations if the vehicle does not feel its arm"
)
def _decoupled() -> Cells:
    """McMillan 1994, section 7.5.2: error of a vehicle that does not feel its arm.

    The source asks for this study before decoupled dynamics is used, and has none.
    """
    free = World(gravity=(0.0, 0.0, 0.0))
    rov = load("tiburon_titan")
    first, *arm = rov.bodies
    alone = Model("vehicle", [first])
    rng = np.random.default_rng(7)
    q = np.array([rov.random_state(rng)[0] for _ in range(STATES)])
    v = 0.5 * rng.standard_normal((STATES, rov.nv))
    push = 20.0 * rng.standard_normal((STATES, rov.nv - 6))
    for ratio in MASS_RATIOS:
        scale = ratio * first.inertia.mass / sum(body.inertia.mass for body in arm)
        scaled = []
        for body in arm:
            xx, xy, xz, yy, yz, zz = (scale * x for x in body.inertia.tensor)
            mass = scale * body.inertia.mass
            light = Inertia(mass, body.inertia.com, (xx, xy, xz, yy, yz, zz))
            scaled.append(replace(body, inertia=light))
        robot = Model("vehicle with arm", [first, *scaled])
        tau = np.concatenate([np.zeros((STATES, 6)), scale * push], axis=1)
        coupled = forward_dynamics(robot, q, v, tau, world=free)
        base = forward_dynamics(alone, q[:, :7], v[:, :6], np.zeros((STATES, 6)), world=free)
        given = np.concatenate([base, np.zeros_like(push)], axis=1)
        decoupled, _ = hybrid_dynamics(robot, q, v, tau, given, first.joint.name, world=free)
        errors = [
            np.median(
                np.linalg.norm((decoupled - coupled)[:, part], axis=1)
                / np.linalg.norm(coupled[:, part], axis=1)
            )
            for part in (slice(0, 6), slice(6, None))
        ]
        yield measured(
            f"arm of {100 * ratio:g} % of the mass of the vehicle",
            "a study is called for",
            f"{100 * errors[0]:.2g} % vehicle, {100 * errors[1]:.2g} % arm",
        )
    yield (
        "tiburon_titan without weight and water, masses of its arm scaled; median over "
        f"{STATES} random states, relative to coupled dynamics"
    )


GROUPS: Mapping[str, Group] = {
    "operation-counts": Group(
        "Featherstone 1987, McMillan 1994 and 1995", operation_counts.cell_tables
    ),
    "vehicle-paper": Group("McMillan, Orin and McGhee 1995", lambda: (_vehicle_paper(),)),
    "run-times": Group("McMillan 1994 and 1995", lambda: (_iterations(), _run_times())),
    "decoupled": Group("McMillan 1994", lambda: (_decoupled(),)),
    "mcmillan": Group("McMillan 1994", mcmillan_tables),
    "khan": Group("Khan 2002", khan_tables),
    "nahon": Group("Nahon 1991", nahon_tables),
    "contact-statistics": Group("Featherstone 1987", statistics_tables),
    "iftomm": Group("IFToMM library of benchmark problems", benchmarks),
    "added-mass": Group("Potential flow", lambda: (added_mass_table(),)),
}
"""All reproductions, in the order of the page."""


def reproduce(
    only: Iterable[str] = (), begin: Callable[[str, int, int], None] | None = None
) -> tuple[Reproduced, ...]:
    """Run reproductions; one whose extra is not installed is skipped by name.

    Args:
        only: Names among `GROUPS`; all by default.
        begin: Called before each with its name, its number and the number of all.

    Raises:
        UnknownNameError: If there is no such reproduction.
    """
    wanted = chosen_names(only, tuple(GROUPS), "reproduction")
    found = []
    for k, name in enumerate(wanted):
        if begin is not None:
            begin(name, k, len(wanted))
        group = GROUPS[name]
        try:
            found.append(Reproduced(name, group.source, tuple(group.tables())))
        except ModuleNotFoundError as error:
            found.append(Reproduced(name, group.source, (), f"{error.name} is not installed"))
        except TiburonError as error:
            if "pip install" not in str(error):
                raise
            found.append(Reproduced(name, group.source, (), str(error)))
    return tuple(found)


def page(found: Iterable[Reproduced]) -> str:
    """Return one HTML page: a line per reproduction, then every table."""
    from tiburon.reproduce.cell_page import cell_page
    from tiburon.viewer.report import Section, table_markup

    groups = tuple(found)
    lines = []
    for group in groups:
        counts = count_cells(group.tables)
        agree = (
            f"{counts.good[basis]} of {counts.judged[basis]}" if counts.judged[basis] else ""
            for basis in BASES
        )
        numbers = (len(group.tables), *agree, counts.differing, counts.unjudged)
        lines.append((group.name, group.source, *numbers, group.skipped))
    head = ("", "source", "tables", *BASES, "differ", "not judged", "skipped")
    return cell_page(
        "Published values, reproduced",
        "Tables of the sources of this package: reference and its origin, corrected value with the "
        "reason, ours, and the verdict. Counts are of cells that agree, by what they are judged "
        "by. Times are never judged.",
        [
            table._replace(name=f"{group.name}, {table.name}")
            for group in groups
            for table in group.tables
        ],
        first=[Section("Reproductions", "", table_markup(lines, head))],
    )
