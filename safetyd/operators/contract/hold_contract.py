"""Holding agents back and letting them go: stops, pauses, safe mode, resets, and presence."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import Meta

from safetyd.core.events.guard_events import PauseSource
from safetyd.core.guards.kernel import State
from safetyd.core.guards.safe_mode import Hold, SafeModeStatus
from safetyd.operators.contract.question import Command, Question
from safetyd.operators.replies import Done

Via = Annotated[str, Meta(max_length=64)]  # the way of a command: nothing for the bus, or "web"


class StopDone(Done, frozen=True, kw_only=True):
    """The stop holds. `journalled` is false if a restart now would forget it.

    It is true once the journal has it or, while that cannot be written, the file in reserve.
    """

    epoch: int
    journalled: bool


class StopCommand(Command[StopDone], frozen=True, tag="stop"):
    """Stop everybody, or one agent.

    The stop is in force before the answer leaves.
    """

    reason: str = ""
    agent: str | None = None
    via: Via = ""


class ResumeDone(Done, frozen=True, kw_only=True):
    """Which sources were cleared, and which still stop."""

    cleared: tuple[str, ...]
    left: tuple[str, ...]


class ResumeCommand(Command[ResumeDone], frozen=True, tag="resume"):
    """Clear a stop, of everybody or of one agent.

    It clears what operators and anomalies stopped. A stop file stays until it is removed.
    """

    reason: str = ""
    agent: str | None = None
    via: Via = ""
    all_except: str | None = None  # this agent stays stopped; everyone else may go on


class PauseCommand(Command[Done], frozen=True, tag="pause"):
    """Pause one agent: it may do nothing, not even read."""

    agent: str
    reason: str = ""
    via: Via = ""


class Pausing(msgspec.Struct, frozen=True, kw_only=True):
    """One of the reasons why an agent is paused."""

    agent: str
    source: PauseSource
    by: str
    reason: str
    since: datetime
    request: str | None = None  # pending, whose approval ends the pause


class UnpauseDone(Done, frozen=True, kw_only=True):
    """Which sources were cleared."""

    cleared: tuple[str, ...]


class UnpauseCommand(Command[UnpauseDone], frozen=True, tag="unpause"):
    """Unpause an agent, whatever paused it."""

    agent: str
    reason: str = ""
    via: Via = ""


class EnterCommand(Command[Done], frozen=True, tag="safe_mode_enter"):
    """Put an agent, or everybody, into safe mode.

    Everybody is meant without a name or by the name "*". In safe mode only reading is allowed.
    """

    agent: str | None = None
    reason: str = ""
    via: Via = ""


class SafeModeLeft(Done, frozen=True, kw_only=True):
    """Which kernels left safe mode, everybody's as "*".

    `more` are still in it, because a command leaves no more than one batch of the journal can take:
    say it again. `still` are the first kernels that go on holding those whom the command named.
    """

    left: tuple[str, ...]
    more: int
    still: tuple[str, ...]


class ExitCommand(Command[SafeModeLeft], frozen=True, tag="safe_mode_exit"):
    """Leave safe mode.

    Of the agent named, of the only one in it, or of `all`. Before the cooldown is over that
    takes `force` and a reason.
    """

    agent: str | None = None
    all: bool = False
    force: bool = False
    reason: str = ""
    via: Via = ""


class AckCommand(Command[Done], frozen=True, tag="ack"):
    """Record that an operator is present."""


class ResetCommand(Command[Done], frozen=True, tag="reset"):
    """Forget an agent's loop visits, rounds and cooldowns.

    With a session the visits and rounds there and all cooldowns, with an episode only its visits.
    """

    agent: str
    session: str | None = None
    episode: str | None = None
    via: Via = ""


class Reloaded(Done, frozen=True, kw_only=True):
    next_start: tuple[str, ...]  # sections whose change waits for the next start


class ReloadCommand(Command[Reloaded], frozen=True, tag="reload"):
    """Load the configuration and keys again, all or nothing."""


class SafeModeShown(SafeModeStatus, frozen=True, kw_only=True):
    """`agents` are the kernels in safe mode, everybody's as "*"; `holds` are the first few."""

    holds: tuple[Hold, ...]


class SafeModeAnswer(Done, frozen=True, kw_only=True):
    """`agents` are the kernels in safe mode, everybody's as "*"; `holds` are the first few."""

    active: bool
    state: State
    consecutive_errors: int
    threshold: int
    since: datetime | None
    cooldown_remaining_ms: int
    agent: str | None
    agents: tuple[str, ...]
    holds: tuple[Hold, ...]


class SafeModeQuestion(Question[SafeModeAnswer], frozen=True, tag="safe_mode"):
    """Show the state of safe mode, of one agent or of all."""

    paths = ("/safe-mode",)
    agent: str | None = None
