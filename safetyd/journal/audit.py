"""The audit files: the journal as JSON lines, chained by hash, rotated by size, never deleted.

Each line is a line of the journal with `hash` added: the SHA-256 of the previous hash (hex)
followed by the line of the journal. The first line of a file contains its name and the last hash of
the previous file.
"""

import hashlib
import mmap
import os
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from safetyd.host import write_whole

NO_HASH: Final = b"0" * 64
_TAIL_BYTES: Final = 1024 * 1024
HASHED: Final = re.compile(rb',"hash":"([0-9a-f]{64})"}\n?\Z')


class AuditConfig(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    max_bytes: Annotated[int, Meta(ge=4096, le=1024**4)] = 64 * 1024 * 1024


class Opened(
    msgspec.Struct,
    frozen=True,
    kw_only=True,
    omit_defaults=True,
    tag_field="event",
    tag="opened",
):
    """The first line of a file."""

    file: str
    previous: str
    after_seq: int
    missing: int = 0  # events before this file that are in another daemon's audit files


class Torn(msgspec.Struct, frozen=True):
    """An incomplete last line that was removed from a file."""

    file: str
    size: int
    sha256: str


class BrokenAudit(Exception):
    """The hash chain is broken. The text says where."""


class Numbered(msgspec.Struct):
    seq: int = 0
    after_seq: int = 0


_decode_seq = msgspec.json.Decoder(Numbered).decode


class Audit:
    """Appends to the newest audit file. Appends are atomic."""

    def __init__(self, directory: Path, max_bytes: int) -> None:
        self._directory = directory
        self._max_bytes = max_bytes
        self._fd = -1
        self._size = 0
        self._hash = NO_HASH
        self.seq = 0
        self.written = 0  # bytes, since the start
        directory.mkdir(mode=0o700, parents=True, exist_ok=True)

    def open(self) -> Torn | None:
        """Find the end of the chain. Remove an incomplete last line and return it."""
        paths = files(self._directory)
        if not paths:
            self._begin(1)
            return None
        path = paths[-1]
        torn = _cut_torn_line(path)
        if path.stat().st_size == 0:
            path.unlink()
            earlier = self.open()
            return torn or earlier
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._size = path.stat().st_size
        self._hash, self.seq = end_of(path)
        return torn

    @property
    def head(self) -> str:
        """Return the hash of the last line."""
        return self._hash.decode()

    def append(self, lines: Sequence[bytes], last_seq: int) -> None:
        """Append journal lines. If it raises OSError, nothing was added."""
        if not os.fstat(self._fd).st_nlink:
            raise OSError("the file was removed; restore it or restart safetyd")
        if self._size > self._max_bytes:
            self._rotate()
        link = self._hash
        chained = []
        for line in lines:
            link = hashlib.sha256(link + line).hexdigest().encode()
            chained.append(b'%b,"hash":"%b"}\n' % (line[:-1], link))
        self._write(b"".join(chained))
        self._hash, self.seq = link, last_seq

    def skip_to(self, seq: int, head: str = "") -> None:
        """Start a new file whose first line says that the events up to `seq` are missing.

        `head` is the hash of event `seq` in another daemon's files, if it is known: then the hashes
        that follow are the same as there.
        """
        missing, self.seq = seq - self.seq, seq
        self._hash = head.encode() or self._hash
        self._rotate(missing)

    def sync(self) -> None:
        """Flush all appended lines to disk."""
        os.fsync(self._fd)

    def close(self) -> None:
        if self._fd >= 0:
            os.fsync(self._fd)
            os.close(self._fd)
            self._fd = -1

    def _write(self, data: bytes) -> None:
        done = 0
        try:
            while done < len(data):
                done += os.write(self._fd, data[done:])
        except OSError:
            os.ftruncate(self._fd, self._size)
            raise
        self._size += len(data)
        self.written += len(data)

    def _rotate(self, missing: int = 0) -> None:
        number = int(files(self._directory)[-1].stem.removeprefix("audit-"))
        os.fsync(self._fd)
        old = self._fd
        self._begin(number + 1, missing)
        os.close(old)

    def _begin(self, number: int, missing: int = 0) -> None:
        path = self._directory / f"audit-{number:08d}.jsonl"
        opened = Opened(
            file=path.name, previous=self._hash.decode(), after_seq=self.seq, missing=missing
        )
        line = _first_line(opened)
        write_whole(path, line)
        self._fd = os.open(path, os.O_WRONLY | os.O_APPEND)
        self._size = len(line)


def files(directory: Path) -> list[Path]:
    """Return the audit files, oldest first."""
    return sorted(directory.glob("audit-*.jsonl"))


class Verified(msgspec.Struct, frozen=True, kw_only=True):
    files: int
    records: int
    first_seq: int
    last_seq: int
    last_hash: str
    missing: int


class ChainCheck:
    """Checks the lines of consecutive files. After a broken line it continues with the next.

    `broken` describes the first broken line. `head` is the last hash, and `seq` the last event.
    `missing` counts events that are in another daemon's files.
    """

    def __init__(self) -> None:
        self.broken = ""
        self.head = NO_HASH
        self.seq = 0
        self.missing = 0
        self._begun = False

    def follow(self, file: str, number: int, line: bytes) -> None:
        place = f"{file}:{number}"
        try:
            if number == 1:
                self._begin(place, line)
            else:
                self.head, self.seq = _next_link(place, line, self.head, self.seq)
        except BrokenAudit as exc:
            self.broken = self.broken or str(exc)
            self.skip_to(line)

    def skip_to(self, line: bytes) -> None:
        """Accept a broken or unchecked line, so that the next one can be checked."""
        self._begun = True
        if hashed := HASHED.search(line):
            self.head = hashed.group(1)
        try:
            numbered = _decode_seq(line)
        except (msgspec.DecodeError, UnicodeDecodeError):
            self.seq += 1
        else:
            self.seq = numbered.seq or numbered.after_seq

    def _begin(self, place: str, line: bytes) -> None:
        opened = _opening(place, line)
        head = opened.previous.encode()
        before = head if opened.missing else self.head, self.seq + opened.missing
        self.head, self.seq = head, opened.after_seq
        self.missing += opened.missing
        begun, self._begun = self._begun, True
        if begun and before != (self.head, self.seq):
            raise BrokenAudit(f"{place}: does not continue the previous file")


def verify(directory: Path) -> Verified:
    """Check all files. Raise `BrokenAudit` at the first broken line."""
    paths, chain = files(directory), ChainCheck()
    first = records = 0
    for path in paths:
        with path.open("rb") as file:
            for number, line in enumerate(file, 1):
                chain.follow(path.name, number, line)
                if chain.broken:
                    raise BrokenAudit(chain.broken)
                if number > 1:
                    first, records = first or chain.seq, records + 1
    return Verified(
        files=len(paths),
        records=records,
        first_seq=first,
        last_seq=chain.seq,
        last_hash=chain.head.decode(),
        missing=chain.missing,
    )


def _opening(place: str, line: bytes) -> Opened:
    try:
        opened = msgspec.json.decode(line, type=Opened)
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise BrokenAudit(f"{place}: not the first line of an audit file: {exc}") from exc
    if _first_line(opened) != line:
        raise BrokenAudit(f"{place}: the first line was changed")
    if place != f"{opened.file}:1":
        raise BrokenAudit(f"{place}: the file was renamed; its original name is {opened.file}")
    return opened


def _first_line(opened: Opened) -> bytes:
    """Return the first line of a file. Its hash is the last hash of the previous file."""
    return msgspec.json.encode(opened)[:-1] + b',"hash":"%b"}\n' % opened.previous.encode()


def _next_link(place: str, line: bytes, link: bytes, seq: int) -> tuple[bytes, int]:
    hashed = HASHED.search(line)
    if hashed is None or not line.endswith(b"\n"):
        raise BrokenAudit(f"{place}: not a complete line")
    said = hashed.group(1)
    if hashlib.sha256(link + line[: hashed.start()] + b"}").hexdigest().encode() != said:
        raise BrokenAudit(
            f"{place}: the hash does not match; this line or the one before was changed"
        )
    number = _seq(place, line)
    if number != seq + 1:
        raise BrokenAudit(f"{place}: event {number} follows event {seq}")
    return said, number


def _seq(place: str, line: bytes) -> int:
    try:
        return _decode_seq(line).seq
    except (msgspec.DecodeError, UnicodeDecodeError) as exc:
        raise BrokenAudit(f"{place}: not an event: {exc}") from exc


def _cut_torn_line(path: Path) -> Torn | None:
    if path.stat().st_size == 0:
        return None
    with path.open("r+b") as file:
        with mmap.mmap(file.fileno(), 0, access=mmap.ACCESS_READ) as content:
            whole = content.rfind(b"\n") + 1
            torn = content[whole:]
        if not torn:
            return None
        file.truncate(whole)
        os.fsync(file.fileno())
    return Torn(path.name, len(torn), hashlib.sha256(torn).hexdigest())


def end_of(path: Path) -> tuple[bytes, int]:
    """Return the hash and event number of the last line of a file."""
    with path.open("rb") as file:
        file.seek(max(0, path.stat().st_size - _TAIL_BYTES))
        tail = file.read()
    line = tail[: tail.rfind(b"\n")].rpartition(b"\n")[2]
    hashed = HASHED.search(line)
    if hashed is None:
        raise BrokenAudit(f"{path.name}: the last line has no hash")
    numbered = _decode_seq(line)
    return hashed.group(1), numbered.seq or numbered.after_seq
