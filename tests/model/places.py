"""Where frames are, found the slow and obvious way."""

import numpy as np


def place_of(model, q, name):
    """Return rotation and origin of a frame in the world, by homogeneous matrices of the parts."""
    frames = {frame.name: frame for frame in model.frames}
    matrix = np.eye(4)
    if name in frames:
        matrix = frames[name].pose.matrix
        name = frames[name].body
    while name != "world":
        body = model.body(name)
        X = body.joint.transform(q[model.slice(body.joint.name)].tolist())
        step = np.eye(4)
        step[:3, :3] = np.array(X.rotation, dtype=float).T
        step[:3, 3] = X.translation
        matrix = body.joint.pose.matrix @ step @ matrix
        name = body.parent
    return matrix[:3, :3], matrix[:3, 3]
