from datetime import timedelta

import msgspec
import pytest

from safetyd.agents.claims import Claim, claim, read_claim
from safetyd.bus.codec import Malformed
from safetyd.core.events.event import Event, Moment
from safetyd.core.events.guard_events import SafeModeEntered
from tests.core.approvals.queue_story import QueueStory
from tests.core.approvals.test_queue import paused
from tests.story import at, resume, stop

DIGEST = "sha256:d1"


def claims(
    queue: QueueStory, t: float, id_: str = "p1", by: str | None = "x", **fields: str
) -> str:
    """Return "" if the claim is granted, else why not."""
    wanted = Claim(**{"id": id_, "digest": DIGEST, "claimant": by, **fields})  # type: ignore[arg-type]
    carried = claim("code", wanted, f"nonce-{t}")(queue.engine, Moment(at(t), t))
    queue.happens(*carried.events)
    assert carried.answer.granted is (carried.answer.cause == "human_approved")
    return "" if carried.answer.granted else carried.answer.cause


def approved(waits: bool = False) -> QueueStory:  # noqa: FBT001, FBT002
    queue = QueueStory()
    queue.answers(1, queue.asks(0).request_id, waits=waits)
    return queue


@pytest.mark.parametrize("waits", [True, False])
def test_what_was_approved_is_granted_once_and_to_the_winner_again(waits: bool) -> None:  # noqa: FBT001
    queue = approved(waits)

    assert claims(queue, 2) == ""
    assert claims(queue, 3, by="y") == "already_claimed"
    assert claims(queue, 4) == ""


def test_claims_without_a_claimant_are_of_different_ones() -> None:
    queue = approved()

    assert claims(queue, 2, by=None) == ""
    assert claims(queue, 3, by=None) == "already_claimed"


def test_null_in_a_claim_is_absence() -> None:
    assert read_claim(b'{"id":"p1","digest":"d","claimant":null}') == Claim(id="p1", digest="d")
    with pytest.raises(Malformed, match="missing required field `digest`"):
        read_claim(b'{"id":"p1","digest":null}')


def test_nothing_is_granted_that_nobody_approved() -> None:
    queue = QueueStory()
    assert claims(queue, 0) == "not_approved"

    asked = queue.asks(0)
    assert claims(queue, 1) == "not_approved"

    queue.answers(2, asked.request_id, "denied")
    assert claims(queue, 3) == "not_approved"


def test_another_digest_is_not_what_was_approved() -> None:
    assert claims(approved(), 2, digest="sha256:other") == "digest_mismatch"


def test_a_repeat_that_was_told_to_stand_back_cannot_claim() -> None:
    queue = QueueStory()
    asked = queue.asks(0)
    queue.asks(1, "p2")
    queue.answers(2, asked.request_id)

    assert claims(queue, 3, "p2") == "not_approved"
    assert claims(queue, 4, "p1") == ""
    assert claims(queue, 5, "p2", by="y") == "already_claimed"


def test_who_used_an_approval_claims_it_and_who_asked_does_not() -> None:
    queue = approved()
    assert queue.asks(2, "p2").allowed

    assert claims(queue, 3, "p1") == "already_claimed"
    assert claims(queue, 4, "p2") == ""


def test_an_approval_that_is_over_is_not_granted_even_before_a_tick_says_so() -> None:
    queue = approved()
    over_s = 1 + timedelta(days=1).total_seconds()

    assert claims(queue, over_s) == "expired"


def test_what_was_claimed_in_time_is_granted_again_afterwards() -> None:
    queue = approved()
    claims(queue, 2)

    assert claims(queue, 90_000.0) == ""


@pytest.mark.parametrize(
    ("event", "cause"),
    [
        (stop(2), "stopped"),
        (paused(2), "paused"),
        (SafeModeEntered(at=at(2), t=2.0, by="alice"), "safe_mode"),
    ],
)
def test_nothing_is_begun_while_nobody_may_act_not_even_by_the_winner(
    event: Event, cause: str
) -> None:
    queue, won = approved(), approved()
    claims(won, 1)

    for one in (queue, won):
        one.happens(msgspec.structs.replace(event))
        assert claims(one, 3) == cause


def test_after_a_stop_the_claim_is_granted() -> None:
    queue = approved()
    queue.happens(stop(2), resume(3))

    assert claims(queue, 4) == ""


@pytest.mark.parametrize("fields", [{"id": ""}, {"claimant": "x" * 129}, {"digest": 1}])
def test_what_is_claimed_has_words_of_a_bounded_length(fields: dict[str, object]) -> None:
    with pytest.raises(msgspec.ValidationError):
        msgspec.convert({"id": "p1", "digest": DIGEST, **fields}, Claim)
