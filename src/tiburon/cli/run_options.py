"""From words of the command line to what a run needs: start, surroundings, controller."""

import importlib
import importlib.util
import sys
import traceback
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import numpy as np

    from tiburon.arrays import NDArray
    from tiburon.model import Model, World

HOLD_FREQUENCY = 10.0
"""How fast held joints answer errors [rad/s]."""

STATION_FREQUENCY = 0.8
"""How fast station keeping answers errors [rad/s]; thrusters lag by tenths of a second."""

CONTROLS = ("gravity", "hold", "station")
"""Controllers that are known by a word."""


def numbers_by_name(
    option: str, text: str, names: Sequence[str], start: "NDArray[np.float64]"
) -> "NDArray[np.float64]":
    """Read numbers: all of them, or some by name.

    Args:
        option: Name of the option, for messages.
        text: "0.1,0.2,0.3", or "elbow=0.5,wrist=-1".
        names: Names of the numbers.
        start: Numbers that hold where none are given, shape (len(names),).

    Raises:
        ShapeError: If it is the wrong number of them.
        DomainError: If one is none.
        UnknownNameError: If a name is not among them.
    """
    import tiburon as tb

    entries = [entry.strip() for entry in text.split(",") if entry.strip()]
    row = start.copy()
    if not any("=" in entry for entry in entries):
        if len(entries) != len(names):
            listed = f"{len(names)} numbers ({', '.join(names)}), or name=number"
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
    """Read one number.

    Raises:
        DomainError: If it is none.
    """
    import tiburon as tb

    try:
        return float(text)
    except ValueError:
        raise tb.DomainError(argument, "a number", repr(text)) from None


def commands_by_name(option: str, given: Sequence[str]) -> dict[str, float]:
    """Read "name=number" entries."""
    import tiburon as tb

    found = {}
    for entry in given:
        name, equals, value = entry.partition("=")
        if not equals:
            raise tb.DomainError(option, "name=number", repr(entry))
        found[name.strip()] = as_number(f"{option}: {name}", value)
    return found


def start_of(model: "Model", pose: str | None, q: str | None) -> "NDArray[np.float64]":
    """Return the position that words ask for.

    Args:
        model: The robot.
        pose: A named position; by default the neutral one, or, of a robot with loops, the first
            that it names.
        q: Numbers that replace those of the pose.

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
        start = numbers_by_name("--q", q, model.q_names, start)
    return np.asarray(model.normalize(start))


def surroundings(
    file: Path | None,
    gravity: tuple[float, float, float] | None,
    density: float | None,
    current: tuple[float, float, float] | None,
    surface: float | None,
) -> "World":
    """Return the world that words ask for: that of a file, and what is said beside it.

    Water is there as soon as anything is said about it.
    """
    from dataclasses import replace

    import tiburon as tb

    world = tb.World() if file is None else tb.load_world(file)
    if gravity is not None:
        world = replace(world, gravity=gravity)
    said = {"density": density, "current": current, "surface": surface}
    given: dict[str, Any] = {name: value for name, value in said.items() if value is not None}
    if given:
        world = replace(world, fluid=replace(world.fluid or tb.Water(), **given))
    return world


def controller(
    word: str | None, model: "Model", world: "World", start: "NDArray[np.float64]"
) -> Callable[..., Any] | None:
    """Return the controller that a word asks for.

    Args:
        word: "gravity", "hold", "station", a file of commands (.csv), or "module:function".
        model: The robot.
        world: Its surroundings.
        start: Position that is held [m or rad], shape (nq,).

    Raises:
        OptionError: If it is none of these.
    """
    import tiburon as tb

    if word is None:
        return None
    if word.endswith(".csv"):
        if not Path(word).is_file():
            raise tb.RunFileError(word, "no such file; --control takes a table of commands here")
        return tb.Replay.from_csv(word)
    if ":" in word:
        with errors_of_users_code(word):
            return load_function(word)
    if word == "gravity":
        return tb.GravityCompensation()
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
    """Return the joints that a controller can hold: all that move but a floating base."""
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
def errors_of_users_code(word: str | None) -> Iterator[None]:
    """Tell what went wrong in a controller that a user wrote, and in which line.

    Args:
        word: What --control was given; errors beside code of users pass unchanged.

    Raises:
        ModelError: Instead of an error that is none of this package.
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
            f"--control {word}: {where}: {type(error).__name__}: {error}; mend the function"
        ) from error


def load_function(word: str) -> Callable[..., Any]:
    """Load a function that a user wrote.

    Args:
        word: "module:function", the module looked for in the working directory too, or
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
        # a command, unlike `python`, does not look where it stands
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
