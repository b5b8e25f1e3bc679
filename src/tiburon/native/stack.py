"""How much of the stack a module needs.

Work spaces and arguments of calls lie on the stack, a whole vector for each number. For very large
programs a vector for eight cases may need more than a thread has; narrower vectors then do the same
work with the same bits, and what is too large even so is refused instead of crashing.
"""

from __future__ import annotations

import re

from tiburon.errors import CompileError

STACK_LIMIT = 4 << 20
"""What one kernel may use [bytes]; the main thread of most systems has 8 MiB in all."""

_ARRAY = re.compile(r" = alloca \[(\d+) x (?:<(\d+) x )?(?:double|ptr|i64)")


def stack_bytes(assembly: str) -> int:
    """Return an upper bound of the stack that a module's arrays take.

    No function calls itself, so at worst all of them are under way at once.

    Args:
        assembly: A module as text.
    """
    sizes = _ARRAY.findall(assembly)
    return sum(8 * int(count) * int(lanes or 1) for count, lanes in sizes)


def check_stack(name: str, assembly: str) -> str:
    """Return a module unchanged if there is room for it.

    Args:
        name: Name of the program, for the message.
        assembly: A module as text.

    Raises:
        CompileError: If its arrays need more than `STACK_LIMIT`.
    """
    needed = stack_bytes(assembly)
    if needed > STACK_LIMIT:
        raise CompileError(
            f"{name}: needs {needed / 1e6:.1f} MB of working memory, and a kernel has "
            f"{STACK_LIMIT / 1e6:.1f} MB; call it one case at a time, split it into several "
            "kernels, or set TIBURON_ENGINE=interpreter"
        )
    return assembly
