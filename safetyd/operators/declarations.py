"""The list of all queries and commands. Subjects, routes and documents are derived from it."""

from collections.abc import Iterable, Mapping
from typing import Final

import msgspec

from safetyd.bus.codec import Fields
from safetyd.operators.contract import (
    agent_contract,
    backup_contract,
    cluster_contract,
    decision_contract,
    grant_contract,
    guard_contract,
    history_contract,
    hold_contract,
    host_contract,
    notification_contract,
    report_contract,
    request_contract,
    rota_contract,
    session_contract,
    status_contract,
)
from safetyd.operators.contract.question import TAG_FIELD, Call, Command, Question, Verb, name_of
from safetyd.operators.replies import CommandRefused, Done

QUESTIONS: Final[tuple[type[Question[Done]], ...]] = (
    status_contract.StatusQuestion,
    status_contract.HealthQuestion,
    cluster_contract.ReplicasQuestion,
    agent_contract.AgentsQuestion,
    agent_contract.AgentQuestion,
    hold_contract.SafeModeQuestion,
    guard_contract.BudgetsQuestion,
    guard_contract.BreakersQuestion,
    guard_contract.AnomaliesQuestion,
    guard_contract.LimitsQuestion,
    guard_contract.MoneyQuestion,
    guard_contract.TypesQuestion,
    host_contract.HostFilesQuestion,
    request_contract.PendingQuestion,
    request_contract.RequestQuestion,
    request_contract.HistoryQuestion,
    grant_contract.GrantsQuestion,
    grant_contract.SuggestionsQuestion,
    notification_contract.OutboxQuestion,
    notification_contract.ChannelsQuestion,
    notification_contract.PreviewQuestion,
    rota_contract.RotaQuestion,
    status_contract.TopBarQuestion,
    cluster_contract.ClusterQuestion,
    session_contract.SignInQuestion,
    session_contract.SessionsQuestion,
    decision_contract.DecisionsQuestion,
    report_contract.ReportQuestion,
    history_contract.CommitsQuestion,
    history_contract.CommitQuestion,
    decision_contract.ExplainQuestion,
)
COMMANDS: Final[tuple[type[Command[Done]], ...]] = (
    request_contract.ApproveCommand,
    request_contract.DenyCommand,
    request_contract.RejectCommand,
    request_contract.DeferCommand,
    request_contract.CancelCommand,
    hold_contract.StopCommand,
    hold_contract.ResumeCommand,
    hold_contract.PauseCommand,
    hold_contract.UnpauseCommand,
    hold_contract.EnterCommand,
    hold_contract.ExitCommand,
    grant_contract.GrantCommand,
    grant_contract.RevokeCommand,
    grant_contract.SuggestionCommand,
    guard_contract.RaiseCommand,
    guard_contract.StrikeCommand,
    host_contract.AcceptFilesCommand,
    hold_contract.AckCommand,
    hold_contract.ResetCommand,
    hold_contract.ReloadCommand,
    cluster_contract.HandoverCommand,
    backup_contract.CheckpointCommand,
    backup_contract.BackupMadeCommand,
    session_contract.SessionEndCommand,
    history_contract.RollbackCommand,
    notification_contract.TestCommand,
    notification_contract.RetryCommand,
    notification_contract.DropCommand,
    notification_contract.ShownCommand,
    notification_contract.LinkCommand,
    notification_contract.PairCommand,
    notification_contract.RotateCommand,
)


def _by_name(kinds: Iterable[type[Call[Done]]]) -> Mapping[str, type[Call[Done]]]:
    return {name_of(kind): kind for kind in kinds}


BY_NAME: Final[Mapping[Verb, Mapping[str, type[Call[Done]]]]] = {
    verb: _by_name(kind for kind in (*QUESTIONS, *COMMANDS) if kind.verb == verb)
    for verb in ("query", "control", "review")
}


def read_call(verb: Verb, fields: Fields) -> Call[Done]:
    """Return the query or command of a message. If it is unknown, the error lists known names."""
    name, known = fields[TAG_FIELD], BY_NAME[verb]
    if not isinstance(name, str) or name not in known:
        raise CommandRefused(
            "unknown_command", f"unknown command {name!r}; known commands: {', '.join(known)}"
        )
    return msgspec.convert(fields, known[name])
