"""The notifier as the daemon has it: one file, real channels, and an engine."""

import logging
import re
import subprocess
import sys
from datetime import timedelta
from pathlib import Path

import pytest

from safetyd.core.events.notification_events import NotTold, Unparked
from safetyd.host import Unusable
from safetyd.notify.links.signing_keys import LinkKeys
from tests.notify.compose_rig import ComposeRig
from tests.notify.email.mail_servers import Login, mail_server
from tests.notify.notifier_rig import NotifierRig, mail_table
from tests.notify.sms.twilio_stand_in import ACCOUNT, AUTH_TOKEN, twilio
from tests.servers import until
from tests.story import at

PUBLIC = '[web]\npublic_url = "https://safety.example.com"\n'
TEAM = """
[[recipients]]
name = "alice"
email = "alice@example.com"
sms = "+15550100"
[[recipients]]
name = "bob"
email = "bob@example.com"
"""


def sms_table(api_url: str = "") -> str:
    return f"""
[notifications.sms]
enabled = true
to = "+15550100"
from = "+15550199"
account_sid = "{ACCOUNT}"
auth_token_file = "token"
api_url = "{api_url}"
"""


def token_in(text: str) -> str:
    found = re.search(r"/d/([A-Za-z0-9_-]{45})", text)
    assert found is not None
    return found[1]


def opens(rig: NotifierRig, token: str) -> str | None:
    """Return the request that a link opens."""
    links = rig.notifier.links
    token_id = links.signer.check(token)
    engine = rig.wired.engine
    link = None if token_id is None else links.sent_links.find(engine, token_id)
    return None if link is None else link.request_id


@pytest.mark.req("K4")
@pytest.mark.req("S3.54")
async def test_a_request_reaches_somebody_by_mail_with_a_link_that_opens_it(tmp_path: Path) -> None:
    with mail_server("none") as server:
        rig = NotifierRig(tmp_path, mail_table(server))

        async with rig.at_work():
            ref = rig.wired.asks()
            rig.wired.passes()
            await rig.wired.rest()

    (mail,) = server.received
    assert mail.recipients == ("alice@example.com",)
    assert opens(rig, token_in(mail.text)) == ref
    assert rig.notifier.links.code(ref, "operator", ()) in mail.text
    assert rig.asks("outbox")["deliveries"][0]["state"] == "accepted"


@pytest.mark.req("S3.29")
@pytest.mark.req("S3.31")
async def test_everybody_is_told_on_every_channel_that_is_enabled(tmp_path: Path) -> None:
    (tmp_path / "token").write_text(AUTH_TOKEN)
    with mail_server("none") as server:
        async with twilio() as phones:
            rig = NotifierRig(tmp_path, mail_table(server), sms_table(phones.url), TEAM)

            async with rig.at_work():
                rig.wired.asks(urgency="high")
                rig.wired.passes()
                await rig.wired.rest()

    told = sorted(mail.recipients[0] for mail in server.received)
    assert told == ["alice@example.com", "bob@example.com"]
    assert [got.form["To"] for got in phones.got] == ["+15550100"]
    assert [row["name"] for row in rig.asks("channels")["recipients"]] == ["alice", "bob"]


async def test_a_channel_says_no_more_than_its_privacy_allows(tmp_path: Path) -> None:
    with mail_server("none") as server:
        rig = NotifierRig(tmp_path, mail_table(server, 'privacy = "minimal"'))

        async with rig.at_work():
            rig.wired.asks(text="git push origin secret-project")
            rig.wired.passes()
            await rig.wired.rest()

    assert "secret-project" not in server.received[0].message.as_string()


def test_links_begin_with_the_public_address_if_there_is_one(tmp_path: Path) -> None:
    public, here = NotifierRig(tmp_path, PUBLIC), NotifierRig(tmp_path)

    assert public.notifier.links.link("dlv_1", "", "alice").startswith(
        "https://safety.example.com/d/1"
    )
    assert here.notifier.links.link("dlv_1", "", "alice").startswith("http://127.0.0.1:8787/d/1")
    assert (public.notifier.links.here_only, here.notifier.links.here_only) == (False, True)


