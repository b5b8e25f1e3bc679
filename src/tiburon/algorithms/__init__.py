"""Algorithms of rigid-body dynamics, one file each, written over the drivers of `sweep`.

Public functions are found through `tiburon`, which loads the file of each when it is first used.
"""
