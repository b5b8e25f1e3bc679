"""A body that spins freely in the air gains energy because another body of the same model rests on the ground.

Right: nothing acts on the spinning body, so its energy is constant; alone, the default rk4 keeps it to 4e-9.
Cause seen: as soon as anything touches, the whole model is stepped by first-order explicit Euler, also bodies that touch nothing
(halving dt halves the gain).
"""
import numpy as np
import tiburon as tb

TOLERANCE = 1e-5  # change of energy in 1 s, relative to the energy of the spin
size = (0.4, 0.3, 0.2)
top = tb.Body("top", joint=tb.Free("top"), inertia=tb.Inertia(1.0, (0, 0, 0), (0.002, 0, 0, 0.01, 0, 0.011)), shapes=(tb.Shape(tb.SphereShape(0.05)),))
box = tb.Body("box", joint=tb.Free("box"), inertia=tb.Inertia.box(2.0, size), shapes=(tb.Shape(tb.BoxShape(size)),))
world = tb.World(ground=tb.Ground(static_friction=0.5))


def gain(bodies, q, v, energy, **options):
    e = tb.simulate(tb.Model("m", bodies), 1.0, q=q, v=v, world=world, record=tb.Record(quantities=["energy"]), **options).data["total_energy"].values
    return (e[-1] - e[0]) / energy


wrong = False
for spin in (20.0, 50.0):
    v, up = [spin, 0.5 * spin, spin, 0, 0, 10.0], [1, 0, 0, 0, 3.0, 0, 5.0]
    energy = 0.5 * (0.002 * spin**2 + 0.01 * (0.5 * spin) ** 2 + 0.011 * spin**2)
    alone = gain([top], up, v, energy)
    both = [gain([top, box], [*up, 1, 0, 0, 0, 0, 0, 0.1], [*v, *[0] * 6], energy, method=tb.RK4(dt=dt)) for dt in (1e-3, 5e-4)]
    wrong |= not max(map(abs, both)) < TOLERANCE
    print(f"spin {spin:.0f} rad/s: relative gain in 1 s alone {alone:.1e} (right), beside a box at rest {both[0]:.3g} at 1 ms, {both[1]:.3g} at 0.5 ms; right: 0 (tolerance {TOLERANCE:g})")
raise SystemExit(int(wrong))
