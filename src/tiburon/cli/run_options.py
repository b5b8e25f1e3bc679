"""Command-line options of runs: initial state, world, controller; assembly of closed loops."""

import importlib
import importlib.util
import sys
import traceback
import warnings
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from tiburon.actuation.contact_models import ContactModel
    from tiburon.arrays import NDArray
    from tiburon.model import Model, World
    from tiburon.simulation.integrators.integrator import Integrator


HOLD_FREQUENCY = 10.0
"""Closed-loop frequency of held joints [rad/s]."""

STATION_FREQUENCY = 0.8
"""Closed-loop frequency of station keeping [rad/s]; thrusters lag by tenths of a second."""

CONTROLS = ("gravity", "hold", "station")
"""Names of built-in controllers."""


def integrator_of(
    name: str | None,
    dt: float,
    rtol: float | None = None,
    atol: float | None = None,
    *,
    is_exact: bool = False,
) -> "Integrator":
    """Return the integrator of the words of a command."""
    from tiburon.simulation.integrators.integrator import EXACT_ATOL, EXACT_RTOL
    from tiburon.simulation.integrators.methods import ADAPTIVE, integrator_named

    if name is None:
        name = "dop853" if is_exact else "rk4"
    if is_exact and name in ADAPTIVE:
        rtol = EXACT_RTOL if rtol is None else rtol
        atol = EXACT_ATOL if atol is None else atol
    return integrator_named(name, dt, rtol, atol)


