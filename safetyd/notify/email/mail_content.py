"""What both parts of a mail say: the subject, the headline, the facts, and the small print."""

from collections import Counter
from collections.abc import Iterator
from datetime import datetime
from typing import Final

import msgspec

from safetyd.core.text.time_words import ahead, in_full
from safetyd.notify.message import Notice, Topic
from safetyd.notify.sanitize import one_line

TITLE_CHARS: Final = 120
LINE_CHARS: Final = 300
MAX_RULES: Final = 5

_URGENCIES: Final = ("low", "normal", "high")
_NOUNS: Final = {"expired": "expired request", "summary": "summary"}


def discreet(notice: Notice) -> Notice:
    """Return a message without what its channel is not to be trusted with."""
    if notice.privacy == "full":
        return notice
    return msgspec.structs.replace(notice, topics=tuple(map(_guarded, notice.topics)))


def subject(notice: Notice) -> str:
    """Return one line; that of a reminder makes it an answer to the first message."""
    single = notice.single
    if single is None or single.kind != "reminder" or notice.privacy == "minimal":
        return _marked(notice, headline(notice))
    first = msgspec.structs.replace(single, kind="request")
    return f"Re: {_marked(notice, _about(first))}"


def headline(notice: Notice) -> str:
    """Return what the message is about in one sentence."""
    single = notice.single
    if single is not None and notice.privacy != "minimal":
        return _about(single)
    return f"{'While it was quiet: ' * notice.digest}{_in_short(notice)}"


def named(topic: Topic) -> str:
    """Return a topic's title, and which of several messages about it this is."""
    return f"{topic.prefix.long}{one_line(topic.title, TITLE_CHARS)}"


def facts(topic: Topic, now: datetime) -> Iterator[tuple[str, str]]:
    """Yield what is known of a topic besides the agent's own words, by name."""
    yield "What", f"{topic.action} {topic.target}".strip()
    yield "Folder", topic.folder
    yield "Who", f"{topic.agent}{f', session {topic.session}' * bool(topic.session)}"
    yield "Risk", topic.danger
    yield "Urgency", topic.urgency * topic.asks
    yield "Also", f"{topic.beside}: look at the page before you approve" * bool(topic.beside)
    yield "Cost", f"{topic.cost}, as the agent says" * bool(topic.cost)
    yield from (("Stopped by", one_line(rule, LINE_CHARS)) for rule in topic.rules[:MAX_RULES])
    yield from (("Part", one_line(part, LINE_CHARS)) for part in topic.parts)
    yield "Since" if topic.asks else "When", in_full(topic.asked) if topic.asked else ""
    yield "Times", str(topic.count) * (topic.count > 1)
    yield "Until", until(topic, now)


def exactly(topic: Topic) -> str:
    """Say of a request what its words are: what would be done, or how the agent describes it."""
    return topic.lack or "Exactly this would be done:" * bool(topic.action)


def terms(topic: Topic) -> str:
    """Return in one line how dangerous something is, what it costs, and what stopped it."""
    rule = one_line(topic.rules[0], LINE_CHARS) if topic.rules else ""
    others = len(topic.rules) - 1
    more = f" (and {_number(others, 'more rule')})" if others > 0 else ""
    risk, stopped = f"Risk: {topic.danger}", f"stopped by {rule}{more}"
    parts = (risk * bool(topic.danger), topic.price, stopped * bool(rule))
    return "; ".join(filter(None, parts))


def until(topic: Topic, now: datetime) -> str:
    """Say how long there is to answer, and what happens then."""
    if not topic.asks:
        return ""
    end = topic.until
    time = "no end" if end is None else f"{in_full(end)} ({ahead(end - now)})"
    return f"{time}. {topic.silence}".strip()


def uncut(topic: Topic) -> str:
    """Say how much is left out, if anything is."""
    where = "on the review page" if topic.link else "not shown"
    return f"({topic.cut:,} more characters {where})" if topic.cut else ""


