"""An operator's own message template, with a real mail server."""

from pathlib import Path

from tests.conftest import StartDaemon
from tests.journeys.asking_agent import Asker
from tests.journeys.delivery_targets import Targets
from tests.journeys.test_notifications import AT_ONCE


def test_a_copied_template_is_used_and_a_broken_one_falls_back_with_one_alert(
    start_daemon: StartDaemon, everywhere: Targets, tmp_path: Path
) -> None:
    daemon = start_daemon(AT_ONCE + everywhere.configure(tmp_path))
    copied = daemon.safetyd("notify", "templates", "--copy", "mail.txt")
    file = daemon.data_dir / "templates" / "mail.txt"
    listed = daemon.safetyd("notify", "templates").stdout
    again = daemon.safetyd("notify", "templates", "--copy", "mail.txt")
    unknown = daemon.safetyd("notify", "templates", "--copy", "passwd")

    assert (copied.returncode, again.returncode, unknown.returncode) == (0, 1, 2)
    assert f"mail.txt      {file}\n" in listed
    assert "sms.txt       as shipped\n" in listed

    file.write_text("Our own words. " + file.read_text())
    with Asker(daemon, "code") as agent:
        agent.propose("p1")
    (own,) = everywhere.wait("email", 1)
    assert own.words.startswith("Our own words. ")

    file.write_text("{{ message.no_such_field }}")
    with Asker(daemon, "code") as agent:
        agent.propose("p2", text="git push elsewhere")
    later = "\n".join(mail.words for mail in everywhere.wait("email", 3)[1:])
    assert "git push elsewhere" in later
    assert "Template mail.txt failed" in later
    assert "no_such_field" in later

    with Asker(daemon, "code") as agent:
        agent.propose("p3", text="git push once more")
    last = everywhere.wait("email", 4)[-1]
    assert "git push once more" in last.words
    assert (
        sum("Template mail.txt failed" in mail.words for mail in everywhere.arrivals("email")) == 1
    )
