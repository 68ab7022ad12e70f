"""The paths that are asked about unless an operator says otherwise."""

from typing import Final

# They may hold secrets, so reading them is enough to ask.
SENSITIVE: Final = (
    *("**/.ssh/**", "**/id_rsa", "**/id_ecdsa", "**/id_ed25519", "**/*.pem", "**/.gnupg/**"),
    *("**/.env", "**/.env.*", "!**/.env.example", "!**/.env.sample", "!**/.env.template"),
    *("**/.aws/**", "**/.azure/**", "**/.config/gcloud/**", "**/.kube/**"),
    *("**/.docker/config.json", "**/*.tfstate", "**/*.tfvars"),
    *("**/.netrc", "**/.pgpass", "**/.git-credentials", "**/.config/gh/hosts.yml"),
    *("**/.npmrc", "**/.pypirc"),
    *("**/.password-store/**", "**/*.kdbx", "**/.local/share/keyrings/**"),
    *("**/Library/Keychains/**", "**/.mozilla/**", "**/.config/google-chrome/**"),
    *("**/.config/chromium/**", "**/Library/Application Support/Google/Chrome/**"),
    *("/etc/shadow", "/etc/gshadow", "/proc/**/environ", "/proc/**/mem"),
    *("/proc/**/root/**", "/proc/**/cwd/**", "/proc/**/fd/**"),
)

# Other programs obey them, and some would let an agent go unguarded.
PROTECTED: Final = (
    *("**/.claude/settings*.json", "**/.claude/hooks/**", "**/.mcp.json"),
    *("**/.codex/config.toml", "**/.codex/hooks.json", "**/.gemini/settings.json"),
    *("**/opencode.json", "**/opencode.jsonc", "**/.opencode/plugin*/**"),
    *("**/.config/opencode/**", "**/.copilot/**", "**/.github/hooks/**"),
    *("**/.cursor/hooks.json", "**/.git/hooks/**"),
)
