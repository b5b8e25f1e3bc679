"""Energy from nothing at a free surface: a moored buoy that bobs, no drag, no current, no actuators.

Added mass scales with the submerged fraction, but the terms of its rate, -dA/dt v + 1/2 d(v'A v)/dq, are left out: heave pumps sway parametrically and is not slowed by it.
Right: Lagrange's equations with the same A(z) conserve the energy of body, water and spring (integrated below). Integrating the equation without these terms
reproduces the package's motion, so the cause is certain.
"""
import numpy as np
import tiburon as tb
from scipy.integrate import solve_ivp

TOLERANCE = 0.01  # relative change of energy in 60 s
rho, R, g, T = 1000.0, 0.5, 9.81, 60.0
V = 4 / 3 * np.pi * R**3
m = A0 = 0.5 * rho * V
ball = tb.Shape(tb.SphereShape(R))
k = rho * g * np.pi * R**2 / 4  # sway at half the frequency of heave
fluid = tb.BodyFluid(V, (0, 0, 0), np.diag([0, 0, 0, A0, A0, A0]), reference_density=rho)
cart = tb.Body("cart", joint=tb.Prismatic("x", (1, 0, 0), passive=tb.JointPassive(stiffness=k)), inertia=tb.Inertia(1e-9, (0, 0, 0), (1e-9, 0, 0, 1e-9, 0, 1e-9)))
buoy = tb.Model("buoy", [cart, tb.Body("buoy", "cart", joint=tb.Prismatic("z", (0, 0, 1)), inertia=tb.Inertia.sphere(m, R), shapes=(ball,), fluid=fluid)])
sea = tb.Water(rho, surface=0.0)
base = tb.potential_energy(buoy, np.zeros(2), fluid=sea)


def energy(q, v):
    return float(tb.kinetic_energy(buoy, q, v, fluid=sea) + tb.potential_energy(buoy, q, fluid=sea) + 0.5 * k * q[0] ** 2 - base)


def share(z):
    t = np.clip(-z / R, -1, 1)
    return 0.25 * (1 + t) ** 2 * (2 - t), -0.75 * (1 - t * t) / R


def lagrange(t, y):
    X, Z, u, w = y
    s, ds = share(Z)
    A, dA = A0 * s, A0 * ds
    return [u, w, (-k * X - dA * w * u) / (m + A), (rho * g * V * s - m * g - dA * w * w + 0.5 * dA * (u * u + w * w)) / (m + A)]


start = [0.02, 0.3]
run = tb.simulate(buoy, T, q=start, fluid=sea, method=tb.RK4(dt=2e-3), record=tb.Record(dt=1.0))
ours = np.array([energy(q, v) for q, v in zip(run.q, run.v)])
own = solve_ivp(lagrange, (0, T), [*start, 0, 0], rtol=1e-10, atol=1e-12, t_eval=[0, T]).y
print(f"Lagrange's equations: energy {energy(own[:2, 0], own[2:, 0]):.2f} -> {energy(own[:2, 1], own[2:, 1]):.2f} J in {T:g} s")
print(f"simulate: energy at 0, 15, 30, 45, 60 s {ours[[0, 15, 30, 45, 60]].round(0)} J, sway up to {np.abs(run.q[:, 0]).max():.2f} m; right: constant (tolerance {100 * TOLERANCE:.0f} %)")
raise SystemExit(int(np.abs(ours / ours[0] - 1).max() > TOLERANCE))
