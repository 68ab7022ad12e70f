"""What a channel is opened with: a configuration, files with secrets, and an engine."""

from collections.abc import Callable
from pathlib import Path
from tempfile import TemporaryDirectory, mkdtemp

from safetyd.daemon.config import parse
from safetyd.notify.channel import ChannelContext
from safetyd.notify.links.sent_links import SentLinks
from safetyd.notify.links.tokens import Signer
from safetyd.notify.links.wrong_codes import WrongCodes
from tests.notify.compose_rig import ComposeRig
from tests.web.link_site import KEY

_SECRETS = TemporaryDirectory(prefix="safetyd-test-secrets-")


def context(
    *directories: Path,
    tables: str = "",
    wired: ComposeRig | None = None,
    public_url: str = "",
    publish: Callable[[str, object], None] = lambda _kind, _notice: None,
    secrets: dict[str, str] | None = None,
) -> ChannelContext:
    """Return a context in which `tables` are the configuration, and `secrets` are files."""
    own = Path(mkdtemp(dir=_SECRETS.name))
    for name, secret in (secrets or {}).items():
        (own / name).write_text(secret)
    wired = wired or ComposeRig()
    signer = Signer([KEY])
    config = parse(tables, "test")
    return ChannelContext(
        host="localhost",
        public_url=public_url,
        directories=(own, *directories),
        publish=publish,
        waits=lambda _request: False,
        tables=lambda: config.tables,
        mailbox=wired.mailbox,
        composer=wired.composer,
        signer=signer,
        sent_links=SentLinks(signer),
        wrong_codes=WrongCodes(),
        used=lambda _delivery, _at: None,
    )
