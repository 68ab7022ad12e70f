"""Git: options and settings that run programs, and verbs for which a row is not enough."""

import functools
import re
from collections.abc import Callable, Iterator
from copy import copy
from typing import Final

from safetyd.core.shell import places, rows
from safetyd.core.shell.calls import Call
from safetyd.core.shell.invocation import Invocation, visible
from safetyd.core.shell.programs import Program, matches
from safetyd.core.shell.reading import HOLE, Access, Effect, Trait, each, word_set
from safetyd.core.shell.words import COMMAND, NAME, UNKNOWN_TEXT, VARIABLE, Flow, Word, as_one

_NEXT_TO_PROJECT: Final = re.compile(r"\.\./\w[\w.-]*")
_STASH: Final = "after `git stash`"
_DISCARDS: Final = "discards uncommitted changes"
_OUTSIDE: Final = "uses a repository outside the project, whose settings can run programs"

# Options of git itself, before the verb.
_WITH_VALUE: Final = word_set("""
    -C -c --git-dir --work-tree --namespace --config-env --attr-source --super-prefix
""")
# Short options that take a value, by verb.
_VALUED: Final = {
    "commit": "-m -F -C -c -t",
    "tag": "-m -F -u",
    "merge": "-m -F -s -X",
    "stash": "-m",
    "notes": "-m -F -C -c",
    "rebase": "-x -s -X",
    "cherry-pick": "-m -X",
    "revert": "-m -X",
    "pull": "-s -X -j -o",
    "fetch": "-j -o",
    "push": "-o",
    "ls-remote": "-o",
    "clean": "-e",
    "checkout": "-b -B",
    "switch": "-c -C",
    "branch": "-u",
    "worktree": "-b -B",
    "clone": "-b -o -u -c -j --branch",
    "submodule": "-b -j --branch",
    "init": "-b",
    "config": "-f --file",
    "archive": "-o",
    "format-patch": "-o",
    "restore": "-s",
    "grep": "-e -f -A -B -C -m",
    "blame": "-L",
    "remote": "-t -m",
    "difftool": "-x -t",
    "ls-files": "-x -X",
    "mergetool": "-t",
    "rev-list": "-n",
    "bugreport": "-o -s",
    "diagnose": "-o -s",
    "describe": "",
    "shortlog": "",
    **each("-n -S -G -L -O -l -U", "log show diff reflog whatchanged"),
}
_ASKS: Final = word_set("""
    --get --get-all --get-regexp --get-urlmatch --get-color --get-colorbool --list -l
    --show-origin --show-scope --name-only
""")
# Verbs that change only the files of one working copy.
_OF_FILES: Final = frozenset({"reset", "clean", "checkout", "restore", "switch", "rm"})
_CHANGING: Final = frozenset({"set", "unset", "rename-section", "remove-section"})


def read_git(inv: Invocation) -> None:
    """Analyse git's own options, then the verb with its function or row."""
    words = _after_options(inv)
    if not words:
        inv.found_help()
        return
    verb = words[0].text
    program = _program(inv.call.program, verb if verb in _VALUED else "")
    inv.call = Call(program, inv.call.name, words, inv.stdin)
    if len(words) > 1 and (words[1].text == "--help" or [w.text for w in words[1:]] == ["-h"]):
        inv.found_help()
        return
    for word in inv.call.arguments[1:]:
        if word.text.startswith(("ext::", "fd::")):
            inv.found(Effect.UNKNOWN, "runs a program to contact another repository")
    if verb in _OF_FILES and inv.scope.place(".").kind == places.TEMPORARY:
        inv.found(Effect.WORK, "changes only a temporary copy of a repository")
        return
    _VERBS.get(verb, rows.apply)(inv)


@functools.cache
def _program(program: Program, verb: str) -> Program:
    """Return git with the short options that take a value for this verb."""
    own = copy(program)
    given = _VALUED.get(verb, "").split()
    own.valued = frozenset((*(o for o in own.valued if o.startswith("--")), *given))
    return own