def approving(topic: Topic) -> str:
    """Say what else it takes to approve on the page."""
    if topic.code:
        return "To approve, the page asks for this code. To deny, it does not."
    return "This can be approved at a terminal only. The page shows and denies it."


def commands(notice: Notice) -> tuple[str, ...]:
    """Return what can be typed at a terminal instead."""
    single = notice.single
    if single is None and any(topic.asks for topic in notice.topics):
        return ("safetyd list",)
    if single is not None and single.commands:
        return single.commands
    return ("safetyd status",) if notice.privacy == "minimal" or notice.more else ()


def small_print(notice: Notice) -> Iterator[str]:
    """Yield what is to be known about the message itself."""
    if notice.held_back:
        yield f"Held back because it is less urgent: {notice.held_back:,} (safetyd list)"
    if notice.again:
        yield "You may have received this message before."
    yield "Opening a link decides nothing. Nobody reads answers to this mail."


def _guarded(topic: Topic) -> Topic:
    """Return what may be said on the way of less trust: who wants what sort of thing."""
    title = f"{topic.action} by {topic.agent}" if topic.action else topic.title
    return msgspec.structs.replace(
        topic,
        title=title,
        target="",
        text="",
        cut=0,
        session="",
        why="",
        rules=(),
        parts=(),
        cost="",
        folder="",
        beside="",
        sheet=None,
    )


def _marked(notice: Notice, line: str) -> str:
    single = notice.single
    # An alert says itself how urgent it is.
    loud = notice.urgency == "high" and (single.asks if single else _lead(notice) is None)
    return f"[safetyd] {'[TEST] ' * notice.test}{'HIGH: ' * loud}{line}"


def _about(topic: Topic) -> str:
    return f"{named(topic)}{' needs you' * topic.asks}"


def _in_short(notice: Notice) -> str:
    """Return how many things there are; what should be known first has its name."""
    lead = _lead(notice)
    if lead is not None:
        at = notice.topics.index(lead)
        others = notice.topics[:at] + notice.topics[at + 1 :]
        alert = "more alert" if lead.kind == "alert" else "alert"
        return f"{named(lead)}, and {_listed(*_numbers(others, notice.more, alert))}"
    if not notice.topics or not all(topic.asks for topic in notice.topics):
        return _listed(*_numbers(notice.topics, notice.more, "alert"))
    waiting = len(notice.topics) + notice.more
    return f"{waiting:,} requests wait for you" if waiting > 1 else "1 request waits for you"


def _lead(notice: Notice) -> Topic | None:
    """Return the most urgent alert, if there is nothing else or it cannot wait; or the report."""
    if notice.privacy == "minimal":
        return None
    alerts = [topic for topic in notice.topics if topic.kind == "alert"]
    first = max(alerts, key=lambda topic: _URGENCIES.index(topic.urgency), default=None)
    if first and (len(alerts) == len(notice.topics) or first.urgency == "high"):
        return first
    if any(topic.urgency == "high" for topic in notice.topics):
        return None
    return next((topic for topic in notice.topics if topic.sheet), None)


def _numbers(topics: tuple[Topic, ...], more: int, alert: str) -> Iterator[str]:
    """Yield how many there are of each sort; more of the only sort are taken for the same."""
    sorts = Counter(topic.sort for topic in topics)
    if len(sorts) == 1:
        sorts[next(iter(sorts))] += more
    nouns = {**_NOUNS, "alert": alert}
    yield from (_number(count, nouns.get(kind, kind)) for kind, count in sorts.items())
    if more and len(sorts) != 1:
        yield f"{more:,} more"


def _listed(*parts: str) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def _number(count: int, noun: str) -> str:
    if count == 1:
        return f"1 {noun}"
    return f"{count:,} {noun.removesuffix('y')}{'ies' if noun.endswith('y') else 's'}"
