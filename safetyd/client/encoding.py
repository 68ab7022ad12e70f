"""Encode keyword arguments as messages, and reject values that the daemon would reject."""

import json
import os
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from safetyd.client.exceptions import Malformed
from safetyd.core.messages.proposal import MAX_DEPTH, MAX_MESSAGE_BYTES

T = TypeVar("T")

# In errors of msgspec, only a wrong type has "got": "Expected `str`, got `int`".
_WRONG_TYPE: Final = ", got `"

# These types are rejected, because operators could not read them as base64.
_BYTES: Final = (bytes, bytearray, memoryview)

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode(fields: Mapping[str, object] | msgspec.Struct) -> bytes:
    """Return `fields` as JSON. They can contain structs and paths.

    Raises `TypeError` for a type that JSON cannot represent. Raises `Malformed` for a message that
    is too large or nested too deeply, or that contains NUL, NaN, infinity or a lone surrogate.
    """
    try:
        plain = msgspec.to_builtins(fields, enc_hook=os.fspath, builtin_types=_BYTES)
        payload = _encode(plain).encode()
    except RecursionError:
        raise Malformed(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as exc:  # NaN, infinity, a lone surrogate
        raise Malformed(str(exc)) from None
    if len(payload) > MAX_MESSAGE_BYTES:
        size = f"{len(payload)} bytes; the limit is {MAX_MESSAGE_BYTES}"
        raise Malformed(f"the message has {size}")
    _check(plain, MAX_DEPTH)
    return payload


def check(payload: bytes, kind: type[T]) -> T:
    """Decode a message of the client in the same way as the daemon does.

    Raises `TypeError` for a wrong type and `Malformed` for a wrong value.
    """
    try:
        return msgspec.json.decode(payload, type=kind)
    except msgspec.ValidationError as exc:
        if _WRONG_TYPE in str(exc):
            raise TypeError(str(exc)) from None
        raise Malformed(str(exc)) from None


def _check(value: object, levels: int) -> None:
    if isinstance(value, str):
        if "\0" in value:
            raise Malformed("a text contains the character NUL, which is not allowed")
    elif isinstance(value, dict):
        _check_all(value.keys(), levels)
        _check_all(value.values(), levels)
    elif isinstance(value, list | tuple):
        _check_all(value, levels)


def _check_all(values: object, levels: int) -> None:
    if levels == 0:
        raise Malformed(f"nested deeper than {MAX_DEPTH} levels")
    for value in values:  # type: ignore[attr-defined]
        _check(value, levels - 1)
