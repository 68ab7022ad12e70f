"""Fields of a proposal that safetyd does not know: kept and shown, but judged by no guard."""

import difflib
from collections.abc import Iterator, Mapping
from typing import get_args

import msgspec

from safetyd.console.terminal_text import plain
from safetyd.core.messages.proposal import Proposal


def unknown_fields(proposal: Mapping[str, object]) -> Iterator[str]:
    """Yield a sentence for each, since it may be a slip of the pen."""
    for name, meant in _unknown(Proposal, proposal, ""):
        hint = f"; did you mean {meant}?" if meant else ""
        yield f"no guard knows the field {plain(name, 100)}{hint}"


def _unknown(
    kind: type[msgspec.Struct], fields: Mapping[str, object], path: str
) -> Iterator[tuple[str, str]]:
    known = {field.encode_name: field.type for field in msgspec.structs.fields(kind)}
    for name, value in fields.items():
        if name not in known:
            near = difflib.get_close_matches(name, known, n=1)
            yield path + name, path + near[0] if near else ""
        elif (inner := _struct(known[name])) and isinstance(value, Mapping):
            yield from _unknown(inner, value, f"{path}{name}.")


def _struct(kind: object) -> type[msgspec.Struct] | None:
    """Return the struct of `Target | None`."""
    kinds = (k for k in get_args(kind) if isinstance(k, type) and issubclass(k, msgspec.Struct))
    return next(kinds, None)
