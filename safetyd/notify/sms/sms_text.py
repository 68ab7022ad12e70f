"""What an SMS says: in one segment if that can be, and never in more than two.

Links, codes and commands are whole or not there. The words of agents are cut, put into the alphabet
of SMS and made harmless once more: losing an accent can make an address of what was none.
"""

from datetime import datetime
from typing import Final

from safetyd.core.text.time_words import nearest
from safetyd.notify.message import Notice, Topic, as_entry
from safetyd.notify.sanitize import one_line
from safetyd.notify.sms.gsm import BASIC, EXTENDED, ONE, PART, clip, normalise, septets

MOST: Final = 2 * PART - 1  # one is lost if a character of two septets stands at the border
LINK_MOST: Final = 150
NAME_MOST: Final = 40
WORDS_CHARS: Final = 300
TARGET_LEAST: Final = 8  # of less nobody could tell what it is
LIST: Final = "safetyd list"


def text_of(notice: Notice, *, replies: bool = True) -> str:
    """Return the message; `replies` says whether its sender can be answered."""
    topic = notice.single
    if topic is None:
        return _fitted(_opening(notice), _several(notice), _list(notice))
    if notice.privacy == "minimal":
        return _fitted(_opening(notice), (_counts(notice),), _how(notice, topic, replies=False))
    how = _how(notice, topic, replies=replies)
    if not topic.asks and topic.kind != "expired":
        return _told(notice, topic, how)
    whole = _whole(notice, topic) if replies and topic.by_reply else ""
    return whole or _asked(notice, topic, how)


def _whole(notice: Notice, topic: Topic) -> str:
    """Return a message that a reply may approve, nothing if it cannot show all of the request."""
    if notice.privacy != "full" or not _linked(notice, topic) or not topic.code:
        return ""
    action, agent = _names(topic)
    how = f"{topic.link} or reply A {topic.code} / D {topic.code}"
    opening = _opening(notice) + topic.prefix.inline
    where = f" in {topic.project}" if topic.project else ""
    text = _joined(opening, f'{action} "{topic.text}" by {agent}{where}', how)
    fits = septets(text) <= MOST and (BASIC | EXTENDED).issuperset(text)
    return text if fits and not topic.cut else ""


def _asked(notice: Notice, topic: Topic, how: str) -> str:
    opening = _opening(notice) + topic.prefix.inline
    action, agent = _names(topic)
    short = f"{action} by {agent}"
    target = _words(topic.target).replace('"', "'") if notice.privacy == "full" else ""
    room = ONE - septets(_joined(opening, f'{action} "" by {agent}', how))
    if target and room >= min(TARGET_LEAST, septets(target)):
        short = f'{action} "{clip(target, room)}" by {agent}'
    return _fitted(opening, (f"{short}{_until(topic, notice.at)}", short), how)


def _told(notice: Notice, topic: Topic, how: str) -> str:
    """Return an alert, a summary or a test: its title, and as much as fits of its text."""
    title = _words(topic.title) + topic.times
    opening = "safetyd TEST: " if notice.test else "safetyd: "
    if title.partition(" ")[0].removesuffix(":").isupper():  # CRITICAL: it says how urgent it is
        opening = opening.replace(": ", " ")
    text = _words(topic.text) if notice.privacy == "full" else ""
    room = ONE - septets(_joined(opening, f"{title}. ", how))
    whole = f"{title}. {clip(text, room)}" if text and room >= TARGET_LEAST else title
    return _fitted(opening, (whole, title), how)


def _fitted(opening: str, versions: tuple[str, ...], how: str) -> str:
    """Return the first version that fits into one segment, or as much of the last as into two."""
    for words in versions:
        text = _joined(opening, words, how)
        if septets(text) <= ONE:
            return text
    room = MOST - septets(_joined(opening, "", how))
    return _joined(opening, clip(versions[-1], room), how)


def _joined(opening: str, words: str, how: str) -> str:
    end = "" if words.endswith((".", "?", "!")) else "."
    return f"{opening}{words}{end} {how}" if how else f"{opening}{words}{end}"


def _opening(notice: Notice) -> str:
    return "safetyd HIGH: " if notice.urgency == "high" else "safetyd: "


def _how(notice: Notice, topic: Topic, *, replies: bool) -> str:
    """Say how a request is answered, from anywhere if there is a way and else at a terminal."""
    if not _linked(notice, topic):
        return " or ".join(topic.commands)
    if topic.code and replies:
        return f"{topic.link} code {topic.code} or reply D {topic.code}"
    if topic.code:
        return f"{topic.link} code {topic.code}"
    return f"{topic.link} (approve at a terminal)" if topic.asks else topic.link


def _list(notice: Notice) -> str:
    """Say where everything is to be seen; the only request among others has its own page."""
    if not notice.here_only and _sendable(notice.list_link):
        return notice.list_link
    asks = [topic for topic in notice.topics if topic.asks]
    if len(asks) == 1 and not notice.more:
        return _how(notice, as_entry(asks[0], 0, notice.privacy), replies=False)
    return LIST if asks or notice.more else ""


def _linked(notice: Notice, topic: Topic) -> bool:
    return not notice.here_only and _sendable(topic.link)


def _sendable(link: str) -> bool:
    return bool(link) and septets(link) <= LINK_MOST and (BASIC | EXTENDED).issuperset(link)


def _counts(notice: Notice) -> str:
    parts = notice.counted(short=True)
    high = sum(topic.high for topic in notice.topics)
    if 0 < high < notice.counts["request"]:
        parts[0] += f" ({high} high)"
    if notice.held_back:
        parts.append(f"{notice.held_back} less urgent not sent")
    return ", ".join(parts)


def _several(notice: Notice) -> tuple[str, ...]:
    """Return how many there are and who asks first; the last version is the shortest."""
    counts = _counts(notice)
    first = next((topic for topic in notice.topics if topic.asks), None)
    if first is None or notice.privacy == "minimal":
        return (counts,)
    action, agent = _names(first)
    return f"{counts}, first {action} by {agent}", counts


def _until(topic: Topic, at: datetime) -> str:
    until = topic.until
    if until is None or topic.kind == "expired":
        return ""
    return f" until {nearest(until, at)}"


def _names(topic: Topic) -> tuple[str, str]:
    return clip(_words(topic.action), NAME_MOST), clip(_words(topic.agent), NAME_MOST)


def _words(text: str) -> str:
    return normalise(one_line(normalise(text), WORDS_CHARS))
