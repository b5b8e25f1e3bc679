"""Robots that ship with the package: native files, each number with its source.

`tiburon.load("puma560")` reads one; `tiburon models` lists them all.
"""

from tiburon.zoo.chain import chain
from tiburon.zoo.index import names, path

__all__ = ["chain", "names", "path"]
