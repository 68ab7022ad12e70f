import subprocess
import sys
import time
from pathlib import Path

import pytest

from safetyd.console.render.profiles import judged_by
from tests.conftest import LAST_WORD, RunningDaemon, StartDaemon, environment, safetyd
from tests.console.console_rig import here

pytestmark = pytest.mark.usefixtures("measured")


@pytest.fixture(scope="module")
def daemon(start_module_daemon: StartDaemon) -> RunningDaemon:
    return start_module_daemon()


def test_a_second_daemon_names_the_first_and_ends(daemon):
    said = daemon.safetyd("run", "--config", str(daemon.config_path))

    assert said.returncode == 1
    assert f"pid {daemon.pid}" in said.stderr
    assert "Traceback" not in said.stderr


def test_a_bad_file_stops_the_start_with_every_mistake_on_a_line_of_its_own(tmp_path):
    path = tmp_path / "safetyd.toml"
    path.write_text("one = 1\ntwo = 2\n")

    said = safetyd("run", "--config", str(path), "--data-dir", str(tmp_path / "data"))

    assert said.returncode == 1
    assert [line.split()[0] for line in said.stderr.splitlines()] == ["safetyd:"] * 2


def test_the_data_dir_is_made_for_its_owner_alone(daemon):
    assert daemon.data_dir.stat().st_mode & 0o077 == 0


def test_a_data_dir_that_cannot_be_used_is_named(tmp_path):
    (tmp_path / "audit").touch()

    said = safetyd("run", "--data-dir", str(tmp_path))

    assert said.returncode == 1
    assert said.stderr.startswith("safetyd: cannot use the data directory: ")
    assert str(tmp_path / "audit") in said.stderr
    assert "Traceback" not in said.stderr


def test_a_daemon_whose_words_nobody_reads_runs_all_the_same(tmp_path):
    options = ["--config", str(tmp_path / "safetyd.toml"), "--data-dir", str(tmp_path / "data")]
    (tmp_path / "safetyd.toml").write_text("[web]\nport = 0\n")
    with subprocess.Popen(
        [sys.executable, "-m", "safetyd", "run", *options],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        process.stdout.close()
        for line in process.stderr:
            if b"replayed" in line:
                break
        ends = time.monotonic() + 20
        while here("status", "--data-dir", str(tmp_path / "data")).returncode:
            assert time.monotonic() < ends
        process.terminate()

        assert b"Traceback" not in process.stderr.read()
    assert process.returncode == 0


def test_hints_of_the_start_work_in_a_terminal_without_the_variable(tmp_path):
    (tmp_path / "safetyd.toml").write_text("[web]\nport = 0\n")
    with subprocess.Popen(
        [sys.executable, "-m", "safetyd", "run", "--config", str(tmp_path / "safetyd.toml")],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        env=environment(SAFETYD_DATA_DIR=str(tmp_path / "data")),
    ) as process:
        assert process.stdout is not None
        hints = [line for line in process.stdout if _is_hint_or_ends(process, line)]

    assert len(hints) == 2
    assert all(hint.endswith(f" --data-dir {tmp_path / 'data'}\n") for hint in hints)


def _is_hint_or_ends(process: "subprocess.Popen[str]", line: str) -> bool:
    if line.startswith("Press Ctrl-C"):
        process.terminate()
    return " check " in line or " status" in line


def test_the_file_of_the_data_dir_is_read_without_being_named(tmp_path):
    (tmp_path / "safetyd.toml").write_text("one = 1\n")

    said = safetyd("run", "--data-dir", str(tmp_path))

    assert said.returncode == 1
    assert said.stderr.startswith(f"safetyd: {tmp_path / 'safetyd.toml'}: one is not a setting")


def test_a_start_without_a_configuration_says_what_to_type_next(tmp_path):
    scripts = Path(sys.executable).parent
    said = {}
    for path in (f"{scripts}:/usr/bin:/bin", "/usr/bin:/bin"):
        with subprocess.Popen(
            [sys.executable, "-m", "safetyd", "run", "--data-dir", "data"],
            stdout=subprocess.PIPE,
            stderr=subprocess.DEVNULL,
            text=True,
            cwd=tmp_path,
            env=environment(PATH=path),
        ) as process:
            assert process.stdout is not None
            said[path] = "".join(iter(process.stdout.readline, f"{LAST_WORD.decode()}\n"))
            process.terminate()

    on_path, hidden = said.values()
    next_steps = on_path.partition("In another terminal:\n")[2]
    assert "Profile strict: " in on_path
    assert next_steps.startswith(f"  safetyd init --data-dir {tmp_path / 'data'}\n")
    assert f"In another terminal:\n  . {scripts / 'activate'}\n{next_steps}" in hidden


@pytest.mark.parametrize("profile", ["strict", "coding"])
def test_the_start_says_which_profile_is_on_and_how_to_change_it(tmp_path, profile):
    path = tmp_path / "my.toml"
    path.write_text(f'profile = "{profile}"\n[web]\nport = 0\n')
    with subprocess.Popen(
        [sys.executable, "-m", "safetyd", "run", "--config", "my.toml", "--data-dir", "data"],
        stdout=subprocess.PIPE,
        stderr=subprocess.DEVNULL,
        text=True,
        cwd=tmp_path,
        env=environment(),
    ) as process:
        assert process.stdout is not None
        said = list(iter(process.stdout.readline, f"{LAST_WORD.decode()}\n"))
        process.terminate()

    judged, other = judged_by(profile)
    assert said[4:7] == [f"  config  {path}\n", f"  {judged}\n", f"  {other}\n"]


def test_a_data_dir_that_cannot_be_made_is_named(tmp_path):
    (tmp_path / "file").touch()

    said = safetyd("run", "--data-dir", str(tmp_path / "file" / "data"))

    assert said.returncode == 1
    assert "--data-dir" in said.stderr
