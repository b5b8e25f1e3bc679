"""Kernels without a compiler, for tests of formulas that call each kernel a few times."""

import os
from contextlib import contextmanager

from tiburon.functions.library import LIBRARY

ENGINE = "TIBURON_ENGINE"


@contextmanager
def interpreting():
    """Evaluate the graphs of kernels by NumPy; kernels of the time before and after are compiled.

    Compiling takes longer than tracing. That compiled kernels have the values of their graphs is
    what `tests/native` shows.
    """
    kept = [(function, *_emptied(function)) for function in LIBRARY.values()]
    engine = os.environ.get(ENGINE)
    os.environ[ENGINE] = "interpreter"
    try:
        yield
    finally:
        if engine is None:
            del os.environ[ENGINE]
        else:
            os.environ[ENGINE] = engine
        for function in LIBRARY.values():
            _emptied(function)
        for function, kernels, latest, latest_keyword in kept:
            function.kernels.update(kernels)
            function.latest[0], function.latest_keyword[0] = latest, latest_keyword


def _emptied(function):
    """Return what a function keeps of its kernels, and let it forget that."""
    kept = dict(function.kernels), function.latest[0], function.latest_keyword[0]
    function.kernels.clear()
    function.latest[0] = (None, None)
    function.latest_keyword[0] = (None, "", None, None)
    return kept
