"""The process that sends to chat services: `python -m safetyd.notify.apprise.apprise_process`.

It reads messages as JSON. For each message it prints a line as soon as the service has responded.
The channel may kill it at any time; otherwise it exits when all messages are done.
"""

import os
import signal
import sys
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, as_completed
from typing import TYPE_CHECKING, BinaryIO, Final, Literal

import msgspec

if TYPE_CHECKING:
    from apprise import Apprise

LIFE_S: Final = 30  # longer than the channel waits for it
MAX_BYTES: Final = 1024 * 1024
MAX_ANSWER: Final = 200

Outcome = Literal["taken", "refused", "unknown", "no apprise"]


class AppriseMessage(msgspec.Struct, frozen=True, kw_only=True):
    """A message to one address."""

    number: int
    url: str
    title: str
    body: str


class TargetAnswer(msgspec.Struct, frozen=True):
    number: int
    outcome: Outcome


def main() -> None:
    signal.alarm(LIFE_S)
    out = _keep_stdout()
    messages = msgspec.json.decode(sys.stdin.buffer.read(MAX_BYTES), type=list[AppriseMessage])
    tell(messages, lambda answer: _write(out, answer))


def tell(messages: Sequence[AppriseMessage], answer: Callable[[TargetAnswer], None]) -> None:
    """Send all messages in parallel, so that a hanging service does not delay the others."""
    try:
        services = {message.number: _service(message.url) for message in messages}
    except ImportError:
        services = {}
        for message in messages:
            answer(TargetAnswer(message.number, "no apprise"))
    with ThreadPoolExecutor(len(messages)) as threads:
        calls = [
            threads.submit(_told, message, services[message.number])
            for message in messages
            if message.number in services
        ]
        for call in as_completed(calls):
            answer(call.result())


def _service(url: str) -> "Apprise | None":
    """Return the service of an address, or None if apprise does not support it."""
    from apprise import Apprise, AppriseAsset  # noqa: PLC0415 - takes half a second

    asset = AppriseAsset(
        app_id="safetyd",
        app_desc="safetyd",
        app_url="",
        async_mode=False,
        http_redirects=False,
        image_url_logo="",  # recipients' programs would load the logo from a third party
        image_url_mask="",
        interpret_emojis=False,
        interpret_escapes=False,
        secure_logging=True,
        service_timeout=0,  # with a limit, all services would share six threads
    )
    service = Apprise.instantiate(url, asset=asset)
    if service is None:
        return None
    service.request_rate_per_sec = 0  # the worker limits the rate
    group = Apprise(asset=asset)
    group.add(service)
    return group


def _told(message: AppriseMessage, service: "Apprise | None") -> TargetAnswer:
    from apprise import NotifyFormat  # noqa: PLC0415 - see above

    if service is None:
        return TargetAnswer(message.number, "unknown")
    try:
        taken = bool(service.notify(message.body, message.title, body_format=NotifyFormat.TEXT))
    except Exception:  # noqa: BLE001 - any plugin's error; it may contain secrets
        taken = False
    return TargetAnswer(message.number, "taken" if taken else "refused")


def _keep_stdout() -> BinaryIO:
    """Return the stream for answers; discard the output of plugins."""
    out = os.fdopen(os.dup(1), "wb", buffering=0)
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)
    return out


def _write(out: BinaryIO, answer: TargetAnswer) -> None:
    out.write(msgspec.json.encode(answer) + b"\n")


if __name__ == "__main__":
    main()
