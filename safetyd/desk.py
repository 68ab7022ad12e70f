"""What people reach: commands that change something and questions that do not."""

from collections.abc import Callable, Mapping
from typing import Final, Protocol

import anyio
import anyio.abc
import msgspec

from safetyd.bus.codec import Fields, Malformed, read_command
from safetyd.bus.post import Post
from safetyd.core.engine import Engine
from safetyd.core.events import Forgotten, Moment
from safetyd.core.proposal import is_token
from safetyd.halt import Halt
from safetyd.letters import EventLetter, QuestionLetter
from safetyd.mailbox import Mailbox
from safetyd.views import agents, explain, status

WRITTEN_S: Final = 1.0
OPERATOR: Final = "operator"

_convert = msgspec.convert


class Refusal(Exception):
    """A command that is not carried out; `code` is for machines."""

    def __init__(self, code: str, error: str) -> None:
        super().__init__(error)
        self.code = code


class StopCommand(msgspec.Struct):
    reason: str = ""
    agent: str | None = None


class ResetCommand(msgspec.Struct):
    agent: str
    session: str | None = None
    episode: str | None = None


class ExplainQuestion(msgspec.Struct):
    id: str


class Surroundings(Protocol):
    """What the desk asks of the daemon around the engine."""

    def facts(self) -> Mapping[str, object]:
        """Return what `status` tells beside the engine's state."""
        ...

    async def reload(self, by: str) -> list[str]:
        """Take on the configuration and keys as they are now; return what is wrong with them."""
        ...

    async def search(self, id_: str) -> list[bytes]:
        """Return the audit lines that speak of a proposal, newest last."""
        ...


class Desk:
    """The control and query subjects."""

    def __init__(
        self,
        post: Post,
        mailbox: Mailbox,
        halt: Halt,
        around: Surroundings,
        tasks: anyio.abc.TaskGroup,
    ) -> None:
        self._post = post
        self._mailbox = mailbox
        self._halt = halt
        self._around = around
        self._tasks = tasks

    def control(self, subject: bytes, reply: bytes, payload: bytes) -> None:
        """Carry out a command. A stop holds before this returns."""
        by = subject[subject.rfind(b".") + 1 :].decode("ascii", "replace")
        self._answered(reply, lambda: self._command(by, read_command(payload), reply))

    def query(self, _subject: bytes, reply: bytes, payload: bytes) -> None:
        self._answered(reply, lambda: self._question(read_command(payload), reply))

    def _answered(self, reply: bytes, act: Callable[[], None]) -> None:
        try:
            act()
        except Malformed as exc:
            self._no(reply, "malformed", str(exc))
        except msgspec.ValidationError as exc:
            self._no(reply, "invalid", str(exc))
        except Refusal as exc:
            self._no(reply, exc.code, str(exc))

    def _command(self, by: str, fields: Fields, reply: bytes) -> None:
        match fields["command"]:
            case "stop":
                self._stop(by, _convert(fields, StopCommand), reply)
            case "resume":
                self._resume(by, _convert(fields, StopCommand), reply)
            case "reset":
                self._reset(by, _convert(fields, ResetCommand), reply)
            case "reload":
                self._tasks.start_soon(self._reload, by, reply)
            case command:
                known = "stop, resume, reset, reload"
                raise Refusal("unknown_command", f"{command!r} is not one of {known}")

    def _question(self, fields: Fields, reply: bytes) -> None:
        match fields["command"]:
            case "status":
                problem = self._around.facts()["problem"]
                if problem:
                    # The engine's state is not durable now, and who asks should not wait.
                    raise Refusal("unavailable", f"nothing is allowed: {problem}")
                self._ask(reply, self._status)
            case "agents":
                self._ask(reply, agents)
            case "explain":
                question = _convert(fields, ExplainQuestion)
                self._tasks.start_soon(self._explain, question.id, reply)
            case command:
                known = "status, agents, explain"
                raise Refusal("unknown_command", f"{command!r} is not one of {known}")

    def _stop(self, by: str, command: StopCommand, reply: bytes) -> None:
        _check_agent(command.agent)
        written = anyio.Event()
        epoch = self._halt.stop(OPERATOR, by, command.reason, command.agent, written.set)
        self._tasks.start_soon(self._confirm, reply, epoch, written)

    async def _confirm(self, reply: bytes, epoch: int, written: anyio.Event) -> None:
        with anyio.move_on_after(WRITTEN_S):
            await written.wait()
        self._yes(reply, epoch=epoch, journalled=written.is_set())

    def _resume(self, by: str, command: StopCommand, reply: bytes) -> None:
        _check_agent(command.agent)
        held = [s for s in self._halt.latch.stops if s.agent == command.agent]
        sources = [s.source for s in held if s.source in (OPERATOR, "anomaly")]
        left = [s.source for s in held if s.source not in sources]

        def done() -> None:
            self._yes(reply, cleared=sources, left=left)

        if sources:
            self._halt.resume(sources, by, command.reason, command.agent, done)
        else:
            done()

    def _reset(self, by: str, command: ResetCommand, reply: bytes) -> None:
        _check_agent(command.agent)

        def made(_engine: Engine, moment: Moment) -> Forgotten:
            return Forgotten(
                at=moment.at,
                t=moment.t,
                agent=command.agent,
                by=by,
                session=command.session,
                episode=command.episode,
            )

        self._mailbox.put(EventLetter(made, lambda: self._yes(reply)))

    async def _reload(self, by: str, reply: bytes) -> None:
        errors = await self._around.reload(by)
        if errors:
            self._no(reply, "config_rejected", "\n".join(errors))
        else:
            self._yes(reply, next_start=self._around.facts()["next_start"])

    def _status(self, engine: Engine, moment: Moment) -> dict[str, object]:
        return {**self._around.facts(), **status(engine, moment)}

    def _ask(self, reply: bytes, ask: Callable[[Engine, Moment], Mapping[str, object]]) -> None:
        def told(answer: object) -> None:
            self._post.answer(reply, answer)

        self._mailbox.put(QuestionLetter(lambda e, m: {"ok": True, **ask(e, m)}, told))

    async def _explain(self, id_: str, reply: bytes) -> None:
        try:
            found = explain(await self._around.search(id_), id_)
        except OSError as exc:
            self._no(reply, "unreadable", f"the audit files cannot be read: {exc}")
            return
        if found is None:
            self._no(reply, "not_found", f"no decision with id {id_!r} is in the audit files")
        else:
            self._post.answer(reply, {"ok": True, **found})

    def _yes(self, reply: bytes, **content: object) -> None:
        self._post.answer(reply, {"ok": True, **content})

    def _no(self, reply: bytes, code: str, error: str) -> None:
        self._post.answer(reply, {"ok": False, "error": error, "code": code})


def _check_agent(agent: str | None) -> None:
    if agent is not None and not is_token(agent):
        raise Refusal("invalid", f"{agent!r} is not a name of an agent")
