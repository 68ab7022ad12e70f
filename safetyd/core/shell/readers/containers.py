"""Containers: what they can access, and which command runs inside."""

from collections.abc import Sequence
from typing import Final

from safetyd.core.shell import places, rows
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.reading import Access, Effect, Touch, word_set
from safetyd.core.shell.words import UNKNOWN_TEXT, Word

_RUN: Final = frozenset({"run", "exec", "create"})
_ENDS: Final = frozenset({"kill", "stop", "restart", "pause"})
_BUILDS: Final = frozenset({"build", "buildx", "bud"})
_GROUPS: Final = frozenset({"container", "compose"})
_FLAGS: Final = word_set("""
    --rm --init --privileged --read-only --detach --interactive --tty --no-deps --build
    --service-ports --use-aliases --quiet-pull --quiet --publish-all --oom-kill-disable
    --no-healthcheck --disable-content-trust --sig-proxy --remove-orphans --no-TTY --no-tty
    --replace --latest --tls --debug --tlsverify --all-resources --compatibility --dry-run
    --verbose --no-ansi --help --version --no-hosts --no-hostname --rmi --env-host --http-proxy
    --read-only-tmpfs --tls-verify --passwd
""")
_SHORT_FLAGS: Final = frozenset("ditPTq")
_ELSEWHERE: Final = ("-H", "--host", "--context", "-c", "--url", "--connection", "-r", "--remote")
_CACHES: Final = ("~/.m2", "~/.cache", "~/.npm", "~/.cargo", "~/.gradle", "~/go", "~/.ivy2")
_CAPABILITIES: Final = frozenset({"SYS_PTRACE", "NET_BIND_SERVICE", "IPC_LOCK", "SYS_NICE"})
_OF_HOST: Final = ("--pid", "--ipc", "--uts", "--userns", "--cgroupns")
_SOCKETS: Final = ("docker.sock", "containerd.sock", "podman.sock", "crio.sock")

Options = list[tuple[str, Word | None]]


def read_docker(inv: Invocation) -> None:
    """Analyse `docker`, `podman` and similar programs."""
    options, words = _options(inv.call.words)
    _machine(inv, options)
    if inv.call.name.endswith("-compose") and words:
        words = [words[0]._replace(text="compose"), *words]
    if len(words) > 1 and words[0].text in _GROUPS:
        group = words[0].text
        further, words = _options(words[1:]) if group == "compose" else ([], words[1:])
        if group == "compose":
            inv.reads(*_values(further, "--env-file"))
            for word in _values(further, "-f", "--file", "--project-directory"):
                rows.load(inv, word, "docker compose")  # this file defines mounts and permissions
    verb = words[0].text if words else ""
    if verb in _RUN and len(words) > 1:
        inv.named = f"{inv.call.name} {verb}"
        _run(inv, verb, words[1:])
    elif verb == "cp":
        _copy(inv)
    else:
        rows.apply(inv)
        if verb in _BUILDS and inv.stdin and any(word.text == "-" for word in words):
            inv.runs_unknown_input(inv.stdin)
        if verb in _ENDS and not all(word.known for word in words):
            inv.found(Effect.IRREVERSIBLE, "stops containers that are only known at run time")
        for word in inv.call.values("-o", "--output"):
            inv.writes(word.with_text(word.text.rpartition("dest=")[2]))


def _machine(inv: Invocation, options: Options) -> None:
    """Record that the command uses containers on another machine."""
    for word in _values(options, *_ELSEWHERE):
        if not word.text.startswith("unix://") and word.text not in {"default", "desktop-linux"}:
            inv.found(Effect.LEAVES, f"controls containers on {visible(word.text)}")


def _options(words: Sequence[Word]) -> tuple[Options, list[Word]]:
    """Split leading options from the other words. Options have a value unless listed as flags."""
    options: Options = []
    left = list(words)
    while left and left[0].text.startswith("-") and left[0].text != "-":
        word = left.pop(0)
        name, equals, value = word.text.partition("=")
        short = not name.startswith("--") and len(name) > 1
        if word.text == "--":
            break
        if equals:
            options.append((name, word.with_text(value)))
        elif name in _FLAGS or (short and set(name[1:]) <= _SHORT_FLAGS):
            options.append((name, None))
        elif short and len(name) > 2 and not set(name[1:-1]) <= _SHORT_FLAGS:  # noqa: PLR2004
            options.append((name[:2], word.with_text(word.text[2:])))
        else:
            named = f"-{name[-1]}" if short else name
            options.append((named, left.pop(0) if left else None))
    return options, left


