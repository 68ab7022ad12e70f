"""What is told of a session once it is over, and what is kept until then."""

import msgspec
import pytest

from safetyd.bus.codec import read_telemetry
from safetyd.core.approvals import request_index
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.decision_events import Reported, SessionClosed, Transcribed
from safetyd.core.events.event import Event
from safetyd.core.guards.budget.budget import BudgetConfig
from safetyd.core.messages.proposal import Target, Tokens
from safetyd.core.messages.telemetry import (
    Heartbeat,
    Iteration,
    Outcome,
    SessionEnded,
    SessionStarted,
)
from safetyd.core.messages.transcript import Entry, Transcript, Usage
from safetyd.core.policy import Policy
from safetyd.core.reporting import session_transcripts as module
from tests.core.approvals.queue_story import QueueStory, push
from tests.story import at, outcome, play, propose, report, tick


def told(events: list[Event]) -> list[Transcript]:
    return [event.transcript for event in events if isinstance(event, Transcribed)]


def end(t: float, session: str = "s", scheduled_next: str | None = None) -> Reported:
    return report(t, SessionEnded(session=session, scheduled_next=scheduled_next))


def ended(queue: QueueStory, t: float = 100, session: str = "s") -> Transcript:
    """End a session and return what is told of it."""
    (transcript,) = told(queue.happens(end(t, session), tick(t + 1)))
    return transcript


def kept(engine: Engine) -> module.TranscriptsState:
    saved = engine.save()().actors["transcripts"]
    return msgspec.msgpack.decode(saved, type=module.TranscriptsState)


@pytest.mark.req("S3.39")
def test_a_session_that_ended_is_told_as_a_whole() -> None:
    engine = Engine(Policy())
    merged = Outcome(
        id="p1",
        ok=True,
        description="Merged 2 memories",
        details={"into": "m3"},
        tokens=Tokens(input=12400, output=3200),
    )
    play(
        engine,
        report(0, SessionStarted(session="s", provider="openai", model="gpt-5.2")),
        propose(1, type="memory_write", description="Merge memories", session="s"),
        report(2, merged),
    )

    (transcript,) = told(play(engine, end(296, scheduled_next="2026-03-01T12:40:00Z"), tick(297)))

    assert transcript == Transcript(
        session_id="s",
        agent="code",
        started_at=at(0),
        ended_at=at(296),
        why="ended",
        provider="openai",
        model="gpt-5.2",
        token_usage=Usage(12400, 3200),
        actions=(
            Entry(
                "memory_write",
                "Merged 2 memories",
                "auto_allowed",
                "done",
                details={"into": "m3"},
            ),
        ),
        left_out=0,
        pending_permissions=0,
        scheduled_next="2026-03-01T12:40:00Z",
        budget_remaining_percent=100,
    )


@pytest.mark.req("S3.39")
def test_what_waits_for_a_person_has_its_request() -> None:
    queue = QueueStory()
    asked = queue.asks(0, session="s", description="Push the fix")

    transcript = ended(queue)

    (entry,) = transcript.actions
    assert (entry.type, entry.tier) == ("push", "requires_permission")
    assert (entry.status, entry.request_id) == ("pending", asked.request_id)
    assert transcript.pending_permissions == 1


def test_a_request_for_permission_says_what_it_is_for() -> None:
    queue = QueueStory()
    queue.proposes(push(0, session="s"), permission=True)

    (entry,) = ended(queue).actions

    assert (entry.type, entry.action, entry.status) == ("permission_request", "push", "pending")


def test_an_answer_that_came_in_time_is_told() -> None:
    queue = QueueStory()
    queue.answers(1, queue.asks(0, session="s").request_id, "denied")

    transcript = ended(queue)

    assert [entry.status for entry in transcript.actions] == ["denied"]
    assert transcript.pending_permissions == 0


def test_what_was_approved_and_done_is_one_entry() -> None:
    queue = QueueStory()
    asked = queue.asks(0, session="s", wait=True)
    queue.answers(1, asked.request_id, waits=True)
    queue.happens(outcome(2))

    (entry,) = ended(queue).actions

    assert (entry.status, entry.request_id) == ("done", asked.request_id)


