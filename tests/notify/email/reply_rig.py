"""Alice, who replies to mails, and the mailbox in which her replies arrive."""

import re
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from email import policy
from email.message import EmailMessage
from itertools import count
from pathlib import Path
from typing import Final

from anyio import to_thread

from safetyd.core.events.request_events import Answered
from tests.dovecot_server import PASSWORD, Dovecot
from tests.notify.email.mail_servers import MailServer, Received, mail_server
from tests.notify.notifier_rig import NotifierRig, mail_table
from tests.servers import until

ALICE: Final = "alice@example.com"
SERVER: Final = "mx.example.net"  # the authserv-id of the server that receives replies
PASSED: Final = f"{SERVER}; dkim=pass header.d=example.com"

_numbers = count(1)
_code = re.compile(r"Code: ([0-9]{4,6})").search


def replies_table(dovecot: Dovecot, user: str, directory: Path, *lines: str) -> str:
    """Return the settings for reading replies, to add to the table of mail."""
    (directory / "imap.password").write_text(PASSWORD)
    table = (
        "replies = true",
        f'reply_to = "{user}"',
        'imap_host = "127.0.0.1"',
        f"imap_port = {dovecot.ports['none']}",
        'imap_security = "none"',
        f'imap_password_file = "{directory}/imap.password"',
        "imap_poll_seconds = 1",
        *lines,
    )
    return "\n".join(table)


_LETTERS = str.maketrans("0123456789", "abcdefghij")


def code_in(mail: Received) -> str:
    found = _code(mail.text)
    assert found is not None, mail.text
    return found[1]


def reply_to(mail: Received, text: str, **headers: str) -> EmailMessage:
    """Return a reply as Alice's program writes it; headers replace its own, "" removes one."""
    original = "\n".join(f"> {line}" for line in mail.text.splitlines())
    reply = EmailMessage(policy=policy.default.clone(max_line_length=990))
    usual = {
        "Authentication-Results": PASSED,
        "From": f"Alice <{ALICE}>",
        "To": str(mail.message["Reply-To"]),
        "Subject": f"Re: {mail.message['Subject']}",
        "Message-ID": f"<reply-{next(_numbers)}@example.com>",
        "In-Reply-To": str(mail.message["Message-ID"]),
        "References": f"{mail.message['References']} {mail.message['Message-ID']}",
    }
    for name, value in (usual | {key.replace("_", "-"): v for key, v in headers.items()}).items():
        if value:
            reply[name] = value
    reply.set_content(f"{text}\n\nOn Thu, safetyd wrote:\n{original}\n")
    return reply


class Alice:
    def __init__(self, rig: NotifierRig, smtp: MailServer, dovecot: Dovecot, user: str) -> None:
        self.rig = rig
        self.smtp = smtp
        self.user = user
        self._dovecot = dovecot

    async def asked(self, *ids: str, **fields: object) -> Received:
        """Let agents ask, and return the mail about all their requests."""
        before = len(self.smtp.received)
        several = len(ids) > 1  # equal actions are one request
        for id_ in ids or ("p1",):
            branch = id_.translate(_LETTERS)  # similar actions are one entry
            own = {"text": f"git push origin {branch}"} if several else {}
            self.rig.wired.asks(id_, **(own | fields))
        self.rig.wired.passes()
        return await self.mail(before + 1)

    async def mail(self, number: int) -> Received:
        await until(lambda: len(self.smtp.received) >= number)
        await self.rig.wired.rest()
        return self.smtp.received[number - 1]

    async def sends(self, reply: EmailMessage | bytes) -> None:
        """Put a mail into the mailbox, and return once it was handled."""
        uid = await self.puts(reply)
        await to_thread.run_sync(self._dovecot.wait_seen, self.user, uid)
        await self.rig.wired.rest()

    async def puts(self, reply: EmailMessage | bytes) -> int:
        raw = reply if isinstance(reply, bytes) else reply.as_bytes()
        return await to_thread.run_sync(self._dovecot.put, self.user, raw)

    async def seen(self) -> list[int]:
        return await to_thread.run_sync(self._dovecot.seen, self.user)

    def answers(self) -> list[Answered]:
        events = self.rig.wired.journalled(Answered)
        return [event for event in events if isinstance(event, Answered)]

    def reads(self) -> str:
        (channel,) = self.rig.asks("channels")["channels"]
        return str(channel["reads"])

    def refused(self) -> int:
        (channel,) = self.rig.notifier.dispatch.states()
        return channel.refused


@asynccontextmanager
async def alice(
    dovecot: Dovecot, directory: Path, *lines: str, user: str = "", **keywords: object
) -> AsyncIterator[Alice]:
    """Run a notifier that reads replies; `lines` are further settings of mail."""
    user = user or f"safetyd-{next(_numbers)}@example.net"
    given = lines or (f'authserv_id = "{SERVER}"',)
    with mail_server("none") as smtp:
        table = mail_table(smtp, replies_table(dovecot, user, directory, *given))
        rig = NotifierRig(directory, table, **keywords)  # type: ignore[arg-type]
        async with rig.at_work():
            yield Alice(rig, smtp, dovecot, user)
