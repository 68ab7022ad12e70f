"""Bubbles on a real desktop, with real clicks."""

import gc
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager
from xml.etree import ElementTree as ET

import anyio
import pytest
from dbus_fast import Message
from dbus_fast.aio import MessageBus

from safetyd.notify.channel import Unavailable
from safetyd.notify.desktop.dbus_session import BUS, MOST_UNANSWERED, NAME, PATH
from safetyd.notify.desktop.desktop_bus import DEFAULT, DesktopBus, DesktopNotification
from tests.notify.desktop.desktop_session import Session, in_thread
from tests.servers import until

ACTIONS = ((DEFAULT, "Review"), ("approve", "Approve"), ("deny", "Deny"))
REFUSED = "one too many"
QUESTION = DesktopNotification("req_1", "push by code", "git push", ACTIONS, "high", stays=True)

pytestmark = pytest.mark.req("S3.26")


class Watcher:
    """What came of notifications."""

    def __init__(self, address: str) -> None:
        self.pressed: list[tuple[str, str]] = []
        self.gone: list[str] = []
        self.desktop_bus = DesktopBus(
            address, lambda *press: self.pressed.append(press), self.gone.append
        )


class PlainService:
    """A notification service that knows no markup and refuses some."""

    def __init__(self, bus: MessageBus) -> None:
        self._bus = bus
        self.bodies: list[str] = []
        bus.add_message_handler(self._answer)

    def press(self, number: int, action: str) -> None:
        self._bus.send(Message.new_signal(PATH, NAME, "ActionInvoked", "us", [number, action]))

    def _answer(self, message: Message) -> Message | None:
        if message.member == "GetCapabilities":
            return Message.new_method_return(message, "as", [["actions", "body"]])
        if message.member != "Notify":
            return None
        if message.body[3] == REFUSED:
            return Message.new_error(message, f"{BUS}.Error.Failed", "too many")
        self.bodies.append(message.body[4])
        return Message.new_method_return(message, "u", [len(self.bodies)])


@asynccontextmanager
async def plain_service(session: Session) -> AsyncIterator[PlainService]:
    """Put another service in dunst's place for a while."""
    session.kill("dunst")
    bus = await MessageBus(session.address).connect()
    try:
        await bus.request_name(NAME)
        yield PlainService(bus)
    finally:
        bus.disconnect()
        await bus.wait_for_disconnect()  # type: ignore[no-untyped-call]
        await in_thread(session.start_dunst)


@pytest.fixture(scope="module")
def session(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Session]:
    with Session(tmp_path_factory.mktemp("session")) as session:
        yield session


@pytest.fixture
async def watcher(session: Session) -> AsyncIterator[Watcher]:
    await in_thread(session.closed)
    watcher = Watcher(session.address)
    yield watcher
    await watcher.desktop_bus.close()


async def give_up(
    desktop_bus: DesktopBus, notification: DesktopNotification, after_s: float = 0.2
) -> None:
    """Try to show a notification, and be cancelled as a worker may be."""
    with anyio.move_on_after(after_s) as scope:
        await desktop_bus.show(notification)
    assert scope.cancelled_caught


async def test_pressed_button_reaches_the_program(session: Session, watcher: Watcher) -> None:
    number = await watcher.desktop_bus.show(QUESTION)

    offered = await in_thread(session.press, "Approve")
    await until(lambda: watcher.pressed)

    assert number > 0
    assert offered == ["Review", "Approve", "Deny"]
    assert watcher.pressed == [("req_1", "approve")]


async def test_click_on_the_notification_is_the_default_action(
    session: Session, watcher: Watcher
) -> None:
    await watcher.desktop_bus.show(QUESTION)

    await in_thread(session.click)
    await until(lambda: watcher.pressed)

    assert watcher.pressed == [("req_1", DEFAULT)]


async def test_closing_a_notification_is_no_answer(session: Session, watcher: Watcher) -> None:
    await watcher.desktop_bus.show(QUESTION)

    await in_thread(session.dismiss)
    await until(lambda: watcher.gone)

    assert (watcher.pressed, watcher.gone) == ([], ["req_1"])