def test_a_code_is_as_short_as_it_can_be(tmp_path: Path) -> None:
    rig = NotifierRig(tmp_path)
    ref = rig.wired.asks()

    code = rig.notifier.links.code(ref, "alice", rig.wired.engine.approvals.pending())

    assert len(code) == 4
    assert rig.notifier.links.signer.code_ok(ref, "alice", code)


async def test_links_work_after_a_restart(tmp_path: Path) -> None:
    with mail_server("none") as server:
        before = NotifierRig(tmp_path, mail_table(server))
        async with before.at_work():
            ref = before.wired.asks()
            before.wired.passes()
            await before.wired.rest()
        wired = ComposeRig(policy=before.settings.policy)
        wired.engine.replay(before.wired.queue.journal)
        after = NotifierRig(tmp_path, mail_table(server), wired=wired)

        async with after.at_work():
            opened = opens(after, token_in(server.received[0].text))

    assert opened == ref
    assert len(server.received) == 1


@pytest.mark.parametrize("how", ["reload", "retry"])
async def test_a_secret_that_is_to_reopen_is_read_anew(tmp_path: Path, how: str) -> None:
    password = tmp_path / "password"
    with mail_server("none", login=Login("safetyd", "right")) as server:
        lines = ('username = "safetyd"', 'password_file = "password"')
        rig = NotifierRig(tmp_path, mail_table(server, *lines))

        async with rig.at_work():
            await rig.wired.rest()
            down = rig.wired.engine.outbox.down
            (state,) = rig.notifier.dispatch.states()
            rig.wired.asks()
            (delivery,) = rig.wired.passes()
            password.write_text("right\n")
            if how == "reload":
                rig.notifier.renew("carol")
            else:
                rig.notifier.dispatch.retry([delivery])
            await until(lambda: server.received)
            await rig.wired.rest()

    assert down == ("email",)
    assert state.last_error == f"cannot read {password}: No such file or directory"
    assert delivery.state == "accepted"
    assert rig.wired.engine.outbox.down == ()


async def test_a_reload_tries_what_was_parked(tmp_path: Path) -> None:
    password = tmp_path / "password"
    password.write_text("wrong\n")
    with mail_server("none", login=Login("safetyd", "right")) as server:
        lines = ('username = "safetyd"', 'password_file = "password"')
        rig = NotifierRig(tmp_path, mail_table(server, *lines))

        async with rig.at_work():
            rig.wired.asks()
            (delivery,) = rig.wired.passes()
            await until(lambda: rig.wired.journalled(NotTold))
            parked, error = delivery.state, delivery.error
            password.write_text("right\n")
            rig.notifier.renew("carol")
            await until(lambda: server.received)
            await rig.wired.rest()

    (unparked,) = rig.wired.journalled(Unparked)
    assert isinstance(unparked, Unparked)
    assert (parked, delivery.state) == ("parked", "accepted")
    assert (unparked.deliveries, unparked.by) == ((delivery.id,), "carol")
    assert "wrong" not in error


async def test_a_reload_with_nothing_parked_writes_nothing(tmp_path: Path) -> None:
    with mail_server("none") as server:
        rig = NotifierRig(tmp_path, mail_table(server))

        async with rig.at_work():
            rig.notifier.renew("carol")
            await rig.wired.rest()

    assert rig.wired.queue.journal == []


