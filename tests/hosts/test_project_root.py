"""The project of a tool call."""

from pathlib import Path

from safetyd.hosts.project_root import project_root


def test_the_project_is_the_nearest_folder_with_a_repository(tmp_path: Path) -> None:
    inner = tmp_path / "app" / "vendor" / "lib"
    inner.mkdir(parents=True)
    (tmp_path / "app" / ".git").mkdir()
    assert project_root(str(inner)) == str(tmp_path / "app")
    (inner / ".git").write_text("gitdir: elsewhere")
    assert project_root(f"{inner}/src/..") == str(inner)
    assert project_root(str(inner / "missing")) == str(inner)


def test_a_folder_that_is_unknown_or_in_no_repository_has_no_project(tmp_path: Path) -> None:
    assert [project_root(cwd) for cwd in (str(tmp_path), "", "src", "/a\0b")] == ["", "", "", ""]
