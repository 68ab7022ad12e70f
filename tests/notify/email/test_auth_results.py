"""Which results of a mail server count."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from safetyd.notify.email.auth_results import dkim_domains, is_aligned

GMAIL = (
    "mx.example.net; dkim=pass header.i=@example.com header.s=a header.b=x1/y=; spf=pass "
    "(mx.example.net: designates 1.2.3.4) smtp.mailfrom=alice@example.com; dmarc=pass"
)


@pytest.mark.parametrize(
    ("header", "domains"),
    [
        ("mx.example.net; dkim=pass header.d=example.com", {"example.com"}),
        ("MX.Example.NET 1; DKIM = pass (2048-bit key) header.d=example.com", {"example.com"}),
        (
            GMAIL,
            {"example.com"},
        ),
        (
            "mx.example.net; dkim=fail header.d=a.example; dkim=pass header.d=b.example",
            {"b.example"},
        ),
        ('mx.example.net; dkim=pass reason="good; dkim=pass" header.d="a.example"', {"a.example"}),
        ("mx.example.net (a (nested) comment); dkim/1=pass header.d=a.example", {"a.example"}),
        ("mx.example.net; none", set()),
        ("mx.example.net", set()),
        ("", set()),
        ("mx.example.net; dkim=neutral header.d=a.example", set()),
        ("mx.example.net; dkim=pass", set()),
        ("mx.example.net; dkim=passed header.d=a.example", set()),
        ("mx.example.net; spf=pass smtp.mailfrom=a.example", set()),
        ("mx.example.net; dkim=none (; dkim=pass header.d=a.example)", set()),
        ('mx.example.net; dkim=none reason="; dkim=pass header.d=a.example"', set()),
        ("mx.example.net; dkim=pass header.d=a.example header.d=b.example", set()),
        ("mx.example.net; dkim=pass header.d=a.example and more", set()),
        ("mx.example.net.evil.example; dkim=pass header.d=a.example", set()),
        ("evil.example mx.example.net; dkim=pass header.d=a.example", set()),
        # A server may have copied words of the sender.
        ("mx.example.net; dkim=pass header.d=example.com(.attacker.com", set()),
        ("mx.example.net; dkim=pass header.d=example.com(.attacker.com)", set()),
        ('mx.example.net; dkim=pass header.d=example.com"', set()),
        ("mx.example.net; dkim=pass header.d=exa/mple.com", set()),
        ("mx.example.net; " + "x" * 20_000 + "; dkim=pass header.d=a.example", set()),
    ],
)
def test_the_domains_of_valid_signatures(header: str, domains: set[str]) -> None:
    assert dkim_domains([header], "mx.example.net") == domains


def test_only_the_topmost_header_of_the_server_counts() -> None:
    good = "mx.example.net; dkim=pass header.d=example.com"
    bad = "mx.example.net; dkim=fail header.d=example.com"
    other = "mx.other.example; dkim=fail header.d=example.com"

    assert dkim_domains([bad, good], "mx.example.net") == set()
    assert dkim_domains([other, good, bad], "mx.example.net") == {"example.com"}
    assert dkim_domains([], "mx.example.net") == set()


@pytest.mark.parametrize(
    ("sender", "signing", "aligned"),
    [
        ("example.com", "example.com", True),
        ("Example.com", "EXAMPLE.com", True),
        ("mail.example.com", "example.com", True),
        ("example.com", "mail.example.com", False),
        ("notexample.com", "example.com", False),
        ("example.com", "com", False),
        ("example.com", "", False),
        ("example.com", ".com", False),
    ],
)
def test_a_domain_signs_for_itself_and_below(sender: str, signing: str, aligned: bool) -> None:  # noqa: FBT001
    assert is_aligned(sender, signing) is aligned


@given(st.lists(st.text(alphabet='()";\\ =dkimpas.heade@x\n\t', max_size=200), max_size=5))
def test_no_header_is_too_odd_to_be_read(headers: list[str]) -> None:
    assert isinstance(dkim_domains(headers, "mx.example.net"), frozenset)
