"""Kernels for use elsewhere: as C source."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from tiburon.arguments import public
from tiburon.errors import DomainError
from tiburon.native import c_source as writer
from tiburon.native.engine import host
from tiburon.native.interpreted import native_code_wanted
from tiburon.native.kernel import Kernel

__all__ = ["c_source"]


@public
def c_source(kernel: Callable[..., Any], *, name: str | None = None) -> str:
    """Write a kernel as a C99 file that needs nothing but a compiler and its math library.

    The file defines ``int NAME(const double *const *inputs, double *const *outputs)`` for one case.
    Its first comment lists the arrays and says how to compile it. The parameters bound to the
    kernel (inertial numbers, gravity) become constant arrays to pass as those inputs. Compiled as
    the comment says, it gives the same bits as the kernel on this machine.

    Args:
        kernel: What `tiburon.compile` returned.
        name: Name of the C function; that of the kernel by default.

    Returns:
        The text of the file.

    Raises:
        DomainError: If this is no kernel, or the name cannot be that of a C function.

    Example:
        ::

            kernel = tb.compile(tb.forward_dynamics, arm)
            pathlib.Path("arm.c").write_text(tb.c_source(kernel, name="arm_dynamics"))
    """
    table = getattr(kernel, "__self__", None)
    owner = getattr(table, "owner", table)
    if not isinstance(owner, Kernel):
        raise DomainError(
            "kernel", "a compiled kernel", type(kernel).__name__, advice="make one by compile()"
        )
    # without LLVM the processor is not known; all but the oldest fuse
    fused = host().fused if native_code_wanted() else True
    return writer.c_source(
        owner.program(), name=name or owner.name, parameters=owner.parameters, fused=fused
    )