def _after_options(inv: Invocation) -> list[Word]:
    words = list(inv.call.words)
    while words and words[0].text.startswith("-"):
        name, equals, text = words[0].text.partition("=")
        word = words.pop(0)
        value: Word | None = None
        if equals:
            value = word.with_text(text)
        elif name in _WITH_VALUE and words:
            value = words.pop(0)
        if value is not None:
            _option(inv, name, value)
    return words


def _option(inv: Invocation, name: str, value: Word) -> None:
    """Record the effects of an option before the verb."""
    where = inv.scope.place(value.text)
    if name == "-C":
        inv.scope = inv.scope.copy()
        known = value.fixed and where.kind != places.UNKNOWN
        inv.scope.cwd = where.path if known else None
    elif name in {"-c", "--config-env"}:
        key, _, text = value.text.partition("=")
        given = HOLE if name == "--config-env" else text
        _setting(inv, key, value.with_text(given))
    elif name == "--exec-path":
        inv.found(Effect.UNKNOWN, "runs git programs from another folder")
    elif name in {"--git-dir", "--work-tree"} and where.kind != places.INSIDE:
        inv.found(Effect.UNKNOWN, _OUTSIDE, remedy="without this option, in the project")


def _setting(inv: Invocation, key: str, value: Word) -> None:
    """Record the effects of a setting. Some run programs, most are harmless."""
    key = key.lower()
    if _listed(inv, "git_programs", key):
        if value.text not in {"", "true", "false"}:
            inv.shell(value, f"git {key}")
    elif key.startswith("alias."):
        text = value.text
        said = text[1:] if text.startswith("!") else f"git {text}"
        inv.shell(value.with_text(said), f"git {key}")
    elif key == "credential.helper" and not value.text:
        return
    elif not _listed(inv, "git_settings", key):
        why = f"sets {visible(key)}, which can make git run a program or contact another server"
        inv.found(Effect.UNKNOWN, why, type="modify_config")


def _listed(inv: Invocation, name: str, key: str) -> bool:
    return any(matches(pattern, key) for pattern in inv.runner.listed(name))


def _config(inv: Invocation) -> None:
    call, inv.named = inv.call, "git config"
    inv.reads(*call.values("-f", "--file"))
    words = call.arguments[1:]
    first = words[0].text if words else ""
    if call.has("-e", "--edit") or first == "edit":
        inv.found(Effect.UNKNOWN, "opens an editor for git settings")
        return
    removes = call.has("--unset", "--unset-all", "--remove-section", "--rename-section")
    changes = first in _CHANGING or removes
    words = words[1:] if first in _CHANGING else words
    if first in {"list", "get"} or call.has(*_ASKS) or (len(words) < 2 and not changes):  # noqa: PLR2004 - a name and its value
        inv.found(Effect.READ, "shows settings")
        return
    if call.has("--global", "--system", "--file", "-f"):
        why = "changes git settings for every project"
        remedy = "without `--global`, for this project only"
        inv.found(Effect.IRREVERSIBLE, why, type="modify_config", remedy=remedy)
    else:
        inv.found(Effect.WORK, "changes the settings of this repository")
    if words and not removes:
        value = words[1] if len(words) > 1 else words[0].with_text("")
        _setting(inv, words[0].text, value)


def _push(inv: Invocation) -> None:
    call, inv.named = inv.call, "git push"
    given = [*call.arguments[1:2], *call.values("--repo")]
    # In another repository, the same name may mean another remote.
    own = inv.scope.place(".").kind == places.INSIDE
    remote = given[0].text if own and given and given[0].fixed else None
    refs = [word.text for word in call.arguments[2:]]
    for word in call.values("--receive-pack", "--exec"):
        inv.shell(word, "git push --exec")
    if call.has_surely("-n") or call.has_surely("--dry-run"):
        inv.found(Effect.READ, "only shows what it would push", remote=remote)
        return
    traits: tuple[Trait, ...] = ("rewrites_remote",)
    forced = call.has("-f", "--force", "--mirror", "--force-with-lease")
    if forced or any(ref.startswith("+") for ref in refs):
        effect, why = Effect.IRREVERSIBLE, "overwrites commits on the remote"
        remedy = "without force, or as `git push --dry-run`"
    elif call.has("-d", "--delete", "--prune") or any(ref.startswith(":") for ref in refs):
        effect, why = Effect.IRREVERSIBLE, "deletes branches or tags on the remote"
        remedy = "as `git push --dry-run`"
    else:
        effect, why = Effect.LEAVES, f"sends commits to {visible(remote or 'the remote')}"
        traits = ()
        remedy = "as `git push --dry-run`"
    inv.found(effect, why, type="push", remote=remote, remedy=remedy, traits=traits)


