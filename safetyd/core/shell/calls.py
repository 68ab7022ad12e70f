"""One call of a program, split into options and arguments."""

import re
from collections.abc import Iterator, Sequence
from itertools import pairwise
from typing import Final

from safetyd.core.shell.programs import Program, Wraps
from safetyd.core.shell.reading import HOLE, word_set
from safetyd.core.shell.words import NAME, Flow, Word

# Options that never take a value, in any program.
_FLAGS: Final = word_set("""
    --all --yes --force --verbose --quiet --recursive --delete --now --debug --wait --atomic
    --prune --install --json --silent --stats --volumes --purge --cascade --help --diff --clean
    --auto-approve --assume-yes --non-interactive --stdout --version --list --archive --compress
    --create-namespace --check --workspace --human-readable --progress --partial --snapshot
    --remove-orphans --all-namespaces --ignore-not-found --skip-final-snapshot --delete-excluded
    --checksum
""")
_NEGATED: Final = "--no-"
# Options that cancel another option: `--no-dry-run`, `--skip-help`, `APT::Get::Simulate=false`.
_CANCELS: Final = re.compile(r"--(?:loose[-_])?(?:no|skip|disable)[-_]?([\w-]+)").match
_REFUSES: Final = frozenset({"false", "no", "0", "off", "none", "null", "never", "without"})
# Options with the same meaning. Negating one of them may cancel another.
_SAME: Final = ("dry-run", "simulate", "just-print", "recon", "no-act", "n", "s", "help", "version")
_SAYS_YES: Final = re.compile(r"-[a-zA-Z]*y|--assume-?yes|--setopt=assume(?:yes|no)").match
_PLAIN_READERS: Final = frozenset({"", "family", "forge", "bucket", "query", "database_tool"})
# Readers of programs that also run others, with the verbs that do so.
_RUNNING_READERS: Final = frozenset({"package_runner", "pip", "docker"})
_RUNNING: Final = frozenset({"run", "exec", "x", "dlx", "tool", "shell", "start"})
_NOT_HELPED: Final = word_set("alias cd command eval interpreter kill shell source tee trap")
_HALTING: Final = word_set("halt init poweroff reboot shutdown telinit")
_HELP: Final = frozenset({"--help", "-h", "-help", "--version"})
_HELPED_BY_WORD: Final = frozenset({"aws", "ip", "tc", "bridge", "gcloud"})
_is_verb = re.compile(r"[a-z][a-z0-9:_-]*").fullmatch
_ABBREVIATED: Final = 5  # length of the shortest abbreviation that certainly means an option
_SHORTEST: Final = 3  # length of the shortest abbreviation that may mean an option


