"""Names of variables of the environment that hold secrets."""

from typing import Final

_SECRET_WORDS: Final = frozenset(
    {"SECRET", "SECRETS", "TOKEN", "PASSWORD", "PASSWD", "PASS", "PASSPHRASE", "CREDENTIAL"}
    | {"CREDENTIALS", "APIKEY", "PAT"}
)
_KEY_WORDS: Final = frozenset({"API", "ACCESS", "PRIVATE", "SIGNING", "ENCRYPTION", "SSH", "AUTH"})


def looks_secret(variable: str) -> bool:
    """Say whether a variable of the environment is named as secrets are."""
    words = set(variable.upper().split("_"))
    return bool(words & _SECRET_WORDS) or ("KEY" in words and bool(words & _KEY_WORDS))
