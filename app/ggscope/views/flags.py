"""Flags: what to pass to llama.cpp, by what was read, chosen or waited for."""

from functools import partial
from itertools import count
from pathlib import Path

from PySide6.QtCore import Qt
from PySide6.QtGui import QShowEvent
from PySide6.QtWidgets import (
    QDoubleSpinBox,
    QFrame,
    QHBoxLayout,
    QScrollArea,
    QStackedLayout,
    QVBoxLayout,
    QWidget,
)

from ggscope.analysis.flags import UNKNOWN_FLAGS, Flags, flags
from ggscope.analysis.workers import Watcher
from ggscope.descriptions.flags import NAMES, FlagText, flag_texts, reason_text
from ggscope.model.trace import Trace
from ggscope.model.units import format_count, format_counted
from ggscope.render.theme import Theme, css
from ggscope.session.session import Session, TraceChange
from ggscope.session.tasks import TaskFailure
from ggscope.views.base.cells import TableFile
from ggscope.views.base.copying import Copyable
from ggscope.views.base.output_file import OutputFile
from ggscope.views.base.safe_text import ElidedLabel, Label, copy_text, set_tip
from ggscope.views.base.view import View
from ggscope.views.base.widgets import (
    ControlRow,
    EmptyState,
    LinkButton,
    lay_out,
    mono_font,
    set_label_color,
    ui_font,
)

_GIB = 1 << 30
_MAX_GIB = 1 << 20
_TITLES = ("flag", "effect", "quality", "rests on")
_NUMBERS = count()
_PROFILE = "moe_cache_profile"
_MEMORY_TIP = (
    "Memory of the device for weights; KV cache and compute buffers need memory in "
    "addition. 0 = not given"
)


class FlagCard(QWidget):
    """One flag: ready to paste, what it does, and what it rests on; or why it has none.

    Attributes
    ----------
    argument : flag and value; the name of the flag where it has no value.
    copy_button : copies it; hidden where there is no value.
    save_button : asks for the file that the flag names; hidden where there is none.
    """

    def __init__(self, parent: QWidget) -> None:
        super().__init__(parent)
        self.argument = ElidedLabel(self)
        self.argument.setFont(mono_font(13, bold=True))
        self.copy_button = LinkButton("Copy", "Copy flag and value", self)
        self.copy_button.clicked.connect(self._copy)
        self.save_button = LinkButton(
            "Save profile…", "Save the file that the flag names", self
        )
        self._effect, self._rests_on = Label(parent=self), Label(parent=self)
        for text in (self._effect, self._rests_on):
            text.setFont(ui_font(12))
            text.setWordWrap(True)
        head = QHBoxLayout()
        buttons = self.save_button, self.copy_button
        lay_out(head, self.argument, *buttons, spacing=8, wide=self.argument)
        lay_out(QVBoxLayout(self), head, self._effect, self._rests_on, spacing=2)

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        set_label_color(self.argument, theme.text)
        set_label_color(self._effect, theme.text)
        set_label_color(self._rests_on, theme.dim)
        self.copy_button.set_theme(theme)
        self.save_button.set_theme(theme)

    def show_flag(self, flag: FlagText) -> None:
        """Show a flag with its value."""
        self.argument.setText(flag.argument)
        self._effect.setText(f"{flag.effect[:1].upper()}{flag.effect[1:]}.")
        self._rests_on.setText(f"{flag.quality.word}: {flag.rests_on}")
        self._effect.setVisible(True)
        self.copy_button.setVisible(True)
        self.save_button.setVisible(flag.key == _PROFILE)

    def show_reason(self, name: str, reason: str) -> None:
        """Show why a flag has no value."""
        self.argument.setText(name)
        self._effect.setVisible(False)
        self._rests_on.setText(f"No value: {reason}.")
        self.copy_button.setVisible(False)
        self.save_button.setVisible(False)

    def _copy(self) -> None:
        copy_text(self.argument.full_text)


