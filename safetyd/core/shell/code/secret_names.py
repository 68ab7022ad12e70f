"""Environment variables that contain secrets, and secrets in clear text."""

import re
from collections.abc import Sequence
from typing import Final

from tree_sitter import Node

from safetyd.core.shell.addresses import is_local
from safetyd.core.shell.reading import HOLE, each, word_set
from safetyd.core.shell.tree.syntax import text_of
from safetyd.core.shell.words import Word

_SECRET_WORDS: Final = word_set("""
    SECRET SECRETS TOKEN PASSWORD PASSWD PASS PASSPHRASE CREDENTIAL CREDENTIALS APIKEY PAT
""")
_KEY_WORDS: Final = frozenset({"API", "ACCESS", "PRIVATE", "SIGNING", "ENCRYPTION", "SSH", "AUTH"})


def looks_secret(variable: str) -> bool:
    """Return True if the name of an environment variable suggests a secret."""
    words = set(variable.upper().split("_"))
    return bool(words & _SECRET_WORDS) or ("KEY" in words and bool(words & _KEY_WORDS))


# Filters whose output has only names of variables, a count, or harmless variables.
_names_only = re.compile(
    r"cut -d ?['\"]?=['\"]? -f ?1|cut -f ?1 -d ?['\"]?=['\"]?|sed ['\"]?s/=\.\*//['\"]?"
    r"|awk -F ?['\"]?=['\"]? '\{ ?print \$1;? ?\}'|wc -l|grep -[a-zA-Z]*[cq][a-zA-Z]* .*"
    r"|grep( -[iE]+)* ['\"]?\^?\(?"
    r"(PATH|HOME|LANG|LC_|SHELL|TERM|USER|PWD|EDITOR|NODE_ENV|PYTHON|VIRTUAL_ENV|CONDA|JAVA_HOME"
    r"|GOPATH|GOROOT|GOFLAGS|CARGO_HOME|RUST|NVM|TZ|XDG|DISPLAY|HOSTNAME|PORT|DEBUG|MAKE|LD_)"
    r"[A-Z_]*=?\)?['\"]?",
    re.IGNORECASE,
).fullmatch


def shows_names_only(stage: Node | None) -> bool:
    """Return True if the next command of a pipeline hides all values that may be secret."""
    return stage is not None and _names_only(text_of(stage)) is not None


# Keys of services that have a recognisable form.
_key = re.compile(
    r"(?:AKIA|ASIA)[0-9A-Z]{16}\b|gh[pousr]_[A-Za-z0-9]{30,}|github_pat_\w{30,}|glpat-[\w-]{16,}"
    r"|hf_[A-Za-z0-9]{20,}|sk-(?:proj-|ant-)?[\w-]{20,}|xox[abprs]-[\w-]{10,}|npm_[A-Za-z0-9]{30,}"
    r"|pypi-[\w-]{20,}|AIza[\w-]{30,}|tskey-[\w-]{6,}|dop_v1_\w{20,}|[rs]k_live_\w{10,}|hvs\.\w{10,}"
    r"|\Apass:\S{3,}|-----BEGIN [A-Z ]*PRIVATE KEY|eyJ[\w-]{10,}\.eyJ[\w-]{6,}\."
).search
_in_address = re.compile(r"[a-z][a-z0-9+.-]*://[^/\s:@]*:([^/\s@]+)@", re.IGNORECASE).match
_header = re.compile(
    r"(?:proxy-)?authorization: *(?:bearer|token|basic) +(\S{8,})|(?:private-token|x-api-key"
    r"|api-key|x-auth-token|x-vault-token|x-gitlab-token): *(\S{8,})",
    re.IGNORECASE,
).match
_OPTIONS: Final = word_set("""
    --password --passwd --pass --token --api-key --apikey --api-token --secret --access-token
    --auth-token --authkey --auth-key --secret-key --access-key --registration-token
    --client-secret --http-password --ftp-password --proxy-password --db-password --admin-password
""")
# Short options for passwords, by program. The second part separates option and value: a space, or
# nothing if the value is attached.
_SHORT: Final = {
    **each(("-p", ""), "mysql mysqldump mysqladmin mariadb"),
    **each(("-a", " "), "redis-cli valkey-cli"),
    **each(("-p", " "), "mongosh mongo mongodump mongoexport cqlsh"),
    **each(("-p", " "), "docker podman helm skopeo buildah sqlcmd"),
    **each(("-w", " "), "ldapsearch ldapmodify ldapadd ldapdelete"),
    **each(("-p", ""), "sshpass"),
    **each(("-k", " "), "openssl"),
    **each(("-t", " "), "codecov twine circleci"),
}
_ASKING: Final = frozenset({"curl", "wget", "http", "https"})
_SHORTEST: Final = 6  # characters of the shortest key
_LONG: Final = 16  # characters of the shortest word whose form is checked
_LOGINS: Final = frozenset({"docker", "podman", "helm", "skopeo", "buildah"})
# Placeholders and usual test passwords.
_TRIVIAL: Final = frozenset(
    {
        *("", "postgres", "password", "pass", "test", "root", "admin", "secret", "guest", "user"),
        *("changeme", "dev", "example", "mysql", "redis", "mongo", "minio", "minioadmin", "dummy"),
        *("fake", "xxx", "foo", "bar", "none", "null", "true", "false", "stdin", "prompt", "local"),
    }
)


def clear_key(program: str, words: Sequence[Word]) -> bool:
    """Return True if the words of a program contain a key or a password in clear text."""
    named = program in _SHORT or program in _ASKING
    before = ""
    for word in words:
        text = word.text
        likely = named or len(text) >= _LONG or "=" in text or ":" in text
        if likely and _holds_key(program, text):
            return True
        likely = before[:1] == "-" and (named or before in _OPTIONS)
        if likely and _gives_key(program, words, before, text):
            return True
        before = text
    return False


def is_key(text: str) -> bool:
    """Return True if a text looks like the key of a known service."""
    return len(text) >= _LONG and HOLE not in text and _key(text) is not None


def _holds_key(program: str, text: str) -> bool:
    if len(text) < _SHORTEST:
        return False
    name, equals, value = text.partition("=")
    if equals and name in _OPTIONS:
        return _is_secret(value)
    if "@" in text and (address := _in_address(text)):
        return _is_secret(address[1])
    if ":" in text and (header := _header(text)):
        return _is_secret(header[1] or header[2])
    option, apart = _SHORT.get(program, ("", " "))
    if option and not apart and text.startswith(option) and text[1:2] != "-":
        return _is_secret(text[2:])
    return HOLE not in text and _key(text) is not None


def _gives_key(program: str, words: Sequence[Word], option: str, value: str) -> bool:
    if option in _OPTIONS:
        return _is_secret(value) and not value.startswith(("-", "/", "./", "~", "@"))
    if option in {"-u", "--user"} and program in _ASKING:
        password = value.partition(":")[2]
        far = any(_is_far(word.text) for word in words)
        return HOLE not in password and (_is_secret(password) or (far and bool(password)))
    short, apart = _SHORT.get(program, ("", ""))
    if not apart or option != short:
        return False
    return _is_secret(value) and (program not in _LOGINS or any(w.text == "login" for w in words))


def _is_far(text: str) -> bool:
    return "://" in text and not is_local(text)


def _is_secret(value: str) -> bool:
    return HOLE not in value and value.lower().strip("'\"") not in _TRIVIAL and value[:1] != "$"
