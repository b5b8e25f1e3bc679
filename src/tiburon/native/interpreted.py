"""Kernels without a compiler: the same interface, evaluated by the NumPy interpreter.

Used if llvmlite cannot be imported, and on request (TIBURON_ENGINE=interpreter). Results agree with
native code to rounding, not bit for bit, and take some hundred times longer.
"""

from __future__ import annotations

import functools
import os
import warnings
from collections.abc import Sequence

import numpy as np

from tiburon.errors import CompileError, OptionError, TiburonWarning
from tiburon.native.arguments import Array, Signature
from tiburon.native.engine import host
from tiburon.native.source import Source
from tiburon.trace.interpret import interpret

ENGINES = ("native", "interpreter")
"""Values of TIBURON_ENGINE."""


def native_code_wanted() -> bool:
    """Return whether kernels are compiled: requested or not forbidden, and possible.

    Raises:
        OptionError: If TIBURON_ENGINE is unknown.
        CompileError: If TIBURON_ENGINE requests native code and llvmlite cannot be imported.

    Warns:
        TiburonWarning: Once per process, if llvmlite cannot be imported.
    """
    setting = os.environ.get("TIBURON_ENGINE", "").strip().lower()
    if setting and setting not in ENGINES:
        raise OptionError("TIBURON_ENGINE", ENGINES, setting)
    if setting == "interpreter":
        return False
    problem = _problem_with_llvmlite()
    if problem is None:
        return True
    if setting == "native":
        raise CompileError(
            f"TIBURON_ENGINE: native code needs llvmlite, which cannot be imported ({problem}); "
            "run 'pip install llvmlite'"
        )
    _warn_once(problem)
    return False


@functools.cache
def _problem_with_llvmlite() -> str | None:
    try:
        # imports llvmlite unless it described this machine before
        host()
    # a library that exists but does not load raises OSError or RuntimeError
    except (ImportError, OSError, RuntimeError) as error:
        return str(error)
    return None


@functools.cache
def _warn_once(problem: str) -> None:
    warnings.warn(
        f"llvmlite cannot be imported ({problem}); kernels run in the NumPy interpreter, some "
        "hundred times slower and with other rounding. Run 'pip install llvmlite', or set "
        "TIBURON_ENGINE=interpreter if that is what you want",
        TiburonWarning,
        stacklevel=2,
    )


class InterpretedCode:
    """One program, evaluated by the interpreter.

    Attributes:
        signature: Its inputs and results.
        one_address: None: there is no machine code.
    """

    def __init__(self, source: Source) -> None:
        self._program = source.program()
        self.signature = Signature.of(self._program)
        self.one_address: int | None = None

    def run(
        self,
        arrays: Sequence[Array],
        batch: tuple[int, ...],
        results: Sequence[Array],
        threads: int | None,
    ) -> int:
        """Compute one case or a batch.

        Args:
            arrays: Inputs, each of shape (..., *shape of one case).
            batch: Shape of the cases.
            results: Result arrays, of shape (*batch, *shape of one case).
            threads: Ignored; native code has the same interface.

        Returns:
            0, or 1 if an input or a result is not finite.
        """
        answers = interpret(self._program, arrays)
        answers = (answers,) if self.signature.single else answers
        for result, answer in zip(results, answers, strict=True):
            result[...] = answer
        return 0 if all(np.isfinite(array).all() for array in (*arrays, *results)) else 1
