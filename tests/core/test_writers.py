"""Which daemon writes the journal, and which takeovers people hear of."""

from datetime import UTC, datetime

from safetyd.core.catalogue.catalogue import alert_of
from safetyd.core.engine.engine import Engine
from safetyd.core.events.cluster_events import (
    StandbysChanged,
    TakeoversRepeated,
    TookOver,
    WriterChanged,
    WriterReleased,
)
from safetyd.core.events.event import Event
from safetyd.core.policy import Policy

AT = datetime(2026, 1, 1, tzinfo=UTC)


def changed(term: int, daemon: str, t: float = 0.0) -> WriterChanged:
    return WriterChanged(at=AT, t=t, term=term, daemon=daemon, version="0.1.0")


def took_over(daemon: str, before: str, t: float, *, planned: bool = False) -> TookOver:
    return TookOver(at=AT, t=t, term=1, daemon=daemon, before=before, planned=planned)


def engine_after(*events: Event) -> Engine:
    engine = Engine(Policy())
    for event in events:
        engine.handle(event)
    return engine


def test_a_new_journal_has_no_writer_and_is_free() -> None:
    writers = Engine(Policy()).writers

    assert (writers.term, writers.daemon, writers.version, writers.since) == (0, "", "", None)
    assert writers.released


def test_the_last_writer_holds_the_journal_until_it_releases_it() -> None:
    engine = engine_after(changed(1, "a"), changed(2, "b"))
    held = engine.writers.released
    engine.handle(WriterReleased(at=AT, t=0.0, term=1, daemon="a"))
    held_still = engine.writers.released
    engine.handle(WriterReleased(at=AT, t=0.0, term=2, daemon="b"))

    writers = engine.writers
    assert (writers.term, writers.daemon, writers.version, writers.since) == (2, "b", "0.1.0", AT)
    assert (held, held_still, writers.released) == (False, False, True)


def test_the_third_takeover_within_an_hour_is_reported() -> None:
    engine = engine_after(
        took_over("a", "", 0.0),
        took_over("b", "a", 10.0, planned=True),
        took_over("a", "b", 20.0),
        took_over("b", "a", 30.0),
    )
    late = engine.handle(took_over("a", "b", 3700.0))
    soon = engine.handle(took_over("b", "a", 3710.0))
    third = engine.handle(took_over("a", "b", 3720.0))

    assert [engine.writers.takeovers(t) for t in (3720.0, 7305.0, 7320.0)] == [3, 2, 0]
    assert engine.writers.taken_over == 5
    assert not [e for e in (*late, *soon) if isinstance(e, TakeoversRepeated)]
    assert [e.count for e in third if isinstance(e, TakeoversRepeated)] == [3]


def test_standbys_are_remembered() -> None:
    engine = engine_after(StandbysChanged(at=AT, t=0.0, standbys=("b", "c")))

    assert engine.writers.standbys == ("b", "c")


def test_people_hear_of_lost_writers_and_standbys_but_not_of_plans() -> None:
    lost = took_over("b", "a", 0.0)
    plans = (took_over("a", "", 0.0), took_over("b", "a", 0.0, planned=True))
    nobody = StandbysChanged(at=AT, t=0.0, standbys=(), gone=("b",))
    unnamed = StandbysChanged(at=AT, t=0.0, standbys=())
    back = StandbysChanged(at=AT, t=0.0, standbys=("b",))
    repeated = TakeoversRepeated(at=AT, t=0.0, count=3)

    assert [alert_of(event) for event in plans] == [None, None]
    lost_alert, alone, left, again, often = map(alert_of, (lost, nobody, unnamed, back, repeated))
    assert lost_alert is not None
    assert "a" in lost_alert.title
    assert alone is not None
    assert left is not None
    assert left.key == alone.key
    assert again is not None
    assert again.clears == (alone.key,)
    assert often is not None
    assert often.urgency == "high"
