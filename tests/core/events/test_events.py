"""Events written by other versions of safetyd."""

import json

import pytest

from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.daemon_events import SafetyEvent
from tests.story import at

# As version 0.1.0 wrote it. This line is never changed.
FIRST = (
    b'{"event":"safety_event","seq":7,"at":"2026-03-01T12:00:01Z","t":1.0,'
    b'"id":"5afe7d00-0000-4000-8000-000000000001","timestamp":"2026-03-01T12:00:01Z",'
    b'"event_type":"COST_WARNING","agent_id":"code","model_id":"gpt-5.2","breaker_id":null,'
    b'"cost_snapshot":{"scope":"day","spent":41.5},"reason":"day budget: $41.50 of $50.00 used",'
    b'"metadata":{"scope":"day","id":"2026-03-01"}}'
)
EVENT = SafetyEvent(
    seq=7,
    at=at(1),
    t=1.0,
    id="5afe7d00-0000-4000-8000-000000000001",
    timestamp=at(1),
    event_type="COST_WARNING",
    agent_id="code",
    model_id="gpt-5.2",
    cost_snapshot={"scope": "day", "spent": 41.5},
    reason="day budget: $41.50 of $50.00 used",
    metadata={"scope": "day", "id": "2026-03-01"},
)


@pytest.mark.req("S1.37")
def test_an_event_is_read_and_written_as_by_the_first_version() -> None:
    assert decode(FIRST) == EVENT
    assert encode(EVENT) == FIRST


@pytest.mark.req("S1.37")
def test_fields_of_a_later_version_are_passed_over() -> None:
    later = {**json.loads(FIRST), "trace_id": "t-1", "event_type": "UNHEARD_OF"}

    event = decode(json.dumps(later).encode())

    assert isinstance(event, SafetyEvent)
    assert (event.id, event.event_type) == (EVENT.id, "UNHEARD_OF")


@pytest.mark.req("S1.37")
@pytest.mark.parametrize("field", ["agent_id", "model_id", "breaker_id", "cost_snapshot"])
def test_fields_that_an_event_need_not_have_may_be_missing(field: str) -> None:
    line = {name: value for name, value in json.loads(FIRST).items() if name != field}

    event = decode(json.dumps(line).encode())

    assert getattr(event, field) is None
