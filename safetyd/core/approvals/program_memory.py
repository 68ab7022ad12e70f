"""Remembers unknown programs that an operator has approved for a coding agent.

If an action needs approval only because it runs an unknown program, its request says that an
approval also covers further calls of that program with the same options, in the same project and
for some hours. The approval then creates an ordinary grant, which can be revoked.
"""

import hashlib
from collections.abc import Sequence
from datetime import timedelta
from typing import Final

from safetyd.core.action_types import Kind
from safetyd.core.actor import Actor, hearing, on
from safetyd.core.approvals.grants import Grants
from safetyd.core.approvals.host_calls import is_command_alone, project_folder
from safetyd.core.approvals.queue import Approvals
from safetyd.core.approvals.shown_calls import MAX_WORDS, are_like, shown_words
from safetyd.core.events.decision_events import Proposed, RememberedProgram
from safetyd.core.events.event import Event
from safetyd.core.events.request_events import Answered, Granted
from safetyd.core.guards.gate.command_rules import rules_of
from safetyd.core.messages.verdict import Verdict
from safetyd.core.shell.command_reader import CommandReader

USES: Final = 1_000


def remembered(
    proposed: Proposed,
    kind: Kind,
    verdicts: Sequence[Verdict],
    reader: CommandReader,
    hours: float,
) -> RememberedProgram | None:
    """Return the program that an approval would also cover later, if any."""
    folder = project_folder(proposed, reader.roots)
    proposal = proposed.proposal
    if not folder or not hours or kind.raised or not reader.reads(kind, proposal):
        return None
    findings = reader.reading(proposal).findings
    found = [finding for finding in findings if not finding.passes]
    programs = {finding.program for finding in found}
    unlisted = all("unlisted" in finding.traits for finding in found)
    if len(programs) != 1 or not unlisted or not is_command_alone(proposed):
        return None
    objections = {rule for verdict in verdicts for rule in (verdict.rule, *verdict.also)}
    if objections != {rule for finding in found for rule in rules_of(finding)}:
        return None
    words = shown_words((*found, *(finding for finding in findings if not finding.program)))
    if len(words) > MAX_WORDS or any(verdict.masks_text for verdict in verdicts):
        return None
    return RememberedProgram(program=programs.pop(), folder=folder, hours=hours, words=words)


class ProgramMemory(Actor):
    """Makes the grants. It must observe each answer after the queue does."""

    name = "program_memory"

    def __init__(self, approvals: Approvals, grants: Grants) -> None:
        self._approvals = approvals
        self._grants = grants
        self.hears = hearing(on(Answered, self._answered))

    def _answered(self, event: Answered) -> Sequence[Event]:
        request = self._approvals.find(event.request_id)
        if request is None or request.state != "approved" or not request.answered_by(event):
            return ()
        program = request.remembers
        if program is None or self._grants.full or self._is_known(request.agent, program):
            return ()
        asked = request.asked
        return (
            Granted(
                at=event.at,
                t=event.t,
                id=f"grt_{hashlib.sha256(request.id.encode()).hexdigest()[:12]}",
                agent=request.agent,
                by=event.by,
                via=event.via,
                reason=f"approved with {request.id}",
                uses=USES,
                until=event.at + timedelta(hours=program.hours),
                request_id=request.id,
                type=asked.type,
                project=asked.proposal.project,
                rules=tuple(sorted(request.rules)),
                keyed=not asked.keyless,
                program=program.program,
                folder=program.folder,
                words=program.words,
            ),
        )

    def _is_known(self, agent: str, program: RememberedProgram) -> bool:
        made = (grant.made for grant in self._grants.live())
        same = (agent, program.program, program.folder)
        return any(
            (one.agent, one.program, one.folder) == same
            and are_like(program.words, one.words, one.folder)
            for one in made
        )