def _values(options: Options, *names: str) -> list[Word]:
    return [value for name, value in options if name in names and value is not None]


def _run(inv: Invocation, verb: str, words: Sequence[Word]) -> None:
    """Analyse the access that a container gets, and the command that runs inside."""
    options, words = _options(words)
    if ("--help", None) in options:
        inv.found_help()
        return
    inv.found(Effect.WORK, "runs a command in a container")
    _rights(inv, options)
    for word in _values(options, "-v", "--volume"):
        source, colon, rest = word.text.partition(":")
        _mount(inv, word._replace(text=source if colon else ""), ":ro" in f":{rest}")
    for word in _values(options, "--mount"):
        parts = dict(part.partition("=")[::2] for part in word.text.split(","))
        source = parts.get("source", parts.get("src", ""))
        if parts.get("type") == "bind":
            only_reads = "readonly" in parts or "ro" in parts
            _mount(inv, word._replace(text=source), only_reads, bound=True)
    inv.reads(*_values(options, "--env-file"))
    for word in _values(options, "--cidfile", "--iidfile"):
        inv.writes(word)
    inner = [*_values(options, "--entrypoint"), *words[1:]]
    # The arguments belong to the image, unless the table knows the program.
    if inner and inner[0].text and (verb == "exec" or inv.runner.knows(inner[0].text)):
        scope = inv.scope.copy(elsewhere=True)
        way = f"{inv.call.name} {verb}"
        inv.output = inv.runner.program(inner, inv.command, scope, way)
    else:
        if not inner and any(map(_is_interactive, options)):
            inv.found_open_input()
        inv.output = UNKNOWN_TEXT


def _is_interactive(option: tuple[str, Word | None]) -> bool:
    name, _ = option
    return name in {"--interactive", "--tty"} or (name[:2] != "--" and bool(set(name) & set("it")))


def _rights(inv: Invocation, options: Options) -> None:
    """Record options that give a container access to this machine."""
    for name, value in options:
        said = value.text if value is not None else ""
        if name == "--privileged" and said != "false":
            inv.found(Effect.PRIVILEGED, "gives a container full access to this machine")
        elif name in _OF_HOST and said not in {"private", "none", "shareable"}:
            inv.found(
                Effect.PRIVILEGED,
                f"shares this machine's {name.strip('-')} namespace with a container",
            )
        elif name == "--cap-add" and said.removeprefix("CAP_") not in _CAPABILITIES:
            inv.found(Effect.PRIVILEGED, f"gives a container the capability {visible(said)}")
        elif name in {"--device", "--device-cgroup-rule"}:
            inv.found(Effect.PRIVILEGED, f"gives a container access to the device {visible(said)}")
        elif name == "--security-opt" and "no-new-privileges" not in said:
            inv.found(Effect.PRIVILEGED, "weakens the isolation of a container")


def _mount(inv: Invocation, source: Word, only_reads: bool, *, bound: bool = False) -> None:  # noqa: FBT001
    """Record that a container gets access to a local folder."""
    text = source.text
    if not text or not (bound or text[0] in "/~.\0" or "/" in text):
        return  # a named volume
    where = inv.scope.place(text)
    shown = visible(text)
    if text.endswith(_SOCKETS):
        inv.found(Effect.PRIVILEGED, "gives a container control of the container engine")
    elif where.kind in {places.INSIDE, places.TEMPORARY}:
        access = Access.READ if only_reads else Access.WRITE
        inv.found(Effect.WORK, f"mounts {shown}", touches=(Touch(where.path, access),))
    elif where.kind == places.OUTSIDE and (only_reads or where.path.startswith(_CACHES)):
        inv.reads(source)
    elif where.kind == places.UNKNOWN:
        why = f"mounts {shown}, a path that is only known at run time"
        inv.found(Effect.PRIVILEGED, why, remedy="with a literal path inside the project")
    else:
        why = f"mounts {shown}, which is outside the project"
        touches = (Touch(where.path, Access.READ if only_reads else Access.WRITE),)
        remedy = "with a folder of the project"
        inv.found(Effect.PRIVILEGED, why, touches=touches, remedy=remedy)


def _copy(inv: Invocation) -> None:
    """Analyse `docker cp`."""
    words = [word for word in inv.call.arguments if word.text not in {"cp", "compose", "container"}]
    inv.named = f"{inv.call.name} cp"
    inv.found(Effect.WORK, "copies files to or from a container")
    if len(words) > 1 and ":" not in words[-1].text:
        inv.writes(words[-1])
    inv.reads(*(word for word in words[:-1] if ":" not in word.text))
