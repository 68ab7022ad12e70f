import pytest

from safetyd.web.relay.visitor_limits import FIRST_LOOKS, VisitorLimits
from safetyd.web.throttle import REQUESTS
from tests.web.test_throttle import Time


def test_an_address_with_invalid_tokens_waits_and_valid_tokens_do_not() -> None:
    limits = VisitorLimits(Time())
    limits.opened_page("valid")

    for _ in range(REQUESTS):
        assert limits.wait_s("192.0.2.7", "guess") == 0.0
        limits.opened_nothing("192.0.2.7")

    assert limits.wait_s("192.0.2.7", "guess") > 0
    assert limits.wait_s("192.0.2.7", "valid") == 0.0
    assert limits.wait_s("192.0.2.8", "guess") == 0.0


def test_guesses_from_many_addresses_leave_room_for_valid_tokens() -> None:
    limits = VisitorLimits(Time())
    limits.opened_page("valid")

    waits = [limits.wait_s(f"192.0.{n // 250}.{n % 250}", f"{n}") for n in range(FIRST_LOOKS + 1)]

    assert waits[:-1] == [0.0] * FIRST_LOOKS
    assert waits[-1] > 0
    assert limits.wait_s("192.0.2.9", "valid") == 0.0


def test_the_tokens_that_are_remembered_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.web.relay.visitor_limits.MAX_OPENED", 2)
    limits = VisitorLimits(Time())
    for token in ("a", "b", "a", "c"):
        limits.opened_page(token)
    for _ in range(FIRST_LOOKS):
        limits.wait_s("192.0.2.7", "guess")

    assert [limits.wait_s("192.0.2.7", token) > 0 for token in "abc"] == [False, True, False]
