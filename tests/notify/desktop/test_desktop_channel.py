"""What a desktop shows, and the two channels that show it."""

import shutil
import subprocess
import sys
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from xml.etree import ElementTree as ET

import anyio
import msgspec
import pytest

from safetyd.journal.mailbox import Mailbox
from safetyd.notify.channel import Receipt, Unavailable
from safetyd.notify.desktop.desktop_bus import PATIENCE_S
from safetyd.notify.desktop.desktop_buttons import DesktopButtons
from safetyd.notify.desktop.desktop_channel import (
    HELPER_S,
    LIMITS,
    NOTICE,
    Desktop,
    DesktopHelpers,
    keep,
)
from safetyd.notify.desktop.desktop_content import (
    MAX_BODY,
    MAX_SUMMARY,
    DesktopNotice,
    payload,
    rendered,
)
from safetyd.notify.sanitize import harmless, one_line
from tests.checkout import ROOT
from tests.notify.desktop.desktop_session import Session, in_thread
from tests.notify.message_samples import (
    DELIVERY,
    DIGEST,
    HOSTILE,
    LINK,
    LIST_LINK,
    REQUEST,
    alert_topic,
    notice,
    request_topic,
    whole_topic,
)
from tests.servers import until

UNIT = ROOT / "systemd/user/safetyd-desktop.service"

pytestmark = pytest.mark.req("S3.26")


# -- words -----------------------------------------------------------------------------------------


def test_question_says_what_and_what_to_type() -> None:
    shown = rendered(notice(request_topic(text="ls\nrisk: none")))

    assert shown.summary == "HIGH: push by code: ls ⏎ risk: none"
    assert shown.body.splitlines()[0] == "ls ⏎ risk: none"
    assert shown.body.splitlines()[-1] == f"safetyd show {REQUEST}"
    assert shown.actions == ("review", "deny")
    assert (shown.request_id, shown.digest, shown.link) == (REQUEST, DIGEST, LINK)


def test_what_is_shown_whole_can_be_approved_here() -> None:
    shown = rendered(notice(whole_topic()))

    assert shown.body.splitlines()[0] == "git push --force origin main"
    assert shown.actions == ("review", "approve", "deny")
    assert rendered(notice(whole_topic(link=""))).actions == ("approve", "deny")


@pytest.mark.parametrize(
    "hidden", [{"text": "x" * 230}, {"type": "t" * 100}, {"approve_by": ("link",)}]
)
def test_what_is_not_shown_whole_cannot_be_approved_here(hidden: dict[str, object]) -> None:
    assert rendered(notice(whole_topic(**hidden))).actions == ("review", "deny")


def test_request_that_is_over_has_nothing_to_answer() -> None:
    shown = rendered(notice(request_topic(kind="expired", commands=(), link="")))

    assert (shown.actions, shown.request_id) == ((), "")


def test_several_requests_can_only_be_reviewed() -> None:
    cards = tuple(request_topic(agent=f"code-{n}") for n in range(20))

    shown = rendered(notice(*cards, more=5, held_back=2, quiet=True))

    lines = shown.body.splitlines()
    assert (
        shown.summary
        == "HIGH: After quiet hours: 20 requests: push \N{MULTIPLICATION SIGN}20; 5 more"
    )
    assert lines[0] == "push by code-0"
    assert lines[-3:] == [
        "5 more follow",
        "2 less urgent not sent",
        "safetyd list",
    ]
    assert (shown.actions, shown.link, shown.request_id) == (("review",), LIST_LINK, "")


def test_the_only_link_of_several_is_opened_and_two_lead_nowhere() -> None:
    one = rendered(notice(request_topic(), alert_topic(), list_link=""))
    two = rendered(notice(request_topic(), request_topic(link="https://x"), list_link=""))

    assert (one.link, one.actions) == (LINK, ("review",))
    assert (two.link, two.actions) == ("", ())


