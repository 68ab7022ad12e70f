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

    assert ending(stop("operator")) == "to end it, run `safetyd resume`"
    assert ending(stop("operator", agent="code")) == "to end it, run `safetyd resume --agent code`"
    assert ending(stop(f"file:{ours}")) == "to end it, run `safetyd resume`"
    assert ending(stop(f"file:{theirs}")).endswith("asks before it deletes the file")
    assert f"`rm -r {directory}`" in ending(stop(f"file:{directory}"))
    assert "not visible from here" in ending(stop(f"file:{tmp_path}/none"))
    assert "without that variable" in ending(stop("environment"))