def test_what_was_approved_while_its_agent_waited_is_allowed_until_an_outcome() -> None:
    queue = QueueStory()
    asked = queue.asks(0, session="s", wait=True)
    queue.answers(1, asked.request_id, waits=True)

    (entry,) = ended(queue).actions

    assert (entry.status, entry.request_id) == ("allowed", asked.request_id)


def test_an_approval_used_in_a_later_session_names_its_request() -> None:
    queue = QueueStory()
    asked = queue.asks(0, session="s")
    ended(queue, 1)
    queue.answers(3, asked.request_id)
    queue.asks(4, "p2", session="s")

    (entry,) = ended(queue, 5).actions

    assert (entry.status, entry.request_id) == ("allowed", asked.request_id)


def test_a_request_that_another_session_made_waits_in_this_one_too() -> None:
    queue = QueueStory()
    queue.asks(0, session="first")
    queue.asks(1, "p2", session="s")

    assert ended(queue).pending_permissions == 1


def test_requests_that_are_not_listed_wait_as_well(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_OF_SESSION", 0)
    queue = QueueStory()
    queue.asks(0, session="s")

    transcript = ended(queue)

    assert (transcript.actions, transcript.left_out) == ((), 1)
    assert transcript.pending_permissions == 1


def test_a_request_that_nobody_remembers_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(request_index, "MAX_CLOSED", 0)
    queue = QueueStory()
    queue.answers(1, queue.asks(0, session="s").request_id, "denied")

    assert [entry.status for entry in ended(queue).actions] == ["closed"]


def test_an_id_that_uses_its_own_approval_is_one_entry() -> None:
    queue = QueueStory()
    asked = queue.asks(0, session="s")
    queue.answers(1, asked.request_id)
    queue.asks(2, session="s")

    (entry,) = ended(queue).actions

    assert (entry.status, entry.request_id) == ("allowed", asked.request_id)


def test_a_heartbeat_is_not_told() -> None:
    queue = QueueStory()
    queue.happens(report(0, SessionStarted(session="s")), report(1, Heartbeat()))

    assert ended(queue).actions == ()


def test_what_was_blocked_says_why() -> None:
    queue = QueueStory()
    queue.proposes(propose(0, type="run_shell", text="rm -rf /", session="s"))

    (entry,) = ended(queue).actions

    assert entry.status == "blocked"
    assert entry.reason


def test_what_failed_says_why() -> None:
    queue = QueueStory()
    queue.proposes(propose(0, session="s", paths=["/srv/notes.txt"]))
    queue.happens(report(1, Outcome(id="p1", ok=False, error="no such file")))

    (entry,) = ended(queue).actions

    assert (entry.description, entry.status, entry.reason) == (
        "/srv/notes.txt",
        "failed",
        "no such file",
    )


def test_a_secret_stays_masked() -> None:
    queue = QueueStory()
    password = Target(label="Password")
    queue.proposes(propose(0, type="type", text="hunter2", target=password, session="s"))

    (entry,) = ended(queue).actions

    assert entry.description == "[masked, 7 characters]"


def test_what_was_done_without_a_proposal_has_no_tier() -> None:
    queue = QueueStory()
    done = Outcome(ok=True, session="s", action_type="index", description="Indexed 3 files")
    queue.happens(report(0, done), report(1, done))

    entries = ended(queue).actions

    assert entries == (Entry("index", "Indexed 3 files", None, "done"),) * 2


def test_an_outcome_counts_once_and_only_for_what_was_allowed() -> None:
    queue = QueueStory()
    queue.proposes(propose(0, session="s"))
    queue.proposes(propose(0, id="p2", type="run_shell", text="rm -rf /", session="s"))
    for id_ in ("p1", "p1", "p2", "p3"):
        queue.happens(report(1, Outcome(id=id_, ok=True, tokens=Tokens(input=5))))

    transcript = ended(queue)

    assert transcript.token_usage == Usage(5, 0)
    assert [entry.status for entry in transcript.actions] == ["done", "blocked"]


def test_an_outcome_after_the_end_changes_nothing() -> None:
    queue = QueueStory()
    queue.proposes(propose(0, session="s"))
    queue.happens(end(1))

    queue.happens(outcome(2))

    (transcript,) = told(queue.happens(tick(3)))
    assert [entry.status for entry in transcript.actions] == ["allowed"]


def test_a_session_that_fell_silent_ended_when_it_was_last_heard() -> None:
    engine = Engine(Policy())
    play(engine, propose(0, provider="p", model="m"), report(60, Iteration()), tick(1860))

    (transcript,) = told(play(engine, tick(1861)))

    assert (transcript.session_id, transcript.why, transcript.ended_at) == ("", "idle", at(60))
    assert (transcript.provider, transcript.model) == ("p", "m")


def test_a_session_that_did_nothing_is_told_too() -> None:
    queue = QueueStory()
    queue.happens(report(0, SessionStarted(session="s")), report(1, SessionStarted(session="s")))

    assert ended(queue).actions == ()


def test_a_session_is_told_once() -> None:
    queue = QueueStory()
    queue.happens(report(0, SessionStarted(session="s")))
    ended(queue)

    assert told(queue.happens(end(200), tick(201))) == []


def test_sessions_that_nobody_is_to_remember_are_not_told() -> None:
    engine = Engine(Policy(max_agents=0))
    talk = report(1, Outcome(ok=True, session="s"))
    talk.keyless = True
    started = msgspec.structs.replace(talk, telemetry=SessionStarted(session="s"))

    play(engine, propose(0, keyless=True, session="s"), talk, started, end(2))

    assert told(play(engine, tick(3))) == []


def test_what_a_name_without_a_key_says_first_is_told_of_its_session() -> None:
    queue = QueueStory()
    started = report(0, SessionStarted(session="s", provider="openai", model="gpt-5.2"))
    started.keyless = True
    queue.happens(started)
    queue.proposes(propose(5, keyless=True, session="s", provider="other", model="other"))

    transcript = ended(queue)

    assert (transcript.provider, transcript.model) == ("openai", "gpt-5.2")
    assert transcript.started_at == at(0)


def test_only_so_many_sessions_are_announced(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ANNOUNCED", 2)
    engine = Engine(Policy())
    for name in "abc":
        started = report(0, SessionStarted(session="s"), name)
        started.keyless = True
        play(engine, started)

    assert list(kept(engine).announced) == ["b s", "c s"]


def test_a_transcript_that_comes_back_without_its_session_changes_nothing() -> None:
    queue = QueueStory()
    queue.happens(report(0, SessionStarted(session="s")))
    transcript = ended(queue)

    queue.happens(Transcribed(at=at(300), t=300.0, transcript=transcript))

    assert kept(queue.engine) == module.TranscriptsState()


@pytest.mark.parametrize(("day_usd", "left"), [(50.0, 40), (0.0, None)])
def test_what_is_left_of_the_day_is_told(day_usd: float, left: int | None) -> None:
    limits = BudgetConfig(day_usd=day_usd, session_usd=0, chain_usd=0)
    queue = QueueStory(Policy(budget=limits))
    queue.proposes(propose(0, session="s", cost_usd=30))

    assert ended(queue).budget_remaining_percent == left


# -- bounds ----------------------------------------------------------------------------------------


def test_of_a_long_session_the_first_actions_are_told_and_the_others_counted() -> None:
    engine = Engine(Policy())
    for n in range(module.MAX_OF_SESSION + 50):
        play(engine, propose(n, id=f"p{n}", session="s"))
    play(engine, end(300))

    (transcript,) = told(play(engine, tick(301)))

    assert len(transcript.actions) + transcript.left_out == module.MAX_OF_SESSION + 50
    assert transcript.left_out >= 50


def test_many_sessions_of_one_agent_share_its_room() -> None:
    engine = Engine(Policy())

    play(engine, *(report(n, SessionStarted(session=f"s{n}")) for n in range(20)))

    rooms = [record.room for record in kept(engine).live["code"].values()]
    assert rooms[0] == module.MAX_OF_SESSION
    assert rooms[-1] == module.MAX_OF_SESSIONS // 20


def test_all_sessions_together_have_a_bound(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_KEPT", 2)
    engine = Engine(Policy())
    play(engine, *(propose(n, f"a{n}", f"p{n}", session="s") for n in range(3)))
    assert kept(engine).kept == 2

    play(engine, tick(1803), tick(1804))

    assert kept(engine) == module.TranscriptsState()


def test_sessions_beyond_those_that_may_wait_are_not_told(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(module, "MAX_ENDED", 1)
    engine = Engine(Policy())
    play(engine, propose(0, session="s"), propose(0, id="p2", session="t"), end(1), end(1, "t"))

    transcripts = told(play(engine, tick(2)))

    assert [transcript.session_id for transcript in transcripts] == ["s"]
    assert kept(engine) == module.TranscriptsState()


def test_one_tick_tells_what_fits_into_a_batch() -> None:
    engine = Engine(Policy())
    sessions = [f"s{n}" for n in range(4)]
    long = "\x01" * 4000  # six bytes each, once it is JSON
    for n in range(40):
        for session in sessions:
            described = propose(n, id=f"{session}-{n}", session=session, description=long)
            play(engine, described)
    play(engine, *(end(50, session) for session in sessions))

    ticks = [play(engine, tick(51 + n)) for n in range(5)]

    sizes = [sum(len(encode(event)) for event in events) for events in ticks]
    assert max(sizes) < 64 * 1024
    told_of = [transcript.session_id for events in ticks for transcript in told(events)]
    assert told_of == sessions
    first = told(ticks[0])[0]
    assert first.left_out == 40 - len(first.actions) > 0


def test_short_transcripts_are_told_together() -> None:
    engine = Engine(Policy())
    play(engine, *(propose(0, f"a{n}", session="s") for n in range(8)), tick(1800))

    assert len(told(play(engine, tick(1801)))) == 8


def test_details_as_they_arrive_come_through_a_checkpoint() -> None:
    engine = Engine(Policy())
    outcome = read_telemetry(b'{"type": "outcome", "id": "p1", "ok": true, "details": {"code": 1}}')
    play(engine, propose(0, session="s"), report(1, outcome))

    (entry,) = kept(engine).live["code"]["s"].actions.values()

    assert entry.details == {"code": 1}
    Engine.restore(engine.save()())


def test_long_words_are_cut() -> None:
    queue = QueueStory()
    queue.proposes(propose(0, session="s", description="x" * 8000))
    details = {"log": "y" * 1000}
    queue.happens(report(1, Outcome(id="p1", ok=False, error="z" * 8000, details=details)))

    (entry,) = ended(queue).actions

    assert (len(entry.description), len(entry.reason)) == (module.MAX_CHARS, module.MAX_CHARS)
    assert entry.details == {"left_out_bytes": 1010}


def test_what_is_done_without_a_proposal_has_the_same_bounds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_OF_SESSION", 1)
    queue = QueueStory()
    done = Outcome(ok=True, session="s", action_type="index")
    queue.happens(report(0, done), report(1, done))

    transcript = ended(queue)

    assert (len(transcript.actions), transcript.left_out) == (1, 1)


def test_outcomes_of_actions_that_are_only_counted_spend_tokens(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(module, "MAX_OF_SESSION", 0)
    queue = QueueStory()
    queue.proposes(propose(0, session="s"))
    queue.happens(report(1, Outcome(id="p1", ok=True, tokens=Tokens(output=7))))

    assert ended(queue).token_usage == Usage(0, 7)


def test_an_agent_without_sessions_leaves_nothing_behind() -> None:
    engine = Engine(Policy())
    play(engine, propose(0), tick(1800), tick(1801))

    assert kept(engine) == module.TranscriptsState()


def test_the_end_of_a_session_that_is_not_known_is_nothing() -> None:
    engine = Engine(Policy())
    play(engine, propose(0))

    play(engine, SessionClosed(at=at(1), t=1.0, agent="code", session="other", why="ended"))

    assert kept(engine).ended == []


def test_a_journal_that_is_replayed_tells_what_was_not_told_yet() -> None:
    queue = QueueStory()
    queue.asks(0, session="s")
    queue.happens(end(1))
    again = Engine(Policy())

    again.replay(decode(encode(event)) for event in queue.journal)

    assert again.save()() == queue.engine.save()()
    assert told(play(again, tick(2))) == told(play(queue.engine, tick(2)))
