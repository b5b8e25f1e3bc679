"""What a run leaves behind: states at recorded times."""

import numpy as np
from numpy.typing import NDArray

from tiburon.record import record

__all__ = ["StateRecord"]

Array = NDArray[np.float64]


@record(eq=False)
class StateRecord:
    """Times, positions and velocities of a run; time is the first dimension.

    The arrays go straight into other functions: ``tb.kinetic_energy(model, run.q, run.v)`` has one
    number for each recorded time, and case.
    """

    time: Array
    """Recorded times, the first being 0 unless told otherwise [s], shape (n,)."""

    q: Array
    """Positions [m or rad], shape (n, ..., nq)."""

    v: Array
    """Joint velocities [m/s or rad/s], shape (n, ..., nv)."""

    def __len__(self) -> int:
        """Return the number of recorded states."""
        return len(self.time)

    def __repr__(self) -> str:
        batch = self.q.shape[1:-1]
        cases = f" of {' x '.join(map(str, batch))} cases" if batch else ""
        return f"<StateRecord: {len(self)} states{cases} over {self.time[-1]:.6g} s>"
