"""Algorithms of rigid-body dynamics, one file each, written over the drivers of `sweep`."""
