"""Runs of random states: what becomes of rows does not depend on where they come from."""

import numpy as np

import tiburon as tb
from tiburon.results.checkpoint import Checkpoint
from tiburon.results.header import Column, RunHeader, state_columns
from tiburon.results.outcome import Outcome
from tiburon.simulation.recorder import Recorder


def header(model, batch=(), setup=None, **more):
    """Return the header of a run that records a single number beside its state."""
    columns = (*state_columns(model, (), model.v_names), Column("power", "power", None, "W"))
    return RunHeader(model, more.pop("world", tb.World()), batch, columns, setup or {}, **more)


def rows(model, count, batch=(), seed=0):
    """Return times and columns of random states."""
    rng = np.random.default_rng(seed)
    q, v = model.random_state(rng, (count, *batch))
    u = rng.standard_normal((count, *batch, model.nv))
    power = rng.standard_normal((count, *batch))
    return 0.01 * np.arange(count), {"q": q, "v": v, "u": u, "power": power}


def checkpoint(step=7, **notes):
    """Return a checkpoint that holds arrays of several kinds."""
    arrays = {"state": np.linspace(0.0, 1.0, 5) / 3.0, "held": np.arange(3)}
    return Checkpoint(step, 0.01 * step, arrays, notes)


def outcomes(model, count=1, bad=()):
    """Return how cases ended: well, or diverged."""
    zero = np.zeros(0)
    q = model.neutral()
    return [
        Outcome("diverged", 0.1, f"case {k} diverged", q, zero, zero, body="bob", quantity="v")
        if k in bad
        else Outcome("finished", 0.5, "finished at 0.5 s", q, zero, zero)
        for k in range(count)
    ]


def recorded(
    model, count=51, batch=(), *, store=None, known=True, portion=13, bad=(), seed=0, **more
):
    """Return a run, and the times and columns that it was made of."""
    time, columns = rows(model, count, batch, seed)
    recorder = Recorder(header(model, batch, **more), rows=count if known else None, store=store)
    for start in range(0, count, portion):
        part = slice(start, start + portion)
        stop = min(start + portion, count)
        recorder.append(
            time[part], {k: a[part] for k, a in columns.items()}, lambda at=stop: checkpoint(at)
        )
    cases = int(np.prod(batch))
    return recorder.finish(outcomes(model, cases, bad), [], checkpoint(count)), time, columns