async def test_another_notification_of_the_same_key_takes_its_place(
    session: Session, watcher: Watcher
) -> None:
    await watcher.desktop_bus.show(QUESTION)

    await watcher.desktop_bus.show(QUESTION._replace(summary="Approved."))

    await in_thread(session.wait_for_count, 1)


async def test_hidden_notification_goes(session: Session, watcher: Watcher) -> None:
    await watcher.desktop_bus.show(QUESTION)

    await watcher.desktop_bus.hide("req_1")

    await in_thread(session.wait_for_count, 0)
    assert watcher.gone == []


async def test_text_is_not_taken_for_markup(session: Session, watcher: Watcher) -> None:
    hostile = '<b>Approved</b> &amp; <a href="x">& more</a> <img src="x"/>'

    await watcher.desktop_bus.show(QUESTION._replace(summary=hostile, body=hostile))

    [(summary, body)] = (await in_thread(session.closed))[:1]
    shown = ET.fromstring(f"<body>{body}</body>")
    assert (summary, shown.text, len(shown)) == (hostile, hostile, 0)


async def test_desktop_that_stands_still_is_unavailable_and_works_again_afterwards(
    session: Session, watcher: Watcher
) -> None:
    with (
        session.standing_still(),
        pytest.raises(Unavailable, match="did not answer") as refused,
    ):
        await watcher.desktop_bus.show(QUESTION)
    await watcher.desktop_bus.show(QUESTION)

    assert refused.value.ambiguous
    await in_thread(session.wait_for_count, 1)


async def test_notification_that_came_up_late_has_buttons_that_work(
    session: Session, watcher: Watcher
) -> None:
    await watcher.desktop_bus.show(QUESTION)
    await watcher.desktop_bus.hide("req_1")

    with session.standing_still():
        await give_up(watcher.desktop_bus, QUESTION)
    await in_thread(session.press, "Deny")
    await until(lambda: watcher.pressed)

    assert watcher.pressed == [("req_1", "deny")]


async def test_notification_that_came_up_late_is_not_there_twice(
    session: Session, watcher: Watcher
) -> None:
    await watcher.desktop_bus.show(QUESTION)

    with session.standing_still():
        for summary in ("first try", "second try"):
            await give_up(watcher.desktop_bus, QUESTION._replace(key="req_2", summary=summary))
    await in_thread(session.wait_for_count, 2)

    shown = [summary for summary, _ in await in_thread(session.closed)]
    assert sorted(shown[:2]) == ["push by code", "second try"]


async def test_notification_that_was_hidden_before_it_came_up_goes_again(
    session: Session, watcher: Watcher
) -> None:
    await watcher.desktop_bus.show(QUESTION)

    with session.standing_still():
        await give_up(watcher.desktop_bus, QUESTION._replace(key="req_2", summary="too late"))
        await watcher.desktop_bus.hide("req_2")

    await in_thread(session.wait_for_closed, "too late")
    assert await in_thread(session.count) == 1


async def test_line_without_answers_is_given_up(session: Session, watcher: Watcher) -> None:
    await watcher.desktop_bus.show(QUESTION)

    with session.standing_still():
        for number in range(MOST_UNANSWERED):
            await give_up(watcher.desktop_bus, QUESTION._replace(key=f"req_{number}"), 0.01)
        with pytest.raises(Unavailable, match=r"\b16\b"):
            await watcher.desktop_bus.show(QUESTION)

    assert await watcher.desktop_bus.show(QUESTION) > 0


async def test_missing_service_is_unavailable_and_its_successor_is_used(
    session: Session, watcher: Watcher
) -> None:
    await watcher.desktop_bus.show(QUESTION)

    session.kill("dunst")
    await until(lambda: watcher.gone)
    with pytest.raises(Unavailable, match=r"org\.freedesktop\.Notifications"):
        await watcher.desktop_bus.show(QUESTION)
    await in_thread(session.start_dunst)
    await watcher.desktop_bus.show(QUESTION)
    await in_thread(session.press, "Approve")
    await until(lambda: watcher.pressed)

    assert watcher.gone == ["req_1"]
    assert watcher.pressed == [("req_1", "approve")]


