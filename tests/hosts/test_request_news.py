"""News about requests: for the sessions that made the calls, while they are true, and not many."""

from collections.abc import Callable

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
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
from safetyd.core.messages.verdict import ASK, Verdict
from safetyd.core.policy import Policy
from safetyd.hosts.request_news import (
    MAX_CHARS,
    MAX_OF_ONE,
    MAX_REQUESTS,
    MAX_SESSIONS,
    RequestNews,
)
from tests.story import at, propose

PUSH = "git push origin main"


class Story:
    """News about what an engine decides and what operators answer."""

    def __init__(self) -> None:
        self.news = RequestNews()
        self._engine = Engine(Policy())
        self._t = 0.0

    def propose(self, text: str = PUSH, session: str = "s1", **fields: object) -> Decided:
        self._t += 10.0
        given = {"type": "run_shell", "text": text, "session": session, **fields}
        proposed = propose(self._t, "me", f"p{self._t}", **given)  # type: ignore[arg-type]
        _, events = self._engine.decide(msgspec.structs.replace(proposed, host="claude"))
        self.news.observe(events)
        (decided,) = (event for event in events if isinstance(event, Decided))
        return decided

    def ask(self, text: str = PUSH, session: str = "s1", **fields: object) -> str:
        decided = self.propose(text, session, **fields)
        assert decided.asks is not None
        return decided.asks.request_id

    def happens(self, make: Callable[..., Event], **fields: object) -> None:
        self._t += 1.0
        self.news.observe(self._engine.handle(make(at=at(self._t), t=self._t, **fields)))

    def answer(self, request: str, answer: str = "approved", words: str = "") -> None:
        said = {"request_id": request, "answer": answer, "words": words}
        self.happens(Answered, agent="me", id="p", by="ann", via="cli", **said)

    def take(self, session: str = "s1") -> str:
        return self.news.take("me", session, None)


def test_every_session_that_joined_a_request_gets_its_news_once() -> None:
    story = Story()
    request = story.ask()
    assert story.ask(session="s2") == request
    assert story.take() == ""

    story.answer(request)

    expected = f'safetyd: {request} was approved: you may run "{PUSH}" now.'
    assert [story.take("s1"), story.take("s2"), story.take("s3")] == [expected, expected, ""]
    assert story.take() == ""


def test_denied_expired_and_withdrawn_requests_are_news() -> None:
    story = Story()
    story.answer(story.ask("git push origin a"), "denied", "use `safetyd grant add`: not today")
    story.happens(Expired, request_ids=(story.ask("git push origin b"), "req_unknown"))
    story.happens(Cancelled, request_id=story.ask("git push origin c"), by="ann", via="cli")
    story.answer(story.ask(type="brew", text="", paths=("/tea",)))

    denied, expired, withdrawn, brewed = story.take().split("safetyd: ")[1:]
    assert "denied" in denied
    assert "not today" in denied
    assert "grant" not in denied
    assert "in time" in expired
    assert "withdrawn" in withdrawn
    assert '"brew /tea"' in brewed


@pytest.mark.parametrize("way", ["used", "claimed", "lapsed", "waiting", "held back", "replaced"])
def test_an_approval_that_no_call_can_use_is_no_news(way: str) -> None:
    story = Story()
    request = story.ask()
    story.ask(session="s2")
    named = {"request_id": request, "agent": "me", "id": "p"}
    if way == "replaced":
        story.happens(Superseded, request_id=request, agent="me", by_id="p2")
    story.answer(request)
    match way:
        case "used":
            assert story.propose().uses is not None
        case "claimed":
            story.happens(Claimed, **named, claimant="c")
        case "lapsed":
            story.happens(Lapsed, request_ids=(request,))
        case "waiting":
            story.happens(Released, **named, waits=True)
        case "held back":
            no = Verdict("rate", ASK, "rate.agent", "too fast")
            story.happens(Released, **named, verdicts=(no,))

    assert (story.take("s1"), story.take("s2")) == ("", "")


def test_news_are_short_and_the_oldest_are_dropped() -> None:
    story = Story()
    requests = [story.ask(f"git push origin b{n} {'x' * 999}") for n in range(MAX_OF_ONE + 1)]
    for request in requests:
        story.answer(request)
    news = story.take()
    assert requests[0] not in news
    assert all(request in news for request in requests[1:])
    assert len(news) < MAX_OF_ONE * (MAX_CHARS + 100)


def test_only_so_many_requests_and_sessions_are_remembered() -> None:
    story = Story()
    asked = story.propose()
    first = asked.asks
    assert first is not None

    def decided(number: int) -> Decided:
        asks = msgspec.structs.replace(first, request_id=f"req_{number}")
        proposal = msgspec.structs.replace(asked.proposal, session=f"s{number}")
        return msgspec.structs.replace(asked, asks=asks, proposal=proposal)

    news = RequestNews()
    most = max(MAX_REQUESTS, MAX_SESSIONS)
    news.observe([decided(number) for number in range(most + 1)])
    news.observe([Expired(at=at(0), t=0.0, request_ids=tuple(f"req_{n}" for n in range(most + 1)))])
    taken = [news.take("me", f"s{number}", None) for number in range(most + 1)]
    assert sum(map(bool, taken)) == min(MAX_REQUESTS, MAX_SESSIONS)
    assert not taken[0]
    assert taken[-1]
