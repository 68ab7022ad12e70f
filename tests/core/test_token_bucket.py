import pytest

from safetyd.core.token_bucket import Refill, TokenBucket

PAIR = Refill(per_s=2.0, burst=10.0)


def test_a_new_bucket_is_full() -> None:
    assert PAIR.level(TokenBucket(), 0.0) == 10.0


def test_taken_tokens_are_refilled_up_to_the_burst() -> None:
    bucket = TokenBucket()
    PAIR.fill(bucket, 0.0)
    bucket.tokens -= 10

    assert [PAIR.fill(bucket, t) for t in (0.0, 1.0, 4.0, 100.0)] == [0.0, 2.0, 8.0, 10.0]


def test_reading_the_level_takes_no_tokens() -> None:
    bucket = TokenBucket(4.0, 0.0)

    assert (PAIR.level(bucket, 1.0), bucket) == (6.0, TokenBucket(4.0, 0.0))


@pytest.mark.parametrize(("level", "wanted", "wait"), [(0, 1, 0.5), (-3, 1, 2), (4, 1, -1.5)])
def test_the_wait_is_the_missing_tokens_divided_by_the_rate(
    level: float, wanted: float, wait: float
) -> None:
    assert PAIR.wait_s(level, wanted) == wait
