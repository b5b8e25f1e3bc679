"""A floating body in waves hardly moves: Water(surface=0, current=Waves(...)) is accepted in silence, but the surface stays level.

Right: long waves carry a small buoy (heave amplitude / wave amplitude -> 1); the hydrostatic part of the wave force, rho g A_w zeta, is missing. The least cure is an error or a
warning for the combination (also for surface=5 with waves whose surface is 0).
"""
import warnings

import numpy as np
import tiburon as tb

TOLERANCE = 0.1  # of the amplitude ratio at a period of 12 s
warnings.simplefilter("error")
rho, R, T = 1000.0, 0.5, 12.0
V = 4 / 3 * np.pi * R**3
ball = tb.Shape(tb.SphereShape(R))
fluid = tb.estimate_hydrodynamics((ball,), density=rho).fluid
buoy = tb.Model("buoy", [tb.Body("b", joint=tb.Prismatic("z", (0, 0, 1)), inertia=tb.Inertia.sphere(0.5 * rho * V, R), shapes=(ball,), fluid=fluid)])
try:
    run = tb.simulate(buoy, 8 * T, fluid=tb.Water(rho, current=tb.Waves((tb.Wave(height=0.2, period=T),)), surface=0.0), method=tb.RK4(dt=0.01), record=tb.Record(dt=0.05))
except (tb.TiburonError, Warning) as e:
    print("refused or warned:", e)
    raise SystemExit(0)
z = run.q[len(run.q) // 2 :, 0]
ratio = (z.max() - z.min()) / 0.2
print(f"heave of a half-submerged ball in waves of {T:g} s: {ratio:.3f} of the wave; right: about 1 (tolerance {TOLERANCE:g}), or an error")
raise SystemExit(int(abs(ratio - 1) > TOLERANCE))
