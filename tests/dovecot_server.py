"""A real IMAP server, dovecot, with mailboxes that tests put mails into."""

import grp
import imaplib
import os
import pwd
import shutil
import signal
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, Final, Literal

import pytest

from tests.checkout import ROOT
from tests.free_ports import free_ports

DOVECOT: Final = ROOT / ".venv" / "dovecot" / "usr"
PASSWORD: Final = "open,sesame"
PATIENCE_S: Final = 60.0

Security = Literal["tls", "starttls", "none"]


class Dovecot:
    """A server of which every name is a user. Started by root, it runs as `nobody`."""

    def __init__(self) -> None:
        if not (DOVECOT / "sbin" / "dovecot").exists():
            pytest.fail("dovecot is missing; run: ./tests/system-packages")
        # Paths of sockets must be short, and `nobody` cannot read pytest's directories.
        self.directory = Path(tempfile.mkdtemp(prefix="safetyd-imap-"))
        self.ca_file = self.directory / "ca.pem"
        self._user: dict[str, Any] = {}
        self._owner = pwd.getpwuid(os.geteuid())
        if os.geteuid() == 0:
            self._owner = pwd.getpwnam("nobody")
            gid = self._owner.pw_gid
            self._user = {"user": self._owner.pw_uid, "group": gid, "extra_groups": []}
        shutil.copytree(DOVECOT / "lib", self.directory / "lib", symlinks=True)
        for program in ("sbin/dovecot", "bin/doveconf"):
            shutil.copy(DOVECOT / program, self.directory / Path(program).name)
        self.ports: dict[Security, int] = {}
        self._process: subprocess.Popen[bytes] | None = None
        self._configure()

    def start(self) -> None:
        libraries = self.directory / "lib" / "dovecot"
        modules = (libraries, libraries / "modules" / "old-stats", *libraries.parent.glob("*-gnu"))
        program, conf = self.directory / "doveconf", str(self.directory / "dovecot.conf")
        command = [str(program), "-f", "service=master", "-c", conf, "-m", "master", "-p"]
        with (self.directory / "output").open("ab") as output:
            self._process = subprocess.Popen(
                [*command, "-e", str(self.directory / "dovecot"), "-F"],
                env={"LD_LIBRARY_PATH": ":".join(map(str, modules)), "PATH": os.environ["PATH"]},
                cwd=self.directory,
                stdout=output,
                stderr=output,
                **self._user,
            )
        deadline = time.monotonic() + PATIENCE_S
        while not self._answers():
            assert time.monotonic() < deadline, self.log()
            time.sleep(0.02)

    def stop(self) -> None:
        if self._process is not None:
            self._process.send_signal(signal.SIGTERM)
            self._process.wait(PATIENCE_S)
            self._process = None

    def close(self) -> None:
        self.stop()
        shutil.rmtree(self.directory, ignore_errors=True)

    def log(self) -> str:
        files = (self.directory / name for name in ("log", "output"))
        return "".join(file.read_text() for file in files if file.exists())

    @contextmanager
    def mailbox(self, user: str) -> Iterator[imaplib.IMAP4]:
        """Open the inbox of a user."""
        with imaplib.IMAP4("127.0.0.1", self.ports["none"], timeout=PATIENCE_S) as imap:
            imap.login(user, PASSWORD)
            imap.select()
            yield imap

    def put(self, user: str, mail: bytes, flags: str = "") -> int:
        """Put a mail into the inbox of a user; return its id."""
        with self.mailbox(user) as imap:
            state, said = imap.append("INBOX", flags, "", mail)
            assert state == "OK", said
            imap.select()
            state, (ids, *_) = imap.uid("SEARCH", "ALL")
            return int(ids.split()[-1])

    def seen(self, user: str) -> list[int]:
        """Return the ids of the mails that are marked as read."""
        with self.mailbox(user) as imap:
            _, (ids, *_) = imap.uid("SEARCH", "SEEN")
            return [int(id_) for id_ in ids.split()]

    def wait_seen(self, user: str, uid: int) -> None:
        """Return once a mail is marked as read."""
        deadline = time.monotonic() + PATIENCE_S
        while uid not in self.seen(user):
            assert time.monotonic() < deadline, f"mail {uid} was not read\n{self.log()}"
            time.sleep(0.05)

    def _configure(self) -> None:
        folder, owner = self.directory, self._owner
        # The environment of the adapters' tests, which share the fixtures, does not have it.
        import trustme  # noqa: PLC0415

        authority = trustme.CA()
        authority.cert_pem.write_to_path(self.ca_file)
        authority.issue_cert("localhost", "127.0.0.1").private_key_and_cert_chain_pem.write_to_path(
            folder / "server.pem"
        )
        for name in ("run", "mail", "state"):
            (folder / name).mkdir()
        (folder / "run" / "modules").symlink_to(folder / "lib" / "dovecot" / "modules")
        plain, tls = free_ports(2)
        self.ports = {"none": plain, "starttls": plain, "tls": tls}
        group = owner.pw_gid
        (folder / "dovecot.conf").write_text(
            f"""
base_dir = {folder}/run
state_dir = {folder}/state
libexec_dir = {folder}/lib/dovecot
mail_plugin_dir = {folder}/lib/dovecot/modules
log_path = {folder}/log
import_environment = LD_LIBRARY_PATH TZ
protocols = imap
listen = 127.0.0.1
default_internal_user = {owner.pw_name}
default_internal_group = {grp.getgrgid(group).gr_name}
default_login_user = {owner.pw_name}
mail_location = maildir:{folder}/mail/%u
first_valid_uid = 1
first_valid_gid = 1
ssl = yes
ssl_cert = <{folder}/server.pem
ssl_key = <{folder}/server.pem
disable_plaintext_auth = no
auth_mechanisms = plain
passdb {{
  driver = static
  args = password={PASSWORD}
}}
userdb {{
  driver = static
  args = uid={owner.pw_uid} gid={group} home={folder}/mail/%u
}}
service config {{
  executable = config -c {folder}/dovecot.conf
}}
service imap-login {{
  chroot =
  inet_listener imap {{
    port = {self.ports["none"]}
  }}
  inet_listener imaps {{
    port = {self.ports["tls"]}
  }}
}}
service anvil {{
  chroot =
}}
service stats {{
  chroot =
}}
"""
        )
        for path in (folder, *folder.rglob("*")):
            os.chown(path, owner.pw_uid, group, follow_symlinks=False)

    def _answers(self) -> bool:
        plain = self.ports["none"]
        with (
            suppress(OSError, imaplib.IMAP4.error),
            imaplib.IMAP4("127.0.0.1", plain, timeout=5.0) as imap,
        ):
            return imap.state == "NONAUTH"
        return False


@pytest.fixture(scope="session")
def dovecot() -> Iterator[Dovecot]:
    server = Dovecot()
    server.start()
    try:
        yield server
    finally:
        server.close()
