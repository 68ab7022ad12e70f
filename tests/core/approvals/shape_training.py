"""Operators who approve ten actions of one shape, and the grant that is then suggested."""

import json
from collections.abc import Iterable, Sequence
from datetime import datetime
from pathlib import Path
from typing import Any

from safetyd.core.approvals.approved_shapes import ENOUGH, GrantSuggestion
from safetyd.core.approvals.resolution import looking
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.evaluation import restricting
from safetyd.core.events.event import Moment
from safetyd.core.events.request_events import Granted
from safetyd.core.messages.decision import Decision
from safetyd.core.messages.verdict import Verdict
from safetyd.core.policy import Policy
from safetyd.operators.grant_commands import from_suggestion
from tests.core.approvals.queue_story import QueueStory
from tests.story import at, propose

CORPUS = Path(__file__).parents[2] / "corpus" / "suggestions"


def corpus(name: str) -> list[dict[str, Any]]:
    return [json.loads(line) for line in (CORPUS / name).read_text().splitlines()]


class Training(QueueStory):
    """An engine whose operators answer everything with the same word."""

    def __init__(self, policy: Policy | None = None) -> None:
        super().__init__(policy)
        self.t = 0.0

    def asked(self, text: str, **fields: Any) -> Decision:
        self.t += 1
        said: dict[str, Any] = {"type": "run_shell", "text": text, **fields}
        return self.proposes(propose(self.t, id=f"p{int(self.t)}", **said))

    def approved(self, texts: Iterable[str], **fields: Any) -> None:
        for text in texts:
            asked = self.asked(text, **fields)
            if asked.request_id is None:
                return  # a block; nobody can approve it
            self.t += 1
            self.answers(self.t, asked.request_id, waits=True)

    def denied(self, text: str, **fields: Any) -> None:
        self.answers(self.t, self.asked(text, **fields).request_id, "denied", words="no")

    def suggested(self, at_: datetime | None = None) -> list[GrantSuggestion]:
        return self.engine.approved_shapes.suggestions(at_ or at(self.t))

    def applied(self) -> Granted:
        """Make the only suggested grant."""
        (found,) = self.suggested()
        moment = Moment(at(self.t), self.t)
        granted = from_suggestion(self.engine, moment, found, "alice", "cli")
        self.happens(granted)
        return granted

    def grants(self) -> list[Granted]:
        return [grant.made for grant in self.engine.grants.live()]


def texts(template: str, count: int = ENOUGH) -> Sequence[str]:
    return [template.format(n=n) for n in range(1, count + 1)]


def allows(engine: Engine, text: str, agent: str = "code", **fields: Any) -> bool:
    """Return whether an engine would allow an action, with its grants. Nothing changes."""
    return not _left(engine, text, agent, granted=True, **fields)


def opens(engine: Engine, text: str, **fields: Any) -> bool:
    """Return whether an action would be allowed, but not without the grants."""
    return allows(engine, text, **fields) and bool(_left(engine, text, granted=False, **fields))


def _left(
    engine: Engine, text: str, agent: str = "code", *, granted: bool, **fields: Any
) -> tuple[Verdict, ...]:
    said: dict[str, Any] = {"type": "run_shell", "text": text, **fields}
    proposed = propose(60, agent, "trial", **said)
    kind = engine.kind(proposed)
    verdicts = tuple(restricting(engine.guards, proposed, kind))
    look = looking(engine.guards, proposed, kind, again=False)
    return engine.grants.lift(proposed, kind, verdicts, look, None if granted else ()).verdicts
