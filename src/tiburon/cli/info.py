"""`tiburon info`: description of a robot as a tree and tables."""

from collections.abc import Iterable
from typing import TYPE_CHECKING, Annotated, Any

import typer

from tiburon.cli.console import AsJson, Base, PackagePath, Robot, load_quietly, open_console

if TYPE_CHECKING:
    from rich.console import Console
    from rich.tree import Tree

    from tiburon.model import Model

MAX_TREE_DEPTH = 12
"""Indentation levels of the tree; deeper bodies are listed without further indentation."""

MAX_ROWS = 12
"""Bodies of one serial chain, and rows of one table, that are shown without --all."""

EXAMPLES = """
tiburon info puma560
tiburon info arm.urdf --package-path ~/robots --all
tiburon info arm.urdf --json
"""


def run(
    robot: Robot,
    base: Base = None,
    package_path: PackagePath = None,
    everything: Annotated[bool, typer.Option("--all", help="Show lists in full.")] = False,
    as_json: AsJson = False,
) -> None:
    """Show a robot: tree, state layout, actuators, masses, dimensions, loops, warnings."""
    from tiburon.formats.description import describe

    model, warnings = load_quietly(robot, package_path or (), base)
    described = describe(model)
    touching = _candidates(model, robot)
    if touching:
        described["contact_candidates"] = touching
    described["warnings"] = [*warnings, *described["warnings"], *_assembly(model)]
    if as_json:
        import json

        print(json.dumps(described, indent=2))
        return
    _print(open_console(), described, None if everything else MAX_ROWS)


def _candidates(model: "Model", robot: str) -> list[dict[str, Any]]:
    """Return what may touch: with the ground of the robot's world or level ground, and itself."""
    from tiburon.checks.contact_check import default_world
    from tiburon.cli.run_options import world_of
    from tiburon.contact.candidates import candidates_of
    from tiburon.errors import ModelError

    world = world_of(robot)
    if world.ground is None and model.contacts:
        world = default_world()
    try:
        found = candidates_of(model, world)
    except ModelError:
        # meshes and prescribed motions touch nothing; a run reports it
        return []
    return [
        {
            "name": candidate.name,
            "bodies": [candidate.first.body, candidate.second.body],
            "shapes": [candidate.first.kind, candidate.second.kind],
            "points": candidate.point_count,
            "static_friction": candidate.material.static_friction,
            "kinetic_friction": candidate.material.kinetic_friction,
            "restitution": candidate.material.restitution,
            "stiffness": candidate.material.normal_stiffness,
        }
        for candidate in found
    ]


def _assembly(model: "Model") -> list[str]:
    """Return how open loops of the initial configuration were closed, if any are open."""
    from tiburon.cli.run_options import assembled, start_of
    from tiburon.errors import DomainError, LoopError

    if not model.loops:
        return []
    try:
        _, words = assembled(model, start_of(model, None, None))
    except (LoopError, DomainError):
        # the mobility summary reports this, with the residuals
        return []
    return [f"{words}; save a pose 'home' that closes them"] if words else []


def _mobility_summary(robot: dict[str, Any]) -> str:
    """Summarize topology, paths and mobility of a robot with loops."""
    known = robot["mobility"]
    words = f"a {known['chain']} chain"
    if "poles" in known:
        first, second = known["poles"]
        words += f", {len(known['paths'])} paths from {first} to {second}"
    return f"{words}; {known['summary']}"


def _print(console: "Console", robot: dict[str, Any], limit: int | None) -> None:
    """Print all sections of a description."""
    from rich.text import Text

    console.print(Text.assemble((robot["name"], "bold"), "  ", robot["about"]))
    size = [high - low for low, high in zip(*robot["extent"].values(), strict=True)]
    console.print(
        Text(
            f"{robot['topology']}; {_count(robot['bodies'], 'body', 'bodies')}, "
            f"nq = {robot['nq']}, nv = {robot['nv']}; {robot['mass']:.4g} kg; "
            f"{size[0]:.3g} x {size[1]:.3g} x {size[2]:.3g} m{_wet(robot['bodies'])}"
        )
    )
    console.print()
    console.print(_tree(robot, limit))
    _state(console, robot, limit)
    _parts(console, robot, limit)
    _warnings(console, robot, limit)


def _wet(bodies: list[dict[str, Any]]) -> str:
    """Return how many bodies have hydrodynamic coefficients, if any."""
    count = sum(body["in_water"] for body in bodies)
    if not count:
        return ""
    return f"; hydrodynamic coefficients: {count} of {len(bodies)} bodies"


