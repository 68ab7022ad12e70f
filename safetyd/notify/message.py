"""What one message says, before any channel puts it into its own form.

Every word of an agent in it is harmless already: no controls, no directions, no line breaks where
one line is meant, no addresses that a reader's program would make into links, and no endless text.
A channel has to escape for its own markup and for nothing else.
"""

from datetime import datetime
from typing import Literal

import msgspec

from safetyd.core.events.notification_events import ItemKind
from safetyd.core.messages.proposal import Urgency

Privacy = Literal["full", "summary", "minimal"]


def no_text(*, described: bool) -> str:
    """Say that an agent gave no exact text and, if it `described` its wish, lead up to that."""
    return f"It gave no exact text.{' The agent describes it as:' * described}"


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
    beside: str = ""  # what else an approval is bound to, by name; the page shows it
    why: str = ""  # the agent's reasons
    rules: tuple[str, ...] = ()  # what stopped it: "rule: reason"
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

    @property
    def lack(self) -> str:
        """Say that nobody can tell exactly what would be done, if so, and what is told instead."""
        if self.exact:
            return ""
        return no_text(described=bool(self.text or self.cut))


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
    def reach(self) -> str:
        """Say where links open, if there are any and they do not open everywhere."""
        linked = self.list_link or any(topic.link for topic in self.topics)
        if not self.here_only or not linked:
            return ""
        where = f"{self.machine}, where" if self.machine else "the machine where"
        return f"Links open only on {where} safetyd runs."
