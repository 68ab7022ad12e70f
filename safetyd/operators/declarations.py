"""Every question and command that operators have, in one list; everything else is derived."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from safetyd.bus.codec import Fields
from safetyd.operators.contract.agent_contract import AgentQuestion, AgentsQuestion
from safetyd.operators.contract.backup_contract import BackupMadeCommand, CheckpointCommand
from safetyd.operators.contract.decision_contract import DecisionsQuestion, ExplainQuestion
from safetyd.operators.contract.grant_contract import (
    GrantCommand,
    GrantsQuestion,
    RevokeCommand,
    SuggestionsQuestion,
)
from safetyd.operators.contract.guard_contract import (
    AnomaliesQuestion,
    BreakersQuestion,
    BudgetsQuestion,
    LimitsQuestion,
    MoneyQuestion,
    RaiseCommand,
    TypesQuestion,
)
from safetyd.operators.contract.history_contract import (
    CommitQuestion,
    CommitsQuestion,
    RollbackCommand,
)
from safetyd.operators.contract.hold_contract import (
    AckCommand,
    EnterCommand,
    ExitCommand,
    PauseCommand,
    ReloadCommand,
    ResetCommand,
    ResumeCommand,
    SafeModeQuestion,
    StopCommand,
    UnpauseCommand,
)
from safetyd.operators.contract.notification_contract import (
    ChannelsQuestion,
    DropCommand,
    LinkCommand,
    OutboxQuestion,
    PairCommand,
    PreviewQuestion,
    RetryCommand,
    RotateCommand,
    ShownCommand,
    TestCommand,
)
from safetyd.operators.contract.question import TAG_FIELD, Call, Command, Question, Verb, name_of
from safetyd.operators.contract.report_contract import ReportQuestion
from safetyd.operators.contract.request_contract import (
    ApproveCommand,
    CancelCommand,
    DeferCommand,
    DenyCommand,
    HistoryQuestion,
    PendingQuestion,
    RejectCommand,
    RequestQuestion,
)
from safetyd.operators.contract.session_contract import (
    SessionEndCommand,
    SessionsQuestion,
    SignInQuestion,
)
from safetyd.operators.contract.status_contract import (
    HealthQuestion,
    StatusQuestion,
    TopBarQuestion,
)
from safetyd.operators.replies import CommandRefused, Done

QUESTIONS: Final[tuple[type[Question[Done]], ...]] = (
    StatusQuestion,
    HealthQuestion,
    AgentsQuestion,
    AgentQuestion,
    SafeModeQuestion,
    BudgetsQuestion,
    BreakersQuestion,
    AnomaliesQuestion,
    LimitsQuestion,
    MoneyQuestion,
    TypesQuestion,
    PendingQuestion,
    RequestQuestion,
    HistoryQuestion,
    GrantsQuestion,
    SuggestionsQuestion,
    OutboxQuestion,
    ChannelsQuestion,
    PreviewQuestion,
    TopBarQuestion,
    SignInQuestion,
    SessionsQuestion,
    DecisionsQuestion,
    ReportQuestion,
    CommitsQuestion,
    CommitQuestion,
    ExplainQuestion,
)
COMMANDS: Final[tuple[type[Command[Done]], ...]] = (
    ApproveCommand,
    DenyCommand,
    RejectCommand,
    DeferCommand,
    CancelCommand,
    StopCommand,
    ResumeCommand,
    PauseCommand,
    UnpauseCommand,
    EnterCommand,
    ExitCommand,
    GrantCommand,
    RevokeCommand,
    RaiseCommand,
    AckCommand,
    ResetCommand,
    ReloadCommand,
    CheckpointCommand,
    BackupMadeCommand,
    SessionEndCommand,
    RollbackCommand,
    TestCommand,
    RetryCommand,
    DropCommand,
    ShownCommand,
    LinkCommand,
    PairCommand,
    RotateCommand,
)


def _by_name(kinds: Iterable[type[Call[Done]]]) -> Mapping[str, type[Call[Done]]]:
    return {name_of(kind): kind for kind in kinds}


BY_NAME: Final[Mapping[Verb, Mapping[str, type[Call[Done]]]]] = {
    verb: _by_name(kind for kind in (*QUESTIONS, *COMMANDS) if kind.verb == verb)
    for verb in ("query", "control", "review")
}


def read_call(verb: Verb, fields: Fields) -> Call[Done]:
    """Return the question or command that was sent, or refuse it and list the known names."""
    name, known = fields[TAG_FIELD], BY_NAME[verb]
    if not isinstance(name, str) or name not in known:
        raise CommandRefused("unknown_command", f"{name!r} is not one of {', '.join(known)}")
    return msgspec.convert(fields, known[name])
