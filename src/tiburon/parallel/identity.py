"""Identity of a worker: the versions and machine properties that decide the bits of results."""

import functools
import os
import socket
import sys
from collections.abc import Mapping
from hashlib import blake2b
from typing import Any

import numpy as np

from tiburon.version import installed_version

__all__ = ["Identity", "differences", "identity", "worker_name"]

Identity = dict[str, Any]
"""Versions and properties by name."""

NUMERICAL_ROOMS = (
    "actuation",
    "algorithms",
    "contact",
    "control",
    "functions",
    "hydro",
    "load_sharing",
    "loops",
    "model",
    "native",
    "results",
    "simulation",
    "spatial",
    "trace",
)
"""Rooms of the package whose files decide numbers."""

WORDS = {
    "tiburon": "tiburon",
    "kernels": "kernel sources",
    "python": "Python",
    "numpy": "NumPy",
    "engine": "engine",
    "fused": "fused multiply-add",
    "byteorder": "byte order",
}
"""What each entry is called in messages."""


@functools.cache
def _sources() -> str:
    """Return a digest of the source files that decide numbers."""
    from tiburon.native.cache import _source_files

    root, files = _source_files(*NUMERICAL_ROOMS)
    digest = blake2b(digest_size=8)
    for path, _ in files:
        with open(os.path.join(root, path), "rb") as file:
            content = file.read()
        digest.update(f"{path.replace(os.sep, '/')} {len(content)}\n".encode() + content)
    return digest.hexdigest() if files else installed_version()


def identity() -> Identity:
    """Return the identity of this process."""
    from tiburon.native.code import native_code_wanted
    from tiburon.native.engine import host

    native = native_code_wanted()
    return {
        "tiburon": installed_version(),
        "kernels": _sources(),
        "python": "{}.{}".format(*sys.version_info),
        "numpy": ".".join(np.__version__.split(".")[:2]),
        "engine": "native" if native else "interpreter",
        "fused": bool(host().fused) if native else False,
        "byteorder": sys.byteorder,
    }


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return where two identities differ, as text; empty where they agree."""
    return ", ".join(
        f"{WORDS.get(name, name)} {_said(found.get(name))} instead of {_said(value)}"
        for name, value in expected.items()
        if found.get(name) != value
    )


def _said(value: Any) -> str:
    return {True: "present", False: "absent", None: "unknown"}.get(value, str(value))


def worker_name() -> str:
    """Return the name of this process in receipts and messages: host and process number."""
    return f"{socket.gethostname()}:{os.getpid()}"
