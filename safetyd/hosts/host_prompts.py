"""Answers questions that hosts would otherwise ask their users.

A question about a call that safetyd has just allowed gets the decision on that call. Any other
question becomes a new proposal.
"""

from collections.abc import Callable

from safetyd.core.messages.decision import Decision
from safetyd.hosts.hook_answer import HookAnswer
from safetyd.hosts.hook_event import Dialect, HookEvent
from safetyd.hosts.hosts_config import AnswerPrompts
from safetyd.hosts.judged_calls import JudgedCalls
from safetyd.hosts.prompt_answer import ASKING_HOSTS, UNANSWERED, is_for_user, prompt_answer
from safetyd.hosts.tool_call import Fields, proposal_fields


class HostPrompts:
    """`answers` returns the current setting, and `clock` a monotonic time in seconds."""

    def __init__(self, answers: Callable[[], AnswerPrompts], clock: Callable[[], float]) -> None:
        self._answers = answers
        self._clock = clock
        self._judged = JudgedCalls()

    def judged(
        self, agent: str, dialect: Dialect, fields: Fields, decision: Decision | None
    ) -> None:
        """Remember a call that may run, because its host may now ask its user."""
        asks = dialect in ASKING_HOSTS and not fields.get("dry_run")
        if asks and decision is not None and decision.allowed:
            self._judged.add(agent, fields, decision.id, self._clock())

    def proposal(
        self, agent: str, dialect: Dialect, event: HookEvent, fields: Fields
    ) -> Fields | None:
        """Return the proposal for a question, or None to leave the question to the user."""
        if self._answers() == "none" or is_for_user(dialect, event, fields):
            return None
        return self._judged.find(agent, fields, self._clock()) or fields

    def answer(self, dialect: Dialect, event: HookEvent, decision: Decision | None) -> HookAnswer:
        """Return the answer to a question; without a decision the user answers it."""
        if decision is None:
            return UNANSWERED
        return prompt_answer(dialect, event, decision, self._answers())

    def ended(self, agent: str, dialect: Dialect, event: HookEvent) -> None:
        """Forget a call that was reported."""
        if dialect in ASKING_HOSTS:
            self._judged.end(agent, proposal_fields(dialect, event, None))
