"""The site of an address."""

import pytest

from safetyd.core.text.web_addresses import site_of


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