class Call:
    """The words of a call, split into options and arguments as the program's row describes."""

    def __init__(
        self, program: Program, name: str, words: Sequence[Word], stdin: Flow | None
    ) -> None:
        self.program = program
        self.name = name
        self.words = words
        self.stdin = stdin
        self.options: list[tuple[str, Word | None]] = []
        self.arguments: list[Word] = []
        self._take_apart()

    def _take_apart(self) -> None:
        valued, long = self.program.valued, self.program.row.long_options
        given = iter(self.words)
        for word in given:
            text = word.text
            if len(text) < 2 or text[0] not in "-+" or (text[0] == "+" and not long):  # noqa: PLR2004
                self.arguments.append(word)
            elif text == "--":
                self.arguments += given
            elif text.startswith("--") or long:
                self._long(word, given, valued)
            else:
                self._short(word, given, valued)

    def _long(self, word: Word, given: Iterator[Word], valued: frozenset[str]) -> None:
        name, equals, value = word.text.partition("=")
        if equals:
            self.options.append((_whole(name, valued), _cut(word, len(name) + 1, value)))
        elif name in valued:
            self.options.append((name, next(given, None)))
        else:
            self.options.append((name, None))

    def _short(self, word: Word, given: Iterator[Word], valued: frozenset[str]) -> None:
        text = word.text
        if text in valued:
            self.options.append((text, next(given, None)))
            return
        name, equals, value = text.partition("=")
        if equals and name in valued:
            self.options.append((name, _cut(word, len(name) + 1, value)))
            return
        if text[2:3] == HOLE and word.origin == NAME:  # `-j$(nproc)`
            self.options.append((text[:2], _cut(word, 2, text[2:])))
            return
        for at, letter in enumerate(text[1:], start=1):
            option = f"-{letter}"
            if option not in valued:
                self.options.append((option, None))
                continue
            rest = text[at + 1 :]
            self.options.append((option, _cut(word, at + 1, rest) if rest else next(given, None)))
            return

    def has(self, *names: str) -> bool:
        """Return True if one of these options may be given, even in an abbreviated form."""
        return bool(self.options) and any(
            _may_mean(given, name.partition("=")[0]) and _may_be(value, name)
            for given, value in self.options
            for name in names
        )

    def has_surely(self, name: str) -> bool:
        """Return True if an option is certainly in effect: `--dry-run` without `=false`."""
        if not self.options:
            return False
        option, equals, wanted = name.partition("=")
        said = (wanted,) if equals else ("true",)
        free = not equals and option in self.program.valued  # any value counts
        found = [(each, value) for each, value in self.options if _means(each, option)]
        certain = bool(found) and all(
            HOLE not in each and (free or (not equals if value is None else value.text in said))
            for each, value in found
        )
        return certain and not self.may_be_value(option) and not self.is_cancelled(option)

    def has_some(self, name: str) -> bool:
        """Return True if an option is certainly given, with any value that does not disable it."""
        given = self.values(name) and not self.is_cancelled(name)
        return bool(given) or self.has_surely(name)

    def is_cancelled(self, option: str) -> bool:
        """Return True if another word cancels an option, or if an unknown word may cancel it."""
        names = (option.lstrip("-"), *_SAME)
        before = ""
        for text in [word.text for word in self.words]:
            if text == "--":
                break
            name, equals, value = text.lower().replace("_", "-").rpartition("=")
            found = _CANCELS(text.replace("_", "-"))
            if (
                (found and any(each.startswith(found[1]) for each in names))
                or (equals and value in _REFUSES and name.endswith(names))
                or (text in _REFUSES and _means(before, option))
                or (option == "--assumeno" and _SAYS_YES(text))
            ):
                return True
            before = text
        return bool(self.unnamed)

    def may_be_value(self, said: str) -> bool:
        """Return True if a word follows an unknown option, so that it may be its value."""
        known = self.program.valued
        for before, word in pairwise(self.words):
            name = before.text
            # Most short options are flags. Only `--help` and the like may be the value of one.
            long = name.startswith("--") or (name[:1] == "-" and said in _HELP)
            if word.text.partition("=")[0] != said or not long:
                continue
            flag = name in _FLAGS or name.startswith(_NEGATED)
            if not (flag or "=" in name or name in known or self._lists(name)):
                return True
        return False

    def _lists(self, option: str) -> bool:
        """Return True if the row lists an option as a flag."""
        uses = self.program.uses
        return any(option in (*u.options, *u.verb.with_, *u.verb.without) for u in uses)

    @property
    def unnamed(self) -> list[Word]:
        """Words with unknown text that may be options at run time."""
        found = [word for word in self.words if _may_be_option(word)]
        if not found:
            return found
        texts = [word.text for word in self.words]
        end = self.words[texts.index("--")].start if "--" in texts else None
        given = {value for _, value in self.options}
        return [w for w in found if w not in given and (end is None or w.start < end)]

    def values(self, *names: str) -> list[Word]:
        return [
            value
            for given, value in self.options
            if value is not None
            and (given in names if given in self.program.valued else _any_means(given, names))
        ]

    @property
    def verb(self) -> str:
        return self.arguments[0].text if self.arguments else ""

    @property
    def asks_help(self) -> bool:
        """Return True if the program only prints its help or version."""
        if len(self.words) != 1:
            return self._ends_in_help()
        said = self.words[0].text
        if said == "-h":
            return self._prints_help_for_h
        short = (
            said == "-v" and self.program.has_verbs
        )  # as in npm; in other programs it often means verbose
        return short or said in {"--help", "--version", "-V", "-help", "-version"}

    @property
    def _prints_help_for_h(self) -> bool:
        """Return True unless `-h` may be a setting, as in a shell, or halts the machine."""
        row = self.program.row
        plain = row.wraps is None and row.reader not in _NOT_HELPED
        return plain and self.stdin is None and self.name not in _HALTING

    def _ends_in_help(self) -> bool:
        """Return True for a call that only asks for help on a verb: `terraform destroy -h`."""
        last = self.words[-1].text if self.words else ""
        if last not in _HELP and last != "help":
            return False
        verbs = [word.text for word in self.words[:-1]]
        row = self.program.row
        if last == "help" and self.name in _HELPED_BY_WORD:
            return all(map(_is_verb, verbs))
        if last not in _HELP or not self.program.has_verbs or not all(map(_is_verb, verbs)):
            return False
        alone = len(verbs) == 1 and row.reader in _RUNNING_READERS
        return (alone or row.reader in _PLAIN_READERS) and verbs[0] not in {*_RUNNING, *row.run}


