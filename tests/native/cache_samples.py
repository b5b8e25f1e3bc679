"""Keys and contents that the tests of the cache write and look for."""

import numpy as np

KEY = "0123456789abcdef0123456789abcdef"
OTHER_KEY = "f" * 32


def some_code(seed, size=20_000):
    """Return bytes that no compression makes smaller."""
    return np.random.default_rng(seed).bytes(size)


def path_of(directory, key=KEY):
    """Return the file of an entry."""
    return directory / f"{key}.kernel"
