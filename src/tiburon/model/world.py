"""What surrounds a robot."""

from tiburon.errors import ModelError
from tiburon.model.ground import Ground
from tiburon.model.numbers import Vec3, vec3
from tiburon.model.replaced import refuse_replaced
from tiburon.model.water import Water
from tiburon.record import record

ADVICE = "add to it, but replace nothing; a Current of your own tells how water moves"
"""What to do about a class derived from these that acts otherwise."""


@record
class World:
    """The surroundings of a robot: gravity, ground, water; immutable, compares by value.

    The world frame has z up unless gravity says otherwise: any gravity vector works.
    """

    gravity: Vec3 = (0.0, 0.0, -9.81)
    """Acceleration of free fall in world axes [m/s^2]."""

    ground: Ground | None = None
    """What feet stand on; data, which dynamics functions do not apply."""

    fluid: Water | None = None
    """What a robot moves in; None on land. Dynamics applies it to bodies that have a `fluid`."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "gravity", vec3(self.gravity, "world", "gravity"))
        ground: object = self.ground
        if ground is not None and not isinstance(ground, Ground):
            raise ModelError(
                f"world: ground must be a Ground, got {ground!r}; write Ground(height=0.0)"
            )
        fluid: object = self.fluid
        if fluid is not None and not isinstance(fluid, Water):
            raise ModelError(
                f"world: fluid must be Water, got {fluid!r}; write Water(density=1025.0)"
            )
        x, y, z = self.gravity
        if fluid is not None and fluid.surface is not None and (x or y or z > 0.0):
            raise ModelError(
                "world: gravity must point along -z where the fluid has a surface, which is level "
                f"in z, got {self.gravity} m/s^2; turn the robot, or give Water without surface="
            )
        for element, part in (("world", self), ("water", fluid), ("ground", ground)):
            refuse_replaced(part, element, ADVICE)

    def look(self) -> tuple[object, ...]:
        """Trace what users wrote of it as it is now.

        Returns:
            What tells it from others that compare equal; empty where its data tell.
        """
        told = None if self.fluid is None else self.fluid.look()
        return () if told is None else (told,)
