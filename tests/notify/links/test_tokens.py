import base64
from datetime import datetime, timedelta

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.notify.links.tokens import LinkKey, Signer, is_code
from tests.story import NOON, at

KEY = LinkKey(kid="a", secret=bytes(range(32)), created=NOON)
NEWER = LinkKey(kid="b", secret=bytes(range(1, 33)), created=NOON + timedelta(days=90))
SIGNER = Signer([KEY])
LETTERS = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_"

names = st.text(max_size=20)
things = st.tuples(names, names, names)  # a delivery, a request and a recipient


def retired(key: LinkKey, state: str) -> LinkKey:
    return msgspec.structs.replace(key, state=state)


def opens(token: str, thing: tuple[str, str, str]) -> bool:
    """Say whether a token opens this, as those that were sent would find out."""
    return SIGNER.check(token) in SIGNER.token_ids(*thing)


@pytest.mark.req("S3.54")
@given(things)
def test_token_is_short_and_opens_its_own(thing: tuple[str, str, str]) -> None:
    token = SIGNER.token(*thing)

    assert len(token) == 45
    assert set(token) <= set(LETTERS)
    assert SIGNER.check(token) == SIGNER.token_id(*thing)
    assert opens(token, thing)


@pytest.mark.req("S3.54")
@given(things, things)
def test_no_token_opens_anything_else(
    thing: tuple[str, str, str], other: tuple[str, str, str]
) -> None:
    assert opens(SIGNER.token(*thing), other) is (thing == other)


@pytest.mark.req("S3.54")
@given(things, st.integers(0, 44), st.sampled_from(LETTERS))
def test_token_in_which_one_letter_is_another_opens_nothing(
    thing: tuple[str, str, str], place: int, letter: str
) -> None:
    token = SIGNER.token(*thing)
    changed = token[:place] + letter + token[place + 1 :]

    assert SIGNER.check(changed) is None or changed == token


