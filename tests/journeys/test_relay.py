"""Links through a relay: people can answer, and an owner of the relay cannot approve."""

import threading
from collections.abc import Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
from playwright.async_api import Browser

from safetyd.bus.question_limits import BOUNDS
from safetyd.web.forms import MAX_BODY
from safetyd.web.throttle import REQUESTS
from tests.bus.peer import Peer, Refused
from tests.conftest import StartDaemon
from tests.journeys.agents import until
from tests.journeys.control_room import ON_A_PHONE
from tests.journeys.delivery_targets import targets
from tests.journeys.people import control, query
from tests.journeys.relay_rig import RelayRig, Shown, fetch, relay_rig
from tests.journeys.test_permissions import cell, expected_of
from tests.web.browser import visitor

pytestmark = [pytest.mark.journey, pytest.mark.req("S3.63")]


@pytest.fixture(scope="module")
def rig(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RelayRig]:
    with targets() as found, relay_rig(tmp_path_factory.mktemp("relay"), found) as rig:
        yield rig


@pytest.fixture
def own_rig(tmp_path: Path) -> Iterator[RelayRig]:
    with targets() as found, relay_rig(tmp_path, found) as rig:
        yield rig


def test_a_link_opens_the_request_and_is_answered_through_the_relay(rig: RelayRig) -> None:
    approved, denied = rig.asks("git push origin one"), rig.asks("git push origin two")

    page = fetch(approved.link)
    yes = rig.post(approved.link, "approve", c=approved.code, m="go ahead")
    no = rig.post(denied.link, "deny")

    assert (page.status, "git push origin one" in page.text) == (200, True)
    assert (yes.status, no.status) == (200, 200)
    (first,), (second,) = rig.answers(approved), rig.answers(denied)
    assert (first.answer, first.assurance, first.words) == ("approved", "code", "go ahead")
    assert (second.answer, second.assurance, second.words) == ("denied", "button", "")
    assert first.peer.startswith("relay edge: 127.0.0.1 ")


async def test_a_person_with_a_phone_denies_with_a_tap_and_approves_with_the_code(
    rig: RelayRig, browser: Browser, tmp_path: Path
) -> None:
    denied, approved = rig.asks("git push origin three"), rig.asks("git push origin four")
    problems: list[str] = []

    async with visitor(browser, viewport=ON_A_PHONE) as page:
        page.on("console", lambda message: problems.append(message.text))
        await page.goto(denied.link)
        async with page.expect_navigation():
            await page.click("button[value=deny]")
        first = await page.inner_text("h1")
        await page.goto(f"{approved.link}?i=a")
        await page.screenshot(path=tmp_path / "request.png")
        await page.wait_for_selector("#c:focus")
        await page.keyboard.type(approved.code)
        wide = await page.evaluate("document.documentElement.scrollWidth")
        async with page.expect_navigation():
            await page.click("button[value=approve]")
        second = await page.inner_text("h1")
        cookies = await page.context.cookies()

    assert (first.split()[0], second.split()[0]) == ("Denied", "Approved")
    assert (wide, problems, cookies) == (ON_A_PHONE["width"], [], [])
    assert [one.answer for one in rig.answers(denied)] == ["denied"]
    assert [one.assurance for one in rig.answers(approved)] == ["code"]


def test_the_owner_of_the_relay_cannot_approve_without_the_code(rig: RelayRig) -> None:
    target, other = rig.asks("git push origin five"), rig.asks("git push origin six")
    nonce = fetch(target.link).nonce
    wrong = f"{(int(target.code) + 1) % 10**6:06}"
    forged = ["", target.code[:4], target.code[:5], other.code, wrong]

    heard = [
        rig.speak(do="answer", token=target.token, fields={"v": "approve", "n": nonce, "c": code})
        for code in forged
    ]

    assert len(target.code) == 6
    assert [answer["status"] for answer in heard] == [403] * len(forged)
    assert rig.answers(target) == []
    # The code that the person typed for the other request approves that one, once.
    form = {"v": "approve", "n": fetch(other.link).nonce, "c": other.code}
    used, again = (rig.speak(do="answer", token=other.token, fields=form) for _ in range(2))
    assert (used["status"], again["status"]) == (200, 200)  # the page says: already approved
    assert [one.answer for one in rig.answers(other)] == ["approved"]
    assert rig.answers(target) == []


def test_the_owner_can_turn_an_approval_into_a_denial_but_not_the_reverse(rig: RelayRig) -> None:
    first, second = rig.asks("git push origin seven"), rig.asks("git push origin eight")

    # The person approves the first and denies the second, which needs no code.
    turned = rig.speak(
        do="answer",
        token=first.token,
        fields={"v": "deny", "n": fetch(first.link).nonce, "c": first.code},
    )
    forged = rig.speak(
        do="answer", token=second.token, fields={"v": "approve", "n": fetch(second.link).nonce}
    )

    assert (turned["status"], forged["status"]) == (200, 403)
    assert [one.answer for one in rig.answers(first)] == ["denied"]
    assert rig.answers(second) == []


def test_the_printed_accounts_give_the_relay_and_agents_what_the_table_says(rig: RelayRig) -> None:
    keys = {
        "edge": (rig.relay_key, "_INBOX.relay.edge"),
        "code": (rig.agent_key, "_INBOX.agent.code"),
    }

    for name, (key, inbox) in keys.items():
        expected = expected_of(name)
        with Peer(rig.bus.url, key, inbox) as peer:
            assert {subject: cell(peer, subject) for subject in expected} == expected


