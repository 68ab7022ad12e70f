import hashlib
from typing import get_args

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.core.messages.proposal import (
    PARTS,
    Proposal,
    canonical,
    digest,
    is_token,
    shortest,
    without_nulls,
)


def test_digest_is_of_the_sorted_fields_and_the_agent() -> None:
    fields = {"type": "run_shell", "text": "né", "b": {"z": 1, "a": 2}}
    plain = '{"agent":"code","b":{"a":2,"z":1},"text":"né","type":"run_shell"}'

    assert digest("code", fields) == "sha256:" + hashlib.sha256(plain.encode()).hexdigest()


def test_how_a_proposal_travels_does_not_change_its_digest() -> None:
    travelling = {"id": "x", "at": "t", "wait": True, "timeout_s": 1, "urgency": "high"}
    using = {"request_id": "r", "dry_run": True, "supersedes": "y"}

    assert digest("a", {"type": "t", **travelling, **using}) == digest("a", {"type": "t"})


def test_unknown_fields_change_the_digest() -> None:
    assert digest("a", {"type": "t", "new": 1}) != digest("a", {"type": "t"})


def test_nulls_are_left_out_of_a_message_and_of_its_parts() -> None:
    said = {"type": "t", "text": None, "tokens": {"input": 1, "output": None}, "target": "wrong"}

    assert without_nulls(said) == {"type": "t", "tokens": {"input": 1}, "target": "wrong"}
    assert without_nulls({"context": {"a": None}}) == {"context": {"a": None}}


def test_parts_are_the_fields_that_have_fields() -> None:
    found = {
        field.name
        for field in msgspec.structs.fields(Proposal)
        if any(isinstance(kind, type(Proposal)) for kind in get_args(field.type))
    }

    assert found == PARTS


def test_agents_have_different_digests() -> None:
    assert digest("a", {"type": "t"}) != digest("b", {"type": "t"})


def test_numbers_are_read_in_their_shortest_form() -> None:
    read = [shortest(text) for text in ("1.0", "1e3", "-0.0", "0.25", "1e300")]

    assert canonical(read) == b"[1,1000,0,0.25,1e300]"


def test_tokens_are_short_and_plain() -> None:
    assert is_token("A-z_9")
    assert not any(map(is_token, ("", "a.b", "a*", "é", "a" * 65, "a\n")))


@given(st.text(max_size=70) | st.from_regex(r"[A-Za-z0-9_-]{1,64}\n?", fullmatch=True))
def test_an_id_is_taken_exactly_if_it_is_a_token(name: str) -> None:
    sent = msgspec.json.encode({"type": "t", "id": name})

    if is_token(name):
        assert msgspec.json.decode(sent, type=Proposal).id == name
    else:
        with pytest.raises(msgspec.ValidationError):
            msgspec.json.decode(sent, type=Proposal)


@pytest.mark.parametrize("literal", ["1e999", "-1e999"])
def test_numbers_that_are_not_finite_are_refused(literal: str) -> None:
    with pytest.raises(ValueError, match="out of range"):
        shortest(literal)
