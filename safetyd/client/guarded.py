"""What a guarded body raises when it may not run, and what is reported when it raised."""

import time
import traceback
from typing import Final

from safetyd.core.decision import Decision

MAX_ERROR_CHARS: Final = 8192


class Blocked(Exception):
    """The body did not run: it was not allowed, or a person has yet to say so."""

    def __init__(self, decision: Decision) -> None:
        super().__init__(decision.reason or decision.cause)
        self.decision = decision


class Stopwatch:
    """Milliseconds since it was made."""

    def __init__(self) -> None:
        self._began_s = time.perf_counter()

    @property
    def ms(self) -> float:
        return round((time.perf_counter() - self._began_s) * 1000, 3)


def error_of(exc: BaseException) -> str:
    """Return type and message of `exc`, whatever its message is made of."""
    return printable("".join(traceback.format_exception_only(exc)).strip())


def printable(error: str) -> str:
    """Return `error` such that the daemon takes it: an error must not be lost for its length."""
    clean = error.replace("\0", "").encode(errors="backslashreplace").decode()
    return clean[:MAX_ERROR_CHARS]
