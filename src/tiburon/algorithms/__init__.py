"""Algorithms of rigid-body dynamics, one file each, written over the drivers of `traversal`.

Public functions are in `tiburon.functions`; each loads its algorithm on first use.
"""
