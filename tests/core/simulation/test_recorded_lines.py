"""What of a record is put to an engine, and what follows from that."""

from typing import Any

import pytest

from safetyd.core.engine.journal_lines import encode
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.guard_events import (
    Paused,
    PersonSeen,
    SafeModeEntered,
    Stopped,
    Unpaused,
)
from safetyd.core.events.request_events import Cancelled, Expired
from safetyd.core.simulation.recorded_lines import Consequence, follows, read_line
from tests.story import NOON, tick

WHEN: dict[str, Any] = {"at": NOON, "t": 1.0}


@pytest.mark.parametrize(
    ("cause", "consequence"),
    [
        (
            Stopped(**WHEN, source="operator", by="alice", epoch=1),
            Stopped(**WHEN, source="anomaly", by="safetyd", epoch=1),
        ),
        (
            Paused(**WHEN, agent="code", source="operator", by="alice"),
            Paused(**WHEN, agent="code", source="budget", by="safetyd"),
        ),
        (
            Unpaused(**WHEN, agent="code", sources=("operator",), by="alice"),
            Unpaused(**WHEN, agent="code", sources=("anomaly",), by="alice", approved=True),
        ),
        (SafeModeEntered(**WHEN, by="alice"), SafeModeEntered(**WHEN, by="safetyd")),
        (
            PersonSeen(**WHEN, by="alice", how="ack"),
            PersonSeen(**WHEN, by="safetyd", how="first start"),
        ),
        (
            Cancelled(**WHEN, request_id="req_1", by="alice", via="cli"),
            Cancelled(**WHEN, request_id="req_1", by="alice", via="unpause"),
        ),
    ],
)
def test_some_events_follow_from_others_only_if_nobody_did_them(cause, consequence):
    assert not follows(read_line(encode(cause)))
    assert follows(read_line(encode(consequence)))


def test_of_what_is_not_compared_only_the_time_is_read():
    told = SafetyEvent(
        **WHEN, id="1", timestamp=NOON, event_type="ACTION_BLOCKED", reason="x", metadata={}
    )

    for event in (told, Expired(**WHEN, request_ids=("req_1",))):
        line = read_line(encode(event))
        assert isinstance(line, Consequence)
        assert (line.at, line.t) == (NOON, 1.0)
        assert follows(line)


def test_a_tick_is_never_on_record():
    with pytest.raises(ValueError, match="ticked"):
        read_line(encode(tick(1)))
