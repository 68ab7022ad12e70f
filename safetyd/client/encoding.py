"""From keyword arguments to a message, refusing at once what the daemon would refuse."""

import json
import os
from collections.abc import Mapping
from typing import Final, TypeVar

import msgspec

from safetyd.client.exceptions import Malformed
from safetyd.core.messages.proposal import MAX_DEPTH, MAX_MESSAGE_BYTES

T = TypeVar("T")

# msgspec says "Expected `str`, got `int`" of a wrong type and never "got" of a wrong value.
_WRONG_TYPE: Final = ", got `"

# Left as they are, for JSON to refuse: encoded, nobody would see what they say.
_BYTES: Final = (bytes, bytearray, memoryview)

_encode = json.JSONEncoder(ensure_ascii=False, allow_nan=False, separators=(",", ":")).encode


def encode(fields: Mapping[str, object] | msgspec.Struct) -> bytes:
    """Return `fields` as JSON; structs and paths may stand in them.

    Raises `TypeError` for what JSON cannot hold and `Malformed` for what a message may not.
    """
    try:
        plain = msgspec.to_builtins(fields, enc_hook=os.fspath, builtin_types=_BYTES)
        payload = _encode(plain).encode()
    except RecursionError:
        raise Malformed(f"nested deeper than {MAX_DEPTH} levels") from None
    except ValueError as exc:  # NaN, infinity, a lone surrogate
        raise Malformed(str(exc)) from None
    if len(payload) > MAX_MESSAGE_BYTES:
        size = f"{len(payload)} bytes; at most {MAX_MESSAGE_BYTES} are taken"
        raise Malformed(f"the message has {size}")
    _check(plain, MAX_DEPTH)
    return payload


def check(payload: bytes, kind: type[T]) -> T:
    """Read a message of our own as the daemon will.

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
            raise Malformed("a text holds the character NUL, which is not taken")
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
