"""The steps of docs/start.md with the real Claude Code, in the order of the document."""

from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Final

import pytest

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation
from tests.checkout import ROOT
from tests.conftest import StartDaemon
from tests.console.console_rig import at_a_terminal
from tests.documents.document_blocks import noted_block
from tests.hosts.real.host_programs import PROGRAMS, Program
from tests.hosts.real.real_hosts import HostHome
from tests.journeys.agents import until
from tests.journeys.asking_agent import waiting

pytestmark = pytest.mark.hosts

DOCUMENT: Final = ROOT / "docs/start.md"
CLAUDE_CODE: Final = [program for program in PROGRAMS if program.host == "claude-code"]


@pytest.mark.parametrize("program", CLAUDE_CODE, ids=lambda program: program.name)
def test_the_steps_with_claude_code_work(
    program: Program, start_daemon: StartDaemon, tmp_path: Path
) -> None:
    daemon, home = start_daemon(), HostHome(program, tmp_path)
    results: list[str] = []

    def step(note: str, more: str = "", conversation: Conversation | None = None) -> str:
        script = noted_block(DOCUMENT, note).strip() + more
        return home.run_script(script, conversation, SAFETYD_DATA_DIR=str(daemon.data_dir))

    def calls(command: str) -> Conversation:
        results.append((yield home.headless.shell(command)))

    with home.with_model():
        settings = home.settings()
        step("protect", " --yes")
        assert home.files() != settings

        step("harmless", conversation=calls("ls"))
        assert "ls" in step("decisions")

        with ThreadPoolExecutor(1) as pool:
            pushing = pool.submit(step, "push", conversation=calls("git push origin main"))
            until(lambda: waiting(daemon) or pushing.done())
            assert not home.pushed()
            said = at_a_terminal(
                *("-ec", noted_block(DOCUMENT, "approve")),
                program=["bash"],
                typed="y\n",
                after="[y/N]",
                HOME=str(home.home),
                PATH=home.variables()["PATH"],
                SAFETYD_DATA_DIR=str(daemon.data_dir),
            )
            assert "approved, once" in said
            pushing.result()
        assert home.pushed(), results

        step("unprotect", " --yes")
        assert home.files() == settings