def test_no_browser_is_paired_while_a_relay_has_a_key(rig: RelayRig) -> None:
    own = rig.keys.operator
    printed = rig.daemon.safetyd("pair", "--key-file", str(own), "--url", rig.bus.url)

    assert printed.returncode == 1
    assert "edge" in printed.stderr


@pytest.mark.parametrize(
    ("path", "status"), [("/", 404), ("/metrics", 404), ("/api/v1/status", 404), ("/d/", 404)]
)
def test_the_relay_serves_links_and_nothing_else(rig: RelayRig, path: str, status: int) -> None:
    assert fetch(rig.url + path).status == status


def test_the_relay_refuses_what_the_daemons_own_pages_refuse(rig: RelayRig) -> None:
    sent = rig.asks("git push origin nine")
    nonce = fetch(sent.link).nonce
    denial = {"v": "deny", "n": nonce}

    shown: list[Shown] = [
        fetch(sent.link, denial, Origin="https://evil.example"),
        fetch(sent.link, denial, **{"Sec-Fetch-Site": "cross-site"}),
        fetch(sent.link, denial, Host="evil.example"),
        fetch(sent.link, {**denial, "m": "x" * MAX_BODY}),
        fetch(sent.link, {"v": "perhaps", "n": nonce}),
        fetch(f"{sent.link}x"),
    ]

    assert [each.status for each in shown] == [403, 403, 403, 413, 400, 404]
    assert rig.answers(sent) == []
    page = fetch(sent.link)
    assert "default-src 'none'" in page.headers["Content-Security-Policy"]
    assert page.headers["Cache-Control"] == "no-store"
    assert not any("Set-Cookie" in each.headers for each in (page, *shown))


def test_an_address_that_tries_many_tokens_is_shut_out_of_the_relay(own_rig: RelayRig) -> None:
    link = own_rig.asks().link

    tried = [fetch(f"{own_rig.url}/d/1a{n:043}").status for n in range(REQUESTS + 1)]

    assert tried == [404] * REQUESTS + [429]
    # The daemon still answers the relay.
    assert own_rig.speak(do="view", token=link.rpartition("/")[2])["status"] == 200


def test_without_a_daemon_the_relay_waits_and_then_says_so(own_rig: RelayRig) -> None:
    sent = own_rig.asks()
    nonce = fetch(sent.link).nonce
    assert fetch(f"{own_rig.url}/healthz").status == 200

    own_rig.daemon.stop()
    down = fetch(sent.link, {"v": "deny", "n": nonce})
    until(lambda: fetch(f"{own_rig.url}/healthz").status == 503)
    # A page that is opened while the daemon starts again is shown once the daemon is ready.
    shown = list[Shown]()
    waiting = threading.Thread(target=lambda: shown.append(fetch(sent.link)))
    waiting.start()
    own_rig.daemon.start()
    waiting.join()

    assert (down.status, "Retry-After" in down.headers) == (503, True)
    assert f'href="{sent.token}"' in down.text
    assert [each.status for each in shown] == [200]
    assert own_rig.answers(sent) == []
    until(lambda: fetch(f"{own_rig.url}/healthz").status == 200)


def test_the_relay_reconnects_uses_the_address_that_answers_and_logs_no_token(
    own_rig: RelayRig,
) -> None:
    sent = own_rig.asks()
    own_rig.relay.stop()
    own_rig.relay = own_rig.start_relay(f"nats://127.0.0.1:1,{own_rig.bus.url}")
    first = fetch(sent.link)

    own_rig.bus.stop()
    until(lambda: fetch(f"{own_rig.url}/healthz").status == 503)
    own_rig.bus.start()
    until(lambda: fetch(sent.link).status == 200)
    done = own_rig.post(sent.link, "approve", c=sent.code)

    assert (first.status, done.status) == (200, 200)
    log = own_rig.relay.log_file.read_text()
    assert "connected to the bus" in log
    assert not [
        secret for secret in (sent.token, sent.code) if secret in log + own_rig.daemon.log()
    ]


def test_a_revoked_key_is_refused_by_the_daemon_before_the_bus_knows(own_rig: RelayRig) -> None:
    sent = own_rig.asks()

    with own_rig.attacker() as peer:
        own_rig.keys.revoke("relays", "edge")
        assert control(own_rig.daemon, "reload", key=own_rig.keys.operator)["ok"]
        refused = peer.ask(
            "safety.v1.link.edge", f'{{"do":"view","token":"{sent.token}"}}'.encode()
        ).fields

    assert refused["code"] == "no_key"
    assert fetch(sent.link).status == 503


def test_a_relay_that_floods_is_shut_out_of_the_embedded_server(start_daemon: StartDaemon) -> None:
    daemon = start_daemon()
    added = daemon.safetyd("relay", "add", "edge")
    key = daemon.data_dir / "keys" / "relays" / "edge.nk"
    assert added.returncode == 0, added.stderr

    def lets_in() -> bool:
        try:
            Peer(daemon.endpoint.bus, key, "_INBOX.relay.edge").close()
        except Refused:
            return False
        return True

    until(lets_in)
    with ExitStack() as stack:
        peer = stack.enter_context(Peer(daemon.endpoint.bus, key, "_INBOX.relay.edge"))
        for _ in range(4 * int(BOUNDS.flood)):
            peer.publish("safety.v1.link.edge", b'{"do":"ping"}', "_INBOX.relay.edge.x")
        assert peer.closed()

    assert not lets_in()
    assert query(daemon, "status")["ok"]
    assert "relay:edge floods" in daemon.log()
