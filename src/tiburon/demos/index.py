"""Names of the demonstrations, and the function that runs each."""

from collections.abc import Callable
from importlib import import_module

from tiburon.demos.demo import Demonstration

DEMOS: dict[str, tuple[str, str, str]] = {
    "quadruped": ("walk", "quadruped", "a robot dog trots over a hill"),
    "hexapod": ("walk", "hexapod", "osu_hexapod walks over a hill, three legs at a time"),
    "aquarobot": ("walk", "aquarobot", "aquarobot walks on the sea floor in a current"),
    "hand": ("glass", "hand", "three_finger_hand lifts and releases a glass"),
    "thruster": ("thruster", "thruster", "a vehicle loses a thruster in a current and holds"),
    "landing": ("landing", "landing", "a dog trots by load sharing, with and without smoothing"),
    "pour": ("pour", "pick_and_pour", "a hand picks up a glass and pours, with 20 % less friction"),
    "bar": ("bar", "bar", "two arms turn a bar by the least loss, or with the least squeeze"),
    "four_bar": (
        "four_bar",
        "four_bar",
        "a linkage shakes its frame with one motor, not with three",
    ),
    "strandbeest": ("beach", "strandbeest", "Jansen's beach animal walks on sand"),
}
"""By name: module, function, description."""


def find(name: str) -> Callable[[float | None], Demonstration]:
    """Return the function of a demonstration, which takes the simulated time [s] or None."""
    module, function, _ = DEMOS[name]
    found: Callable[[float | None], Demonstration]
    found = getattr(import_module(f"tiburon.demos.{module}"), function)
    return found
