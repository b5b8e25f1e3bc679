"""What the command says to scripts when it ends."""

GOOD = 0
"""All went well: a run reached its end or an event that ends it, a check passed."""

BAD = 1
"""Bad input, or a check that did not pass."""

DIVERGED = 3
"""A run grew beyond all numbers. (2 is a mistake in the command itself.)"""

BUDGET = 4
"""A run was out of wall time before its end."""

ZENO = 5
"""A run was stopped by events that happen without end (Zeno behavior)."""

INTERRUPTED = 130
"""A run was stopped by Ctrl-C; what was computed is kept. The custom of shells: 128 + signal 2."""

KILLED = 137
"""The process of a run was killed. The custom of shells: 128 + signal 9."""

OF_STATUS = {
    "finished": GOOD,
    "event": GOOD,
    "diverged": DIVERGED,
    "budget": BUDGET,
    "zeno": ZENO,
    "interrupted": INTERRUPTED,
    "killed": KILLED,
}
"""Code for each way a run can end."""
