"""Lines become rows only where each follows from the one before."""

from pathlib import Path

import pytest

from safetyd.extras.postgres.audit_rows import Progress, after_missing, row_of, rows_after
from safetyd.extras.postgres.export_problem import ExportProblem, MissingEvents
from tests.event_samples import one_of_each
from tests.extras.postgres.event_mix import event_mix, write_audit

FILE = "audit-00000001.jsonl"


@pytest.fixture
def audit(tmp_path: Path) -> Path:
    write_audit(tmp_path, event_mix(30))
    return tmp_path / "audit"


def edit(path: Path, old: str, new: str) -> None:
    text = path.read_text()
    assert old in text
    path.write_text(text.replace(old, new, 1))


def test_a_row_says_what_its_event_says(tmp_path: Path) -> None:
    events = list(one_of_each())
    for seq, event in enumerate(events, 1):
        event.seq = seq
    write_audit(tmp_path, iter(events))

    rows = list(rows_after(tmp_path / "audit", Progress()))

    assert [row.seq for row in rows] == list(range(1, len(events) + 1))
    for row, event in zip(rows, events, strict=True):
        assert row.event.decode() == type(event).__struct_config__.tag
        agent = getattr(event, "agent", getattr(event, "agent_id", None))
        if agent is not None:
            assert row.agent == agent.encode()


def test_reading_goes_on_after_what_was_read(audit: Path) -> None:
    rows = list(rows_after(audit, Progress()))

    rest = list(rows_after(audit, Progress(rows[9].seq, rows[9].hash.decode())))

    assert rest == rows[10:]


def test_files_of_another_journal_do_not_follow(audit: Path, tmp_path: Path) -> None:
    write_audit(tmp_path / "other", event_mix(9))
    edit(tmp_path / "other" / "audit" / FILE, "module_p00000002", "module_p99999992")
    last = next(iter(rows_after(audit, Progress())))

    with pytest.raises(ExportProblem, match=r"event 7 .* does not follow from event 6"):
        list(rows_after(tmp_path / "other" / "audit", Progress()))
    with pytest.raises(ExportProblem, match="does not follow from event 1 in the database"):
        list(rows_after(audit, Progress(last.seq, "0" * 64)))


def test_a_line_that_was_taken_out_is_missing(audit: Path) -> None:
    lines = (audit / FILE).read_text().splitlines(keepends=True)
    (audit / FILE).write_text("".join(lines[:5] + lines[7:]))

    with pytest.raises(
        MissingEvents, match="events 5 to 6 are not in the audit files of"
    ) as raised:
        list(rows_after(audit, Progress()))

    assert (raised.value.first, raised.value.last) == (5, 6)
    with pytest.raises(ExportProblem, match=r"no audit file in .* starts after event 6"):
        after_missing(audit, 6)


def test_a_line_without_its_hash_is_named(audit: Path) -> None:
    lines = (audit / FILE).read_text().splitlines(keepends=True)
    lines[3] = lines[3][:-20] + "\n"
    (audit / FILE).write_text("".join(lines))

    with pytest.raises(ExportProblem, match=r"the line after event 2 .* was changed"):
        list(rows_after(audit, Progress()))


def test_a_files_first_line_is_no_row(audit: Path) -> None:
    with (audit / FILE).open("rb") as file:
        assert row_of(file.readline()) is None
