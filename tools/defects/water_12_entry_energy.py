"""A neutrally buoyant ball enters the water at 5 m/s (no drag) and leaves the surface zone faster: energy is created.

Right: 4.39 m/s by Lagrange's equations with the same added mass (no loss), 3.33 m/s by momentum (m v = (m + A) v1). docs/water.md calls slamming "not modeled": a missing
loss, not a source. Same cause as water_06.
"""
import numpy as np
import tiburon as tb
from scipy.integrate import solve_ivp

TOLERANCE = 0.01  # relative gain of energy
rho, R, g = 1000.0, 0.2, 9.81
V = 4 / 3 * np.pi * R**3
m, A0 = rho * V, 0.5 * rho * V
fluid = tb.BodyFluid(V, (0, 0, 0), np.diag([0, 0, 0, A0, A0, A0]), reference_density=rho)
ball = tb.Model("ball", [tb.Body("b", joint=tb.Prismatic("z", (0, 0, 1)), inertia=tb.Inertia.sphere(m, R), shapes=(tb.Shape(tb.SphereShape(R)),), fluid=fluid)])
sea = tb.Water(rho, surface=0.0)


def energy(q, v):
    return float(tb.kinetic_energy(ball, q, v, fluid=sea) + tb.potential_energy(ball, q, fluid=sea))


def lagrange(t, y):
    s = np.clip(-y[0] / R, -1, 1)
    share, slope = 0.25 * (1 + s) ** 2 * (2 - s), -0.75 * (1 - s * s) / R
    return [y[1], (rho * g * V * share - m * g - 0.5 * A0 * slope * y[1] ** 2) / (m + A0 * share)]


run = tb.simulate(ball, 0.3, q=[R], v=[-5.0], fluid=sea, method=tb.RK4(dt=1e-4), record=tb.Record(dt=0.01))
i = int(np.argmax(run.q[:, 0] < -R))
own = solve_ivp(lagrange, (0, 0.3), [R, -5.0], rtol=1e-10, atol=1e-12, events=lambda t, y: y[0] + R).y_events[0][0][1]
before, after = energy(run.q[0], run.v[0]), energy(run.q[i], run.v[i])
print(f"by momentum about {5 * m / (m + A0):.2f} m/s")
print(f"speed when submerged {abs(run.v[i, 0]):.2f} m/s, energy {before:.0f} -> {after:.0f} J; right: at most {abs(own):.2f} m/s, no gain (tolerance {100 * TOLERANCE:.0f} %)")
raise SystemExit(int(after > before * (1 + TOLERANCE)))
