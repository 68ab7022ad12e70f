"""A project file, which agents can write, read by a daemon."""

from pathlib import Path

import pytest

from safetyd.client import SyncSafety
from safetyd.console.setup.config_text import config_text, project_name
from safetyd.console.setup.setup_questions import Answers
from tests.conftest import StartDaemon
from tests.console.console_rig import told


@pytest.mark.journey
@pytest.mark.req("S3.60")
def test_a_project_file_takes_effect_at_reload_and_a_broken_one_does_not_stop_it(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    file = tmp_path / ".safetyd.toml"
    file.write_text("rules = ")
    daemon = start_daemon(f'[projects.web]\nfile = "{file}"\n')

    with SyncSafety("code", data_dir=daemon.data_dir) as safety:
        broken = safety.propose("run_tests", project="web")
        file.write_text('[rules]\nrequire_permission = ["run_tests"]\n')
        assert told(daemon, "reload").returncode == 0
        tightened = safety.propose("run_tests", project="web")
        file.write_text("")
        assert told(daemon, "reload").returncode == 0
        usual = safety.propose("run_tests", project="web")

    assert broken.decision == tightened.decision == "require_confirmation"
    assert f"{file} cannot be used" in broken.reason
    assert "require_permission" in tightened.reason
    assert usual.allowed


@pytest.mark.journey
def test_the_daemons_own_files_stay_blocked_whatever_a_project_file_allows(
    start_daemon: StartDaemon,
) -> None:
    daemon = start_daemon("[rules]\nsensitive_paths = []\n")

    said = told(daemon, "check", "code", "read_file", "--path", f"{daemon.data_dir}/keys/x.nk")

    assert said.returncode == 1
    assert "gate.own" in said.stdout


@pytest.mark.journey
def test_default_project_binds_agents_that_name_no_project(
    start_daemon: StartDaemon, tmp_path: Path
) -> None:
    (tmp_path / "link").symlink_to("/opt")
    answers = Answers(profile="coding", root=tmp_path)
    daemon = start_daemon(config_text(answers))
    here, make = str(tmp_path), ("run_shell", "--text", "rm -rf build")

    def code(*arguments: str) -> int:
        return told(daemon, "check", "code", *arguments).returncode

    assert code("edit_file", "--path", f"{here}/a") == 0
    assert code("edit_file", "--path", "/opt/other/x") == 3
    assert code("edit_file", "--path", "x", "--cwd", "/opt/other") == 3
    assert code("edit_file", "--path", "x", "--cwd", f"{here}/link") == 3
    assert code(*make) == code(*make, "--cwd", here) == 0
    assert code(*make, "--cwd", "/opt/other") == 3
    assert code("read_file", "--project", project_name(tmp_path)) == 0
    assert code("read_file", "--project", "another") == 3
