"""Snapshots of everything that user code can read.

Equal snapshots mean that user code computes the same as before, so that it need not be traced
again. A snapshot follows functions into their closures, defaults, globals and called functions, and
objects into their attributes and classes. Data are compared by value, code by identity. Whatever
cannot be followed (iterators, random generators, files, types of extension modules, imports inside
a function, dynamic lookup of names) has no snapshot: such code is traced again at every use.
"""

from __future__ import annotations

import builtins
import dis
import functools
import sys
from collections.abc import Callable, Iterator, Sequence
from dataclasses import is_dataclass
from types import (
    BuiltinFunctionType,
    CellType,
    CodeType,
    FunctionType,
    GetSetDescriptorType,
    MemberDescriptorType,
    MethodType,
    ModuleType,
)
from typing import Any

import numpy as np

from tiburon.errors import ModelError
from tiburon.trace.declared import Identical, is_declared

_ROOMS = ("tiburon", "numpy")
_PURE_MODULES = ("tiburon", "numpy", "numpy.linalg", "math", "cmath", "operator")
"""Modules whose functions depend on their arguments alone, but for those of `_IMPURE`."""

_IMPURE = ("load", "read", "save", "write", "from", "open", "mem", "random", "time", "seterr")
"""Beginnings of names in those modules that may read files or hidden state."""

_PURE_BUILTINS = frozenset(
    getattr(builtins, name)
    for name in (
        *("abs", "all", "any", "bool", "complex", "dict", "divmod", "enumerate", "filter", "float"),
        *("frozenset", "int", "isinstance", "issubclass", "len", "list", "map", "max", "min"),
        *("object", "pow", "property", "range", "reversed", "round", "set", "slice", "sorted"),
        *("str", "sum", "super", "tuple", "type", "zip", "staticmethod", "classmethod", "callable"),
        *("ArithmeticError", "AssertionError", "Exception", "IndexError", "KeyError"),
        *("NotImplementedError", "RuntimeError", "TypeError", "ValueError", "ZeroDivisionError"),
    )
)
_NUMPY_SCALARS = frozenset(np.sctypeDict.values())
_NUMPY_FUNCTION = type(np.cross)

MOST_VALUES = 5000
"""Length of a snapshot beyond which tracing is no slower."""

_TEXTS = (type(None), bool, int, str, bytes, type(Ellipsis), type(NotImplemented))
_CLASS_ATTRIBUTES = ("__dict__", "__weakref__", "__doc__", "__module__", "__annotations__")
_DATACLASS_ATTRIBUTES = (
    *("__dataclass_fields__", "__dataclass_params__", "__repr__", "__eq__", "__hash__"),
    *("__setattr__", "__delattr__", "__replace__", "__getstate__", "__setstate__"),
)
"""Attributes that `dataclass` writes: how instances are made, shown and compared; these hold their
values themselves."""


class _UnknownError(Exception):
    """Something that a snapshot cannot follow."""


def snapshot(*things: object) -> tuple[Any, ...] | None:
    """Return all that user code in some objects can read; None if that is unknown.

    Args:
        *things: Functions, or objects with methods that are called.
    """
    try:
        return tuple(_Walk().of(things))
    except (_UnknownError, RecursionError):
        return None


class KeyedCode:
    """User code among the options of a kernel, keyed by its graph.

    Attributes:
        thing: The user's object, or one that holds such.
        graph_key: Text that is equal exactly if what it computes is.
    """

    __slots__ = ("_codes", "_element", "_reads", "_trace", "graph_key", "thing")

    def __init__(
        self, thing: Any, codes: Sequence[object], element: str, trace: Callable[[], str]
    ) -> None:
        """Trace user code.

        Args:
            thing: The user's object, or one that holds such.
            codes: The objects of the user.
            element: What they are, for messages.
            trace: Traces the thing and returns the key of its graph.
        """
        self.thing, self._codes, self._element, self._trace = thing, codes, element, trace
        # what user code reads, before it is traced
        self._reads = snapshot(*codes)
        self.graph_key = trace()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, KeyedCode) and other.graph_key == self.graph_key

    def __hash__(self) -> int:
        return hash(self.graph_key)

    def check_unchanged(self) -> None:
        """Raise `ModelError` if user code computes something else than when it was traced."""
        reads = snapshot(*self._codes)
        if reads is not None and reads == self._reads:
            return
        if self._trace() != self.graph_key:
            raise ModelError(
                f"{self._element}: your code computes something else than when it was compiled: an "
                "array, a global or an attribute that it reads has changed; make a new one"
            )
        self._reads = reads


