"""Messages to people from the command line, against a daemon with a mail server."""

import json
import re
import urllib.error
import urllib.parse
import urllib.request
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from time import monotonic, sleep
from typing import Any

import pytest

from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import Said, told
from tests.notify.email.mail_servers import HANG, Login, MailServer, mail_server

PASSWORD = "pw-of-nobody"
WAIT_S = 60.0
AWAKE = """
[notifications]
quiet_start = "00:00"
quiet_end = "00:00"
timezone = "UTC"
batch_interval_seconds = 1
[notifications.desktop]
enabled = false
"""
TABLES = """
[notifications.email]
enabled = true
to = "alice@example.com"
from = "safetyd@example.com"
smtp_host = "127.0.0.1"
smtp_port = {port}
security = "none"
username = "safetyd"
password_file = "{password}"
[notifications.webhook]
enabled = true
url = "https://hooks.example.com/safetyd"
secret_file = "webhook.secret"
"""


@pytest.fixture(scope="module")
def server() -> Iterator[MailServer]:
    with mail_server("none", login=Login("safetyd", PASSWORD)) as server:
        yield server


@pytest.fixture(scope="module")
def daemon(
    start_module_daemon: StartDaemon, server: MailServer, tmp_path_factory: pytest.TempPathFactory
) -> RunningDaemon:
    """Tells by mail; its webhook has no secret."""
    password = tmp_path_factory.mktemp("secrets") / "password"
    password.write_text(PASSWORD)
    return start_module_daemon(AWAKE + TABLES.format(port=server.port, password=password))


@pytest.fixture(scope="module")
def silent(start_module_daemon: StartDaemon) -> RunningDaemon:
    """Tells nobody."""
    return start_module_daemon(AWAKE)


def answered(said: Said) -> dict[str, Any]:
    content: dict[str, Any] = json.loads(said.stdout)
    return content


def outbox(daemon: RunningDaemon, *options: str) -> list[dict[str, Any]]:
    rows: list[dict[str, Any]] = answered(told(daemon, "notify", "outbox", "--json", *options))[
        "deliveries"
    ]
    return rows


def asked(daemon: RunningDaemon, text: str, agent: str = "code") -> str:
    said = told(daemon, "check", agent, "push", "--text", text, "--json")
    return str(answered(said)["request_id"])


def mails(server: MailServer, words: str) -> list[str]:
    """Return the texts of mails that have these words, once there is one."""
    end = monotonic() + WAIT_S
    while True:
        found = [mail.text for mail in tuple(server.received) if words in mail.text]
        if found:
            return found
        assert monotonic() < end, f"no mail says {words}"
        sleep(0.02)


@pytest.mark.req("S3.24")
def test_a_test_that_gets_through_says_so_and_ends_with_0(daemon, server):
    said = told(daemon, "notify", "test", "email")

    assert said.returncode == 0, said
    assert said.stderr == "Sending 1 test message …\n"
    assert re.match(
        r"email to operator: accepted .* in \d+\.\d s; .* \(2\.0\.0 Ok: queued as 4bX1\)\n",
        said.stdout,
    )
    assert any("TEST" in mail.message["Subject"] for mail in server.wait())


def test_programs_get_what_became_of_each_message(daemon):
    said = told(daemon, "notify", "test", "email", "--recipient", "operator", "--json")

    (row,) = answered(said)["deliveries"]
    assert (row["state"], row["kinds"], row["recipient"]) == ("accepted", ["test"], "operator")


def test_a_test_that_does_not_get_through_ends_with_1_and_says_what_to_do(daemon, server):
    server.script["AUTH"] = "535 5.7.8 Error: authentication failed: PASSWORD"
    try:
        failed = told(daemon, "notify", "test", "email")
        (parked,) = [
            row for row in outbox(daemon, "--state", "parked") if row["channel"] == "email"
        ]
        channels = told(daemon, "notify", "channels")
    finally:
        del server.script["AUTH"]
    retried = told(daemon, "notify", "retry", "--channel", "email")
    again = told(daemon, "notify", "test", "email")

    assert failed.returncode == 1
    assert "email to operator: NOT sent" in failed.stdout
    assert "535" in failed.stdout
    assert "\n  check username and password_file; many providers require an" in failed.stdout
    assert PASSWORD not in failed.stdout + channels.stdout
    assert re.search(r"^email +email +DOWN", channels.stdout, re.MULTILINE)
    assert re.fullmatch(r"\d messages? will be sent again\.\n", retried.stdout)
    assert again.returncode == 0
    assert [row["state"] for row in outbox(daemon) if row["id"] == parked["id"]] == ["accepted"]


def test_a_test_that_is_put_off_says_why_and_is_tried_again(daemon, server):
    server.script["RCPT"] = "451 4.3.0 the queue is full"
    try:
        said = told(daemon, "notify", "test", "email")
    finally:
        del server.script["RCPT"]
    again = told(daemon, "notify", "test", "email")

    first, error, *_ = said.stdout.splitlines()
    assert said.returncode == 1
    assert first.startswith("email to operator: not sent yet")
    assert "the queue is full" in error
    assert again.returncode == 0


