"""What one message says, before any channel puts it into its own form.

Every word of an agent in it is harmless already: no controls, no directions, no line breaks where
one line is meant, no addresses that a reader's program would make into links, and no endless text.
A channel has to escape for its own markup and for nothing else.
"""

from collections import Counter
from datetime import datetime
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.events.notification_events import ItemKind, NoteSheet
from safetyd.core.messages.proposal import Urgency
from safetyd.operators.views.request_facts import danger_of, no_text

Privacy = Literal["full", "summary", "minimal"]


_ASKING: Final[frozenset[ItemKind]] = frozenset({"request", "reminder", "last_call"})


class Prefix(NamedTuple):
    """Which of several messages about one thing this is, in words for as much room as there is."""

    long: str = ""
    short: str = ""
    inline: str = ""  # after other words


_PREFIXES: Final[dict[ItemKind, Prefix]] = {
    "reminder": Prefix("Reminder: ", "Reminder: ", "still waiting: "),
    "last_call": Prefix("Last call: ", "Last call: ", "last call: "),
    "expired": Prefix("Expired without an answer: ", "Expired: ", "expired: "),
}
_NONE: Final = Prefix()
# One, and several, in the order in which they are told.
_COUNTED: Final[dict[ItemKind, tuple[str, str]]] = {
    "request": ("request waiting", "requests waiting"),
    "expired": ("request expired", "requests expired"),
    "alert": ("alert", "alerts"),
    "summary": ("summary", "summaries"),
    "test": ("test", "tests"),
}
_COUNTED_SHORT: Final[dict[ItemKind, tuple[str, str]]] = {"expired": ("expired", "expired")}


class Topic(msgspec.Struct, frozen=True, kw_only=True):
    """One thing that a message tells of: a request to be answered, or something to be known."""

    kind: ItemKind
    ref: str  # the request's id, or the note's
    title: str  # one line: what, and who
    urgency: Urgency
    # What is known of a request; the agent's words are marked so by whoever shows them.
    action: str = ""  # the type of the action
    target: str = ""
    text: str = ""  # exactly what would be done, or an alert's or summary's words
    exact: bool = True  # False: the agent gave no exact text, and `text` is how it describes it
    whole: bool = False  # its text is all that would be done
    cut: int = 0  # characters of it that are not shown
    agent: str = ""
    session: str = ""
    project: str = ""
    folder: str = ""  # where it runs
    beside: str = ""  # what else an approval is bound to, by name; the page shows it
    left_out: str = ""  # of an entry of a list: what it does not show, by name
    why: str = ""  # the agent's reasons
    rules: tuple[str, ...] = ()  # what stopped it: "rule: reason"
    parts: tuple[str, ...] = ()  # of a command, if several do not pass: "part: why"
    risk: str = ""
    reversibility: str = ""
    cost: str = ""
    asked: datetime | None = None  # in the recipient's zone
    until: datetime | None = None  # in the recipient's zone; None: without an end
    silence: str = ""  # what happens without an answer
    digest: str = ""  # the first letters of it
    count: int = 1  # how often it happened
    link: str = ""  # opens the page of the request
    code: str = ""  # that approves on its page; empty: it can be approved at a terminal only
    by_reply: bool = False  # the code approves by SMS, too
    commands: tuple[str, ...] = ()  # to approve and to deny at a terminal
    sheet: NoteSheet | None = None  # a report in parts, which `text` has in short

    @property
    def asks(self) -> bool:
        """Whether an answer is wanted."""
        return self.kind in _ASKING

    @property
    def sort(self) -> ItemKind:
        """What it is counted as: all that wants an answer is a request."""
        return "request" if self.asks else self.kind

    @property
    def high(self) -> bool:
        """Whether an answer is wanted soon; what is only to be known says itself how urgent."""
        return self.asks and self.urgency == "high"

    @property
    def prefix(self) -> Prefix:
        return _PREFIXES.get(self.kind, _NONE)

    @property
    def times(self) -> str:
        """Say how often it happened, if more than once."""
        return f" ({self.count} times)" if self.count > 1 else ""

    @property
    def danger(self) -> str:
        """Say how dangerous a request is, and whether it can be undone."""
        return danger_of(self.risk, self.reversibility)

    @property
    def place(self) -> str:
        """Say where it runs, if that is known."""
        return f"Folder: {self.folder}" if self.folder else ""

    @property
    def price(self) -> str:
        """Say what it costs, if the agent says so."""
        return f"costs {self.cost}, as the agent says" if self.cost else ""

    @property
    def unshown(self) -> str:
        """Say what an entry of a list leaves out, if anything."""
        if not self.left_out:
            return ""
        return f"Not shown here: {self.left_out}. Review it before you approve."

    @property
    def lack(self) -> str:
        """Say that nobody can tell exactly what would be done, if so, and what is told instead."""
        if self.exact:
            return ""
        return no_text(described=bool(self.text or self.cut))


