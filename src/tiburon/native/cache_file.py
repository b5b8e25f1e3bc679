"""One file of the cache: a magic word, sizes, a name, a header, object code, a checksum over all.

The header is written by `marshal`, which is always loaded and reads it in microseconds: importing
a reader of JSON alone takes 2 of the 10 ms that a first call from the cache may take. `marshal`
trusts its input, so nothing is read with it before the checksum is found right; the name is plain
text, for lists that do not read whole files.
"""

from __future__ import annotations

import marshal
import struct
from typing import Any, BinaryIO

try:
    # hashlib starts OpenSSL, which takes another 4 ms
    from _blake2 import blake2b
except ImportError:
    from hashlib import blake2b

__all__ = ["FORMAT_VERSION", "blake2b", "pack_entry", "read_name", "unpack_entry"]

FORMAT_VERSION = 2
"""Layout of the files; part of every key, so that a new layout never meets old files."""

_MAGIC = b"TIBURON\n"
# magic word, format version, sizes of name, header and code
_LEAD = struct.Struct("<8sIIIQ")
_CHECKSUM_SIZE = 16
# a damaged size must not make a list read a whole file
_LONGEST_NAME = 1000
# every supported Python reads this one
_MARSHAL_VERSION = 4


def pack_entry(key: str, metadata: dict[str, Any], code: bytes) -> bytes:
    """Return the content of a file.

    Args:
        key: What the entry is found by.
        metadata: Texts, numbers, truth values, None, and lists, tuples and dicts of them.
        code: Object code.

    Raises:
        TypeError: If the metadata holds anything else.
    """
    try:
        header = marshal.dumps((key, metadata), _MARSHAL_VERSION)
        readable = marshal.loads(header) == (key, metadata)
    except ValueError:
        readable = False
    if not readable:
        raise TypeError(
            "metadata: expected texts, finite numbers, None, and lists, tuples and dicts of them, "
            f"got {metadata!r}"
        )
    name = str(metadata.get("name", "")).encode()
    lead = _LEAD.pack(_MAGIC, FORMAT_VERSION, len(name), len(header), len(code))
    body = lead + name + header + code
    return body + blake2b(body, digest_size=_CHECKSUM_SIZE).digest()


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
    magic, version, name_size, header_size, code_size = _LEAD.unpack_from(content)
    header_start = _LEAD.size + name_size
    code_start = header_start + header_size
    body_size = code_start + code_size
    if (magic, version) != (_MAGIC, FORMAT_VERSION) or len(content) != body_size + _CHECKSUM_SIZE:
        return None
    body = memoryview(content)[:body_size]
    if blake2b(body, digest_size=_CHECKSUM_SIZE).digest() != content[body_size:]:
        return None
    found, metadata = marshal.loads(body[header_start:code_start])
    # a file copied under another name would be valid, and wrong
    if found != key:
        return None
    return metadata, content[code_start:body_size]


def read_name(file: BinaryIO) -> str:
    """Read the kernel's name from an open file without reading its code.

    Returns:
        The metadata's "name"; empty if the file does not say or cannot be understood.
    """
    try:
        magic, version, name_size, _, _ = _LEAD.unpack(file.read(_LEAD.size))
        if (magic, version) != (_MAGIC, FORMAT_VERSION):
            return ""
        return file.read(min(name_size, _LONGEST_NAME)).decode()
    except (OSError, struct.error, ValueError):
        return ""
