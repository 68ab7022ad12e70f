"""`safetyd desktop`: shows the daemon's notifications on an operator's desktop.

A daemon that runs as a service cannot reach a desktop session, so this program runs inside one. It
answers requests with the operator's key, so a button has the same effect as a command.
"""

import shutil
import signal
from collections.abc import Awaitable, Callable
from functools import partial
from typing import Final, TypeVar

import anyio
import click
import msgspec
from anyio.abc import TaskGroup

from safetyd.console.failure import Failure, NotReachable, need
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import OperatorConnection, connected
from safetyd.console.options import reaches_daemon
from safetyd.console.terminal_text import CTRL_C, plain
from safetyd.host import session_bus
from safetyd.notify.channel import Unavailable
from safetyd.notify.desktop.desktop_bus import DEFAULT, DesktopBus, DesktopNotification
from safetyd.notify.desktop.desktop_buttons import VIA, outcome
from safetyd.notify.desktop.desktop_channel import keep
from safetyd.notify.desktop.desktop_content import MAX_BODY, DesktopNotice
from safetyd.notify.shortening import clip
from safetyd.operators.contract.notification_contract import LinkCommand, ShownCommand
from safetyd.operators.contract.question import Call, Review
from safetyd.operators.contract.request_contract import ApproveCommand, DenyCommand, ReviewDone
from safetyd.operators.replies import Done

FIRST_PAUSE_S: Final = 0.5
LONGEST_PAUSE_S: Final = 30.0
MOST: Final = 64  # maximum of queued jobs; the daemon resends dropped notifications
HIDE_S: Final = 1.0
OPENER: Final = "xdg-open"

Job = Callable[[], Awaitable[None]]
Answer = TypeVar("Answer", bound=Done)

_ENDS: Final = frozenset({"PERMISSION_DECIDED", "PERMISSION_EXPIRED"})
_HEARD: Final = (b'"DESKTOP_NOTICE"', *(f'"{end}"'.encode() for end in _ENDS))


class News(msgspec.Struct):
    """The fields of an event that the helper uses."""

    event_type: str
    notice: DesktopNotice | None = None
    metadata: dict[str, object] = {}


_read = msgspec.json.Decoder(News).decode


@command()
@click.option(
    "--once", is_flag=True, help="Exit after the first notification is answered or closed."
)
@reaches_daemon
def desktop(location: Location, *, once: bool) -> None:
    """Show notifications on this desktop until Ctrl-C.

    The buttons of a notification answer the request. Use this if the daemon runs as a service. Set
    `helper = true` under [notifications.desktop] in its configuration.

    For example:
      safetyd desktop
      systemctl --user enable --now safetyd-desktop
    """
    need("desktop", "dbus_fast")
    address = session_bus()
    if not address:
        raise Failure(
            "no desktop session found: DBUS_SESSION_BUS_ADDRESS is not set. Run this in a terminal "
            "on the desktop, or run `systemctl --user enable --now safetyd-desktop`",
            "no_session_bus",
        )
    if failure := anyio.run(_serve, location, address, once):
        raise failure


async def _serve(location: Location, address: str, once: bool) -> Failure | None:  # noqa: FBT001 - called by anyio.run
    """Run until a signal, `once` or an error ends it. Return the error, if any."""
    async with anyio.create_task_group() as tasks:
        helper = Helper(location, address, tasks, once=once)
        tasks.start_soon(_end_on_signal, tasks)
        tasks.start_soon(helper.work)
        await helper.listen()
    await helper.close()
    return helper.failure


async def _end_on_signal(tasks: TaskGroup) -> None:
    with anyio.open_signal_receiver(signal.SIGINT, signal.SIGTERM) as received:
        async for _ in received:
            tasks.cancel_scope.cancel()