@pytest.mark.parametrize("hostile", HOSTILE, ids=range(len(HOSTILE)))
def test_hostile_text_keeps_to_its_place_and_size(hostile: str) -> None:
    text, line = harmless(hostile, 500).text, one_line(hostile, 160)
    card = request_topic(type=line, target=line, text=text, why=text)

    for shown in (rendered(notice(card)), rendered(notice(card, card))):
        assert len(shown.summary) <= MAX_SUMMARY
        assert len(shown.body) <= MAX_BODY
        assert "\n" not in shown.summary
        assert shown.body.splitlines()[-1].startswith("safetyd ")


def test_question_stays_up_unless_it_is_of_low_urgency() -> None:
    urgent, low = rendered(notice()), rendered(notice(urgency="low"))

    assert urgent.notification(review=True).stays
    assert not low.notification(review=True).stays
    assert not rendered(notice(alert_topic())).notification(review=True).stays


def test_review_is_offered_only_where_a_page_can_be_opened() -> None:
    notification = rendered(notice(whole_topic())).notification(review=False)

    assert notification.actions == (("approve", "Approve"), ("deny", "Deny"))


def test_only_so_many_messages_are_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("safetyd.notify.desktop.desktop_channel.MOST", 2)
    shown: dict[str, DesktopNotice] = {}

    for delivery in ("a", "b", "a", "c"):
        keep(shown, DesktopNotice(delivery=delivery, summary="", body=""))

    assert list(shown) == ["a", "c"]


# -- a daemon in the session -----------------------------------------------------------------------


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Session(tmp_path_factory.mktemp("session")) as session:
        yield session


class Person(DesktopButtons):
    """What somebody at the desktop did."""

    def __init__(self) -> None:
        super().__init__(Mailbox(), lambda _request: False)
        self.answers: list[tuple[str, bool, str]] = []
        self.opened: list[str] = []

    @property
    def opener(self) -> Callable[[str], None] | None:
        return self.opened.append

    def answered(self, request_id: str, approve: bool, digest: str) -> None:  # noqa: FBT001
        self.answers.append((request_id, approve, digest))


@pytest.fixture
def person() -> Person:
    return Person()


@pytest.fixture
async def desktop(session: Session, person: Person) -> AsyncIterator[Desktop]:
    await in_thread(session.closed)
    desktop = Desktop(session.address, person)
    yield desktop
    await desktop.close()


@pytest.mark.parametrize(("label", "approve"), [("Approve", True), ("Deny", False)])
async def test_pressed_button_answers_the_request(
    session: Session, desktop: Desktop, person: Person, label: str, *, approve: bool
) -> None:
    receipt = await desktop.send(notice(whole_topic()))

    await in_thread(session.press, label)
    await until(lambda: person.answers)

    assert (receipt.state, int(receipt.provider_id) > 0) == ("delivered", True)
    assert person.answers == [(REQUEST, approve, DIGEST)]


async def test_click_on_a_message_opens_its_page(
    session: Session, desktop: Desktop, person: Person
) -> None:
    await desktop.send(notice())

    await in_thread(session.click)
    await until(lambda: person.opened)

    assert (person.opened, person.answers) == ([LINK], [])


async def test_closed_message_is_no_answer(
    session: Session, desktop: Desktop, person: Person
) -> None:
    await desktop.send(notice())

    await in_thread(session.dismiss)
    await until(lambda: not desktop._shown)

    assert person.answers == []


async def test_reminder_takes_the_place_of_the_question(session: Session, desktop: Desktop) -> None:
    await desktop.send(notice())

    await desktop.send(notice(request_topic(kind="reminder"), delivery="dlv_2"))

    await in_thread(session.wait_for_count, 1)


async def test_outcome_takes_the_place_of_the_question(session: Session, desktop: Desktop) -> None:
    await desktop.send(notice())

    await desktop.tell(REQUEST, "Approved. The agent received your answer.")
    await desktop.tell("req_unknown", "Denied.")

    assert sorted((await in_thread(session.closed))[:2]) == [
        (
            "Approved. The agent received your answer.",
            "HIGH: push by code: git push --force origin main",
        ),
        ("Denied.", ""),
    ]


async def test_question_that_was_answered_elsewhere_goes(
    session: Session, desktop: Desktop
) -> None:
    await desktop.send(notice())

    await desktop.withdraw(REQUEST)

    await in_thread(session.wait_for_count, 0)


