import inspect

import pytest

from safetyd.client import Safety, SyncSafety
from safetyd.client.arguments import AskFields, Options, OutcomeFields, ProposalFields

FIELDS = {
    "__init__": Options,
    "propose": ProposalFields,
    "guard": ProposalFields,
    "is_auto_allowed": ProposalFields,
    "request_permission": AskFields,
    "report": OutcomeFields,
}


@pytest.mark.parametrize("client", [Safety, SyncSafety])
@pytest.mark.parametrize("method", FIELDS)
def test_help_and_signatures_show_every_field(client: type, method: str) -> None:
    shown = inspect.signature(getattr(client, method)).parameters

    assert shown.keys() > FIELDS[method].__annotations__.keys()
    assert all(one.kind is not inspect.Parameter.VAR_KEYWORD for one in shown.values())
