"""Integrators, one file each; all step on the manifold of positions.

The system is a position q on a `Manifold` and a vector w: the velocities v, then any further states
x that elements and controllers have. An integrator uses two properties of a system,

    manifold.rate(q, w)             how positions change; it reads the velocities only
    acceleration(q, w, *time)       how w changes: nv + nx scalars

and works on floats and on traced values alike. `methods.METHODS` lists all methods by name.

Steps of equal length. Every `Method` can be run as

    memory = method.start(manifold, acceleration, q, w, h, *time)
    q, w, memory = method.advance(manifold, acceleration, q, w, memory, h, *time)

with `time` the time at the start of the step, left out where nothing depends on it. `memory` is
what a method carries from step to step, tuples of scalars that a loop holds beside its state: `()`
for one-step methods, past points for block predictor-correctors. It belongs to a run of equal steps
under continuous forces: after a jump in commands or states, or with another h, start again.
`method.step(manifold, acceleration, q, w, h, *time)` is one step without memory, of the same order
at least: for shorter steps inside a step, as in locating events.

Steps that keep inertia. Methods named as "rk4_keeping_4" have `keeps_inertia` set; what they take
for the acceleration is `KeptSystem(system, p).under(u)` of `kept_rates.py`.

Adaptive steps. Where `method.pair` is there, `adaptive.py` runs it, each case with its own step:

    state = start_adaptive(pair, manifold, acceleration, q, w, time, tolerances)
    state = advance_adaptive(pair, manifold, acceleration, state, target, stop, limit, tolerances)
    q, w = state_at(manifold, state, time)                # between state.begin and state.time

Steps run over `target`, up to which states are wanted, and are never cut to meet it: recording does
not change a bit. They are cut to meet `stop`, where forces jump or the run ends. `limit` is a total
of attempts at which a call returns whatever was reached, to be called again: chunks do not change a
bit either. `restart_adaptive` continues after a jump of commands or states.
"""
