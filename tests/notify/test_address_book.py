"""Who is told and where, made of the operator's tables."""

import pytest

from safetyd.core.recipients import TellingConfig
from safetyd.daemon.config import Config, ConfigError, parse
from safetyd.notify.address_book import address_of, report_readers, telling, warnings

MAIL = """
[notifications.email]
enabled = true
to = "ops@example.com"
from = "safetyd@example.com"
smtp_host = "smtp.example.com"
"""
SMS = """
[notifications.sms]
enabled = true
to = ["+15550100", "+15550101"]
from = "+15550199"
account_sid = "AC1"
auth_token_file = "twilio.token"
"""
WEBHOOK = """
[notifications.webhook]
enabled = true
url = "https://hooks.example.com/safetyd"
secret_file = "webhook.secret"
"""
TEAM = """
[[recipients]]
name = "alice"
email = "alice@example.com"
sms = "+15550100"
timezone = "Europe/Berlin"
quiet_start = "22:00"
backup = "bob"
[[recipients]]
name = "bob"
email = "bob@example.com"
agents = ["nightly*"]
"""


@pytest.fixture(autouse=True)
def desktop(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    """Let there be no desktop session, until a test says otherwise."""
    monkeypatch.delenv("XDG_RUNTIME_DIR", raising=False)
    monkeypatch.delenv("DBUS_SESSION_BUS_ADDRESS", raising=False)
    return monkeypatch


def told(text: str) -> TellingConfig:
    return telling(parse(text, "test").tables, zone="UTC")


def config(text: str) -> Config:
    return parse(text, "test")


def errors(text: str) -> list[str]:
    with pytest.raises(ConfigError) as caught:
        parse(text, "test")
    return [error.removeprefix("test: ") for error in caught.value.errors]


def test_without_any_table_nobody_is_told() -> None:
    assert told("").recipients == ()


@pytest.mark.req("S3.35")
def test_a_desktop_counts_only_where_there_is_one(desktop: pytest.MonkeyPatch) -> None:
    helped = told("[notifications.desktop]\nhelper = true").channels
    desktop.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/bus")

    here = told("")

    assert [(person.name, person.channels) for person in here.recipients] == [
        ("operator", ("desktop",))
    ]
    assert helped == {"desktop": "desktop"}
    assert told("[notifications.desktop]\nenabled = false").channels == {}


@pytest.mark.req("S3.31")
def test_a_single_recipient_has_their_channels_in_order(desktop: pytest.MonkeyPatch) -> None:
    desktop.setenv("DBUS_SESSION_BUS_ADDRESS", "unix:path=/run/bus")
    order = '[notifications]\norder = ["webhook", "email"]\n'

    told_on = told(order + MAIL + WEBHOOK)

    assert [(each.name, each.channels, each.shared) for each in told_on.recipients] == [
        ("operator", ("email", "desktop"), False),
        ("everyone", ("webhook",), True),
    ]


@pytest.mark.req("S3.33")
def test_further_addresses_in_to_are_further_recipients() -> None:
    both = MAIL + SMS

    names = {person.name: person.channels for person in told(both).recipients}

    assert names == {"operator": ("email", "sms"), "operator-2": ("sms",)}
    assert address_of(config(both).tables, "operator-2", "sms") == "+15550101"
    assert address_of(config(both).tables, "operator", "email") == "ops@example.com"
    assert address_of(config(both).tables, "nobody", "email") == ""


def test_of_several_recipients_each_has_their_own_and_everyone_what_is_shared() -> None:
    alice, bob, everyone = told(TEAM + MAIL + SMS + WEBHOOK).recipients

    assert (alice.channels, bob.channels, everyone.channels) == (
        ("email", "sms"),
        ("email",),
        ("webhook",),
    )
    assert (alice.quiet.timezone, alice.quiet.start, alice.quiet.end) == (
        "Europe/Berlin",
        "22:00",
        "07:00",
    )
    assert alice.backup == "bob"
    assert (bob.hears_of("nightly-1"), bob.hears_of("code"), bob.hears_of(None)) == (
        True,
        False,
        True,
    )


def test_a_chat_is_a_channel_by_its_own_name() -> None:
    team = '[[notifications.apprise]]\nname = "team"\nurl_file = "team.url"\n'
    ntfy = '[notifications.ntfy]\nenabled = true\nurl = "https://ntfy.example.com/topic"\n'

    assert told(team + ntfy).channels == {"ntfy": "chat", "team": "chat"}


@pytest.mark.parametrize(
    ("text", "wrong"),
    [
        (
            "[notifications.email]\nenabled = true",
            ["notifications.email.from", "notifications.email.smtp_host", "notifications.email.to"],
        ),
        (MAIL + 'security = "none"', ["notifications.email.security"]),
        (MAIL + 'username = "u"', ["notifications.email.password_file"]),
        (MAIL.replace("ops@", "ops"), ["notifications.email.to"]),
        (
            "[notifications.sms]\nenabled = true",
            [
                "notifications.sms.from",
                "notifications.sms.account_sid",
                "notifications.sms.auth_token_file",
                "notifications.sms.to",
            ],
        ),
        (SMS.replace("+15550100", "5550100"), ["notifications.sms.to"]),
        (
            "[notifications.webhook]\nenabled = true",
            ["notifications.webhook.url", "notifications.webhook.secret_file"],
        ),
        (WEBHOOK.replace("https", "http"), ["notifications.webhook.url"]),
        ('[notifications.ntfy]\nenabled = true\nurl = "x"', ["notifications.ntfy.url"]),
        ('[notifications.ntfy]\nenabled = true\nurl = "http://["', ["notifications.ntfy.url"]),
        (SMS + 'api_url = "http://twilio.example.com"', ["notifications.sms.api_url"]),
        (MAIL + 'provider = "sendgrid"', ["notifications.email.password_file"]),
        ('[notifications]\norder = ["pigeon"]', ["notifications.order"]),
        (
            '[[notifications.apprise]]\nname = "email"\nurl_file = "f"',
            ["notifications.apprise"],
        ),
        (TEAM + '[[recipients]]\nname = "bob"', ["recipients.bob", "recipients.bob"]),
        (TEAM.replace('backup = "bob"', 'backup = "eve"'), ["recipients.alice.backup"]),
        (TEAM.replace("Europe/Berlin", "Mars/Olympus"), ["recipients.alice.timezone"]),
        ('[web]\npublic_url = "ftp://x"', ["web.public_url"]),
        ('[web]\npublic_url = "http://safety.example.com"', ["web.public_url"]),
        ('[web]\npublic_url = "http://10.0.0.1"', ["web.public_url"]),
    ],
)
def test_what_cannot_work_is_refused_and_named(text: str, wrong: list[str]) -> None:
    assert [error.split()[0] for error in errors(text)] == wrong


@pytest.mark.parametrize(
    "web",
    [
        'public_url = "https://safety.example.com"',
        'public_url = "http://localhost:8788"',
        'public_url = "http://127.0.0.1:8788"',
        'public_url = "http://10.0.0.1"\nallow_http = true',
        'public_url = "http://100.100.1.2"\nallow_http = true',
    ],
)
def test_links_may_lead_to_https_or_to_what_is_near(web: str) -> None:
    assert config(f"[web]\n{web}").web.public_url


def test_quiet_hours_of_no_length_are_warned_of() -> None:
    same = '[notifications]\nquiet_start = "07:00"'

    assert len(list(warnings(config(same).tables))) == 1
    assert not list(warnings(Config().tables))


def test_a_channel_that_is_switched_on_like_a_light_is_told_how() -> None:
    (error,) = errors("[notifications]\nemail = true")

    assert error == (
        "notifications.email is true; it must be a table: "
        "write `enabled = true` under [notifications.email]"
    )


@pytest.mark.parametrize("table", ["recipients", "notifications.apprise"])
def test_one_bracket_too_few_is_a_mistake_that_is_named(table: str) -> None:
    (error,) = errors(f'[{table}]\nname = "alice"\n')

    assert error == f"{table} is one table; it must be a list of tables: write [[{table}]]"


def test_a_time_that_is_none_is_told_what_one_looks_like() -> None:
    (error,) = errors('[notifications]\nquiet_start = "23.00"')

    assert error == (
        'notifications.quiet_start is "23.00"; it must be a time of day such as "23:00"'
    )


def test_a_port_in_the_name_of_the_host_is_refused() -> None:
    (error,) = errors(MAIL.replace("smtp.example.com", "smtp.example.com:587"))

    assert error.startswith("notifications.email.smtp_host is 'smtp.example.com:587'; ")


def test_what_is_filled_in_and_not_used_is_warned_of() -> None:
    forgotten = MAIL.replace("enabled = true\n", "")
    ignored = TEAM + MAIL

    (off,) = warnings(config(forgotten).tables)
    (unused,) = warnings(config(ignored).tables)

    assert off.startswith("[notifications.email] is not used because enabled is not true")
    assert unused.startswith("notifications.email.to is not used")


@pytest.mark.parametrize(
    ("text", "readers"),
    [
        (MAIL, ()),
        (MAIL + "[notifications]\ndaily_report = true\n", ("operator", "everyone")),
        (TEAM, ()),
        (TEAM + "daily_report = true\n", ("bob",)),
        (
            "[notifications]\ndaily_report = true\n" + TEAM + "daily_report = false\n",
            ("alice", "everyone"),
        ),
    ],
)
def test_the_daily_report_goes_to_who_wants_it(text: str, readers: tuple[str, ...]) -> None:
    assert report_readers(config(text).tables) == readers
