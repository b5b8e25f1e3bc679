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

__all__ = ["read_fossen"]

FORCES, MOTIONS = "XYZKMN", "uvwpqr"
"""Letters of forces and motions, in Fossen's order."""

MATRICES = ("added_mass", "linear_damping", "quadratic_damping")

KEYS = ("volume", "center_of_buoyancy", "reference_density", "about", "derivatives", *MATRICES)
"""What a table of a body may hold."""

_DERIVATIVE = re.compile(rf"([{FORCES}])_([{MOTIONS}])(?:(dot)|\|([{MOTIONS}])\||([{MOTIONS}]))?")


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
            sums[name] = six_by_six_from(table[name], order="linear-first", axes="ned")
    signs = np.array(AXES["ned"])
    about = signs * np.asarray(table.get("about", (0.0, 0.0, 0.0)), dtype=float)
    if about.any() and any(sums[name].any() for name in MATRICES[1:]):
        raise ModelError("about: is for added mass alone; give damping about the body origin")
    fluid: dict[str, Any] = {name: M for name, M in sums.items() if M.any()}
    if "added_mass" in fluid:
        fluid["added_mass"] = added_mass_from(fluid["added_mass"], about=about)
    if "center_of_buoyancy" in table:
        fluid["center_of_buoyancy"] = signs * np.asarray(table["center_of_buoyancy"], dtype=float)
    fluid |= {key: table[key] for key in ("volume", "reference_density") if key in table}
    return BodyFluid(**fluid)


def _from_derivatives(given: Any) -> dict[str, NDArray[np.float64]]:
    """Return the matrices of hydrodynamic derivatives, angular first, in our axes."""
    found = {name: np.zeros((6, 6)) for name in MATRICES}
    if not isinstance(given, dict):
        raise ModelError(f"derivatives: expected a table such as {{ X_u = -4 }}, got {given!r}")
    for name, value in given.items():
        match = _DERIVATIVE.fullmatch(name)
        if match is None or isinstance(value, bool) or not isinstance(value, int | float):
            raise ModelError(
                f"derivatives: expected numbers by names such as X_udot, Y_r or X_u|u|, got "
                f"{name} = {value!r}"
            )
        force, motion, rate, *squares = match.groups()
        square = squares[0] or squares[1]
        if square is not None and square != motion:
            raise ModelError(
                f"derivatives: {name}: products of two motions are not represented; leave it out"
            )
        row, column = FORCES.index(force), MOTIONS.index(motion)
        kind = MATRICES[0] if rate else MATRICES[1] if square is None else MATRICES[2]
        found[kind][row, column] = -value
    added = found[MATRICES[0]]
    # sheets print one of two mirrored entries
    found[MATRICES[0]] = np.where(added == 0.0, added.T, added)
    return {name: six_by_six_from(M, order="linear-first", axes="ned") for name, M in found.items()}
