"""Why an exporter cannot export."""


class ExportProblem(Exception):
    """An exporter cannot export. The text says why and what to do, without secrets."""


class MissingEvents(ExportProblem):
    """The next events are in no audit file."""

    def __init__(self, first: int, last: int, where: str) -> None:
        which = f"event {first} is" if first == last else f"events {first} to {last} are"
        super().__init__(
            f"{which} not in the audit files of {where}: `safetyd outlet backfill --from DIR` "
            "exports them from another directory, `--without-missing` skips them"
        )
        self.first = first
        self.last = last
