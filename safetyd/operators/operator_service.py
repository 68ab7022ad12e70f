"""What people reach on the bus: commands that change something and questions that do not."""

from collections.abc import Callable
from functools import partial

import msgspec

from safetyd.bus.codec import Malformed, read_command, rejected
from safetyd.bus.publisher import Publisher
from safetyd.bus.question_limits import QuestionLimits
from safetyd.operators.command_runner import CommandRunner
from safetyd.operators.commands import CommandRefused
from safetyd.operators.replies import refused, too_often


class OperatorService:
    """The control, review and query subjects. The last part of a subject is who speaks."""

    def __init__(
        self, publisher: Publisher, runner: CommandRunner, question_limits: QuestionLimits
    ) -> None:
        self._publisher = publisher
        self._runner = runner
        self._question_limits = question_limits

    def control(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Carry out a command. A stop holds before this returns."""
        told = partial(self._publisher.answer, reply)
        self._answered(
            reply, lambda: self._runner.command(_by(subject), read_command(payload), told)
        )

    def review(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Take a person's answers to requests."""
        told = partial(self._publisher.answer, reply)
        self._answered(
            reply, lambda: self._runner.review(_by(subject), read_command(payload), told)
        )

    def query(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Answer a question, after whatever changes something and within the asker's share."""
        by, told = _by(subject), partial(self._publisher.answer, reply)
        wait = self._question_limits.admit(by, len(payload), lambda: _command(payload))
        if wait > 0:
            self._too_often(by, reply, wait)
            return
        self._answered(reply, lambda: self._runner.question(by, read_command(payload), told))

    def _too_often(self, by: str, reply: bytes, wait: float) -> None:
        if by not in self._question_limits.flood_gate.shut:
            self._publisher.answer(reply, too_often(by, wait))

    def _answered(self, reply: bytes, act: Callable[[], None]) -> None:
        try:
            act()
        except Malformed as exc:
            self._no(reply, "malformed", str(exc))
        except msgspec.ValidationError as exc:
            self._no(reply, "invalid", rejected(exc))
        except CommandRefused as exc:
            self._no(reply, exc.code, str(exc))

    def _no(self, reply: bytes, code: str, error: str) -> None:
        self._publisher.answer(reply, refused(code, error))


def _command(payload: bytes) -> object:
    """Return the name of a query, None if it cannot be read."""
    try:
        return read_command(payload)["command"]
    except Malformed:
        return None


def _by(subject: bytes) -> str:
    return subject[subject.rfind(b".") + 1 :].decode("ascii", "replace")
