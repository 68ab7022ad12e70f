"""Every command and its module, grouped by the heading in the help.

The one-line help of each command is in completions.json, which is generated from the commands.
"""

from collections.abc import Mapping
from typing import Final

# The module is relative to safetyd.console. If the function is not named like the command, a colon
# and the name of the function follow.
GROUPS: Final[Mapping[str, Mapping[str, str]]] = {
    "Setup": {
        "init": "setup.write_config",
        "protect": "hosts.protect",
        "unprotect": "hosts.protect",
        "verify": "hosts.protect",
        "mcp": "hosts.mcp_commands",
        "run": "subcommands.run_daemon",
        "install-service": "service.install_service",
        "uninstall-service": "service.install_service",
        "demo": "demo.demo",
        "doctor": "doctor.doctor",
        "health": "subcommands.check_health",
        "config": "subcommands.show_config",
        "simulate": "simulation.try_rules",
        "test": "simulation.run_policy_tests:test_",
        "reload": "subcommands.hold_agents",
        "version": "subcommands.overview",
        "docs": "subcommands.read_documents",
        "completion": "completion",
        "man": "man_page",
    },
    "Agents": {
        "check": "subcommands.propose_action",
        "propose": "subcommands.propose_action",
        "outcome": "subcommands.propose_action",
    },
    "Requests": {
        "list": "subcommands.list_requests:listed",
        "show": "subcommands.list_requests",
        "review": "review.open_review",
        "approve": "subcommands.answer_requests",
        "deny": "subcommands.answer_requests",
        "defer": "subcommands.answer_requests",
        "cancel": "subcommands.answer_requests",
        "log": "subcommands.list_requests",
        "grants": "subcommands.manage_grants",
        "grant": "subcommands.manage_grants",
        "suggestions": "subcommands.manage_grants",
    },
    "Control": {
        "stop": "subcommands.stop_resume",
        "resume": "subcommands.stop_resume",
        "pause": "subcommands.hold_agents",
        "unpause": "subcommands.hold_agents",
        "safe-mode": "subcommands.hold_agents",
        "rollback": "file_history.roll_back",
        "budgets": "subcommands.hold_agents",
        "breakers": "subcommands.hold_agents",
        "limits": "subcommands.hold_agents",
        "handover": "subcommands.several_daemons",
        "reset": "subcommands.hold_agents",
    },
    "Status and history": {
        "open": "access.control_room:open_",
        "status": "subcommands.overview",
        "cluster": "subcommands.several_daemons",
        "agents": "subcommands.overview",
        "money": "subcommands.hold_agents",
        "anomalies": "subcommands.hold_agents",
        "decisions": "decisions.list_decisions:decided",
        "explain": "decisions.explain_decision",
        "report": "decisions.show_report",
        "history": "file_history.list_history",
        "shell": "shell.read_shell",
        "watch": "subcommands.watch_events",
        "types": "subcommands.hold_agents",
        "transcripts": "subcommands.read_records",
        "audit": "subcommands.read_records",
        "outlet": "subcommands.manage_outlets",
        "export": "subcommands.export_state",
    },
    "Backups": {
        "retention": "backup.show_retention",
        "backup": "backup.backup_commands",
        "restore": "backup.backup_commands",
    },
    "Notifications": {
        "ack": "subcommands.hold_agents",
        "notify": "subcommands.manage_messages",
        "rota": "subcommands.show_rota",
        "pair": "subcommands.manage_messages",
        "desktop": "subcommands.desktop_helper",
    },
    "Keys": {
        "agent": "access.manage_keys",
        "operator": "access.manage_keys",
        "relay": "access.manage_relays",
        "sessions": "access.control_room",
        "keys": "subcommands.manage_messages",
        "nats-config": "subcommands.nats_setup",
        "nats-accounts": "subcommands.accounts_file",
    },
}
COMMANDS: Final[Mapping[str, str]] = {
    name: place for group in GROUPS.values() for name, place in group.items()
}
