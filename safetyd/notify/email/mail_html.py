"""A mail as a page: tables and inline styles, since old programs know nothing else.

Nothing is fetched and nothing runs. The styles in the head only add a dark look where the reader's
program knows of such. What is shown is prepared here, and laid out by `templates/mail.html`.
"""

from typing import Final, NamedTuple

from safetyd.core.events.notification_events import NoteSheet
from safetyd.core.text.diff_lines import diff_lines, holds_diff
from safetyd.html_templates import environment
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

_TEMPLATES: Final = environment("safetyd.notify.email")


class MailLine(NamedTuple):
    """A line of words, and of a diff what it does."""

    kind: str
    text: str


class MailTopic(NamedTuple):
    """What a mail shows of one topic."""

    title: str
    alert: bool
    asks: bool
    high: bool
    place: str
    terms: str
    exactly: str
    lack: str
    text: tuple[MailLine, ...]
    uncut: str
    unshown: str
    why: tuple[MailLine, ...]
    facts: tuple[tuple[str, str], ...]
    until: str
    link: str
    code: str
    approving: str
    commands: tuple[str, ...]
    sheet: NoteSheet | None


class MailView(NamedTuple):
    """What a mail shows."""

    headline: str
    high: bool
    test: bool
    minimal: bool
    several: bool
    topics: tuple[MailTopic, ...]
    list_link: str
    rest: str
    reach: str
    commands: tuple[str, ...]
    small_print: tuple[str, ...]


def page(notice: Notice) -> str:
    """Return a message that holds no more than its privacy allows, as HTML."""
    return _TEMPLATES.get_template("mail.html").render(mail=_mail(notice))


def _mail(notice: Notice) -> MailView:
    return MailView(
        headline=headline(notice),
        high=notice.urgency == "high",
        test=notice.test,
        minimal=notice.privacy == "minimal",
        several=notice.single is None,
        topics=tuple(_topic(topic, notice) for topic in notice.topics),
        list_link=notice.list_link,
        rest=notice.rest,
        reach=notice.reach,
        commands=commands(notice),
        small_print=tuple(small_print(notice)),
    )


def _topic(topic: Topic, notice: Notice) -> MailTopic:
    said = until(topic, notice.at)
    return MailTopic(
        title=named(topic),
        alert=topic.kind == "alert",
        asks=topic.asks,
        high=topic.urgency == "high",
        place=topic.place,
        terms=terms(topic),
        exactly=exactly(topic),
        lack=topic.lack,
        text=_lines(topic.text),
        uncut=uncut(topic),
        unshown=topic.unshown,
        why=_lines(topic.why),
        facts=tuple((name, value) for name, value in facts(topic, notice.at) if value),
        until=f"Until {said}" if said else "",
        link=topic.link,
        code=topic.code,
        approving=approving(topic),
        commands=topic.commands,
        sheet=topic.sheet,
    )


def _lines(words: str) -> tuple[MailLine, ...]:
    if not words:
        return ()
    coloured = holds_diff(words)
    return tuple(MailLine(kind * coloured, text) for kind, text in diff_lines(words))
