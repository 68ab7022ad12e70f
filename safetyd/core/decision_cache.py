"""A cache of replies, so that a repeated proposal is not decided twice.

Replies are stored in generations that are frozen when full, so that a checkpoint can encode them in
another thread while new replies arrive.
"""

from collections.abc import Callable
from datetime import datetime, timedelta
from typing import Annotated, Final

import msgspec
from msgspec import UNSET, Meta

from safetyd.core.events.decision_events import Asking, Decided, Proposed, Using
from safetyd.core.messages.decision import Decision, Opinion
from safetyd.core.messages.verdict import ALLOWED, Cause, Severity, Verdict, strictest

MAX_ANSWERS: Final = 100_000
GENERATION: Final = 2_000

# Do not change these messages: checkpoints contain them, and older journals must replay alike.
_MESSAGES: Final = {
    Severity.ALLOW: "",
    Severity.ASK: (
        "This needs a person, and nobody can be asked yet. Do not act and do not try another way."
    ),
    Severity.BLOCK: "This is not permitted. Do not act and do not try another way.",
}
DENIED: Final = "A person said no. Do not act and do not try another way."
_BY_CAUSE: Final[dict[Cause, str]] = {
    "loop": (
        "You have done this before in the same state. Do not do it again: try something that you "
        "have not tried yet, or say that you are stuck."
    ),
    "human_denied": DENIED,
}

_decode_generations = msgspec.msgpack.Decoder(list[bytes]).decode
_decode_answers = msgspec.msgpack.Decoder(list[Decision]).decode


class DecisionsConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    ttl_s: Annotated[float, Meta(gt=0, le=86_400)] = 60.0
    recall_s: Annotated[float, Meta(ge=0, le=604_800)] = 600.0


class DecisionCache:
    """The replies of the last `recall_s` seconds, at most `MAX_ANSWERS`."""

    def __init__(self, config: DecisionsConfig, mode: str, policy: str) -> None:
        self._ttl = timedelta(seconds=config.ttl_s)
        self._kept = timedelta(seconds=config.recall_s)
        self._mode = mode
        self._policy = policy
        self._answers: dict[tuple[str, str], Decision] = {}
        self._generations: list[list[Decision]] = [[]]

    def find(self, proposed: Proposed) -> Decision | None:
        """Return the earlier reply to this agent's id, even if it has expired."""
        decision = self._answers.get((proposed.agent, proposed.id))
        if decision is None or decision.at is None or proposed.at >= decision.at + self._kept:
            return None
        return decision

    def remember(self, decided: Decided) -> Decision:
        """Build the reply to a decision. Store it if it is the first one for its id."""
        decision = self.answer(decided)
        if decided.first:
            self.keep(decision)
        return decision

    def keep(self, decision: Decision) -> None:
        """Store the reply for its id."""
        self._answers[decision.agent, decision.id] = decision
        self._newest().append(decision)

    def last(self, agent: str, id_: str) -> Decision | None:
        """Return the stored reply to an id, even if it has expired."""
        return self._answers.get((agent, id_))

    def answer(self, decided: Decided) -> Decision:
        """Build the reply to a decision."""
        if decided.uses is not None:
            return self._approved(decided, decided.uses)
        if not decided.verdicts:
            headline = _granted(decided.grants) if decided.grants else ALLOWED
            return self._built(decided, headline, expires_at=decided.at + self._ttl)
        decision = self._built(decided, strictest(decided.verdicts))
        return decision if decided.asks is None else _pending(decision, decided.asks)

    def save(self) -> Callable[[], bytes]:
        *frozen, newest = self._generations
        kept = (*frozen, newest.copy())
        return lambda: msgspec.msgpack.encode([msgspec.msgpack.encode(part) for part in kept])

    def load(self, saved: bytes) -> None:
        self._generations = [_decode_answers(part) for part in _decode_generations(saved)]
        self._answers = {(d.agent, d.id): d for part in self._generations for d in part}

    def _newest(self) -> list[Decision]:
        if len(self._generations[-1]) >= GENERATION:
            self._generations.append([])
            if len(self._generations) > MAX_ANSWERS // GENERATION:
                self._forget(self._generations.pop(0))
        return self._generations[-1]

    def _forget(self, oldest: list[Decision]) -> None:
        for decision in oldest:
            # An id that was decided again is also in a later generation.
            if self._answers.get((decision.agent, decision.id)) is decision:
                del self._answers[decision.agent, decision.id]

    def _approved(self, decided: Decided, uses: Using) -> Decision:
        words = f": {uses.words}" if uses.words else ""
        decision = self._built(decided, ALLOWED, expires_at=uses.until)
        return msgspec.structs.replace(
            decision,
            cause="human_approved",
            reason=f"approved by {uses.by}{words}",
            request_id=uses.request_id,
            claim_required=decided.reversibility == "irreversible",
        )

    def _built(
        self, decided: Decided, headline: Verdict, expires_at: datetime | None = None
    ) -> Decision:
        return Decision(
            id=decided.id,
            agent=decided.agent,
            decision=decided.decision,
            cause=headline.cause,
            reason=headline.reason,
            triggered_rules=_rules(decided.verdicts),
            verdicts=_opinions(decided.verdicts),
            tier=decided.tier,
            risk=decided.risk,
            reversibility=decided.reversibility,
            retry_after_s=headline.retry_after_s,
            limit_id=headline.limit_id,
            agent_message=_BY_CAUSE.get(headline.cause) or _MESSAGES[decided.decision],
            digest=decided.digest,
            expires_at=expires_at,
            mode=self._mode,
            policy=self._policy,
            seq=decided.seq,
            at=decided.at,
        )


def _pending(decision: Decision, asks: Asking) -> Decision:
    return msgspec.structs.replace(
        decision,
        status="pending",
        request_id=asks.request_id,
        expires_at=asks.deadline,
        reachable_from=asks.reachable_from or UNSET,
        reason=f"{decision.reason}{_unreachable(asks)}",
        agent_message="A person has been asked. Do not act and do not try another way.",
    )


def _unreachable(asks: Asking) -> str:
    """Return a sentence that says that nobody can answer in time, or an empty string."""
    reachable, deadline = asks.reachable_from, asks.deadline
    if reachable is None or deadline is None or reachable < deadline:
        return ""
    return (
        f". Nobody who may answer can be notified before {reachable:%d %b %H:%M}Z, and the request "
        f"expires at {deadline:%d %b %H:%M}Z"
    )


def _granted(grants: tuple[str, ...]) -> Verdict:
    return Verdict("grants", Severity.ALLOW, "", f"permitted by {' and '.join(grants)}")


def _rules(verdicts: tuple[Verdict, ...]) -> tuple[str, ...]:
    if not verdicts:
        return ()
    return tuple(rule for verdict in verdicts for rule in (verdict.rule, *verdict.also))


def _opinions(verdicts: tuple[Verdict, ...]) -> tuple[Opinion, ...]:
    if not verdicts:
        return ()
    return tuple(Opinion(v.guard, v.decision, v.rule, v.reason) for v in verdicts)
