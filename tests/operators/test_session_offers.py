"""After three approvals of one kind in a coding session, a grant is offered."""

import msgspec

from safetyd.cards.request_card import request_card
from safetyd.console.render.grant_list import suggestions as printed
from safetyd.core.events.event import Moment
from safetyd.core.messages.decision import Decision
from safetyd.operators.contract.grant_contract import SuggestionRow
from safetyd.operators.views.grant_view import suggestions
from safetyd.operators.views.request_view import details
from tests.operators.test_grant_commands import HOUR, Alice
from tests.story import at, propose

NOW = Moment(at(600), 600.0)


class CodingSession(Alice):
    """A coding agent that pushes, and an operator who approves."""

    number = 0

    def pushes(self, session: str = "s1", host: str = "claude", text: str = "") -> Decision:
        self.number += 1
        proposed = propose(
            self.number,
            id=f"p{self.number}",
            type="run_shell",
            text=text or "git push origin main",
            session=session,
            cwd="/home/me/app",
            context={"host": host, "uid": 1000},
        )
        return self.proposes(msgspec.structs.replace(proposed, host=host))

    def approved_push(self, session: str = "s1", host: str = "claude") -> None:
        self.answers(self.number, self.pushes(session, host).request_id)
        assert self.pushes(session, host).allowed

    def offers(self) -> list[SuggestionRow]:
        return [*suggestions(self.engine, NOW).suggestions]

    def suggested_on(self, asked: Decision) -> str:
        """Return what the card of a request suggests."""
        known = details(self.engine, NOW, self.request(asked.request_id), grants=False)
        return request_card(known, None, NOW.at).find("suggestion")


def test_the_third_approval_offers_a_grant_in_the_next_message_and_in_suggestions() -> None:
    session = CodingSession()
    for _ in range(2):
        session.approved_push()
    assert session.offers() == []
    session.approved_push()

    (offer,) = session.offers()
    assert (offer.then, offer.approved, offer.command) == (
        "grant",
        3,
        "safetyd approve ID --grant --for 8h",
    )
    asked = session.pushes()
    (offer,) = session.offers()
    assert offer.command == f"safetyd approve {asked.request_id} --grant --for 8h"
    assert offer.command in session.suggested_on(asked)
    assert offer.command in printed(suggestions(session.engine, NOW))


def test_the_offered_grant_covers_further_requests() -> None:
    session = CodingSession()
    for _ in range(3):
        session.approved_push()

    (result,) = session.approves(session.pushes().request_id, grant=HOUR)

    assert result["ok"]
    session.pushes()  # it uses the approval
    assert session.pushes().allowed


def test_other_sessions_other_agents_other_kinds_and_denials_offer_nothing() -> None:
    session = CodingSession()
    for _ in range(2):
        session.approved_push("s1")
        session.approved_push("s2")
    for _ in range(3):
        session.approved_push("s3", host="")
    assert session.offers() == []
    assert session.suggested_on(session.pushes("s3", host="")) == ""
    assert session.suggested_on(session.pushes("s1", text="git push other main")) == ""
    assert session.suggested_on(session.pushes("s2")) == ""
