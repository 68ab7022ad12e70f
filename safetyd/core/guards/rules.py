"""`[rules]`: the operator's lists of types, and custom rules.

Agents choose their words, so rules that allow are strict: every path must match, the raw text must
match (not its folded form), and a prohibited type must be named.
"""

import re
from collections.abc import Callable, Iterator, Sequence
from datetime import datetime, tzinfo
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from safetyd.core.action_types import Kind, Kinds
from safetyd.core.events.decision_events import Proposed
from safetyd.core.guards.host_places import HOST_LOADED, HOST_SETTINGS
from safetyd.core.messages.binding import is_all
from safetyd.core.messages.proposal import Amount, Count, Proposal
from safetyd.core.messages.verdict import ALLOWED, Severity, Verdict
from safetyd.core.shell.command_reader import CommandReader
from safetyd.core.text.folding import forms
from safetyd.core.text.path_globs import Globs, PathTarget
from safetyd.core.text.patterns import PatternSet
from safetyd.core.text.proposal_patches import patch_of

# Files that may contain secrets: even reading them needs approval.
SENSITIVE: Final = (
    # keys and passwords
    *("**/.ssh/**", "!**/.ssh/*.pub", "!**/.ssh/known_hosts", "**/id_rsa", "**/id_ecdsa"),
    *("**/id_ed25519", "**/*.pem", "!**/ca.pem", "!**/cacert.pem", "!**/ca-cert.pem"),
    *("!**/cert.pem", "!**/chain.pem", "!**/fullchain.pem", "!/etc/ssl/certs/**", "**/.gnupg/**"),
    *("**/*.p12", "**/*.pfx", "**/*.jks", "**/*.keystore", "/etc/ssl/private/**"),
    *("**/server.key", "**/private.key", "**/privkey*", "**/*.key.pem", "**/*-key.pem"),
    *("**/.env", "**/.env.*", "!**/.env.example", "!**/.env.sample", "!**/.env.template"),
    *("**/.netrc", "**/_netrc", "**/.authinfo*", "**/.git-credentials", "**/.htpasswd"),
    *("**/.password-store/**", "**/*.kdbx", "**/.local/share/keyrings/**", "**/.vault-token"),
    *("**/.vault_pass*", "**/vault_pass*", "**/.config/sops/**", "**/.config/age/**"),
    *("**/.config/op/**", "**/.config/Bitwarden*/**", "**/.config/1Password/**"),
    *("**/.lastpass/**", "**/Library/Keychains/**", "**/.config/kwalletd/**"),
    *("**/.local/share/kwalletd/**",),
    # clouds and clusters
    *("**/.aws/**", "**/.azure/**", "**/.config/gcloud/**", "**/.kube/**", "**/kubeconfig*"),
    *("**/application_default_credentials.json", "**/service-account*.json", "**/.boto"),
    *("**/.s3cfg", "**/.passwd-s3fs", "**/.mc/config.json", "**/.config/rclone/**"),
    *("**/rclone.conf", "**/.oci/**", "**/.bluemix/**", "**/.aliyun/**", "**/.config/doctl/**"),
    *("**/.config/hcloud/**", "**/.config/linode-cli", "**/.config/scw/**"),
    *("**/.config/exoscale/**", "**/.fly/config.yml", "**/.config/heroku/**"),
    *("**/.config/netlify/**", "**/.config/configstore/**", "**/.wrangler/config/**"),
    *("**/.config/.wrangler/**", "**/com.vercel.cli/**", "**/.railway/**", "**/.terraform.d/**"),
    *("**/.terraformrc", "**/*.tfstate", "**/*.tfstate.backup", "**/*.tfvars"),
    *("**/.pulumi/credentials.json", "**/openrc*", "**/clouds.yaml", "**/.config/openstack/**"),
    *("**/.cloudflared/**", "**/.config/ngrok/**", "**/.ngrok2/**"),
    # registries of containers and packages
    *("**/.docker/config.json", "**/.dockercfg", "**/containers/auth.json", "**/.config/helm/**"),
    *("**/.npmrc", "**/.pypirc", "**/.cargo/credentials*", "**/.gem/credentials"),
    *("**/.m2/settings*.xml", "**/.config/pip/pip.conf", "**/.pip/pip.conf", "/etc/pip.conf"),
    *("**/.config/pypoetry/auth.toml", "**/.composer/auth.json", "**/.config/composer/auth.json"),
    *("**/.nuget/NuGet/NuGet.Config", "**/.config/NuGet/NuGet.Config", "**/.condarc"),
    *("**/.sbt/**/*credentials*", "**/.ivy2/.credentials", "**/.hex/hex.config", "**/.jfrog/**"),
    *("**/.gradle/gradle.properties", "**/.luarocks/**", "**/.bundle/config"),
    # forges, CI servers, and other services
    *("**/.config/gh/hosts.yml", "**/.config/glab-cli/**", "**/.config/hub", "**/.config/tea/**"),
    *("**/.circleci/cli.yml", "**/.travis/config.yml", "**/.flyrc", "**/.config/argocd/**"),
    *("**/.argocd/**", "**/.drone/**", "**/.gitlab-runner/**", "/etc/gitlab-runner/**"),
    *("**/.buildkite-agent/**", "**/.jenkins-cli*", "**/jenkins_jobs.ini"),
    *("**/jenkins/secrets/**", "**/.sentryclirc", "**/.config/stripe/**", "**/.twilio-cli/**"),
    *("**/.config/slack/**", "**/.config/sendgrid*", "**/.arcrc", "**/.config/codecov/**"),
    *("**/.sonarlint/**",),
    *("**/.jenkins/**", "**/.appstoreconnect/**"),
    # databases and data
    *("**/.pgpass", "**/pg_service.conf", "**/.my.cnf", "**/.mylogin.cnf", "**/.mongorc.js"),
    *("**/.mongodb/**", "**/.dbshell", "**/.rediscli*", "**/.cassandra/credentials"),
    *("**/.snowsql/**", "**/.snowflake/**", "**/.databrickscfg", "**/.config/databricks/**"),
    *("**/.dbt/profiles.yml", "**/.kaggle/**", "**/huggingface/token"),
    *("**/huggingface/stored_tokens", "**/.config/wandb/**", "**/.bigqueryrc"),
    *("**/.influxdbv2/**", "**/.dvc/config.local", "**/.config/clickhouse*/**"),
    *("**/.jupyter/jupyter_*_config.json", "**/.comet.config"),
    # networks
    *("/etc/wireguard/**", "**/wg0.conf", "**/*.ovpn", "/etc/openvpn/**", "/etc/ipsec.secrets"),
    *("/etc/swanctl/**", "/etc/ppp/*-secrets", "/etc/NetworkManager/system-connections/**"),
    *("/etc/wpa_supplicant/**", "**/*.keytab", "/etc/krb5.keytab"),
    *("**/.smbcredentials", "/etc/samba/private/**", "/var/lib/tailscale/**"),
    *("**/.config/zerotier*/**",),
    # browsers, mail and chats
    *("**/.mozilla/**", "**/.config/google-chrome/**", "**/.config/chromium/**"),
    *("**/.librewolf/**", "**/.config/BraveSoftware/**", "**/.config/microsoft-edge/**"),
    *("**/.config/vivaldi/**", "**/.config/opera/**", "**/.thunderbird/**"),
    *("**/Library/Application Support/Google/Chrome/**",),
    *("**/Library/Application Support/Firefox/**", "**/Library/Cookies/**"),
    *("**/Library/Safari/**", "**/.msmtprc", "**/.mutt/**", "**/.muttrc", "**/.fetchmailrc"),
    *("**/.mbsyncrc", "**/.offlineimaprc"),
    *("**/.purple/**", "**/filezilla/*.xml", "**/.config/Signal/**"),
    *("**/.config/Slack/**", "**/.config/discord/**", "**/.bitcoin/**"),
    *("**/.ethereum/keystore/**", "**/wallet.dat", "**/.electrum/**"),
    # credentials of other agents
    *("**/.claude/.credentials.json", "**/.claude.json", "**/.codex/auth.json"),
    *("**/.gemini/oauth_creds.json", "**/.config/github-copilot/**"),
    *("**/.local/share/opencode/auth.json", "**/.config/openai/**", "**/.aider.conf.yml"),
    *("**/.config/io.datasette.llm/keys.json",),
    # histories, and files of the system
    *("**/.bash_history", "**/.zsh_history", "**/.python_history", "**/.psql_history"),
    *("**/.mysql_history", "**/.node_repl_history", "**/.rediscli_history", "**/.sqlite_history"),
    *("**/fish_history", "**/.ipython/profile_*/history.sqlite", "**/.lesshst", "/etc/shadow"),
    *("/etc/shadow-", "/etc/gshadow", "/etc/gshadow-"),
    *("/etc/ssh/*_key", "/proc/**/environ", "/proc/**/mem", "/proc/**/root/**"),
    *("/proc/**/cwd/**", "/proc/**/fd/**", "/run/secrets/**", "/var/run/secrets/**"),
    *("/etc/kubernetes/**", "/var/lib/jenkins/secrets/**"),
)

