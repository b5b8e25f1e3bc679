"""The law of a stop: a spring with a damper that only ever pushes back."""

import numpy as np

from tiburon.spatial import Scalar

__all__ = ["stop_force"]


def stop_force(
    depth: Scalar, rate: Scalar, stiffness: Scalar, damping: Scalar, ramp: Scalar
) -> Scalar:
    """Return how hard a stop pushes back [N or N m], never less than zero.

    k d + b min(d / r, 1) d', or nothing where that would pull, or where the depth d is not
    positive. The damper comes in over the depth r, so that the force has no jump at the stop; there
    it is the law of Hunt and Crossley 1975, "Coefficient of restitution interpreted as damping in
    vibroimpact", with the coefficient b / r. The spring gives back at most k d^2 / 2, the damper
    only takes: no motion gains energy from a stop.

    Args:
        depth: How far the motion is beyond the stop, d [m or rad].
        rate: Speed into the stop, d' [m/s or rad/s].
        stiffness: k [N/m or N m/rad].
        damping: b [N s/m or N m s/rad].
        ramp: r, the depth at which the damper is fully there [m or rad].
    """
    d = np.maximum(depth, 0.0)
    return np.maximum(stiffness * d + damping * np.minimum(d / ramp, 1.0) * rate, 0.0)
