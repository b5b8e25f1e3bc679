"""Messages as bytes and back: JSON on a line, or MessagePack behind its length.

Both hold the same objects. What comes in is from strangers: it is an object or a reason why not.
"""

import json
import struct
from collections.abc import Mapping
from typing import Any

from tiburon.errors import TiburonError

__all__ = ["FORMATS", "LONGEST_MESSAGE", "MessageError", "decode", "encode", "framed", "short"]

FORMATS = ("json", "msgpack")
"""How messages may be written; every conversation begins with the first."""

LONGEST_MESSAGE = 65536
"""Bytes of one message at most."""

LENGTH = struct.Struct(">I")
"""Before each MessagePack message on a plain socket, its length: four bytes, the largest first."""


class MessageError(Exception):
    """A message that cannot be read or carried out, with the reason."""


def short(value: Any) -> str:
    """Return how a value looks, cut where it is long."""
    text = repr(value)
    return text if len(text) <= 80 else f"{text[:77]}..."


def decode(data: str | bytes, form: str = "json") -> dict[str, Any]:
    """Return the object of a message.

    Args:
        data: What came in; text is always JSON.
        form: How bytes are to be read, "json" or "msgpack".

    Raises:
        MessageError: If it is too long, cannot be read, or is no object.
    """
    if len(data) > LONGEST_MESSAGE:
        raise MessageError(f"message: expected at most {LONGEST_MESSAGE} bytes, got {len(data)}")
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
        # neither bytes for texts, nor anything but texts as names; no lists longer than the data
        return msgpack.unpackb(data, raw=False, strict_map_key=True)
    except (ValueError, RecursionError, msgpack.exceptions.UnpackException) as error:
        said = str(error) or type(error).__name__
        raise MessageError(
            f"message: expected a MessagePack map, got {short(data)} ({said[:200]})"
        ) from None


def encode(message: Mapping[str, Any], form: str = "json") -> bytes:
    """Return a message as bytes, without what separates it from the next."""
    if form == "msgpack":
        import msgpack

        # halves of characters, which JSON can carry, are none in UTF-8
        return bytes(msgpack.packb(message, unicode_errors="replace"))
    return json.dumps(message, allow_nan=False, separators=(",", ":")).encode()


def framed(message: Mapping[str, Any], form: str = "json") -> bytes:
    """Return a message as it goes over a plain socket: a line, or its length and the bytes."""
    data = encode(message, form)
    return LENGTH.pack(len(data)) + data if form == "msgpack" else data + b"\n"


def check_format(form: Any) -> str:
    """Return the name of a format that a client may ask for.

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
                "there with pip install msgpack, or speak JSON"
            ) from None
    return str(form)
