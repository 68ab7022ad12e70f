import pytest

from safetyd.web.throttle import LOOKS, Allowance, Throttle


class Time:
    def __init__(self) -> None:
        self.t = 0.0

    def __call__(self) -> float:
        return self.t


def test_allowance_is_used_at_once_and_comes_back_slowly() -> None:
    time = Time()
    allowance = Allowance(6, time)

    first = [allowance.take("a") for _ in range(7)]
    time.t = 10.0
    then = [allowance.take("a") for _ in range(2)]

    assert first == [0.0] * 6 + [10.0]
    assert then == [0.0, 10.0]


def test_the_wait_is_known_without_an_attempt() -> None:
    time = Time()
    allowance = Allowance(1, time)

    before = [allowance.wait_s("a") for _ in range(3)]
    allowance.take("a")
    after = [allowance.wait_s("a") for _ in range(3)]
    time.t = 60.0

    assert (before, after) == ([0.0] * 3, [60.0] * 3)
    assert allowance.wait_s("a") == 0.0


def test_each_has_an_allowance_of_their_own() -> None:
    allowance = Allowance(1, Time())
    allowance.take("a")

    assert allowance.take("b") == 0.0
    assert allowance.take("a") == 60.0


def test_allowance_never_grows_beyond_a_minutes_worth() -> None:
    time = Time()
    allowance = Allowance(2, time)
    time.t = 3600.0

    assert [bool(allowance.take("a")) for _ in range(3)] == [False, False, True]


def test_the_least_recently_seen_client_is_forgotten(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.web.throttle.MAX_KNOWN", 2)
    allowance = Allowance(1, Time())
    for who in ("a", "b", "a", "c"):
        allowance.take(who)

    assert allowance.take("a") > 0.0
    assert allowance.take("b") == 0.0


@pytest.mark.parametrize(
    ("first", "second", "same"),
    [
        ("192.0.2.1", "192.0.2.2", False),
        ("2001:db8::1", "2001:db8::2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        ("", "x", False),
    ],
)
def test_addresses_of_one_home_count_together(first: str, second: str, same: bool) -> None:  # noqa: FBT001
    throttle = Throttle(Time())
    while not throttle.request(first):
        pass

    assert bool(throttle.request(second)) is same


def test_looks_at_one_token_take_nothing_from_addresses_or_other_tokens() -> None:
    throttle = Throttle(Time())

    looks = [throttle.look(b"a") for _ in range(LOOKS + 1)]

    assert looks == [0.0] * LOOKS + [1.0]
    assert (throttle.look(b"b"), throttle.request("192.0.2.1"), throttle.answer(b"a")) == (0, 0, 0)
