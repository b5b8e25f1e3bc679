"""Headers of sweeps: what is computed, as data; of functions they hold names and digests alone.

A store never holds code, and never decides which code runs: functions of a loaded sweep are passed
by the caller, or are those of the running script (`__main__`) that have the stored name and digest.
Keywords of `simulate` in a store are those that a sweep may pass on; no others are accepted.
"""

import json
import re
import sys
from collections.abc import Iterator, Mapping
from dataclasses import fields, is_dataclass
from functools import cached_property, partial
from hashlib import blake2b
from pathlib import Path
from types import BuiltinFunctionType, CellType, CodeType, FunctionType, MethodType
from typing import Any, NamedTuple

import numpy as np

from tiburon.argument_checks import positive
from tiburon.errors import RunFileError, shown
from tiburon.model import Model
from tiburon.parallel.design import Design, whole_seed
from tiburon.parallel.identity import Identity
from tiburon.parallel.sweep_cases import RUN_KEYWORDS, Layout, SweepPlan, check_names
from tiburon.results.encoding import (
    check_column,
    check_type,
    decode,
    encode,
    first_line,
    is_data,
)
from tiburon.version import installed_version

SCRIPT = "__main__"
"""Module whose functions a loaded sweep may use unasked."""

DIGEST_BYTES = 16
"""Size of the digest of a function [bytes]."""

FUNCTIONS = ("setup", "reduce")
"""What may be code beside keywords of `simulate`."""

MAX_BLOCK = 2**31
"""Most cases of a block that a reader accepts."""


class Reference(NamedTuple):
    """A function, or another object that is code, by module and name."""

    module: str
    name: str
    digest: str
    """Digest of the code, and of the values that it holds."""

    @classmethod
    def of(cls, value: Any) -> "Reference":
        """Return the reference to a value."""
        module = str(getattr(value, "__module__", type(value).__module__))
        name = str(getattr(value, "__qualname__", type(value).__qualname__))
        text = json.dumps(_described(value, frozenset()), sort_keys=True)
        return cls(module, name, blake2b(text.encode(), digest_size=DIGEST_BYTES).hexdigest())

    @classmethod
    def read(cls, parts: Any) -> "Reference":
        """Return a reference from its parts in a file.

        Raises:
            ValueError: If it has no digest, with which functions are compared.
        """
        module, name, digest = (check_type("code", part, str) for part in parts)
        if not re.fullmatch(f"[0-9a-f]{{{2 * DIGEST_BYTES}}}", digest):
            raise ValueError(f"code must have a digest, got {digest[:40]!r}")
        return cls(module, name, digest)

    def in_script(self) -> Any:
        """Return the function of the running script with this name and digest; None if none.

        A file chooses neither modules nor attributes: imported functions, methods and objects have
        to be passed by the caller.
        """
        if self.module != SCRIPT:
            return None
        value = vars(sys.modules[SCRIPT]).get(self.name)
        is_own = isinstance(value, FunctionType) and value.__module__ == SCRIPT
        return value if is_own and Reference.of(value).digest == self.digest else None


def code_digest(code: CodeType) -> str:
    """Return a digest of what a function does; comments and line numbers do not count."""
    digest = blake2b(digest_size=16)
    pending = [code]
    while pending:
        one = pending.pop()
        plain = [repr(c) for c in one.co_consts if not isinstance(c, (CodeType, frozenset))]
        plain += [repr(sorted(map(repr, c))) for c in one.co_consts if isinstance(c, frozenset)]
        digest.update(one.co_code + repr((plain, one.co_names, one.co_varnames)).encode())
        pending += [c for c in one.co_consts if isinstance(c, CodeType)]
    return digest.hexdigest()