async def test_credentials_of_systemd_come_before_files_in_the_data_dir(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("credentials", "data"):
        (tmp_path / name).mkdir()
        (tmp_path / name / "password").write_text(name)
    monkeypatch.setenv("CREDENTIALS_DIRECTORY", str(tmp_path / "credentials"))
    with mail_server("none", login=Login("safetyd", "credentials")) as server:
        lines = ('username = "safetyd"', 'password_file = "password"')
        rig = NotifierRig(tmp_path / "data", mail_table(server, *lines))

        async with rig.at_work():
            rig.wired.asks()
            rig.wired.passes()
            await rig.wired.rest()

    assert len(server.received) == 1


@pytest.mark.req("S3.25")
@pytest.mark.parametrize("public", [PUBLIC, ""])
async def test_an_sms_says_where_to_report_if_that_is_public_and_is_asked_about_if_nobody_does(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, public: str
) -> None:
    monkeypatch.setattr("safetyd.notify.sms.delivery_reports.LOOK_S", 0.01)
    (tmp_path / "token").write_text(AUTH_TOKEN)
    async with twilio() as phones:
        rig = NotifierRig(tmp_path, public, sms_table(phones.url))

        async with rig.at_work():
            rig.wired.asks()
            (delivery,) = rig.wired.passes()
            await until(lambda: delivery.provider_id)
            phones.statuses[delivery.provider_id] = "delivered"
            rig.wired.clock.t += 60
            await until(lambda: delivery.state == "delivered")

    callback = "https://safety.example.com/hooks/sms/status" if public else None
    assert phones.got[0].form.get("StatusCallback") == callback


async def test_a_helper_that_shows_a_message_has_delivered_it(tmp_path: Path) -> None:
    rig = NotifierRig(tmp_path, desktop="[notifications.desktop]\nhelper = true\n")

    async with rig.at_work():
        (lane,) = rig.does("notify_test")["lanes"]
        await until(lambda: rig.told)
        shown = rig.does("notify_shown", delivery=rig.told[0]["delivery"])
        await rig.wired.rest()

    assert (lane["channel"], shown) == ("desktop", {"ok": True})
    assert rig.asks("outbox")["deliveries"][0]["state"] == "delivered"


def test_without_helpers_nobody_hears_that_something_is_shown(tmp_path: Path) -> None:
    assert NotifierRig(tmp_path).does("notify_shown", delivery="dlv_1") == {"ok": True}


def test_a_browser_is_paired_for_the_first_recipient_or_the_one_who_is_named(
    tmp_path: Path,
) -> None:
    with mail_server("none") as server:
        rig = NotifierRig(tmp_path, mail_table(server), TEAM)

    first, named = rig.does("pair"), rig.does("pair", recipient="bob")
    unknown = rig.does("pair", recipient="dave")

    assert (first["recipient"], named["recipient"]) == ("alice", "bob")
    token = named["link"].partition("/d/")[2]
    assert rig.notifier.links.signer.pairing_of(token, rig.wired.at) == "bob"
    assert unknown["error"] == "'dave' is not one of alice, bob"


def test_without_recipients_a_browser_is_paired_for_the_operator_of_this_machine(
    tmp_path: Path,
) -> None:
    assert NotifierRig(tmp_path).does("pair")["recipient"] == "local"


@pytest.mark.parametrize("revoked", [False, True])
async def test_links_work_after_a_new_key_unless_they_are_revoked(
    tmp_path: Path, *, revoked: bool
) -> None:
    with mail_server("none") as server:
        rig = NotifierRig(tmp_path, mail_table(server))
        async with rig.at_work():
            ref = rig.wired.asks()
            rig.wired.passes()
            await rig.wired.rest()
            old = token_in(server.received[0].text)

            answer = rig.does("rotate_links", revoke_now=revoked)

    assert answer == {"ok": True}
    assert opens(rig, old) == (None if revoked else ref)
    assert rig.notifier.links.link("d", "", "a").partition("/d/")[2][:2] == "1b"


def test_keys_that_cannot_be_used_stop_the_start_and_say_what_to_do(tmp_path: Path) -> None:
    _break_keys(tmp_path)

    with pytest.raises(Unusable, match=r"links\.json cannot be used: .*; remove it"):
        NotifierRig(tmp_path)


def test_a_new_key_that_cannot_be_made_is_refused_and_the_old_one_goes_on(tmp_path: Path) -> None:
    rig = NotifierRig(tmp_path)
    link = rig.notifier.links.link("d", "", "a")
    _break_keys(tmp_path)

    answer = rig.does("rotate_links")

    assert answer["code"] == "unusable"
    assert "links.json cannot be used" in answer["error"]
    assert rig.notifier.links.link("d", "", "a") == link


def test_a_reload_with_keys_that_cannot_be_used_keeps_the_old_ones_and_says_so(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    rig = NotifierRig(tmp_path)
    link = rig.notifier.links.link("d", "", "a")
    _break_keys(tmp_path)

    with caplog.at_level(logging.ERROR, "safetyd"):
        rig.notifier.renew("carol")
        rig.wired.write()

    assert rig.notifier.links.link("d", "", "a") == link
    assert any("links.json" in said for said in caplog.messages)


def _break_keys(data_dir: Path) -> None:
    (data_dir / "keys").mkdir(exist_ok=True)
    (data_dir / "keys" / "links.json").write_text("{")


async def test_keys_that_are_due_are_changed_while_it_runs(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.notify.links.link_issuer.KEYS_LOOK_S", 0.01)
    rig = NotifierRig(tmp_path)

    async with rig.at_work():
        LinkKeys(tmp_path / "keys" / "links.json").rotate(at(0) + timedelta(seconds=20))
        await until(lambda: rig.notifier.links.link("d", "", "a").partition("/d/")[2][:2] == "1b")

    assert (tmp_path / "keys" / "links.json").stat().st_mode & 0o077 == 0


def test_a_link_that_led_back_is_seen_in_the_outbox(tmp_path: Path) -> None:
    with mail_server("none") as server:
        rig = NotifierRig(tmp_path, mail_table(server))
    rig.does("notify_test")
    (row,) = rig.asks("outbox")["deliveries"]

    rig.notifier.link_used(row["id"], at(99))

    (after,) = rig.asks("outbox")["deliveries"]
    assert (row["opened_at"], after["opened_at"]) == (None, "2026-03-01T12:01:39Z")


def test_a_preview_goes_by_the_tables_in_force(tmp_path: Path) -> None:
    with mail_server("none") as server:
        rig = NotifierRig(tmp_path, mail_table(server))

    (row,) = rig.asks("preview")["previews"]

    assert row["channel"] == "email"
    assert "http://127.0.0.1:8787/d/1" in row["text"]


def test_a_daemon_does_not_load_what_nobody_needs_yet() -> None:
    heavy = {"aiosmtplib", "apprise", "dbus_fast", "genai_prices", "psycopg", "twilio"}
    code = "import sys, safetyd.daemon.lifecycle; print(*sys.modules)"

    loaded = subprocess.check_output([sys.executable, "-c", code], text=True)

    assert not heavy & set(loaded.split())


@pytest.mark.parametrize("included", [False, True])
def test_a_topic_that_others_may_read_has_codes_only_if_they_are_wanted(
    tmp_path: Path, *, included: bool
) -> None:
    wanted = f"include_code = {str(included).lower()}\n"
    table = '[notifications.ntfy]\nenabled = true\nurl = "https://ntfy.example.com/alerts"\n'
    rig = NotifierRig(tmp_path, table + wanted)

    box = rig.notifier._destination("default", "ntfy")

    assert (box.codes, box.reply_risk) == (included, None)


def test_a_reply_may_approve_only_by_sms_and_up_to_its_risk(tmp_path: Path) -> None:
    rig = NotifierRig(tmp_path, TEAM + sms_table() + 'max_risk = "medium"\n')

    sms, mail = (rig.notifier._destination("alice", name) for name in ("sms", "email"))

    assert (sms.codes, sms.reply_risk) == (True, "medium")
    assert (mail.codes, mail.reply_risk) == (True, None)
