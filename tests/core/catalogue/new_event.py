"""Print what everybody says about the event of `new_entry`, which is imported first."""

import json
import logging
import sys
from io import StringIO

import msgspec

from safetyd.console.render.audit_lines import record
from safetyd.console.render.event_line import event_line as watched
from safetyd.core.engine.engine import Engine
from safetyd.core.engine.journal_lines import decode, encode
from safetyd.core.events.daemon_events import SafetyEvent
from safetyd.core.events.notification_events import Due
from safetyd.core.policy import Policy
from safetyd.core.recipients import QuietHours, Recipient, TellingConfig
from safetyd.core.simulation.recorded_lines import read_line
from safetyd.monitoring.event_log import EventLog
from safetyd.monitoring.metrics import Metrics
from safetyd.monitoring.published_events import published
from safetyd.operators.contract.decision_contract import EventRow
from safetyd.operators.views.decision_view import row_of
from tests.core.catalogue.new_entry import KettleBoiled
from tests.story import at


def main() -> None:
    awake = QuietHours(start="00:00", end="00:00")
    alice = Recipient(name="alice", channels=("mail",), quiet=awake)
    engine = Engine(Policy(telling=TellingConfig(recipients=(alice,), channels={"mail": "email"})))
    boiled = KettleBoiled(at=at(1), t=1.0, agent="code", by="alice", reason="tea")
    lines = [encode(event) for event in engine.handle(boiled)]
    journal = [decode(line) for line in lines]
    (notice,) = (event for event in journal if isinstance(event, SafetyEvent))
    (due,) = (event for event in journal if isinstance(event, Due))
    written, metrics = StringIO(), Metrics("1")
    logging.basicConfig(stream=written, format="%(levelname)s %(message)s", level=logging.INFO)
    EventLog().observe(journal)
    metrics.observe(journal)
    row, note = row_of(notice), engine.outbox.note(due.items[0].ref)
    assert isinstance(row, EventRow)
    assert note is not None
    said = {
        "journal": [json.loads(line)["event"] for line in lines],
        "feed": [row.type, row.severity, row.message],
        "alert": note.title,
        "log": written.getvalue().strip(),
        "watch": watched(msgspec.json.decode(msgspec.json.encode(published(notice)))),
        "audit": record(lines[0]),
        "metrics": next(
            line for line in b"".join(metrics.slices()).decode().splitlines() if "KETTLE" in line
        ),
        "simulation": type(read_line(lines[0])).__name__,
    }
    json.dump(said, sys.stdout)


main()
