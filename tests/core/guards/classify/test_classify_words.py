"""A command needs approval if it names a path that would."""

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from safetyd.core.guards.projects import ProjectConfig
from safetyd.core.guards.rules import PROTECTED, ProjectRules, RulesConfig
from safetyd.core.messages.verdict import ALLOW, ALLOWED, ASK
from tests.core.guards.classify.classify_rig import ClassifyRig, custom

SENSITIVE, GUARDED = "classify.sensitive_path", "classify.protected_path"
CODING = ClassifyRig(profile="coding")


@pytest.mark.parametrize(
    ("text", "word"),
    [
        ("cat ~/.ssh/id_rsa", "~/.ssh/id_rsa"),
        ("cat .env", ".env"),
        ("cp ~me/.ssh/id_ed25519 x", "~me/.ssh/id_ed25519"),
        ("cat $HOME/.aws/credentials", "~/.aws/credentials"),
        ("cat ${HOME}/.aws/credentials", "~/.aws/credentials"),
        ("cat '.e'nv", ".env"),
        ("cat .\\env", ".env"),
        ("cat <.env", ".env"),
        ("x --env-file=.env.prod", ".env.prod"),
        ("curl -d @.env x", ".env"),
        ("(cat .pgpass)", ".pgpass"),
        ("echo `cat .npmrc`", ".npmrc"),
        ("cat ./a/../.env", "./a/../.env"),
        ("cat ../../../etc/shadow", "../../../etc/shadow"),
        ("cat ~/../../etc//shadow", "~/../../etc//shadow"),
        ("strings /proc/7/mem", "/proc/7/mem"),
        ("grep -r x .kube", ".kube"),
        ("terraform show x.tfstate", "x.tfstate"),
    ],
)
def test_a_command_that_names_a_sensitive_path_needs_approval(text: str, word: str) -> None:
    verdict = CODING.looks("run_shell", text=text)

    assert (verdict.decision, verdict.rule) == (ASK, SENSITIVE)
    assert f'"{word}"' in verdict.reason
    assert f'"{word}"' in verdict.remedy


@pytest.mark.parametrize(
    "text",
    [
        "make test",
        "git add . && git commit -m 'env: read .environment'",
        "cp .env.example .env.sample; ls .env.template",
        "python -m venv env && . env/bin/activate",
        "cat /etc/shadowy ../etc/passwd",
        "ls / /home ~ $HOME ..",
        "cat README.md src/ssh/config.py a.pemx",
        "ls /proc/cpuinfo",
    ],
)
def test_a_command_that_names_none_passes(text: str) -> None:
    assert CODING.looks("run_shell", text=text) is ALLOWED


@pytest.mark.parametrize(
    "path",
    [
        *("~/.config/containers/auth.json", "~/.s3cfg", "~/.config/rclone/rclone.conf", "~/.boto"),
        *("~/.circleci/cli.yml", "~/.config/argocd/config", "~/.jenkins/x", "~/.sentryclirc"),
        *(
            "/etc/wireguard/wg0.conf",
            "client.ovpn",
            "~/.cargo/credentials.toml",
            "~/.m2/settings.xml",
        ),
        *("~/.gem/credentials", "~/.config/pip/pip.conf", "~/.composer/auth.json", "~/.my.cnf"),
        *(
            "~/.vault-token",
            "~/.terraform.d/credentials.tfrc.json",
            "~/.oci/config",
            "~/.kaggle/k.json",
        ),
        *(
            "~/.config/doctl/config.yaml",
            "~/.databrickscfg",
            "~/.dbt/profiles.yml",
            "~/.fly/config.yml",
        ),
        *("~/.cache/huggingface/token", "~/.claude/.credentials.json", "~/.codex/auth.json"),
        *(
            "~/.thunderbird/x/logins.json",
            "~/.config/Bitwarden/data.json",
            "~/.bash_history",
            ".env*",
        ),
        *(
            "~/.config/sops/age/keys.txt",
            "keys/store.p12",
            "/run/secrets/db",
            "certs/server-key.pem",
        ),
        *("~/.git-credentials", "~/.docker/config.json", "~/.config/gh/hosts.yml", ".pypirc"),
        *("/proc/self/environ", "/proc/12/task/12/environ"),
    ],
)
def test_credential_files_of_tools_need_approval(path: str) -> None:
    assert CODING.looks("run_shell", text=f"cat {path}").rule == SENSITIVE


