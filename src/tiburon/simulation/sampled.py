"""`Sampled`: a controller that is called at equal intervals."""

from typing import Any

from tiburon.argument_checks import positive
from tiburon.arguments import public
from tiburon.errors import DomainError, shown
from tiburon.record import field, record


@public
@record
class Sampled:
    """A controller whose commands are held between calls at equal intervals.

    For `simulate(control=)`. Functions that are not `traced` are sampled every 0.01 s by default;
    traced ones without discrete states are evaluated at every stage of the integrator.

    Example:
        ``tb.simulate(arm, 0.1, control=tb.Sampled(lambda state: -state.q[:9], dt=0.002))``
    """

    controller: Any
    """The controller, as `simulate(control=)` takes it."""

    dt: float = field(kw_only=True)
    """Sampling period [s], an integer multiple of the step."""

    def __post_init__(self) -> None:
        if isinstance(self.controller, Sampled) or self.controller is None:
            raise DomainError("Sampled: controller", "a controller", shown(self.controller))
        object.__setattr__(self, "dt", positive("Sampled: dt", self.dt, "s"))


def controller_of(control: Any) -> tuple[Any, float | None]:
    """Return a controller and its sampling period [s], None where it does not say."""
    if isinstance(control, Sampled):
        return control.controller, control.dt
    return control, None
