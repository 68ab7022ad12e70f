"""Settings for replies that cannot work are reported."""

import msgspec
import pytest

from safetyd.notify.email.channel import EmailConfig

COMPLETE = {
    "enabled": True,
    "from": "safetyd@example.com",
    "smtp_host": "smtp.example.com",
    "replies": True,
    "reply_to": "replies@example.com",
    "imap_host": "imap.example.com",
    "imap_password_file": "imap.password",
    "authserv_id": "mx.example.com",
}


def problems(**changes: object) -> dict[str, str]:
    return dict(msgspec.convert(COMPLETE | changes, EmailConfig).problems())


def test_complete_settings_have_no_problem() -> None:
    assert problems() == {}
    assert problems(authserv_id="", trust_unsigned=True) == {}


@pytest.mark.parametrize("setting", ["reply_to", "imap_host", "imap_password_file", "authserv_id"])
def test_what_replies_need_is_missing_only_with_replies(setting: str) -> None:
    assert list(problems(**{setting: ""})) == [setting]
    assert problems(**{setting: "", "replies": False}) == {}


def test_trusting_forged_senders_must_be_said() -> None:
    assert "trust_unsigned = true" in problems(authserv_id="")["authserv_id"]


@pytest.mark.parametrize(
    ("changes", "setting"),
    [
        ({"imap_security": "none"}, "imap_security"),
        ({"reply_to": "nobody"}, "reply_to"),
        ({"provider": "ses"}, "replies"),
    ],
)
def test_what_cannot_work_is_a_problem(changes: dict[str, object], setting: str) -> None:
    assert list(problems(**changes)) == [setting]
