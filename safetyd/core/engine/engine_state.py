"""The state of the engine, which queries and commands of operators read."""

from collections.abc import Iterable
from typing import Final

import msgspec

from safetyd.core.action_types import Kind
from safetyd.core.actor import Actor, Guard
from safetyd.core.approvals.approved_shapes import ApprovedShapes
from safetyd.core.approvals.grants import Grants
from safetyd.core.approvals.host_files_memory import HostFilesMemory
from safetyd.core.approvals.program_memory import ProgramMemory
from safetyd.core.approvals.queue import Approvals
from safetyd.core.approvals.request import Request
from safetyd.core.approvals.suggestions import PastAnswers
from safetyd.core.decision_cache import DecisionCache
from safetyd.core.engine.evaluation import proposed_again, restricting
from safetyd.core.events.decision_events import Decided, Proposed
from safetyd.core.events.event import Moment
from safetyd.core.facts.fact_finder import FactFinder, ProposalFacts
from safetyd.core.guards.guard_chain import Readers, chain
from safetyd.core.guards.keys import KeysGuard, Ties
from safetyd.core.guards.stop import StopGuard
from safetyd.core.messages.verdict import ALLOWED, Verdict
from safetyd.core.on_call import OnCall
from safetyd.core.open_actions import Actions
from safetyd.core.outbox.outbox import Outbox
from safetyd.core.policy import Policy
from safetyd.core.reporting.records import records
from safetyd.core.reporting.reporter import Reporter
from safetyd.core.rota import RotaPolicy
from safetyd.core.sessions import Sessions
from safetyd.core.shell.command_reader import ANALYSED
from safetyd.core.unasked_tools import UnaskedTools
from safetyd.core.writers import Writers

SCHEMA: Final = 1


class Checkpoint(msgspec.Struct, frozen=True, kw_only=True):
    """The whole state of the engine after event `seq`."""

    schema: int
    seq: int
    policy: Policy
    actors: dict[str, bytes]


class EngineState:
    """All actors after event `seq`. Only the engine changes them.

    Do not store references to actors: a new configuration replaces all of them.
    """

    def __init__(self, policy: Policy) -> None:
        self.seq = 0
        self._build(policy)

    @property
    def stop(self) -> StopGuard:
        return self.guards.stop

    @property
    def keys(self) -> KeysGuard:
        return self.guards.keys

    @property
    def guard_names(self) -> tuple[str, ...]:
        return tuple(guard.name for guard in self._guards)

    def kind(self, event: Proposed | Decided) -> Kind:
        """Return the kind of a proposal. For commands and SQL, it depends on their analysis."""
        proposal = event.proposal
        reader = self._host_reader if event.host else self.reader
        kind = reader.kinds.of(proposal)
        return reader.kind(proposal, kind) if kind.type in ANALYSED else kind

    def facts_of(self, event: Proposed | Decided) -> ProposalFacts:
        """Return what a proposal touches.

        If that cannot be found, return no facts. Then the guards cannot find them either, and
        block the proposal.
        """
        last = self.facts.last
        if last is not None and last.proposal is event.proposal:
            return last
        kind = self.kind(event)
        try:
            return self.facts.of(event, kind)
        except Exception:  # noqa: BLE001 - whatever it is
            return ProposalFacts(event.proposal, kind)

    def approve_via(self, request: Request) -> tuple[str, ...]:
        """Return the ways that can approve this type. Empty means all."""
        return self.kind(request.asked).approve_via

    def holds_back(self, asked: Decided, moment: Moment) -> Verdict:
        """Return the verdict that keeps an approved action from starting, or `ALLOWED`."""
        chain = self.guards
        guards = chain.stop, chain.pause, chain.mode, chain.safe_mode
        proposed = proposed_again(asked, moment.at, moment.t)
        return self._first_of(guards, proposed)

    def _first_of(self, guards: Iterable[Guard], proposed: Proposed) -> Verdict:
        verdicts = restricting(guards, proposed, self.kind(proposed))
        return verdicts[0] if verdicts else ALLOWED

    def _build(self, policy: Policy) -> None:
        self.policy = policy
        self.policy_digest = policy.digest()
        self.reader = policy.reader(policy.kinds())
        self._host_reader = self.reader.with_kinds(policy.kinds(host=True))
        self.facts = FactFinder(self.reader)
        self.sessions = Sessions(policy.sessions)
        self.guards = chain(
            policy,
            Readers(self.reader, self._host_reader, self.facts),
            self.sessions,
            Ties(self._holds_name, self._is_busy),
        )
        self.recall = DecisionCache(policy.decisions, policy.mode, self.policy_digest)
        self.actions = Actions(policy.sessions, self.guards.keys.known)
        self.approvals = Approvals(policy.approvals)
        self.grants = Grants(self.reader)
        self.past_answers = PastAnswers(self.approvals, self.reader)
        self.approved_shapes = ApprovedShapes(self.approvals, self.grants, self.reader)
        self.on_call = OnCall(policy.rota or RotaPolicy())
        self.outbox = Outbox(policy.telling, self.approvals, self.guards.keys.keyless, self.on_call)
        self.records = records(self.sessions, self.actions, self.approvals, self.guards, policy)
        self.writers = Writers()
        self._guards: tuple[Guard, ...] = tuple(self.guards)
        self._actors: tuple[Actor, ...] = (
            *self._guards,
            self.sessions,
            self.actions,
            UnaskedTools(policy.host_rules),
            self.approvals,
            self.grants,
            ProgramMemory(self.approvals, self.grants),
            HostFilesMemory(self.approvals),
            self.past_answers,
            self.approved_shapes,
            self.on_call,
            self.outbox,
            *self.records,
            self.writers,
            Reporter(),
        )

    def _is_busy(self, agent: str) -> bool:
        return self.actions.is_busy(agent)

    def _holds_name(self, agent: str) -> bool:
        """Return whether a name is restricted or has a pending request."""
        guards = self.guards
        return (
            guards.safe_mode.holds_alone(agent)
            or bool(guards.pause.pauses(agent))
            or guards.stop.holds_alone(agent)
            or self.approvals.pending_count(agent) > 0
        )
