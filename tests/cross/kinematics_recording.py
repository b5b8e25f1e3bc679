"""The file that holds Pinocchio's kinematics of the fixed robots."""

import json
from pathlib import Path

import numpy as np

DATA = Path(__file__).with_name("kinematics.npz")
PROVENANCE = DATA.with_suffix(".json")


def load():
    """Return recorded arrays by robot and quantity, and where they come from."""
    arrays = {}
    with np.load(DATA) as stored:
        for key in stored.files:
            robot, quantity = key.split("/")
            arrays.setdefault(robot, {})[quantity] = stored[key]
    return arrays, json.loads(PROVENANCE.read_text())