def _described(value: Any, above: frozenset[int]) -> Any:
    """Return code and the values it holds as plain data: equal where it does the same.

    Of a function these are its code, defaults, closure, and what it reads of its module as far as
    that is constant; of an object its class and attributes, cached ones left out.

    Args:
        value: Function or other object.
        above: Identities of the objects that hold it.
    """
    if is_data(value):
        return encode(value)
    if id(value) in above:
        return "itself"

    def inner(part: Any) -> Any:
        return _described(part, above | {id(value)})

    kind = type(value)
    if isinstance(value, FunctionType):
        held = [cell.cell_contents for cell in value.__closure__ or () if _is_filled(cell)]
        return {
            "code": code_digest(value.__code__),
            "holds": [inner(x) for x in (value.__defaults__, value.__kwdefaults__, *held)],
            "reads": {name: inner(x) for name, x in _constants(value)},
        }
    if isinstance(value, MethodType):
        return [inner(value.__func__), inner(value.__self__)]
    if isinstance(value, partial):
        return [inner(value.func), inner(value.args), inner(value.keywords)]
    if isinstance(value, (list, tuple)):
        return [inner(x) for x in value]
    if isinstance(value, Mapping):
        return {str(key): inner(x) for key, x in value.items()}
    if isinstance(value, (type, BuiltinFunctionType)):
        return f"{value.__module__}.{value.__qualname__}"
    call = getattr(kind, "__call__", None)  # noqa: B004 (the function itself is wanted)
    if is_dataclass(value):
        state = {field.name: getattr(value, field.name) for field in fields(value)}
    else:
        state = dict(getattr(value, "__dict__", {}))
    return {
        "class": f"{kind.__module__}.{kind.__qualname__}",
        "call": inner(call) if isinstance(call, FunctionType) else "",
        "state": {
            name: inner(x)
            for name, x in state.items()
            if not isinstance(getattr(kind, name, None), cached_property)
        },
    }


def _is_filled(cell: CellType) -> bool:
    """Return whether a variable of an enclosing function has a value yet."""
    try:
        cell.cell_contents  # noqa: B018 (raises where it has none)
    except ValueError:
        return False
    return True


def _constants(function: FunctionType) -> Iterator[tuple[str, Any]]:
    """Yield numbers, texts, tuples of data and functions that a function reads of its module."""
    names: set[str] = set()
    pending = [function.__code__]
    while pending:
        one = pending.pop()
        names.update(one.co_names)
        pending += [c for c in one.co_consts if isinstance(c, CodeType)]
    for name in sorted(names & set(function.__globals__)):
        value = function.__globals__[name]
        is_own = isinstance(value, FunctionType) and value.__module__ == function.__module__
        if is_own or (isinstance(value, (int, float, str, tuple)) and is_data(value)):
            yield name, value


class SweepHeader(NamedTuple):
    """What a sweep computes."""

    robot: str
    model: Model | None
    """The robot; None where no file can hold it."""

    duration: float
    options: dict[str, Any]
    """Keywords of `simulate` that all cases share and that are data."""

    code: dict[str, Reference]
    """What is code: "setup", "reduce", "model" and keywords of `simulate`."""

    seed: int
    record_errors: bool
    design: Design
    layout: Layout
    block_size: int
    identity: Identity
    """Versions that the sweep was begun with."""

    def compared(self) -> dict[str, Any]:
        """Return what must be equal to resume a sweep, by name, as plain data."""
        return {
            "model": encode(self.model) if is_data(self.model) and self.model else self.robot,
            "duration": self.duration,
            "seed": self.seed,
            "errors": self.record_errors,
            **{name: encode(value) for name, value in self.options.items()},
            **{name: reference._asdict() for name, reference in self.code.items()},
        }

    def differences(self, other: "SweepHeader") -> list[str]:
        """Return the names of arguments in which two sweeps differ, the design apart."""
        ours, theirs = self.compared(), other.compared()
        return [name for name in {**ours, **theirs} if ours.get(name) != theirs.get(name)]

    @classmethod
    def of(
        cls, plan: SweepPlan, design: Design, layout: Layout, block_size: int, versions: Identity
    ) -> "SweepHeader":
        """Return the header of a new sweep."""
        code = {
            name: Reference.of(value)
            for name, value in {"setup": plan.setup, "reduce": plan.reduce}.items()
            if value is not None
        }
        options = {}
        for name, value in plan.options.items():
            if is_data(value):
                options[name] = value
            else:
                code[name] = Reference.of(value)
        whole = is_data(plan.model)
        return cls(
            plan.model.name,
            plan.model if whole else None,
            plan.duration,
            options,
            code,
            plan.seed,
            plan.record_errors,
            design,
            layout,
            block_size,
            versions,
        )

    def plan(self, path: Path, given: Mapping[str, Any], *, mixed: bool = False) -> SweepPlan:
        """Return what workers need, with functions from the running program.

        Args:
            path: Path of the sweep, for messages.
            given: What is code, passed again: "model", "setup", "reduce", keywords of `simulate`.
            mixed: Whether functions may have changed since the sweep began.

        Raises:
            RunFileError: If something is missing or has changed.
        """
        _check_robot(path, given.get("model"), self.model)
        found: dict[str, Any] = {}
        for name, reference in self.code.items():
            value = given.get(name)
            if value is None:
                value = reference.in_script()
            if value is None:
                raise RunFileError(
                    path,
                    f"{name} is code, which no file can hold ({shown(reference.name)} of module "
                    f"{shown(reference.module)}), and the running script defines no such function; "
                    f"pass it as resume({name}=...)",
                )
            if not mixed and Reference.of(value).digest != reference.digest:
                raise RunFileError(
                    path,
                    f"{name} ({shown(reference.name)}) is not the function the sweep was "
                    "begun with, and results of both would be mixed; restore it, begin another "
                    "sweep, or pass mixed=True",
                )
            found[name] = value
        model = given.get("model") or self.model
        if model is None:
            raise RunFileError(
                path,
                f"robot {self.robot!r} has parts that are code, which no file can hold; pass it as "
                "resume(model=robot)",
            )
        for name in given:
            if name not in found and name != "model" and given[name] is not None:
                raise RunFileError(path, f"{name} is part of the sweep already; leave it out")
        setup, reduce = found.pop("setup", None), found.pop("reduce", None)
        return SweepPlan(
            model,
            self.duration,
            {**self.options, **found},
            setup,
            reduce,
            self.seed,
            self.record_errors,
        )


