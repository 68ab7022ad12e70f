import hashlib
import os
import resource
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from safetyd.journal.audit import (
    NO_HASH,
    Audit,
    BrokenAudit,
    ChainCheck,
    Torn,
    Verified,
    files,
    verify,
)

BIG = 1024 * 1024


def line(seq: int, **more: object) -> bytes:
    return msgspec.json.encode({"event": "test", "seq": seq, **more})


def opened(directory: Path, max_bytes: int = BIG) -> Audit:
    audit = Audit(directory, max_bytes)
    audit.open()
    return audit


def written(directory: Path, count: int, max_bytes: int = BIG) -> Path:
    """Write so many records, one at a time, and return the directory."""
    audit = opened(directory, max_bytes)
    for seq in range(audit.seq + 1, audit.seq + 1 + count):
        audit.append([line(seq)], seq)
    audit.close()
    return directory


def only_file(directory: Path) -> Path:
    (path,) = files(directory)
    return path


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    """Let writes beyond a size fail, as they do on a full disk."""
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


@pytest.mark.req("S1.27")
def test_each_line_is_the_journals_with_the_chains_hash(tmp_path: Path) -> None:
    written(tmp_path, 2)

    _, first, second = only_file(tmp_path).read_bytes().splitlines()

    one = hashlib.sha256(NO_HASH + line(1)).hexdigest()
    two = hashlib.sha256(one.encode() + line(2)).hexdigest()
    assert first == line(1)[:-1] + f',"hash":"{one}"}}'.encode()
    assert second == line(2)[:-1] + f',"hash":"{two}"}}'.encode()


def test_first_line_names_the_file_and_what_came_before(tmp_path: Path) -> None:
    written(tmp_path, 1)

    first = msgspec.json.decode(only_file(tmp_path).read_bytes().splitlines()[0])

    assert first == {
        "event": "opened",
        "file": "audit-00000001.jsonl",
        "previous": NO_HASH.decode(),
        "after_seq": 0,
        "hash": NO_HASH.decode(),
    }


def test_files_are_for_their_owner_alone(tmp_path: Path) -> None:
    written(tmp_path / "audit", 1)

    assert (tmp_path / "audit").stat().st_mode & 0o777 == 0o700
    assert only_file(tmp_path / "audit").stat().st_mode & 0o777 == 0o600


def test_chain_goes_on_after_a_restart(tmp_path: Path) -> None:
    written(tmp_path, 3)
    written(tmp_path, 2)

    assert verify(tmp_path).records == 5
    assert len(files(tmp_path)) == 1


@pytest.mark.req("S1.27")
def test_file_that_is_full_is_followed_by_the_next(tmp_path: Path) -> None:
    written(tmp_path, 20, max_bytes=500)

    names = [path.name for path in files(tmp_path)]
    assert len(names) > 2
    assert names == [f"audit-{number:08d}.jsonl" for number in range(1, len(names) + 1)]


def test_chain_holds_over_many_files_and_restarts(tmp_path: Path) -> None:
    for _ in range(4):
        written(tmp_path, 5, max_bytes=300)

    found = verify(tmp_path)

    assert (found.records, found.first_seq, found.last_seq) == (20, 1, 20)
    assert found.files == len(files(tmp_path))


def test_restart_right_after_a_rotation_goes_on(tmp_path: Path) -> None:
    audit = opened(written(tmp_path, 3))
    audit._rotate()
    audit.close()

    again = opened(tmp_path)

    assert again.seq == 3
    again.append([line(4)], 4)
    again.close()
    assert verify(tmp_path).last_seq == 4


def test_batch_is_written_together(tmp_path: Path) -> None:
    audit = opened(tmp_path)

    audit.append([line(1), line(2), line(3)], 3)
    audit.sync()

    assert audit.seq == 3
    assert verify(tmp_path).records == 3
    audit.close()
    audit.close()


def test_empty_directory_verifies_as_nothing(tmp_path: Path) -> None:
    assert verify(tmp_path) == Verified(
        files=0, records=0, first_seq=0, last_seq=0, last_hash=NO_HASH.decode(), missing=0
    )


def test_torn_last_line_is_cut_and_told(tmp_path: Path) -> None:
    path = only_file(written(tmp_path, 3))
    whole = path.read_bytes()
    path.write_bytes(whole + b'{"event":"te')

    audit = Audit(tmp_path, BIG)
    torn = audit.open()
    audit.close()

    assert torn == Torn(path.name, 12, hashlib.sha256(b'{"event":"te').hexdigest())
    assert path.read_bytes() == whole
    assert audit.seq == 3


