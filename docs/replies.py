"""How every command and question is answered: done, or refused."""

from typing import Annotated

from msgspec import Meta, Struct

Yes = Annotated[bool, Meta(extra_json_schema={"const": True})]
No = Annotated[bool, Meta(extra_json_schema={"const": False})]


class Refusal(Struct):
    """A command or question that was not carried out; `code` is for machines."""

    ok: No
    error: str
    code: str


class Done(Struct):
    """It was carried out and is in the journal."""

    ok: Yes
