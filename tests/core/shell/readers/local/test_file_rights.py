"""Who may use files: in the project it is work, elsewhere it is asked about."""

import pytest

from tests.core.shell.verdicts import verdict


@pytest.mark.parametrize(
    "command",
    [
        "chmod +x run.sh",
        "chmod 755 bin/x",
        "chmod -x a",
        "chmod -R u+rwX src",
        "chmod --recursive 755 out",
        "chmod --reference=a b",
        "chmod 777 a",
        "chmod +x /tmp/x",
        "chmod",
        "chmod -v go-w a",
    ],
)
def test_changes_in_the_project_pass(command: str) -> None:
    assert verdict(command) == "pass"


@pytest.mark.parametrize(
    "command",
    [
        "chmod u+s a",
        "chmod =4755 a",
        "chmod +4000 a",
        "chmod 4755 a",
        "chmod g+s out",
        "chmod -R 777 .",
        "chmod -R a+w src",
        "chmod --recursive o+w src",
        "chmod 600 ~/.ssh/id_rsa",
        "chmod +x /usr/local/bin/x",
        "chmod $MODE a",
        "chmod +x $X",
        "chown u a",
        "chown -R u:g src",
        "chgrp staff /srv/x",
        "chown --reference=a b",
    ],
)
def test_what_opens_files_to_others_is_asked_about(command: str) -> None:
    assert verdict(command) == "ask"


@pytest.mark.parametrize(
    "command",
    [
        "chmod -R 777 /",
        "chmod -R 000 ~",
        "chown -R nobody /",
        "chown -R me /usr",
    ],
)
def test_harm_is_blocked(command: str) -> None:
    assert verdict(command) == "block"
