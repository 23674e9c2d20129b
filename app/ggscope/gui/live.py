"""What a tab shows of a program that runs: a strip of figures, and what to do first."""

from PySide6.QtCore import Qt, Signal
from PySide6.QtWidgets import QFrame, QHBoxLayout, QPushButton, QVBoxLayout, QWidget

from ggscope.gui.widgets import button, label, set_property
from ggscope.model.units import format_count, format_duration, format_share
from ggscope.session.live import Follower, Meters, Phase
from ggscope.text import one_line
from ggscope.views.base.plain import ElidedLabel, copy_text, set_tip

UNKNOWN = "N/A"
_RUN = "ggscope-capture run -- llama-completion -m model.gguf -p Hello"
_PAGE_WIDTH = 720


class LiveStrip(QFrame):
    """State and figures of the program, and what the view does with them."""

    save_requested = Signal()

    def __init__(self, follower: Follower, parent: QWidget | None = None) -> None:
        super().__init__(parent)
        self.setObjectName("live")
        self.setAccessibleName(self.tr("Live view"))
        self._follower = follower
        self.state = label("", self)
        self.state.setProperty("role", "liveState")
        self.figures = ElidedLabel(self, mode=Qt.TextElideMode.ElideRight)
        self.figures.setProperty("mono", True)
        set_tip(
            self.figures,
            self.tr(
                "Tokens, prompt and generated (of a file: generated), and records of "
                "the last second; how full the fullest lane of the ring was, or how "
                "much of a file made beforehand is used; the greatest time from "
                "writing to reading (≥ where the stamps are of no clock of this "
                "machine); records that were lost. N/A = not known."
            ),
        )
        self.follow = button(
            self.tr("Follow"),
            lambda: follower.set_follows(not follower.follows),
            self,
            tip=self.tr("Let the view move with now, or stand (L)"),
        )
        self.pause = button(
            self.tr("Pause"),
            lambda: follower.set_paused(not follower.is_paused),
            self,
            tip=self.tr("Let the picture stand still; reading goes on (Shift+L)"),
        )
        self.now = button(
            self.tr("Now"), follower.jump, self, tip=self.tr("Jump to now (End)")
        )
        self.stop = button(
            self.tr("Stop"),
            follower.finish,
            self,
            tip=self.tr("Stop listening and keep what was heard; the program runs on"),
        )
        self.save = button(
            self.tr("Save…"),
            self.save_requested.emit,
            self,
            tip=self.tr("Save what was recorded so far; what runs goes on (Ctrl+S)"),
        )
        for switch in (self.follow, self.pause):
            switch.setCheckable(True)
        row = QHBoxLayout(self)
        row.setContentsMargins(12, 2, 12, 2)
        row.setSpacing(8)
        row.addWidget(self.state)
        row.addWidget(self.figures, 1)
        for part in (*self._buttons(), self.save):
            row.addWidget(part)
        follower.changed.connect(self._show)
        self._show()

    def _buttons(self) -> tuple[QPushButton, ...]:
        return (self.follow, self.pause, self.now, self.stop)

    def _show(self) -> None:
        follower, meters = self._follower, self._follower.meters
        phase = meters.phase.value
        if follower.is_paused and meters.phase is Phase.LIVE:
            phase = self.tr("paused")
        self.state.setText(f"● {phase}")
        set_property(self.state, "level", _level(follower))
        text = figures_text(meters)
        if follower.is_paused and (n := follower.n_unseen) > 0:
            text += self.tr(" · {0} records wait to be shown").format(format_count(n))
        self.figures.setText(text)
        self.figures.setAccessibleName(text)
        set_tip(self.figures, "\n".join(meters.heard.run_words()))
        for part in self._buttons():
            part.setEnabled(follower.is_on)
        self.save.setEnabled(follower.kept.place is not None)
        self.follow.setChecked(follower.follows and follower.is_on)
        self.pause.setChecked(follower.is_paused)


def _level(follower: Follower) -> str:
    phase = follower.meters.phase
    if phase in (Phase.KILLED, Phase.FULL, Phase.FAILED):
        return "error"
    if phase is Phase.NO_WRITER:
        return "error"
    if phase is Phase.LIVE:
        return "caution" if follower.is_paused else "good"
    return ""


