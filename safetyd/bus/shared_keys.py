"""Shares the keys of several daemons on an external bus, in both directions.

The files in `keys` remain what a daemon uses, so it also starts while the bucket cannot be read.
`keys/shared.json` records what the files last had in common with the bucket. It is how a daemon
knows whether a key was added here or revoked elsewhere.
"""

import logging
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime
from pathlib import Path
from typing import Final, NamedTuple

import anyio
import msgspec
import nats.errors
import nats.js.errors

from safetyd.bus.key_bucket import KeyBucket
from safetyd.bus.key_entry import REVOKED, DaemonKey, KeyEntry, NameKeys, sealed
from safetyd.bus.key_files import LOCALS, SECRETS, EntryName, KeyFiles, entry_name
from safetyd.bus.key_merge import digest, merged, merged_secret
from safetyd.bus.keyring import KeyUnusable
from safetyd.bus.nats_client import HardenedClient
from safetyd.bus.subjects import Subjects
from safetyd.clock import Clock
from safetyd.host import Unusable, write_whole

LOOK_S: Final = 0.2  # how often the files and the bucket are compared
START_S: Final = 5.0  # how long a daemon waits for the bucket when it starts
FILE: Final = "shared.json"
HERE: Final = "a change of key files"

log = logging.getLogger("safetyd.keys")

_FAILURES: Final = (nats.errors.Error, nats.js.errors.Error, TimeoutError, OSError, KeyUnusable)


class _Known(msgspec.Struct, frozen=True, omit_defaults=True):
    """What this daemon and the bucket last had in common. Of a secret, only its digest."""

    version: int
    keys: NameKeys | None = None
    digest: str = ""


class _Step(NamedTuple):
    """What is to do for one entry: write its files, put it into the bucket, both or neither."""

    name: EntryName
    result: NameKeys | str  # the keys of a name, or a secret
    known: _Known | None  # what is in the bucket now
    write: bool
    push: bool


_read_known = msgspec.json.Decoder(dict[str, _Known]).decode


