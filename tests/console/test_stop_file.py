from safetyd.console import stop_file
from tests.console.render.answers import Part, stop
from tests.filled import reading

told_of = reading(stop_file.told_of)


def ending(cause: Part) -> str:
    ((_, said),) = told_of([cause])
    return said


def test_what_ends_a_stop_depends_on_its_cause(tmp_path):
    ours, theirs, directory = (tmp_path / name for name in ("ours", "theirs", "directory"))
    ours.write_text("Stopped by: a\nTime: b\nReason: c\n")
    theirs.touch()
    directory.mkdir()

    assert ending(stop("operator")) == "`safetyd resume` ends it"
    assert ending(stop("operator", agent="code")) == "`safetyd resume --agent code` ends it"
    assert ending(stop(f"file:{ours}")) == "`safetyd resume` ends it"
    assert ending(stop(f"file:{theirs}")).startswith("`safetyd resume`, which shows it and asks")
    assert f"`rm -r {directory}` ends it" in ending(stop(f"file:{directory}"))
    assert "cannot be seen from here" in ending(stop(f"file:{tmp_path}/none"))
    assert "a start of the daemon without that variable" in ending(stop("environment"))
