"""Kinds of requests of a coding session that were approved three times."""

import msgspec

from safetyd.core.approvals.session_offers import (
    ENOUGH,
    SessionOffer,
    offered_to,
    pending_like,
    session_offers,
)
from safetyd.core.messages.decision import Decision
from tests.core.approvals.queue_story import QueueStory
from tests.story import propose


class Pushes(QueueStory):
    number = 0

    def push(self, session: str | None = "s1", host: str = "claude", to: str = "main") -> Decision:
        self.number += 1
        id_, text = f"p{self.number}", f"git push origin {to}"
        proposed = propose(self.number, id=id_, type="run_shell", text=text, session=session)
        return self.proposes(msgspec.structs.replace(proposed, host=host))

    def approve(self, times: int, session: str | None = "s1", host: str = "claude") -> None:
        for _ in range(times):
            self.answers(self.number, self.push(session, host).request_id)
            self.push(session, host)

    def offers(self) -> list[SessionOffer]:
        return session_offers(self.engine.approvals, self.engine.reader)


def test_a_kind_that_a_session_had_approved_three_times_is_offered() -> None:
    queue = Pushes()
    queue.approve(ENOUGH - 1)
    assert queue.offers() == []
    queue.approve(1)

    (offer,) = queue.offers()
    asked = queue.request(queue.push().request_id)
    approvals, reader = queue.engine.approvals, queue.engine.reader
    assert offer.words == "git push origin main"
    assert [*pending_like(offer, approvals, reader)] == [asked]
    assert offered_to(asked, approvals, reader) == ENOUGH
    other = queue.request(queue.push("s1", to="other").request_id)
    assert offered_to(other, approvals, reader) == 0


def test_a_denial_another_session_and_agents_without_hooks_count_for_nothing() -> None:
    queue = Pushes()
    queue.approve(ENOUGH - 1, "s1")
    queue.approve(ENOUGH - 1, "s2")
    queue.approve(ENOUGH, "s3", host="")
    queue.approve(ENOUGH, None)
    assert queue.offers() == []
    plain = queue.request(queue.push("s3", host="").request_id)
    assert offered_to(plain, queue.engine.approvals, queue.engine.reader) == 0

    queue.answers(queue.number, plain.id)
    queue.push("s3", host="")  # it uses the approval
    queue.approve(1, "s1")
    assert len(queue.offers()) == 1
    queue.answers(queue.number, queue.push("s1").request_id, "denied")
    assert queue.offers() == []
