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
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict, dataclass, field
from pathlib import Path

import psutil

ROOT = Path(__file__).resolve().parent.parent
SESSIONS = ("experiment", "npu", "million")
STEPS_PER_ROUND = 300
WARM_ROUNDS = 2
"""Rounds before figures count: modules are imported, caches fill once."""
MAX_GROWTH = 1.10
MAX_GROWTH_BYTES = 48 << 20
LINE_LENGTH = 6_000
"""Of a line on stderr so much is reported: a whole traceback, which is one line."""
FREEZE_S = 5.0
"""A main thread that computes for so long without waiting for events is frozen."""
NOT_PRESSED = {"file.quit"}
TEXTS = ("mul", "/attn.*/", "blk.0", "layer=0-3", "dur>1us", "op=MUL_MAT", "((", "1:30")
_OURS = "ggscope$"
"""How the titles of all windows of the program end."""
FIRST_LOOKS = ("reset layout", "like the system", "whichever is faster")
"""Commands after which windows look alike; the rest is in dialogs, seldom met."""
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


class Display:
    """An X display to which keys and mouse go as if somebody moved them."""

    def __init__(self) -> None:
        self._x = ctypes.CDLL(ctypes.util.find_library("X11") or "libX11.so.6")
        self._test = ctypes.CDLL(ctypes.util.find_library("Xtst") or "libXtst.so.6")
        self._x.XOpenDisplay.restype = ctypes.c_void_p
        self._x.XStringToKeysym.restype = ctypes.c_ulong
        self._x.XKeycodeToKeysym.restype = ctypes.c_ulong
        self._on = ctypes.c_void_p(self._x.XOpenDisplay(None))
        if not self._on:
            raise SystemExit("There is no X display; `make walk` starts one.")
        self.n_events = 0

    def close(self) -> None:
        self._x.XCloseDisplay(self._on)

    def press(self, keys: str) -> None:
        """Press keys in Qt's words, such as Ctrl+Shift+P."""
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

    def type(self, text: str) -> None:
        for letter in text:
            self.press(letter if letter != "+" else "plus")
            time.sleep(0.004)

    def move(self, x: int, y: int) -> None:
        self._test.XTestFakeMotionEvent(self._on, -1, x, y, 0)
        self._x.XFlush(self._on)
        self.n_events += 1

    def button(self, number: int, is_down: bool) -> None:
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

    `rss` counts pages of libraries that it has once touched; `private` is what no file
    holds: what a leak makes grow. Pages of files are left out of that, since they count
    as a process's own as soon as the last other one that maps them has ended.
    """

    step: int
    rss: int
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
    slowest_answer_s: float = 0.0
    rests: list[Figures] = field(default_factory=list)
    stderr: list[str] = field(default_factory=list)
    faults: list[str] = field(default_factory=list)

    def judge(self) -> None:
        """Add what is not flat to the faults."""
        counted = self.rests[WARM_ROUNDS:]
        if self.stderr:
            self.faults.append(f"{len(self.stderr)} lines on stderr")
        if len(counted) < 4:
            return
        quarter = max(2, len(counted) // 4)
        for name in ("rss", "private", "threads", "descriptors"):
            values = [getattr(rest, name) for rest in counted]
            first = statistics.median(values[:quarter])
            last = statistics.median(values[-quarter:])
            allowed = (
                max(first * MAX_GROWTH, first + MAX_GROWTH_BYTES)
                if name in ("rss", "private")
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
        if rows:
            a, b = rows[0], rows[-1]
            lines.append(
                f"  at rest, first and last: {a.rss >> 20} and {b.rss >> 20} MiB, of "
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
        }  # fmt: skip
        self.home.chmod(0o700)
        with self.errors.open("ab") as out:
            return psutil.Popen(
                [sys.executable, "-X", "faulthandler", "-m", "ggscope",
                 *map(str, self._files)],
                stdout=out, stderr=out, env=environment, cwd=self.home,
            )  # fmt: skip

    def restart(self) -> None:
        self.process = self._start()

    @property
    def is_running(self) -> bool:
        return self.process.poll() is None

    def figures(self, step: int) -> Figures:
        return Figures(
            step,
            self.process.memory_info().rss,
            _anonymous(self.process),
            self.process.num_threads(),
            self.process.num_fds(),
        )

    def stop(self) -> None:
        if self.is_running:
            self.process.terminate()
            try:
                self.process.wait(10)
            except psutil.TimeoutExpired:
                self.process.kill()


def _anonymous(process: psutil.Popen) -> int:
    """Return how many bytes a process holds that no file holds."""
    try:
        lines = Path(f"/proc/{process.pid}/smaps_rollup").read_text().splitlines()
    except OSError:
        return int(process.memory_full_info().uss)
    (line,) = (line for line in lines if line.startswith("Anonymous:"))
    return int(line.split()[1]) << 10


class Walker:
    """Does one random thing at a time."""

    def __init__(
        self, program: Program, session: Path, display: Display, report: Report
    ) -> None:
        self.program = program
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
        wide, high = self.random.choice(((900, 600), (1280, 800), (1600, 1000)))
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
        words = _tool("getactivewindow", "getwindowgeometry", "--shell")
        found = dict(line.split("=") for line in words.split() if "=" in line)
        if {"X", "Y", "WIDTH", "HEIGHT"} <= found.keys():
            x, y = int(found["X"]), int(found["Y"])
            self.box = (x, y, x + int(found["WIDTH"]), y + int(found["HEIGHT"]))

    def go_home(self) -> None:
        """Close everything, note what the program holds, and open the session again."""
        if not self._revive():
            return
        self._return_to_first_looks()
        is_home = self._close_all()
        if not self._revive():
            return
        time.sleep(2)
        self._wait_quiet()
        if self.program.is_running:
            if is_home:
                self.report.rests.append(self.program.figures(self.report.steps))
            self._open()

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
        """Close dialogs and tabs; tell whether the start page is all that is left."""
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
        if title.endswith("– ggscope"):
            self.report.opened += 1
        else:
            self.display.press("Escape")
        self.look()

    def _revive(self) -> bool:
        """Start again what was quit; tell whether it was running all the time."""
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
        """Tell whether the main thread has been running for all of 50 ms."""
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
    from ggscope.gui.commands.table import COMMANDS

    keys = [k for c in COMMANDS if c.id not in NOT_PRESSED for k in c.keys]
    return [*keys, "Up", "Down", "Next", "Prior", "Tab", "Shift+Tab", "Return", "Space"]


def _tool(*words: str) -> str:
    done = subprocess.run(
        ["xdotool", *words], capture_output=True, text=True, check=False
    )
    return done.stdout


def session_files(name: str, folder: Path) -> Path:
    """Return a copy of a session's file or folder."""
    samples = ROOT / "resources" / "samples"
    if name == "experiment":
        return Path(shutil.copytree(samples / "moe-experiment", folder / "experiment"))
    if name == "npu":
        found = sorted(samples.glob("*npu*"))
        return Path(shutil.copy(found[0], folder))
    sys.path.insert(0, str(ROOT / "packaging"))
    import bench_traces

    path = folder / "million.ggmlviz"
    bench_traces.write_ggmlviz(path, 1_000_000)
    return path


def walk(session: str, seconds: float, seed: int) -> Report:
    """Walk through one session on the present display; return what was seen."""
    report = Report(session, seed)
    folder = Path(tempfile.mkdtemp(prefix="ggscope-walk-"))
    path = session_files(session, folder)
    bundled = ROOT / "resources" / "samples"
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
        walker = Walker(program, path, display, report)
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
    options = parser.parse_args()
    # Leave nothing running where somebody ends the walk early.
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(1))
    manager = subprocess.Popen(
        ["openbox", "--sm-disable"],
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    time.sleep(1)
    wanted = options.session or list(SESSIONS)
    reports = []
    try:
        for session in wanted:
            seconds = options.minutes * 60 / len(wanted)
            reports.append(walk(session, seconds, options.seed))
            print(reports[-1].text(), flush=True)
    finally:
        manager.terminate()
    if options.report is not None:
        options.report.write_text(json.dumps([asdict(r) for r in reports], indent=1))
    return int(any(report.faults for report in reports))


if __name__ == "__main__":
    sys.exit(main())