class _Walk:
    """One walk over all objects that can be reached."""

    def __init__(self) -> None:
        self.found: list[Any] = []
        self._places: dict[int, int] = {}
        # visited objects stay alive, so that their addresses stay theirs
        self._visited: list[Any] = []
        self._names: dict[str, None] = {}
        self._modules: list[ModuleType] = []

    def of(self, things: tuple[object, ...]) -> list[Any]:
        """Return the values that were found, in the order of the walk."""
        self.visit(things)
        # attributes of modules, by all names that code mentions; they may lead to further names
        done: set[tuple[int, str]] = set()
        while True:
            pairs = [(m, n) for m in self._modules for n in self._names if (id(m), n) not in done]
            if not pairs:
                return self.found
            for module, name in pairs:
                done.add((id(module), name))
                if hasattr(module, name):
                    self.found.append(name)
                    self._visit_attribute(module, name)

    def _visit_attribute(self, module: ModuleType, name: str) -> None:
        value = getattr(module, name)
        shipped = module.__name__ in _PURE_MODULES
        if not shipped or isinstance(value, ModuleType | float):
            self.visit(value)
        elif name.startswith(_IMPURE):
            raise _UnknownError
        else:
            self.found.append(Identical(value))

    def visit(self, thing: Any) -> None:
        """Note one object and all that it holds."""
        kind, put = type(thing), self.found.append
        if kind in _TEXTS:
            put((kind, thing))
            return
        if kind is float or kind is complex:
            put((kind, repr(thing)))
            return
        place = self._places.get(id(thing))
        if place is not None:
            put(("seen", place))
            return
        if len(self.found) > MOST_VALUES:
            raise _UnknownError
        self._places[id(thing)] = len(self._visited)
        self._visited.append(thing)
        if isinstance(thing, np.ndarray | np.generic):
            if not (kind is np.ndarray or kind in _NUMPY_SCALARS) or thing.dtype.hasobject:
                raise _UnknownError
            put((kind, thing.dtype.str, thing.shape, thing.tobytes()))
        elif kind in (tuple, list):
            put((kind, len(thing)))
            for part in thing:
                self.visit(part)
        elif kind is dict:
            put((kind, len(thing)))
            for pair in thing.items():
                self.visit(pair)
        elif kind in (set, frozenset, range, slice):
            if kind in (set, frozenset) and not all(type(x) in (*_TEXTS, float) for x in thing):
                raise _UnknownError
            put((kind, repr(sorted(thing, key=repr) if kind in (set, frozenset) else thing)))
        elif kind is FunctionType:
            self._function(thing)
        elif kind is MethodType:
            self.visit((thing.__func__, thing.__self__))
        elif kind is functools.partial:
            self.visit((thing.func, thing.args, thing.keywords))
        elif kind is property:
            self.visit((thing.fget, thing.fset, thing.fdel))
        elif kind is staticmethod or kind is classmethod:
            self.visit(thing.__func__)
        elif kind is functools.cached_property:
            self.visit(thing.func)
        elif kind is ModuleType:
            self._module(thing)
        elif "typing" in (kind.__module__, getattr(thing, "__module__", None)):
            # annotations
            put(Identical(thing))
        elif isinstance(thing, type):
            self._class(thing)
        elif isinstance(thing, np.ufunc) or kind is BuiltinFunctionType:
            owner = getattr(thing, "__self__", None)
            if not (thing in _PURE_BUILTINS or owner is None or self._is_pure(owner)):
                raise _UnknownError
            put(Identical(thing))
        elif kind is _NUMPY_FUNCTION and not thing.__name__.startswith(_IMPURE):
            put(Identical(thing))
        else:
            self._instance(thing)

    def _is_pure(self, owner: Any) -> bool:
        return isinstance(owner, ModuleType) and owner.__name__ in ("math", "cmath", "_operator")

    def _module(self, module: ModuleType) -> None:
        name = module.__name__
        root = name.partition(".")[0]
        if name not in _PURE_MODULES:
            python = str(getattr(module, "__file__", None)).endswith(".py")
            if root in _ROOMS or _is_standard(root) or not python:
                raise _UnknownError
        self._modules.append(module)
        self.found.append(Identical(module))

    def _function(self, function: FunctionType) -> None:
        if function.__module__ and function.__module__.partition(".")[0] in _ROOMS:
            if function.__name__.startswith(_IMPURE):
                raise _UnknownError
            # shipped code; what it closes over may be the user's
            self.found.append(Identical(function.__code__))
            self.visit(_cells(function))
            return
        if _is_standard(str(function.__module__).partition(".")[0]):
            raise _UnknownError
        self.visit((function.__defaults__, function.__kwdefaults__, function.__dict__))
        self.visit(_cells(function))
        table, known = function.__globals__, vars(builtins)
        # type stubs of some versions lack it
        own: Any = function
        if own.__builtins__ is not known:
            raise _UnknownError
        for code in _codes(function.__code__):
            self.found.append(Identical(code))
            for name in code.co_names:
                self._names.setdefault(name)
                if name in table:
                    self.found.append(name)
                    self.visit(table[name])
                elif name in _looked_up(code):
                    if known.get(name) not in _PURE_BUILTINS:
                        raise _UnknownError
                    self.found.append(Identical(known[name]))

    def _class(self, kind: type) -> None:
        root = kind.__module__.partition(".")[0]
        self.found.append(Identical(kind))
        if kind in _PURE_BUILTINS or kind in _TEXTS or root == "numpy":
            return
        if root == "tiburon" and is_declared(kind):
            return
        if type(kind) is not type or _is_standard(root):
            raise _UnknownError
        self.visit(tuple(base for base in kind.__bases__ if base is not object))
        for name, value in tuple(vars(kind).items()):
            if name in _CLASS_ATTRIBUTES or type(value) is MemberDescriptorType:
                continue
            if is_dataclass(kind) and (name in _DATACLASS_ATTRIBUTES or _is_written(name, value)):
                continue
            if type(value) is GetSetDescriptorType:
                raise _UnknownError
            self.found.append(name)
            self.visit(value)

    def _instance(self, thing: Any) -> None:
        kind = type(thing)
        unchanged = getattr(kind, "check_unchanged", None)
        if unchanged is not None and kind.__module__.partition(".")[0] == "tiburon":
            # a model is immutable, and its user code is checked here
            unchanged(thing)
            self.found.append(Identical(thing))
            return
        if any(base is not object and type(base) is not type for base in kind.__mro__):
            raise _UnknownError
        self._class(kind)
        roots = [base.__module__.partition(".")[0] for base in kind.__mro__[:-1]]
        if any(root == "numpy" or _is_standard(root) for root in roots):
            raise _UnknownError
        for base in kind.__mro__:
            for name, value in vars(base).items():
                if type(value) is MemberDescriptorType and hasattr(thing, name):
                    self.found.append(name)
                    self.visit(getattr(thing, name))
        self.visit(dict(getattr(thing, "__dict__", {})))


