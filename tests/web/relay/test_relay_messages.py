import zlib

import pytest

from safetyd.web.relay import relay_messages
from safetyd.web.relay.relay_messages import packed, unpacked


def test_a_page_comes_out_as_it_went_in() -> None:
    page = "<p>ä…\u202e</p>" * 1000

    assert unpacked(packed(page)) == page


@pytest.mark.parametrize("damaged", [b"", b"x", packed("page")[:-3], zlib.compress(b"\xff")])
def test_a_damaged_page_is_refused(damaged: bytes) -> None:
    with pytest.raises(ValueError, match=r"."):
        unpacked(damaged)


def test_a_page_that_expands_without_end_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(relay_messages, "MAX_PAGE_BYTES", 1000)

    with pytest.raises(ValueError, match="too long"):
        unpacked(packed("x" * 1001))