def _count(items: list[Any], one: str, many: str) -> str:
    return f"{len(items)} {one if len(items) == 1 else many}"


# -- the tree --------------------------------------------------------------------------------------


def _tree(robot: dict[str, Any], limit: int | None) -> "Tree":
    """Draw the bodies below the world, each with its joint and mass."""
    from rich.tree import Tree

    joints = {joint["name"]: joint for joint in robot["joints"]}
    carried: dict[str, list[dict[str, Any]]] = {}
    for body in robot["bodies"]:
        carried.setdefault(body["parent"], []).append(body)
    root = Tree("world", guide_style="dim")
    # an explicit stack: chains may exceed Python's recursion limit
    waiting = [(root, body, 1, 0) for body in reversed(carried.get("world", []))]
    left_out = 0
    while waiting:
        branch, body, level, row = waiting.pop()
        below = carried.get(body["name"], [])
        if limit is not None and row >= limit:
            left_out += 1
            node = branch
        else:
            node = branch.add(_body_label(body, joints[body["joint"]], after=row > 0))
        # deep chains stay at one level, and only their first bodies are shown
        deep = level >= MAX_TREE_DEPTH and len(below) == 1
        for child in reversed(below):
            if deep:
                waiting.append((branch, child, level, row + 1))
            else:
                waiting.append((node, child, level + 1, 0))
    if left_out:
        root.add(f"and {left_out} more below; --all shows them", style="dim")
    return root


def _body_label(body: dict[str, Any], joint: dict[str, Any], after: bool) -> Any:
    """Return a body with its mass and joint; `after` if the line above is its parent."""
    from rich.text import Text

    mass = f"{body['mass']:.4g} kg" if body["mass"] else "no mass"
    return Text.assemble(
        ("then " if after else "", "dim"),
        (body["name"], "bold cyan"),
        f"  {mass}  ",
        (_joint_label(joint), "green"),
    )


def _joint_label(joint: dict[str, Any]) -> str:
    """Return the label of a joint, such as "elbow: revolute about y"."""
    words = f"{joint['name']}: {joint['kind']}"
    if "axis" in joint and joint["kind"] in ("revolute", "prismatic", "screw", "cylindrical"):
        preposition = "along" if joint["kind"] == "prismatic" else "about"
        words += f" {preposition} {_axis_label(joint['axis'])}"
    if "leader" in joint:
        words += f" to {joint['leader']}"
    return words


def _axis_label(axis: list[float]) -> str:
    """Return a coordinate axis by its letter, any other by its components."""
    for letter, place in zip("xyz", range(3), strict=True):
        if abs(axis[place]) == 1.0:
            return letter if axis[place] > 0.0 else f"-{letter}"
    return "(" + ", ".join(f"{x:.3g}" for x in axis) + ")"


# -- tables ----------------------------------------------------------------------------------------


def _state(console: "Console", robot: dict[str, Any], limit: int | None) -> None:
    """Print the indices of each joint in q and v, with its limits."""
    moving = [joint for joint in robot["joints"] if joint["q"] or joint["v"]]
    rows = []
    for joint in moving:
        limits = joint.get("limits", {})
        rows.append(
            (
                joint["name"],
                joint["kind"],
                _span(joint["q"]),
                _span(joint["v"]),
                _range(limits.get("lower"), limits.get("upper")),
                _number(limits.get("velocity")),
                _number(limits.get("force")),
            )
        )
    headers = ("joint", "kind", "q", "v", "range [rad, m]", "speed", "force [N m, N]")
    _table(console, "State", headers, rows, limit)


