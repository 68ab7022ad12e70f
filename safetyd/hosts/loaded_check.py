"""Compares the files that a host loads with those that an operator accepted.

Everything is compared at the first call of a session and before calls that load skills, commands or
agents; settings, which hosts obey at once, before every call. If something differs, the result is
added to the call's proposal, and the guard `host_files` asks for approval.
"""

import pwd
from collections import OrderedDict
from collections.abc import Awaitable, Callable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Final, TypeVar

import anyio
import anyio.to_thread
import msgspec

from safetyd.core.engine.engine_state import EngineState
from safetyd.core.events.event import Moment
from safetyd.core.guards.host_files import CONTEXT, HostFilesSeen
from safetyd.core.guards.host_places import HOST_LOADED, HOST_SETTINGS
from safetyd.core.text.path_globs import Globs, place
from safetyd.hosts.hook_event import Dialect, HookEvent
from safetyd.hosts.loaded_changes import AcceptedTexts, Changes
from safetyd.hosts.loaded_code import would_run
from safetyd.hosts.loaded_files import LOADING_TOOLS, VARIABLES, Base, bases
from safetyd.hosts.loaded_state import FolderState, LoadedReader, Unseen
from safetyd.hosts.tool_call import Fields
from safetyd.journal.mailbox import Mailbox

READ_S: Final = 4.0
MAX_SESSIONS: Final = 4096
MAX_READERS: Final = 4  # threads, because a file system may hang
DIFF: Final = "host_files_diff"
WOULD_RUN: Final = "would_run"

Result = TypeVar("Result")
# Returns the accepted states of these folders.
Accepted = Callable[[Dialect, Sequence[str]], Awaitable[Mapping[str, str]]]

_EDITS: Final = frozenset({"create_file", "edit_file"})
_PLACES: Final = Globs((*HOST_SETTINGS, *HOST_LOADED), ignore_case=True)


class HostUser(msgspec.Struct, frozen=True):
    """The user of a host: the Unix user, and the variables that name folders."""

    uid: int | None = None
    variables: Mapping[str, str] = {}

    def home(self) -> str:
        """Return the home folder. It may be looked up over the network."""
        named = self.variables.get("HOME", "")
        if named.startswith("/") or self.uid is None:
            return named
        try:
            return pwd.getpwuid(self.uid).pw_dir
        except KeyError:
            return ""


