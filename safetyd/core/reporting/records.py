"""The actors that record events for operators. No guard uses their state."""

from functools import partial
from typing import NamedTuple

from safetyd.core.approvals.queue import Approvals
from safetyd.core.file_commits import FileCommits
from safetyd.core.guards.guard_chain import Chain
from safetyd.core.open_actions import Actions
from safetyd.core.policy import Policy
from safetyd.core.reporting.blocked_attempts import BlockedAttempts
from safetyd.core.reporting.day_spending import DaySpending
from safetyd.core.reporting.failure_windows import FailureWindows
from safetyd.core.reporting.kept_days import KeptDays
from safetyd.core.reporting.last_decisions import LastDecisions
from safetyd.core.reporting.link_revocations import LinkRevocations
from safetyd.core.reporting.missing_folders import MissingFolders
from safetyd.core.reporting.session_transcripts import Transcripts
from safetyd.core.sessions import Sessions


class Records(NamedTuple):
    transcripts: Transcripts
    last_decisions: LastDecisions
    spending: DaySpending
    failure_windows: FailureWindows
    file_commits: FileCommits
    kept_days: KeptDays
    blocked_attempts: BlockedAttempts
    link_revocations: LinkRevocations
    missing_folders: MissingFolders


def records(
    sessions: Sessions,
    actions: Actions,
    approvals: Approvals,
    guards: Chain,
    policy: Policy,
) -> Records:
    return Records(
        Transcripts(sessions, actions, approvals, guards.budget),
        LastDecisions(guards.keys),
        DaySpending(guards.budget),
        FailureWindows(guards.breaker),
        FileCommits(policy.projects, partial(_approver, approvals), policy.default_project or ""),
        KeptDays(),
        BlockedAttempts(),
        LinkRevocations(),
        MissingFolders(),
    )


def _approver(approvals: Approvals, agent: str, id_: str) -> str:
    """Return the operator who approved a proposal, or an empty string."""
    request = approvals.of_proposal(agent, id_)
    if request is None or request.answer is None or request.state != "approved":
        return ""
    return request.answer.by
