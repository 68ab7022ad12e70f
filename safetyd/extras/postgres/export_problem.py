"""Why an outlet takes nothing."""


class ExportProblem(Exception):
    """What is wrong and what to do, in one sentence without secrets."""


class MissingEvents(ExportProblem):
    """Events that come next are in no audit file."""

    def __init__(self, first: int, last: int, where: str) -> None:
        which = f"event {first} is" if first == last else f"events {first} to {last} are"
        super().__init__(
            f"{which} not in the audit files of {where}: `safetyd outlet backfill --from DIR` "
            "loads them from where they are now, `--without-missing` goes on without them"
        )
        self.first = first
        self.last = last
