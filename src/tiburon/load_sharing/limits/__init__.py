"""Limits on shared loads: rows A2 x >= b2, one file per family (Nahon 1991, section 4.4)."""
