"""SelectionModel: what is selected."""

from PySide6.QtCore import QObject, Signal

from ggscope.model.selection import Gap, Selection, SpanGroup


class SelectionModel(QObject):
    """What is selected, one kind of things at a time.

    Attributes
    ----------
    current : what is selected.

    Signals
    -------
    changed(Selection) : something else is selected.
    settled(Selection) : all receivers of `changed` have run, and none selected
        something else meanwhile.
    reveal_requested(int) : span id to show, by time and lane.
    """

    changed = Signal(object)
    settled = Signal(object)
    reveal_requested = Signal(object)

    def __init__(self, parent: QObject | None = None) -> None:
        super().__init__(parent)
        self.current = Selection()
        self._listed = Selection()

    @property
    def is_listed(self) -> bool:
        """Whether it was chosen in a list of the range listed; see `RangeModel`."""
        return bool(self.current) and self.current == self._listed

    def forget_listed(self) -> None:
        """Forget what was chosen in a list; the trace is another one."""
        self._listed = Selection()

    def select(self, selection: Selection, *, is_listed: bool = False) -> None:
        """Select exactly this.

        Parameters
        ----------
        is_listed : whether it was chosen in a list of the range listed.
        """
        if is_listed:
            self._listed = selection
        if selection == self.current:
            return
        self.current = selection
        self.changed.emit(selection)
        if selection == self.current:
            self.settled.emit(selection)

    def select_span(
        self,
        span: int,
        reveal: bool = True,
        add: bool = False,
        *,
        is_listed: bool = False,
    ) -> None:
        """Select a span.

        Parameters
        ----------
        reveal : also scroll time and lanes so that it can be seen.
        add : add it to the selected spans, or take it out where it is one.
        is_listed : as in `select`.
        """
        ids: tuple[int, ...] = (span,)
        if add and self.current.table == "spans":
            others = tuple(i for i in self.current.ids if i != span)
            ids = others if span in self.current.ids else (span, *others)
        chosen = Selection("spans", ids) if ids else Selection()
        self.select(chosen, is_listed=is_listed)
        if reveal and span in ids:
            self.reveal_requested.emit(span)

    def select_wait(self, span: int, reveal: bool = True) -> None:
        """Select the wait behind a span; `reveal` as of `select_span`."""
        self.select(Selection("waits", (span,)))
        if reveal:
            self.reveal_requested.emit(span)

    def select_gap(self, gap: Gap, reveal: bool = True) -> None:
        """Select idle time; `reveal` as of `select_span`."""
        self.select(Selection("gaps", (gap.before,), gap=gap))
        if reveal:
            self.reveal_requested.emit(gap.before)

    def select_tensor(self, row: int) -> None:
        """Select a row of ``Trace.tensors``."""
        self.select(Selection("tensors", (row,)))

    def select_buffer(self, row: int) -> None:
        """Select a row of ``Trace.buffers``."""
        self.select(Selection("buffers", (row,)))

    def select_group(self, group: SpanGroup) -> None:
        """Select a row of statistics: highlights its spans, for stepping through."""
        self.select(Selection("groups", (0,), group), is_listed=True)