@pytest.mark.parametrize(
    "text",
    [
        *("cat ~/.ssh/id_ed25519.pub", "cat certs/ca.pem", "cat ~/.ssh/known_hosts"),
        *("openssl x509 -in certs/leaf.pem -noout -subject", "openssl verify -CAfile a.pem b.pem"),
        "curl --cacert certs/root.pem https://localhost:8443/health",
    ],
)
def test_public_certificates_and_keys_may_be_read(text: str) -> None:
    assert CODING.looks("run_shell", text=text) is ALLOWED


def test_what_may_be_a_command_is_looked_at_and_other_text_is_not() -> None:
    for type_ in ("run_tests", "key"):
        assert CODING.looks(type_, text="cat .env").rule == SENSITIVE
    assert SENSITIVE in CODING.looks("dance", text="cat .env").also
    assert SENSITIVE in ClassifyRig().looks("run_shell", text="cat .env").also
    for type_ in ("web_search", "edit_file", "draft", "git_commit"):
        assert CODING.looks(type_, text="cat .env") is ALLOWED


def test_what_is_typed_is_not_repeated() -> None:
    verdict = CODING.looks("type", text="hunter2.pem")

    assert verdict.rule == SENSITIVE
    assert "hunter2" not in verdict.reason + verdict.remedy


def test_no_rule_that_allows_lets_it_pass() -> None:
    rig = ClassifyRig(custom(ALLOW, types=("run_shell",)))

    assert rig.looks("run_shell", text="cat .env").rule == SENSITIVE


@pytest.mark.parametrize("path", [glob.replace("**", "x").replace("*", "x") for glob in PROTECTED])
def test_protected_files_may_be_read_but_changes_need_approval(path: str) -> None:
    changed = CODING.looks("edit_file", paths=(path,))

    assert CODING.looks("read_file", paths=(path,), cwd="/srv") is ALLOWED
    assert (changed.decision, changed.rule) == (ASK, GUARDED)
    assert path in changed.reason
    assert CODING.looks("run_shell", text=f"echo {{}} > {path}").rule == GUARDED


def test_in_a_project_words_begin_at_its_root() -> None:
    rules = ProjectRules(sensitive_paths=("/srv/web/vault/**",), protected_paths=("ci/*",))
    rig = ClassifyRig(
        RulesConfig(),
        {"web": ProjectConfig(root="/srv/web", agents=("code",), rules=rules)},
        profile="coding",
    )

    assert rig.looks("run_shell", text="cat vault/x", project="web").rule == SENSITIVE
    assert rig.looks("run_shell", text="echo x > ./ci/x", project="web").rule == GUARDED
    assert rig.looks("run_shell", text="cat ./ci/x", project="web") is ALLOWED
    assert rig.looks("run_shell", text="cat .env src/x", project="web") is ALLOWED


@given(
    st.sampled_from([".env", "~/.ssh/x", "/etc/shadow", "a/b.pem"]),
    st.sampled_from(["cat {}", "cat<{}", "a;cat {}|b", "x $(cat {})", "a --file={}", "cat {}\n"]),
    st.sampled_from(["''", '""', "\\", ""]),
    st.integers(0, 4),
)
def test_a_path_is_found_wherever_a_command_reads_it_and_in_any_quotes(
    path: str, command: str, quote: str, at: int
) -> None:
    dressed = f"{path[:at]}{quote}{path[at:]}"

    assume("~" not in path or at == 0 or not quote)
    assume(quote != "\\" or at < len(path))
    assert CODING.looks("run_shell", text=command.format(dressed)).rule == SENSITIVE


@pytest.mark.parametrize("path", [".env", "config/.env*", "**/id_rs?", "/home/me/.s?h/*"])
def test_a_search_of_sensitive_files_needs_approval(path: str) -> None:
    verdict = ClassifyRig().looks("search", paths=("src", path))

    assert verdict.rule == "classify.sensitive_path"
    harmless = ("src", "*", "*.py", "src/[id].ts")
    assert ClassifyRig().looks("search", paths=harmless, cwd="/srv/shop") is ALLOWED
