"""Signing in to the control room, and its browser sessions."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from safetyd.operators.contract.question import Command, Question
from safetyd.operators.replies import Done


class SignInAnswer(Done, frozen=True, kw_only=True):
    """A link that works once, in a browser on the machine where safetyd runs."""

    operator: str
    url: str
    expires_s: float


class SignInQuestion(Question[SignInAnswer], frozen=True, kw_only=True, tag="sign_in"):
    """Create a link that signs one browser in to the control room as the sender.

    With `numeric`, the link has an IP address, for browsers that cannot resolve subdomains of
    localhost.
    """

    numeric: bool = False
    daemon: str = ""  # Of several daemons, the one whose control room is opened.


class SessionRow(msgspec.Struct, frozen=True, kw_only=True):
    """A signed-in browser. Its session ends at `ends_at`, unless the browser uses it before."""

    id: str
    operator: str
    opened_at: datetime
    used_at: datetime
    ends_at: datetime
    browser: str


class SessionsAnswer(Done, frozen=True, kw_only=True):
    """Newest first."""

    sessions: tuple[SessionRow, ...]


class SessionsQuestion(Question[SessionsAnswer], frozen=True, tag="sessions"):
    """List the browsers that are signed in to the control room."""

    paths = ("/sessions",)


class SessionsEnded(Done, frozen=True, kw_only=True):
    ended: tuple[str, ...]


class SessionEndCommand(Command[SessionsEnded], frozen=True, kw_only=True, tag="session_end"):
    """Sign browsers out of the control room.

    End one session by its id, all sessions of one operator, or all.
    """

    id: Annotated[str, Meta(max_length=64)] = ""
    operator: Annotated[str, Meta(max_length=64)] = ""
    all: bool = False
