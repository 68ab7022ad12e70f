"""The folder of a mailbox, read with IMAP. The methods block, so call them in a thread.

Passwords and mails are sent only over encrypted connections, except to this machine itself. A mail
that was handled is marked as read, so that neither a restart nor another daemon handles it again.
"""

import contextlib
import imaplib
import re
import socket
import ssl
from collections.abc import Callable
from datetime import date
from typing import Final, NamedTuple, TypeVar

from safetyd.host import is_this_machine
from safetyd.notify.channel import Misconfigured, Unavailable
from safetyd.notify.email.channel import EmailConfig
from safetyd.notify.email.reply_mail import MAX_BYTES
from safetyd.notify.email.smtp import trusting
from safetyd.notify.sanitize import one_line

TIMEOUT_S: Final = 15.0  # for each exchange with the server
WINDOW: Final = 5000  # ids searched at once, so that the answer stays short
MAX_FOUND: Final = 100  # mails returned at once

_MONTHS: Final = (
    *("Jan", "Feb", "Mar", "Apr", "May", "Jun"),
    *("Jul", "Aug", "Sep", "Oct", "Nov", "Dec"),
)
_WORDS: Final = 200

_size = re.compile(rb"RFC822\.SIZE ([0-9]{1,12})").search
Result = TypeVar("Result")


class FolderMail(NamedTuple):
    uid: int
    raw: bytes  # at most the first `MAX_BYTES`
    size: int  # of the whole mail


