"""Encoding of messages: JSON lines, or MessagePack with a length prefix.

Both encode the same objects. Incoming data is untrusted: `decode` returns an object or raises
`MessageError`.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

from tiburon.errors import TiburonError

__all__ = ["FORMATS", "MAX_MESSAGE_BYTES", "MessageError", "decode", "encode", "framed", "short"]

FORMATS = ("json", "msgpack")
"""Encodings of messages; every connection begins with the first."""

MAX_MESSAGE_BYTES = 65536
"""Largest message [bytes]."""

LENGTH = struct.Struct(">I")
"""Length prefix of MessagePack messages on a socket: four bytes, big-endian."""


class MessageError(Exception):
    """A message that cannot be decoded or carried out."""


def short(value: Any) -> str:
    """Return the representation of a value, truncated."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def decode(data: str | bytes, form: str = "json") -> dict[str, Any]:
    """Return the object of a message.

    Args:
        data: Received data; text is always JSON.
        form: Encoding of bytes, "json" or "msgpack".

    Raises:
        MessageError: If it is too long, malformed, or not an object.
    """
    if len(data) > MAX_MESSAGE_BYTES:
        raise MessageError(f"message: expected at most {MAX_MESSAGE_BYTES} bytes, got {len(data)}")
    if form == "msgpack" and isinstance(data, bytes):
        name, message = "MessagePack map", _unpacked(data)
    else:
        name, message = "JSON object", _parsed(data)
    if not isinstance(message, dict):
        raise MessageError(f"message: expected a {name}, got {short(message)}")
    return message


def _parsed(text: str | bytes) -> Any:
    try:
        return json.loads(text)
    except (ValueError, RecursionError) as error:
        raise MessageError(
            f"message: expected a JSON object, got {short(text)} ({error})"
        ) from None


def _unpacked(data: bytes) -> Any:
    import msgpack

    try:
        # texts must be UTF-8, and keys must be texts
        return msgpack.unpackb(data, raw=False, strict_map_key=True)
    except (ValueError, RecursionError, msgpack.exceptions.UnpackException) as error:
        reason = str(error) or type(error).__name__
        raise MessageError(
            f"message: expected a MessagePack map, got {short(data)} ({reason[:200]})"
        ) from None


def encode(message: Mapping[str, Any], form: str = "json") -> bytes:
    """Return a message as bytes, without framing."""
    if form == "msgpack":
        import msgpack

        # lone surrogates, which JSON can hold, are replaced
        return bytes(msgpack.packb(message, unicode_errors="replace"))
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode()


def framed(message: Mapping[str, Any], form: str = "json") -> bytes:
    """Return a message with framing for a socket: a line, or a length prefix and the bytes."""
    data = encode(message, form)
    return LENGTH.pack(len(data)) + data if form == "msgpack" else data + b"\n"


def check_format(form: Any) -> str:
    """Return the name of an encoding after checking it.

    Raises:
        MessageError: If there is none of that name.
        TiburonError: If its package is not installed.
    """
    if form not in FORMATS:
        raise MessageError(f"format: expected one of {', '.join(FORMATS)}, got {short(form)}")
    if form == "msgpack":
        try:
            import msgpack  # noqa: F401
        except ImportError:
            raise TiburonError(
                "format: MessagePack needs a package that this server does not have; install it "
                "there with pip install msgpack, or use JSON"
            ) from None
    return str(form)
