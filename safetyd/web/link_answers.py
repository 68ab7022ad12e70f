"""Answers through decision links: the part of `/d/` that uses the engine.

A denial needs only the button. An approval also needs the code from the notification or a paired
browser, because mail scanners follow links and press buttons.

The link of a set of similar requests answers those that are pending, or one of them. The nonce of
its page names them, and its code is valid for the whole set of the message. If one of them ends
before the answer, nothing is recorded, and the page shows the rest. Each request gets an event.

A message can have buttons that send the form without the page. Such a form has the nonce of its
button, which is valid for one answer to one request. To approve, it needs the code like any other.

The owner of a relay sees what browsers send through it. So an approval through a relay needs all
six digits of the code, which is valid for one request, and no pairing counts. A denial through a
relay uses no code, so that nobody types one there unless they approve.
"""

import secrets
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Literal, NamedTuple

import msgspec

from safetyd.core.approvals.assurance import Given, NotTaken, taken
from safetyd.core.approvals.request import Request
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import PersonSeen
from safetyd.core.events.notification_events import Announced, Note
from safetyd.core.events.request_events import Answered
from safetyd.journal.mailbox import Carried, Plan
from safetyd.notify.links.sent_links import SentLink, SentLinks
from safetyd.notify.links.tokens import MOST_DIGITS, Signer, is_code
from safetyd.notify.links.wrong_codes import WrongCodes, revoked, warned
from safetyd.web.engine_gateway import Answer, Ask
from safetyd.web.link_view import LinkView, look, nonce_name, pending, shown_name

Outcome = Literal[
    "recorded",
    "over",
    "stale",
    "changed",
    "terminal",
    "no_code",
    "short_code",
    "wrong_code",
    "relay_closed",
    "unknown",
    "unfit",
    "tested",
]
Said = Literal["approved", "denied", "tested"]


class Form(NamedTuple):
    """The fields of a form, and where it came from."""

    said: Said
    nonce: str
    code: str
    words: str
    cookie: str
    peer: str
    relay: str = ""  # the relay that sent the form, if any
    foreign: bool = False  # a page of an app sent it, which may only press buttons of messages
    only: int = 0  # the number of the only request of a set that it answers; 0: all

    @property
    def approves(self) -> bool:
        return self.said == "approved"


class Attempt(NamedTuple):
    """An answer to known requests, through a known link."""

    token_id: bytes
    link: SentLink
    requests: tuple[Request, ...]
    shown: str  # what the page or the button stood for
    form: Form
    at: Moment