def test_torn_end_longer_than_any_line_is_cut_whole(tmp_path: Path) -> None:
    path = only_file(written(tmp_path, 3))
    size = path.stat().st_size
    os.truncate(path, size + 3 * BIG)  # zeros, as some file systems leave after a power cut

    audit = Audit(tmp_path, BIG)
    torn = audit.open()
    audit.close()

    assert torn is not None
    assert torn.size == 3 * BIG
    assert verify(tmp_path).records == 3


def test_file_without_one_whole_line_is_begun_anew(tmp_path: Path) -> None:
    (tmp_path / "audit-00000001.jsonl").write_bytes(b'{"event":"ope')

    audit = Audit(tmp_path, BIG)
    torn = audit.open()
    audit.close()

    assert torn is not None
    assert torn.size == 13
    assert verify(tmp_path).files == 1


def test_empty_last_file_does_not_hide_a_torn_line_before_it(tmp_path: Path) -> None:
    path = only_file(written(tmp_path, 3))
    path.write_bytes(path.read_bytes() + b"torn")
    (tmp_path / "audit-00000002.jsonl").touch()

    audit = Audit(tmp_path, BIG)
    torn = audit.open()
    audit.close()

    assert torn is not None
    assert torn.file == path.name
    assert audit.seq == 3


def test_chain_that_ends_without_a_hash_is_refused(tmp_path: Path) -> None:
    path = only_file(written(tmp_path, 3))
    path.write_bytes(path.read_bytes() + b'{"seq":4}\n')

    with pytest.raises(BrokenAudit, match=r"audit-00000001\.jsonl: the last line has no hash"):
        opened(tmp_path)


def test_failed_write_leaves_no_half_line(tmp_path: Path) -> None:
    audit = opened(tmp_path)
    audit.append([line(1)], 1)
    before = only_file(tmp_path).read_bytes()

    with largest_file(len(before) + 50), pytest.raises(OSError, match="File too large"):
        audit.append([line(2, text="x" * 200), line(3)], 3)

    assert only_file(tmp_path).read_bytes() == before
    assert audit.seq == 1
    audit.append([line(2)], 2)
    audit.close()
    assert verify(tmp_path).last_seq == 2


def test_failed_rotation_leaves_the_chain_as_it_was(tmp_path: Path) -> None:
    audit = opened(tmp_path, max_bytes=300)
    audit.append([line(1)], 1)
    before = only_file(tmp_path).read_bytes()

    with largest_file(20), pytest.raises(OSError, match="File too large"):
        audit.append([line(2)], 2)

    assert only_file(tmp_path).read_bytes() == before
    audit.append([line(2)], 2)
    audit.close()
    assert (verify(tmp_path).files, verify(tmp_path).last_seq) == (2, 2)


def lines_of(path: Path) -> list[bytes]:
    return path.read_bytes().splitlines(keepends=True)


def broken(directory: Path) -> str:
    with pytest.raises(BrokenAudit) as caught:
        verify(directory)
    return str(caught.value)


def tampered(tmp_path: Path, lines: Sequence[bytes]) -> str:
    only_file(tmp_path).write_bytes(b"".join(lines))
    return broken(tmp_path)


@pytest.fixture
def five(tmp_path: Path) -> list[bytes]:
    """The lines of a file with five records; the first line is the file's own."""
    return lines_of(only_file(written(tmp_path, 5)))


def test_edited_line_is_found(tmp_path: Path, five: list[bytes]) -> None:
    five[3] = five[3].replace(b"test", b"TEST")

    assert tampered(tmp_path, five).startswith("audit-00000001.jsonl:4: the hash does not match")


def test_deleted_line_is_found(tmp_path: Path, five: list[bytes]) -> None:
    del five[3]

    assert tampered(tmp_path, five).startswith("audit-00000001.jsonl:4: the hash does not match")


def test_swapped_lines_are_found(tmp_path: Path, five: list[bytes]) -> None:
    five[2], five[3] = five[3], five[2]

    assert tampered(tmp_path, five).startswith("audit-00000001.jsonl:3: the hash does not match")


def test_repeated_line_is_found(tmp_path: Path, five: list[bytes]) -> None:
    five.insert(3, five[2])

    assert tampered(tmp_path, five).startswith("audit-00000001.jsonl:4: the hash does not match")


def test_torn_line_is_found(tmp_path: Path, five: list[bytes]) -> None:
    five[5] = five[5][:-1]

    assert tampered(tmp_path, five) == "audit-00000001.jsonl:6: not a complete line"


def test_line_without_a_hash_is_found(tmp_path: Path, five: list[bytes]) -> None:
    five[2] = line(2) + b"\n"

    assert tampered(tmp_path, five) == "audit-00000001.jsonl:3: not a complete line"


def test_skipped_event_is_found_even_with_a_hash_that_fits(tmp_path: Path) -> None:
    audit = opened(tmp_path)
    audit.append([line(1), line(3)], 3)
    audit.close()

    assert broken(tmp_path) == "audit-00000001.jsonl:3: event 3 follows event 1"


