"""`safetyd open` and `safetyd sessions` against a daemon that runs."""

import json
import re
import urllib.error
import urllib.request
import webbrowser
from pathlib import Path
from urllib.parse import unquote, urlsplit

import pytest

from safetyd.console.access import control_room
from safetyd.operators.contract.session_contract import SignInAnswer
from tests.conftest import RunningDaemon, StartDaemon
from tests.console.console_rig import here, told

LINK = "http://127.0.0.1:8790/signin/a-token-that-is-good-once"


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def link(daemon: RunningDaemon, *options: str) -> str:
    answer = json.loads(told(daemon, "open", "--json", *options).stdout)
    return str(answer["url"])


def signed_in(url: str) -> str:
    """Use a link up; return the cookie."""
    request = asked(url, {"User-Agent": "Firefox"}, "POST")
    with urllib.request.urlopen(request) as response:
        return str(response.headers["Set-Cookie"]).partition(";")[0]


def status(url: str, cookie: str) -> int:
    opener = urllib.request.build_opener()
    try:
        with opener.open(asked(f"{url}/agents", {"Cookie": cookie})) as response:
            return int(response.status)
    except urllib.error.HTTPError as exc:
        with exc:
            return exc.code


def asked(url: str, headers: dict[str, str], method: str = "GET") -> urllib.request.Request:
    """Ask as a browser does, which finds names below localhost on this machine."""
    parts = urlsplit(url)
    address = parts._replace(netloc=f"127.0.0.1:{parts.port}").geturl()
    return urllib.request.Request(address, headers={**headers, "Host": parts.netloc}, method=method)


def listed(daemon: RunningDaemon) -> list[dict[str, str]]:
    rows: list[dict[str, str]] = json.loads(told(daemon, "sessions", "--json").stdout)["sessions"]
    return rows


@pytest.fixture(autouse=True)
def nobody(daemon: RunningDaemon) -> None:
    """Sign everybody out."""
    told(daemon, "sessions", "end", "--all")


def test_a_link_is_printed_alone_with_what_it_does_beside_it(daemon: RunningDaemon) -> None:
    said = told(daemon, "open", "--print")

    assert said.returncode == 0
    assert re.fullmatch(r"http://[0-9a-f]{20}\.localhost:\d+/signin/\S+\n", said.stdout)
    assert " as local " in said.stderr


def test_a_link_by_the_address_is_made_if_asked_for_and_signs_in(daemon: RunningDaemon) -> None:
    url = told(daemon, "open", "--print", "--numeric").stdout.strip()
    cookie = signed_in(url)

    assert re.fullmatch(rf"{daemon.endpoint.web}/signin/\S+", url)
    assert status(daemon.endpoint.web, cookie) == 200
    assert status(link(daemon).partition("/signin/")[0], cookie) == 401


@pytest.mark.parametrize(
    "where", [{"DISPLAY": "", "WAYLAND_DISPLAY": ""}, {"DISPLAY": ":0", "SSH_CONNECTION": "1 2 3"}]
)
def test_without_a_browser_to_be_seen_the_link_is_printed(
    daemon: RunningDaemon, where: dict[str, str]
) -> None:
    assert "/signin/" in told(daemon, "open", **where).stdout


def test_if_no_browser_opens_the_link_is_printed(
    daemon: RunningDaemon, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(webbrowser, "open", lambda _address: False)
    monkeypatch.delenv("SSH_CONNECTION", raising=False)

    assert "/signin/" in told(daemon, "open", DISPLAY=":0").stdout


def test_the_link_is_not_among_the_arguments_of_a_browser(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    opened: list[str] = []

    def answered(*_: object) -> SignInAnswer:
        return SignInAnswer(ok=True, operator="ann", url=LINK, expires_s=300.0)

    def open_browser(address: str) -> bool:
        opened.append(address)
        return True

    monkeypatch.setattr(control_room, "ask", answered)
    monkeypatch.setattr(webbrowser, "open", open_browser)
    monkeypatch.setenv("DISPLAY", ":0")
    monkeypatch.delenv("SSH_CONNECTION", raising=False)
    monkeypatch.setenv("XDG_RUNTIME_DIR", str(tmp_path))

    said = here("open", "--data-dir", str(tmp_path))

    (address,) = opened
    page = Path(unquote(urlsplit(address).path))
    assert said.returncode == 0, said.stderr
    assert "signin" not in address + said.stdout + said.stderr
    assert LINK in page.read_text()
    assert page.stat().st_mode & 0o077 == 0


def test_who_is_signed_in_is_listed_and_signed_out(daemon: RunningDaemon) -> None:
    empty = told(daemon, "sessions").stdout
    url = link(daemon)
    base = url.partition("/signin/")[0]
    cookie = signed_in(url)
    (row,) = listed(daemon)
    shown = told(daemon, "sessions").stdout
    before = status(base, cookie)
    ended = told(daemon, "sessions", "end", row["id"])
    again = told(daemon, "sessions", "end", row["id"])

    assert empty.startswith("No browser is signed in.")
    assert (row["operator"], row["browser"]) == ("local", "Firefox")
    assert row["id"] in shown
    assert f"{row['opened_at'][:10]} " in shown, "in the reader's zone, as other times"
    assert ended.stdout == "Signed out 1 browser.\n"
    assert (before, status(base, cookie)) == (200, 401)
    assert again.returncode != 0
    assert row["id"] in again.stderr


def test_sessions_end_of_one_or_of_all(daemon: RunningDaemon) -> None:
    for _ in range(2):
        signed_in(link(daemon))
    others = told(daemon, "sessions", "end", "--of", "somebody").stdout
    ended = json.loads(told(daemon, "sessions", "end", "--of", "local", "--json").stdout)

    assert others == "Signed out 0 browsers.\n"
    assert (ended["ok"], len(ended["ended"])) == (True, 2)
    assert listed(daemon) == []


@pytest.mark.parametrize("options", [(), ("web_1", "--all"), ("--of", "local", "--all")])
def test_it_is_said_exactly_who_is_signed_out(
    daemon: RunningDaemon, options: tuple[str, ...]
) -> None:
    said = told(daemon, "sessions", "end", *options)

    assert said.returncode == 2
    assert "--of NAME or --all" in said.stderr


def test_who_loses_the_key_is_signed_out(daemon: RunningDaemon) -> None:
    added = told(daemon, "operator", "add", "alice")
    key = str(daemon.data_dir / "keys/operators/alice.nk")
    url = json.loads(told(daemon, "open", "--json", SAFETYD_KEY_FILE=key).stdout)["url"]
    base, cookie = url.partition("/signin/")[0], signed_in(url)
    before = status(base, cookie)
    told(daemon, "operator", "revoke", "alice")

    assert added.returncode == 0
    assert (before, status(base, cookie)) == (200, 401)
    assert listed(daemon) == []


def test_a_key_that_is_replaced_at_once_signs_out_and_takes_links_along(
    daemon: RunningDaemon,
) -> None:
    url, unused = link(daemon), link(daemon)
    base, cookie = url.partition("/signin/")[0], signed_in(url)
    before = status(base, cookie)
    rotated = told(daemon, "operator", "rotate", "local", "--now")
    after = status(base, cookie)
    with pytest.raises(urllib.error.HTTPError) as refused:
        signed_in(unused)
    refused.value.close()

    assert rotated.returncode == 0, rotated.stderr
    assert (before, after, refused.value.code) == (200, 401, 404)
    assert listed(daemon) == []
