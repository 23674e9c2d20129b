"""Watchers of long computations that change their mind."""

from ggscope.errors import Cancelled


class CancelAfter:
    """Wants a result no more after `n` reports of progress."""

    def __init__(self, n: int) -> None:
        self.n = n
        self.reports: list[tuple[int, int]] = []

    def progress(self, done: int, total: int) -> None:
        """Note a report. Raises Cancelled after the n-th."""
        if len(self.reports) >= self.n:
            raise Cancelled
        self.reports.append((done, total))
