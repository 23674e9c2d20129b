"""Walk through the window at random, by real keys and mouse, and watch the program.

    make walk [MINUTES=30] [SEED=1] [ARGS="--session npu"]

Starts the program as a person does, on one session after the other, and does what the
seed says: keys of the key table, typing, clicks, drags, wheel, menus, dialogs, sizes.
Every so many steps it goes home (everything closed, nothing running) and notes memory,
threads and descriptors, then opens the session again by keyboard. Ends with 1 where the
program died, wrote to stderr, froze or did not come back to what it had held before.
"""

import argparse
import ctypes
import ctypes.util
import json
import os
import random
import re
import shutil
import signal
import statistics
import subprocess
import sys
import tempfile
import time
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
SESSIONS = ("experiment", "npu", "million")
REPORT_STATE = ROOT / "packaging" / "report_state.py"
STEPS_PER_ROUND = 300
WARM_ROUNDS = 2
"""Rounds before figures count: modules are imported, caches fill once."""
MAX_GROWTH = 1.10
MAX_GROWTH_BYTES = 48 << 20
LINE_LENGTH = 6_000
"""Of a line on stderr so much is reported: a whole traceback, which is one line."""
FREEZE_S = 5.0
"""A main thread that computes for so long without waiting for events is frozen."""
TRAIL = 200
"""So many of the last keys, moves and clicks are stated where something went wrong."""
STATE_TIMEOUT_S = 30.0
"""So long the program may take to say what it is at."""
MAX_HOMELESS = 0.1
"""Of the rounds so many may end with windows open. On a machine with far more to do
than cores about one in eighty does, why is not known; each is stated."""
CLIPBOARD_S = 1.0
"""So long somebody else owns the clipboard at the end of a round."""
NOT_PRESSED = {"file.quit"}
TEXTS = ("mul", "/attn.*/", "blk.0", "layer=0-3", "dur>1us", "op=MUL_MAT", "((", "1:30")
_OURS = "ggscope$"
"""How the titles of all windows of the program end."""
FIRST_LOOKS = ("reset layout", "like the system", "whichever is faster")
"""Commands after which windows look alike; the rest is in dialogs, seldom met."""
HOME_SIZE = (1280, 800)
"""Of the window where figures are taken: what it shows is kept as pictures."""
MET_ONCE = ("opengl",)
"""Commands that load for good what no later one frees: 50 MiB of PyOpenGL and the
driver's compiler, and three threads of Mesa's shader cache."""
_KEYSYMS = {
    "Esc": "Escape", "PgDown": "Next", "PgUp": "Prior", ",": "comma", ".": "period",
    "[": "bracketleft", "]": "bracketright", "/": "slash", "?": "question",
    "=": "equal", "-": "minus", "+": "plus", "Enter": "KP_Enter", "Space": "space",
    ":": "colon", "(": "parenleft", ">": "greater", "*": "asterisk", "_": "underscore",
    "Ctrl": "Control_L", "Shift": "Shift_L", "Alt": "Alt_L", " ": "space",
}  # fmt: skip


_PRESS = """<mousebind button="{0}" action="Press">
<action name="Focus"/><action name="Raise"/></mousebind>"""
_CLICK = '<mousebind button="Left" action="Click"><action name="{0}"/></mousebind>'
_CONTEXTS = {
    "Client": "".join(map(_PRESS.format, ("Left", "Middle", "Right"))),
    "Titlebar": _PRESS.format("Left") + """<mousebind button="Left" action="Drag">
<action name="Move"/></mousebind><mousebind button="Left" action="DoubleClick">
<action name="ToggleMaximize"/></mousebind>""",
    "Close": _CLICK.format("Close"),
    "Maximize": _CLICK.format("ToggleMaximize"),
    "Iconify": _CLICK.format("Iconify"),
}  # fmt: skip
_OPENBOX = (
    '<?xml version="1.0" encoding="UTF-8"?>'
    '<openbox_config xmlns="http://openbox.org/3.4/rc">'
    "<focus><focusNew>yes</focusNew></focus>"
    "<desktops><number>1</number></desktops><keyboard></keyboard><mouse>"
    + "".join(f'<context name="{k}">{v}</context>' for k, v in _CONTEXTS.items())
    + "</mouse><menu></menu></openbox_config>"
)
"""Of the window manager only what a frame needs; see `start_window_manager`."""


