"""Addresses have one spelling, whatever an agent writes."""

import pytest

from safetyd.core.text.web_addresses import (
    address_of,
    addresses,
    is_local_host,
    is_metadata_host,
    may_lead_here,
    site_of,
)

CLOUD = "169.254.169.254"
WIDE = "\uff11\uff16\uff19"  # 169 in full-width digits
SPELLINGS = {
    CLOUD: (
        *("http://169.254.169.254/latest/", "169.254.169.254:80", "http://169.254.169.254./"),
        *("http://2852039166/", "0xa9fea9fe", "0XA9.0xFE.0xa9.0xfe", "0251.0376.0251.0376"),
        *("169.254.43518", "169.16689662", "http://[::ffff:169.254.169.254]/"),
        *("http://[::ffff:a9fe:a9fe]:80/", "[0:0:0:0:0:FFFF:a9fe:a9fe]", "[::a9fe:a9fe]"),
        *("[64:ff9b::a9fe:a9fe]", "[2002:a9fe:a9fe::]", "[::ffff:0:a9fe:a9fe]"),
        *("http://169。254。169。254/", "169\uff0e254\uff61169.254", f"{WIDE}.254.169.254"),
        *("http://169.254.169.254.nip.io/", "a9fea9fe.nip.io", "x.169-254-169-254.sslip.io"),
        *("http:/169.254.169.254/", "http:169.254.169.254", r"http:\\169.254.169.254\x"),
        *("http://user:secret@169.254.169.254/", "http://%31%36%39.254.169.254/"),
    ),
    "127.0.0.1": (
        "127.1",
        "http://127.1:8787/",
        "0x7f.1",
        "017700000001",
        "http://[::ffff:7f00:1]/",
    ),
    "0.0.0.0": ("0", "http://0:8787/", "0x0", "00.0"),
    "::1": ("http://[::1]/", "[0:0:0:0:0:0:0:1]:80"),
    "fe80::1": ("http://[fe80::1%25eth0]/", "[FE80:0::1]"),
    "metadata.google.internal": (
        "http://METADATA.google.internal./x",
        "\uff4detadata.google.internal",
    ),
    "example.com": ("https://example.com/169.254.169.254", "example.com:443", "ftp:example.com"),
    "1.2.3.4.5": ("http://1.2.3.4.5/",),
    "999.1": ("http://999.1/",),
    "08.1": ("08.1",),
    "1_0.1": ("1_0.1",),
    "host": ("host:/path", "user@host:path"),
}


@pytest.mark.parametrize(
    ("host", "said"), [(host, word) for host, words in SPELLINGS.items() for word in words]
)
def test_every_spelling_of_a_host_is_read_as_the_same(host: str, said: str) -> None:
    assert address_of(said).host == host
    assert host in {address.host for address in addresses([f"see <{said}>,"])}


@pytest.mark.parametrize(
    ("said", "port"),
    [
        ("http://127.1:8787/x", 8787),
        ("[::1]:80", 80),
        ("http://user:99@host:7/", 7),
        ("localhost", None),
        ("http://host:x/", None),
        ("http://host:123456/", None),
        ("fe80::1", None),
    ],
)
def test_the_port_of_an_address_is_read(said: str, port: int | None) -> None:
    assert address_of(said).port == port


def test_hosts_of_this_machine_and_of_clouds_are_known() -> None:
    here = ("localhost", "127.9.8.7", "::1", "0.0.0.0", "x.localhost")
    assert all(map(is_local_host, here))
    assert not any(
        map(is_local_host, ("localhost.example", "127.evil.example", "lvh.me", "1.2.3.4"))
    )
    assert all(map(may_lead_here, (*here, "lvh.me", "safe.localtest.me")))
    assert all(map(is_metadata_host, (CLOUD, "fe80::1", "instance-data", "metadata.goog")))
    assert not any(map(is_metadata_host, ("metadata.example", "10.0.0.1", "localhost")))


@pytest.mark.parametrize(
    ("url", "site"),
    [
        ("https://shop.example/checkout?cart=7", "shop.example"),
        ("https://user:secret@shop.example:8443/", "shop.example:8443"),
        ("about:blank", ""),
        ("http://[broken", ""),
    ],
)
def test_the_site_of_an_address_is_its_host(url: str, site: str) -> None:
    assert site_of(url) == site
