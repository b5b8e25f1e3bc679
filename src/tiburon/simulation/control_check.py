"""Controllers in Python that were written for one case, found before they run on a batch.

A controller gets the states of all cases at once, cases first. One that was written for a single
case takes cases for joints: `state.q[0]` is then all of case 0. Its commands mostly have a wrong
shape, which is refused. Where the batch has as many cases as the robot has variables, they have the
right one and are wrong. For such batches alone, a controller that keeps nothing from call to call
computes the commands of a batch and of its first case apart; both must agree. One that may keep
something, such as an object, is not called more often: its first state refuses what takes cases for
joints, a single index among others.
"""

import contextlib
import dis
import functools
import io
import random
import sys
import sysconfig
import types
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NoReturn

import numpy as np

from tiburon.errors import ModelError
from tiburon.simulation.state import Readings, State, new_state

KICK = 0.1
"""Size of random changes of states, so that no two of their entries are alike [m, rad, ...]."""

AGREEMENT = 1e-6
"""Difference of commands, relative to the largest, that counts as rounding."""

ADVICE = (
    "arrays of the state have the cases first; write state.q[..., 0] for the first joint of all "
    "cases and np.stack([...], axis=-1) for commands, or run the cases one by one"
)


def first_state(
    control: Callable[[State], Any],
    state: State,
    batch: tuple[int, ...],
    write: Callable[[Any, Any], None],
) -> State:
    """Return the first state for a controller, unless it was written for one case.

    Args:
        control: The controller.
        state: State of all cases, cases first.
        batch: Shape of the batch.
        write: Puts commands into rows, as `CommandRow.write` does.

    Raises:
        ModelError: If its commands for a batch are not those for its first case.
    """
    model = state.system.model
    sizes = {model.nq, model.nv, state.x.shape[-1], state.u.shape[-1]}
    sizes |= {part.shape[-1] for part in state.sensors.values() if np.ndim(part)}
    if batch[0] not in sizes:
        # commands of another shape are refused where they are written
        return state
    arrays = arrays_of(control)
    if arrays is None:
        return _changed(state, lambda part: part.view(CasesFirst))
    many = _kicked(state)
    first = (0,) * len(batch)
    one = _changed(many, lambda part: part[first].copy())
    found = []
    for probe in (many, one):
        commands = np.full(probe.u.shape, np.nan)
        try:
            with _put_back(arrays), contextlib.redirect_stdout(io.StringIO()):
                write(commands, control(probe))
        except (Exception, SystemExit):
            # it is for batches alone, or its own call shows what is wrong
            return state
        found.append(commands)
    together, alone = found[0][first], found[1]
    scale = np.nanmax(np.abs(found[0]), initial=0.0)
    if np.allclose(together, alone, rtol=0.0, atol=AGREEMENT * scale, equal_nan=True):
        return state
    raise ModelError(
        f"control: expected commands of each of the {batch[0]} cases of the batch, got others for "
        f"the first of them than for it alone ({_listed(together)} and {_listed(alone)}): {ADVICE};"
        " if commands of a case shall depend on other cases, give the batch one more dimension: "
        "q[None]"
    )


def _listed(commands: Any) -> str:
    shown = ", ".join(f"{x:.4g}" for x in commands[:4])
    return f"[{shown}, ...]" if len(commands) > 4 else f"[{shown}]"


def _changed(state: State, change: Callable[[Any], Any]) -> State:
    """Return a state with other arrays; times of cases are arrays, too."""
    time = change(state.time[..., None])[..., 0] if np.ndim(state.time) else state.time
    q, v, x, u = (change(part) for part in (state.q, state.v, state.x, state.u))
    readings = Readings({name: change(part) for name, part in state.sensors.items()})
    return new_state(state.system, time, q, v, x, u, readings)


def _kicked(state: State) -> State:
    """Return a state whose entries differ: from zero, of cases, and of joints."""
    rng = np.random.default_rng(0)
    return _changed(state, lambda part: part + KICK * rng.uniform(0.5, 1.5, np.shape(part)))


@contextlib.contextmanager
def _put_back(arrays: Sequence[Any]) -> Iterator[None]:
    """Restore arrays and global random numbers at the end."""
    numpy_state, python_state = np.random.get_state(), random.getstate()  # noqa: NPY002
    saved = [array.copy() for array in arrays]
    try:
        yield
    finally:
        np.random.set_state(numpy_state)  # noqa: NPY002
        random.setstate(python_state)
        for array, values in zip(arrays, saved, strict=True):
            if array.flags.writeable:
                array[...] = values