_MOVES_BRANCH: Final = "moves a branch that may already exist, which can lose commits"


def _checkout(inv: Invocation) -> None:
    """Analyse `git checkout`, which switches branches or discards changes in files."""
    call, inv.named = inv.call, "git checkout"
    words = call.arguments[1:]
    makes = call.has("-b", "-B", "--orphan", "-t", "--track", "--detach")
    if call.has("-f", "--force", "-p", "--patch", "--pathspec-from-file"):
        inv.found(Effect.IRREVERSIBLE, _DISCARDS, remedy=_STASH)
    elif call.has("-B") and words:
        inv.found(Effect.IRREVERSIBLE, _MOVES_BRANCH, remedy="as `git checkout -b`")
    elif call.has("--ours", "--theirs") or makes:
        inv.found(
            Effect.WORK, "keeps one side of a conflict" if not makes else "switches to a branch"
        )
    elif any(word.text == "--" for word in call.words[:-1]) or _names_files(words):
        remedy = f"{_STASH}, or as `git switch` for a branch"
        inv.found(Effect.IRREVERSIBLE, _DISCARDS, remedy=remedy)
    else:
        inv.found(Effect.WORK, "switches to a branch")


def _switch(inv: Invocation) -> None:
    rows.apply(inv)
    if inv.call.has("-C", "--force-create") and inv.call.arguments[1:]:
        inv.found(Effect.IRREVERSIBLE, _MOVES_BRANCH, remedy="as `git switch -c`")


def _apply(inv: Invocation) -> None:
    """Analyse `git apply` and `git am`, which change files below a folder."""
    rows.apply(inv)
    for folder in inv.call.values("--directory"):
        inv.writes(folder, "changes files in")


def _names_files(words: list[Word]) -> bool:
    if len(words) > 1:
        return True
    # A single variable from outside is most likely the name of a branch.
    return any(
        word.globs
        or (HOLE in word.text and (word.text != HOLE or word.origin != VARIABLE))
        or _is_file(word.text)
        for word in words
    )


def _is_file(word: str) -> bool:
    """Return True if a word looks like a file rather than a branch."""
    if word.startswith((".", "/", "~", ":")) or word.endswith("/"):
        return True
    stem, dot, suffix = word.rpartition("/")[2].rpartition(".")
    return bool(dot) and suffix.isalpha() and not stem[-1:].isdecimal()


def _clone(inv: Invocation) -> None:
    call, inv.named = inv.call, "git clone"
    words = call.arguments[1:]
    inv.found(Effect.WORK, "copies a repository")
    for value in call.values("-c", "--config"):
        key, _, text = value.text.partition("=")
        _setting(inv, key, value.with_text(text))
    for value in call.values("-u", "--upload-pack"):
        inv.shell(value, "git clone --upload-pack")
    if call.has("--template"):
        inv.found(Effect.UNKNOWN, "installs hooks from a template", remedy="without `--template`")
    if words:
        inv.reads(words[0])
        name = words[0].text.rstrip("/").rpartition("/")[2].rpartition(":")[2]
        name = name.removesuffix(".git") or "repository"
        target = words[1] if len(words) > 1 else words[0].with_text(name)
        inv.writes(target)
        if target.fixed:  # the folder is new, because git refuses one that is not empty
            inv.scope.made |= {inv.scope.place(target.text).path}
            inv.scope.files[inv.scope.place(target.text).path] = UNKNOWN_TEXT


def _bisect(inv: Invocation) -> None:
    rows.apply(inv)
    if command := list(_after(inv.call, "run")):
        inv.runner.program(command, inv.command, inv.scope, "git bisect run")


def _submodule(inv: Invocation) -> None:
    rows.apply(inv)
    command = [word for word in _after(inv.call, "foreach") if word.text != "--recursive"]
    if command:
        inv.shell(as_one(command), "git submodule foreach")