def test_a_channel_without_its_secret_names_the_file(daemon):
    said = told(daemon, "notify", "test", "webhook")

    path = daemon.data_dir / "webhook.secret"
    assert said.returncode == 1
    assert f"cannot read {path}: No such file or directory" in said.stdout


def test_a_test_of_what_is_not_there_names_what_is(daemon):
    said = told(daemon, "notify", "test", "fax")

    assert said.returncode == 1
    assert all(name in said.stderr for name in ("fax", "email, webhook", "operator"))


def test_a_test_waits_until_its_link_was_used(daemon, server):
    before = len(server.received)
    with ThreadPoolExecutor(1) as pool:
        command = ("notify", "test", "email", "--wait-click", "30")
        running = pool.submit(daemon.safetyd, *command)
        # The first mail may be an alert: a channel of this daemon has no secret.
        texts = (server.wait(before + count)[-1].text for count in (1, 2))
        found = (re.search(r"http://127\.0\.0\.1:\d+/d/[\w-]{45}", text) for text in texts)
        _press(next(link[0] for link in found if link), "test")
        said = running.result(WAIT_S)

    assert said.returncode == 0, said
    assert "Open a link in the message within 30 s" in said.stderr
    assert " confirmed at 20" in said.stdout


def test_a_test_whose_link_nobody_uses_ends_with_1(daemon):
    said = told(daemon, "notify", "test", "email", "--wait-click", "1")

    assert said.returncode == 1
    assert said.stdout.endswith(" not confirmed\n")


def _press(link: str, button: str) -> None:
    with urllib.request.urlopen(link, timeout=WAIT_S) as page:
        nonce = re.search(r'name="n" value="([^"]*)"', page.read().decode())
    assert nonce is not None
    form = urllib.parse.urlencode({"v": button, "n": nonce[1]}).encode()
    with urllib.request.urlopen(link, form, timeout=WAIT_S) as page:
        assert page.status == 200


@pytest.mark.req("K4")
@pytest.mark.req("S3.30")
def test_a_request_comes_by_mail_and_its_page_denies_it(daemon, server):
    request = asked(daemon, "git push origin by-mail", "mailer")

    (text,) = mails(server, request)
    link = re.search(r"http://127\.0\.0\.1:\d+/d/[\w-]{45}", text)
    assert link is not None
    _press(link[0], "deny")

    shown = answered(told(daemon, "show", request, "--json"))["request"]
    assert "git push origin by-mail" in text
    assert f"safetyd approve {request} --digest " in text
    assert shown["state"] == "denied"
    assert [row["channel"] for row in shown["told"]] == ["email", "webhook"]


def test_the_list_says_how_people_are_told(daemon):
    asked(daemon, "git push origin listed", "lister")

    said = told(daemon, "list", "--agent", "lister")

    assert re.search(r"Operators are notified by email(?: \(\w+\))?, webhook", said.stdout)


def test_the_outbox_shows_messages_and_channels_show_whom_they_reach(daemon):
    told(daemon, "notify", "test", "email")

    shown = told(daemon, "notify", "outbox").stdout
    channels = told(daemon, "notify", "channels")
    kinds = answered(told(daemon, "notify", "channels", "--json"))["channels"]

    assert re.search(r"^dlv_\w{16} +accepted +email +operator +test ", shown, re.MULTILINE)
    assert "everyone on webhook\n" in channels.stdout
    assert [(row["name"], row["kind"]) for row in kinds] == [
        ("email", "email"),
        ("webhook", "webhook"),
    ]


def test_a_message_that_waits_can_be_dropped_once(daemon):
    told(daemon, "notify", "test", "webhook")
    parked = outbox(daemon, "--state", "parked")[0]["id"]

    dropped = told(daemon, "notify", "drop", parked)
    again = told(daemon, "notify", "drop", parked)
    retried = told(daemon, "notify", "retry", parked)

    assert dropped.stdout == f"Dropped {parked}.\n"
    assert (again.returncode, retried.returncode) == (1, 1)
    assert parked in again.stderr
    assert outbox(daemon, "--state", "cancelled")[0]["id"] == parked


def test_a_retry_without_a_name_is_refused(daemon):
    said = told(daemon, "notify", "retry")

    assert said.returncode == 1
    assert "a message or a channel" in said.stderr


def test_a_preview_shows_each_channel_and_writes_the_page_of_the_mail(daemon, tmp_path):
    page = tmp_path / "mail.html"

    said = told(daemon, "notify", "preview", "--batch", "3", "--out", str(page))
    one = told(daemon, "notify", "preview", "--channel", "webhook", "--urgency", "high", "--json")

    (row,) = answered(one)["previews"]
    assert said.returncode == 0
    assert "== email to operator: " in said.stdout
    assert "   | Subject: " in said.stdout
    assert "== webhook to everyone: " in said.stdout
    assert "<html" in page.read_text()
    assert (row["channel"], row["when"]) == ("webhook", "immediately, even in quiet hours")