async def test_questions_go_with_the_daemon(session: Session, desktop: Desktop) -> None:
    await desktop.send(notice())

    await desktop.close()

    await in_thread(session.wait_for_count, 0)


async def test_hostile_text_is_shown_as_text(session: Session, desktop: Desktop) -> None:
    hostile = harmless('</b><a href="https://evil.example">&amp; Approve</a>', 500).text

    await desktop.send(notice(request_topic(text=hostile, target="", why="")))

    [(_, body)] = (await in_thread(session.closed))[:1]
    shown = ET.fromstring(f"<body>{body}</body>")
    assert len(shown) == 0
    assert (shown.text or "").splitlines()[0] == hostile


async def test_desktop_without_a_session_is_unavailable(person: Person) -> None:
    desktop = Desktop("unix:path=/nonexistent/bus", person)

    with pytest.raises(Unavailable):
        await desktop.send(notice())
    await desktop.close()


def test_button_of_a_message_that_is_not_known_is_nobodys_answer(person: Person) -> None:
    desktop = Desktop("", person)

    desktop._pressed("req_other", "approve")

    assert person.answers == []


def test_unknown_action_is_no_answer(person: Person) -> None:
    desktop = Desktop("", person)
    keep(desktop._shown, rendered(notice()))

    for action in ("default", "snooze"):
        desktop._pressed(REQUEST, action)

    assert person.answers == []


# -- a daemon outside of the session ---------------------------------------------------------------


async def test_message_is_delivered_when_a_helper_shows_it() -> None:
    published: list[tuple[str, object]] = []

    def publish(kind: str, told: object) -> None:
        published.append((kind, told))
        helpers.shown("dlv_other")
        helpers.shown(DELIVERY)

    helpers = DesktopHelpers(publish)

    receipt = await helpers.send(notice())
    helpers.shown(DELIVERY)
    await helpers.close()

    assert receipt == Receipt("delivered")
    assert published == [(NOTICE, payload(notice()))]


async def test_message_without_a_helper_is_unavailable() -> None:
    helpers = DesktopHelpers(lambda _kind, _told: None)

    with pytest.raises(Unavailable, match="run `safetyd desktop`"):
        await helpers.send(notice())


def test_a_try_has_time_to_say_what_is_wrong() -> None:
    assert max(HELPER_S, PATIENCE_S) < LIMITS.deadline_s


async def test_helper_that_answers_late_does_not_speak_for_the_next_try() -> None:
    helpers = DesktopHelpers(lambda _kind, _told: None)
    with anyio.move_on_after(0.05):
        await helpers.send(notice())
    helpers.shown(DELIVERY)

    with anyio.move_on_after(0.05) as second:
        await helpers.send(notice())

    assert second.cancelled_caught


def test_helper_reads_what_the_daemon_publishes() -> None:
    told = msgspec.json.encode(payload(notice()))

    shown = msgspec.structs.replace(rendered(notice()), link="")  # observers hear it too
    assert msgspec.json.decode(told, type=DesktopNotice) == shown
    assert set(msgspec.json.decode(told)) == {
        *("delivery", "request_id", "digest", "summary", "body"),
        *("actions", "urgency", "recipient"),
    }


# -- the unit of the helper ------------------------------------------------------------------------


def test_systemd_finds_nothing_wrong_with_the_unit(tmp_path: Path) -> None:
    command = shutil.which("systemd-analyze")
    if command is None:
        pytest.fail("systemd-analyze is missing; run: sudo apt-get install systemd")
    unit = tmp_path / UNIT.name
    bin_ = str(Path(sys.executable).parent)
    unit.write_text(UNIT.read_text().replace("/opt/safetyd/bin", bin_))

    judged = subprocess.run(
        [command, "--user", "verify", "--man=no", str(unit)],
        env={"XDG_RUNTIME_DIR": str(tmp_path), "HOME": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
        timeout=60,
    )

    assert (judged.returncode, judged.stdout, judged.stderr) == (0, "", "")
