"""Protects a host for all users, where `/etc` is a copy: run by `test_system_scope.py`.

`python -m tests.hosts.real.system_session PROGRAM FOLDER DATA_DIR` prints, as JSON, which commands
ran. It needs a mount namespace of its own.
"""

import json
import os
import subprocess
import sys
from pathlib import Path

from safetyd.console.hosts.rehearsal.model_stand_in import Conversation
from tests.hosts.real.host_programs import PROGRAMS
from tests.hosts.real.left_out_ways import WAYS, trust_project, write_files
from tests.hosts.real.real_hosts import HostHome


def main(name: str, folder: Path, data_dir: str) -> None:
    etc = folder / "etc"
    subprocess.run(["cp", "-a", "/etc", str(etc)], check=False)  # some files may be unreadable
    subprocess.run(["mount", "--bind", str(etc), "/etc"], check=True)
    (program,) = (program for program in PROGRAMS if program.name == name)
    home = HostHome(program, folder / "host")
    before = sorted(path.name for path in Path("/etc").iterdir())
    said: dict[str, object] = {}

    def safetyd(*words: str) -> int:
        command = [sys.executable, "-m", "safetyd", *words, program.host, "--system", "--yes"]
        variables = home.variables(SAFETYD_DATA_DIR=data_dir)
        ran = subprocess.run(
            command, env=variables, cwd=home.project, capture_output=True, check=False
        )
        sys.stderr.buffer.write(ran.stdout + ran.stderr)
        return ran.returncode

    def ran(file: str, *options: str, first: str = "git push origin main") -> bool:
        def conversation() -> Conversation:
            yield home.headless.shell(f"{first}; touch {file}")

        home.talk(conversation(), *options)
        return (home.project / file).exists()

    with home.with_model():
        said["protect"] = safetyd("protect")
        said["harmless"] = ran("harmless", first="ls")
        for number, way in enumerate(WAYS[program.host]):
            if way.leaves_out:
                trust_project(home, way)
                write_files(home, way)
                said[way.name] = ran(f"ran-{number}", *way.options)
        said["unprotect"] = safetyd("unprotect")
    said["restored"] = sorted(path.name for path in Path("/etc").iterdir()) == before
    print(json.dumps(said))


if __name__ == "__main__":
    main(sys.argv[1], Path(sys.argv[2]), sys.argv[3])
    os._exit(0)