def test_a_preview_of_a_request_has_its_words(daemon):
    request = asked(daemon, "git push origin looked-at", "looker")

    said = told(daemon, "notify", "preview", "--request", request, "--digest")

    assert "git push origin looked-at" in said.stdout


@pytest.mark.parametrize(
    ("options", "why"),
    [
        (("--request", "req_none"), "req_none"),
        (("--channel", "fax"), "'fax' is not one of email, webhook"),
        (("--channel", "webhook", "--out", "x.html"), "--out needs a mail channel"),
        (("--out", "/none/x.html"), "cannot write /none/x.html: No such file or directory"),
    ],
)
def test_a_preview_that_cannot_be_says_why(daemon, tmp_path, monkeypatch, options, why):
    monkeypatch.chdir(tmp_path)

    said = told(daemon, "notify", "preview", *options)

    assert said.returncode == 1
    assert why in said.stderr
    assert not Path("x.html").exists()


def test_a_browser_is_paired_by_a_link(daemon):
    paired, unknown = told(daemon, "pair"), told(daemon, "pair", "dave")

    first, link = paired.stdout.splitlines()
    assert first == "Open this link in the browser of operator within ten minutes:"
    assert link.startswith("  http://127.0.0.1:")
    with urllib.request.urlopen(link.strip(), timeout=WAIT_S) as page:
        assert page.status == 200
    assert unknown.stderr == "safetyd: 'dave' is not one of operator, everyone\n"


def test_links_get_a_new_key_and_old_ones_may_be_revoked(daemon):
    kept, revoked = told(daemon, "keys", "rotate"), told(daemon, "keys", "rotate", "--revoke-now")

    assert (kept.returncode, revoked.returncode) == (0, 0)
    assert "another week" in kept.stdout
    assert "invalid" in revoked.stdout


def test_status_and_doctor_say_which_channel_is_down(daemon):
    told(daemon, "notify", "test", "webhook")

    status, doctor = told(daemon, "status"), told(daemon, "doctor")

    assert "CHANNEL DOWN: webhook" in status.stdout
    assert "webhook" in doctor.stdout
    assert "`safetyd notify channels`" in doctor.stdout
    assert doctor.returncode == 1


def test_without_channels_every_command_says_so(silent):
    said = {name: told(silent, "notify", name) for name in ("channels", "preview", "outbox")}
    test = told(silent, "notify", "test")

    assert said["channels"].stdout.startswith("No channel is configured")
    assert said["preview"].stdout.startswith("No channel is configured")
    assert said["outbox"].stdout == "No messages.\n"
    assert test.returncode == 1
    assert test.stderr.startswith("safetyd: no channel is configured: see `safetyd docs notif")


def test_after_a_reload_that_adds_a_channel_people_are_told_of_what_waits(
    start_daemon, server, tmp_path
):
    daemon = start_daemon(AWAKE)
    request = asked(daemon, "git push origin before-the-reload")
    (tmp_path / "password").write_text(PASSWORD)
    table, _, _ = TABLES.format(port=server.port, password=tmp_path / "password").partition(
        "[notifications.webhook]"
    )
    with daemon.config_path.open("a") as config:
        config.write(table)

    reloaded = told(daemon, "reload")

    assert reloaded.returncode == 0, reloaded
    assert "git push origin before-the-reload" in mails(server, request)[0]
    assert {row["state"] for row in outbox(daemon)} <= {"accepted", "open"}


def test_after_a_power_cut_a_message_is_sent_again_under_the_same_name(start_daemon, tmp_path):
    with mail_server("none", script={"DATA": HANG}) as server:
        password = tmp_path / "none"
        table, _, _ = TABLES.format(port=server.port, password=password).partition("username")
        daemon = start_daemon(AWAKE + table)
        asked(daemon, "git push origin twice")
        server.wait(1)
        daemon.kill()
        server.script.clear()
        daemon.start()

        first, second = server.wait(2)[:2]

    assert first.message["Message-ID"] == second.message["Message-ID"]
    assert "git push origin twice" in second.text


@pytest.mark.req("S3.54")
def test_with_a_public_address_links_are_served_on_a_listener_of_their_own(start_daemon):
    web = '[web]\nport = 0\nlinks_port = 0\npublic_url = "http://localhost"\n'
    daemon = start_daemon(AWAKE + web)
    endpoint = daemon.endpoint

    paired = told(daemon, "pair").stdout.splitlines()[1].strip()

    path = paired.removeprefix("http://localhost")
    assert path.startswith("/d/2")
    with urllib.request.urlopen(endpoint.links + path, timeout=WAIT_S) as page:
        assert page.status == 200
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(endpoint.web + path, timeout=WAIT_S)
    with pytest.raises(urllib.error.HTTPError, match="404"):
        urllib.request.urlopen(endpoint.links + "/metrics", timeout=WAIT_S)
