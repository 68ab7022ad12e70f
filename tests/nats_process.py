"""A real nats-server on loopback that a test can freeze, stop and restart."""

import os
import re
import signal
import subprocess
import sysconfig
from pathlib import Path

SERVER = Path(sysconfig.get_path("scripts")) / "nats-server"
LISTENING = re.compile(r"Listening for client connections on .*:(\d+)")


class NatsProcess:
    def __init__(self, directory: Path, config: str = "") -> None:
        self.directory = directory
        self._config = directory / "nats.conf"
        self._config.write_text(config)
        self._port = -1
        self.start()

    @property
    def url(self) -> str:
        return f"nats://127.0.0.1:{self._port}"

    def start(self) -> None:
        """Start on the previous port, if there was one."""
        command = [str(SERVER), "-c", str(self._config), "-a", "127.0.0.1", "-p", str(self._port)]
        self._process = subprocess.Popen(command, stderr=subprocess.PIPE, text=True)
        self._port = self._port_when_ready()

    def stop(self) -> None:
        """Kill the server. Calling it again does nothing."""
        if self._process.returncode is None:
            self._process.kill()
            self._process.communicate()

    def move(self) -> None:
        """Restart on another port."""
        self.stop()
        self._port = -1
        self.start()

    def freeze(self) -> None:
        """Freeze the server and wait until it has stopped."""
        self._process.send_signal(signal.SIGSTOP)
        os.waitpid(self._process.pid, os.WUNTRACED)

    def thaw(self) -> None:
        self._process.send_signal(signal.SIGCONT)

    def _port_when_ready(self) -> int:
        assert self._process.stderr is not None
        port, said = 0, ""
        for line in self._process.stderr:
            said += line
            if found := LISTENING.search(line):
                port = int(found[1])
            if "Server is ready" in line:
                return port
        self.stop()
        raise AssertionError(f"nats-server did not start: {said}")
