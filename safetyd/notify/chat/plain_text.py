"""A message as plain text: no markup, links on lines of their own, and never too long.

The lines of an agent begin with `>`, so that none can pass for one of ours.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterator
from typing import Final

import msgspec

from safetyd.core.text.time_words import day_and_clock
from safetyd.notify.message import Notice, Topic, as_entry

CUT: Final = "…"
# How many characters of an agent's words are tried, until the whole is short enough.
EXCERPTS: Final = (4000, 2000, 1000, 500, 250, 120, 60, 20, 0)
LIST_EXCERPTS: Final = (250, 120, 60, 0)
FEW: Final = 120  # with fewer characters of a text, one rule has to do

Size = Callable[[str], int]


def in_bytes(text: str) -> int:
    return len(text.encode("utf-8", "replace"))


def headline(notice: Notice, most: int = 80, size: Size = len) -> str:
    """Return one line that says what a message is about."""
    topic = notice.single
    mark = "[TEST] " if notice.test else ""
    if topic is None or notice.privacy == "minimal":
        high = any(each.high for each in notice.topics)
        return clip(f"{mark}{'HIGH: ' if high else ''}{_counts(notice)}", most, size)
    return clip(f"{mark}{_title(topic)}", most, size)


def plain_text(notice: Notice, most: int, size: Size = len) -> str:
    """Return what a message says beside its headline, at most so long by `size`.

    The words of agents give way first, then the last topics; how to answer stays.
    """
    shortest = ""
    for text in _versions(notice):
        if size(text) <= most:
            return text
        shortest = text
    return clip(shortest, most, size)


def clip(text: str, most: int, size: Size = len) -> str:
    """Return a text, or as much of its beginning as fits, marked as cut."""
    if size(text) <= most:
        return text
    fits = bisect_right(range(len(text)), most, key=lambda end: size(text[:end] + CUT))
    return text[: fits - 1] + CUT if fits else ""


def without_last(notice: Notice, number: int) -> Notice:
    """Return a message that tells of its last topics by number only."""
    shown = notice.topics[: len(notice.topics) - number]
    return msgspec.structs.replace(notice, topics=shown, more=notice.more + number)


def _versions(notice: Notice) -> Iterator[str]:
    """Yield the text from its longest form to its shortest."""
    topic = notice.single
    if notice.privacy != "minimal":
        if topic is not None:
            yield from (_text(_single(notice, topic, chars)) for chars in EXCERPTS)
        else:
            yield from (_text(_several(notice, chars)) for chars in LIST_EXCERPTS)
        for number in range(1, len(notice.topics)):
            yield _text(_several(without_last(notice, number), 0))
    yield _text(_minimal(notice, topic))


def _text(lines: Iterator[str]) -> str:
    return "\n".join(lines).strip()


def _single(notice: Notice, topic: Topic, chars: int) -> Iterator[str]:
    known = topic.asks or topic.kind == "expired"
    yield from _asked(topic, chars, notice) if known else _noted(topic, chars, notice)
    yield ""
    yield from _answer(topic)
    if topic.commands:
        yield "At a terminal:"
        yield from topic.commands
    yield from _last(notice)


def _asked(topic: Topic, chars: int, notice: Notice) -> Iterator[str]:
    full = notice.privacy == "full"
    yield f"What: {' '.join(filter(None, (topic.action, topic.target if full else '')))}"
    if full:
        yield from _words(topic, chars)
    if full and topic.place:
        yield topic.place
    session = f", session {topic.session}" if full and topic.session else ""
    yield f"Who: {topic.agent}{session}{_asked_at(topic)}"
    if full and topic.why and chars:
        yield "Why, as the agent says:"
        yield from _quoted(topic.why, None, chars)
    if full and topic.beside:
        yield f"Also: {topic.beside}; look at the page before you approve"
    if full:
        yield from (f"Stopped by {rule}" for rule in topic.rules[: None if chars > FEW else 1])
    yield f"Risk: {', '.join(filter(None, (topic.danger, topic.cost)))}"
    yield from _until(topic)


def _noted(topic: Topic, chars: int, notice: Notice) -> Iterator[str]:
    if notice.privacy == "full" and topic.text:
        yield from _excerpt(topic.text, topic, chars)
    else:
        yield _title(topic)
    if topic.count > 1:
        yield f"It happened {topic.count} times."


def _several(notice: Notice, chars: int) -> Iterator[str]:
    if notice.digest:
        yield "While quiet hours lasted:"
    for number, whole in enumerate(notice.topics, 1):
        topic = as_entry(whole, chars, notice.privacy)
        until = f", until {day_and_clock(topic.until)}" if topic.until else ""
        yield f"{number}. {_title(topic)}{topic.times}{until}"
        if notice.privacy == "full":
            yield from filter(None, (topic.place, topic.price.capitalize()))
        if notice.privacy == "full" and chars:
            yield from _words(topic, chars)
        if topic.unshown:
            yield topic.unshown
        yield from _answer(topic)
        yield ""
    if notice.more:
        yield f"{notice.rest}; `safetyd list` shows what waits."
    if notice.list_link:
        yield "All of them:"
        yield notice.list_link
    yield from _last(notice)


def _minimal(notice: Notice, topic: Topic | None) -> Iterator[str]:
    if topic is not None:
        yield f"{_counts(notice)}."
        yield from _until(topic)
        yield from _answer(topic)
    else:
        yield f"{_counts(notice)}; `safetyd list` shows what waits."
        yield notice.list_link
    yield from _last(notice)


def _answer(topic: Topic) -> Iterator[str]:
    if not topic.link:
        return
    yield topic.link
    if topic.code:
        yield f"Code to approve: {topic.code}"
    elif topic.asks:
        yield "The link can deny; to approve it takes a terminal."


def _last(notice: Notice) -> Iterator[str]:
    if notice.reach:
        yield notice.reach
    if notice.held_back:
        yield f"{notice.held_back:,} less urgent not sent; `safetyd list` shows what waits."
    if notice.again:
        yield "You may have this message already."


def _title(topic: Topic) -> str:
    return f"{topic.prefix.short}{'HIGH: ' * topic.high}{topic.title}"


def _counts(notice: Notice) -> str:
    return ", ".join(notice.counted())


def _asked_at(topic: Topic) -> str:
    if topic.asked is None:
        return ""
    times = f" {topic.count} times since" if topic.count > 1 else ""
    return f"; asked{times} {day_and_clock(topic.asked)}"


def _until(topic: Topic) -> Iterator[str]:
    if topic.until is not None:
        yield f"Until: {day_and_clock(topic.until)}. {topic.silence}".rstrip()
    elif topic.silence:
        yield topic.silence


def _words(topic: Topic, chars: int) -> Iterator[str]:
    if topic.lack:
        yield topic.lack
    yield from _quoted(topic.text, topic, chars)


def _quoted(text: str, topic: Topic | None, chars: int) -> Iterator[str]:
    return _excerpt(text, topic, chars, "> ")


def _excerpt(text: str, topic: Topic | None, chars: int, mark: str = "") -> Iterator[str]:
    """Yield the lines of the beginning of a text and, given its topic, what is missing."""
    shown = text[:chars]
    yield from (f"{mark}{line}".rstrip() for line in shown.splitlines())
    left = len(text) - len(shown) + topic.cut if topic else 0
    if left:
        yield f"({left:,} more characters{' on the page' if topic and topic.link else ''})"