def _after(call: Call, verb: str) -> Iterator[Word]:
    """Yield the words after the second verb, if it is `verb`."""
    if [word.text for word in call.arguments[1:2]] == [verb]:
        at = [word.text for word in call.words].index(verb)
        yield from call.words[at + 1 :]


def _grep(inv: Invocation) -> None:
    """Analyse `git grep`, whose first argument is a pattern."""
    if not inv.call.has("-e", "-f") and len(inv.call.arguments) > 1:
        inv.call.arguments.pop(1)
    rows.apply(inv)
    if inv.call.has("-l", "-L", "--name-only", "--files-with-matches", "--files-without-match"):
        inv.output = _FILES


def _names(inv: Invocation) -> None:
    """Analyse `git ls-files` and `git diff --name-only`, which print file names."""
    rows.apply(inv)
    if inv.call.verb == "ls-files" or inv.call.has("--name-only"):
        inv.output = _FILES


def _revision(inv: Invocation) -> None:
    """Analyse verbs that can print only names of commits, branches or tags."""
    rows.apply(inv)
    words = inv.call.words
    options = {(name, value.text if value else None) for name, value in inv.call.options}
    plain = all(word.fixed and word.text != "--" for word in words) and options <= _ONLY_REVISIONS
    needed = _ONLY_WITH.get(words[0].text)
    if plain and (needed is None or needed & options):
        inv.output = Flow(None, NAME)


def _show(inv: Invocation) -> None:
    """Analyse `git show NAME:FILE`, which prints an old version of a file."""
    rows.apply(inv)
    for word in inv.call.arguments[1:]:
        _, colon, path = word.text.partition(":")
        if colon and path:
            inv.reads(word.with_text(path))


def _rm(inv: Invocation) -> None:
    rows.apply(inv)
    if not inv.call.has("--cached", "-n", "--dry-run"):
        for word in inv.call.arguments[1:]:
            inv.changes(word.text, Access.DELETE, "deletes")


def _mv(inv: Invocation) -> None:
    rows.apply(inv)
    for word in inv.call.arguments[2:][-1:]:
        inv.scope.moved.add(inv.scope.place(word.text).path)


def _worktree(inv: Invocation) -> None:
    """Analyse `git worktree`. New worktrees next to the project are usual, and allowed."""
    words = [word.text for word in inv.call.arguments[1:]]
    if words[:1] == ["move"]:
        _mv(inv)
        return
    rows.apply(inv)
    if words[:1] == ["add"] and words[1:] and not _NEXT_TO_PROJECT.fullmatch(words[1]):
        inv.writes(inv.call.arguments[2])


_HASHES: Final = frozenset({("--format", "%H"), ("--format", "%h"), ("--pretty", "%H")})
# Options with which git prints only revisions.
_ONLY_REVISIONS: Final = frozenset(
    {
        *((name, None) for name in ("--short", "--verify", "--abbrev-ref", "--show-toplevel")),
        *((name, None) for name in ("--show-current", "--tags", "--always", "--first-parent")),
        *(("--abbrev", "0"), ("--max-count", "1"), ("--max-parents", "0"), *_HASHES),
        *((f"-{count}", None) for count in range(1, 10)),
        *(("-n", str(count)) for count in range(1, 10)),
    }
)
_ONLY_WITH: Final = {"branch": frozenset({("--show-current", None)}), "log": _HASHES}
_FILES: Final = Flow("./**\n", COMMAND)  # may name any file of the repository

_VERBS: Final[dict[str, Callable[[Invocation], None]]] = {
    "bisect": _bisect,
    "branch": _revision,
    "cat-file": _show,
    "checkout": _checkout,
    "switch": _switch,
    "apply": _apply,
    "am": _apply,
    "clone": _clone,
    "config": _config,
    "describe": _revision,
    "diff": _names,
    "grep": _grep,
    "log": _revision,
    "ls-files": _names,
    "merge-base": _revision,
    "mv": _mv,
    "push": _push,
    "rev-list": _revision,
    "rev-parse": _revision,
    "rm": _rm,
    "show": _show,
    "submodule": _submodule,
    "symbolic-ref": _revision,
    "worktree": _worktree,
}