def values_by_name(
    option: str, text: str, names: Sequence[str], start: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Parse values: all of them, or some by name.

    Args:
        option: Name of the option, for messages.
        text: "0.1,0.2,0.3", or "elbow=0.5,wrist=-1".
        names: Names of the values.
        start: Default values, shape (len(names),).

    Raises:
        ShapeError: If the number of values is wrong.
        DomainError: If a value is not a number.
        UnknownNameError: If a name is unknown.
    """
    import tiburon as tb

    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    row = start.copy()
    if not any("=" in entry for entry in entries):
        if len(entries) != len(names):
            listed = f"{len(names)} values ({', '.join(names)}), or name=value"
            raise tb.ShapeError(option, listed, f"{len(entries)}")
        pairs = list(zip(names, entries, strict=True))
    else:
        pairs = [(name.strip(), value) for name, _, value in (e.partition("=") for e in entries)]
    for name, value in pairs:
        if name not in names:
            raise tb.UnknownNameError("variable", name, names, where=option)
        row[list(names).index(name)] = as_number(f"{option}: {name}", value)
    return row


def as_number(argument: str, text: str) -> float:
    """Parse one number.

    Raises:
        DomainError: If the text is not a number.
    """
    import tiburon as tb

    try:
        return float(text)
    except ValueError:
        raise tb.DomainError(argument, "a number", repr(text)) from None


def commands_by_name(option: str, given: Sequence[str]) -> dict[str, float]:
    """Parse "name=value" entries."""
    import tiburon as tb

    found = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not equals:
            raise tb.DomainError(option, "name=value", repr(entry))
        found[name.strip()] = as_number(f"{option}: {name}", value)
    return found


def start_of(model: "Model", pose: str | None, q: str | None) -> "NDArray[np.float64]":
    """Return the initial configuration from the options --pose and --q.

    Args:
        model: The robot.
        pose: Named configuration; by default the neutral one, or with loops the first named one.
        q: Values that replace those of the pose.

    Raises:
        UnknownNameError: If there is no such pose.
    """
    import numpy as np

    import tiburon as tb

    if pose is None and model.loops and model.poses:
        pose = next(iter(model.poses))
    if pose is not None and pose not in model.poses:
        raise tb.UnknownNameError("pose", pose, tuple(model.poses))
    start = model.neutral() if pose is None else np.array(model.poses[pose])
    if q is not None:
        start = values_by_name("--q", q, model.q_names, start)
    return np.asarray(model.normalize(start))


def world_of(robot: str) -> "World":
    """Return the world in the native file of a robot, or the usual one where it has none."""
    import tiburon as tb
    from tiburon import zoo

    if not robot.endswith(".toml") and robot not in zoo.names():
        return tb.World()
    try:
        return tb.load_world(robot)
    except tb.ModelFileError:
        # the file has been read as a robot: it is sound, and has no world
        return tb.World()


def surroundings(
    file: Path | None,
    gravity: tuple[float, float, float] | None,
    density: float | None,
    current: tuple[float, float, float] | None,
    surface: float | None,
    ground: float | None = None,
    robot: str | None = None,
    fluid: Sequence[str] | None = None,
) -> "World":
    """Return the world of a file with the properties that options override.

    Any option about water adds water; a coefficient of friction adds level ground.

    Args:
        file: World file; None for that of the robot.
        gravity: World axes [m/s^2].
        density: Density of the water [kg/m^3].
        current: Velocity of the water [m/s].
        surface: Height of its surface [m].
        ground: Coefficient of friction of level ground.
        robot: Name or file of the robot, whose native file may hold a world.
        fluid: Properties of the water, "name=value".
    """
    from dataclasses import replace

    import tiburon as tb

    if file is not None:
        world = tb.load_world(str(file))
    else:
        world = tb.World() if robot is None else world_of(robot)
    if ground is not None:
        world = replace(
            world,
            ground=replace(
                world.ground or tb.Ground(), static_friction=ground, kinetic_friction=ground
            ),
        )
    if gravity is not None:
        world = replace(world, gravity=gravity)
    options = {"density": density, "current": current, "surface": surface}
    given: dict[str, Any] = {name: value for name, value in options.items() if value is not None}
    for name, value in _properties(fluid or ()).items():
        if name in given:
            raise tb.DomainError("--fluid", f"{name} once", f"it twice, in --{name} too")
        given[name] = value
    if given:
        world = replace(world, fluid=replace(world.fluid or tb.Water(), **given))
    return world


def _properties(given: Sequence[str]) -> dict[str, Any]:
    """Parse properties of the water: "current=0.3,0,0", "density=1000"."""
    import tiburon as tb

    names = ("current", "density", "surface", "viscosity", "strips", "split_strips")
    found: dict[str, Any] = {}
    for entry in given:
        name, equals, text = (part.strip() for part in entry.partition("="))
        if not equals:
            raise tb.DomainError("--fluid", "name=value, such as current=0.3,0,0", repr(entry))
        if name not in names:
            raise tb.UnknownNameError("property", name, names, where="--fluid")
        if name in found:
            raise tb.DomainError("--fluid", f"{name} once", "it twice")
        argument = f"--fluid: {name}"
        if name == "split_strips":
            if text not in ("true", "false"):
                raise tb.OptionError(argument, ("true", "false"), text)
            found[name] = text == "true"
            continue
        numbers = tuple(as_number(argument, part) for part in text.split(","))
        if len(numbers) != (3 if name == "current" else 1):
            expected = "x,y,z" if name == "current" else "one number"
            raise tb.ShapeError(argument, expected, repr(text))
        whole = name == "strips" and numbers[0].is_integer()
        found[name] = numbers if name == "current" else int(numbers[0]) if whole else numbers[0]
    return found


def controller(
    word: str | None, model: "Model", world: "World", start: "NDArray[np.float64]"
) -> Callable[..., Any] | None:
    """Return the controller of the option --control.

    Args:
        word: "gravity", "hold", "station", a file of commands (.csv), or "module:function".
        model: The robot.
        world: Its surroundings.
        start: Configuration to hold [m or rad], shape (nq,).

    Raises:
        OptionError: If the option is none of these.
    """
    import tiburon as tb
    from tiburon.control.standing import hold_stance, stands

    if word is None:
        return None
    if word.endswith(".csv"):
        if not Path(word).is_file():
            raise tb.RunFileError(word, "no such file; --control takes a table of commands here")
        return tb.Replay.from_csv(word)
    if ":" in word:
        with user_code_errors(word):
            return load_function(word)
    if word == "gravity":
        return tb.GravityCompensation()
    if word == "hold" and stands(model, world):
        # legs carry the robot, which computed torque of a floating base does not know
        return hold_stance(model, start)
    if word == "hold":
        holding: Callable[..., Any] = _hold(model, start)
        return holding
    if word == "station":
        keeper = tb.StationKeeping.of(
            model, frequency=STATION_FREQUENCY, q=start, fluid=world.fluid
        )
        return tb.CombinedControl((keeper, _hold(model, start))) if _held(model) else keeper
    raise tb.OptionError("--control", (*CONTROLS, "FILE.csv", "module:function"), word)


def _held(model: "Model") -> list[str]:
    """Return the joints that a controller can hold: all with DoF except a floating base."""
    return [j.name for j in model.joints if j.nv and j.kind != "free"]


def _hold(model: "Model", start: "NDArray[np.float64]") -> Any:
    import tiburon as tb

    joints = _held(model)
    if not joints:
        raise tb.ModelError(
            f"robot {model.name!r}: has no joints to hold; --control station holds a vehicle "
            "with its thrusters"
        )
    target = [x for name in joints for x in start[model.slice(name, of="q")]]
    return tb.ComputedTorque.critical(target, HOLD_FREQUENCY, joints=tuple(joints))


@contextmanager
def user_code_errors(word: str | None) -> Iterator[None]:
    """Raise errors of a user's controller with its file and line.

    Args:
        word: Value of --control; errors outside user code pass unchanged.

    Raises:
        ModelError: Instead of any error that is not a `TiburonError`.
    """
    import tiburon as tb

    try:
        yield
    except Exception as error:
        if word is None or ":" not in word or isinstance(error, tb.TiburonError):
            raise
        place = word.rpartition(":")[0]
        frames = traceback.extract_tb(error.__traceback__)
        # the innermost line of the named file; of a module, the innermost that is not ours
        own = [frame for frame in frames if Path(frame.filename).name == Path(place).name]
        package = Path(tb.__file__).parent
        own = own or [f for f in frames if package not in Path(f.filename).resolve().parents]
        where = f"{Path(own[-1].filename).name}, line {own[-1].lineno}" if own else place
        if isinstance(error, SyntaxError) and error.filename:
            where = f"{Path(error.filename).name}, line {error.lineno}"
        raise tb.ModelError(
            f"--control {word}: {where}: {type(error).__name__}: {error}; fix the function"
        ) from error


def load_function(word: str) -> Callable[..., Any]:
    """Load a user's function.

    Args:
        word: "module:function", searched in the working directory too, or
            "file.py:function".

    Raises:
        UnknownNameError: If there is no such module or function.
    """
    import tiburon as tb

    place, _, name = word.rpartition(":")
    if place.endswith(".py"):
        path = Path(place)
        spec = importlib.util.spec_from_file_location(path.stem, path) if path.is_file() else None
        if spec is None or spec.loader is None:
            raise tb.ModelError(f"--control: no file {place!r}; write file.py:function")
        module = importlib.util.module_from_spec(spec)
        spec.loader.exec_module(module)
    else:
        # a console script, unlike `python`, does not search the working directory
        sys.path.insert(0, str(Path.cwd()))
        try:
            module = importlib.import_module(place)
        except ModuleNotFoundError as error:
            if error.name != place.partition(".")[0] and error.name != place:
                raise
            raise tb.ModelError(
                f"--control: no module {place!r} here or installed; write module:function, or "
                "file.py:function"
            ) from error
        finally:
            sys.path.pop(0)
    found = getattr(module, name, None)
    if not callable(found):
        known = [key for key, value in vars(module).items() if callable(value) and key[0] != "_"]
        raise tb.UnknownNameError("function", name, known, where=place)
    return found  # type: ignore[no-any-return]


MAX_LISTED = 6
"""Joints or loops listed in one message."""

MOTION_TOLERANCE = 1e-6
"""Smallest displacement [m or rad] or velocity [m/s or rad/s] of a joint that is reported."""

RANK_TOLERANCE = 1e-9
"""Relative singular value of the constraint Jacobian that counts as zero."""


def closed_start(
    model: "Model", pose: str | None, q: str | None, *, must_close: bool = True
) -> "NDArray[np.float64]":
    """Return the initial configuration of the options, assembled if its loops are open.

    Displacements of joints by assembly are printed to standard error.

    Args:
        model: The robot.
        pose: Named configuration, as in `start_of`.
        q: Values that replace those of the pose; joints named in it are held.
        must_close: False accepts a configuration that cannot be closed, and prints the residuals.

    Raises:
        LoopError: If loops cannot be closed, with the remaining residual of each.
        DomainError: If a residual is undefined there, as that of a disc that lies flat.
    """
    import tiburon as tb

    start = start_of(model, pose, q)
    held = _named_joints(model, q)
    try:
        position, words = assembled(model, start, held)
    except tb.LoopError as error:
        if must_close:
            raise
        position, words = start, f"{error}; shown as given: {_open_loops(model, start)}"
    except tb.DomainError as error:
        if must_close:
            raise
        position, words = start, f"{error}; shown as given"
    if words:
        print(f"note: {words}", file=sys.stderr)
    return position


def contact_of(word: str | None, pairs: list[str] | None = None) -> "ContactModel | None":
    """Return the model of contact of the options --contact and --pair.

    Raises:
        OptionError: If there is no such model, or a pair is not two names.
    """
    import tiburon as tb

    named = None if pairs is None else [tuple(pair.split(":")) for pair in pairs]
    for text, names in zip(pairs or (), named or (), strict=True):
        if len(names) != 2 or not all(names):
            raise tb.OptionError("--pair", ("FIRST:SECOND",), text)
    kinds: dict[str | None, Any] = {
        None: tb.DefaultContact,
        "rigid": tb.RigidContact,
        "compliant": tb.CompliantContact,
        "exact": tb.ExactContact,
    }
    if word == "none" and not named:
        return None
    if word not in kinds:
        expected = [kind for kind in kinds if kind] + ([] if named else ["none"])
        raise tb.OptionError("--contact", expected, word)
    found: ContactModel = kinds[word](pairs=named or None)
    return found


STAND = "stand"
"""Pose in which robots stand on level ground."""


def clear_start(
    model: "Model",
    world: "World",
    pose: str | None,
    q: str | None,
    contact: "ContactModel | None",
) -> "NDArray[np.float64]":
    """Return the initial configuration of the options, closed and without penetration.

    Where neither a pose nor values are given and the neutral configuration penetrates what it
    touches, the pose "stand" is taken, or the only pose without penetration; this is printed to
    standard error.

    Args:
        model: The robot.
        world: Its surroundings.
        pose: Named configuration, as in `start_of`.
        q: Values that replace those of the pose.
        contact: As in `simulate`.

    Raises:
        DomainError: If shapes of rigid contact overlap; the message names the poses in which they
            do not.
    """
    import numpy as np

    import tiburon as tb
    from tiburon.actuation.compliant_contact import CompliantContactElement
    from tiburon.actuation.contact_element import ContactElement
    from tiburon.actuation.contact_models import contact_elements
    from tiburon.functions.contact import TOUCHING_GAP, contacts_among
    from tiburon.simulation.limit_start import moved_to_limits

    start = closed_start(model, pose, q)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always", tb.ModelWarning)
        start = np.asarray(moved_to_limits(model, start[None])[0])
    for warning in caught:
        print(f"note: {warning.message}", file=sys.stderr)
    elements = contact_elements(model, world, contact)
    if not elements:
        return start
    (element,) = elements
    assert isinstance(element, ContactElement)

    def deepest(position: Any) -> tuple[float, str]:
        here = contacts_among(model, element.candidates, position)
        point = int(np.argmin(here.gap))
        return -float(here.gap[point]), here.names[point]

    depth, point = deepest(start)
    if depth <= TOUCHING_GAP:
        return start
    clear = [
        name for name, known in model.poses.items() if deepest(np.array(known))[0] <= TOUCHING_GAP
    ]
    if pose is None and q is None:
        chosen = STAND if STAND in clear else clear[0] if len(clear) == 1 else None
        if chosen is not None:
            print(
                f"note: starts in pose {chosen!r}, since at q = 0 contact {point!r} is {depth:.3g} "
                "m deep; --pose or --q choose another start",
                file=sys.stderr,
            )
            return closed_start(model, chosen, None)
    if isinstance(element, CompliantContactElement):
        return start
    advice = "move the robot with --q, or pass --contact none"
    if clear:
        advice = f"pass {' or '.join(f'--pose {name}' for name in clear)}, or {advice}"
    elif model.poses:
        advice += f"; its poses ({', '.join(model.poses)}) penetrate, too"
    raise tb.DomainError(
        f"start: contact {point!r}",
        "shapes that touch at most",
        f"a penetration of {depth:.3g} m",
        advice=advice,
    )


def closed_velocity(
    model: "Model", q: "NDArray[np.float64]", text: str | None
) -> "NDArray[np.float64]":
    """Return the initial velocity of the option --v, completed so that loops stay closed.

    Joints that are not named get the velocity of least norm, which is printed to standard error.
    Velocities given for all joints, and those of robots driven by time, are not changed.

    Args:
        model: The robot.
        q: Closed configuration [m or rad], shape (nq,).
        text: "0.1,0.2", or "crank=2" [m/s or rad/s]; None for a robot at rest.

    Raises:
        DomainError: If the loops do not permit these velocities.
    """
    import numpy as np

    import tiburon as tb
    from tiburon.functions.mobility import loop_rows

    v = np.zeros(model.nv)
    if text is None:
        return v
    v = values_by_name("--v", text, model.v_names, v)
    named = {entry.partition("=")[0].strip() for entry in text.split(",") if "=" in entry}
    if not model.loops or not named or model.plan.depends_on_time:
        return v
    _, J = loop_rows(model, q)
    free = [k for k, name in enumerate(model.v_names) if name not in named]
    v[free] = np.linalg.lstsq(J[:, free], -J @ v, rcond=RANK_TOLERANCE)[0]
    opening = float(np.abs(J @ v).max(initial=0.0))
    if opening > MOTION_TOLERANCE * float(np.abs(v).max()):
        raise tb.DomainError(
            "--v",
            "velocities that keep loops closed",
            f"{text}, which opens them by at least {opening:.3g} m/s or rad/s",
            advice="name fewer joints; the velocities of the others follow",
        )
    words = _listed(model, v, free, " at ", "/s")
    if words:
        print(f"note: to keep loops closed, {words}", file=sys.stderr)
    return v


def assembled(
    model: "Model", q: "NDArray[np.float64]", held: tuple[str, ...] = ()
) -> "tuple[NDArray[np.float64], str]":
    """Close the loops of a configuration and describe the assembly.

    Args:
        model: The robot, with loops or without.
        q: Initial guess [m or rad], shape (nq,).
        held: Names of joints that keep their positions.

    Returns:
        The closed configuration and a sentence; the given one and an empty text where its loops are
        closed to the precision of files.

    Raises:
        LoopError: If loops cannot be closed.
    """
    from tiburon.functions.assembly import assemble, is_closed
    from tiburon.loops.projection import START_TOLERANCE

    if not model.loops or is_closed(model, q, START_TOLERANCE):
        return q, ""
    found = assemble(model, q, hold=held).q
    kept = f", with {', '.join(held)} held" if held else ""
    moved = _listed(model, model.difference(q, found), range(model.nv), " by ")
    opened = _open_loops(model, q)
    return found, f"{opened} in the given configuration; assembled by moving {moved}{kept}"


def _open_loops(model: "Model", q: "NDArray[np.float64]") -> str:
    """List the open loops with their residuals, largest first."""
    from tiburon.functions.assembly import loop_names
    from tiburon.functions.mobility import loop_rows
    from tiburon.loops.projection import START_TOLERANCE

    gaps, _ = loop_rows(model, q)
    wide: dict[str, float] = {}
    for name, gap in zip(loop_names(model), gaps, strict=True):
        wide[name] = max(wide.get(name, 0.0), abs(float(gap)))
    listed = sorted(
        ((gap, name) for name, gap in wide.items() if gap > START_TOLERANCE), reverse=True
    )
    if not listed:
        return "a loop joint is closed only with its axis reversed"
    listing = ", ".join(f"{name!r} by {gap:.3g}" for gap, name in listed[:MAX_LISTED])
    more = f" and {len(listed) - MAX_LISTED} more" if len(listed) > MAX_LISTED else ""
    return f"loops are open ({listing}{more} [m or rad])"


def _listed(
    model: "Model", values: "NDArray[np.float64]", which: Sequence[int], word: str, per: str = ""
) -> str:
    """List displacements or velocities of joints, largest first."""
    from tiburon.results.header import velocity_units

    units = [unit.removesuffix("/s") + per for unit in velocity_units(model)]
    moving = [k for k in which if abs(values[k]) > MOTION_TOLERANCE]
    moving.sort(key=lambda k: -abs(values[k]))
    parts = [f"{model.v_names[k]}{word}{values[k]:+.3g} {units[k]}" for k in moving[:MAX_LISTED]]
    more = f", and {len(moving) - MAX_LISTED} more" if len(moving) > MAX_LISTED else ""
    return ", ".join(parts) + more


def _named_joints(model: "Model", q: str | None) -> tuple[str, ...]:
    """Return the joints named in an option such as "elbow=0.5"; plain values name none."""
    named = {entry.partition("=")[0].strip() for entry in (q or "").split(",") if "=" in entry}
    return tuple(
        joint.name
        for joint in model.joints
        if named.intersection(model.q_names[model.slice(joint.name, of="q")])
    )
