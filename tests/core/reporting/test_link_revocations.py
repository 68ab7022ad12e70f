"""After a link was revoked for wrong codes, later messages have another code."""

from safetyd.core.events.notification_events import LinkRevoked
from safetyd.core.reporting.link_revocations import MAX_KNOWN, LinkRevocations
from tests.story import at


def revoked(t: float, request: str) -> LinkRevoked:
    return LinkRevoked(
        at=at(t), t=t, delivery="d", request_id=request, recipient="alice", why="wrong codes"
    )


def test_code_changes_for_messages_after_a_revocation() -> None:
    links = LinkRevocations()
    links.observe(revoked(10, "req_1"))

    assert links.code_name("req_1", "alice", at(5)) == "req_1"
    assert links.code_name("req_1", "alice", at(20)) != "req_1"
    assert links.code_name("req_1", "bob", at(20)) == "req_1"


def test_oldest_revocation_is_forgotten_when_there_are_too_many() -> None:
    links = LinkRevocations()
    for number in range(MAX_KNOWN + 1):
        links.observe(revoked(number, f"req_{number}"))

    assert links.code_name("req_0", "alice", at(10**4)) == "req_0"
    assert links.code_name("req_1", "alice", at(10**4)) != "req_1"
