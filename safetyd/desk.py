"""What people reach: commands that change something and questions that do not."""

import math
from collections.abc import Callable, Mapping
from typing import Final, Protocol

import anyio
import anyio.abc
import msgspec

from safetyd.bus.codec import Fields, Malformed, read_command
from safetyd.bus.post import Post
from safetyd.core.engine import Engine
from safetyd.core.events import (
    Forgotten,
    Moment,
    Paused,
    PersonSeen,
    SafeModeEntered,
    SafeModeExited,
    Unpaused,
)
from safetyd.core.guards.fleet import EVERYBODY
from safetyd.core.guards.safe_mode import Exit
from safetyd.core.proposal import is_token
from safetyd.halt import Halt
from safetyd.letters import Carried, CommandLetter, EventLetter, Plan, QuestionLetter
from safetyd.mailbox import Mailbox
from safetyd.views import agents, anomalies, breakers, budgets, explain, safe_mode, status, types

WRITTEN_S: Final = 1.0
NAMED: Final = 10  # of those in safe mode, in a sentence
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


class PauseCommand(msgspec.Struct):
    agent: str
    reason: str = ""


class EnterCommand(msgspec.Struct):
    agent: str | None = None
    reason: str = ""


class ExitCommand(msgspec.Struct):
    agent: str | None = None
    all: bool = False
    force: bool = False
    reason: str = ""


class ExplainQuestion(msgspec.Struct):
    id: str


class SafeModeQuestion(msgspec.Struct):
    agent: str | None = None


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
            case str(command) if command in _PLANS:
                self._carry_out(_PLANS[command](by, fields), reply)
            case command:
                known = ", ".join(("stop", "resume", "reset", "reload", *_PLANS))
                raise Refusal("unknown_command", f"{command!r} is not one of {known}")

    def _question(self, fields: Fields, reply: bytes) -> None:
        match fields["command"]:
            case "status":
                problem = self._around.facts()["problem"]
                if problem:
                    # The engine's state is not durable now, and who asks should not wait.
                    raise Refusal("unavailable", f"nothing is allowed: {problem}")
                self._ask(reply, self._status)
            case str(command) if command in _VIEWS:
                self._ask(reply, _VIEWS[command])
            case "safe_mode":
                agent = _convert(fields, SafeModeQuestion).agent
                _check_agent(agent)
                self._ask(reply, lambda e, m: safe_mode(e, m, agent))
            case "explain":
                question = _convert(fields, ExplainQuestion)
                self._tasks.start_soon(self._explain, question.id, reply)
            case command:
                known = ", ".join(("status", "safe_mode", "explain", *_VIEWS))
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

    def _carry_out(self, plan: Plan, reply: bytes) -> None:
        self._mailbox.put(CommandLetter(plan, lambda answer: self._post.answer(reply, answer)))

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
        self._post.answer(reply, _refused(code, error))


def _pause(by: str, fields: Fields) -> Plan:
    command = _convert(fields, PauseCommand)
    _check_agent(command.agent)

    def plan(_engine: Engine, moment: Moment) -> Carried:
        paused = Paused(
            at=moment.at,
            t=moment.t,
            agent=command.agent,
            source=OPERATOR,
            by=by,
            reason=command.reason,
        )
        return Carried((paused,), {"ok": True})

    return plan


def _unpause(by: str, fields: Fields) -> Plan:
    command = _convert(fields, PauseCommand)
    _check_agent(command.agent)

    def plan(engine: Engine, moment: Moment) -> Carried:
        sources = tuple(pause.source for pause in engine.guards.pause.pauses(command.agent))
        unpaused = Unpaused(
            at=moment.at,
            t=moment.t,
            agent=command.agent,
            sources=sources,
            by=by,
            reason=command.reason,
        )
        return Carried((unpaused,) if sources else (), {"ok": True, "cleared": sources})

    return plan


def _enter(by: str, fields: Fields) -> Plan:
    command = _convert(fields, EnterCommand)
    _check_kernel(command.agent)

    def plan(_engine: Engine, moment: Moment) -> Carried:
        entered = SafeModeEntered(
            at=moment.at, t=moment.t, by=by, agent=_named(command.agent), reason=command.reason
        )
        return Carried((entered,), {"ok": True})

    return plan


def _exit(by: str, fields: Fields) -> Plan:
    command = _convert(fields, ExitCommand)
    _check_kernel(command.agent)
    if command.force and not command.reason.strip():
        raise Refusal("invalid", "force needs a reason")

    def plan(engine: Engine, moment: Moment) -> Carried:
        found = engine.guards.safe_mode.plan_exit(
            command.agent, moment.t, all_=command.all, force=command.force
        )
        if found.error:
            return Carried((), _held(found))
        exits = [
            SafeModeExited(
                at=moment.at,
                t=moment.t,
                by=by,
                agent=_named(agent),
                reason=command.reason,
                forced=command.force,
            )
            for agent in found.agents
        ]
        return Carried(exits, {"ok": True, "left": found.agents})

    return plan


def _ack(by: str, _fields: Fields) -> Plan:
    def plan(_engine: Engine, moment: Moment) -> Carried:
        return Carried((PersonSeen(at=moment.at, t=moment.t, by=by, how="ack"),), {"ok": True})

    return plan


# What depends on the engine's state, or changes nothing else.
_PLANS: Final[Mapping[str, Callable[[str, Fields], Plan]]] = {
    "pause": _pause,
    "unpause": _unpause,
    "safe_mode_enter": _enter,
    "safe_mode_exit": _exit,
    "ack": _ack,
}
_VIEWS: Final[Mapping[str, Callable[[Engine, Moment], Mapping[str, object]]]] = {
    "agents": agents,
    "budgets": budgets,
    "breakers": breakers,
    "anomalies": anomalies,
    "types": types,
}


def _held(found: Exit) -> dict[str, object]:
    """Say why safe mode is not left."""
    if found.error == "several":
        some = ", ".join(found.agents[:NAMED])
        error = f"{len(found.agents)} are in safe mode ({some}): name one of them, or all"
        return {**_refused("several", error), "agents": found.agents}
    left_ms = found.cooldown_remaining_ms
    wait_s = math.ceil(left_ms / 1000)
    error = f"safe mode can be left in {wait_s} s; before that, only by force and with a reason"
    return {**_refused("cooling_down", error), "cooldown_remaining_ms": left_ms}


def _refused(code: str, error: str) -> dict[str, object]:
    return {"ok": False, "error": error, "code": code}


def _named(kernel: str | None) -> str | None:
    """Return the agent whose kernel it is; None is everybody's."""
    return None if kernel == EVERYBODY else kernel


def _check_kernel(name: str | None) -> None:
    _check_agent(_named(name))


def _check_agent(agent: str | None) -> None:
    if agent is not None and not is_token(agent):
        raise Refusal("invalid", f"{agent!r} is not a name of an agent")
