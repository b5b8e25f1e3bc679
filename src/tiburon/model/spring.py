"""Springs and dampers between two points."""

from tiburon.errors import ModelError, shown
from tiburon.model.value_checks import Vec3, check_name, number, vec3
from tiburon.record import record


@record
class Spring:
    """A spring with a damper between two points; immutable, compares by value.

    Its tension is stiffness times (length - rest_length) plus damping times the rate of length; a
    rope has no negative tension. Simulations apply its force; dynamics functions do not.

    Example:
        ``Spring("coil", "world", "slider", stiffness=8e5, damping=4e4, rest_length=0.5)``
    """

    name: str
    """Unique among the springs of a model."""

    first: str
    """Name of the body or frame at one end, or "world"."""

    second: str
    """Name of the body or frame at the other end, or "world"."""

    stiffness: float = 0.0
    """Force per length [N/m]."""

    damping: float = 0.0
    """Force per speed [N s/m]."""

    rest_length: float = 0.0
    """Rest length [m]."""

    first_point: Vec3 = (0.0, 0.0, 0.0)
    """The end in axes of the first frame [m]."""

    second_point: Vec3 = (0.0, 0.0, 0.0)
    """The end in axes of the second frame [m]."""

    rope: bool = False
    """Whether it can only pull: slack below its rest length."""

    def __post_init__(self) -> None:
        check_name(self.name, "spring")
        element = f"spring {self.name!r}"
        check_two_ends(element, self.name, self.first, self.second)
        for quantity in ("stiffness", "damping", "rest_length"):
            value = number(getattr(self, quantity), element, quantity, self.name, least=0.0)
            object.__setattr__(self, quantity, value)
        for quantity in ("first_point", "second_point"):
            value3 = vec3(getattr(self, quantity), element, quantity, self.name)
            object.__setattr__(self, quantity, value3)
        given: object = self.rope
        if not isinstance(given, bool):
            raise ModelError(
                f"{element}: rope must be True or False, got {shown(given)}", name=self.name
            )


def check_two_ends(element: str, name: str, first: object, second: object) -> None:
    """Raise an error unless two ends are names of different frames."""
    for end, given in (("first", first), ("second", second)):
        check_name(given, f"{element}: {end}")
    if first == second:
        raise ModelError(
            f"{element}: its ends must be on two bodies or frames, got {first!r} twice; name the "
            "other one",
            name=name,
        )
