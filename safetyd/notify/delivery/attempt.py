"""One try to send a message: it ends in time, and whatever happens is one of four outcomes."""

import logging
import math
import re
from typing import Final

import anyio

from safetyd.notify.channel import Channel, Misconfigured, Receipt, Unavailable, Undeliverable
from safetyd.notify.message import Notice

ERROR_CHARS: Final = 300

Outcome = Receipt | Unavailable | Undeliverable | Misconfigured

# No longer scheme is known, and the pattern must not go back and forth in a long word.
_after_host = re.compile(r"(\b\w[\w+.-]{0,19}://)(?:[^\s/?#]*@)?([^\s/?#@]*)\S*").sub

log = logging.getLogger("safetyd")


async def attempt(channel: Channel, notice: Notice) -> Outcome:
    """Return the receipt, or the error that the channel raised or would have had to raise."""
    deadline_s = channel.limits.deadline_s
    try:
        with anyio.fail_after(deadline_s):
            return await channel.send(notice)
    except TimeoutError:
        return Unavailable(f"no answer within {deadline_s:g} s", ambiguous=True)
    except (Unavailable, Undeliverable, Misconfigured) as exc:
        return exc
    except anyio.get_cancelled_exc_class() as exc:
        if anyio.current_effective_deadline() == -math.inf:
            raise
        # Nobody cancelled this try: a library let out what it had cancelled inside.
        return _unexpected(channel, exc)
    except Exception as exc:  # noqa: BLE001 - whatever a library raises, the others go on
        return _unexpected(channel, exc)


def _unexpected(channel: Channel, exc: BaseException) -> Unavailable:
    """Take an error for one that may pass. Only its type is told: its words may be secret."""
    kind = type(exc).__name__
    log.error("channel %s raised %s", channel.name, kind)
    return Unavailable(f"unexpected {kind}", ambiguous=True)


def one_line(error: object) -> str:
    """Return an error as a short line, with addresses cut after the host: secrets may follow."""
    letters = str(error)[: 10 * ERROR_CHARS]
    printable = "".join(letter if letter.isprintable() else " " for letter in letters)
    return _after_host(r"\1\2", " ".join(printable.split()))[:ERROR_CHARS]