class FlagsView(Copyable, View):
    """A card per flag; those that depend on the memory of a device ask for it.

    Attributes
    ----------
    result : what is shown; None while nothing is.
    cards : by the names of ``ggscope flags --json``.
    memory_box : GiB of the device; 0 = not given.
    profile : where the cache profile of this trace was saved; None = not yet.
    """

    def __init__(
        self, session: Session, theme: Theme, parent: QWidget | None = None
    ) -> None:
        super().__init__(session, theme, parent)
        self.result: Flags | None = None
        self.profile: Path | None = None
        self._of: tuple[Trace, int | None] | None = None
        self._task = f"flags-{next(_NUMBERS)}"
        self.setAccessibleName("Flags")
        self.controls = ControlRow(self)
        self.memory_box = QDoubleSpinBox(self)
        self.memory_box.setRange(0, _MAX_GIB)
        self.memory_box.setDecimals(3)
        self.memory_box.setSuffix(" GiB")
        self.memory_box.setSpecialValueText("not given")
        self.memory_box.setKeyboardTracking(False)
        self.memory_box.setAccessibleName("Memory of the device")
        set_tip(self.memory_box, _MEMORY_TIP)
        self.memory_box.valueChanged.connect(self._recompute)
        self.controls.add_widget(self.memory_box, "device memory for weights")
        self._empty = EmptyState(self)
        content = QWidget(self)
        content.setObjectName("flags_content")
        self.cards = {name: FlagCard(content) for name in UNKNOWN_FLAGS}
        self.cards[_PROFILE].save_button.clicked.connect(self.save_profile)
        self._box = QVBoxLayout(content)
        lay_out(
            self._box, *self.cards.values(), None,
            margins=(12, 8, 12, 12), spacing=14,
        )  # fmt: skip
        scroll = QScrollArea(self)
        scroll.setWidgetResizable(True)
        scroll.setFrameShape(QFrame.Shape.NoFrame)
        scroll.setHorizontalScrollBarPolicy(Qt.ScrollBarPolicy.ScrollBarAlwaysOff)
        scroll.setWidget(content)
        body = QWidget(self)
        self._stack = QStackedLayout(body)
        self._stack.addWidget(self._empty)
        self._stack.addWidget(scroll)
        lay_out(QVBoxLayout(self), self.controls, body, wide=body)
        self.set_theme(theme)
        self.connect_until_release((session.trace_changed, self._on_trace_changed))
        self._recompute()

    def set_theme(self, theme: Theme) -> None:
        """Use the colours of `theme`."""
        super().set_theme(theme)
        self.controls.set_theme(theme)
        self._empty.set_theme(theme)
        for card in self.cards.values():
            card.set_theme(theme)
        self.setStyleSheet(
            f"QScrollArea, #flags_content {{ background: {css(theme.pane)}; }}"
            " QLabel { background: transparent; }"
        )

    def release(self) -> None:
        """Stop computing."""
        super().release()
        self.session.tasks.cancel(self._task)

    def showEvent(self, event: QShowEvent) -> None:
        """Compute what was not computed while the pane was hidden."""
        super().showEvent(event)
        self._recompute()

    @property
    def limit(self) -> int | None:
        """Bytes of weights that the device takes; None = not given."""
        return round(self.memory_box.value() * _GIB) or None

    # -- computing ---------------------------------------------------------

    def _on_trace_changed(self, _: TraceChange) -> None:
        # Also in a hidden pane, which else would keep the trace.
        self._of = self.result = self.profile = None
        self._recompute()

    def _recompute(self, _: object = None) -> None:
        """Compute the flags of the trace, once the pane is seen."""
        trace = self.session.trace
        if trace is None or trace.is_partial or trace.awaits_files or trace.is_running:
            self.session.tasks.cancel(self._task)
            self._of = self.result = None
            reason = "No trace is open."
            if trace is not None:
                is_live = trace.is_running
                reason = "Still recording…" if is_live else "Still reading…"
            self._empty.say(reason)
            self._stack.setCurrentIndex(0)
            return
        of = self._of
        if not self.isVisible() or (of and of[0] is trace and of[1] == self.limit):
            return
        self._of = trace, self.limit
        if self.result is None:
            self._empty.say("Computing flags…")
            self._stack.setCurrentIndex(0)
        self.session.tasks.run(
            self._task,
            partial(_flags_of, trace, self.limit),
            self._show,
            title="Computing flags",
            on_error=self._on_failed,
            on_cancel=self._on_cancelled,
        )

    def _on_failed(self, failure: TaskFailure) -> None:
        self._of = None
        self.session.problem_reported.emit(failure.message)

    def _on_cancelled(self) -> None:
        self._of = None

    def _show(self, result: Flags) -> None:
        self.result = result
        texts = {text.key: text for text in self._texts()}
        # Those with a value come first: a low pane shows few.
        order = sorted(self.cards, key=lambda name: name not in texts)
        for place, name in enumerate(order):
            card = self.cards[name]
            self._box.insertWidget(place, card)
            if name in texts:
                card.show_flag(texts[name])
            else:
                reason = reason_text(result.unknown[name], in_window=True)
                card.show_reason(NAMES[name], reason)
        self._stack.setCurrentIndex(1)

    def _texts(self) -> list[FlagText]:
        """Return the flags with a value, as they can be pasted."""
        if self.result is None:
            return []
        if self.profile is None:
            return flag_texts(self.result)
        return flag_texts(self.result, str(self.profile))

    # -- saving and copying -----------------------------------------------------------

    def save_profile(self) -> None:
        """Ask for a file and write the cache profile to it."""
        profile = None if self.result is None else self.result.profile
        if profile is None or self._of is None:
            return
        n_prompt = int((profile.position < 0).sum())
        what = format_counted(len(profile.expert) - n_prompt, "choice")
        if n_prompt:
            what += f" and {format_count(n_prompt)} of prompt tokens"
        self.file_requested.emit(
            OutputFile(
                title="Save cache profile",
                suffix=".experts.csv",
                kind="Cache profile",
                lines=profile.lines,
                what=what,
                on_saved=partial(self._on_saved, self._of[0]),
            )
        )

    def _on_saved(self, trace: Trace, path: Path) -> None:
        """Name the file in the flag."""
        if self.is_released or self.session.trace is not trace or self.result is None:
            return
        self.profile = path
        self._show(self.result)

    def rows(self) -> list[tuple[str, str, str, str]]:
        """Return flag, effect, quality and what it rests on, of those with a value."""
        return [
            (text.argument, text.effect, text.quality.word, text.rests_on)
            for text in self._texts()
        ]

    def table_file(self) -> TableFile | None:
        """Return the flags for a file; None without any."""
        return TableFile.of("flags", _TITLES, self.rows())


def _flags_of(trace: Trace, limit: int | None, watcher: Watcher) -> Flags:
    watcher.progress(0, 1)
    return flags(trace, limit)
