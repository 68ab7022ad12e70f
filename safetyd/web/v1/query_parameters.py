"""Reads the parameters of a request into a struct."""

from collections.abc import Container, Sequence
from typing import TypeVar

import msgspec
from aiohttp import web

from safetyd.bus.codec import choices, in_words
from safetyd.web.v1.http_refusals import HttpRefusal

Asked = TypeVar("Asked", bound=msgspec.Struct)


def texts_of(request: web.Request) -> dict[str, str]:
    """Return the parameters of the query and of the path."""
    return {**request.query, **request.match_info}


def read_parameters(kind: type[Asked], request: web.Request, without: Container[str] = ()) -> Asked:
    """Return the parameters as a struct, or refuse them. Fields in `without` count as unknown."""
    fields = kind.__struct_fields__
    _check_names([f for f in fields if f not in request.match_info and f not in without], request)
    texts = texts_of(request)
    try:
        return msgspec.convert(texts, kind, strict=False)
    except msgspec.ValidationError as exc:
        raise HttpRefusal("invalid", in_words(exc, texts, choices(kind))) from None


def _check_names(known: Sequence[str], request: web.Request) -> None:
    """Refuse unknown and repeated parameters."""
    for name in request.query:
        if name not in known:
            there = ", ".join(known) or "none"
            error = f"unknown parameter {name!r}; {request.path} takes {there}"
            raise HttpRefusal("invalid", error)
        if len(request.query.getall(name)) > 1:
            raise HttpRefusal("invalid", f"parameter {name!r} is given twice")
