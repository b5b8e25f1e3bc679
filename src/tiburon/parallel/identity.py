"""Identity of a worker: the versions and machine properties that decide the bits of results."""

import os
import socket
import sys
from collections.abc import Mapping
from typing import Any

import numpy as np

from tiburon.version import installed_version

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

ENTRY_NAMES = {
    "tiburon": "tiburon",
    "kernels": "kernel sources",
    "python": "Python",
    "numpy": "NumPy",
    "engine": "engine",
    "fused": "fused multiply-add",
    "byteorder": "byte order",
}
"""What each entry is called in messages."""


def identity() -> Identity:
    """Return the identity of this process."""
    from tiburon.native.cache import source_digest
    from tiburon.native.code import native_code_wanted
    from tiburon.native.engine import host

    native = native_code_wanted()
    return {
        "tiburon": installed_version(),
        "kernels": source_digest(*NUMERICAL_ROOMS),
        "python": "{}.{}".format(*sys.version_info),
        "numpy": ".".join(np.__version__.split(".")[:2]),
        "engine": "native" if native else "interpreter",
        "fused": bool(host().fused) if native else False,
        "byteorder": sys.byteorder,
    }


def differences(expected: Mapping[str, Any], found: Mapping[str, Any]) -> str:
    """Return where two identities differ, as text; empty where they agree."""
    return ", ".join(
        f"{ENTRY_NAMES.get(name, name)} {_said(found.get(name))} instead of {_said(value)}"
        for name, value in expected.items()
        if found.get(name) != value
    )


def _said(value: Any) -> str:
    return {True: "present", False: "absent", None: "unknown"}.get(value, str(value))


def worker_name() -> str:
    """Return the name of this process in receipts and messages: host and process number."""
    return f"{socket.gethostname()}:{os.getpid()}"
