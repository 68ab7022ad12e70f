"""Files that coding agents (hosts) obey or load.

What a host loads can run without a tool call: commands in skills, hooks, servers, imports.
"""

from typing import Final

# They contain hooks, or switch hooks off. Hosts that have deny rules also deny changes themselves.
HOST_SETTINGS: Final = (
    *("**/.claude/settings*.json", "**/.claude/hooks/**"),
    *("**/.codex/config.toml", "**/.codex/hooks.json", "**/.codex/rules/**"),
    *("**/.gemini/settings.json", "**/.gemini/policies/**"),
    *("**/opencode.json", "**/opencode.jsonc", "**/.opencode/plugin*/**"),
    "**/.opencode/tool*/**",
    *("**/.config/opencode/**", "**/.copilot/**", "**/.github/hooks/**"),
    "**/.github/copilot/settings*.json",
)

# Skills, commands, agents, rules, memory files, plugins and lists of servers.
HOST_LOADED: Final = (
    # several hosts
    *("**/AGENTS.md", "**/AGENTS.override.md", "**/CLAUDE.md", "**/CLAUDE.local.md"),
    *("**/GEMINI.md", "**/CONTEXT.md", "**/.mcp.json", "**/.lsp.json", "**/.agents/**"),
    # Claude Code
    *("**/.claude/skills/**", "**/.claude/commands/**", "**/.claude/agents/**"),
    *("**/.claude/rules/**", "**/.claude/output-styles/**", "**/.claude/workflows/**"),
    *("**/.claude/plugins/**", "**/.claude-plugin/**", "**/.claude/loop.md"),
    *("**/.claude/scheduled_tasks.json", "/etc/claude-code/**"),
    # Codex CLI
    *("**/.codex/skills/**", "**/.codex/prompts/**", "**/.codex/agents/**"),
    *(
        "**/.codex/hooks/**",
        "**/.codex/plugins/**",
        "**/.codex-plugin/**",
        "**/.codex/*.config.toml",
        "/etc/codex/**",
    ),
    # Gemini CLI
    *("**/.gemini/commands/**", "**/.gemini/skills/**", "**/.gemini/agents/**"),
    *("**/.gemini/extensions/**", "**/.gemini/hooks/**", "**/.gemini/system.md"),
    *("**/.gemini/sandbox*", "**/.gemini/trustedFolders.json", "**/gemini-extension.json"),
    # OpenCode
    *("**/.opencode/agent*/**", "**/.opencode/command*/**", "**/.opencode/mode*/**"),
    *("**/.opencode/skill*/**", "**/.opencode/config.json", "**/.opencode/package.json"),
    # Copilot CLI
    *("**/.github/copilot-instructions.md", "**/.github/instructions/**"),
    *("**/.github/agents/**", "**/.github/skills/**", "**/.github/prompts/**"),
    *("**/.github/mcp.json", "**/.github/lsp.json"),
    # Cursor
    *("**/.cursor/hooks.json", "**/.cursor/mcp.json", "**/.cursor/rules/**", "**/.cursorrules"),
    "**/.cursor/commands/**",
)
