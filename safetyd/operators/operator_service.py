"""The bus subjects of operators: commands, answers and queries."""

from functools import partial
from typing import Protocol

import msgspec

from safetyd.bus.codec import Malformed, read_command, rejected
from safetyd.bus.publisher import Publisher
from safetyd.bus.question_limits import QuestionLimits
from safetyd.operators.command_runner import CommandRunner
from safetyd.operators.contract.question import Question, Verb
from safetyd.operators.declarations import read_call
from safetyd.operators.handlers import Asker
from safetyd.operators.replies import CommandRefused, refused, too_often


class MaySend(Protocol):
    def __call__(self, name: str, *, command: bool) -> bool: ...


class OperatorService:
    """The control, review and query subjects. The last token of a subject is the sender.

    `publisher` is muted while another daemon may be writing the journal. `always` is not: it sends
    refusals, and answers that do not depend on the journal.
    """

    def __init__(
        self,
        publisher: Publisher,
        always: Publisher,
        runner: CommandRunner,
        question_limits: QuestionLimits,
        may_send: MaySend,
    ) -> None:
        self._publisher = publisher
        self._always = always
        self._runner = runner
        self._question_limits = question_limits
        self._may_send = may_send

    def control(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Run a command. A stop is in force before this returns."""
        self._run("control", subject, reply, payload)

    def review(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Apply an operator's answers to requests."""
        self._run("review", subject, reply, payload)

    def query(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Answer a query, after pending commands and within the sender's limits."""
        by = _by(subject)
        wait = self._question_limits.admit(by, len(payload), lambda: _protects(payload))
        if wait > 0:
            self._too_often(by, reply, wait)
        else:
            self._run("query", subject, reply, payload)

    def _too_often(self, by: str, reply: bytes, wait: float) -> None:
        if by not in self._question_limits.flood_gate.shut:
            self._always.answer(reply, too_often(by, wait))

    def _run(self, verb: Verb, subject: bytes, reply: bytes, payload: bytes) -> None:
        by = _by(subject)
        if not self._may_send(by, command=verb != "query"):
            self._no(reply, "no_key", f"{by} has no key that permits this; it was revoked")
            return
        try:
            call = read_call(verb, read_command(payload))
            publisher = self._always if call.always else self._publisher
            self._runner.run(call, Asker(by, partial(publisher.answer, reply)))
        except Malformed as exc:
            self._no(reply, "malformed", str(exc))
        except msgspec.ValidationError as exc:
            self._no(reply, "invalid", rejected(exc))
        except CommandRefused as exc:
            self._no(reply, exc.code, str(exc))

    def _no(self, reply: bytes, code: str, error: str) -> None:
        self._always.answer(reply, refused(code, error))


def _protects(payload: bytes) -> bool:
    """Return True if the query is answered under any load."""
    try:
        question = read_call("query", read_command(payload))
    except (Malformed, msgspec.ValidationError, CommandRefused):
        return False
    return isinstance(question, Question) and question.protecting


def _by(subject: bytes) -> str:
    return subject[subject.rfind(b".") + 1 :].decode("ascii", "replace")