def test_line_that_is_no_event_is_found_even_with_a_hash_that_fits(tmp_path: Path) -> None:
    audit = opened(tmp_path)
    audit.append([b'{"seq":"one"}'], 1)
    audit.close()

    assert broken(tmp_path).startswith("audit-00000001.jsonl:2: not an event")


@pytest.mark.parametrize(
    ("old", "new", "said"),
    [
        (b'"opened"', b'"closed"', "not the first line of an audit file"),
        (b'"previous":"00', b'"previous":"11', "the first line was changed"),
        (b'"hash":"00', b'"hash":"11', "the first line was changed"),
        (
            b"audit-00000001",
            b"audit-00000002",
            "the file was renamed; its original name is audit-00000002",
        ),
        (b'"after_seq":0', b'"after_seq":7', "event 1 follows event 7"),
        (b'"file":"audit', b'"file":"\xff', "not the first line of an audit file"),
    ],
)
def test_edited_first_line_is_found(
    tmp_path: Path, five: list[bytes], old: bytes, new: bytes, said: str
) -> None:
    assert old in five[0]
    five[0] = five[0].replace(old, new)

    assert said in tampered(tmp_path, five)


def test_missing_first_line_is_found(tmp_path: Path, five: list[bytes]) -> None:
    assert "not the first line of an audit file" in tampered(tmp_path, five[1:])


def test_missing_middle_file_is_found(tmp_path: Path) -> None:
    written(tmp_path, 20, max_bytes=500)
    files(tmp_path)[1].unlink()

    assert broken(tmp_path) == "audit-00000003.jsonl:1: does not continue the previous file"


def test_missing_file_after_one_without_records_is_found(tmp_path: Path) -> None:
    audit = opened(tmp_path, max_bytes=300)
    audit._rotate()
    for seq in range(1, 5):
        audit.append([line(seq)], seq)
    audit.close()
    (tmp_path / "audit-00000002.jsonl").unlink()

    assert broken(tmp_path) == "audit-00000003.jsonl:1: does not continue the previous file"


def test_renamed_file_is_found(tmp_path: Path) -> None:
    written(tmp_path, 20, max_bytes=500)
    files(tmp_path)[-1].rename(tmp_path / "audit-00000099.jsonl")

    assert "audit-00000099.jsonl:1: the file was renamed" in broken(tmp_path)


def test_files_moved_to_an_archive_leave_a_chain_that_says_where_it_begins(tmp_path: Path) -> None:
    written(tmp_path, 20, max_bytes=500)
    files(tmp_path)[0].unlink()

    assert verify(tmp_path).first_seq > 1


def test_events_that_the_journal_has_no_more_are_declared_missing(tmp_path: Path) -> None:
    audit = opened(written(tmp_path, 3))
    audit.skip_to(10)
    audit.append([line(11)], 11)
    audit.close()

    found = verify(tmp_path)

    assert (found.records, found.missing, found.last_seq) == (4, 7, 11)
    assert opened(tmp_path).seq == 11


def test_file_that_declares_fewer_missing_than_there_are_is_found(tmp_path: Path) -> None:
    audit = opened(written(tmp_path, 3))
    audit.skip_to(10)
    audit.close()
    path = files(tmp_path)[-1]
    path.write_bytes(path.read_bytes().replace(b'"missing":7', b'"missing":6'))

    assert broken(tmp_path) == "audit-00000002.jsonl:1: does not continue the previous file"


def test_appending_to_a_file_that_was_removed_is_an_error(tmp_path: Path) -> None:
    audit = opened(tmp_path)
    only_file(tmp_path).unlink()

    with pytest.raises(OSError, match="the file was removed"):
        audit.append([line(1)], 1)

    audit.close()


def followed(directory: Path) -> str:
    chain = ChainCheck()
    for path in files(directory):
        for number, said in enumerate(path.read_bytes().splitlines(keepends=True), 1):
            chain.follow(path.name, number, said)
    return chain.broken


def test_chain_can_be_followed_line_by_line_over_files_and_what_is_declared_missing(
    tmp_path: Path,
) -> None:
    audit = opened(written(tmp_path, 50, max_bytes=1000))
    audit.skip_to(60)
    audit.append([line(61)], 61)
    audit.close()

    assert len(files(tmp_path)) > 3
    assert followed(tmp_path) == ""


def test_following_names_the_first_of_several_places_and_goes_on(
    tmp_path: Path, five: list[bytes]
) -> None:
    five[2] = five[2].replace(b'"seq":2', b'"seq":7')
    five[4] = b"{}\n"

    said = tampered(tmp_path, five)

    assert followed(tmp_path) == said
    assert ":3: the hash does not match" in said
