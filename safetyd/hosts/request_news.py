"""News for a coding session: how its requests ended since its last tool call.

A call that needs approval is refused after a while, and the agent continues with other work. When
an operator has answered, the next answer to that session says so. The news are lost when the daemon
ends, but approvals stay valid.
"""

from collections import OrderedDict
from collections.abc import Sequence
from typing import Final, NamedTuple

from safetyd.core.events.decision_events import Decided
from safetyd.core.events.event import Event
from safetyd.core.events.request_events import (
    Answered,
    Cancelled,
    Claimed,
    Expired,
    Lapsed,
    Released,
    Superseded,
)
from safetyd.core.messages.decision import Decision
from safetyd.hosts.hook_answer import for_agents

MAX_REQUESTS: Final = 1024  # requests whose answer is awaited
MAX_SESSIONS: Final = 1024  # sessions with undelivered news
MAX_OF_ONE: Final = 8  # sessions of a request, and news of a session
MAX_CHARS: Final = 200  # of a call or of an operator's words

_Session = tuple[str, str]  # agent and session


class _Asked(NamedTuple):
    call: str  # as the model made it
    runs: bool  # a shell command
    sessions: tuple[_Session, ...]


class RequestNews:
    """Answers to requests of coding agents, for the sessions that made the calls."""

    def __init__(self) -> None:
        self.answers = 0  # answers of operators so far, to any request
        self._asked: OrderedDict[str, _Asked] = OrderedDict()
        self._news: OrderedDict[_Session, OrderedDict[str, str]] = OrderedDict()

    def observe(self, events: Sequence[Event]) -> None:
        """Remember requests of hooks, and how they end."""
        for event in events:
            match event:
                case Decided(host=host) if host:
                    self._decided(event)
                case Answered():
                    self._answered(event)
                case Expired(request_ids=ids):
                    self._ended(ids, "was not answered in time: do not {}.")
                case Cancelled(request_id=id_):
                    self._ended((id_,), "was withdrawn: do not {}.")
                case Superseded(request_id=id_):
                    self._asked.pop(id_, None)
                case _:
                    self._forget(_used_up(event))

    def take(self, agent: str, session: str, decision: Decision | None) -> str:
        """Return and forget the news of a session, without the request that the decision names."""
        news = self._news.pop((agent, session), None)
        if news is None:
            return ""
        if decision is not None and decision.request_id is not None:
            news.pop(decision.request_id, None)
        return " ".join(news.values())

    def _decided(self, event: Decided) -> None:
        if event.uses is not None:
            self._forget((event.uses.request_id,))
        if event.asks is None:
            return
        id_, session = event.asks.request_id, (event.agent, event.proposal.session or "")
        known = self._asked.pop(id_, None) or _asked(event)
        sessions = tuple(dict.fromkeys((*known.sessions, session)))[-MAX_OF_ONE:]
        self._asked[id_] = known._replace(sessions=sessions)
        if len(self._asked) > MAX_REQUESTS:
            self._asked.popitem(last=False)

    def _answered(self, event: Answered) -> None:
        self.answers += 1
        said = _cut(for_agents(event.words))
        words = f' ("{said}")' if said else ""
        if event.answer == "approved":
            self._ended((event.request_id,), f"was approved{words}: you may {{}} now.")
        else:
            self._ended((event.request_id,), f"was denied{words}: do not {{}}.")

    def _ended(self, ids: Sequence[str], what: str) -> None:
        for id_ in ids:
            if (asked := self._asked.pop(id_, None)) is None:
                continue
            verb = "run" if asked.runs else "make the call"
            text = f"safetyd: {id_} {what}".replace("{}", f'{verb} "{asked.call}"')
            for session in asked.sessions:
                self._add(session, id_, text)

    def _add(self, session: _Session, id_: str, text: str) -> None:
        news = self._news.pop(session, None) or OrderedDict()
        news[id_] = text
        if len(news) > MAX_OF_ONE:
            news.popitem(last=False)
        self._news[session] = news
        if len(self._news) > MAX_SESSIONS:
            self._news.popitem(last=False)

    def _forget(self, ids: Sequence[str]) -> None:
        for id_ in ids:
            for session, news in list(self._news.items()):
                if news.pop(id_, None) is not None and not news:
                    del self._news[session]


def _used_up(event: Event) -> Sequence[str]:
    """Return the requests whose approval cannot be used after an event."""
    match event:
        case Released(request_id=id_) if event.waits or event.verdicts:
            return (id_,)  # the waiting call used it, or a guard still objects
        case Claimed(request_id=id_):
            return (id_,)
        case Lapsed(request_ids=ids):
            return ids
    return ()


def _asked(event: Decided) -> _Asked:
    proposal = event.proposal
    target = proposal.target.url if proposal.target else ""
    named = " ".join(filter(None, (proposal.type, *proposal.paths[:1], target)))
    return _Asked(_cut(proposal.text or named), event.type == "run_shell", ())


def _cut(text: str) -> str:
    line = " ".join(text.replace('"', "'").split())
    return line if len(line) <= MAX_CHARS else f"{line[:MAX_CHARS]}…"
