"""Public functions run on plain numbers, as one steps through them: no graph, no kernel."""

import numpy as np

from tiburon.functions.library import LIBRARY


def on_floats(name, model, *arrays, options=()):
    """Run a public function of one case; a dict of results keeps its names."""
    found = LIBRARY[name].run(model, None, options, *arrays)
    if isinstance(found, dict):
        return {key: np.array(value, dtype=float) for key, value in found.items()}
    return np.array(found, dtype=float)
