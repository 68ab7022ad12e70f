"""What is said about messages."""

from typing import Any

import pytest

from safetyd.console.render import delivery_tables as render_notify
from safetyd.console.render.delivery_tables import went_well
from safetyd.operators.contract.notification_contract import DeliveryRow
from tests.filled import filled, reading

AT = "2026-03-01T12:01:00Z"
HOSTILE = "\x1b]0;owned\x07\u202e"


outbox = reading(render_notify.outbox)
channels = reading(render_notify.channels)
previews = reading(render_notify.previews)


def row(**more: object) -> DeliveryRow:
    given = {"id": "dlv_1", "recipient": "alice", "channel": "email", "state": "accepted"}
    said = {
        "kinds": ["request"],
        "items": 1,
        "at": AT,
        "attempts": 1,
        "error": "",
        "refs": ["req_1"],
    }
    return filled(DeliveryRow, **{**given, **said, "took_s": 0.4, **more})


def became(**more: object) -> list[str]:
    return render_notify.tested([row(**more)], waited_for_click=False).splitlines()


def test_a_message_that_was_taken_says_how_long_that_took_and_its_number() -> None:
    (delivered,) = became(state="delivered", provider_id="SM1")
    (accepted,) = became(took_s=None)

    assert delivered == "email to alice: delivered after 0.4 s, SM1"
    assert accepted.endswith("whether it arrives is not known")


@pytest.mark.parametrize(
    ("channel", "error", "hint"),
    [
        ("email", "535 5.7.8 authentication failed", "check username and password_file"),
        ("email", "CERTIFICATE_VERIFY_FAILED", "set ca_file"),
        ("email", "the server offers no STARTTLS", 'set security = "tls"'),
        ("email", "The SMTP AUTH extension is not supported", "remove username and password_file"),
        ("email", "no answer: timed out", "check host and port, and whether a firewall"),
        ("email", "Name or service not known", "check the name of the host"),
        ("email", "Connection refused", "check host and port: nothing listens there"),
        (
            "email",
            "Connect call failed ('127.0.0.1', 25)",
            "check host and port: nothing listens there",
        ),
        ("email", "Temporary failure in name resolution", "check the name of the host"),
        ("sms", "20003 Authenticate", "check account_sid and auth_token_file"),
        ("webhook", "hooks.example.com answered 401", "check the token or secret in the file"),
        ("webhook", "hooks.example.com answered 404", "check the address"),
        ("telegram", "answered 400 Bad Request: chat not found", "the recipient must write /start"),
        ("desktop", "no desktop helper is connected", "run `safetyd desktop`"),
    ],
)
def test_what_went_wrong_comes_with_one_thing_to_do(channel: str, error: str, hint: str) -> None:
    first, said, todo = became(channel=channel, state="parked", error=error)

    assert first == f"{channel} to alice: NOT sent; it waits until the channel is mended"
    assert said == f"  {error}"
    assert todo.startswith(f"  {hint}")


def test_an_error_that_nobody_knows_comes_without_a_hint() -> None:
    assert became(state="dead", error="odd")[1:] == ["  odd"]


def test_a_state_without_words_of_its_own_is_named() -> None:
    assert became(state="cancelled") == ["email to alice: cancelled"]


@pytest.mark.parametrize(
    ("opened", "said"), [(AT, "pressed at 2026-03-01 12:01:00Z"), (None, "not pressed")]
)
def test_a_link_that_was_waited_for_is_said_to_be_opened_or_not(
    opened: str | None, said: str
) -> None:
    rows = [row(opened_at=opened), row(state="dead", opened_at=opened)]

    lines = render_notify.tested(rows, waited_for_click=True).splitlines()

    assert lines[1] == f"  the button on its page was {said}"
    assert len(lines) == 3
    assert went_well(rows[0], click_wanted=True) is bool(opened)
    assert went_well(rows[0], click_wanted=False)
    assert not went_well(rows[1], click_wanted=False)


def test_without_any_message_it_is_said_where_to_look() -> None:
    assert render_notify.tested([], waited_for_click=False).startswith(
        "No test message was made; see "
    )


def box(**more: object) -> list[str]:
    return outbox({"deliveries": [], "waiting": [], "unnotified": 0, **more}).splitlines()