def _means(given: str, name: str) -> bool:
    """Return True if the given option is `name`, or may be an abbreviation of it."""
    if given == name:
        return True
    if HOLE in given:
        return given.startswith(HOLE) or name.startswith(given.partition(HOLE)[0])
    return len(given) >= _ABBREVIATED and given.startswith("--") and name.startswith(given)


def _may_mean(given: str, name: str) -> bool:
    """Return True if the given option may mean `name`, even in a very short form: `--r`."""
    short = len(given) >= _SHORTEST and given.startswith("--") and name.startswith(given)
    return short or _means(given, name)


def _whole(given: str, valued: frozenset[str]) -> str:
    """Return the only option in `valued` that an abbreviation can mean, or `given` unchanged."""
    if given in valued or len(given) < _SHORTEST or HOLE in given:
        return given
    meant = [option for option in valued if option.startswith(given)]
    return meant[0] if len(meant) == 1 and given.startswith("--") else given


def _any_means(given: str, names: Sequence[str]) -> bool:
    return any(_means(given, name) for name in names)


def _may_be_option(word: Word) -> bool:
    """Return True if a word with unknown text may be an option."""
    text = word.text
    named = not text.startswith("--") or HOLE not in text.partition("=")[0]
    runs_unknown = text.startswith(HOLE) and word.origin != NAME
    return runs_unknown or not named or (word.globs and text[:1] in {"*", "?", "["})


def _may_be(value: Word | None, name: str) -> bool:
    """Return True if `name` has no `=value`, or if `value` may be equal to it."""
    _, equals, wanted = name.partition("=")
    return not equals or (value is not None and (HOLE in value.text or value.text == wanted))


def _cut(word: Word, at: int, text: str) -> Word:
    inner = word.inner + at if word.inner >= 0 else -1
    return word._replace(text=text, inner=inner)


def after_options(words: Sequence[Word], valued: frozenset[str]) -> list[Word]:
    """Return the words after the leading options and their values."""
    at = 0
    while at < len(words):
        text = words[at].text
        if text == "--":
            at += 1
            break
        if not text.startswith("-") or len(text) == 1:
            break
        at += 2 if text in valued else 1
    return list(words[at:])


def split_command(call: Call, wraps: Wraps | None = None) -> tuple[Call, list[Word]]:
    """Split a call into the program's own call and the command that it runs."""
    if wraps is not None and wraps.after:
        texts = [word.text for word in call.words]
        at = texts.index(wraps.after) + 1 if wraps.after in texts else len(texts)
        command = list(call.words[at:])
    else:
        command = after_options(call.words, call.program.valued)[wraps.skip if wraps else 0 :]
    own = call.words[: len(call.words) - len(command)]
    return Call(call.program, call.name, own, call.stdin), command