class CasesFirst(np.ndarray[Any, Any]):
    """Values of a batch, of which no index and no product may take cases for joints."""

    def __getitem__(self, key: Any) -> Any:
        """Return values; one index for several dimensions is refused."""
        marks = isinstance(key, np.ndarray) and key.dtype == bool
        whole = key is Ellipsis or (isinstance(key, slice) and key == slice(None))
        if self.ndim > 1 and not (marks or whole or isinstance(key, tuple)):
            self._refuse(f"the index [{key}]")
        return np.asarray(self)[key]

    def __iter__(self) -> Iterator[Any]:
        """Refuse to take cases one by one, as if they were joints."""
        if self.ndim > 1:
            self._refuse("a loop or an assignment that takes them one by one")
        return iter(np.asarray(self))

    def __rmatmul__(self, other: Any) -> Any:
        """Refuse products with a matrix from the left, which sum over cases."""
        self._refuse("a product with a matrix from the left")

    def reshape(self, *shape: Any, **options: Any) -> Any:
        """Return plain values in other dimensions."""
        return np.asarray(self).reshape(*shape, **options)

    def transpose(self, *axes: Any) -> Any:
        """Return plain values in another order of dimensions."""
        return np.asarray(self).transpose(*axes)

    T = property(transpose)

    def _refuse(self, what: str) -> NoReturn:
        raise ModelError(
            f"control: expected commands of each of the {self.shape[0]} cases of the batch, got "
            f"{what} of a state with as many variables: {ADVICE}; case 0 is state.q[0, :]"
        )


FIXED = (
    *(type(None), bool, int, float, complex, str, bytes, np.generic, np.ufunc, type(np.stack)),
)
"""Types whose instances cannot change; elements of arrays can, but are put back."""

CHANGES = ("STORE_GLOBAL", "DELETE_GLOBAL", "STORE_ATTR", "DELETE_ATTR")
"""Instructions by which a function changes what outlives its call."""


def arrays_of(control: Any) -> list[Any] | None:
    """Return the arrays that a controller names; None unless these alone could change in a call.

    Functions whose closures, defaults and global variables are numbers, texts, arrays, robots,
    modules of libraries and functions of the same kind keep nothing from call to call.
    """
    found: list[Any] = []
    seen: set[int] = set()
    pending = [control]
    while pending:
        thing = pending.pop()
        if id(thing) in seen or isinstance(thing, FIXED) or _is_library(thing):
            continue
        seen.add(id(thing))
        if isinstance(thing, np.ndarray) and not thing.dtype.hasobject:
            found.append(thing)
        elif isinstance(thing, tuple):
            pending += thing
        elif isinstance(thing, functools.partial):
            pending += [thing.func, thing.args, *thing.keywords.values()]
        elif isinstance(thing, types.FunctionType) and not _changes(thing.__code__):
            pending += [cell.cell_contents for cell in thing.__closure__ or ()]
            pending += [*(thing.__defaults__ or ()), *(thing.__kwdefaults__ or {}).values()]
            names = _names(thing.__code__)
            pending += [thing.__globals__[name] for name in names if name in thing.__globals__]
        else:
            return None
    return found


def _is_library(thing: Any) -> bool:
    """Return whether an object is code of Python or an installed package, or one of this package.

    Bound methods of built-in types change what they belong to.
    """
    if isinstance(thing, (types.ModuleType, types.FunctionType, type)):
        name = thing.__name__ if isinstance(thing, types.ModuleType) else thing.__module__
    elif isinstance(thing, types.BuiltinFunctionType):
        return _is_library(thing.__self__)
    else:
        name = type(thing).__module__
        return name.partition(".")[0] == "tiburon"
    top = name.partition(".")[0]
    file = getattr(sys.modules.get(top), "__file__", None) or ""
    installed = (sysconfig.get_path("purelib"), sysconfig.get_path("platlib"))
    return top in (*sys.stdlib_module_names, "tiburon") or file.startswith(installed)


def _codes(code: types.CodeType) -> list[types.CodeType]:
    """Return code with that of the functions inside it."""
    inner = [item for item in code.co_consts if isinstance(item, types.CodeType)]
    return [code, *(found for item in inner for found in _codes(item))]


def _names(code: types.CodeType) -> set[str]:
    """Return the names that code looks up."""
    return {name for part in _codes(code) for name in part.co_names}


def _changes(code: types.CodeType) -> bool:
    """Return whether code assigns to global variables, to those it closes over or to attributes."""
    if "open" in _names(code):
        return True
    return any(
        step.opname in CHANGES or (step.opname == "STORE_DEREF" and step.argval in code.co_freevars)
        for part in _codes(code)
        for step in dis.get_instructions(part)
    )
