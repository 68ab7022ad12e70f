"""Restricting and releasing agents: stops, pauses, safe mode, resets and presence."""

from datetime import datetime
from typing import Annotated

import msgspec
from msgspec import UNSET, Meta, UnsetType

from safetyd.core.events.guard_events import PauseSource
from safetyd.core.guards.kernel import State
from safetyd.core.guards.safe_mode import Hold, SafeModeStatus
from safetyd.operators.contract.question import Command, Question
from safetyd.operators.replies import Done

Via = Annotated[str, Meta(max_length=64)]  # how the command was sent: empty for the bus, or "web"


class StopDone(Done, frozen=True, kw_only=True, omit_defaults=True):
    """The stop is in force. `journalled` is false if a restart now would lose it.

    It is true once the stop is in the journal or, if that cannot be written, in the reserve file.
    With several daemons, only the journal counts for the one that decides.

    `held` is true if the stop is stored here, but not in the journal: no daemon decides now, or it
    cannot be reached from here. It is recorded as soon as a daemon decides.
    """

    epoch: int
    journalled: bool
    held: bool = False


class StopCommand(Command[StopDone], frozen=True, tag="stop"):
    """Stop all agents, or one.

    The stop is in force before the answer is sent.
    """

    always = True
    reason: str = ""
    agent: str | None = None
    via: Via = ""


class ResumeDone(Done, frozen=True, kw_only=True, omit_defaults=True):
    """The sources that were cleared, and the stops that remain."""

    cleared: tuple[str, ...]
    left: tuple[str, ...]
    absent: tuple[str, ...] = ()  # Daemons whose stops were cleared because they are not running.


class ResumeCommand(Command[ResumeDone], frozen=True, tag="resume"):
    """Clear a stop of all agents, or of one.

    Stops by operators and anomalies are cleared. A stop file remains in force until it is removed,
    unless it belongs to another daemon that is not running.
    """

    reason: str = ""
    agent: str | None = None
    via: Via = ""
    all_except: str | None = None  # This agent stays stopped; all others resume.


class PauseCommand(Command[Done], frozen=True, tag="pause"):
    """Pause one agent: all of its actions are blocked, even reading."""

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
    request: str | None = None  # The pending request whose approval ends the pause.


class UnpauseDone(Done, frozen=True, kw_only=True):
    """The sources that were cleared."""

    cleared: tuple[str, ...]


class UnpauseCommand(Command[UnpauseDone], frozen=True, tag="unpause"):
    """End all pauses of an agent."""

    agent: str
    reason: str = ""
    via: Via = ""


class EnterCommand(Command[Done], frozen=True, tag="safe_mode_enter"):
    """Put an agent, or all agents, into safe mode.

    No name, or "*", means all agents. In safe mode only reading is allowed.
    """

    agent: str | None = None
    reason: str = ""
    via: Via = ""


class SafeModeLeft(Done, frozen=True, kw_only=True):
    """The kernels that left safe mode; "*" is the kernel of all agents.

    `more` is how many are still in safe mode. One command can end only as many as fit into one
    journal batch, so repeat the command. `still` lists the first kernels that still restrict the
    named agents.
    """

    left: tuple[str, ...]
    more: int
    still: tuple[str, ...]


class ExitCommand(Command[SafeModeLeft], frozen=True, tag="safe_mode_exit"):
    """Leave safe mode.

    Name an agent or use `all`. The name is optional if only one agent is in safe mode. Before the
    cooldown ends, this needs `force` and a reason.
    """

    agent: str | None = None
    all: bool = False
    force: bool = False
    reason: str = ""
    via: Via = ""


class AckCommand(Command[Done], frozen=True, tag="ack"):
    """Record that an operator is present."""


class ResetCommand(Command[Done], frozen=True, tag="reset"):
    """Clear an agent's loop visits, rounds and cooldowns.

    With a session, clear its visits and rounds and all cooldowns; with an episode, only its visits.
    """

    agent: str
    session: str | None = None
    episode: str | None = None
    via: Via = ""


class Reloaded(Done, frozen=True, kw_only=True):
    next_start: tuple[str, ...]  # Sections whose change takes effect at the next start.
    # Settings that cannot work at the moment, such as a channel without its password file.
    warnings: tuple[str, ...] | UnsetType = UNSET


class ReloadCommand(Command[Reloaded], frozen=True, tag="reload"):
    """Reload the configuration and keys, all or nothing."""


class SafeModeShown(SafeModeStatus, frozen=True, kw_only=True):
    """`agents` are the kernels in safe mode, "*" for all agents; `holds` describes the first."""

    holds: tuple[Hold, ...]


class SafeModeAnswer(Done, frozen=True, kw_only=True):
    """`agents` are the kernels in safe mode, "*" for all agents; `holds` describes the first."""

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
    """Show the state of safe mode, for one agent or all."""

    paths = ("/safe-mode",)
    agent: str | None = None
