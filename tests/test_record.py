"""Records behave as frozen dataclasses do."""

import copy
import dataclasses
import inspect
import pickle
from dataclasses import FrozenInstanceError, dataclass, field, fields, replace
from typing import ClassVar

import pytest

from tiburon.record import record


@record
class Part:
    """A record with every kind of field."""

    name: str
    size: float = 1.5
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)
    twice: float = field(init=False)
    made: list[int] = field(init=False, default_factory=list, compare=False)
    color: str = field(default="red", kw_only=True)

    def __post_init__(self):
        object.__setattr__(self, "twice", 2.0 * self.size)


@dataclass(frozen=True, slots=True)
class Standard:
    """The same fields, made by the standard decorator."""

    name: str
    size: float = 1.5
    tags: list[str] = field(default_factory=list)
    note: str = field(default="", compare=False, repr=False)
    twice: float = field(init=False)
    made: list[int] = field(init=False, default_factory=list, compare=False)
    color: str = field(default="red", kw_only=True)

    def __post_init__(self):
        object.__setattr__(self, "twice", 2.0 * self.size)


@record(slots=False)
class Open:
    """A record with a dict, one field, and a cached answer."""

    number: int


@record
class Bare:
    """A record without fields."""


@record
class Longer(Part):
    """A record derived from a record."""

    length: float = 3.0


@dataclass(frozen=True, slots=True)
class StandardChild(Part):
    """A standard dataclass derived from a record."""

    depth: int = 4


@pytest.mark.parametrize(
    ("arguments", "named"),
    [
        (("a",), {}),
        (("a", 2.5), {"color": "blue"}),
        ((), {"name": "b", "tags": ["x"], "note": "n"}),
        (("c", 1.0, ["y", "z"], "m"), {}),
    ],
)
def test_records_hold_and_show_what_standard_dataclasses_do(arguments, named):
    """Constructor, text, hash of the compared fields, and the list of fields agree."""
    ours, standard = Part(*arguments, **named), Standard(*arguments, **named)
    assert dataclasses.asdict(ours) == dataclasses.asdict(standard)
    assert repr(ours) == repr(standard).replace("Standard", "Part")
    assert [(f.name, f.init, f.compare) for f in fields(Part)] == [
        (f.name, f.init, f.compare) for f in fields(Standard)
    ]
    assert list(inspect.signature(Part).parameters) == list(inspect.signature(Standard).parameters)
    assert Part.__match_args__ == Standard.__match_args__


@pytest.mark.parametrize("call", [lambda: Part(), lambda: Part("a", 1.0, [], "", "blue")])
def test_missing_or_misplaced_arguments_are_refused(call):
    """A field without default is required, one by name cannot be given by place."""
    with pytest.raises(TypeError):
        call()


def test_records_compare_and_hash_by_value():
    """Equal compared fields are equal; others, and other classes, are not."""
    assert Part("a", note="x") == Part("a", note="y")
    assert Part("a") != Part("a", 2.0)
    assert Part("a") != Standard("a")
    assert Open(1) == Open(1) != Open(2)
    assert hash(Open(1)) == hash(Open(1)) != hash(Open(2))
    assert Bare() == Bare() != Open(1)
    assert {Open(3), Open(3)} == {Open(3)}


def test_compared_by_identity_if_asked():
    """Without `eq`, only a thing itself is equal to it."""

    @record(eq=False)
    class Token:
        """Compares by identity."""

        name: str

    one = Token("a")
    same = one
    assert one == same
    assert one != Token("a")


@pytest.mark.parametrize("thing", [Part("a"), Longer("a"), StandardChild("a"), Open(1), Bare()])
def test_records_cannot_be_changed(thing):
    """Neither setting nor deleting works, on known names or new ones."""
    for name in (*(item.name for item in fields(thing)), "unknown"):
        with pytest.raises((FrozenInstanceError, TypeError)):
            setattr(thing, name, 1)
        with pytest.raises((FrozenInstanceError, TypeError)):
            delattr(thing, name)


@pytest.mark.parametrize(
    "thing", [Part("a", 2.0, ["t"], color="blue"), Longer("a", length=5.0), StandardChild("b")]
)
def test_records_travel_and_are_copied(thing):
    """Pickling, copying and replacing give equal records."""
    assert pickle.loads(pickle.dumps(thing)) == thing
    assert copy.copy(thing) == thing
    assert copy.deepcopy(thing) == thing
    changed = replace(thing, size=7.0)
    assert (changed.size, changed.twice, changed.name) == (7.0, 14.0, thing.name)


def test_derived_records_have_the_fields_of_both():
    """Fields of the base come first, whichever decorator made the class."""
    assert Longer("a", 1.0, [], "", 9.0).length == 9.0
    assert StandardChild("a", depth=2).depth == 2
    assert Longer("a") != Part("a")


@record(slots=False)
class Shared(Open):
    """A record with variables of its class, one of them annotated by a text."""

    kind: ClassVar[str] = "shared"
    other: "ClassVar[int]" = 2
    number: int = 5
    last: float


def test_fields_are_what_standard_dataclasses_take_for_fields():
    """Variables of a class are none; a field keeps its place and takes a new default."""
    found = dataclass(init=False)(type("Same", (), dict(vars(Shared))))
    assert [x.name for x in fields(Shared)] == [x.name for x in fields(found)] == ["number", "last"]
    assert fields(Shared)[0].default == 5
    assert (Shared.kind, Shared.other) == ("shared", 2)
    assert Longer.__match_args__ == ("name", "size", "tags", "note", "length")
    assert not hasattr(Longer("a"), "__dict__")


def test_default_that_instances_would_share_is_refused():
    """A list as default would be one list for all instances."""

    class Wrong:
        values: list = []  # noqa: RUF012

    with pytest.raises(ValueError, match=r"field values: expected an immutable default, got \[\]"):
        record(Wrong)


def test_slots_leave_no_room_for_more():
    """Only a record without slots has a dict."""
    assert not hasattr(Part("a"), "__dict__")
    assert Open(1).__dict__ == {"number": 1}


def test_methods_of_a_class_stay():
    """A class's own methods are not replaced, and its own comparison still gets a hash."""

    @record
    class Own:
        """Compares by parity."""

        number: int

        def __eq__(self, other):
            return isinstance(other, Own) and (self.number - other.number) % 2 == 0

        def __hash__(self):
            return self.number % 2

        def __repr__(self):
            return "own"

    assert Own(1) == Own(3)
    assert hash(Own(1)) == hash(Own(3))
    assert repr(Own(1)) == "own"
