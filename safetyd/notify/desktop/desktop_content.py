"""What a desktop shows of a message.

A notification has room for little. It can approve only what it shows whole; the rest is on the
page that Review opens, and at a terminal.
"""

from collections.abc import Iterable, Iterator
from datetime import datetime
from typing import Final, Literal

import msgspec

from safetyd.core.messages.proposal import Urgency
from safetyd.core.text.time_words import near
from safetyd.notify.desktop.desktop_bus import DEFAULT, DesktopNotification
from safetyd.notify.message import Notice, Topic

MAX_SUMMARY: Final = 80
MAX_BODY: Final = 240
LEAST_WHY: Final = 24  # characters; fewer of an agent's reasons say nothing

Action = Literal["approve", "deny", "review"]
# A click on the notification itself reviews.
_BUTTONS: Final[dict[Action, tuple[str, str]]] = {
    "review": (DEFAULT, "Review"),
    "approve": ("approve", "Approve"),
    "deny": ("deny", "Deny"),
}


class DesktopNotice(msgspec.Struct, frozen=True, kw_only=True):
    """A message as a desktop shows it, and as it goes to a helper."""

    delivery: str
    request_id: str = ""
    digest: str = ""
    summary: str
    body: str
    actions: tuple[Action, ...] = ()
    urgency: Urgency = "normal"
    link: str = ""
    recipient: str = ""

    @property
    def key(self) -> str:
        """Return what a notification is known by: a reminder takes the place of the first."""
        return self.request_id or self.delivery

    def notification(self, *, review: bool) -> DesktopNotification:
        """Return the notification; Review is on it only where a page can be opened."""
        offered = [action for action in self.actions if review or action != "review"]
        return DesktopNotification(
            self.key,
            self.summary,
            self.body,
            tuple(_BUTTONS[action] for action in offered),
            self.urgency,
            stays="deny" in offered and self.urgency != "low",
        )


def payload(notice: Notice) -> dict[str, object]:
    """Return what helpers are told, ready for JSON.

    Observers hear it too, so it has no link: who may answer asks for that.
    """
    told: dict[str, object] = msgspec.to_builtins(rendered(notice))
    del told["link"]
    return told


def rendered(notice: Notice) -> DesktopNotice:
    """Return a message cut to what a desktop has room for."""
    topic = notice.single
    if topic is None or notice.privacy == "minimal":
        return _several(notice)
    if topic.commands:
        return _question(notice, topic)
    return DesktopNotice(
        delivery=notice.delivery,
        summary=_summary(topic),
        body=cut(_flat(topic.text), MAX_BODY) if notice.privacy == "full" else "",
        actions=("review",) if topic.link else (),
        urgency=notice.urgency,
        link=topic.link,
        recipient=notice.recipient,
    )


def _question(notice: Notice, topic: Topic) -> DesktopNotice:
    terms = f"{_terms(topic, notice.at)}\nsafetyd show {topic.ref}"
    words = f"{topic.lack} {topic.text}".strip()
    what = _flat(": ".join(filter(None, (topic.target, words))))
    room = MAX_BODY - len(terms) - 1
    summary = _summary(topic)
    shown = _flat(topic.title) in summary and len(what) <= room
    whole = notice.privacy == "full" and topic.whole and not topic.cut and shown
    told = _told(what, _flat(topic.why), room) if notice.privacy == "full" else ()
    answers: tuple[Action, ...] = ("approve", "deny") if whole else ("deny",)
    return DesktopNotice(
        delivery=notice.delivery,
        request_id=topic.ref,
        digest=topic.digest,
        summary=summary,
        body=cut("\n".join((*told, terms)), MAX_BODY),
        actions=("review", *answers) if topic.link else answers,
        urgency=notice.urgency,
        link=topic.link,
        recipient=notice.recipient,
    )


def _several(notice: Notice) -> DesktopNotice:
    topics, single = notice.topics, notice.single
    link = notice.list_link or _only(topic.link for topic in topics if topic.link)
    titles = () if notice.privacy == "minimal" else tuple(_flat(topic.title) for topic in topics)
    return DesktopNotice(
        delivery=notice.delivery,
        request_id=single.ref if single and single.commands else "",
        summary=cut(_count(notice), MAX_SUMMARY),
        body=_list(titles, len(topics) + notice.more, notice.held_back),
        actions=("review",) if link else (),
        urgency=notice.urgency,
        link=link,
        recipient=notice.recipient,
    )


def _summary(topic: Topic) -> str:
    urgent = "HIGH: " if topic.commands and topic.urgency == "high" else ""
    opening = f"{'Test: ' * (topic.kind == 'test')}{topic.prefix.short}{urgent}"
    room = MAX_SUMMARY - len(opening) - len(topic.times)
    return opening + cut(_flat(topic.title), room) + topic.times


def _terms(topic: Topic, now: datetime) -> str:
    """Return the risk, the end of the time given, and what happens then."""
    risk = f"Risk: {topic.risk}." if topic.risk else ""
    until = f"Until {near(topic.until, now)}." if topic.until else "No deadline."
    return " ".join(filter(None, (risk, until, topic.silence)))


def _told(what: str, why: str, room: int) -> Iterator[str]:
    """Yield what would be done and, where there is room left, the agent's reasons."""
    if what:
        yield cut(what, room)
        room -= len(what) + 1
    says = f"Agent says: {why}"
    if why and room >= min(len(says), len("Agent says: ") + LEAST_WHY):
        yield cut(says, room)


def _count(notice: Notice) -> str:
    if notice.test:
        return "Test of the desktop"
    count = len(notice.topics) + notice.more
    asked = sum(bool(topic.commands) for topic in notice.topics)
    opening = "After the quiet hours: " if notice.digest else ""
    if asked == len(notice.topics):
        requests = "1 request is" if count == 1 else f"{count} requests are"
        return f"{opening}{requests} waiting"
    return f"{opening}{count} {'message' if count == 1 else 'messages'}, {asked} to be answered"


def _list(titles: tuple[str, ...], count: int, held_back: int) -> str:
    """Return as many titles as there is room for, how many more there are, and what to type."""
    end = "safetyd list"
    if held_back:
        end = f"{held_back} less urgent held back\n{end}"
    lines: list[str] = []
    for shown, title in enumerate(titles):
        rest = f"+{count - shown} more\n{end}"
        line = cut(title, MAX_SUMMARY)
        if len("\n".join((*lines, line, rest))) > MAX_BODY:
            break
        lines.append(line)
    left = count - len(lines) if lines else 0
    more = [f"+{left} more"] if left else []
    return "\n".join((*lines, *more, end))


def _only(links: Iterable[str]) -> str:
    """Return a link, if it is the only one."""
    found = tuple(links)
    return found[0] if len(found) == 1 else ""


def _flat(text: str) -> str:
    """Return text on one line, where an agent's line cannot pass for one of ours."""
    return text.replace("\n", " ⏎ ")


def cut(text: str, most: int) -> str:
    """Return at most so many characters, marked if some are missing."""
    return text if len(text) <= most else f"{text[: most - 1]}…"
