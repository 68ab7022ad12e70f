"""What an approval gives besides the action."""

import pytest

from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.policy import Policy
from tests.cards.card_story import card_of, details_of
from tests.core.approvals.queue_story import QueueStory
from tests.story import outcome


@pytest.mark.parametrize(("session", "named"), [("s-1", " in s-1."), (None, ".")])
def test_more_budget_is_the_question_and_says_what_was_used(
    session: str | None, named: str
) -> None:
    queue = QueueStory(Policy(budget=BudgetConfig(session_usd=5.0)))
    call = {"type": "model_call", "model": "m", "text": "", "session": session}
    queue.asks(0, "p1", **call, cost_usd=4.5)
    queue.happens(outcome(1))
    asked = queue.asks(2, "p2", **{**call, "text": "Go on"}, cost_usd=0.75)

    details = details_of(queue, asked.request_id)

    assert details.wish == "$5.00 more for code"
    assert details.gives == (
        "code is paused. Approval resumes it and gives the session $5.00 more until it ends. "
        f"$4.50 of $5.00 used{named}"
    )


def test_another_request_gives_nothing_else() -> None:
    assert not card_of().find("gives")