def test_the_outbox_has_a_line_for_each_message_and_each_queue_that_waits() -> None:
    many = row(items=3, kinds=["reminder", "request"], state="dead", error="x" * 200)
    waiting = {"recipient": "bob", "channel": "sms", "items": 2, "due": AT}

    heading, one, three, empty, lanes, lane = box(deliveries=[row(), many], waiting=[waiting])

    assert heading.split()[:4] == ["ID", "STATE", "CHANNEL", "TO"]
    assert one.split()[:5] == ["dlv_1", "accepted", "email", "alice", "request"]
    assert "3 x reminder/request" in three
    assert "x" * 161 not in three
    assert (empty, lanes.split()[:2]) == ("", ["WAITING", "FOR"])
    assert lane.split()[:3] == ["bob", "sms", "2"]


@pytest.mark.parametrize(
    ("count", "said"),
    [
        (1, "NOBODY WAS TOLD of 1 request that should be."),
        (2, "NOBODY WAS TOLD of 2 requests that should be."),
    ],
)
def test_the_outbox_says_aloud_that_nobody_was_told(count: int, said: str) -> None:
    assert box(unnotified=count) == [said]


def test_an_empty_outbox_says_so() -> None:
    assert box() == ["No messages."]


def channel(**more: object) -> dict[str, Any]:
    given = {
        "name": "email",
        "kind": "email",
        "up": True,
        "fuse": "closed",
        "last_error": "",
        "failing": False,
    }
    return {**given, "waiting_high": 1, "waiting_normal": 2, "last_success_s_ago": 90.0, **more}


def person(**more: object) -> dict[str, Any]:
    given = {"name": "alice", "channels": ["email", "sms"], "timezone": "Europe/Berlin"}
    said = {"quiet": "23:00-07:00", "quiet_until": None, "agents": ["*"], "backup": ""}
    return {**given, **said, **more}


def test_channels_say_whether_they_work_and_people_when_they_sleep() -> None:
    down = channel(name="sms", kind="sms", up=False, fuse="parked", last_success_s_ago=None)
    rows = [channel(), {**down, "last_error": "the login was refused"}]
    view = {"channels": rows, "recipients": [person()]}

    heading, email, sms, empty, alice, quiet = channels(view).splitlines()

    assert heading.split()[:2] == ["CHANNEL", "KIND"]
    assert email.split()[:4] == ["email", "email", "up", "3"]
    assert "ago" in email
    assert "DOWN, to be mended" in sms
    assert "never" in sms
    assert sms.endswith("the login was refused")
    assert (empty, alice) == ("", "alice on email, sms")
    assert quiet.split() == ["quiet", "hours", "23:00-07:00", "Europe/Berlin"]


def test_a_person_who_sleeps_now_or_hears_of_some_agents_or_has_a_backup_is_said_to() -> None:
    bob = person(name="bob", quiet_until=AT, agents=["ops*"], backup="alice")

    said = channels({"channels": [channel()], "recipients": [bob]})

    assert "until 2026-03-01 12:01:00Z" in said
    assert "ops*" in said
    assert "alice" in said


def test_without_channels_it_is_said_where_to_read_on() -> None:
    assert channels({"channels": [], "recipients": []}).startswith("No channel is configured")
    assert previews({"previews": []}).startswith("No channel is configured")


def shown(**more: object) -> dict[str, Any]:
    given = {"recipient": "alice", "channel": "sms", "size": "143 septets, 1 SMS", "html": ""}
    return {**given, "text": "push by code\nreply A 1", "when": "at once", "ladder": [], **more}


def test_a_preview_has_size_time_and_words_of_each_message() -> None:
    view = {"previews": [shown(ladder=["reminder at 12:15", "last call at 12:50"]), shown()]}

    first, second = previews(view).split("\n\n")

    assert first.splitlines() == [
        "== sms to alice: 143 septets, 1 SMS",
        "   at once",
        "   then reminder at 12:15, last call at 12:50",
        "   | push by code",
        "   | reply A 1",
    ]
    assert "then" not in second


def test_words_of_others_are_harmless() -> None:
    lines = [
        render_notify.tested([row(error=HOSTILE, provider_id=HOSTILE)], waited_for_click=False),
        outbox({"deliveries": [row(error=HOSTILE)], "waiting": [], "unnotified": 0}),
        channels({"channels": [channel(last_error=HOSTILE)], "recipients": []}),
        previews({"previews": [shown(text=HOSTILE)]}),
    ]

    for text in lines:
        assert "\x1b" not in text
        assert "\u202e" not in text
