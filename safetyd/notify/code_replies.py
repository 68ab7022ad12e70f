"""Answers in replies to messages, by SMS or mail: a word and the code from the message.

After five wrong codes in an hour, approvals from an address are ignored for eight hours. Denials
still count.
"""

import secrets
from collections import Counter, deque
from collections.abc import Callable, Iterable, Sequence
from datetime import datetime, timedelta
from typing import Final, Literal, NamedTuple

import msgspec

from safetyd.core.approvals.assurance import Given
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.notification_events import Announced, Note
from safetyd.core.recipients import ChannelKind
from safetyd.journal.mailbox import Carried
from safetyd.notify.answers import Outcome, answer_all
from safetyd.notify.links.tokens import Signer

MAX_FAILURES: Final = 5
FAILURES_WITHIN: Final = timedelta(hours=1)
MAX_IDLE: Final = 5
NIGHT: Final = timedelta(hours=8)

ReplyOutcome = Outcome | Literal["unknown", "changed", "ignored"]


class CodeAnswer(msgspec.Struct, frozen=True):
    approve: bool
    code: str


class Sender(NamedTuple):
    """An address and its recipient."""

    recipient: str
    address: str  # a phone number or mail address


class Asked(NamedTuple):
    """A request, or a set of similar ones, in the messages that a reply may answer."""

    ref: str  # the id of the request, or the name of the set
    requests: tuple[Request, ...]
    code_names: frozenset[str]  # the names from which its codes in these messages are derived
    may_approve: bool  # the messages show the whole action, and a reply may approve its risk
    delivery: str = ""  # the message, if the reply names it

    @property
    def pending(self) -> tuple[Request, ...]:
        return tuple(request for request in self.requests if request.pending)


class Patience:
    """Counts wrong codes by address.

    After five wrong codes in an hour, approvals from that address are ignored for some hours.

    Only a few unclear messages in a row get a reply, so that two machines cannot write to each
    other forever. Use it only for recipients' addresses; other addresses never get a reply.
    """

    def __init__(self) -> None:
        self._failures: dict[str, deque[datetime]] = {}
        self._ignored_until: dict[str, datetime] = {}
        self._idle: Counter[str] = Counter()

    def ignores(self, address: str, at: datetime) -> bool:
        until = self._ignored_until.get(address)
        return until is not None and at < until

    def failed(self, address: str, at: datetime, morning: datetime) -> None:
        """Count a wrong code."""
        failures = self._failures.setdefault(address, deque(maxlen=MAX_FAILURES))
        failures.append(at)
        if len(failures) == MAX_FAILURES and at - failures[0] < FAILURES_WITHIN:
            failures.clear()
            self._ignored_until[address] = morning

    def answered(self, address: str) -> None:
        """Reset the counters after a correct code."""
        self._failures.pop(address, None)
        self._idle.pop(address, None)

    def may_reply(self, address: str) -> bool:
        """Return True if an unclear message gets a reply, and count it."""
        self._idle[address] += 1
        return self._idle[address] <= MAX_IDLE


class CodeReplies:
    """Records the answers in replies on one kind of channel. `name` is its name in sentences."""

    def __init__(
        self,
        kind: ChannelKind,
        name: str,
        signer: Signer,
        waits: Callable[[Request], bool],
    ) -> None:
        self.patience = Patience()
        self._kind = kind
        self._name = name
        self._signer = signer
        self._waits = waits

    def taken(  # noqa: PLR0913 - the parts of an answer
        self,
        state: EngineState,
        moment: Moment,
        sender: Sender,
        said: CodeAnswer,
        asked: Iterable[Asked],
        *,
        via: str,
        peer: str = "",
    ) -> Carried[ReplyOutcome]:
        """Return the events that record an answer, and its outcome."""
        patience, address = self.patience, sender.address
        ignored = patience.ignores(address, moment.at)
        if ignored and said.approve:
            return Carried((), "ignored")
        found = [each for each in asked if self.names(each, sender, said)]
        # A request that has ended may have the same code as a pending one.
        found = [each for each in found if each.pending] or found[:1]
        if len(found) != 1:
            patience.failed(address, moment.at, moment.at + NIGHT)
            locked = not ignored and patience.ignores(address, moment.at)
            return Carried(self._warning(state, moment, sender) if locked else (), "unknown")
        patience.answered(address)
        (meant,) = found
        requests = meant.requests
        if 0 < len(meant.pending) < len(requests):
            if said.approve:  # not exactly what the message showed
                return Carried((), "changed")
            requests = meant.pending
        given = Given(
            answer="approved" if said.approve else "denied",
            by=sender.recipient,
            via=via,
            assurance="code",
            delivery=meant.delivery,
            peer=peer,
        )
        return answer_all(
            state, moment, requests, given, self._waits, may_approve=meant.may_approve
        )

    def names(self, asked: Asked, sender: Sender, said: CodeAnswer) -> bool:
        """Return whether a reply has the code of a message about the request."""
        check, whose = self._signer.code_ok, sender.recipient
        return sum(check(name, whose, said.code) for name in asked.code_names) > 0

    def _warning(self, state: EngineState, moment: Moment, sender: Sender) -> Sequence[Event]:
        """Alert on other channels that approvals by replies are ignored for some hours."""
        text = (
            f"Too many wrong codes came from the {'number' if self._kind == 'sms' else 'address'} "
            f"of {sender.recipient}. For eight hours, replies from it can deny but not approve. "
            "Links and the terminal still work."
        )
        return elsewhere(state, moment, f"Wrong codes by {self._name}", text, besides=self._kind)


def elsewhere(
    state: EngineState, moment: Moment, title: str, text: str, *, besides: ChannelKind
) -> Sequence[Event]:
    """Return an alert for every channel except those of one kind."""
    kinds = state.policy.telling.channels.items()
    others = tuple(name for name, kind in kinds if kind != besides)
    if not others:
        return ()
    note = Note(
        id=f"note_{secrets.token_hex(6)}",
        kind="alert",
        urgency="high",
        title=title,
        text=text,
        at=moment.at,
    )
    return (Announced(at=moment.at, t=moment.t, note=note, channels=others),)
