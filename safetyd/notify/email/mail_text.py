"""A mail as plain text.

What the agent wrote stands behind bars, so that it can pass neither for safetyd's words nor for the
end of its own: a line that is too long goes on behind a plus.
"""

import re
from collections.abc import Iterator
from textwrap import fill, indent, wrap
from typing import Final

from safetyd.notify.email.mail_content import (
    approving,
    commands,
    exactly,
    facts,
    headline,
    named,
    small_print,
    terms,
    uncut,
    until,
)
from safetyd.notify.message import Notice, Topic

WIDTH: Final = 72
LABEL: Final = 12

# What people copy from safetyd's own words. It is never broken.
_COMMAND: Final = re.compile(r"`[^`]+`|(?<=: )safetyd .+")
_GLUE: Final = "\0"  # no text of a message has one


def text(notice: Notice) -> str:
    """Return a message that holds no more than its privacy allows."""
    single = notice.single
    parts = [
        [f"{headline(notice)}."],
        *(_several(notice) if single is None else _one(notice, single)),
        _lines(notice.reach),
        _terminal(notice),
        ["-- ", *small_print(notice)],
    ]
    return "\n\n".join("\n".join(part) for part in parts if part) + "\n"


def _one(notice: Notice, topic: Topic) -> Iterator[list[str]]:
    if notice.privacy != "minimal":
        yield [_fact(name, said) for name, said in facts(topic, notice.at) if said]
        yield _words(exactly(topic), topic)
        yield _quoted("Why, the agent says:", topic.why)
    if topic.link:
        yield _page(topic)


def _several(notice: Notice) -> Iterator[list[str]]:
    if notice.privacy != "minimal":
        for number, topic in enumerate(notice.topics, 1):
            yield list(_brief(number, topic, notice))
    yield _lines(notice.rest)
    if notice.list_link:
        yield ["All of them on one page:", f"  {notice.list_link}"]


def _brief(number: int, topic: Topic, notice: Notice) -> Iterator[str]:
    yield f"{number}. {'HIGH: ' * (topic.urgency == 'high')}{named(topic)}"
    if topic.place:
        yield from _folded(topic.place, "  ", "    ")
    if said := terms(topic):
        yield from _folded(said, "  ", "    ")
    yield from _words(indent(topic.lack, "  "), topic)
    if topic.unshown:
        yield from _folded(topic.unshown, "  ", "    ")
    if topic.why:
        yield from _quoted("  The agent says:", topic.why)
    if said := until(topic, notice.at):
        yield f"  Until {said}"
    if topic.link:
        yield f"  {topic.link}"
    if topic.code:
        yield f"  Code to approve: {topic.code}"
    yield from (f"  {command}" for command in topic.commands)


def _fact(name: str, said: str) -> str:
    return fill(
        f"{name:<{LABEL}}{said}", WIDTH, subsequent_indent=" " * LABEL, break_on_hyphens=False
    )


def _words(title: str, topic: Topic) -> list[str]:
    told = _barred(topic.text) if topic.action else _wrapped(topic.text)
    said = [*_lines(title), *told] if topic.text else _lines(topic.lack and title)
    return [*said, *_lines(indent(uncut(topic), "  "))]


def _quoted(title: str, words: str) -> list[str]:
    if not words:
        return []
    return [*_lines(title), *_barred(words)]


def _barred(words: str) -> Iterator[str]:
    for line in words.split("\n"):
        yield f"  | {line[:WIDTH]}"
        yield from (f"  + {line[at : at + WIDTH]}" for at in range(WIDTH, len(line), WIDTH))


def _wrapped(words: str) -> Iterator[str]:
    """Yield words of safetyd's own, which are broken between words only."""
    for line in words.split("\n"):
        whole = _COMMAND.sub(lambda found: found[0].replace(" ", _GLUE), line)
        first, *others = _folded(whole) if len(line) > WIDTH else (whole,)
        yield f"  | {first}".replace(_GLUE, " ")
        yield from (f"  + {other}".replace(_GLUE, " ") for other in others)


def _folded(words: str, first: str = "", then: str = "") -> list[str]:
    """Return one line at least; a word is never broken, however long it is."""
    return wrap(
        words,
        WIDTH,
        initial_indent=first,
        subsequent_indent=then,
        break_long_words=False,
        break_on_hyphens=False,
    ) or [""]


def _page(topic: Topic) -> list[str]:
    if not topic.asks:
        return ["To open it:", f"  {topic.link}"]
    code = _lines(f"  Code: {topic.code}" if topic.code else "")
    return ["To review and answer:", f"  {topic.link}", *code, approving(topic)]


def _terminal(notice: Notice) -> list[str]:
    typed = [f"  {command}" for command in commands(notice)]
    return ["At a terminal:", *typed] if typed else []


def _lines(said: str) -> list[str]:
    return [said] if said else []
