"""How people come to the control room: links that sign in, who is signed in, and ending that."""

from datetime import datetime
from typing import Annotated, Literal, Protocol

import msgspec
from msgspec import Meta

from safetyd.operators.replies import Done

PersonRole = Literal["operator", "observer"]  # an observer may look and not act


class SignInQuestion(msgspec.Struct, frozen=True, kw_only=True):
    """`numeric`: for a browser that does not find names below localhost, a link by the address."""

    numeric: bool = False


class SignInAnswer(Done, frozen=True, kw_only=True):
    """A link for one browser, once; it opens on the machine where safetyd runs."""

    operator: str
    url: str
    expires_s: float


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A browser that somebody signed in; it ends by itself at `ends_at` if it is not used."""

    id: str
    operator: str
    opened_at: datetime
    used_at: datetime
    ends_at: datetime
    browser: str


class SessionsAnswer(Done, frozen=True, kw_only=True):
    """The newest first."""

    sessions: tuple[SessionRow, ...]


class SessionEndCommand(msgspec.Struct, kw_only=True):
    """End one session by its id, or all of one operator, or all."""

    id: Annotated[str, Meta(max_length=64)] = ""
    operator: Annotated[str, Meta(max_length=64)] = ""
    all: bool = False


class SessionsEnded(Done, frozen=True, kw_only=True):
    ended: tuple[str, ...]


class WebAccess(Protocol):
    """What the web offers to whom the bus has recognised."""

    def sign_in(self, by: str, question: SignInQuestion) -> SignInAnswer: ...

    def sessions(self) -> SessionsAnswer: ...

    def end(self, by: str, command: SessionEndCommand) -> SessionsEnded: ...
