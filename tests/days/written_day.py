"""A day that a test writes down by hand: what was asked, sent and answered at which minute."""

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime, timedelta
from typing import Any, Self

from safetyd.core.events.decision_events import Asking, Decided
from safetyd.core.events.event import Event
from safetyd.core.events.notification_events import Due, Item, ItemKind, NotTold, Told
from safetyd.core.events.request_events import Answered, Cancelled, Expired
from safetyd.core.messages.proposal import Proposal, Urgency
from safetyd.core.messages.verdict import ASK
from safetyd.core.recipients import QuietHours, Recipient, TellingConfig
from safetyd.core.rota import Rota, RotaPolicy, WeeklyShift
from safetyd.rehearsal.day_facts import DayFacts
from safetyd.rehearsal.day_measures import Measure, measures
from safetyd.rehearsal.day_record import Arrival, DayRecord, Mention
from safetyd.rehearsal.story_file import AgentInStory, DayGoals, PersonInStory, Story
from safetyd.rehearsal.story_times import StoryTimes

START = datetime(2026, 3, 10, 6, tzinfo=UTC)
NO_GOALS = DayGoals()
BOTH = (PersonInStory(name="lena"), PersonInStory(name="omar"))


class WrittenDay:
    """Lena gets mail, Omar gets SMS and ntfy.

    The day starts at 06:00 UTC. Quiet hours are from 23:00 to 07:00.
    """

    def __init__(
        self,
        *,
        goals: DayGoals = NO_GOALS,
        people: Sequence[PersonInStory] = BOTH,
        shifts: tuple[WeeklyShift, ...] = (),
        wake_for: Mapping[str, tuple[str, ...]] | None = None,
        lasts: str = "48h",
    ) -> None:
        story = Story(
            title="Written",
            start="2026-03-10 06:00",
            lasts=lasts,
            people=tuple(people),
            agents=(AgentInStory(name="coder"),),
            goals=goals,
        )
        quiet = QuietHours()
        telling = TellingConfig(
            recipients=(
                Recipient(name="lena", channels=("email",), quiet=quiet),
                Recipient(name="omar", channels=("sms", "ntfy"), quiet=quiet),
            ),
            channels={"email": "email", "sms": "sms", "ntfy": "chat"},
        )
        times = StoryTimes(story.start, story.lasts, story.timezone)
        rota = Rota(RotaPolicy(timezone="UTC", shifts=shifts))
        self.record = DayRecord(story, times, telling, rota, wake_for or {})
        self._sent = 0

    def asks(
        self,
        minute: float,
        ref: str,
        *,
        urgency: Urgency = "normal",
        within: float | None = None,
        burst: str = "",
        **fields: Any,
    ) -> Self:
        """An agent asks for approval, with a deadline `within` some minutes."""
        deadline = None if within is None else at(minute + within)
        decided = Decided(
            **moment(minute),
            agent="coder",
            proposal=Proposal(type="push", id=ref, text=f"git push origin {ref}"),
            digest=f"sha256:{ref}",
            decision=ASK,
            type="push",
            tier="requires_permission",
            reversibility="irreversible",
            risk="high",
            asks=Asking(request_id=ref, action=b"push", urgency=urgency, deadline=deadline),
            **fields,
        )
        if burst:
            self.record.bursts.setdefault(burst, []).append(("coder", ref))
        return self._add(decided)

    def sends(
        self,
        minute: float,
        *refs: str,
        to: str = "lena",
        channel: str = "email",
        kind: ItemKind = "request",
        due: float | None = None,
        **fields: Any,
    ) -> Self:
        """A message about these requests arrives; it was due at the same time, or at `due`."""
        delivery = self._due(minute if due is None else due, refs, to, channel, kind)
        self._add(Told(**moment(minute), delivery=delivery, channel=channel, state="accepted"))
        shown: dict[str, Any] = {
            "began": at(minute),
            "at": at(minute),
            "recipient": to,
            "channel": channel,
            "delivery": delivery,
            "urgency": "normal",
            "subject": f"{len(refs)} requests",
            "text": "",
            "size": "",
            "mentions": tuple(Mention(ref, kind) for ref in refs),
            "entries": tuple((ref,) for ref in refs),
            "more": 0,
            "digest": False,
        }
        self.record.arrivals.append(Arrival(**{**shown, **fields}))
        return self

    def fails(self, minute: float, *refs: str, state: Any = "dead") -> Self:
        """A mail to Lena is given up."""
        delivery = self._due(minute, refs, "lena", "email", "request")
        return self._add(NotTold(**moment(minute), delivery=delivery, channel="email", state=state))

    def starts(self, minute: float, *refs: str) -> Self:
        """A mail to Lena is due, and never ends."""
        self._due(minute, refs, "lena", "email", "request")
        return self

    def answers(self, minute: float, ref: str, *, by: str = "lena", via: str = "cli") -> Self:
        return self._add(
            Answered(
                **moment(minute),
                request_id=ref,
                agent="coder",
                id=ref,
                answer="approved",
                by=by,
                via=via,
            )
        )

    def expires(self, minute: float, *refs: str) -> Self:
        return self._add(Expired(**moment(minute), request_ids=refs))

    def cancels(self, minute: float, ref: str) -> Self:
        return self._add(Cancelled(**moment(minute), request_id=ref, by="coder", via="bus"))

    def happens(self, event: Event) -> Self:
        return self._add(event)

    def facts(self) -> DayFacts:
        return DayFacts(self.record)

    def measure(self, name: str) -> Measure:
        """Return one row of the table."""
        found = {measure.name: measure for measure in measures(self.facts())}
        return found[name]

    def value(self, name: str) -> float | None:
        return self.measure(name).value

    def _due(
        self, minute: float, refs: Sequence[str], to: str, channel: str, kind: ItemKind
    ) -> str:
        self._sent += 1
        delivery = f"msg-{self._sent}"
        self._add(
            Due(
                **moment(minute),
                delivery=delivery,
                recipient=to,
                channel=channel,
                urgency="normal",
                items=tuple(Item(kind, ref) for ref in refs),
            )
        )
        return delivery

    def _add(self, event: Event) -> Self:
        self.record.events.append(event)
        return self


def at(minute: float) -> datetime:
    return START + timedelta(minutes=minute)


def moment(minute: float) -> dict[str, Any]:
    return {"at": at(minute), "t": minute * 60}