class LinkAnswers:
    """`waits` returns True if an agent waits for the answer to a request.

    `used` is called when the link of a test notification is used.
    """

    def __init__(
        self,
        signer: Signer,
        sent_links: SentLinks,
        waits: Callable[[Request], bool],
        used: Callable[[str, datetime], None],
        wrong: WrongCodes,
    ) -> None:
        self._signer = signer
        self._sent_links = sent_links
        self._waits = waits
        self._used = used
        self._wrong = wrong

    def look(self, token_id: bytes, cookie: str, *, relayed: bool) -> Ask:
        """Return a query for the content of a link. Its answer is None for invalid links."""

        def ask(engine: EngineState, moment: Moment) -> LinkView | None:
            link = self._sent_links.find(engine, token_id)
            if link is None:
                return None
            view = look(engine, moment, link, self._signer, "" if relayed else cookie)
            return msgspec.structs.replace(view, relayed=relayed)

        return ask

    def answer(self, token_id: bytes, form: Form) -> Plan[Answer]:
        """Return the plan that records an answer. Only the first answer counts."""

        def plan(engine: EngineState, moment: Moment) -> Carried[Answer]:
            link = self._sent_links.find(engine, token_id)
            if link is None:
                return _told("unknown")
            if link.test is not (form.said == "tested"):
                return _told("unfit")
            if link.test:
                return self._tested(token_id, link, form, moment)
            waiting = pending(engine, moment, link)
            if not waiting:
                return _told("over")
            shown = shown_name(link, waiting)
            return self._answered(engine, Attempt(token_id, link, waiting, shown, form, moment))

        return plan

    def _answered(self, engine: EngineState, attempt: Attempt) -> Carried[Answer]:
        """Record an answer to everything that was shown, or to one request of a set."""
        outcome, members, only = self._refusal(attempt), attempt.link.members, attempt.form.only
        if outcome == "stale" and len(attempt.requests) < len(members):
            outcome = "changed"
        if outcome is not None:
            return _told(outcome)
        if only and only > len(attempt.requests) * bool(members):
            return _told("unfit")
        chosen = attempt.requests[only - 1 : only] if only else attempt.requests
        return self._settled(engine, attempt._replace(requests=chosen))

    def _tested(
        self, token_id: bytes, link: SentLink, form: Form, moment: Moment
    ) -> Carried[Answer]:
        pressed = self._is_button(token_id, form, "")
        if not (pressed or self._is_page(token_id, form, moment.at)):
            return _told("stale")
        self._used(link.delivery, moment.at)
        return _told("tested")

    def _refusal(self, attempt: Attempt) -> Outcome | None:
        """Return why a form is refused, or None."""
        form_id = nonce_name(attempt.token_id, attempt.link, attempt.shown)
        pressed = self._is_button(attempt.token_id, attempt.form, attempt.shown)
        if not (pressed or self._is_page(form_id, attempt.form, attempt.at.at)):
            return "stale"
        if attempt.at.at >= attempt.link.expires:
            return "over"
        form = attempt.form
        if not form.relay or not form.approves:
            return None
        if self._wrong.relay_closed(form.relay, attempt.at.t):
            return "relay_closed"
        # Messages show fewer digits only if no relay has a key.
        short = is_code(form.code) and len(form.code) < MOST_DIGITS
        return "short_code" if short else None

    def _is_page(self, form_id: bytes, form: Form, at: datetime) -> bool:
        """Return whether our page made the form."""
        return not form.foreign and self._signer.nonce_ok(form_id, form.nonce, at)

    def _is_button(self, token_id: bytes, form: Form, shown: str) -> bool:
        """Return whether a message had the form as a button. It answers all that was shown."""
        return not form.only and self._signer.button_ok(token_id, form.said, shown, form.nonce)

    def _settled(self, engine: EngineState, attempt: Attempt) -> Carried[Answer]:
        assurance, events = self._assurance(engine, attempt), list[Answered]()
        for request in attempt.requests:
            ways, waits = engine.approve_via(request), self._waits(request)
            answered = taken(request, _given(attempt, assurance), attempt.at, ways, waits=waits)
            if isinstance(answered, NotTaken):
                return _told("terminal" if answered.code == "elsewhere" else "over")
            events.append(answered)
        if assurance:
            told: Answer = {"outcome": "recorded", "count": len(events)}
            return Carried((*_seen(events[0]), *events), told)
        if is_code(attempt.form.code):
            return self._guessed(attempt)
        # This does not count as a wrong code: perhaps a mail scanner pressed the button, or the
        # reader forgot the code.
        return _told("no_code")

    def _assurance(self, engine: EngineState, attempt: Attempt) -> str:
        """Return how an answer was authenticated, or an empty string if an approval was not."""
        form, recipient = attempt.form, attempt.link.recipient
        if form.relay and not form.approves:
            return "button"
        if not form.relay and self._signer.device_of(form.cookie, attempt.at.at) == recipient:
            return "device"
        revocations, sent = engine.records.link_revocations, attempt.link.sent
        named = revocations.code_name(attempt.link.request_id, recipient, sent)
        if self._signer.code_ok(named, recipient, form.code):
            return "code"
        return "" if form.approves else "button"

    def _guessed(self, attempt: Attempt) -> Carried[Answer]:
        relay, closed = attempt.form.relay, tuple[Event, ...]()
        if relay:
            self._wrong.count_relay(relay, attempt.at.t)
            if self._wrong.relay_closed(relay, attempt.at.t):
                closed = (_relay_closed(relay, attempt.at),)
        # Count by request or set, because each notification about it has its own link.
        link = attempt.link
        left = self._wrong.left(link.request_id, link.recipient)
        if not left:
            named = link.delivery, link.request_id, link.recipient, attempt.at
            of_set = attempt.requests if link.members else ()
            events = (revoked(*named), warned(*named, of_set), *closed)
            return Carried(events, {"outcome": "unknown"})
        return Carried(closed, {"outcome": "wrong_code", "left": left})


def _told(outcome: Outcome) -> Carried[Answer]:
    return Carried((), {"outcome": outcome})


def _given(attempt: Attempt, assurance: str) -> Given:
    link, form = attempt.link, attempt.form
    return Given(
        answer="approved" if form.approves else "denied",
        by=link.recipient,
        via=link.via,
        # A program may have pressed the button; its comment must not reach the agent.
        words=form.words if assurance != "button" else "",
        assurance=assurance,
        delivery=link.delivery,
        peer=form.peer,
    )


def _seen(answered: Answered) -> Iterator[Event]:
    """Yield an event that an operator is present, unless the answer was only a pressed button."""
    if answered.assurance != "button":
        yield PersonSeen(at=answered.at, t=answered.t, by=answered.by, how=answered.via)


def _relay_closed(relay: str, moment: Moment) -> Announced:
    """Return an alert to everyone: a relay may be guessing codes."""
    note = Note(
        id=f"relay_{relay}_{moment.at:%Y%m%dT%H%M%S}",
        kind="alert",
        urgency="high",
        title=f"Too many wrong codes from relay {relay}",
        text=(
            f"For now, no request can be approved through relay {relay}. Somebody may control it "
            f"and guess codes. To revoke its key: safetyd relay revoke {relay}"
        ),
        at=moment.at,
    )
    return Announced(at=moment.at, t=moment.t, note=note)


def paired(recipient: str, address: str) -> Plan[Answer]:
    """Return the plan that notifies a recipient of a newly paired browser."""

    def plan(_engine: EngineState, moment: Moment) -> Carried[Answer]:
        note = Note(
            id=f"note_{secrets.token_hex(6)}",
            kind="alert",
            urgency="normal",
            title=f"A browser was paired for {recipient}",
            text=(
                f"It connected from {address or 'an unknown address'} and can approve without "
                "codes for 90 days. If this was not you, run: safetyd keys rotate --revoke-now"
            ),
            at=moment.at,
        )
        announced = Announced(at=moment.at, t=moment.t, note=note, recipients=(recipient,))
        return Carried((announced,), {})

    return plan