def _is_written(name: str, value: Any) -> bool:
    """Return whether `dataclass` wrote a constructor."""
    code = getattr(value, "__code__", None)
    return name == "__init__" and code is not None and code.co_filename == "<string>"


def _cells(function: FunctionType) -> tuple[Any, ...]:
    return tuple(map(_content, function.__closure__ or ()))


def _content(cell: CellType) -> Any:
    try:
        return cell.cell_contents
    except ValueError:
        raise _UnknownError from None


def _is_standard(root: str) -> bool:
    """Return whether a module came with Python, or is built in."""
    return root in sys.stdlib_module_names and root != "__main__"


@functools.lru_cache(maxsize=1024)
def _codes(code: CodeType) -> tuple[CodeType, ...]:
    """Return the code of a function and of all functions inside it."""

    def walk(code: CodeType) -> Iterator[CodeType]:
        if any(
            step.opname in ("IMPORT_NAME", "IMPORT_FROM") for step in dis.get_instructions(code)
        ):
            raise _UnknownError
        yield code
        for constant in code.co_consts:
            if isinstance(constant, CodeType):
                yield from walk(constant)

    return tuple(walk(code))


@functools.lru_cache(maxsize=1024)
def _looked_up(code: CodeType) -> frozenset[str]:
    """Return the names that code looks up among globals and builtins, not as attributes."""
    return frozenset(
        str(step.argval)
        for step in dis.get_instructions(code)
        if "GLOBAL" in step.opname or "NAME" in step.opname
    )