async def test_dead_bus_is_unavailable_and_the_next_one_is_used(
    session: Session, watcher: Watcher
) -> None:
    await watcher.desktop_bus.show(QUESTION)

    for name in ("dunst", "dbus-daemon"):
        session.kill(name)
    with pytest.raises(Unavailable, match="the session's bus cannot be used"):
        await watcher.desktop_bus.show(QUESTION)
    await watcher.desktop_bus.hide("req_1")
    gc.collect()  # what was never looked at would be an error now
    await in_thread(session.start_bus)
    await in_thread(session.start_dunst)

    assert await watcher.desktop_bus.show(QUESTION) > 0


async def test_bus_that_stands_still_is_unavailable(session: Session, watcher: Watcher) -> None:
    with session.standing_still("dbus-daemon"), pytest.raises(Unavailable, match="did not answer"):
        await watcher.desktop_bus.show(QUESTION)

    assert await watcher.desktop_bus.show(QUESTION) > 0


async def test_button_that_another_program_claims_was_pressed_does_not_count(
    session: Session, watcher: Watcher
) -> None:
    number = await watcher.desktop_bus.show(QUESTION)
    line = watcher.desktop_bus._line
    assert line is not None

    await in_thread(session.forge, str(line._bus.unique_name), number, "approve")
    await in_thread(session.press, "Deny")
    await until(lambda: watcher.pressed)

    assert watcher.pressed == [("req_1", "deny")]


async def test_only_the_latest_desktop_bus_are_kept(
    session: Session, watcher: Watcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("safetyd.notify.desktop.dbus_session.MOST", 1)

    for key in ("req_1", "req_2"):
        await watcher.desktop_bus.show(QUESTION._replace(key=key))
    await in_thread(session.closed)
    await until(lambda: watcher.gone)

    assert watcher.gone == ["req_2"]


async def test_refusal_of_the_service_leaves_other_buttons_at_work(
    session: Session, watcher: Watcher
) -> None:
    async with plain_service(session) as service:
        number = await watcher.desktop_bus.show(QUESTION)

        with pytest.raises(Unavailable, match="too many"):
            await watcher.desktop_bus.show(QUESTION._replace(key="req_2", summary=REFUSED))
        service.press(number, "deny")
        await until(lambda: watcher.pressed)

    assert watcher.pressed == [("req_1", "deny")]


async def test_text_is_left_alone_where_markup_is_not_known(
    session: Session, watcher: Watcher
) -> None:
    async with plain_service(session) as service:
        await watcher.desktop_bus.show(QUESTION._replace(body="a < b & c"))

    assert service.bodies == ["a < b & c"]


async def test_what_is_being_shown_when_the_program_ends_is_unavailable(
    session: Session, watcher: Watcher
) -> None:
    await watcher.desktop_bus.show(QUESTION)
    errors: list[str] = []

    async def show() -> None:
        try:
            await watcher.desktop_bus.show(QUESTION)
        except Unavailable as exc:
            errors.append(str(exc))

    with session.standing_still():
        async with anyio.create_task_group() as tasks:
            tasks.start_soon(show)
            await anyio.sleep(0.1)
            await watcher.desktop_bus.close()

    assert errors == ["the session's bus cannot be used: EOFError"]


async def test_nothing_is_hidden_or_closed_without_a_connection() -> None:
    watcher = Watcher("unix:path=/nonexistent/bus")

    await watcher.desktop_bus.hide("req_1")
    with pytest.raises(Unavailable, match="the session's bus cannot be used"):
        await watcher.desktop_bus.show(QUESTION)
    await watcher.desktop_bus.close()

    assert (watcher.pressed, watcher.gone) == ([], [])
