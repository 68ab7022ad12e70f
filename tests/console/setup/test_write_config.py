import json
import stat
import subprocess
import sys
from pathlib import Path

import pytest

from safetyd.console.locations import own_command
from safetyd.daemon.config import load
from tests.conftest import LAST_WORD, environment
from tests.console.console_rig import Said, here
from tests.console.setup.dialogue import dialogue

START = (sys.executable, "-m", "safetyd", "run")


def init(directory: Path, *arguments: str) -> Said:
    """Let it write where nobody has a desktop."""
    return here("init", *arguments, SAFETYD_DATA_DIR=str(directory / "data"))


@pytest.fixture(autouse=True)
def project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    for name in ("DBUS_SESSION_BUS_ADDRESS", "XDG_RUNTIME_DIR"):
        monkeypatch.delenv(name, raising=False)
    root = tmp_path / "web"
    (root / ".git").mkdir(parents=True)
    monkeypatch.chdir(root)
    return root


def test_yes_writes_what_is_proposed_where_a_start_finds_it(tmp_path, project):
    said = init(tmp_path, "--yes")

    path = tmp_path / "data/safetyd.toml"
    assert (said.returncode, said.stderr) == (0, "")
    assert said.stdout.startswith(f"Wrote {path}:\n")
    assert f"  project  web in {project}\n" in said.stdout
    assert said.stdout.endswith(f" run --data-dir {tmp_path / 'data'}\n")
    assert load(path).profile == "coding"


def test_the_checks_of_the_project_are_proposed(tmp_path, project):
    (project / "Makefile").write_text("test:\n\ttouch executed\n")

    said = init(tmp_path, "--yes")

    assert "  checks   make test\n" in said.stdout
    assert load(tmp_path / "data/safetyd.toml").projects["web"].checks == ("make test",)
    assert not (project / "executed").exists()


def test_only_its_owner_can_read_the_file_and_its_folder(tmp_path):
    init(tmp_path, "--yes")

    data = tmp_path / "data"
    assert stat.S_IMODE(data.stat().st_mode) == 0o700
    assert stat.S_IMODE((data / "safetyd.toml").stat().st_mode) == 0o600


def test_a_file_of_another_name_is_given_to_the_start(tmp_path):
    said = init(tmp_path, "my own.toml", "--yes")

    path = tmp_path / "web/my own.toml"
    assert f" run --config '{path}' --data-dir " in said.stdout
    assert path.exists()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


def test_a_file_that_is_there_stays_and_the_way_to_write_over_it_is_said(tmp_path):
    path = tmp_path / "my.toml"
    path.write_text("# mine\n")

    said = init(tmp_path, str(path), "--yes")

    assert said.returncode == 1
    assert said.stderr.startswith(f"safetyd: {path} already exists. ")
    assert f" init {path} --data-dir {tmp_path / 'data'} --force`" in said.stderr
    assert path.read_text() == "# mine\n"


def test_nobody_is_asked_for_a_file_that_is_there(tmp_path):
    init(tmp_path, "--yes")

    assert "already exists" in init(tmp_path).stderr


def test_force_writes_over_a_file_and_where_a_link_leads(tmp_path):
    path, link = tmp_path / "my.toml", tmp_path / "link.toml"
    path.write_text("# mine\n")
    link.symlink_to(path)

    said = init(tmp_path, str(link), "--yes", "--force")

    assert said.returncode == 0
    assert link.is_symlink()
    assert load(path).profile == "coding"


def test_without_a_terminal_yes_is_named(tmp_path):
    said = init(tmp_path)

    assert said.returncode == 2
    assert "--yes" in said.stderr
    assert not (tmp_path / "data").exists()


def test_a_place_that_cannot_be_written_to_is_named(tmp_path):
    missing = init(tmp_path, str(tmp_path / "nowhere/my.toml"), "--yes")
    folder = init(tmp_path, str(tmp_path), "--yes", "--force")

    assert (missing.returncode, folder.returncode) == (1, 1)
    assert missing.stderr.endswith("my.toml: No such file or directory\n")
    assert folder.stderr == f"safetyd: cannot write {tmp_path}: Is a directory\n"


def test_programs_get_json(tmp_path, project):
    said = json.loads(init(tmp_path, "--yes", "--json").stdout)

    (step,) = said.pop("next")
    assert step.endswith(f" run --data-dir {tmp_path / 'data'}")
    assert said == {
        "ok": True,
        "file": str(tmp_path / "data/safetyd.toml"),
        "profile": "coding",
        "project": {"name": "web", "root": str(project), "checks": []},
        "told": "none",
    }


def test_programs_hear_in_json_that_a_file_is_there(tmp_path):
    init(tmp_path, "--yes")

    said = json.loads(init(tmp_path, "--yes", "--json").stdout)

    assert (said["ok"], said["code"]) == (False, "exists")


def test_without_a_repository_there_is_no_project(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)

    said = init(tmp_path, "--yes")

    assert (
        "  project  none: no folder: files anywhere can be changed without approval" in said.stdout
    )
    assert load(tmp_path / "data/safetyd.toml").projects == {}


def test_a_daemon_that_runs_goes_on_as_it_was(tmp_path):
    data = tmp_path / "data"
    data.mkdir(mode=0o700)
    endpoint = {"bus": "nats://127.0.0.1:1", "web": "", "pid": 1, "version": ""}
    (data / "endpoint.json").write_text(json.dumps(endpoint))

    said = init(tmp_path, "--yes").stdout

    assert "(pid 1) uses the old configuration until you reload it." in said
    assert f"Next steps:\n  {own_command()} reload --data-dir {data}" in said


@pytest.mark.usefixtures("measured")
def test_a_start_reads_what_was_written_and_says_so(tmp_path):
    init(tmp_path, "--yes")
    data = tmp_path / "data"
    with (data / "safetyd.toml").open("a") as file:
        file.write("[web]\nport = 0\n")

    with subprocess.Popen(
        [*START, "--data-dir", str(data)],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        said = b"".join(iter(process.stdout.readline, LAST_WORD + b"\n")).decode()
        status = here("status", "--json", "--data-dir", str(data))
        # The same file again, with another answer: the daemon is reloaded if the operator agrees.
        again = dialogue(
            *("init", "--force", "--data-dir", str(data)),
            typed=("strict", "", "", "y"),
            cwd=tmp_path,
            HOME=str(tmp_path),
        )
        reloaded = here("status", "--json", "--data-dir", str(data))
        process.terminate()

    assert f"  config  {data / 'safetyd.toml'}\n" in said
    assert "  Profile coding: " in said
    assert json.loads(status.stdout)["profile"] == "coding"
    assert json.loads(status.stdout)["config"] == str(data / "safetyd.toml")
    assert "Reload the running daemon now? [y/N]" in again.stderr
    assert again.stdout.endswith(
        "Reloaded.\n[web] has changed and takes effect at the next start\n"
    )
    assert json.loads(reloaded.stdout)["profile"] == "strict"
