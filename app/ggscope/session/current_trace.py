"""CurrentTrace: the trace that is open now, and what is derived of it."""

from ggscope.analysis.rows.index import TraceIndex
from ggscope.model.trace import Trace
from ggscope.session.deferred_release import free_in_steps
from ggscope.session.tokens import NO_TOKENS, TokenTimes, token_times


class CurrentTrace:
    """The trace of a session, its index and its tokens, made when first asked for.

    Attributes
    ----------
    trace : None before it is read and after `close`.
    appended_from : the first span that the trace before this one did not have; 0 where
        none were appended.
    """

    def __init__(self) -> None:
        self.trace: Trace | None = None
        self.appended_from = 0
        self._index: TraceIndex | None = None
        self._earlier: TraceIndex | None = None
        self._tokens: TokenTimes | None = None

    @property
    def index(self) -> TraceIndex | None:
        """What is derived from the trace; None where there is none."""
        if self._index is None and self.trace is not None:
            self._index = TraceIndex(
                self.trace, self._earlier, is_appended=self.appended_from > 0
            )
            self._earlier = None
        return self._index

    @property
    def tokens(self) -> TokenTimes:
        """The tokens of the trace in time order."""
        if self.trace is None:
            return NO_TOKENS
        if self._tokens is None:
            self._tokens = token_times(self.trace)
        return self._tokens

    def replace(self, trace: Trace, *, is_appended: bool, keeps_rows: bool) -> None:
        """Take another trace.

        Parameters
        ----------
        is_appended : it has the spans of the present one, and perhaps more behind them.
        keeps_rows : it has the very spans of the present one; names may have come.
        """
        old = self.trace
        self.appended_from = len(old.spans) if old is not None and is_appended else 0
        if is_appended:  # its columns go on in the next snapshot
            self._earlier = self._index or self._earlier
        else:
            if old is not None:
                free_in_steps(old, self._index)
            # Names and accesses change nothing of the rows and most of the colours.
            self._earlier = self._index if keeps_rows else None
        self.trace, self._index, self._tokens = trace, None, None

    def close(self) -> None:
        """Let go of the trace, in steps."""
        if self.trace is not None:
            free_in_steps(self.trace, self._index)
        self.trace = self._index = self._earlier = self._tokens = None