class Display:
    """An X display to which keys and mouse go as if somebody moved them."""

    def __init__(self) -> None:
        self._x = ctypes.CDLL(ctypes.util.find_library("X11") or "libX11.so.6")
        self._test = ctypes.CDLL(ctypes.util.find_library("Xtst") or "libXtst.so.6")
        self._x.XOpenDisplay.restype = ctypes.c_void_p
        self._x.XStringToKeysym.restype = ctypes.c_ulong
        self._x.XKeycodeToKeysym.restype = ctypes.c_ulong
        self._x.XCreateSimpleWindow.restype = ctypes.c_ulong
        self._x.XCreateSimpleWindow.argtypes = [
            ctypes.c_void_p, ctypes.c_ulong, ctypes.c_int, ctypes.c_int, ctypes.c_uint,
            ctypes.c_uint, ctypes.c_uint, ctypes.c_ulong, ctypes.c_ulong,
        ]  # fmt: skip
        self._x.XDefaultRootWindow.restype = ctypes.c_ulong
        self._x.XDefaultRootWindow.argtypes = [ctypes.c_void_p]
        self._x.XInternAtom.restype = ctypes.c_ulong
        self._on = ctypes.c_void_p(self._x.XOpenDisplay(None))
        if not self._on:
            raise SystemExit("There is no X display; `make walk` starts one.")
        root = self._x.XDefaultRootWindow(self._on)
        self._owner = self._x.XCreateSimpleWindow(self._on, root, 0, 0, 1, 1, 0, 0, 0)
        self.n_events = 0
        self.trail: deque[str] = deque(maxlen=TRAIL)

    def close(self) -> None:
        self._x.XCloseDisplay(self._on)

    def press(self, keys: str) -> None:
        """Press keys in Qt's words, such as Ctrl+Shift+P."""
        self.trail.append(keys)
        parts = [p or "+" for p in re.split(r"(?<=.)\+", keys)]
        codes = []
        for part in parts:
            code, is_shifted = self._key(part)
            codes += [self._key("Shift")[0], code] if is_shifted else [code]
        for is_down in (1, 0):
            for code in codes if is_down else reversed(codes):
                self._test.XTestFakeKeyEvent(self._on, code, is_down, 0)
                self.n_events += 1
        self._x.XFlush(self._on)

    def take_clipboard(self) -> None:
        """Own the clipboard, as any program does in which somebody copies something.

        Whoever owned it, also the selection that the middle button pastes, is stated,
        and need not keep what was copied any longer. For that the new owner has to be
        there a while: Qt keeps what it has where the clipboard is nobody's. Then it is
        nobody's: who pasted from an owner that says nothing would wait for 5 s.
        """
        window = ctypes.c_ulong(self._owner)
        for owner in (window, ctypes.c_ulong(0)):
            for name in (b"CLIPBOARD", b"PRIMARY"):
                atom = ctypes.c_ulong(self._x.XInternAtom(self._on, name, 0))
                self._x.XSetSelectionOwner(self._on, atom, owner, ctypes.c_ulong(0))
            self._x.XFlush(self._on)
            time.sleep(CLIPBOARD_S)

    def type(self, text: str) -> None:
        for letter in text:
            self.press(letter if letter != "+" else "plus")
            time.sleep(0.004)

    def move(self, x: int, y: int) -> None:
        self._test.XTestFakeMotionEvent(self._on, -1, x, y, 0)
        self._x.XFlush(self._on)
        self.trail.append(f"to {x},{y}")
        self.n_events += 1

    def button(self, number: int, is_down: bool) -> None:
        self.trail.append(f"button {number} {'down' if is_down else 'up'}")
        self._test.XTestFakeButtonEvent(self._on, number, int(is_down), 0)
        self._x.XFlush(self._on)
        self.n_events += 1

    @contextmanager
    def held(self, key: str) -> Iterator[None]:
        code = self._key(key)[0] if key else 0
        if code:
            self._test.XTestFakeKeyEvent(self._on, code, 1, 0)
        yield
        if code:
            self._test.XTestFakeKeyEvent(self._on, code, 0, 0)
            self._x.XFlush(self._on)

    def _key(self, name: str) -> tuple[int, bool]:
        """Return the code of a key, and whether Shift is needed for its sign."""
        word = _KEYSYMS.get(name, name)
        symbol = self._x.XStringToKeysym(word.encode())
        if not symbol and len(word) == 1:
            symbol = ord(word)
        code = self._x.XKeysymToKeycode(self._on, ctypes.c_ulong(symbol))
        plain = self._x.XKeycodeToKeysym(self._on, ctypes.c_ubyte(code), 0)
        is_letter = len(word) == 1 and word.isalpha()
        return code, plain != symbol and not is_letter