def _parts(console: "Console", robot: dict[str, Any], limit: int | None) -> None:
    """Print tables of actuators, thrusters, springs, loops, contacts and frames."""
    from rich.text import Text

    drives = [
        (a["name"], a["joint"], f"{a['ratio']:g}", _range(*a["force_limits"]))
        for a in robot["actuators"]
    ]
    _table(console, "Actuators", ("name", "joint", "ratio", "force [N m, N]"), drives, limit)
    thrusters = [
        (t["name"], t["body"], _vector(t["position"]), _vector(t["direction"]),
         _range(*t["thrust_limits"]))
        for t in robot["thrusters"]
    ]  # fmt: skip
    headers = ("name", "body", "position [m]", "direction", "thrust [N]")
    _table(console, "Thrusters", headers, thrusters, limit)
    springs = [
        (s["name"], *s["ends"], f"{s['stiffness']:g}", f"{s['damping']:g}", f"{s['rest_length']:g}")
        for s in robot["springs"]
    ]
    columns = ("stiffness [N/m]", "damping [N s/m]", "rest length [m]")
    _table(console, "Springs", ("name", "first", "second", *columns), springs, limit)
    cylinders = [
        (c["name"], *(c["ends"] or ("", "")), c["joint"] or "", f"{c['stroke']:g}")
        for c in robot["cylinders"]
    ]
    headers = ("name", "first", "second", "joint", "stroke [m, rad]")
    _table(console, "Hydraulic cylinders", headers, cylinders, limit)
    cables = [(c["name"], *c["ends"], _range(*c["tension_limits"])) for c in robot["cables"]]
    _table(console, "Cables", ("name", "first", "second", "tension [N]"), cables, limit)
    loops = [(x["name"], x["kind"], str(x["first"] or ""), x["second"]) for x in robot["loops"]]
    _table(console, "Loops", ("name", "closed by", "first", "second"), loops, limit)
    if robot["loops"]:
        console.print(Text(_mobility_summary(robot)))
    contacts = [(c["name"], c["body"], _vector(c["position"])) for c in robot["contacts"]]
    _table(console, "Contact points", ("name", "body", "position [m]"), contacts, limit)
    touching = [
        (
            c["name"],
            f"{c['shapes'][0]} on {c['shapes'][1]}",
            str(c["points"]),
            f"{c['static_friction']:g} / {c['kinetic_friction']:g}",
            f"{c['restitution']:g}",
            f"{c['stiffness']:g}" if c["stiffness"] else "",
        )
        for c in robot.get("contact_candidates", ())
    ]
    surfaces = ("friction static / kinetic", "restitution", "stiffness [N/m]")
    _table(console, "What may touch", ("pair", "shapes", "points", *surfaces), touching, limit)
    frames = [(frame["name"], frame["body"]) for frame in robot["frames"]]
    _table(console, "Frames", ("name", "body"), frames, limit)
    if robot["poses"]:
        console.print(Text(f"\nPoses: {', '.join(robot['poses'])}"))


def _table(
    console: "Console",
    title: str,
    headers: tuple[str, ...],
    rows: Iterable[tuple[str, ...]],
    limit: int | None,
) -> None:
    """Print a table without its empty columns; print nothing without rows."""
    from rich.table import Table
    from rich.text import Text

    rows = list(rows)
    if not rows:
        return
    kept = [k for k in range(len(headers)) if any(row[k] for row in rows)]
    table = Table(box=None, pad_edge=False, header_style="dim")
    for k in kept:
        table.add_column(Text(headers[k]), no_wrap=True)
    shown = rows if limit is None or len(rows) <= limit + 2 else rows[:limit]
    for row in shown:
        # as text: names from files must not be parsed as markup
        table.add_row(*(Text(row[k]) for k in kept))
    console.print(f"\n[bold]{title}[/bold]")
    console.print(table)
    if len(shown) < len(rows):
        console.print(f"[dim]and {len(rows) - len(shown)} more; --all shows them[/dim]")


def _warnings(console: "Console", robot: dict[str, Any], limit: int | None) -> None:
    """Print the warnings."""
    from rich.text import Text

    warnings = robot["warnings"]
    if not warnings:
        return
    console.print(f"\n[bold yellow]Warnings ({len(warnings)})[/bold yellow]")
    for warning in warnings[:limit]:
        console.print(Text(f"- {warning}"))
    if limit is not None and len(warnings) > limit:
        console.print(f"[dim]and {len(warnings) - limit} more; --all shows them[/dim]")


def _span(indices: list[int]) -> str:
    """Return consecutive indices in slice notation."""
    if not indices:
        return ""
    return f"{indices[0]}" if len(indices) == 1 else f"{indices[0]}:{indices[-1] + 1}"


def _number(value: float | list[float | None] | None) -> str:
    if isinstance(value, list):
        known = any(x is not None for x in value)
        return ", ".join(_number(x) or "any" for x in value) if known else ""
    return "" if value is None else f"{value:.4g}"


def _range(low: Any, high: Any) -> str:
    """Return a range, or nothing if both ends are unlimited."""
    if not _number(low) and not _number(high):
        return ""
    return f"{_number(low) or '-inf'} .. {_number(high) or 'inf'}"


def _vector(values: list[float]) -> str:
    # + 0.0 turns negative zero into zero
    return "(" + ", ".join(f"{round(x, 4) + 0.0:g}" for x in values) + ")"