@given(things, st.integers(0, 255))
def test_token_in_which_one_bit_is_turned_opens_nothing(
    thing: tuple[str, str, str], bit: int
) -> None:
    token = SIGNER.token(*thing)
    raw = bytearray(base64.urlsafe_b64decode(token[2:] + "="))
    raw[bit // 8] ^= 1 << bit % 8

    turned = token[:2] + base64.urlsafe_b64encode(raw).decode().rstrip("=")

    assert SIGNER.check(turned) is None


@given(things, things, st.integers(1, 44))
def test_token_made_of_two_opens_nothing(
    thing: tuple[str, str, str], other: tuple[str, str, str], place: int
) -> None:
    token, second = SIGNER.token(*thing), SIGNER.token(*other)
    mixed = token[:place] + second[place:]

    assert SIGNER.check(mixed) is None or mixed in {token, second}


@given(things, st.integers(0, 44), st.text(max_size=3))
def test_token_that_is_cut_short_or_goes_on_opens_nothing(
    thing: tuple[str, str, str], length: int, more: str
) -> None:
    token = SIGNER.token(*thing)

    assert SIGNER.check(token[:length]) is None
    assert SIGNER.check(token + more) is None or not more


@given(things, st.binary(min_size=32, max_size=32).filter(lambda secret: secret != KEY.secret))
def test_token_of_another_key_opens_nothing(thing: tuple[str, str, str], secret: bytes) -> None:
    stranger = Signer([LinkKey(kid="a", secret=secret, created=NOON)])

    assert SIGNER.check(stranger.token(*thing)) is None


@given(st.text(max_size=60))
def test_any_text_is_refused_without_an_error(text: str) -> None:
    assert SIGNER.check(text) is None
    assert SIGNER.pairing_of(text, NOON) is None
    assert SIGNER.device_of(text, NOON) is None
    assert not SIGNER.nonce_ok(b"id", text, NOON)


@given(names, names, st.lists(names, min_size=2, max_size=5, unique=True))
def test_tokens_of_one_message_begin_alike_and_others_do_not(
    delivery: str, recipient: str, requests: list[str]
) -> None:
    ids = [SIGNER.token_id(delivery, request, recipient) for request in requests]
    (begins,) = SIGNER.message_ids(delivery, recipient)

    assert {id_[:8] for id_ in ids} == {begins}
    assert len(set(ids)) == len(requests)
    assert SIGNER.message_ids(delivery + "x", recipient) != (begins,)


def test_new_key_signs_and_the_old_one_is_still_believed() -> None:
    old = SIGNER.token("dlv_1", "req_1", "alice")
    signer = Signer([retired(KEY, "verify"), NEWER])

    assert signer.token("dlv_1", "req_1", "alice")[1] == "b"
    assert signer.check(old) in signer.token_ids("dlv_1", "req_1", "alice")
    assert signer.code_ok("req_1", "alice", SIGNER.code("req_1", "alice"))
    assert signer.code_ok("req_1", "alice", signer.code("req_1", "alice"))
    assert signer.nonce_ok(b"id", SIGNER.nonce(b"id", NOON), NOON)
    assert signer.device_of(SIGNER.device("alice", NOON), NOON) == "alice"


def test_revoked_key_takes_everything_with_it_that_it_made() -> None:
    made = Signer([KEY])
    token, code = made.token("dlv_1", "req_1", "alice"), made.code("req_1", "alice", 6)
    nonce, cookie = made.nonce(b"id", NOON), made.device("alice", NOON)
    pairing = made.pairing("alice", NOON)

    made.take_on([retired(KEY, "revoked"), NEWER])

    assert made.check(token) is None
    assert not made.code_ok("req_1", "alice", code)
    assert not made.nonce_ok(b"id", nonce, NOON)
    assert made.device_of(cookie, NOON) is None
    assert made.pairing_of(pairing, NOON) is None


def test_without_an_active_key_nothing_can_be_signed() -> None:
    with pytest.raises(ValueError, match="empty"):
        Signer([retired(KEY, "verify")])


@pytest.mark.parametrize("digits", [4, 5, 6])
def test_code_is_taken_in_four_to_six_digits(digits: int) -> None:
    code = SIGNER.code("req_1", "alice", digits)

    assert is_code(code)
    assert len(code) == digits
    assert SIGNER.code_ok("req_1", "alice", code)
    assert not SIGNER.code_ok("req_2", "alice", code)
    assert not SIGNER.code_ok("req_1", "bob", code)


@pytest.mark.parametrize("given_", ["", "123", "1234567", "12a4", " 1234", "1234\n", "١٢٣٤"])
def test_what_is_not_four_to_six_digits_is_no_code(given_: str) -> None:
    assert not SIGNER.code_ok("req_1", "alice", given_)


def collides(with_: str, digits: int) -> str:
    """Return a request whose code begins like another's for just so many digits."""
    code = SIGNER.code(with_, "alice", 6)
    ids = (f"req_{n}" for n in range(10_000_000))
    return next(
        id_
        for id_ in ids
        if id_ != with_
        and SIGNER.code(id_, "alice", 6)[:digits] == code[:digits]
        and SIGNER.code(id_, "alice", 6)[: digits + 1] != code[: digits + 1]
    )


def test_code_is_as_long_as_it_must_be_to_be_told_from_others() -> None:
    others = [f"other_{n}" for n in range(3)]

    assert len(SIGNER.shortest_code("req_a", "alice", ["req_a"])) == 4
    assert len(SIGNER.shortest_code("req_a", "alice", [*others, collides("req_a", 4)])) == 5
    assert len(SIGNER.shortest_code("req_a", "alice", [collides("req_a", 5), *others])) == 6


@given(st.integers(0, 700))
def test_form_may_be_sent_for_ten_minutes(seconds: int) -> None:
    nonce = SIGNER.nonce(b"id", NOON)

    assert SIGNER.nonce_ok(b"id", nonce, at(seconds)) is (seconds < 600)
    assert not SIGNER.nonce_ok(b"other", nonce, NOON)


def test_end_of_a_form_cannot_be_moved() -> None:
    ends, _, mac = SIGNER.nonce(b"id", NOON).partition(".")

    assert not SIGNER.nonce_ok(b"id", f"{int(ends) + 600}.{mac}", NOON)


LIVES = [
    (SIGNER.pairing, SIGNER.pairing_of, timedelta(minutes=10)),
    (SIGNER.device, SIGNER.device_of, timedelta(days=90)),
]


@pytest.mark.parametrize("name", ["alice", "Zoë", "x" * 64])
@pytest.mark.parametrize(("make", "read", "time"), LIVES)
def test_pairing_and_paired_browser_are_one_persons_and_for_their_time(
    make, read, time: timedelta, name: str
) -> None:
    made = make(name, NOON)

    def read_at(when: datetime) -> str | None:
        found: str | None = read(made, when)
        return found

    assert read_at(NOON) == name
    assert read_at(NOON + time - timedelta(seconds=1)) == name
    assert read_at(NOON + time) is None
    assert read(made[:-1] + ("A" if made[-1] != "A" else "B"), NOON) is None


def test_one_kind_of_token_is_no_other() -> None:
    pairing, device = SIGNER.pairing("alice", NOON), SIGNER.device("alice", NOON)

    assert SIGNER.check(pairing) is None
    assert SIGNER.device_of(pairing[1:], NOON) is None
    assert SIGNER.pairing_of("2" + device, NOON) is None
    assert SIGNER.pairing_of(SIGNER.token("d", "r", "alice"), NOON) is None
