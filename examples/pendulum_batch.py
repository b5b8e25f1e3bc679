"""Ten thousand pendulums in one batch: the period as a function of the amplitude.

Each is released at rest at its own angle. A quarter of its period later it passes its lowest point.
The closed form, with Gauss's arithmetic-geometric mean, is T = 2 pi sqrt(L / g) / M(1, cos(a / 2)).
"""

from time import perf_counter

import numpy as np

import tiburon as tb

LENGTH = 0.5  # m

bob = tb.Inertia.point(1.0, com=(0.0, 0.0, -LENGTH))
pivot = tb.Revolute("pivot", axis=(0, 1, 0))
pendulum = tb.Model("pendulum", bodies=[tb.Body("rod", joint=pivot, inertia=bob)])

swing = np.radians(np.linspace(1.0, 175.0, 10_000))
# compile first, so that only the runs are timed
tb.integrate_rk4(pendulum, swing[:, None], [0.0], dt=1e-3, steps=1)
start = perf_counter()
run = tb.integrate_rk4(pendulum, swing[:, None], [0.0], dt=1e-3, steps=1200, record_every=4)
elapsed = perf_counter() - start
print(f"{run}: {1200 * len(swing) / elapsed / 1e6:.0f} million steps per second")

# the first recorded state beyond the lowest point, and the one before it: between them the pendulum
# moves at an almost constant rate, for gravity has no lever there
angle = run.q[..., 0]
after = np.argmax(angle < 0.0, axis=0)
case = np.arange(len(swing))
above, below = angle[after - 1, case], angle[after, case]
quarter = run.time[after - 1] + (run.time[1] - run.time[0]) * above / (above - below)


def mean(a, b):
    """Return Gauss's mean: both numbers are replaced by their two means until they are equal."""
    for _ in range(6):
        a, b = (a + b) / 2.0, np.sqrt(a * b)
    return a


expected = 2.0 * np.pi * np.sqrt(LENGTH / 9.81) / mean(1.0, np.cos(swing / 2.0))
for number in range(0, len(swing), 2000):
    print(
        f"swing {np.degrees(swing[number]):6.2f} deg   period {4.0 * quarter[number]:.6f} s   "
        f"closed form {expected[number]:.6f} s"
    )
print(f"largest difference: {np.abs(4.0 * quarter - expected).max():.1e} s")
