"""Serves agents: puts their messages into the mailbox, and sends the replies."""

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Final, Literal, Protocol

from safetyd.agents.claims import ClaimResult, claim, not_granted, read_claim
from safetyd.agents.commits_before import NO_COMMITS, CommitsBefore, commit_first
from safetyd.agents.emergency_stop import StopFlag
from safetyd.agents.held_replies import HeldReplies, HeldReply
from safetyd.agents.intake import LINE_BYTES, Intake
from safetyd.agents.permissions import (
    PermissionAsk,
    as_proposal,
    asked_about,
    not_permitted,
    read_ask,
    result,
    withdrawn,
)
from safetyd.agents.pricing import PriceList
from safetyd.agents.proposal_envelope import LookAt, ProposalEnvelope
from safetyd.agents.refusals import ANSWERED, ANSWERED_IN_FULL, SHORT_BYTES, Refusals, refusal
from safetyd.bus.codec import Malformed, read_proposal, read_telemetry, shown
from safetyd.bus.flood_gate import FloodGate, KeylessGate
from safetyd.bus.publisher import Replies
from safetyd.clock import Clock, uptime
from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.decision_events import Reported, Withheld
from safetyd.core.events.event import Moment
from safetyd.core.file_commits import CommitFirst
from safetyd.core.guards.stop import describe
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.host_folder import in_its_project
from safetyd.core.messages.proposal import Proposal, is_token
from safetyd.core.messages.telemetry import AnyTelemetry, Noted, Outcome
from safetyd.core.messages.verdict import ALLOW, Cause
from safetyd.core.policy import Policy
from safetyd.journal.mailbox import (
    FAILED,
    CommandEnvelope,
    EventEnvelope,
    Mailbox,
    QuestionEnvelope,
)
from safetyd.monitoring.metrics import Metrics

NOBODY: Final = "unknown"
STALE_S: Final = 3.0
# Health is checked at most this often, not for every message of a burst.
LOOK_S: Final = 0.005


class AgentSettings(Protocol):
    """The settings in force. A reload replaces their values."""

    @property
    def intake(self) -> Intake: ...

    @property
    def keyless_gate(self) -> KeylessGate: ...

    @property
    def flood_gate(self) -> FloodGate: ...

    @property
    def prices(self) -> PriceList: ...

    @property
    def policy(self) -> Policy: ...

    def has_key(self, agent: str) -> bool: ...

    def is_refused(self, agent: str) -> bool: ...


