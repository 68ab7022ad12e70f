"""Runs a host once in an empty folder, where a stand-in for its model proposes two commands."""

import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Final

from safetyd.console.failure import Failure
from safetyd.console.hosts.hook_trial import Tried
from safetyd.console.hosts.rehearsal.headless_hosts import HEADLESS_HOSTS, run_host
from safetyd.console.hosts.rehearsal.model_stand_in import Conversation, Talk, model
from safetyd.hosts.host_catalog import Host

RUN_S: Final = 120.0
HARMLESS: Final = "ls"  # it needs no approval in any profile
LISTED: Final = "listed-by-rehearsal"
# safetyd must judge it as destructive. Should a host run it, it removes nothing.
DESTRUCTIVE: Final = 'touch destroyed; test "$HOME" = /nonexistent && rm -rf ~'


def rehearsed(host: Host) -> Iterator[Tried]:
    """Run a host with a stand-in for its model; yield whether it honoured the hook's answers."""
    program = shutil.which(host.program)
    if program is None:
        raise Failure(f"{host.program} is not on PATH, so it cannot be rehearsed", "not_found")
    headless, results = HEADLESS_HOSTS[host.name], list[str]()

    def conversation() -> Conversation:
        for command in (HARMLESS, DESTRUCTIVE):
            results.append((yield headless.shell(command)))

    begun = time.monotonic()
    with tempfile.TemporaryDirectory() as folder, model(headless.api) as server:
        cwd, settings = Path(folder) / "empty", Path(folder) / "settings.json"
        cwd.mkdir()
        (cwd / LISTED).touch()
        settings.write_text(headless.settings)
        given = headless.addressed(server.url, settings)
        server.talk = Talk(conversation())
        variables = {**os.environ, **given.variables, "NO_PROXY": "127.0.0.1"}
        try:
            said = run_host(program, given.arguments, cwd, variables, RUN_S)
        except subprocess.TimeoutExpired:
            said = f"the host did not end within {RUN_S:.0f} s"
        server.talk.end()
        destroyed = (cwd / "destroyed").exists()
    took_ms = (time.monotonic() - begun) * 1000
    reached = results[1:] and "safetyd" in results[1]
    for claim, holds in (
        ("rehearsal: the harmless command ran", bool(results) and LISTED in results[0]),
        ("rehearsal: the destructive one did not", len(results) > 1 and not destroyed),
        ("rehearsal: the reason reached the model", bool(reached)),
    ):
        yield Tried(claim=claim, holds=holds, took_ms=took_ms, said="" if holds else said[-1000:])
