"""The water a robot moves in."""

from dataclasses import dataclass

from tiburon.model.numbers import Vec3, number, vec3


@dataclass(frozen=True, slots=True)
class Water:
    """A fluid of uniform density and current; immutable, compares by value. Numbers only."""

    density: float = 1025.0
    """Mass per volume [kg/m^3]; that of sea water by default."""

    current: Vec3 = (0.0, 0.0, 0.0)
    """Velocity of the water in world axes [m/s]."""

    viscosity: float = 0.0
    """Dynamic viscosity [Pa s]; 0 where it is neglected."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "density", number(self.density, "water", "density", least=0.0))
        object.__setattr__(self, "current", vec3(self.current, "water", "current"))
        viscosity = number(self.viscosity, "water", "viscosity", least=0.0)
        object.__setattr__(self, "viscosity", viscosity)
