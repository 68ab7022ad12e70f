"""`safetyd health`: one fast check for container engines and load balancers."""

import http.client
from contextlib import closing
from http import HTTPStatus
from pathlib import Path
from typing import Final
from urllib.parse import urlsplit

import click

from safetyd.console.failure import Failure
from safetyd.console.help_page import command
from safetyd.console.locations import endpoint
from safetyd.console.options import data_dir_option, json_option
from safetyd.console.terminal_text import document
from safetyd.host import ENDPOINT

WEB_S: Final = 3.0
MAX_BYTES: Final = 500


@command()
@click.option("--ready", is_flag=True, help="Also require that proposals are answered now.")
@data_dir_option
@json_option
def health(directory: Path, *, ready: bool, as_json: bool) -> None:
    """Check that the daemon on the data directory is alive.

    This asks /healthz of the daemon, or /readyz with --ready. The exit status is 0 if the daemon is
    healthy, and 1 if it is not or does not run. Unlike `safetyd doctor`, it needs no key.

    For example:
      safetyd health
      safetyd health --ready --data-dir /var/lib/safetyd
    """
    found = endpoint(directory)
    if found is None:
        raise Failure(
            f"safetyd is not running on {directory}: cannot read {ENDPOINT}", "not_reachable"
        )
    path = "/readyz" if ready else "/healthz"
    status, said = _get(found.web, path)
    if status != HTTPStatus.OK:
        raise Failure(f"{found.web}{path} returned {status}: {said}", "unhealthy")
    click.echo(document({"ok": True}) if as_json else said)


def _get(web: str, path: str) -> tuple[int, str]:
    """Return the status and the first bytes of the answer. Redirects and proxies are not used."""
    try:
        with closing(http.client.HTTPConnection(urlsplit(web).netloc, timeout=WEB_S)) as connection:
            connection.request("GET", path)
            answer = connection.getresponse()
            return answer.status, answer.read(MAX_BYTES).decode(errors="replace").strip()
    except (OSError, ValueError, http.client.HTTPException) as exc:
        raise Failure(f"{web}{path} does not answer: {exc}", "not_reachable") from exc
