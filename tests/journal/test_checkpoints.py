import hashlib
import resource
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import msgspec
import pytest

from safetyd.core.engine.engine import Engine
from safetyd.core.engine.engine_state import SCHEMA
from safetyd.core.policy import Policy
from safetyd.journal.checkpoints import Checkpoints, SavedCheckpoint, Sealed, Unloadable
from tests.story import play, propose, stop


def saved(number: int, schema: int = SCHEMA) -> SavedCheckpoint:
    """A checkpoint after so many proposals."""
    engine = Engine(Policy())
    play(engine, *(propose(n, id=f"p{n}") for n in range(number - 1)), stop(number))
    checkpoint = msgspec.structs.replace(engine.save()(), schema=schema, seq=number)
    return SavedCheckpoint(stream_seq=number * 10, t=float(number), engine=checkpoint)


@pytest.fixture
def checkpoints(tmp_path: Path) -> Checkpoints:
    return Checkpoints(tmp_path / "checkpoints")


@contextmanager
def largest_file(size: int) -> Iterator[None]:
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (size, hard))
    try:
        yield
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))


def seqs(checkpoints: Checkpoints) -> list[int]:
    return [int(path.stem) for path in checkpoints.paths()]


def names(checkpoints: Checkpoints) -> set[str]:
    return {path.suffix for path in checkpoints._directory.iterdir()}


def test_checkpoint_comes_back_as_it_was(checkpoints: Checkpoints) -> None:
    written = saved(3)
    checkpoints.write(written)

    assert list(checkpoints.load()) == [written]


def test_directory_is_for_its_owner_alone(checkpoints: Checkpoints) -> None:
    assert checkpoints._directory.stat().st_mode & 0o777 == 0o700


def test_only_the_two_newest_are_kept(checkpoints: Checkpoints) -> None:
    for number in (1, 2, 3, 4):
        checkpoints.write(saved(number))

    assert seqs(checkpoints) == [4, 3]


def test_newest_is_the_one_with_most_events_however_many_digits(checkpoints: Checkpoints) -> None:
    checkpoints.write(saved(9))
    checkpoints.write(saved(10))

    assert seqs(checkpoints) == [10, 9]


def test_same_state_written_twice_is_one_checkpoint(checkpoints: Checkpoints) -> None:
    for number in (1, 2, 2):
        checkpoints.write(saved(number))

    assert seqs(checkpoints) == [2, 1]


def test_failed_write_leaves_the_others_and_nothing_of_its_own(checkpoints: Checkpoints) -> None:
    checkpoints.write(saved(1))

    with largest_file(50), pytest.raises(OSError, match="File too large"):
        checkpoints.write(saved(2))

    assert seqs(checkpoints) == [1]
    assert names(checkpoints) == {".msgpack"}


def test_nothing_of_a_write_that_was_cut_off_is_loaded(checkpoints: Checkpoints) -> None:
    checkpoints.write(saved(1))
    (checkpoints._directory / "00000000000000000002.new").write_bytes(b"half")

    assert [each for each in checkpoints.load() if isinstance(each, SavedCheckpoint)] == [saved(1)]


def test_any_changed_byte_makes_a_file_unloadable(checkpoints: Checkpoints) -> None:
    path = checkpoints.write(saved(2))
    whole = path.read_bytes()

    for place in range(0, len(whole), 7):
        path.write_bytes(whole[:place] + bytes([whole[place] ^ 0x55]) + whole[place + 1 :])
        (error,) = checkpoints.load()
        assert isinstance(error, Unloadable)


@pytest.mark.parametrize("size", [0, 1, 10, 40, -1])
def test_cut_file_is_unloadable(checkpoints: Checkpoints, size: int) -> None:
    path = checkpoints.write(saved(2))
    path.write_bytes(path.read_bytes()[:size])

    (error,) = checkpoints.load()

    assert isinstance(error, Unloadable)
    assert path.name in str(error)


def test_other_schema_is_unloadable_and_named(checkpoints: Checkpoints) -> None:
    checkpoints.write(saved(2, schema=SCHEMA + 1))

    (error,) = checkpoints.load()

    assert f"schema {SCHEMA + 1}" in str(error)


def test_content_that_is_sealed_and_no_checkpoint_is_unloadable(checkpoints: Checkpoints) -> None:
    body = msgspec.msgpack.encode({"stream_seq": "many"})
    sealed = msgspec.msgpack.encode(Sealed(hashlib.sha256(body).digest(), body))
    checkpoints.adopt("00000000000000000001.msgpack", sealed)

    (error,) = checkpoints.load()

    assert isinstance(error, Unloadable)


def test_path_that_cannot_be_read_is_unloadable(checkpoints: Checkpoints) -> None:
    (checkpoints._directory / "00000000000000000001.msgpack").mkdir()

    (error,) = checkpoints.load()

    assert isinstance(error, Unloadable)


def test_damaged_newest_is_reported_and_the_one_before_follows(checkpoints: Checkpoints) -> None:
    checkpoints.write(saved(1))
    checkpoints.write(saved(2)).write_bytes(b"damaged")

    error, older = checkpoints.load()

    assert isinstance(error, Unloadable)
    assert older == saved(1)


def test_damaged_file_does_not_push_out_a_good_one(checkpoints: Checkpoints) -> None:
    checkpoints.write(saved(1))
    checkpoints.write(saved(2)).write_bytes(b"damaged")
    list(checkpoints.load())

    checkpoints.write(saved(3))

    assert list(checkpoints.load()) == [saved(3), saved(1)]


def test_checkpoint_of_another_daemon_is_taken_in(checkpoints: Checkpoints, tmp_path: Path) -> None:
    elsewhere = Checkpoints(tmp_path / "elsewhere")
    path = elsewhere.write(saved(5))

    checkpoints.adopt(path.name, path.read_bytes())

    assert list(checkpoints.load()) == [saved(5)]


def test_only_the_newest_checkpoints_of_other_daemons_are_stored(tmp_path: Path) -> None:
    checkpoints = Checkpoints(tmp_path)

    for number in range(5):
        checkpoints.adopt(f"{number:020d}.msgpack", b"")

    assert [int(path.stem) for path in checkpoints.paths()] == [4, 3]