def figures_text(meters: Meters) -> str:
    """Return the figures in one line; what is not known stands as such."""
    heard = meters.heard
    if meters.phase is Phase.WAITING:
        return one_line(heard.words)
    records = f"{format_count(heard.records)} records"
    lost = UNKNOWN if heard.lost < 0 else format_count(heard.lost)
    if meters.phase.is_over:
        return _joined(records, f"lost {lost}", one_line(heard.words))
    lag = UNKNOWN if meters.lag_ns < 0 else format_duration(meters.lag_ns, "ns")
    if meters.is_least_lag and meters.lag_ns >= 0:
        lag = f"≥ {lag}"
    fill = UNKNOWN if heard.fill < 0 else format_share(heard.fill)
    return _joined(
        f"{_rate(meters.tokens_per_s)} tokens/s",
        f"{_rate(meters.records_per_s)} records/s",
        records,
        f"buffer {fill} full",
        f"lag {lag}",
        f"lost {lost}",
        one_line(heard.words),
    )


def _rate(rate: float) -> str:
    if rate < 0:
        return UNKNOWN
    return f"{rate:.1f}" if rate < 100 else format_count(round(rate))


def _joined(*parts: str) -> str:
    return " · ".join(part for part in parts if part)


class WaitingPage(QWidget):
    """What is waited for, and the commands that would make it."""

    close_requested = Signal()

    def __init__(
        self, follower: Follower, started: str = "", parent: QWidget | None = None
    ) -> None:
        """Make the page; `started` = what the window itself has started."""
        super().__init__(parent)
        self._follower, self._started = follower, started
        self.head = label("", self, "large", wraps=True)
        self.words = label("", self, wraps=True)
        self.words.setTextInteractionFlags(Qt.TextInteractionFlag.TextSelectableByMouse)
        command = command_for(follower.wanted)
        hint = self.tr("This command in a terminal makes it:")
        if not command:
            hint = self.tr(
                "It appears here as soon as the traced program makes it. Programs "
                "that ggscope-capture starts make rings of their own: follow any ring "
                "for these."
            )
        if started:
            hint = self.tr("Its spans appear here as soon as it computes.")
        self.hint = label(hint, self, "dim", wraps=True)
        self.command = ElidedLabel(self, mode=Qt.TextElideMode.ElideMiddle)
        self.command.setProperty("mono", True)
        self.command.setText(command)
        self.copy = button(
            self.tr("Copy command"),
            lambda: copy_text(command),
            self,
            primary=True,
        )
        self.again = button(self.tr("Follow again"), follower.start, self)
        self.close_button = button(
            self.tr("Close tab"), self.close_requested.emit, self
        )
        self.copy.setVisible(bool(command))
        self.setFocusProxy(self.copy if command else self.close_button)
        row = QHBoxLayout()
        row.setSpacing(8)
        for part in (self.copy, self.again, self.close_button):
            row.addWidget(part)
        row.addStretch(1)
        inner = QVBoxLayout()
        inner.setSpacing(10)
        inner.addStretch(2)
        for text in (self.head, self.words, self.hint, self.command):
            inner.addWidget(text)
        inner.addLayout(row)
        inner.addStretch(3)
        box = QHBoxLayout(self)
        middle = QWidget(self)
        middle.setMaximumWidth(_PAGE_WIDTH)
        middle.setLayout(inner)
        box.addStretch(1)
        box.addWidget(middle, 8)
        box.addStretch(1)
        follower.changed.connect(self._show)
        self._show()

    def _show(self) -> None:
        meters = self._follower.meters
        heads = {
            Phase.WAITING: self.tr("Waiting for a program"),
            Phase.LIVE: self.tr("The program has computed nothing yet"),
            Phase.FAILED: self.tr("This cannot be followed"),
            # Whether something is recorded after it is not known.
            Phase.STOPPED: self.tr("Stopped before anything came"),
        }
        self.head.setText(heads.get(meters.phase, self.tr("Nothing was recorded")))
        words = sentence(meters.heard.words)
        if self._started and meters.phase is Phase.WAITING:
            words = self.tr("{0} has been started.").format(self._started)
        self.words.setText(words)
        is_over, is_waiting = meters.phase.is_over, meters.phase is Phase.WAITING
        if self._started:
            self.hint.setVisible(not is_over)
        else:  # what makes the ring is of use where it is not there
            has_command = bool(self.command.full_text)
            self.hint.setVisible(is_waiting or (is_over and has_command))
        self.again.setVisible(meters.phase.is_over and not self._started)


def sentence(words: str) -> str:
    """Return words of a source as a sentence."""
    return f"{words[:1].upper()}{words[1:].rstrip('.')}." if words else ""


def command_for(wanted: str | None) -> str:
    """Return the command that makes what is waited for; "" = none can be named."""
    if wanted is None:
        return _RUN
    if wanted.endswith(".ggmlviz"):
        return _RUN.replace(" -- ", f" --ggmlviz '{one_line(wanted)}' -- ")
    if wanted.endswith(".bin"):
        return _RUN.replace(" -- ", f" -o '{one_line(wanted)}' -- ")
    return ""
