"""What surrounds a robot."""

from dataclasses import dataclass

from tiburon.model.numbers import Vec3, vec3


@dataclass(frozen=True, slots=True)
class World:
    """The surroundings of a robot: gravity; immutable, compares by value.

    The world frame has z up unless gravity says otherwise: any gravity vector works.
    """

    gravity: Vec3 = (0.0, 0.0, -9.81)
    """Acceleration of free fall in world axes [m/s^2]."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "gravity", vec3(self.gravity, "world", "gravity"))
