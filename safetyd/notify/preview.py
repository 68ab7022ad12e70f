"""Messages to look at before anything is sent: what each channel would say, and when."""

import logging
from collections.abc import Callable, Iterator
from datetime import datetime, timedelta
from itertools import islice
from typing import Final
from zoneinfo import ZoneInfo

import msgspec

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.events.notification_events import SHOWN, Item
from safetyd.core.messages.proposal import Urgency
from safetyd.core.outbox.deliveries import Delivery
from safetyd.core.outbox.escalation import steps
from safetyd.core.recipients import Recipient
from safetyd.core.text.time_words import clock
from safetyd.notify.channel_config import NotificationsConfig
from safetyd.notify.compose import Composer
from safetyd.notify.message import Notice, Topic
from safetyd.operators.contract.notification_contract import (
    PreviewAnswer,
    PreviewQuestion,
    PreviewRow,
)
from safetyd.operators.replies import Refusal, refused
from safetyd.operators.views.paging import fitting
from safetyd.operators.views.request_facts import ProposalFacts, RequestFacts

log = logging.getLogger("safetyd.notify")
MAX_STEPS: Final = 6  # steps that are shown
GIVEN: Final = timedelta(hours=1)
CODE: Final = "4821"

_FACTS: Final = RequestFacts(
    id="req_5a3f1e5a3f1e",
    agent="nightly",
    type="push",
    digest="9f3c1a20b7d4",
    risk="high",
    reversibility="irreversible",
    proposal=ProposalFacts(cost_usd=0.02),
)

_TOPIC: Final = Topic(
    kind="request",
    ref=_FACTS.id,
    title=f"{_FACTS.type} by {_FACTS.agent}",
    urgency="normal",
    action=_FACTS.type,
    target="origin",
    text="git push origin main",
    agent=_FACTS.agent,
    session="s-12",
    why="All tests pass, and the fix is wanted in today's release.",
    rules=("classify.requires_permission: push needs a person",),
    risk=_FACTS.risk,
    reversibility=_FACTS.undoing,
    cost=_FACTS.cost,
    silence=_FACTS.silence,
    digest=_FACTS.digest,
    commands=_FACTS.commands,
)


class Previews:
    """`settings` are those in force."""

    def __init__(self, composer: Composer, settings: Callable[[], NotificationsConfig]) -> None:
        self._composer = composer
        self._settings = settings

    def previews(
        self, engine: EngineState, moment: Moment, asked: PreviewQuestion
    ) -> PreviewAnswer | Refusal:
        """Return what each lane would be sent."""
        if asked.request:
            found = engine.approvals.named(asked.request)
            if len(found) != 1:
                return refused("not_found", f"{asked.request}: no request has this id")
            (request,) = found
            asked = msgspec.structs.replace(asked, request=request.id, urgency=request.urgency)
        known = engine.policy.telling.channels
        if asked.channel and asked.channel not in known:
            error = f"{asked.channel!r} is not one of {', '.join(known) or 'no channels'}"
            return refused("not_found", error)
        lanes = (
            (person, channel)
            for person in engine.policy.telling.recipients
            for channel in person.channels
            if channel == asked.channel or not asked.channel
        )
        try:
            rows = [self._row(engine, moment, asked, *lane) for lane in lanes]
        except Exception:  # who looks must not end the daemon, whatever an agent has written
            log.exception("a preview cannot be made")
            return refused("failed", "it cannot be put into words; see the daemon's log")
        return PreviewAnswer(ok=True, previews=fitting(rows))

    def _row(
        self,
        engine: EngineState,
        moment: Moment,
        asked: PreviewQuestion,
        person: Recipient,
        channel: str,
    ) -> PreviewRow:
        notice = self._notice(engine, moment, asked, person, channel)
        shown = dict(self._settings().channels())[channel].preview(notice)
        return PreviewRow(
            recipient=person.name,
            channel=channel,
            text=shown.text,
            size=shown.size,
            html=shown.html,
            when=_when(engine, moment.at, asked, person),
            ladder=tuple(_escalation(asked.urgency, moment.at, ZoneInfo(person.quiet.timezone))),
        )

    def _notice(
        self,
        engine: EngineState,
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
        notice = self._composer.notice(engine, delivery, items, moment.at)
        return _without_codes(notice) if items else self._sampled(notice, asked)

    def _sampled(self, notice: Notice, asked: PreviewQuestion) -> Notice:
        """Put samples into a message that is about nothing."""
        link = self._composer.link(notice.delivery, _TOPIC.ref, notice.recipient)
        topic = msgspec.structs.replace(
            _TOPIC,
            urgency=asked.urgency,
            asked=notice.at,
            until=notice.at + GIVEN,
            link=link,
            code=CODE,
        )
        topics = (topic,) * min(asked.batch, SHOWN)
        list_link = self._composer.link(notice.delivery, "", notice.recipient)
        return msgspec.structs.replace(
            notice,
            topics=topics,
            more=asked.batch - len(topics),
            list_link=list_link if len(topics) > 1 else "",
        )


def _without_codes(notice: Notice) -> Notice:
    """Put a sample in the place of each code: who may look may not approve."""
    topics = tuple(
        msgspec.structs.replace(topic, code=CODE) if topic.code else topic
        for topic in notice.topics
    )
    return msgspec.structs.replace(notice, topics=topics)


def _when(engine: EngineState, at: datetime, asked: PreviewQuestion, person: Recipient) -> str:
    telling = engine.policy.telling
    zone = ZoneInfo(person.quiet.timezone)
    if asked.urgency == "high" and telling.quiet_bypass == "high":
        return "at once, also in quiet hours"
    until = engine.outbox.quiet_until(person.name, at)
    if until is None and asked.urgency == "high":
        return "at once"
    if until is not None:
        return f"quiet hours: in one digest at {clock(until.astimezone(zone))}"
    return f"in one message with what comes within {telling.batch_interval_s:g} s"


def _escalation(urgency: Urgency, at: datetime, zone: ZoneInfo) -> Iterator[str]:
    for step in islice(steps(urgency, at, at + GIVEN), MAX_STEPS):
        backup = ", also to the backup" if step.backup else ""
        kind = step.kind.replace("_", " ")
        yield f"{kind} at {clock(step.at.astimezone(zone))}{backup}"