# Files that control other programs. Some could disable the guarding of an agent.
PROTECTED: Final = (
    *HOST_SETTINGS,
    *HOST_LOADED,
    *("**/.vscode/tasks.json", "**/.vscode/settings.json", "**/.vscode/mcp.json"),
    *("**/.devcontainer/**",),
    # git and its hooks
    *("**/.git/hooks/**", "**/.git/config", "**/.git/config.worktree"),
    *("**/.git/info/attributes", "**/.git/info/exclude"),
    *("**/.git/modules/**/hooks/**", "**/.git/modules/**/config"),
    *("**/.husky/**", "**/.githooks/**", "**/.gitconfig", "**/.config/git/**"),
    *("/etc/gitconfig", "**/lefthook.yml", "**/.pre-commit-config.yaml"),
    # CI configuration
    *("**/.github/workflows/**", "**/.github/actions/**", "**/.gitlab-ci.yml"),
    *("**/.circleci/**", "**/.travis.yml", "**/Jenkinsfile", "**/azure-pipelines.y*ml"),
    *("**/bitbucket-pipelines.yml", "**/.drone.yml", "**/.buildkite/**", "**/.woodpecker/**"),
    *("**/.woodpecker.y*ml", "**/.gitea/workflows/**", "**/.forgejo/workflows/**"),
    *("**/appveyor.yml", "**/.appveyor.yml", "**/.cirrus.yml", "**/cloudbuild.yaml"),
    # shells and sessions
    *("**/.bashrc", "**/.bash_profile", "**/.bash_login", "**/.bash_logout", "**/.bash_aliases"),
    *("**/.profile", "**/.zshrc", "**/.zprofile", "**/.zshenv", "**/.zlogin", "**/.zlogout"),
    *("**/.kshrc", "**/.cshrc", "**/.tcshrc", "**/.login", "**/.inputrc", "**/.config/fish/**"),
    *("**/.envrc", "**/.xprofile", "**/.xinitrc", "**/.xsession", "**/.pam_environment"),
    *("**/.config/autostart/**", "**/.config/environment.d/**", "**/Library/LaunchAgents/**"),
    *("/etc/profile", "/etc/profile.d/**", "/etc/bash.bashrc", "/etc/zsh/**", "/etc/environment"),
    *("/etc/fish/**", "/Library/LaunchAgents/**", "/Library/LaunchDaemons/**"),
    # timers, services, linker, permissions
    *("/etc/cron*/**", "/etc/crontab", "/etc/anacrontab", "/var/spool/cron/**"),
    *("**/.config/systemd/**", "**/.local/share/systemd/**", "/etc/systemd/**"),
    *("/run/systemd/**", "/lib/systemd/**", "/usr/lib/systemd/**", "/usr/local/lib/systemd/**"),
    *("/etc/init.d/**", "/etc/rc.local", "/etc/udev/**", "/etc/ld.so.*", "/etc/ld.so.conf.d/**"),
    *("/etc/sudoers", "/etc/sudoers.d/**", "/etc/pam.d/**", "/etc/ssh/**"),
    # startup files of interpreters and editors
    *("**/sitecustomize.py", "**/usercustomize.py", "**/site-packages/*.pth"),
    *("**/dist-packages/*.pth", "**/.vimrc", "**/.exrc", "**/.config/nvim/**", "**/.emacs"),
    *("**/.emacs.d/**", "**/.gdbinit", "**/.lldbinit", "**/.tmux.conf"),
    # System directories. /opt, /srv and /usr/src are left out, because projects live there.
    *("/etc/**", "/boot/**", "/bin/**", "/sbin/**", "/lib/**", "/lib64/**", "/usr/bin/**"),
    *("/usr/sbin/**", "/usr/lib/**", "/usr/libexec/**", "/usr/share/**", "/usr/local/bin/**"),
    *("/usr/local/sbin/**", "/usr/local/lib/**", "/proc/**", "/sys/**"),
)