class LoadedCheck:
    """`accepted` reads the engine's state; `directory` is for the texts of accepted files."""

    def __init__(self, accepted: Accepted, directory: Path) -> None:
        self._accepted = accepted
        self._texts = AcceptedTexts(directory)
        self._reader = LoadedReader()
        self._threads = anyio.CapacityLimiter(MAX_READERS)
        # The settings of each session whose files were all as accepted.
        self._passed: OrderedDict[tuple[str, str], Mapping[str, str]] = OrderedDict()

    def started(self, agent: str, session: str) -> None:
        """Compare everything again: a session has started, or is continued."""
        self._passed.pop((agent, session), None)

    async def with_context(
        self, agent: str, dialect: Dialect, event: HookEvent, user: HostUser, fields: Fields
    ) -> Fields:
        """Return the fields of a proposal, and in its context what an operator must see."""
        added: Fields = {}
        if fields.get("type") in _EDITS:
            added |= _edit_would_run(fields)
        if not event.safetyd_dry_run:
            added |= await self._differing(agent, dialect, event, user)
        context = fields.get("context")
        return {**fields, "context": {**context, **added}} if isinstance(context, dict) else fields

    async def _differing(
        self, agent: str, dialect: Dialect, event: HookEvent, user: HostUser
    ) -> Fields:
        session = agent, event.session_id
        passed = self._passed.get(session)
        try:
            with anyio.fail_after(READ_S):
                if passed is not None and event.tool_name not in LOADING_TOOLS:
                    settings = await self._read(dialect, event.cwd, user, settings_only=True)
                    if _digests(settings) == passed:
                        return {}
                return await self._compared(session, dialect, event.cwd, user)
        except TimeoutError:
            why = "they could not be read in time"
        except Unseen as exc:
            why = str(exc)
        return await self._unseen(dialect, event, why)

    async def _compared(
        self, session: tuple[str, str], dialect: Dialect, cwd: str, user: HostUser
    ) -> Fields:
        states = await self._read(dialect, cwd, user)
        accepted = await self._accepted(dialect, [state.base.name for state in states])
        differing = [state for state in states if state.digest != accepted.get(state.base.name, "")]
        if not differing:
            self._passed[session] = _digests([state.settings for state in states])
            while len(self._passed) > MAX_SESSIONS:
                self._passed.popitem(last=False)
            await self._run(partial(self._store, dialect, states))
            return {}
        changes: Changes = await self._run(
            partial(self._texts.changes, dialect, differing, accepted)
        )
        seen = HostFilesSeen(
            states=_digests(differing), changed=tuple(changes.changed), runs=tuple(changes.runs)
        )
        return {
            CONTEXT: msgspec.to_builtins(seen),
            **({DIFF: changes.diff} if changes.diff else {}),
        }

    async def _unseen(self, dialect: Dialect, event: HookEvent, why: str) -> Fields:
        """Return that nothing can be compared, unless that was accepted for this session."""
        states = {event.cwd or "/": f"unseen in session {event.session_id}"}
        with suppress(TimeoutError), anyio.fail_after(READ_S):
            if await self._accepted(dialect, [*states]) == states:
                return {}
        return {CONTEXT: msgspec.to_builtins(HostFilesSeen(states=states, unseen=why))}

    async def _read(
        self, dialect: Dialect, cwd: str, user: HostUser, *, settings_only: bool = False
    ) -> list[FolderState]:
        def read() -> list[FolderState]:
            home = user.home()
            found = bases(dialect, cwd, home, user.variables)
            chosen = map(_with_settings, found) if settings_only else found
            return self._reader.states(chosen, cwd, home)

        return await self._run(read)

    async def _run(self, act: Callable[[], Result]) -> Result:
        return await anyio.to_thread.run_sync(act, abandon_on_cancel=True, limiter=self._threads)

    def _store(self, dialect: Dialect, states: Sequence[FolderState]) -> None:
        with suppress(OSError):  # then a difference is shown without the accepted text
            for state in states:
                self._texts.store(dialect, state)


def accepted_in(mailbox: Mailbox) -> Accepted:
    """Return the function that reads the accepted states from the engine."""

    async def accepted(dialect: Dialect, names: Sequence[str]) -> Mapping[str, str]:
        def states(state: EngineState, _moment: Moment) -> Mapping[str, str]:
            guard = state.guards.host_files
            return {name: found for name in names if (found := guard.state(dialect, name))}

        return await mailbox.ask(states)

    return accepted


def host_user(uid: int | None, headers: Mapping[str, str]) -> HostUser:
    """Return the user that a hook runs as, from the variables that it sent."""
    names = ("HOME", *VARIABLES)
    sent = {name: headers.get(f"Safetyd-{name.replace('_', '-')}", "") for name in names}
    return HostUser(uid, {name: value for name, value in sent.items() if value.startswith("/")})


def _with_settings(base: Base) -> Base:
    return base._replace(patterns=tuple(one for one in base.patterns if one.kind == "settings"))


def _digests(states: Sequence[FolderState]) -> dict[str, str]:
    return {state.base.name: state.digest for state in states}


def _edit_would_run(fields: Fields) -> Fields:
    """Return what a host would run after an edit of files that it loads."""
    paths, context = fields.get("paths"), fields.get("context")
    diff = context.get("diff") if isinstance(context, dict) else None
    if not isinstance(paths, list) or not isinstance(diff, str):
        return {}
    added = "\n".join(line[1:] for line in diff.splitlines() if line[:1] == "+")
    loaded = [path for path in map(str, paths) if _PLACES.find(place(path, ""))]
    found = [words for path in loaded for words in would_run(path, added)]
    return {WOULD_RUN: found} if found else {}
