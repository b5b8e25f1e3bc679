"""Measurements against other codes.

Each module named `measure_*.py` holds one family of figures. Before any time is taken, both sides
must give equal results; both are then timed in one run, in turns.

Run `make bench`, or `python -m benchmarks --help` in an environment with the `bench` extra.
"""