class ImapFolder:
    """A connection to a folder. After an error, close it and make a new one."""

    def __init__(self, config: EmailConfig, password: str) -> None:
        self._config = config
        self._password = password
        self._user = config.imap_username or config.reply_to
        self._imap: imaplib.IMAP4 | None = None
        self._closed = False
        self.validity = 0  # with the id of a mail, it identifies the mail for ever
        self._next = 1

    @property
    def name(self) -> str:
        return f"{self._config.imap_folder} of {self._user} at {self._config.imap_host}"

    def open(self) -> int:
        """Connect, log in and open the folder. Return the number of mails in it."""
        return self._told(self._open)

    def unread(self, after: int, since: date) -> tuple[list[int], int]:
        """Return ids of unread mails above `after`, and the highest id that was searched."""
        return self._told(lambda: self._unread(after, since))

    def fetch(self, uid: int) -> FolderMail | None:
        """Return the beginning of a mail; None if it was deleted. It stays unread."""
        return self._told(lambda: self._fetch(uid))

    def mark(self, uid: int) -> None:
        """Mark a mail as read."""
        self._told(lambda: self._did("STORE", str(uid), "+FLAGS.SILENT", r"(\Seen)"))

    def close(self) -> None:
        """Close the connection; a thread that waits for the server gets an error."""
        imap, self._imap, self._closed = self._imap, None, True
        if imap is not None:
            with contextlib.suppress(OSError):
                imap.sock.shutdown(socket.SHUT_RDWR)
            with contextlib.suppress(OSError, imaplib.IMAP4.error):
                imap.shutdown()

    def _open(self) -> int:
        config = self._config
        host, port, security = config.imap_host, config.imap_port, config.imap_security
        if security == "none" and not is_this_machine(host):
            raise Misconfigured('imap_security is "none", but the server is another machine')
        imap: imaplib.IMAP4
        if security == "tls":
            context = trusting(config.ca_file)
            imap = imaplib.IMAP4_SSL(host, port, ssl_context=context, timeout=TIMEOUT_S)
        else:
            imap = imaplib.IMAP4(host, port, timeout=TIMEOUT_S)
        self._imap = imap
        if self._closed:  # while it connected
            self.close()
        if security == "starttls":
            imap.starttls(trusting(config.ca_file))
        try:
            self._log_in(imap)
        except imaplib.IMAP4.abort:
            raise
        except imaplib.IMAP4.error as exc:
            why = f"{self._where} refused the login: {self._words(exc)}"
            raise Misconfigured(why) from None
        return self._select()

    def _log_in(self, imap: imaplib.IMAP4) -> None:
        if "AUTH=PLAIN" in imap.capabilities:
            said = f"\0{self._user}\0{self._password}".encode()
            imap.authenticate("PLAIN", lambda _challenge: said)
        else:
            imap.login(self._user, self._password)

    def _select(self) -> int:
        imap = self._connected()
        folder = self._config.imap_folder.replace("\\", "\\\\").replace('"', '\\"')
        try:
            state, said = imap.select(f'"{folder}"')
        except imaplib.IMAP4.readonly:
            raise Misconfigured(f"{self._where} opens imap_folder only for reading") from None
        if state != "OK":
            why = f"{self._where} cannot open imap_folder: {self._words(said)}"
            raise Misconfigured(why)
        self.validity = self._number("UIDVALIDITY")
        self._next = self._number("UIDNEXT")
        return int(said[0] or b"0")

    def _unread(self, after: int, since: date) -> tuple[list[int], int]:
        self._select()
        last = min(after + WINDOW, self._next - 1)
        if last <= after:
            return [], after
        day = f"{since.day:02}-{_MONTHS[since.month - 1]}-{since.year}"
        said = self._did("SEARCH", "UID", f"{after + 1}:{last}", "UNSEEN", "SINCE", day)
        words = b" ".join(line for line in said if isinstance(line, bytes)).split()
        found = sorted({int(word) for word in words if word.isdigit()})
        found = [uid for uid in found if after < uid <= last]
        return found[:MAX_FOUND], found[MAX_FOUND - 1] if len(found) > MAX_FOUND else last

    def _fetch(self, uid: int) -> FolderMail | None:
        said = self._did("FETCH", str(uid), f"(RFC822.SIZE BODY.PEEK[]<0.{MAX_BYTES}>)")
        facts, raw = b"", b""
        for line in said:
            if isinstance(line, tuple):
                facts, raw = facts + b" " + line[0], line[1]
            elif isinstance(line, bytes):
                facts += b" " + line
        size = _size(facts)
        if size is None:
            return None
        return FolderMail(uid, bytes(raw[:MAX_BYTES]), max(int(size[1]), len(raw)))

    def _did(self, command: str, *words: str) -> list[object]:
        state, said = self._connected().uid(command, *words)
        if state != "OK":
            raise Unavailable(f"{self._where} refused {command}: {self._words(said)}")
        return list(said)

    def _number(self, name: str) -> int:
        """Return a number that the server told when the folder was opened."""
        _, said = self._connected().response(name)
        word = said[-1] if said else None
        if not isinstance(word, bytes) or not word.isdigit():
            raise Unavailable(f"{self._where} did not tell {name}")
        return int(word)

    def _connected(self) -> imaplib.IMAP4:
        if self._imap is None:
            raise Unavailable(f"{self._where} is not connected")
        return self._imap

    def _told(self, do: Callable[[], Result]) -> Result:
        """Do something, and turn the library's errors into a channel's."""
        try:
            return do()
        except TimeoutError:
            raise Unavailable(f"{self._where} did not answer in time") from None
        except ssl.SSLCertVerificationError as exc:
            raise Misconfigured(f"{self._where}: {exc.verify_message}") from None
        except (OSError, imaplib.IMAP4.error, ValueError) as exc:
            raise Unavailable(f"{self._where}: {self._words(exc)}") from None

    @property
    def _where(self) -> str:
        return f"{self._config.imap_host}:{self._config.imap_port}"

    def _words(self, said: object) -> str:
        """Return the server's words without the password, which some servers repeat."""
        text = str(said[0]) if isinstance(said, list) and said else str(said)
        if self._password:
            text = text.replace(self._password, "[password]")
        return one_line(text, _WORDS)
