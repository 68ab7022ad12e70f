"""docs/digest_vectors.json and the rules for numbers in docs/protocol.md are what the code does."""

import hashlib
import json
from decimal import Decimal
from typing import Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

from docs.generate import DOCS
from safetyd.bus.codec import read_object, read_proposal
from safetyd.client.draft import prepared
from safetyd.core.messages.proposal import canonical

VECTORS: Final = json.loads((DOCS / "digest_vectors.json").read_text())
Vector = dict[str, str]

# Every length, on both sides of the limits between the forms of a number.
_LITERALS: Final = st.one_of(
    st.floats(allow_nan=False, allow_infinity=False).map(repr),
    st.builds("{}e{}".format, st.integers(-(10**17), 10**17), st.integers(-30, 8)),
    st.builds("{}.{}".format, st.integers(-(2**54), 2**54), st.integers(0, 10**6)),
    st.integers(-(10**40), 10**40).map(str),
)


@pytest.mark.parametrize("vector", VECTORS, ids=[vector["name"] for vector in VECTORS])
def test_daemon_and_client_compute_the_digest_of_a_vector(vector: Vector) -> None:
    text = vector["canonical"].encode()
    agent, message = vector["agent"], vector["message"]

    _, received = read_proposal(agent, message.encode(), "spare")

    assert vector["digest"] == "sha256:" + hashlib.sha256(text).hexdigest()
    assert received == vector["digest"]
    assert prepared(agent, json.loads(message)).digest == vector["digest"]


def test_vectors_cover_every_rule_of_the_canonical_form() -> None:
    messages = "".join(vector["message"] for vector in VECTORS)

    assert len({vector["name"] for vector in VECTORS}) == len(VECTORS)
    for part in ("1e21", "1e-7", "-0", "9007199254740993", "\\ud83d", "\U0001f600", "e\u0301"):
        assert part in messages


@given(_LITERALS)
def test_a_number_is_written_as_the_document_says(literal: str) -> None:
    fields = read_object(b'{"n":%s}' % literal.encode())

    assert canonical(fields["n"]).decode() == _documented(literal)


def _documented(literal: str) -> str:
    """Apply the rules of docs/protocol.md for numbers, one after the other."""
    if not set(literal) & set(".eE"):
        return literal
    number = float(literal)
    if number == int(number) and abs(number) < 2**53:
        return str(int(number))
    sign, digits, exponent = Decimal(repr(number)).normalize().as_tuple()
    assert isinstance(exponent, int)
    minus, shown = "-" * sign, "".join(map(str, digits))
    if 1e-5 <= abs(number) < 1e16:
        plain = f"{abs(Decimal(repr(number)).normalize()):f}"
        return minus + (plain if "." in plain else f"{plain}.0")
    point = "." if len(shown) > 1 else ""
    return f"{minus}{shown[0]}{point}{shown[1:]}e{exponent + len(shown) - 1}"