WEEKDAYS: Final = ("mon", "tue", "wed", "thu", "fri", "sat", "sun")
_HOURS: Final = re.compile(r"([01]\d|2[0-3]):([0-5]\d)-([01]\d|2[0-3]):([0-5]\d)")
Names = tuple[str, ...]
Modes = tuple[Literal["development", "production", "hybrid"], ...]
Cap = Annotated[int, Meta(ge=0)]
ProhibitedMeans = Literal["block", "require_confirmation"]


class When(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """The conditions of a custom rule. All that are given must hold."""

    types: Names = ()
    agents: Names = ()
    projects: Names = ()
    modes: Modes = ()
    remotes: Names = ()
    text: str | None = None  # RE2
    only_text: bool = False  # the proposal has only text: no target, path, diff or cost
    paths: Names = ()  # globs
    cost_over_usd: Amount | None = None
    files_over: Count | None = None
    hours: str | None = None  # "22:00-06:00"; the end is excluded
    weekdays: Names = ()


class CustomRule(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    name: str
    when: When = When()
    then: Severity
    reason: str = ""


class RuleLists(msgspec.Struct, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """Lists that replace the verdict of the type table."""

    allow_without_permission: Names = ()
    require_permission: Names = ()
    allow_push_to: Names = ()
    custom: tuple[CustomRule, ...] = ()


class RulesConfig(RuleLists, frozen=True, kw_only=True, forbid_unknown_fields=True):
    allow_human_communication: bool = False
    known_contacts: Names = ()
    prohibited_means: ProhibitedMeans = "block"
    sensitive_paths: Names = SENSITIVE
    protected_paths: Names = PROTECTED
    memory_per_session: Cap = 50


class ProjectRules(RuleLists, frozen=True, kw_only=True, forbid_unknown_fields=True):
    """A project's rules, which come before the global ones. None means no override."""

    allow_human_communication: bool | None = None
    known_contacts: Names | None = None
    prohibited_means: ProhibitedMeans | None = None
    sensitive_paths: Names | None = None
    protected_paths: Names | None = None
    memory_per_session: Cap | None = None


class RuleCase(msgspec.Struct, frozen=True):
    """A proposal with its kind and resolved paths."""

    proposed: Proposed
    kind: Kind
    places: tuple[PathTarget, ...]
    reader: CommandReader | None = None  # None for a part of a command that was analysed before

    @property
    def proposal(self) -> Proposal:
        return self.proposed.proposal

    @property
    def remotes(self) -> tuple[str | None, ...]:
        """The remotes to which an action sends. For a push with a text, its command names them."""
        if self.reader is None or self.kind.type != "push" or not self.proposal.text:
            return (self.proposal.remote,)
        return self.reader.remotes(self.proposal)


Test = Callable[[RuleCase], bool]


class Rule:
    """A compiled custom rule. Raise `ValueError` for an invalid pattern or time range."""

    def __init__(self, config: CustomRule, kinds: Kinds, mode: str, timezone: tzinfo) -> None:
        self.verdict = _verdict(config)
        self.types = frozenset(kinds.named(name).type for name in config.when.types)
        self._tests = (
            *_named(config.when, self.types, mode, allows=self.verdict is ALLOWED),
            *_said(config.when, allows=self.verdict is ALLOWED),
            *_measured(config.when),
            *_timed(config.when, timezone),
        )

    def matches(self, case: RuleCase) -> bool:
        return all(test(case) for test in self._tests)


def _verdict(config: CustomRule) -> Verdict:
    if config.then is Severity.ALLOW:
        return ALLOWED
    does = "blocks this action" if config.then is Severity.BLOCK else "requires approval"
    reason = config.reason or f"Rule {config.name} {does}"
    when = "; ".join(_conditions(config.when))
    remedy = f"when rule {config.name} does not match ({when or 'it always matches'})"
    return Verdict("classify", config.then, f"rules.{config.name}", reason, remedy=remedy)


def _conditions(when: When) -> Iterator[str]:
    for name in when.__struct_fields__:
        given = getattr(when, name)
        if given is not None and given not in ((), False):
            yield f"{name} {', '.join(given) if isinstance(given, tuple) else given}"


def _named(when: When, types: frozenset[str], mode: str, *, allows: bool) -> Iterator[Test]:
    if types:
        yield lambda case: case.kind.type in types
    if when.agents:
        yield lambda case: case.proposed.agent in when.agents
    if when.projects:
        yield lambda case: case.proposal.project in when.projects
    if when.modes:
        yield lambda case: mode in when.modes  # noqa: ARG005
    if when.remotes:
        enough = all if allows else any
        yield lambda case: enough(remote in when.remotes for remote in case.remotes)


def _said(when: When, *, allows: bool) -> Iterator[Test]:
    if when.text is not None:
        text = PatternSet((when.text,))
        yield lambda case: bool(
            text.find((case.proposal.text,) if allows else forms((case.proposal.text,)))
        )
    if when.only_text:
        yield lambda case: is_all(case.proposal)
    if when.paths:
        globs = Globs(when.paths)
        yield lambda case: (_all_match if allows else _any_matches)(globs, case.places)


def _all_match(globs: Globs, places: Sequence[PathTarget]) -> bool:
    return bool(places) and all(not p.opaque and globs.find(p) is not None for p in places)


def _any_matches(globs: Globs, places: Sequence[PathTarget]) -> bool:
    return any(globs.find(place) is not None for place in places)


def _measured(when: When) -> Iterator[Test]:
    cost, files = when.cost_over_usd, when.files_over
    if cost is not None:
        yield lambda case: (case.proposal.cost_usd or 0) > cost
    if files is not None:
        yield lambda case: _files(case.proposal, case.kind) > files


def _files(proposal: Proposal, kind: Kind) -> float:
    """Return the number of files: the largest of paths, patch and context."""
    context, patch = proposal.context, patch_of(proposal, edits=kind.edits)
    if isinstance(context, msgspec.Raw):
        context = msgspec.json.decode(context)
    said = context.get("files_changed") if isinstance(context, dict) else None
    listed = max(len(proposal.paths), len(patch.files))
    return max(listed, said if isinstance(said, int | float) else 0)


def _timed(when: When, timezone: tzinfo) -> Iterator[Test]:
    if when.hours is not None:
        holds = hours(when.hours)
        yield lambda case: holds(case.proposed.at.astimezone(timezone))
    if when.weekdays:
        days = frozenset(map(WEEKDAYS.index, when.weekdays))
        yield lambda case: case.proposed.at.astimezone(timezone).weekday() in days


def hours(span: str) -> Callable[[datetime], bool]:
    """Return a test whether a local time is in `span`, such as "22:00-06:00" (end excluded)."""
    given = _HOURS.fullmatch(span)
    if given is None:
        raise ValueError(f'{span!r} is not a time range. Write it as "22:00-06:00"')
    h1, m1, h2, m2 = map(int, given.groups())
    begin, end = 60 * h1 + m1, 60 * h2 + m2
    if begin == end:
        raise ValueError(f"{span!r} is empty. For the whole day, leave hours out")
    length = (end - begin) % 1440
    return lambda local: (60 * local.hour + local.minute - begin) % 1440 < length