def _check_robot(path: Path, given: Any, kept: Model | None) -> None:
    """Refuse another robot than the one that a store holds."""
    if given is None or kept is None or given is kept or not is_data(kept):
        return
    if not is_data(given) or encode(given) != encode(kept):
        raise RunFileError(
            path,
            f"holds a sweep of robot {kept.name!r}, got another model; leave model out, or begin "
            "another sweep",
        )


def header_to_text(header: SweepHeader) -> str:
    """Return a header as text."""
    return json.dumps(
        {
            "tiburon": installed_version(),
            "robot": header.robot,
            "model": None if header.model is None else encode(header.model),
            "duration": header.duration,
            "options": encode(header.options),
            "code": {name: list(reference) for name, reference in header.code.items()},
            "seed": header.seed,
            "record_errors": header.record_errors,
            "design": header.design.encoded(),
            "columns": encode(header.layout.columns),
            "times": encode(header.layout.times),
            "reduced": {name: list(shape) for name, shape in header.layout.reduced.items()},
            "block_size": header.block_size,
            "identity": header.identity,
        }
    )


def header_from_text(path: Path, text: str, given: Mapping[str, Any]) -> SweepHeader:
    """Return the header that `header_to_text` wrote; `given` has the robot no file can hold.

    Raises:
        RunFileError: If it is damaged.
    """
    try:
        data: dict[str, Any] = json.loads(text)
        model = given.get("model")
        if data["model"] is not None:
            kept = check_type("model", decode(data["model"]), Model)
            _check_robot(path, model, kept)
            model = kept
        layout = Layout(
            check_type("columns", decode(data["columns"]), tuple),
            check_type("times", decode(data["times"]), np.ndarray),
            {str(name): tuple(map(int, shape)) for name, shape in data["reduced"].items()},
        )
        for column in layout.columns:
            check_column(column)
        design = Design.decoded(data["design"])
        check_names(design, layout)
        options = check_type("options", decode(data["options"]), dict)
        code = {str(name): Reference.read(parts) for name, parts in data["code"].items()}
        for name in (*options, *code):
            if name not in RUN_KEYWORDS and not (name in code and name in FUNCTIONS):
                raise ValueError(f"{shown(name)} is not a keyword that a sweep passes to simulate")
        if both := options.keys() & code.keys():
            raise ValueError(f"{shown(min(both))} must be data or code, got both")
        size = check_type("block_size", data["block_size"], int)
        if not 1 <= size <= MAX_BLOCK:
            raise ValueError(f"block_size must be at least 1, got {size}")
        return SweepHeader(
            check_type("robot", data["robot"], str),
            model,
            positive("duration", data["duration"], "s"),
            options,
            code,
            whole_seed(check_type("seed", data["seed"], int)),
            check_type("record_errors", data["record_errors"], bool),
            design,
            layout,
            size,
            check_type("identity", data["identity"], dict),
        )
    except RunFileError:
        raise
    except Exception as error:
        # damaged files raise anything
        raise RunFileError(
            path,
            f"its header cannot be understood ({first_line(error)}); restore zarr.json from a "
            "copy, or update tiburon",
        ) from error
