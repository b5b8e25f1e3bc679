"""Surfaces of contacts as parameters by name: of the ground, and of single contacts."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any, NamedTuple

import numpy as np

from tiburon.arrays import Array
from tiburon.contact.candidates import Candidate, numbers_of
from tiburon.errors import ModelError
from tiburon.functions.parameters import CaseRows, dynamics_parameters, lead_of, rows_of
from tiburon.model import Ground, Model, World
from tiburon.model.contact_kinds import MATERIAL, ContactMaterial
from tiburon.model.parameters import Parameter, parameter, read_values

GROUND = "ground"
"""Name of the ground as the owner of parameters."""

CONTACT = "contact"
"""Name of the contacts of a robot as the owner of parameters, as in runs."""

ELEMENT = "element"
"""Kind of parameters that belong to what acts on a robot."""


def contact_parameters(
    candidates: Sequence[Candidate], owner: str = CONTACT
) -> Iterator[Parameter]:
    """Yield the surface of each contact."""
    for k, candidate in enumerate(candidates):
        for word in MATERIAL:
            value, path = getattr(candidate.material, word), ("candidates", k, "material", word)
            yield parameter(ELEMENT, owner, f"{candidate.name}.{word}", value, path)


def ground_parameters(ground: Ground | None) -> Iterator[Parameter]:
    """Yield the surface of the ground, outside of its patches."""
    if ground is not None:
        for word in MATERIAL:
            yield parameter(GROUND, GROUND, word, getattr(ground, word), (word,))


def with_surfaces(
    candidates: Sequence[Candidate],
    ground: Ground | None,
    values: Mapping[Parameter, Any],
    owner: str = CONTACT,
) -> tuple[Candidate, ...]:
    """Return contacts with the surfaces of one case.

    Args:
        candidates: The shapes that may touch.
        ground: The ground, whose surface counts outside of its patches.
        values: Values of the case; those of other parts are left alone.
        owner: Name of the contacts as the owner of parameters.

    Raises:
        ModelError: If a surface cannot have such values.
    """
    found = list(candidates)
    below = {str(item.path[0]): x for item, x in values.items() if item.part == GROUND}
    if below:
        assert ground is not None
        surface = _changed(ground.material, below)
        found = [candidate.over(surface) for candidate in found]
    # all values of one surface together: single ones may contradict those that are replaced
    own: dict[int, dict[str, Any]] = {}
    for item, value in values.items():
        if item.part == ELEMENT and item.owner == owner:
            own.setdefault(int(item.path[1]), {})[str(item.path[3])] = value
    for k, given in own.items():
        found[k] = replace(found[k], material=_changed(found[k].material, given))
    return tuple(found)


def _changed(material: ContactMaterial, given: Mapping[str, Any]) -> ContactMaterial:
    """Return a surface with other coefficients."""
    own: dict[str, Any] = dict(zip(MATERIAL, material.values, strict=True))
    if "static_friction" in given and own["kinetic_friction"] == own["static_friction"]:
        # one coefficient for both: kinetic friction follows
        given = {"kinetic_friction": given["static_friction"], **given}
    return ContactMaterial(**{**own, **given})


class Surfaces(NamedTuple):
    """Dimensions and surfaces of contacts in a call, and what else is given by name."""

    numbers: Array
    """As `numbers_of` lists them, with leading dimensions of cases where they differ."""

    others: Mapping[str, Any] | None
    """Values of other parameters by name; None if there are none."""


def surfaces_by_name(
    function: str,
    words: Sequence[str],
    model: Model,
    world: World,
    candidates: Sequence[Candidate],
    given: Mapping[str, Any] | None,
) -> Surfaces:
    """Return what contacts are made of, with values by name in place of their own.

    Args:
        function: Name of the function that is called, for messages.
        words: Coefficients of surfaces that enter its result.
        model: The robot.
        world: Its surroundings.
        candidates: The shapes that may touch.
        given: Values by name, one or one per case; also those of robot and surroundings.

    Raises:
        UnknownNameError: If there is no such parameter.
        ModelError: If a surface cannot have a value, with the case, or a value enters nothing.
    """
    if given is None or isinstance(given, CaseRows):
        return Surfaces(np.array(numbers_of(candidates)), given)
    own = (*contact_parameters(candidates), *ground_parameters(world.ground))
    named = {item.name: item for item in own}
    values = read_values({**dynamics_parameters(model, world), **named}, given)
    # where one coefficient is for both, kinetic friction follows
    entering = set(named)
    for item in own:
        kinetic = named.get(item.name.replace(".static_", ".kinetic_"), item)
        follows = kinetic.value == item.value and str(kinetic.path[-1]) in words
        if str(item.path[-1]) not in words and not follows:
            entering.remove(item.name)
    for name in values:
        if name in named and name not in entering:
            raise ModelError(
                f"parameters[{name!r}]: expected values that enter {function} (of surfaces "
                f"{', '.join(words)}), got one that does not; leave it out"
            )
    arrays = {named[name]: array for name, array in values.items() if name in named}
    others = {name: value for name, value in given.items() if name not in named}
    if not arrays:
        return Surfaces(np.array(numbers_of(candidates)), others or None)

    def row(_: tuple[int, ...], values: Mapping[Parameter, Any]) -> tuple[float, ...]:
        return numbers_of(with_surfaces(candidates, world.ground, values))

    return Surfaces(rows_of(arrays, lead_of(arrays), row), others or None)
