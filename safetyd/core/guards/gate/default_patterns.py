"""The default patterns of the gate. Rule ids and grants use their names."""

from typing import Final

from safetyd.core.text.patterns import PatternConfig


def _named(**patterns: str) -> tuple[PatternConfig, ...]:
    return tuple(PatternConfig(name=name, pattern=pattern) for name, pattern in patterns.items())


# These words are destructive in a command, but harmless in the name of a file that is read.
BARE_WORDS: Final = _named(
    delete=r"\bdelete\b",
    remove=r"\bremove\b",
    format=r"\bformat\b",
    reset=r"\breset\b",
    broadcast=r"\bbroadcast\b",
)

BLOCKLIST: Final = (
    *BARE_WORDS,
    *_named(
        drop_table=r"\bdrop\s+table\b",
        truncate=r"\btruncate\b",
        rm_rf=r"\brm\s+-rf\b",
        sudo_rm=r"\bsudo\s+rm\b",
    ),
)

IRREVERSIBLE: Final = _named(
    submit=r"\bsubmit\b",
    send=r"\bsend\b",
    apply=r"\bapply\b",
    confirm=r"\bconfirm\b",
    close_unsaved=r"\bclos(?:e|ing)\b.*\bunsaved\b",
    purchase=r"\bpurchase\b",
    checkout=r"\bcheckout\b",
    pay=r"\bpay\b",
)

CREDENTIALS: Final = (
    PatternConfig(name="password", pattern="password"),
    PatternConfig(name="token", pattern="token"),
    PatternConfig(name="secret", pattern="secret"),
    PatternConfig(name="api_key", pattern="api[ _-]?key"),
    PatternConfig(name="credential", pattern="credential"),
)

# These patterns can be evaded. They catch mistakes of honest agents.
SHELL: Final = _named(
    git_push=r"\bgit\s+(push|clean|filter-branch)\b",
    git_remote=r"\bgit\s+remote\s+(add|set-url)\b",
    git_reset_hard=r"\bgit\s+reset\s+--hard\b",
    forge=r"\b(gh|glab)\s+\w+\s+(create|merge|close|comment|delete|edit|review)\b",
    http_write=(
        r"\b(curl|wget)\b.*\s"
        r"(-X|--request|-d|--data\S*|-F|--form|-T|--upload-file|--post-\S+)\b"
    ),
    remote_host=r"\b(ssh|scp|sftp|rsync|ncat|nc|telnet)\s",
    mail=r"\b(mail|mailx|sendmail|mutt)\s",
    other_user=r"\b(sudo|doas|su)\s",
    system_package=r"\b(apt|apt-get|dnf|yum|pacman|brew|apk)\s+(install|remove|upgrade|purge)\b",
    package=(
        r"\b(pip3?|pipx|uv|npm|pnpm|yarn|cargo|gem)\s+(\w+\s+)?(install|add|publish|upload)\b"
    ),
    push_image=r"\b(twine|docker|podman)\s+(push|upload)\b",
    cloud=r"\b(kubectl|helm|terraform|pulumi|ansible\S*|aws|gcloud|az)\s",
    system=r"\b(systemctl|crontab|iptables|useradd|usermod|passwd)\b",
    rm=r"\brm\s+.*(-[a-z]*[rf]|--recursive|--force)",
    disk=r"\b(dd|mkfs\S*|shred|wipefs)\s",
    find_exec=r"\bfind\s.*\s-(delete|exec)\b",
    pipe_to_shell=r"\|\s*(sh|bash|zsh|python3?)\b",
)