class AgentService:
    """Serves the agents of one connection: agents with keys, or anonymous agents.

    `replaceable` is True if another daemon can take over. Then refusals with the cause
    `unavailable` ask the agent to send its message again. `user_of` returns the account of the
    local user whose anonymous agent sends with a hook.
    """

    def __init__(  # noqa: PLR0913 - the parts of the daemon that a proposal meets
        self,
        publisher: Replies,
        mailbox: Mailbox,
        settings: AgentSettings,
        stop_flag: StopFlag,
        refusals: Refusals,
        metrics: Metrics,
        *,
        answers: HeldReplies,
        commits: CommitsBefore = NO_COMMITS,
        clock: Clock,
        keyless: bool,
        problem: Callable[[], str],
        boot_id: str,
        replaceable: bool = False,
        user_of: Callable[[str], str] = lambda _agent: "",
    ) -> None:
        self._publisher = publisher
        self._mailbox = mailbox
        self._settings = settings
        self._stop_flag = stop_flag
        self._refusals = refusals
        self._metrics = metrics
        self._answers = answers
        self._commits = commits
        self._clock = clock
        self._keyless = keyless
        self._problem = problem
        self._replaceable = replaceable
        self._user_of = user_of
        self._id = f"{boot_id}{'k' if keyless else 'n'}"
        self._made = 0
        self._looked = 0.0  # when health was last checked
        self._found = ""

    def propose(
        self,
        subject: bytes,
        reply: bytes,
        payload: bytes,
        host: str = "",
        seen: Mapping[str, str] | None = None,
    ) -> None:
        """Handle a proposal. `host` is the coding agent whose hook sent it.

        `seen` has the targets of paths that the sender saw; None if the sender cannot look.
        """
        name, agent = _sender(subject)
        now = uptime()
        wait = self._wait(agent, payload, now)
        if wait > 0:
            self._too_fast(agent, reply, payload, wait, "intake")
        elif agent != name:
            self._refuse(agent, reply, b"", "malformed", _no_name(name))
        elif refused := self._closed(agent, now):
            self._refuse(agent, reply, payload, *refused)
        else:
            self._accept(agent, reply, payload, host, seen)

    def telemetry(self, subject: bytes, reply: bytes, payload: bytes, host: str = "") -> None:
        name, agent = _sender(subject)
        refused = self.not_now(agent, name, payload)
        if refused:
            self._not_noted(agent, reply, *refused)
            return
        try:
            telemetry = read_telemetry(payload)
        except Malformed as exc:
            self._not_noted(agent, reply, "malformed", str(exc))
            return
        self._mailbox.put(self._report(agent, telemetry, reply, host))

    def sent(self, envelope: ProposalEnvelope, late: bool) -> None:  # noqa: FBT001 - a callback
        """Send a durable decision. If files must be committed first, an allow is sent later."""
        decision = envelope.decision
        if envelope.overdrawn_s:
            self._overdrawn(envelope)
            return
        if envelope.hidden:
            envelope.publisher.answer(envelope.reply, LookAt(envelope.hidden))
            return
        if decision is None:
            raise AssertionError("an envelope must be opened before it is delivered")
        leave = partial(self._leave, envelope, decision, uptime(), late=late)
        if decision.decision is ALLOW:
            self._commits.after(envelope.agent, decision.id, envelope.first, leave)
        else:
            leave()

    def _leave(
        self, envelope: ProposalEnvelope, decision: Decision, now: float, *, late: bool
    ) -> None:
        """Send a decision. Send a block instead of an allow after a stop or a long delay."""
        if decision.decision is ALLOW:
            stop = self._stop_flag.holds(envelope.agent)
            if stop is not None:
                self._withhold(envelope, "stopped", describe(stop))
                return
            if late or now - envelope.received > STALE_S:
                self._withhold(envelope, "late", "writing the decision took too long")
                return
        if decision.status == "pending" and self._holds(envelope):
            envelope.publisher.defer(envelope.reply, decision)
        elif envelope.permission:
            envelope.publisher.decide(b"", decision)
            envelope.publisher.answer(envelope.reply, result(decision, envelope.request))
        else:
            envelope.publisher.decide(envelope.reply, decision)
        self._metrics.decided(decision, now - envelope.received)

    def permission(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Handle a permission request, or a question about the agent's own requests."""
        name, agent = _sender(subject)
        if refused := self.not_now(agent, name, payload):
            self._not_permitted(agent, reply, *refused)
            return
        try:
            ask = read_ask(payload)
            if ask.action is None:
                self._mailbox.put(self._own_requests(agent, ask, reply))
                return
            proposal, digest = as_proposal(agent, ask, self._new_id())
        except Malformed as exc:
            self._not_permitted(agent, reply, "malformed", str(exc))
            return
        self.put(agent, reply, proposal, digest, len(payload), permission=True)

    def claim(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Handle a claim: only the first claimant of an approved action may proceed."""
        name, agent = _sender(subject)
        refused = self.not_now(agent, name, payload)
        try:
            wanted = None if refused else read_claim(payload)
        except Malformed as exc:
            wanted, refused = None, ("malformed", str(exc))
        if wanted is None:
            cause, reason = refused or ("malformed", "")
            self._count(agent, cause, reason)
            self._publisher.answer(reply, not_granted(cause, reason, retry=self._may_retry(cause)))
            return
        plan = claim(agent, wanted, self._new_id(), keyless=self._keyless)
        answers: list[ClaimResult] = []

        def look(state: EngineState, _moment: Moment) -> CommitFirst | None:
            return commit_first(state, agent, wanted.id)

        def told(first: CommitFirst | None) -> None:
            answer = answers[0] if answers else not_granted("unavailable", FAILED)
            leave = partial(self._answer_claim, agent, reply, answer)
            self._commits.after(agent, wanted.id, first, leave)

        self._mailbox.put(CommandEnvelope(plan, answers.append, lambda: None))
        self._mailbox.put(QuestionEnvelope(look, told, partial(told, None)))

    def _answer_claim(self, agent: str, reply: bytes, answer: ClaimResult) -> None:
        """Answer a claim. During a stop it is refused, and the claimant can try again later."""
        stop = self._stop_flag.holds(agent)
        if stop is not None and answer.granted:
            answer = not_granted("stopped", describe(stop))
        self._publisher.answer(reply, answer)

    def _own_requests(
        self, agent: str, ask: PermissionAsk, reply: bytes
    ) -> CommandEnvelope[object]:
        told = partial(self._publisher.answer, reply)
        failed = partial(told, not_permitted("unavailable", FAILED))
        if ask.withdraw:
            return CommandEnvelope(withdrawn(agent, ask, keyless=self._keyless), told, failed)

        def answer(state: EngineState, _moment: Moment) -> object:
            return asked_about(state, agent, ask)

        return QuestionEnvelope(answer, told, failed=failed)

    def _not_permitted(self, agent: str, reply: bytes, cause: Cause, reason: str) -> None:
        self._count(agent, cause, reason)
        self._publisher.answer(reply, not_permitted(cause, reason, retry=self._may_retry(cause)))

    def _holds(self, envelope: ProposalEnvelope) -> bool:
        """Hold the reply until the request is answered, if the agent waits. Return True if held."""
        if not envelope.proposal.wait or not envelope.reply or envelope.request is None:
            return False
        shape = result if envelope.permission else None
        held = HeldReply(envelope.publisher, envelope.reply, shape)
        return self._answers.hold(envelope.request, envelope.proposal.id or "", held)

    def _accept(
        self,
        agent: str,
        reply: bytes,
        payload: bytes,
        host: str,
        seen: Mapping[str, str] | None,
    ) -> None:
        try:
            proposal, digest = read_proposal(agent, payload, self._new_id())
        except Malformed as exc:
            self._refuse(agent, reply, b"", "malformed", str(exc))
            return
        if proposal.dry_run:
            wait = self._settings.intake.admit_dry_run(agent, uptime())
            if wait > 0:
                self._too_fast(agent, reply, payload, wait, "dry_run")
                return
        if host:
            policy = self._settings.policy
            roots = {name: project.root for name, project in policy.projects.items()}
            proposal = in_its_project(proposal, roots, policy.default_project or "")
        self.put(agent, reply, proposal, digest, len(payload), host=host, seen=seen)

    def put(  # noqa: PLR0913 - see ProposalEnvelope
        self,
        agent: str,
        reply: bytes,
        proposal: Proposal,
        digest: str,
        size: int,
        *,
        permission: bool = False,
        host: str = "",
        seen: Mapping[str, str] | None = None,
    ) -> None:
        self._mailbox.put(
            ProposalEnvelope(
                agent,
                proposal,
                digest,
                reply,
                self._publisher,
                self.sent,
                prices=self._settings.prices,
                intake=self._settings.intake,
                keyless=self._keyless,
                user=self._user_of(agent),
                size=size,
                permission=permission,
                seen=seen,
                host=host,
            )
        )

    def _closed(self, agent: str, now: float) -> tuple[Cause, str] | None:
        """Return why this agent cannot propose now, or None."""
        if self._impostor(agent):
            return "malformed", _reserved(agent)
        if self._settings.is_refused(agent):
            return "malformed", _revoked(agent)
        if now - self._looked > LOOK_S:
            self._looked, self._found = now, self._problem()
        if self._found:
            stop = self._stop_flag.holds(agent)
            return ("stopped", describe(stop)) if stop else ("unavailable", self._found)
        if self._mailbox.full:
            return "unavailable", "too many proposals are waiting; try again soon"
        return None

    def not_now(self, agent: str, name: str, payload: bytes) -> tuple[Cause, str] | None:
        """Return why a message is refused now, or None. Proposals use `_closed` instead."""
        wait = self._wait(agent, payload, uptime())
        if wait > 0:
            return "rate_limit", f"{agent} sends too many messages; try again in {wait:.1f} s"
        if agent != name:
            return "malformed", _no_name(name)
        if self._impostor(agent):
            return "malformed", _reserved(agent)
        if self._settings.is_refused(agent):
            return "malformed", _revoked(agent)
        problem = self._problem()
        if problem or self._mailbox.full:
            return "unavailable", problem or "too many messages are waiting; try again soon"
        return None

    def _wait(self, agent: str, payload: bytes, now: float) -> float:
        """Return how many seconds this agent must wait, or 0.0 if it may send now."""
        user = self._user_of(agent)
        wait = self._settings.intake.admit(
            agent, len(payload), now, keyless=self._keyless, user=user
        )
        if wait > 0:
            if user:
                return wait  # only the bus has a gate
            if self._keyless:
                self._settings.keyless_gate.turned_away(len(payload) + LINE_BYTES, now)
            else:
                self._settings.flood_gate.turned_away(agent, len(payload))
        return wait

    def _impostor(self, agent: str) -> bool:
        return self._keyless and self._settings.has_key(agent)

    def _count(self, agent: str, cause: Cause, reason: str) -> int:
        """Count a refusal. An anonymous agent with a protected name counts as `unknown`."""
        counted = NOBODY if self._impostor(agent) else agent
        return self._refusals.count(counted, cause, reason)

    def _not_noted(self, agent: str, reply: bytes, cause: Cause, error: str) -> None:
        self._count(agent, cause, error)
        retry = self._may_retry(cause)
        self._publisher.answer(reply, Noted(ok=False, error=error, code=cause, retry=retry))

    def _report(
        self, agent: str, telemetry: AnyTelemetry, reply: bytes, host: str
    ) -> EventEnvelope:
        keyless = self._keyless
        notes: list[str] = []

        def made(state: EngineState, moment: Moment) -> Reported:
            notes[:] = _odd(agent, telemetry, state)
            price = self._priced(agent, telemetry, state, moment)
            stated = (
                bool(host) and isinstance(telemetry, Outcome) and telemetry.cost_usd is not None
            )
            return Reported(
                at=moment.at,
                t=moment.t,
                agent=agent,
                telemetry=telemetry,
                keyless=keyless,
                # The cost that a coding agent states counts instead of the price.
                priced_nano=None if stated else price,
                host=host,
                tokens_nano=price if stated else None,
            )

        def noted() -> None:
            self._publisher.answer(reply, Noted(ok=True, note="".join(notes)))

        return EventEnvelope(made, noted)

    def _priced(
        self, agent: str, telemetry: AnyTelemetry, state: EngineState, moment: Moment
    ) -> int | None:
        """Return the price of an outcome's tokens, if it has any."""
        if not isinstance(telemetry, Outcome):
            return None
        begun = state.actions.find(agent, telemetry.id)
        return self._settings.prices.of_outcome(telemetry, begun, moment.at)

    def _overdrawn(self, envelope: ProposalEnvelope) -> None:
        """Refuse a proposal because earlier ones of its agent took too long to decide."""
        agent, wait = envelope.agent, envelope.overdrawn_s
        reason = f"the proposals of {agent} take too long to decide; try again in {wait:.1f} s"
        if envelope.permission:
            self._not_permitted(agent, envelope.reply, "rate_limit", reason)
            return
        self._count(agent, "rate_limit", reason)
        self._metrics.refused("rate_limit")
        decision = self._limited(
            agent, envelope.proposal.id or "", reason, envelope.digest, wait, "intake"
        )
        envelope.publisher.decide(envelope.reply, decision)

    def _too_fast(self, agent: str, reply: bytes, payload: bytes, wait: float, limit: str) -> None:
        reason = f"{agent} sends too many messages ({limit}); try again in {wait:.1f} s"
        count = self._count(agent, "rate_limit", reason)
        self._metrics.refused("rate_limit")
        if count > ANSWERED:
            return
        if self._keyless and not self._settings.keyless_gate.calm:
            if not reply:
                return
            payload = b""
        id_, digest = self._named(agent, payload, count)
        self._publisher.decide(reply, self._limited(agent, id_, reason, digest, wait, limit))
        self._publisher.soon()

    def _limited(
        self, agent: str, id_: str, reason: str, digest: str, wait: float, limit: str
    ) -> Decision:
        return refusal(
            agent,
            id_,
            "rate_limit",
            reason,
            digest=digest,
            rule=f"{limit}.agent",
            retry_after_s=round(wait, 3),
            limit_id=f"{limit}:{agent}",
            moment=self._clock.now(),
        )

    def _refuse(self, agent: str, reply: bytes, payload: bytes, cause: Cause, reason: str) -> None:
        count = self._count(agent, cause, reason)
        id_, digest = self._named(agent, payload, count)
        self._metrics.refused(cause)
        moment = self._clock.now()
        retry = self._may_retry(cause)
        self._publisher.decide(
            reply, refusal(agent, id_, cause, reason, digest=digest, retry=retry, moment=moment)
        )
        self._publisher.soon()

    def _named(self, agent: str, payload: bytes, count: int) -> tuple[str, str]:
        """Return the id and digest of a refused proposal, or a new id if it cannot be decoded."""
        spare = self._new_id()
        if not payload or (count > ANSWERED_IN_FULL and len(payload) > SHORT_BYTES):
            return spare, ""
        try:
            proposal, digest = read_proposal(agent, payload, spare)
        except Malformed:
            return spare, ""
        return proposal.id or spare, digest

    def _withhold(
        self, envelope: ProposalEnvelope, why: Literal["stopped", "late"], reason: str
    ) -> None:
        agent, id_ = envelope.agent, envelope.proposal.id or ""
        cause: Cause = "stopped" if why == "stopped" else "unavailable"
        decision = refusal(
            agent,
            id_,
            cause,
            reason,
            digest=envelope.digest,
            retry=self._may_retry(cause),
            moment=self._clock.now(),
        )
        envelope.publisher.decide(envelope.reply, decision)
        self._metrics.refused(cause)

        self._mailbox.record(
            lambda moment: Withheld(at=moment.at, t=moment.t, agent=agent, id=id_, why=why)
        )

    def _may_retry(self, cause: Cause) -> bool:
        """Return True if the message may be accepted soon, by this daemon or by another one."""
        return self._replaceable and cause == "unavailable"

    def _new_id(self) -> str:
        self._made += 1
        return f"{self._id}{self._made}"


def _sender(subject: bytes) -> tuple[str, str]:
    """Return the last token of a subject, and the agent's name or `unknown` if it is invalid."""
    name = subject[subject.rfind(b".") + 1 :].decode("ascii", "replace")
    return name, name if is_token(name) else NOBODY


def _odd(agent: str, telemetry: AnyTelemetry, state: EngineState) -> Sequence[str]:
    """Return a note if an outcome belongs to no open action; it is recorded anyway."""
    if not isinstance(telemetry, Outcome) or telemetry.id is None:
        return ()
    if state.actions.find(agent, telemetry.id) is not None:
        return ()
    why = "it was not allowed, or its outcome was already reported"
    return (f"{agent} has no open action {telemetry.id}: {why}",)


def _reserved(agent: str) -> str:
    return (
        f"the name {agent} is reserved: connect with its key, propose over HTTP with its token, "
        "or use another name"
    )


def _revoked(agent: str) -> str:
    return f"{agent} has no key: it was revoked, or `safetyd agent add {agent}` was never run"


def _no_name(name: str) -> str:
    return f"{shown(name)} is not a valid agent name: use 1 to 64 of A-Z a-z 0-9 _ -"