class SharedKeys:
    """Keeps the files of one daemon and the bucket equal.

    `take_on` is called after each change of the files, with the name of who changed them. It makes
    the daemon use the files, and returns errors.
    """

    def __init__(  # noqa: PLR0913 - what it connects
        self,
        client: HardenedClient,
        subjects: Subjects,
        directory: Path,
        *,
        seed: str,
        daemons: tuple[str, ...],
        take_on: Callable[[str], Sequence[str]],
        replicas: int = 1,
    ) -> None:
        self._key = DaemonKey(seed)
        if self._key.public not in daemons:
            why = "bus.daemons does not contain the key of this daemon"
            raise Unusable(f"{why}: add {self._key.public} on every daemon")
        self._daemons = frozenset(daemons)
        self._take_on = take_on
        self._files = KeyFiles(directory, self._key.public)
        self._bucket = KeyBucket(client, subjects, self._daemons, replicas)
        self._path = directory / FILE
        self._known: dict[EntryName, _Known] = {}
        self._clock = Clock()
        self._woken = anyio.Event()
        self._begun = False
        self._stamp: tuple[int, ...] = ()  # of the files when they were last merged
        self._unmerged = True  # the bucket has changed since then
        self._warned: set[tuple[EntryName, int]] = set()
        self.problem = ""  # why keys are not shared now

    async def begin(self) -> None:
        """Merge the files with the bucket once. If that fails, `run` tries again."""
        with anyio.move_on_after(START_S) as patience:
            await self._try()
        if patience.cancelled_caught:
            self._note(f"no answer within {START_S:.0f} s")

    async def run(self) -> None:
        """Share changes, forever."""
        while True:
            await self._try()
            with anyio.move_on_after(LOOK_S):
                await self._woken.wait()
            self._woken = anyio.Event()

    async def sync(self) -> None:
        """Merge the files with the bucket, in both directions."""
        await self._refresh()
        stamp = self._files.stamp()
        if stamp == self._stamp and not self._unmerged:
            return
        with self._files.locked():
            steps = list(self._steps(self._clock.now().at))
            by = self._write(steps)
        pushed = await self._push(steps)
        if by or stamp != self._stamp:
            errors = self._take_on(by or HERE)
            if errors:
                log.error("changed keys are not in force: %s", "; ".join(errors))
        # After writing, look again: another program may have changed files at the same time.
        self._stamp, self._unmerged = () if by else stamp, not pushed

    async def _try(self) -> None:
        try:
            await self.sync()
        except BlockingIOError:
            return  # a command is changing keys now
        except _FAILURES as exc:
            self._note(str(exc) or type(exc).__name__)
        else:
            self._note("")

    def _note(self, problem: str) -> None:
        if problem and problem != self.problem:
            log.warning("keys are not shared with other daemons: %s", problem)
        elif self.problem and not problem:
            log.info("keys are shared with other daemons again")
        self.problem = problem

    async def _refresh(self) -> None:
        """Read the bucket, and create it if it does not exist."""
        if not self._begun:
            self._known = self._recorded()
            await self._bucket.follow(lambda: self._woken.set())  # noqa: PLW0108 - it is replaced
            self._begun = True
        try:
            self._unmerged |= await self._bucket.refresh()
        except nats.js.errors.NotFoundError:
            await self._bucket.create()
            self._unmerged |= await self._bucket.refresh()

    def _steps(self, now: datetime) -> Iterator[_Step]:
        """Compare the files, the bucket, and what they had in common."""
        for group in SECRETS:
            if (step := self._secret_step(EntryName(group))) is not None:
                yield step
        names = {*self._files.names(), *self._bucket.entries, *self._known}
        for name in sorted(name for name in names if name.name and not self._untrusted(name)):
            local = self._files.read(name).at(now)
            version, remote, missing = self._remote(name)
            if remote is not None:
                remote = remote.at(now)
            known = None if remote is None else _Known(version, remote)
            if name.group == LOCALS:
                yield self._local_step(name, local, known, missing=missing)
                continue
            base = self._known.get(name)
            common = None if base is None else (base.keys or REVOKED).at(now)
            result = merged(common, local, remote)
            push = missing or result != (remote or REVOKED)
            yield _Step(name, result, known, write=result != local, push=push)

    def _untrusted(self, name: EntryName) -> bool:
        """Return True if an untrusted daemon wrote the entry, and this one has no own of it."""
        found = self._bucket.entries.get(name)
        return found is not None and found.entry is None and name not in self._known

    def _local_step(
        self, name: EntryName, local: NameKeys, known: _Known | None, *, missing: bool
    ) -> _Step:
        """Return the step for a local operator. Only its own daemon changes its entry."""
        if name != self._files.own:
            theirs = known.keys if known and known.keys else local
            result = theirs if name.name in self._daemons else REVOKED
            return _Step(name, result, known, write=result != local, push=False)
        base = self._known.get(name)
        changed = base is None or base.keys != local
        remote = known and known.keys
        if not changed and remote not in (None, local):
            self._warn(name, known, "another data directory uses the key of this daemon")
            return _Step(name, local, base, write=False, push=False)
        return _Step(name, local, known, write=False, push=missing or local != remote)

    def _remote(self, name: EntryName) -> tuple[int, NameKeys | None, bool]:
        """Return version and keys in the bucket, and True if they must be restored there.

        An entry that is older than one that this daemon has seen does not count.
        """
        found, known = self._bucket.entries.get(name), self._known.get(name)
        entry = found.entry if found else None
        if entry is not None and entry.version >= (known.version if known else 0):
            return entry.version, entry.keys or REVOKED, False
        if known is None:
            return 0, None, False
        return known.version, known.keys or REVOKED, found is None or entry is not None

    def _secret_step(self, name: EntryName) -> _Step | None:
        local = self._files.read_secret(name.group)
        found, known = self._bucket.entries.get(name), self._known.get(name)
        entry = found.entry if found else None
        if not local and entry is None:
            return None
        if entry is None or entry.version < (known.version if known else 0):
            restore = found is None or entry is not None
            changed = known is not None and known.digest != digest(local)
            return _Step(name, local, known, write=False, push=restore or changed)
        opened = self._key.opened(entry.sealed or {})
        if opened is None:
            self._warn(name, entry, "it is not encrypted to this daemon")
            mine = known is not None and known.version == entry.version
            kept = known if mine else _Known(entry.version, digest=digest(local))
            changed = kept is not None and kept.digest != digest(local)
            return _Step(name, local, kept, write=False, push=changed)
        remote = opened.decode()
        base = known.digest if known and local else None
        result = merged_secret(base, local, remote)
        unread = not self._daemons <= (entry.sealed or {}).keys()
        return _Step(
            name,
            result,
            _Known(entry.version, digest=digest(remote)),
            write=result != local,
            push=result != remote or unread,
        )

    def _write(self, steps: Sequence[_Step]) -> str:
        """Write files. Return who changed them, or an empty string if nothing was written."""
        writes = [step for step in steps if step.write]
        if writes:
            # If this is interrupted, the bucket wins at the next start.
            for step in writes:
                self._known.pop(step.name, None)
            self._record()
        for name, result, *_ in writes:
            if isinstance(result, str):
                self._files.write_secret(name.group, result)
            else:
                self._files.write(name, result)
        before = dict(self._known)
        self._known |= {step.name: step.known for step in steps if step.known is not None}
        if self._known != before:
            self._record()
        return next(self._writers(writes), HERE) if writes else ""

    def _writers(self, steps: Sequence[_Step]) -> Iterator[str]:
        for step in steps:
            found = self._bucket.entries.get(step.name)
            if found is not None and found.entry is not None:
                log.info("%s: the keys of daemon %s", step.name, found.entry.by)
                yield f"daemon {found.entry.by}"

    async def _push(self, steps: Sequence[_Step]) -> bool:
        """Put changes into the bucket. Return False if another daemon changed an entry first."""
        done, pushes = True, [step for step in steps if step.push]
        try:
            for name, result, known, *_ in pushes:
                version = (known.version if known else 0) + 1
                entry = self._entry(version, result)
                if not await self._bucket.put(name, entry, self._key):
                    done = False
                    continue
                proof = digest(result) if isinstance(result, str) else ""
                self._known[name] = _Known(version, entry.keys, proof)
            if done and not self._bucket.complete:
                await self._bucket.mark_complete(self._key)
        finally:
            if pushes:
                self._record()
                self._bucket.announce()
        return done

    def _entry(self, version: int, result: NameKeys | str) -> KeyEntry:
        by = self._key.public
        if isinstance(result, str):
            return KeyEntry(version=version, by=by, sealed=sealed(result.encode(), self._daemons))
        return KeyEntry(version=version, by=by, keys=result)

    def _warn(self, name: EntryName, entry: KeyEntry | _Known | None, why: str) -> None:
        """Log a problem of an entry once."""
        about = name, entry.version if entry else 0
        if about not in self._warned:
            self._warned.add(about)
            log.warning("key entry %s: %s; check bus.daemons on all daemons", name, why)

    def _recorded(self) -> dict[EntryName, _Known]:
        try:
            found = _read_known(self._path.read_bytes())
        except FileNotFoundError:
            return {}
        except (msgspec.DecodeError, UnicodeDecodeError) as exc:
            fix = "delete it; then keys of the bucket replace keys of this daemon"
            raise KeyUnusable(f"{self._path} cannot be decoded ({exc}): {fix}") from exc
        named = ((entry_name(text), known) for text, known in found.items())
        return {name: known for name, known in named if name is not None}

    def _record(self) -> None:
        content = {str(name): known for name, known in sorted(self._known.items())}
        write_whole(self._path, msgspec.json.encode(content) + b"\n")
