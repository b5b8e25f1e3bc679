"""Data sheets of marine craft: coefficients in Fossen's order and axes, as TOML.

Fossen (2011), "Handbook of marine craft hydrodynamics and motion control": linear components first;
x forward, y to starboard, z down; derivatives such as X_udot and X_u are negative where added mass
and damping are positive. A sheet has one table per body:

    [hull]
    volume = 0.0113
    center_of_buoyancy = [0.0, 0.0, -0.01]
    derivatives = { X_udot = -5.5, Y_vdot = -12.7, X_u = -4.03, "X_u|u|" = -18.18 }

or whole matrices, `added_mass`, `linear_damping` and `quadratic_damping`, 6 x 6 or diagonal, which
are positive.
"""

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from tiburon.arrays import NDArray
from tiburon.errors import ModelError, ModelFileError, shown
from tiburon.formats.limits import read_bytes
from tiburon.model.body_fluid import AXES, BodyFluid, added_mass_from, six_by_six_from
from tiburon.model.value_checks import finite_array

FORCES, MOTIONS = "XYZKMN", "uvwpqr"
"""Letters of forces and motions, in Fossen's order."""

MATRICES = ("added_mass", "linear_damping", "quadratic_damping")

KEYS = ("volume", "center_of_buoyancy", "reference_density", "about", "derivatives", *MATRICES)
"""What a table of a body may hold."""

_DERIVATIVE = re.compile(
    rf"([{FORCES}])_(?:\|([{MOTIONS}])\|)?([{MOTIONS}])(?:(dot)|\|([{MOTIONS}])\||([{MOTIONS}]))?"
)


def read_fossen(path: Path) -> dict[str, BodyFluid]:
    """Read the coefficients of a data sheet, by body.

    Raises:
        ModelFileError: If the file is invalid; the message names body and entry.
    """
    try:
        sheet = tomllib.loads(read_bytes(path).decode())
    except (tomllib.TOMLDecodeError, UnicodeDecodeError) as error:
        raise ModelFileError(path, f"is no TOML file ({error}); correct it") from None
    found = {}
    for body, table in sheet.items():
        try:
            if not isinstance(table, dict):
                raise ModelError(f"expected a table of the body, [{body}], got {shown(table)}")
            found[body] = _coefficients(table)
        except ModelError as error:
            raise ModelFileError(path, f"body {body!r}: {error}") from None
    if not found:
        raise ModelFileError(path, "has no body; write a table for each, such as [hull]")
    return found


def _coefficients(table: Mapping[str, Any]) -> BodyFluid:
    if unknown := sorted(set(table) - set(KEYS)):
        raise ModelError(f"expected entries of {', '.join(KEYS)}, got {', '.join(unknown)}")
    sums = _from_derivatives(table.get("derivatives", {}))
    for name in MATRICES:
        if name in table:
            if sums[name].any():
                raise ModelError(f"{name}: give a matrix or derivatives, got both; leave out one")
            sums[name] = _marine(name, table[name])
    about, center = (_marine_point(table, key) for key in ("about", "center_of_buoyancy"))
    if about.any() and any(sums[name].any() for name in MATRICES[1:]):
        raise ModelError("about: is for added mass alone; give damping about the body origin")
    fluid: dict[str, Any] = {name: M for name, M in sums.items() if M.any()}
    if "added_mass" in fluid:
        fluid["added_mass"] = added_mass_from(fluid["added_mass"], about=about)
    fluid["center_of_buoyancy"] = center
    fluid |= {key: table[key] for key in ("volume", "reference_density") if key in table}
    return BodyFluid(**fluid)


def _marine(name: str, matrix: Any) -> NDArray[np.float64]:
    """Return a matrix of the sheet, angular first, in our axes."""
    return six_by_six_from(matrix, order="linear-first", axes="ned", element=name.replace("_", " "))


def _marine_point(table: Mapping[str, Any], key: str) -> NDArray[np.float64]:
    """Return a point of the sheet in our axes [m]; the body origin if it is not given."""
    point = finite_array(table.get(key, (0.0, 0.0, 0.0)), (3,), "data sheet", key)
    # without negative zeros
    return np.array(AXES["ned"]) * point + 0.0


def _from_derivatives(given: Any) -> dict[str, NDArray[np.float64]]:
    """Return the matrices of hydrodynamic derivatives, angular first, in our axes."""
    found = {name: np.zeros((6, 6)) for name in MATRICES}
    given_as: dict[tuple[str, int, int], str] = {}
    if not isinstance(given, dict):
        raise ModelError(f"derivatives: expected a table such as {{ X_u = -4 }}, got {given!r}")
    for name, value in given.items():
        match = _DERIVATIVE.fullmatch(name)
        if match is None or isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelError(
                f"derivatives: expected numbers by names such as X_udot, Y_r or X_u|u|, got "
                f"{name} = {value!r}"
            )
        force, before, motion, rate, after, plain = match.groups()
        row, column = FORCES.index(force), MOTIONS.index(motion)
        square = before or after or plain
        twice = before is not None and (rate or after or plain)
        if square is not None and (twice or square != motion):
            raise ModelError(
                f"derivatives: {name}: products of two motions are not represented; leave it out"
            )
        if plain is not None and row != column:
            raise ModelError(
                f"derivatives: {name}: of a square like {motion}^2, which does not change sign "
                "with the motion, there is no coefficient; leave it out where it follows from "
                f"added mass, or write {force}_{motion}|{motion}| if that is meant"
            )
        kind = MATRICES[0] if rate else MATRICES[1] if square is None else MATRICES[2]
        if (kind, row, column) in given_as:
            raise ModelError(
                f"derivatives: {given_as[kind, row, column]} and {name} are the same; leave out one"
            )
        given_as[kind, row, column] = name
        found[kind][row, column] = -value
    for kind, row, column in given_as:
        # sheets print one of two mirrored entries
        if kind == MATRICES[0] and (kind, column, row) not in given_as:
            found[kind][column, row] = found[kind][row, column]
    return {name: _marine(name, M) for name, M in found.items()}
