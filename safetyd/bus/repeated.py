"""Keys that stand twice in an object: readers differ on which of them counts, so none may."""

import json

import msgspec

_encode = msgspec.json.Encoder().encode


class _Twice(Exception):
    """Ends the search."""


def repeated(data: bytes, fields: object) -> str | None:
    """Return a key that stands twice in an object of `data`, of which `fields` was read.

    Every key brings a colon and is kept once, so without repeated ones as many are written as were
    read. Only a colon that was escaped is not seen before it is written.
    """
    if data.count(b":") == _encode(fields).count(b":") and b"\\u003" not in data:
        return None
    try:
        # Numbers are left alone: to read them may take long, or be refused.
        json.loads(data, object_pairs_hook=_once, parse_int=str, parse_float=str)
    except _Twice as exc:
        return str(exc)
    return None


def _once(pairs: list[tuple[str, object]]) -> None:
    seen = set[str]()
    for key, _ in pairs:
        if key in seen:
            raise _Twice(key)
        seen.add(key)