def as_entry(topic: Topic, chars: int, privacy: Privacy) -> Topic:
    """Return a topic as a list shows it, with at most `chars` characters of its text.

    If that leaves out anything that an approval would cover, the entry names it and offers no way
    to approve: only to look and to deny.
    """
    cut = topic.cut + max(0, len(topic.text) - chars)
    more = f"{cut:,} more characters" if cut else ""
    hidden = (topic.beside, more) if privacy == "full" else ("what exactly would be done",)
    left_out = ", ".join(filter(None, hidden))
    if not topic.commands or not left_out:
        return topic
    commands = (f"safetyd show {topic.ref}", f"safetyd deny {topic.ref}")
    return msgspec.structs.replace(
        topic, left_out=left_out, code="", by_reply=False, commands=commands
    )


class Notice(msgspec.Struct, frozen=True, kw_only=True):
    """One message to one recipient on one channel."""

    delivery: str  # every copy of the message has the same
    channel: str
    recipient: str
    address: str = ""  # a mail address or a telephone number; other channels know their own
    urgency: Urgency
    topics: tuple[Topic, ...]
    more: int = 0  # others that are not shown
    held_back: int = 0  # others that were not urgent enough
    digest: bool = False  # of what waited for the end of quiet hours
    again: bool = False  # another copy may have arrived
    at: datetime  # in the recipient's zone
    thread: str = ""  # the same for all messages about one request
    list_link: str = ""  # opens the list of everything that it tells of
    here_only: bool = False  # links open on the machine where safetyd runs, nowhere else
    machine: str = ""  # the name of that machine
    privacy: Privacy = "full"

    @property
    def test(self) -> bool:
        return bool(self.topics) and all(topic.kind == "test" for topic in self.topics)

    @property
    def single(self) -> Topic | None:
        """The one thing that it is about, if it is about one."""
        return self.topics[0] if len(self.topics) == 1 and not self.more else None

    @property
    def counts(self) -> Counter[ItemKind]:
        """How many things of each sort it shows."""
        return Counter(topic.sort for topic in self.topics)

    @property
    def rest(self) -> str:
        """Say how many more there are than it shows, if any."""
        return f"+{self.more:,} more" if self.more else ""

    def counted(self, *, short: bool = False) -> list[str]:
        """Say how many there are of each sort, requests first, and how many more.

        Where every letter counts, it is `short`.
        """
        counts, more = self.counts, f"{self.more} more" if short else f"{self.more:,} more"
        words = _COUNTED | _COUNTED_SHORT if short else _COUNTED
        said = [
            f"{counts[kind]} {one if counts[kind] == 1 else many}"
            for kind, (one, many) in words.items()
            if counts[kind]
        ]
        return [*said, more] if self.more else said

    @property
    def reach(self) -> str:
        """Say where links open, if there are any and they do not open everywhere."""
        linked = self.list_link or any(topic.link for topic in self.topics)
        if not self.here_only or not linked:
            return ""
        where = f"{self.machine}, where" if self.machine else "the machine where"
        return f"Links open only on {where} safetyd runs."
