"""Preview messages: the text and the time on each channel, without sending."""

import logging
from collections.abc import Callable, Iterator
from datetime import UTC, datetime, timedelta
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from safetyd.cards.digest_lines import line_of
from safetyd.cards.note_cards import SingleCard
from safetyd.cards.request_card import RequestCard, request_card
from safetyd.cards.request_details import RequestDetails
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.notification_events import SHOWN, Item
from safetyd.core.messages.proposal import Proposal, Urgency
from safetyd.core.messages.verdict import ASK, Verdict
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.outbox.escalation import Unanswered, steps
from safetyd.core.recipients import Recipient, TellingConfig
from safetyd.core.text.time_words import clock
from safetyd.notify.channel_config import NotificationsConfig
from safetyd.notify.compose import LISTED, Composer, discreet
from safetyd.notify.message import Notice
from safetyd.operators.contract.notification_contract import (
    PreviewAnswer,
    PreviewQuestion,
    PreviewRow,
)
from safetyd.operators.replies import Refusal, refused
from safetyd.operators.views.paging import fitting

log = logging.getLogger("safetyd.notify")
GIVEN: Final = timedelta(hours=1)
CODE: Final = "4821"

_SAMPLE: Final = RequestDetails(
    id="req_5a3f1e5a3f1e",
    agent="nightly",
    type="push",
    unknown=False,
    text="git push origin main",
    description="",
    whole=True,
    urgency="normal",
    risk="high",
    rule="classify.requires_permission",
    reason="push needs a person",
    asked_at=datetime.fromtimestamp(0, UTC),
    deadline=None,
    left_s=None,
    until=None,
    repeats=0,
    digest="sha256:9f3c1a20b7d4",
    permission=False,
    undeliverable=False,
    state="pending",
    proposal=Proposal(
        type="push",
        text="git push origin main",
        rationale="All tests pass, and the fix is wanted in today's release.",
        session="s-12",
        cost_usd=0.02,
    ),
    verdicts=(Verdict("classify", ASK, "classify.requires_permission", "push needs a person"),),
    tier="requires_permission",
    reversibility="irreversible",
    gives="",
    resolved=(),
    answer=None,
    valid_until=None,
    denied_until=None,
    used="",
    claimant=None,
    before=(),
    told=(),
)


class Previews:
    """Makes previews. `settings` returns the current settings."""

    def __init__(self, composer: Composer, settings: Callable[[], NotificationsConfig]) -> None:
        self._composer = composer
        self._settings = settings

    def previews(
        self, state: EngineState, moment: Moment, asked: PreviewQuestion
    ) -> PreviewAnswer | Refusal:
        """Return a preview for each recipient and channel."""
        if asked.request:
            found = state.approvals.named(asked.request)
            if len(found) != 1:
                return refused("not_found", f"there is no request {asked.request}")
            (request,) = found
            asked = msgspec.structs.replace(asked, request=request.id, urgency=request.urgency)
        known = state.policy.telling.channels
        if asked.channel and asked.channel not in known:
            error = f"{asked.channel!r} is not one of {', '.join(known) or 'no channels'}"
            return refused("not_found", error)
        lanes = (
            (person, channel)
            for person in state.policy.telling.recipients
            for channel in person.channels
            if channel == asked.channel or not asked.channel
        )
        try:
            rows = [self._row(state, moment, asked, *lane) for lane in lanes]
        except Exception:  # an agent's text must not crash the daemon
            log.exception("cannot make a preview")
            return refused("failed", "the message cannot be composed; see the daemon's log")
        return PreviewAnswer(ok=True, previews=fitting(rows))

    def _row(
        self,
        state: EngineState,
        moment: Moment,
        asked: PreviewQuestion,
        person: Recipient,
        channel: str,
    ) -> PreviewRow:
        notice = self._notice(state, moment, asked, person, channel)
        shown = dict(self._settings().channels())[channel].preview(notice)
        telling, zone = state.policy.telling, ZoneInfo(person.quiet.timezone)
        return PreviewRow(
            recipient=person.name,
            channel=channel,
            text=shown.text,
            size=shown.size,
            html=shown.html,
            when=_when(state, moment.at, asked, person),
            ladder=tuple(_escalation(telling, asked.urgency, moment.at, zone)),
        )

    def _notice(
        self,
        state: EngineState,
        moment: Moment,
        asked: PreviewQuestion,
        person: Recipient,
        channel: str,
    ) -> Notice:
        items: tuple[Item, ...] = ()
        if asked.request:
            items = (Item("request", asked.request),) * asked.batch
        delivery = Delivery(
            id="dlv_0000000000000000",
            recipient=person.name,
            channel=channel,
            urgency=asked.urgency,
            items=items,
            shown=min(asked.batch, SHOWN),
            digest=asked.digest,
            held_back=0,
            at=moment.at,
            expires=None,
        )
        notice = self._composer.notice(state, delivery, items, moment.at)
        if items:
            return notice.changed(_without_code)
        cards = (self._sampled(notice, asked),) * asked.batch
        lines = [line_of(card) for card in cards[LISTED:]]
        card = self._composer.joined(delivery, cards[:LISTED], lines)
        return msgspec.structs.replace(notice, card=card)

    def _sampled(self, notice: Notice, asked: PreviewQuestion) -> RequestCard:
        """Return the card of a sample request, for a preview without a request."""
        given = msgspec.structs.replace(
            _SAMPLE, urgency=asked.urgency, asked_at=notice.at, deadline=notice.at + GIVEN
        )
        card = msgspec.structs.replace(
            request_card(given, notice.at.tzinfo, notice.at),
            link=self._composer.link(notice.delivery, given.id, notice.recipient),
            approve_by=("link", "sms", "desktop"),
            code=CODE,
            deny_code=CODE,
        )
        return discreet(card, notice.privacy)


def _without_code(card: SingleCard) -> SingleCard:
    """Replace each code with a sample, so that nobody can approve with a preview."""
    if not isinstance(card, RequestCard):
        return card
    code, deny_code = CODE if card.code else "", CODE if card.deny_code else ""
    return msgspec.structs.replace(card, code=code, deny_code=deny_code)


def _when(state: EngineState, at: datetime, asked: PreviewQuestion, person: Recipient) -> str:
    telling = state.policy.telling
    zone = ZoneInfo(person.quiet.timezone)
    if asked.urgency == "high" and telling.quiet_bypass == "high":
        return "immediately, even in quiet hours"
    until = state.outbox.quiet_until(person.name, at)
    if until is None and asked.urgency == "high":
        return "at once"
    if until is not None:
        return f"quiet hours: in one digest at {clock(until.astimezone(zone))}"
    return f"in one message with other requests within {telling.batch_interval_s:g} s"


def _escalation(
    telling: TellingConfig, urgency: Urgency, at: datetime, zone: ZoneInfo
) -> Iterator[str]:
    calm = telling.calmness
    seconds = calm.urgent_next_channel_s if urgency == "high" else calm.next_channel_s
    waits = [timedelta(seconds=seconds)] if seconds else []
    for step in steps(Unanswered(urgency, at, at + GIVEN, waits)):
        kind = "next channel" if step.next_channel else step.kind.replace("_", " ")
        backup = ", and to the backup" if step.backup else ""
        yield f"{kind} at {clock(step.at.astimezone(zone))}{backup}"
    if urgency != "high" and calm.rounds:
        yield f"reminders at {' and '.join(calm.rounds)}"