@dataclass
class Figures:
    """What the program holds while nothing is open.

    `held` leaves out libraries, of which more and more has once been touched; `private`
    is what no file holds: what a leak makes grow. Pages of files are left out of that,
    since they count as a process's own as soon as the last other one that maps them has
    ended.
    """

    step: int
    held: int
    private: int
    threads: int
    descriptors: int


@dataclass
class Report:
    """What became of one walk."""

    session: str
    seed: int
    seconds: float = 0.0
    steps: int = 0
    events: int = 0
    opened: int = 0
    quits: int = 0
    rounds: int = 0
    came_home: int = 0
    """Rounds at whose end all could be closed by keyboard; not so: `homeless`."""
    most_copied: int = 0
    """Bytes that the program no longer held when somebody else copied something."""
    homeless: list[int] = field(default_factory=list)
    """The steps after which it could not."""
    slowest_answer_s: float = 0.0
    rests: list[Figures] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """Add what is not flat to the faults."""
        counted = self.rests[WARM_ROUNDS:]
        if self.stderr:
            self.faults.append(f"{len(self.stderr)} lines on stderr")
        if len(self.homeless) > MAX_HOMELESS * self.rounds:
            steps = ", ".join(map(str, self.homeless))
            self.faults.append(f"did not come home by keyboard after steps {steps}")
        if len(counted) < 4:
            return
        quarter = max(2, len(counted) // 4)
        for name in ("held", "private", "threads", "descriptors"):
            values = [getattr(rest, name) for rest in counted]
            first = statistics.median(values[:quarter])
            last = statistics.median(values[-quarter:])
            allowed = (
                max(first * MAX_GROWTH, first + MAX_GROWTH_BYTES)
                if name in ("held", "private")
                else first + 3
            )
            if last > allowed:
                self.faults.append(f"{name} grew from {first:,.0f} to {last:,.0f}")

    def text(self) -> str:
        rows = self.rests[WARM_ROUNDS:] or self.rests
        lines = [
            f"{self.session}, seed {self.seed}: {self.seconds:.0f} s, {self.steps:,} "
            f"steps, {self.events:,} events, opened {self.opened} times, slowest "
            f"answer {self.slowest_answer_s:.1f} s"
        ]
        lines.append(
            f"  {self.came_home} of {self.rounds} rounds came home, quit {self.quits}, "
            f"up to {self.most_copied >> 20} MiB were only on the clipboard"
        )
        if self.homeless:
            lines.append(f"  not after steps {', '.join(map(str, self.homeless))}")
        if rows:
            a, b = rows[0], rows[-1]
            lines.append(
                f"  at rest, first and last: {a.held >> 20} and {b.held >> 20} MiB, of "
                f"which private {a.private >> 20} and {b.private >> 20} MiB, "
                f"{a.threads} and {b.threads} threads, {a.descriptors} and "
                f"{b.descriptors} descriptors"
            )
        lines += [f"  FAULT: {fault}" for fault in self.faults]
        lines += [f"  stderr: {line}" for line in self.stderr[:20]]
        return "\n".join(lines)


class Program:
    """The program as a process, with folders of its own."""

    def __init__(self, home: Path, files: list[Path]) -> None:
        self.home = home
        self.errors = home / "stderr.txt"
        self.state_file = home / "state.txt"
        self._files = files
        self.process = self._start()

    def _start(self) -> psutil.Popen:
        folders = {
            f"XDG_{kind}_HOME": str(self.home / kind.lower())
            for kind in ("CONFIG", "DATA", "CACHE", "STATE")
        }
        environment = {
            **os.environ, **folders, "HOME": str(self.home),
            "QT_QPA_PLATFORM": "xcb", "LIBGL_ALWAYS_SOFTWARE": "1",
            "XDG_RUNTIME_DIR": str(self.home), "QT_LOGGING_RULES": "qt.qpa.*=false",
            "QT_ACCESSIBILITY": "0", "GGSCOPE_INSTANCE": "off",
            "PATH": f"{self._no_other_programs()}{os.pathsep}{os.environ['PATH']}",
        }  # fmt: skip
        self.home.chmod(0o700)
        with self.errors.open("ab") as out:
            return psutil.Popen(
                [sys.executable, "-X", "faulthandler", str(REPORT_STATE),
                 str(self.state_file), *map(str, self._files)],
                stdout=out, stderr=out, env=environment, cwd=self.home,
            )  # fmt: skip

    def _no_other_programs(self) -> Path:
        """Return a folder with an ``xdg-open`` that opens nothing.

        Folders are opened at random too, which would start a file manager each time.
        """
        folder = self.home / "bin"
        folder.mkdir(exist_ok=True)
        script = folder / "xdg-open"
        script.write_text("#!/bin/sh\n", "utf-8")
        script.chmod(0o755)
        return folder

    def restart(self) -> None:
        self.process = self._start()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def figures(self, step: int) -> Figures:
        return Figures(
            step,
            *_held(self.process),
            self.process.num_threads(),
            self.process.num_fds(),
        )

    def state(self) -> str:
        """Return what the program says that it is at, its windows and threads."""
        self.state_file.write_text("", "utf-8")
        task = Path(f"/proc/{self.process.pid}")
        waits = [(task / name).read_text().strip() for name in ("wchan", "syscall")]
        begun = time.monotonic()
        self.process.send_signal(signal.SIGUSR1)
        report = ""
        end = begun + STATE_TIMEOUT_S
        while time.monotonic() < end and "focus window:" not in report:
            time.sleep(0.1)
            report = self.state_file.read_text("utf-8", "replace")
        took = time.monotonic() - begun
        return f"main thread waits in {waits}, answered after {took:.1f} s\n{report}"

    def stop(self) -> None:
        if self.is_running:
            self.process.terminate()
            try:
                self.process.wait(10)
            except psutil.TimeoutExpired:
                self.process.kill()


def _held(process: psutil.Popen) -> tuple[int, int]:
    """Return the bytes that a process has in memory but for libraries: of them all,
    and of those that no file holds."""
    held = private = 0
    is_library = False
    for line in Path(f"/proc/{process.pid}/smaps").read_text("utf-8").splitlines():
        name, *rest = line.split()
        if not name.endswith(":"):
            is_library = len(rest) > 4 and ".so" in rest[4]
        elif name == "Anonymous:":
            private += int(rest[0]) << 10
        elif name == "Rss:" and not is_library:
            held += int(rest[0]) << 10
    return held, private


class Walker:
    """Does one random thing at a time."""

    def __init__(
        self,
        program: Program,
        session: Path,
        display: Display,
        report: Report,
        evidence: Path | None = None,
    ) -> None:
        self.program = program
        self.evidence = evidence
        self.session = session
        self.display = display
        self.report = report
        self.random = random.Random(report.seed)
        self.box = (0, 0, 800, 600)
        self.keys = _keys()
        acts: list[tuple[int, Callable[[], None]]] = [
            (34, self.press),
            (8, self.hover),
            (18, self.click),
            (10, self.drag),
            (12, self.wheel),
            (4, self.menu),
            (4, self.type),
            (3, self.escape),
            (1, self.resize),
        ]
        self._weights, self._acts = zip(*acts, strict=True)

    def walk(self, seconds: float) -> None:
        """Walk for so long; the last round is finished."""
        begun = time.monotonic()
        self.look()
        self._command(*MET_ONCE)
        while time.monotonic() - begun < seconds and self._is_well():
            for _ in range(STEPS_PER_ROUND):
                if not self.program.is_running:
                    break
                self.random.choices(self._acts, self._weights)[0]()
                self.report.steps += 1
                if self.report.steps % 25 == 0:
                    self.look()
                time.sleep(0.015)
            self.go_home()
        self.report.seconds = time.monotonic() - begun
        self.report.events = self.display.n_events

    # -- what is done ----------------------------------------------------------

    def press(self) -> None:
        self.display.press(self.random.choice(self.keys))

    def hover(self) -> None:
        self.display.move(*self._place())

    def click(self) -> None:
        held = self.random.choice(("", "", "", "Shift", "Ctrl"))
        number = self.random.choice((1, 1, 1, 1, 2))
        times = self.random.choice((1, 1, 1, 2))
        self.display.move(*self._place())
        with self.display.held(held):
            for _ in range(times):
                self._tap(number)

    def drag(self) -> None:
        held = self.random.choice(("", "", "Shift", "Ctrl"))
        x, y = self._place()
        self.display.move(x, y)
        with self.display.held(held):
            self.display.button(1, True)
            for _ in range(5):
                x += self.random.randint(-60, 60)
                y += self.random.randint(-25, 25)
                self.display.move(*self._inside(x, y))
                time.sleep(0.004)
            self.display.button(1, False)

    def wheel(self) -> None:
        held = self.random.choice(("", "Ctrl", "Ctrl", "Shift"))
        number, times = self.random.choice((4, 5)), self.random.randint(1, 6)
        self.display.move(*self._place())
        with self.display.held(held):
            for _ in range(times):
                self._tap(number)

    def menu(self) -> None:
        """Open the menu of what is somewhere and take an entry, or none."""
        steps, takes = self.random.randint(0, 9), self.random.random() < 0.4
        self.display.move(*self._place())
        self._tap(3)
        time.sleep(0.05)
        for _ in range(steps):
            self.display.press("Down")
        self.display.press("Return" if takes else "Escape")

    def type(self) -> None:
        text, ends = self.random.choice(TEXTS), self.random.choice(("Return", "Escape"))
        self.display.press(self.random.choice(("Ctrl+F", "Ctrl+Shift+F", "Ctrl+P")))
        time.sleep(0.05)
        self.display.type(text)
        self.display.press(ends)

    def escape(self) -> None:
        for _ in range(3):
            self.display.press("Escape")

    def resize(self) -> None:
        self._resize(*self.random.choice(((900, 600), HOME_SIZE, (1600, 1000))))

    def _resize(self, wide: int, high: int) -> None:
        window = _tool("search", "--onlyvisible", "--class", "ggscope")
        if window:
            _tool("windowsize", window.split()[-1], str(wide), str(high))

    # -- looking after the program -----------------------------------------------

    def look(self) -> None:
        """See which window is in front, and whether the program still answers."""
        self._answer()
        if not self.program.is_running:
            return
        if not _tool("search", "--onlyvisible", "--name", _OURS).strip():
            # Made an icon by a click on the frame: nothing more would be walked on.
            _tool("search", "--name", _OURS, "windowactivate", "%@")
            time.sleep(0.3)
        arguments = _tool("getactivewindow", "getwindowgeometry", "--shell")
        fields = dict(line.split("=") for line in arguments.split() if "=" in line)
        if {"X", "Y", "WIDTH", "HEIGHT"} <= fields.keys():
            x, y = int(fields["X"]), int(fields["Y"])
            self.box = (x, y, x + int(fields["WIDTH"]), y + int(fields["HEIGHT"]))

    def go_home(self) -> None:
        """Close everything, note what the program holds, and open the session again."""
        if not self._revive():
            return
        self.report.rounds += 1
        self._return_to_first_looks()
        is_home = self._close_all()
        if not self._revive():
            return
        self._resize(*HOME_SIZE)
        time.sleep(2)
        self._wait_quiet()
        if self.program.is_running:
            before = self.program.figures(0).private
            # A hundred thousand copied rows are 12 to 31 MiB of text, which lasts
            # until something else is copied anywhere: no leak, but not the same twice.
            self.display.take_clipboard()
            self._wait_quiet()
            freed = before - self.program.figures(0).private
            self.report.most_copied = max(self.report.most_copied, freed)
            if is_home:
                self.report.came_home += 1
                self.report.rests.append(self.program.figures(self.report.steps))
            else:
                self.report.homeless.append(self.report.steps)
                self._keep_evidence("homeless")
            self._open()

    def _keep_evidence(self, why: str) -> None:
        """Save a picture of the screen and what the program says of itself."""
        if self.evidence is None:
            return
        name = f"{self.report.session}-{self.report.seed}-{self.report.steps}-{why}"
        self.evidence.mkdir(parents=True, exist_ok=True)
        photograph(self.evidence / f"{name}.png")
        lines = ["windows, the lowest first:"]
        stack = re.findall(r"0x[0-9a-f]+", _stack())
        lines += [f"  {w} {_tool('getwindowname', w).strip()}" for w in stack]
        lines += [
            f"in front: {_tool('getactivewindow', 'getwindowname').strip()}",
            f"keys go to: {_tool('getwindowfocus', 'getwindowname').strip()}",
            f"main thread computes: {self._is_busy()}",
            f"done last: {'; '.join(self.display.trail)}",
            self.program.state(),
        ]
        (self.evidence / f"{name}.txt").write_text("\n".join(lines), "utf-8")

    def _return_to_first_looks(self) -> None:
        """Take back layout and theme: what is held at rest is held for the same."""
        self._command(*FIRST_LOOKS)

    def _command(self, *texts: str) -> None:
        """Run commands by the palette."""
        self.escape()
        for command in texts:
            self.display.press("Ctrl+Shift+P")
            time.sleep(0.2)
            self.display.type(command)
            self.display.press("Return")
            self._answer()

    def _close_all(self) -> bool:
        """Close dialogs and tabs; return whether the start page is all that is left."""
        for _ in range(10):
            for _ in range(4):
                self.display.press("Escape")
                time.sleep(0.03)
            # A dialog may have lost the keys to the window that waits for it, and a
            # pane in a window of its own may be in front.
            for window in _tool("search", "--onlyvisible", "--name", _OURS).split():
                _tool("windowactivate", window)
                self.display.press("Escape")
                time.sleep(0.03)
            _tool("search", "--onlyvisible", "--name", _OURS, "windowactivate")
            time.sleep(0.1)
            self.display.press("Ctrl+W")
            time.sleep(0.15)
            self._answer()
            if _tool("getactivewindow", "getwindowname").strip() == "ggscope":
                return True
        return False

    def _open(self) -> None:
        is_folder = self.session.is_dir()
        self.display.press("Ctrl+Shift+O" if is_folder else "Ctrl+O")
        time.sleep(0.8)
        self.display.press("Ctrl+A")
        self.display.type(str(self.session))
        time.sleep(0.3)
        self.display.press("Return")
        time.sleep(1.0)
        self._wait_quiet()
        title = _tool("getactivewindow", "getwindowname").strip()
        if title.endswith("— ggscope"):
            self.report.opened += 1
        else:
            self.display.press("Escape")
        self.look()

    def _revive(self) -> bool:
        """Start again what was quit; return whether it was running all the time."""
        if self.program.is_running:
            return True
        code = self.program.process.returncode
        if code:
            self.report.faults.append(f"ended with {code} at step {self.report.steps}")
            return False
        self.report.quits += 1
        self.program.restart()
        time.sleep(3)
        self._wait_quiet()
        self._command(*MET_ONCE)
        self.report.rests.clear()  # another life, other figures
        return False

    def _answer(self) -> None:
        """Wait until the main thread waits for events again: it has dealt with all.

        Its own time counts, not that of others on this machine. One that is frozen is
        ended so that it writes to stderr where it is.
        """
        begun = self._main_seconds()
        while self.program.is_running and self._is_busy():
            took = self._main_seconds() - begun
            if took > FREEZE_S:
                self.report.faults.append(f"froze at step {self.report.steps}")
                self.program.process.send_signal(signal.SIGABRT)
                self.program.process.wait(10)
                return
        took = max(0.0, self._main_seconds() - begun)
        self.report.slowest_answer_s = max(self.report.slowest_answer_s, took)

    def _main_seconds(self) -> float:
        """Return how long the main thread has computed so far."""
        number = self.program.process.pid
        try:
            text = Path(f"/proc/{number}/task/{number}/stat").read_text()
        except OSError:
            return 0.0
        user, system = text.rpartition(")")[2].split()[11:13]
        return (int(user) + int(system)) / os.sysconf("SC_CLK_TCK")

    def _is_busy(self) -> bool:
        """Return whether the main thread has been running for all of 50 ms."""
        path = Path(f"/proc/{self.program.process.pid}/stat")
        for _ in range(5):
            try:
                if path.read_text().rpartition(")")[2].split()[0] != "R":
                    return False
            except OSError:
                return False
            time.sleep(0.01)
        return True

    def _wait_quiet(self) -> None:
        """Wait until the program has hardly used the processor for half a second."""
        until = time.monotonic() + 60
        while self.program.is_running and time.monotonic() < until:
            try:
                before = sum(self.program.process.cpu_times()[:2])
                time.sleep(0.5)
                if sum(self.program.process.cpu_times()[:2]) - before < 0.05:
                    return
            except psutil.NoSuchProcess:
                return

    def _is_well(self) -> bool:
        return not self.report.faults

    def _tap(self, number: int) -> None:
        self.display.button(number, True)
        self.display.button(number, False)
        time.sleep(0.008)

    def _place(self) -> tuple[int, int]:
        left, top, right, bottom = self.box
        x = left + int(self.random.random() * (right - left))
        return self._inside(x, top + int(self.random.random() * (bottom - top)))

    def _inside(self, x: int, y: int) -> tuple[int, int]:
        left, top, right, bottom = self.box
        return max(left, min(x, right - 1)), max(top, min(y, bottom - 1))


def _keys() -> list[str]:
    """Return the keys of all commands, as the key table has them."""
    from ggscope.gui.commands.registry import COMMANDS

    keys = [k for c in COMMANDS if c.id not in NOT_PRESSED for k in c.keys]
    return [*keys, "Up", "Down", "Next", "Prior", "Tab", "Shift+Tab", "Return", "Space"]


def _tool(*arguments: str) -> str:
    done = subprocess.run(
        ["xdotool", *arguments], capture_output=True, text=True, check=False
    )
    return done.stdout


def _stack() -> str:
    arguments = ["xprop", "-root", "_NET_CLIENT_LIST_STACKING"]
    return subprocess.run(arguments, capture_output=True, text=True, check=False).stdout


def photograph(path: Path) -> None:
    """Save what the screen shows: by a process of its own, which needs no tool."""
    code = (
        "import sys; from PySide6.QtGui import QGuiApplication as A;"
        "a = A([]); a.primaryScreen().grabWindow(0).save(sys.argv[1])"
    )
    environment = {**os.environ, "QT_QPA_PLATFORM": "xcb"}
    subprocess.run(
        [sys.executable, "-c", code, str(path)],
        check=False, capture_output=True, env=environment,
    )  # fmt: skip


def start_window_manager() -> "subprocess.Popen[bytes]":
    """Start openbox without keys and menus of its own.

    Its usual menu of the empty desktop offers a terminal, a browser and its own end: a
    walk that clicks beside a window that has become small took them, and no window had
    the keys from then on.
    """
    folder = Path(tempfile.mkdtemp(prefix="ggscope-walk-openbox-"))
    path = folder / "rc.xml"
    path.write_text(_OPENBOX, "utf-8")
    manager = subprocess.Popen(
        ["openbox", "--sm-disable", "--config-file", str(path)],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(1)  # it has read its file
    shutil.rmtree(folder)
    return manager


def session_files(name: str, folder: Path) -> Path:
    """Return a copy of a session's file or folder."""
    samples = ROOT / "resources" / "samples"
    if name == "experiment":
        return Path(shutil.copytree(samples / "moe-experiment", folder / "experiment"))
    if name == "npu":
        files = sorted(samples.glob("*npu*"))
        return Path(shutil.copy(files[0], folder))
    sys.path.insert(0, str(ROOT / "packaging"))
    import bench_traces

    path = folder / "million.ggmlviz"
    bench_traces.write_ggmlviz(path, 1_000_000)
    return path


def walk(
    session: str, seconds: float, seed: int, evidence: Path | None = None
) -> Report:
    """Walk through one session on the present display; return what was seen."""
    report = Report(session, seed)
    folder = Path(tempfile.mkdtemp(prefix="ggscope-walk-"))
    path = session_files(session, folder)
    bundled = ROOT / "resources"  # file dialogs begin beside a bundled sample
    before = set(bundled.rglob("*"))
    display = Display()
    # The wheel beside a window must not go to another desktop.
    _tool("set_num_desktops", "1")
    program = Program(folder, [path])
    try:
        until = time.monotonic() + 60
        while not _tool("search", "--onlyvisible", "--class", "ggscope").strip():
            if time.monotonic() > until or not program.is_running:
                report.faults.append("no window appeared")
                break
            time.sleep(0.2)
        walker = Walker(program, path, display, report, evidence)
        time.sleep(1.5)
        walker._wait_quiet()
        walker.walk(seconds)
    finally:
        program.stop()
        display.close()
        lines = program.errors.read_text("utf-8", "replace").splitlines()
        report.stderr = [line[:LINE_LENGTH] for line in lines if line.strip()]
        shutil.rmtree(folder, ignore_errors=True)
        for path in set(bundled.rglob("*")) - before:  # figures, bookmark files
            if path.is_file():
                path.unlink()
    report.judge()
    return report


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--minutes", type=float, default=30)
    parser.add_argument("--seed", type=int, default=1)
    parser.add_argument("--session", choices=SESSIONS, action="append")
    parser.add_argument("--report", type=Path, help="write all figures as JSON")
    parser.add_argument(
        "--evidence", type=Path, help="where to save what stood in the way home"
    )
    options = parser.parse_args()
    # Leave nothing running where somebody ends the walk early.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    manager = start_window_manager()
    evidence = options.evidence and options.evidence.resolve()
    names = options.session or list(SESSIONS)
    reports = []
    try:
        for session in names:
            seconds = options.minutes * 60 / len(names)
            reports.append(walk(session, seconds, options.seed, evidence))
            if manager.poll() is not None:
                reports[-1].faults.append("the window manager ended: keys went nowhere")
            print(reports[-1].text(), flush=True)
    finally:
        manager.terminate()
    if options.report is not None:
        options.report.write_text(json.dumps([asdict(r) for r in reports], indent=1))
    return int(any(report.faults for report in reports))


if __name__ == "__main__":
    sys.exit(main())
