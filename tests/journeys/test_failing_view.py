"""A bug in an operator query does not stop decisions."""

from pathlib import Path

from safetyd.journal.mailbox import FAILED
from tests.conftest import StartDaemon

# Python runs this at start-up; it puts a bug into one of the daemon's views.
BROKEN = """
from safetyd.operators.command_runner import VIEWS
from safetyd.operators.contract.guard_contract import LimitsQuestion
from safetyd.operators.handlers import overview

def broken(_engine, _moment):
    raise ZeroDivisionError("in a view")

VIEWS.update([overview(LimitsQuestion, broken)])
"""


def test_a_failing_query_is_answered_with_an_error_and_logged(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    (tmp_path / "sitecustomize.py").write_text(BROKEN)
    daemon = start_daemon(variables={"PYTHONPATH": str(tmp_path)})

    limits = daemon.safetyd("limits")
    status = daemon.safetyd("status")

    assert limits.returncode == 1
    assert FAILED in limits.stderr
    assert "ZeroDivisionError: in a view" in daemon.log()
    assert status.returncode == 0, status.stderr
    proposed = daemon.safetyd("propose", stdin='{"type": "read_file", "paths": ["/a"]}')
    assert proposed.returncode == 0, proposed.stderr
