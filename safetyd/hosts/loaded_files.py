"""The files that each host loads, for a user and in a project.

`**` at the end means all files below a folder. Files that a host writes at every start are left
out; `core/guards/host_places.py` has the places of all hosts, where an edit needs approval.
"""

import posixpath
from collections.abc import Iterator, Mapping
from typing import Final, Literal, NamedTuple

from safetyd.hosts.hook_event import Dialect

# settings: obeyed at once. memory: loaded when a session starts. called: loaded by a call.
Kind = Literal["settings", "memory", "called"]

VARIABLES: Final = ("CLAUDE_CONFIG_DIR", "CODEX_HOME", "COPILOT_HOME", "XDG_CONFIG_HOME")

# Tools that load skills, commands or agents.
LOADING_TOOLS: Final = frozenset(
    {
        *("Skill", "SlashCommand", "Agent", "Task", "Workflow", "activate_skill", "invoke_agent"),
        *("skill", "task", "spawn_agent"),
    }
)


class Pattern(NamedTuple):
    """A file or a folder of files, relative to a base."""

    path: str
    kind: Kind
    keys: tuple[str, ...] = ()  # only these members of a JSON object count


class Base(NamedTuple):
    """A folder and what a host loads below it. `name` identifies it."""

    name: str
    folder: str
    patterns: tuple[Pattern, ...]


class UserFolder(NamedTuple):
    """A folder of the user, which a variable may move."""

    usual: str  # below the home
    patterns: tuple[Pattern, ...]
    variable: str = ""
    below: str = ""  # below the folder that the variable names
    name: str = ""  # of a single file


class HostLoads(NamedTuple):
    user: tuple[UserFolder, ...]
    project: tuple[Pattern, ...]  # in the folder of a session and in those above it


def bases(dialect: Dialect, cwd: str, home: str, variables: Mapping[str, str]) -> Iterator[Base]:
    """Yield each folder from which a host loads files in a session."""
    loads = LOADS[dialect]
    for one in loads.user if home else ():
        named = variables.get(one.variable, "")
        folder = posixpath.join(named, one.below) if named else posixpath.join(home, one.usual)
        folder = posixpath.normpath(folder)
        yield Base(posixpath.join(folder, one.name) if one.name else folder, folder, one.patterns)
    folder = posixpath.normpath(cwd) if cwd.startswith("/") else ""
    while folder:
        yield Base(folder, folder, loads.project)
        above = posixpath.dirname(folder)
        folder = "" if above == folder else above


def _patterns(settings: str = "", memory: str = "", called: str = "") -> tuple[Pattern, ...]:
    return (
        *(Pattern(path, "settings") for path in settings.split()),
        *(Pattern(path, "memory") for path in memory.split()),
        *(Pattern(path, "called") for path in called.split()),
    )


_AGENTS: Final = UserFolder(".agents", _patterns(called="skills/** plugins/**"))
_CLAUDE_SKILLS: Final = UserFolder(".claude", _patterns(called="skills/**"), "CLAUDE_CONFIG_DIR")
_SERVERS: Final = ("mcpServers",)
_OPENCODE: Final = _patterns(
    "opencode.json opencode.jsonc config.json plugin/** plugins/** tool/** tools/**",
    "AGENTS.md",
    "agent/** agents/** command/** commands/** mode/** modes/** skill/** skills/**",
)

LOADS: Final[Mapping[Dialect, HostLoads]] = {
    "claude": HostLoads(
        (
            UserFolder(
                ".claude",
                _patterns(
                    "settings.json settings.local.json hooks/**",
                    "CLAUDE.md rules/** output-styles/**",
                    """skills/** commands/** agents/** workflows/** plugins/installed_plugins.json
                    plugins/cache/** plugins/marketplaces/** plugins/repos/**""",
                ),
                "CLAUDE_CONFIG_DIR",
            ),
            # Claude Code rewrites this file all the time.
            UserFolder(
                "",
                (Pattern(".claude.json", "settings", _SERVERS),),
                "CLAUDE_CONFIG_DIR",
                name=".claude.json",
            ),
        ),
        _patterns(
            """.claude/settings.json .claude/settings.local.json .claude/hooks/** .mcp.json
            .lsp.json""",
            """CLAUDE.md CLAUDE.local.md AGENTS.md .claude/CLAUDE.md .claude/AGENTS.md
            .claude/rules/** .claude/output-styles/** .claude/loop.md
            .claude/scheduled_tasks.json""",
            """.claude/skills/** .claude/commands/** .claude/agents/** .claude/workflows/**
            .claude/plugins/** .claude-plugin/**""",
        ),
    ),
    "codex": HostLoads(
        (
            UserFolder(
                ".codex",
                _patterns(
                    "config.toml hooks.json hooks/** rules/**",
                    "AGENTS.md AGENTS.override.md",
                    "skills/** prompts/** agents/** plugins/**",
                ),
                "CODEX_HOME",
            ),
            _AGENTS,
        ),
        _patterns(
            ".codex/config.toml .codex/hooks.json .codex/hooks/** .codex/rules/**",
            "AGENTS.md AGENTS.override.md",
            ".codex/skills/** .codex/prompts/** .codex/agents/** .agents/**",
        ),
    ),
    "gemini": HostLoads(
        (
            UserFolder(
                ".gemini",
                _patterns(
                    "settings.json policies/** hooks/** .env",
                    "GEMINI.md system.md",
                    "commands/** skills/** agents/** extensions/**",
                ),
            ),
            _AGENTS,
        ),
        _patterns(
            ".gemini/settings.json .gemini/policies/** .gemini/hooks/** .gemini/.env",
            "GEMINI.md .gemini/GEMINI.md .gemini/system.md",
            """.gemini/commands/** .gemini/skills/** .gemini/agents/** .gemini/extensions/**
            .agents/skills/**""",
        ),
    ),
    "opencode": HostLoads(
        (
            UserFolder(".config/opencode", _OPENCODE, "XDG_CONFIG_HOME", "opencode"),
            UserFolder(".opencode", _OPENCODE),
            UserFolder(
                ".claude", _patterns(memory="CLAUDE.md", called="skills/**"), "CLAUDE_CONFIG_DIR"
            ),
            _AGENTS,
        ),
        (
            *_patterns("opencode.json opencode.jsonc", "AGENTS.md CLAUDE.md CONTEXT.md"),
            *_patterns(called=".claude/skills/** .agents/skills/**"),
            *(one._replace(path=f".opencode/{one.path}") for one in _OPENCODE),
        ),
    ),
    "copilot": HostLoads(
        (
            UserFolder(
                ".copilot",
                (
                    *_patterns(
                        """settings.json settings.local.json hooks/** mcp-config.json
                        lsp-config.json""",
                        "copilot-instructions.md instructions/**",
                        "agents/** skills/** installed-plugins/**",
                    ),
                    # Copilot CLI rewrites this file at every start.
                    Pattern("config.json", "settings", ("hooks", "disableAllHooks", *_SERVERS)),
                ),
                "COPILOT_HOME",
            ),
            _CLAUDE_SKILLS,
            _AGENTS,
        ),
        _patterns(
            """.github/hooks/** .github/copilot/settings.json .github/copilot/settings.local.json
            .mcp.json .github/mcp.json .vscode/mcp.json .github/lsp.json""",
            """.github/copilot-instructions.md .github/instructions/** AGENTS.md CLAUDE.md
            GEMINI.md""",
            """.github/agents/** .github/skills/** .github/prompts/** .claude/skills/**
            .claude/agents/** .claude/commands/** .agents/skills/**""",
        ),
    ),
}