class Helper:
    """Shows notifications and sends answers, one at a time. Reconnects when needed."""

    def __init__(self, location: Location, address: str, tasks: TaskGroup, *, once: bool) -> None:
        self.failure: Failure | None = None
        self._location = location
        self._tasks = tasks
        self._once = once
        self._desktop_bus = DesktopBus(address, self._pressed, self._gone)
        self._operator: OperatorConnection | None = None
        self._shown: dict[str, DesktopNotice] = {}  # open notifications, by key
        self._put, self._todo = anyio.create_memory_object_stream[Job](MOST)
        self._said = ""

    async def listen(self) -> None:
        """Receive notifications. Reconnect whenever the connection is lost."""
        pause_s = FIRST_PAUSE_S
        while True:
            try:
                async with connected(self._location) as operator:
                    await operator.listen(self._heard)
                    self._operator, pause_s = operator, FIRST_PAUSE_S
                    self._say(f"Showing notifications of {operator.address}. {CTRL_C}")
                    await operator.lost.wait()
                self._say(f"lost the connection to {operator.address}")
            except NotReachable as exc:
                self._say(exc.message)
            except Failure as exc:
                self.failure = exc
                self._tasks.cancel_scope.cancel()
            self._operator = None
            await anyio.sleep(pause_s)
            pause_s = min(pause_s * 2, LONGEST_PAUSE_S)

    async def work(self) -> None:
        async for job in self._todo:
            await job()

    async def close(self) -> None:
        """Remove open notifications, whose buttons would no longer work."""
        with anyio.move_on_after(HIDE_S, shield=True):
            for key in tuple(self._shown):
                await self._desktop_bus.hide(key)
        await self._desktop_bus.close()
        self._put.close()
        self._todo.close()

    def _heard(self, payload: bytes) -> None:
        if not any(word in payload for word in _HEARD):
            return
        try:
            news = _read(payload)
        except msgspec.DecodeError as exc:
            self._say(f"invalid notification from the daemon: {exc}")
            return
        if news.event_type == "DESKTOP_NOTICE" and news.notice is not None:
            self._do(partial(self._show, self._own(news.notice)))
        elif news.event_type in _ENDS and news.metadata.get("request_id") in self._shown:
            self._do(partial(self._withdraw, str(news.metadata["request_id"])))

    def _own(self, notice: DesktopNotice) -> DesktopNotice:
        """Return a notification, without buttons if the operator is an observer."""
        if not self._location.observes:
            return notice
        return msgspec.structs.replace(notice, actions=())

    def _do(self, job: Job) -> bool:
        """Queue a job. Return False if the queue is full."""
        try:
            self._put.send_nowait(job)
        except anyio.WouldBlock:
            self._say("too many notifications at once; some were dropped")
            return False
        return True

    async def _show(self, notice: DesktopNotice) -> None:
        keep(self._shown, notice)
        if not await self._up(notice.notification(review=bool(shutil.which(OPENER)))):
            return
        try:
            await self._ask(ShownCommand(delivery=notice.delivery))
        except Failure as exc:
            self._say(exc.message)

    async def _withdraw(self, key: str) -> None:
        # A notification whose button was pressed stays, to show the result.
        if self._shown.pop(key, None):
            await self._desktop_bus.hide(key)
            self._end_once()

    async def _review(self, notice: DesktopNotice) -> None:
        """Open the page of a request. The daemon refuses the link to observers."""
        try:
            reply = await self._ask(LinkCommand(delivery=notice.delivery))
        except Failure as exc:
            self._say(exc.message)
            return
        self._tasks.start_soon(_open, reply.link)

    async def _answer(self, notice: DesktopNotice, action: str) -> None:
        """Send an answer and show the result in the same notification.

        An approval includes the digest that was shown, so that it approves nothing else.
        """
        ids = (notice.request_id,)
        command: Review[ReviewDone] = DenyCommand(ids=ids, via=VIA)
        if action == "approve":
            command = ApproveCommand(ids=ids, digest=notice.digest, via=VIA)
        try:
            reply = await self._ask(command)
        except Failure as exc:
            await self._ask_again(notice, exc)
            return
        came = outcome(action, reply.results[0])
        about = "\n".join(filter(None, (came.detail, notice.summary)))
        await self._up(DesktopNotification(notice.key, came.summary, clip(about, MAX_BODY)))
        self._end_once()

    async def _ask_again(self, notice: DesktopNotice, exc: Failure) -> None:
        self._say(exc.message)
        keep(self._shown, notice)
        again = notice.notification(review=False)
        why = clip(f"{plain(exc.message)}\n{notice.summary}", MAX_BODY)
        await self._up(
            again._replace(summary="safetyd did not respond. Please answer again.", body=why)
        )

    async def _ask(self, call: Call[Answer]) -> Answer:
        if self._operator is None:
            raise NotReachable("not connected to safetyd; trying to reconnect")
        return await self._operator.ask(call)

    async def _up(self, notification: DesktopNotification) -> bool:
        """Show a notification. Return False if that fails."""
        try:
            await self._desktop_bus.show(notification)
        except Unavailable as exc:
            self._say(f"cannot show a notification: {exc}")
            return False
        return True

    def _pressed(self, key: str, action: str) -> None:
        notice = self._shown.get(key)
        if notice is None:
            return
        if action == DEFAULT:
            self._do(partial(self._review, notice))
        elif action in {"approve", "deny"} and self._do(partial(self._answer, notice, action)):
            del self._shown[key]

    def _gone(self, key: str) -> None:
        if self._shown.pop(key, None):
            self._end_once()

    def _end_once(self) -> None:
        if self._once:
            self._tasks.cancel_scope.cancel()

    def _say(self, words: str) -> None:
        """Print a line, unless it repeats the last one."""
        if words != self._said:
            click.echo(f"safetyd: {plain(words)}", err=True)
        self._said = words


async def _open(link: str) -> None:
    """Open a page in the browser."""
    await anyio.run_process([OPENER, link], check=False, stdout=None, stderr=None)
