"""Sign-in links and sessions of the control room, as queries and commands on the bus."""

import logging
from collections.abc import Callable
from urllib.parse import urlsplit

from safetyd.clock import Clock
from safetyd.operators.contract.session_contract import (
    SessionEndCommand,
    SessionRow,
    SessionsAnswer,
    SessionsEnded,
    SessionsQuestion,
    SignInAnswer,
    SignInQuestion,
)
from safetyd.operators.handlers import Handlers, at_once
from safetyd.operators.replies import CommandRefused
from safetyd.web.control_room.sign_in_links import LIFE_S, SignInLinks
from safetyd.web.control_room.web_sessions import Session, WebSessions

log = logging.getLogger("safetyd.web")


class Entrance:
    """`address` returns the URL of the control room."""

    def __init__(
        self, sessions: WebSessions, links: SignInLinks, address: Callable[[], str], clock: Clock
    ) -> None:
        self._sessions = sessions
        self._links = links
        self._address = address
        self._clock = clock

        self.handlers: Handlers = dict(
            (
                at_once(SignInQuestion, self.sign_in),
                at_once(SessionsQuestion, lambda _by, _question: self.sessions()),
                at_once(SessionEndCommand, self.end),
            )
        )

    def sign_in(self, by: str, question: SignInQuestion) -> SignInAnswer:
        """Return a sign-in link for the operator, under the daemon's current host name if any."""
        name = "" if question.numeric else self._sessions.name
        url = f"{_under(name, self._address())}/signin/{self._links.make(by, name)}"
        return SignInAnswer(ok=True, operator=by, url=url, expires_s=LIFE_S)

    def sessions(self) -> SessionsAnswer:
        rows = tuple(map(_row, self._sessions.all(self._clock.now().at)))
        return SessionsAnswer(ok=True, sessions=rows)

    def end(self, by: str, command: SessionEndCommand) -> SessionsEnded:
        if not (command.id or command.operator or command.all):
            raise CommandRefused("invalid", "name a session or an operator, or end all sessions")

        def meant(session: Session) -> bool:
            named = command.id in ("", session.id) and command.operator in ("", session.operator)
            return named or command.all

        ended = self._sessions.end(meant, self._clock.now().at)
        if not ended and command.id:
            raise CommandRefused("not_found", f"no session {command.id!r}")
        log.info("%s ended %d control-room sessions", by, len(ended))
        return SessionsEnded(ok=True, ended=ended)


def _under(name: str, address: str) -> str:
    return f"http://{name}:{urlsplit(address).port}" if name else address


def _row(session: Session) -> SessionRow:
    return SessionRow(
        id=session.id,
        operator=session.operator,
        opened_at=session.opened_at,
        used_at=session.used_at,
        ends_at=session.ends_at,
        browser=session.browser,
    )
