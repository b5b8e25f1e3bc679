"""One file of the cache: a magic word, sizes, a header, object code, a checksum over all.

The header is a dict written as Python literals. JSON would do as well, but importing its reader
takes 2 of the 10 ms that a first call from the cache may take, and this reader is loaded anyway.
"""

from __future__ import annotations

import ast
import struct
from typing import Any

try:
    # hashlib starts OpenSSL, which takes another 4 ms
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
        metadata: Texts, numbers, truth values, None, and lists, tuples and dicts of them.
        code: Object code.

    Raises:
        TypeError: If the metadata holds anything else.
    """
    header = {"key": key, "metadata": metadata}
    text = repr(header)
    if _read_literals(text) != header:
        raise TypeError(
            "metadata: expected texts, finite numbers, None, and lists, tuples and dicts of them, "
            f"got {metadata!r}"
        )
    lead = _LEAD.pack(_MAGIC, FORMAT_VERSION, len(text.encode()), len(code))
    body = lead + text.encode() + code
    return body + blake2b(body, digest_size=_CHECKSUM_SIZE).digest()


def _read_literals(text: str) -> Any:
    """Read Python literals; None if the text is something else."""
    try:
        return ast.literal_eval(text)
    except (ValueError, SyntaxError):
        return None


def unpack_entry(key: str, content: bytes) -> tuple[dict[str, Any], bytes] | None:
    """Read the content of a file.

    Args:
        key: What the entry should be found by.
        content: All bytes of the file.

    Returns:
        Metadata and object code; None if the file is damaged or holds something else.
    """
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
    header = _read_literals(content[_LEAD.size : code_start].decode())
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
    try:
        with open(path, "rb") as file:
            magic, version, header_size, _ = _LEAD.unpack(file.read(_LEAD.size))
            if (magic, version) != (_MAGIC, FORMAT_VERSION):
                return ""
            header = _read_literals(file.read(header_size).decode())
            return str(header["metadata"].get("name", ""))
    except FileNotFoundError:
        raise
    except (OSError, struct.error, ValueError, KeyError, TypeError, AttributeError):
        return ""
