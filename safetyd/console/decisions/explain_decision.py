"""`safetyd explain`: everything about one proposal."""

from typing import Final

import click

from safetyd.console.failure import Failure, NotReachable, WrongUsage, using_file
from safetyd.console.help_page import command
from safetyd.console.locations import Location
from safetyd.console.operator_connection import ask
from safetyd.console.options import json_option, reaches_daemon
from safetyd.console.render.explanation import account
from safetyd.console.subcommands.read_records import readable
from safetyd.console.terminal_text import echo
from safetyd.journal.audit_reading import Rests
from safetyd.operators.contract.decision_contract import ExplainAnswer, ExplainQuestion
from safetyd.operators.explain import explain as explained
from safetyd.operators.explain import untold
from safetyd.operators.explain_search import search

SEARCH_S: Final = 60.0  # for a search of all audit files
SHOWN_BYTES: Final = 1024 * 1024


@command(sends=ExplainQuestion)
@click.argument("id_", metavar="ID", required=False)
@click.option("--last", metavar="AGENT", help="Explain the newest decision about this agent.")
@json_option
@reaches_daemon
def explain(location: Location, id_: str | None, last: str | None, *, as_json: bool) -> None:
    """ID is the id of a proposal or a request. The output also says what would make the action
    allowed.

    If no daemon is running, this reads the audit files, which do not contain the current state of
    guards.

    For example:
      safetyd explain req_36998346ea45
      safetyd explain --last code
    """
    if bool(id_) == bool(last):
        raise WrongUsage("give the ID of a proposal or request, or --last AGENT")
    asked = ExplainQuestion(id=id_ or "", last=last or "")
    try:
        answer = ask(location, asked, patience_s=SEARCH_S)
    except NotReachable as exc:
        answer = _from_files(location, asked, exc)
    echo(answer, account, as_json=as_json)


def _from_files(location: Location, asked: ExplainQuestion, missing: NotReachable) -> ExplainAnswer:
    """Explain from the audit files of the data directory."""
    where = readable(location, missing)
    with using_file(where, "read"):
        found = search(where, asked, SHOWN_BYTES, rests=Rests(0.0))
    if found is None:
        raise Failure(f"the audit files have no decision {asked}", "not_found")
    return explained(found, untold, SHOWN_BYTES)
