"""One file of the cache: a magic word, sizes, a JSON header, object code, a checksum over all."""

from __future__ import annotations

import struct
from typing import Any

try:
    # hashlib starts OpenSSL, which takes 4 of the 10 ms a first call from the cache may take
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["FORMAT_VERSION", "blake2b", "pack_entry", "read_name", "unpack_entry"]

FORMAT_VERSION = 1
"""Layout of the files; part of every key, so that a new layout never meets old files."""

_MAGIC = b"TIBURON\n"
# magic word, format version, size of the header, size of the code
_LEAD = struct.Struct("<8sIIQ")
_CHECKSUM_SIZE = 16


def pack_entry(key: str, metadata: dict[str, Any], code: bytes) -> bytes:
    """Give the content of a file.

    Args:
        key: What the entry is found by.
        metadata: What JSON can hold.
        code: Object code.
    """
    # imported where used: 2 ms, and not every process meets the cache
    import json

    header = json.dumps({"key": key, "metadata": metadata}, separators=(",", ":")).encode()
    body = _LEAD.pack(_MAGIC, FORMAT_VERSION, len(header), len(code)) + header + code
    return body + blake2b(body, digest_size=_CHECKSUM_SIZE).digest()


def unpack_entry(key: str, content: bytes) -> tuple[dict[str, Any], bytes] | None:
    """Read the content of a file.

    Args:
        key: What the entry should be found by.
        content: All bytes of the file.

    Returns:
        Metadata and object code; None if the file is damaged or holds something else.
    """
    import json

    if len(content) < _LEAD.size + _CHECKSUM_SIZE:
        return None
    magic, version, header_size, code_size = _LEAD.unpack_from(content)
    body_size = _LEAD.size + header_size + code_size
    if (magic, version) != (_MAGIC, FORMAT_VERSION) or len(content) != body_size + _CHECKSUM_SIZE:
        return None
    body = memoryview(content)[:body_size]
    if blake2b(body, digest_size=_CHECKSUM_SIZE).digest() != content[body_size:]:
        return None
    code_start = _LEAD.size + header_size
    header = json.loads(content[_LEAD.size : code_start])
    # a file copied under another name would be valid, and wrong
    if header["key"] != key:
        return None
    return header["metadata"], content[code_start:body_size]


def read_name(path: str) -> str:
    """Read the kernel's name from a file without reading its code.

    Returns:
        The metadata's "name"; empty if the file does not say or cannot be understood.

    Raises:
        FileNotFoundError: If there is no such file any more.
    """
    import json

    try:
        with open(path, "rb") as file:
            magic, version, header_size, _ = _LEAD.unpack(file.read(_LEAD.size))
            if (magic, version) != (_MAGIC, FORMAT_VERSION):
                return ""
            return str(json.loads(file.read(header_size))["metadata"].get("name", ""))
    except FileNotFoundError:
        raise
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError):
        return ""
