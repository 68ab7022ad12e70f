"""Every command: under which heading it stands, where it is found, and what it does."""

from collections.abc import Mapping
from typing import Final, NamedTuple


class CommandEntry(NamedTuple):
    """Where a command is found, the first sentence of its help, and its name if that is taken."""

    module: str
    summary: str
    name: str = ""


GROUPS: Final[Mapping[str, Mapping[str, CommandEntry]]] = {
    "Set-up": {
        "init": CommandEntry(
            "setup.write_config",
            "Write a commented configuration for this machine, after three questions.",
        ),
        "run": CommandEntry(
            "subcommands.run_daemon", "Run the daemon in the foreground until Ctrl-C."
        ),
        "demo": CommandEntry(
            "demo.demo", "Show a few agents being allowed, asked about and blocked."
        ),
        "doctor": CommandEntry("doctor.doctor", "Look for what is wrong, and say what to do."),
        "config": CommandEntry("subcommands.show_config", "Check and show configuration."),
        "simulate": CommandEntry(
            "simulation.try_rules",
            "Decide again what was recorded, under other rules, and say what would differ.",
        ),
        "test": CommandEntry(
            "simulation.run_policy_tests",
            "Run tests of rules that stand in FILE, and exit 1 if one of them fails.",
            "test_",
        ),
        "reload": CommandEntry(
            "subcommands.hold_agents", "Make the daemon read its configuration and keys again."
        ),
        "version": CommandEntry("subcommands.overview", "Print the versions of what is at work."),
        "docs": CommandEntry(
            "subcommands.read_documents",
            "Show the documents, configurations and units that came with safetyd.",
        ),
        "completion": CommandEntry(
            "completion", "Print what makes a shell complete commands and options."
        ),
        "man": CommandEntry("man_page", "Print the manual page."),
    },
    "Agents": {
        "check": CommandEntry(
            "subcommands.propose_action", "Ask, as an agent, whether an action may run."
        ),
        "propose": CommandEntry(
            "subcommands.propose_action",
            "Propose the action that stands as JSON on standard input.",
        ),
        "outcome": CommandEntry(
            "subcommands.propose_action", "Report how an allowed action of an agent went."
        ),
    },
    "Requests": {
        "list": CommandEntry(
            "subcommands.list_requests",
            "List what waits for a person, the most urgent first.",
            "listed",
        ),
        "show": CommandEntry("subcommands.list_requests", "Show all that is known of one request."),
        "review": CommandEntry(
            "review.open_review", "Review what waits for a person, on a screen of its own."
        ),
        "approve": CommandEntry("subcommands.answer_requests", "Let what was asked happen, once."),
        "deny": CommandEntry("subcommands.answer_requests", "Say no."),
        "defer": CommandEntry("subcommands.answer_requests", "Put requests off; they stay open."),
        "cancel": CommandEntry(
            "subcommands.answer_requests", "Withdraw requests that nobody needs to answer any more."
        ),
        "log": CommandEntry(
            "subcommands.list_requests", "Show how requests ended, the newest first."
        ),
        "grants": CommandEntry(
            "subcommands.manage_grants", "Show the grants in force, and what is left of each."
        ),
        "grant": CommandEntry(
            "subcommands.manage_grants", "Permit a kind of action for a while, or end that."
        ),
        "suggestions": CommandEntry(
            "subcommands.manage_grants", "Show the rules that people's answers add up to."
        ),
    },
    "Holds": {
        "stop": CommandEntry("subcommands.stop_resume", "Stop everything now, or one agent."),
        "resume": CommandEntry("subcommands.stop_resume", "Let work go on after a stop."),
        "pause": CommandEntry(
            "subcommands.hold_agents", "Keep one agent from doing anything, reading included."
        ),
        "unpause": CommandEntry("subcommands.hold_agents", "Let an agent go on after a pause."),
        "safe-mode": CommandEntry(
            "subcommands.hold_agents", "Show safe mode, or put agents in it or let them go."
        ),
        "rollback": CommandEntry(
            "history.roll_back", "Put the files of a project back as they were after a commit."
        ),
        "budgets": CommandEntry(
            "subcommands.hold_agents",
            "Show what is spent and set aside, and the limits; or raise one.",
        ),
        "breakers": CommandEntry(
            "subcommands.hold_agents", "Show the breakers and how their calls went."
        ),
        "limits": CommandEntry(
            "subcommands.hold_agents", "Show what is left of every rate, and whom limits hold back."
        ),
        "reset": CommandEntry(
            "subcommands.hold_agents", "Forget an agent's loop visits, rounds and cooldowns."
        ),
    },
    "Look": {
        "open": CommandEntry(
            "access.control_room", "Open the control room in a browser, signed in.", "open_"
        ),
        "status": CommandEntry(
            "subcommands.overview", "Show how the daemon is and what is stopped."
        ),
        "agents": CommandEntry(
            "subcommands.overview", "Show what agents do, or all that is known of one."
        ),
        "money": CommandEntry(
            "subcommands.show_figures",
            "Show what is spent today, on what, and whether it lasts until midnight.",
        ),
        "anomalies": CommandEntry(
            "subcommands.show_figures",
            "Show what was unusual, and the numbers that detectors compare.",
        ),
        "decisions": CommandEntry(
            "decisions.list_decisions", "Show what was decided, the newest first.", "decided"
        ),
        "explain": CommandEntry(
            "decisions.explain_decision",
            "Say what was decided about a proposal, why, and what would have let it pass.",
        ),
        "report": CommandEntry(
            "reports.show_report",
            "Show what happened on a day, its colour, and what to do; without a day, today so far.",
        ),
        "history": CommandEntry(
            "history.list_history", "Show what agents changed, the newest commit first."
        ),
        "shell": CommandEntry(
            "shell.read_shell",
            "Show how a shell command is read and what would be said of it.",
        ),
        "watch": CommandEntry("subcommands.overview", "Print events as they happen until Ctrl-C."),
        "types": CommandEntry(
            "subcommands.hold_agents", "Show the known types of action, and which are not known."
        ),
        "transcripts": CommandEntry(
            "subcommands.read_records", "Show what sessions did, once they are over."
        ),
        "audit": CommandEntry("subcommands.read_records", "Read and verify the audit files."),
        "outlet": CommandEntry(
            "outlets.manage_outlets",
            "See how far events in PostgreSQL are, compare them, load them.",
        ),
        "export": CommandEntry(
            "subcommands.export_state", "Write queue.json, history.json and config.json into DIR."
        ),
    },
    "Records": {
        "retention": CommandEntry(
            "keeping.show_retention", "Show what is kept until when, and how large it is."
        ),
        "backup": CommandEntry(
            "keeping.backup_commands",
            "Write everything that the daemon knows now into FILE, while it runs.",
        ),
        "restore": CommandEntry(
            "keeping.backup_commands",
            "Make the data directory DIR of a backup; DIR must be new or empty.",
        ),
    },
    "People": {
        "ack": CommandEntry("subcommands.hold_agents", "Say that a person is there."),
        "notify": CommandEntry(
            "subcommands.manage_messages", "Try how people are told, and see what was not told."
        ),
        "pair": CommandEntry(
            "subcommands.manage_messages",
            "Print a link that lets one browser answer without codes.",
        ),
        "desktop": CommandEntry(
            "subcommands.desktop_helper", "Show messages on this desktop until Ctrl-C."
        ),
    },
    "Keys": {
        "agent": CommandEntry("access.manage_keys", "Manage the keys of agents."),
        "operator": CommandEntry("access.manage_keys", "Manage the keys of people."),
        "sessions": CommandEntry(
            "access.control_room",
            "Show which browsers are signed in to the control room, or sign them out.",
        ),
        "keys": CommandEntry(
            "subcommands.manage_messages", "Manage what decision links are signed with."
        ),
        "nats-config": CommandEntry(
            "subcommands.show_config", "Print the accounts that a bus of your own needs."
        ),
    },
}
COMMANDS: Final[Mapping[str, CommandEntry]] = {
    name: entry for group in GROUPS.values() for name, entry in group.items()
}
