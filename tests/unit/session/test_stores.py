"""The settings file: whole whoever is killed, and shared by windows."""

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, example, given
from hypothesis import settings as hypothesis_settings
from hypothesis import strategies as st
from PySide6.QtCore import QSettings
from pytestqt.qtbot import QtBot

from ggscope.session.settings import MAX_RECENT, Settings
from ggscope.session.settings_store import IniStore, default_path
from statements import new_statements

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(),
    lambda values: st.lists(values, max_size=4),
    max_leaves=6,
).map(json.dumps)
KEYS = st.builds(
    "{}/{}".format, *[st.from_regex(r"[a-z][a-z0-9_-]*", fullmatch=True)] * 2
)


@hypothesis_settings(
    max_examples=25, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.dictionaries(KEYS, JSON, max_size=4))
@example({"files/recent": json.dumps(['a "b"\\\n', "@ü;#=[]"]), "lanes/x-1": '"\\\\n"'})
def test_qsettings_of_earlier_versions_reads_and_writes_the_same_file(
    tmp_path: Path, values: dict[str, str]
) -> None:
    ini = QSettings.Format.IniFormat
    ours, theirs = tmp_path / "ours.ini", tmp_path / "theirs.ini"
    for path in (ours, theirs):
        path.unlink(missing_ok=True)
    store, qt = IniStore(ours), QSettings(str(theirs), ini)
    for key, text in values.items():
        store.edit(key, lambda _, text=text: text)
        qt.setValue(key, text)
    store.sync()
    qt.sync()

    for read in (IniStore(ours), IniStore(theirs)):
        assert read.values == values
    read_back = QSettings(str(ours), ini)
    assert {key: read_back.value(key) for key in read_back.allKeys()} == values


def test_lines_of_a_newer_version_and_of_people_stay(tmp_path: Path) -> None:
    path = tmp_path / "ggscope.ini"
    path.write_text('top=1\n\n[new%20er]\nthing\\of=ü\n\n[window]\nx="\\"a\\\\\\""\n')
    before = path.read_text()
    settings = Settings(IniStore(path))
    settings.change("appearance", theme="dark")

    assert settings.store.sync() == ""

    text = path.read_text().replace('[appearance]\ntheme="\\"dark\\""\n\n', "")
    assert text == before.replace("ü", '"ü"')


def test_default_file_is_where_qsettings_kept_it() -> None:
    ini, user = QSettings.Format.IniFormat, QSettings.Scope.UserScope

    assert default_path() == Path(QSettings(ini, user, "ggscope", "ggscope").fileName())


@pytest.mark.parametrize(
    "content",
    [b"\xff\xfe[appearance]", b"[appearance]\ntheme=\0", b"[appearance]\nnonsense\n",
     b"[appearance]\ntheme=@Variant(x)\n", b"PK\x03\x04 archive", b"a=\n" * (6 << 20)],
    ids=["no text", "zero bytes", "no setting", "object", "archive", "huge"],
)  # fmt: skip
def test_damaged_file_is_kept_aside_and_said(tmp_path: Path, content: bytes) -> None:
    path = tmp_path / "ggscope.ini"
    for item in ("ggscope.ini.broken", "ggscope.ini.broken-2"):
        path.write_bytes(content)

        settings = Settings(IniStore(path))

        assert settings.appearance.theme == "system"
        path.write_bytes(b"")
        none = "\n".join(Settings(IniStore(path)).problems)
        assert new_statements(settings.problems[0], none)
        path.unlink()
        assert str(tmp_path / item) in settings.problems[0]
        assert (tmp_path / item).read_bytes() == content
        assert not path.exists()


def test_file_damaged_meanwhile_is_kept_aside_and_nothing_is_lost(
    tmp_path: Path,
) -> None:
    path = tmp_path / "ggscope.ini"
    settings, messages = Settings(IniStore(path)), []
    settings.store_failed.connect(messages.append)
    settings.change("appearance", theme="dark")
    settings.sync()
    path.write_bytes(b"\0" * 100)

    settings.change("appearance", font_scale=125)
    settings.sync()

    assert new_statements(messages[0], "\n".join(Settings(IniStore(path)).problems))
    assert "defaults" not in messages[0]
    again = Settings(IniStore(path))
    assert (again.appearance.theme, again.appearance.font_scale) == ("dark", 125)
    assert (tmp_path / "ggscope.ini.broken").read_bytes() == b"\0" * 100
    assert len(messages) == 1


def test_link_to_the_file_stays(tmp_path: Path) -> None:
    (tmp_path / "dotfiles").mkdir()
    path = tmp_path / "ggscope.ini"
    path.symlink_to("dotfiles/ggscope.ini")
    settings = Settings(IniStore(path))

    settings.change("appearance", theme="dark")
    settings.sync()

    assert path.is_symlink()
    assert "dark" in (tmp_path / "dotfiles" / "ggscope.ini").read_text()


@pytest.mark.parametrize("make", [os.mkfifo, os.mkdir])
def test_pipe_or_folder_in_place_of_the_file_does_not_hold_up_the_start(
    tmp_path: Path, make: Callable[[Path], None]
) -> None:
    make(tmp_path / "ggscope.ini")

    settings = Settings(IniStore(tmp_path / "ggscope.ini"))
    settings.change("appearance", theme="dark")

    assert settings.store.sync()
    assert settings.appearance.theme == "dark"


def test_windows_keep_what_the_other_stores(tmp_path: Path, qtbot: QtBot) -> None:
    path = tmp_path / "ggscope.ini"
    start = Settings(IniStore(path))
    for name in ("both", "gone"):
        start.save_filter(name, "op=ADD")
    start.sync()
    one, two = Settings(IniStore(path)), Settings(IniStore(path))

    one.save_filter("one", "op=MUL")
    one.forget_filter("gone")
    one.change("appearance", theme="dark")
    one.add_recent(Path("/a/one.bin"))
    two.save_filter("two", "op=ROPE")
    two.save_filter("both", "layer=3")
    two.change("appearance", font_scale=150)
    two.add_recent(Path("/a/two.bin"))
    for settings in (one, two, one):
        settings.sync()

    again = Settings(IniStore(path))
    expected = (("both", "layer=3"), ("one", "op=MUL"), ("two", "op=ROPE"))
    assert again.saved_filters() == two.saved_filters() == expected
    assert (again.appearance.theme, again.appearance.font_scale) == ("dark", 150)
    assert set(again.files.recent) == {"/a/one.bin", "/a/two.bin"}
    assert again.problems == []


def test_changes_of_a_window_come_back_from_the_thread_that_writes(
    tmp_path: Path, qtbot: QtBot
) -> None:
    path = tmp_path / "ggscope.ini"
    one, two = Settings(IniStore(path)), Settings(IniStore(path))
    one.save_filter("one", "op=MUL")
    one.sync()

    with qtbot.waitSignal(
        two.changed, check_params_cb=lambda topic: topic == "filters"
    ):
        two.save_filter("two", "op=ADD")
    qtbot.waitUntil(lambda: len(two.saved_filters()) == 2)

    assert [name for name, _ in two.saved_filters()] == ["one", "two"]


@pytest.mark.parametrize(
    ("start", "mine", "theirs", "expected"),
    [
        ("", "+a", "+b", "a b"),
        ("ab", "+b", "+c", "b c a"),
        ("ab", "-b", "+c", "c a"),
        ("a", "-a", "+b", "b"),
        ("a", "+b", "+b", "b a"),
        ("ab", "-a-b+c", "+a", "c"),
    ],
)
def test_lists_have_what_both_windows_added_and_not_what_one_removed(
    tmp_path: Path, start: str, mine: str, theirs: str, expected: str
) -> None:
    def edit(settings: Settings, text: str) -> None:
        for sign, item in zip(text[::2], text[1::2], strict=True):
            (settings.add if sign == "+" else settings.remove)("files/trusted", item)

    path = tmp_path / "ggscope.ini"
    first = Settings(IniStore(path))
    edit(first, "".join(f"+{item}" for item in reversed(start)))
    first.sync()
    ours, others = Settings(IniStore(path)), Settings(IniStore(path))

    edit(ours, mine)
    edit(others, theirs)
    others.sync()
    ours.sync()

    assert ours.files.trusted == tuple(expected.split())
    assert Settings(IniStore(path)).files.trusted == ours.files.trusted


def test_a_single_value_is_that_of_the_last_to_write_it(tmp_path: Path) -> None:
    path = tmp_path / "ggscope.ini"
    one, two = Settings(IniStore(path)), Settings(IniStore(path))

    one.change("appearance", theme="dark", font_scale=150)
    two.change("appearance", theme="light")
    one.sync()
    two.sync()

    again = Settings(IniStore(path)).appearance
    assert (again.theme, again.font_scale) == ("light", 150)


def test_edits_that_could_not_be_written_are_written_later(tmp_path: Path) -> None:
    folder = tmp_path / "folder"
    folder.write_text("in the way")
    settings = Settings(IniStore(folder / "ggscope.ini"))
    settings.save_filter("a", "op=ADD")
    assert settings.store.sync()
    settings.save_filter("b", "op=MUL")

    folder.unlink()

    assert settings.store.sync() == ""
    stored = Settings(IniStore(folder / "ggscope.ini")).saved_filters()
    assert [name for name, _ in stored] == ["a", "b"]


def test_full_list_stays_within_its_length(tmp_path: Path) -> None:
    path = tmp_path / "ggscope.ini"
    one, two = Settings(IniStore(path)), Settings(IniStore(path))

    for number in range(MAX_RECENT):
        one.add_recent(Path(f"/one/{number}"))
        two.add_recent(Path(f"/two/{number}"))
    one.sync()
    two.sync()

    again = Settings(IniStore(path))
    assert again.files.recent == two.files.recent
    assert len(again.files.recent) == MAX_RECENT
    assert again.problems == []


MANY = """
import sys
from pathlib import Path
from ggscope.session.settings import Settings
from ggscope.session.settings_store import IniStore
path, who = Path(sys.argv[1]), sys.argv[2]
settings = Settings(IniStore(path))
for number in range(8):
    settings.save_filter(f"{who} {number}", "op=ADD")
    settings.sync()
"""


def test_processes_that_write_at_the_same_time_lose_nothing(tmp_path: Path) -> None:
    path = tmp_path / "ggscope.ini"
    processes = [
        subprocess.Popen([sys.executable, "-c", MANY, str(path), who]) for who in "abc"
    ]

    codes = [process.wait() for process in processes]

    assert codes == [0, 0, 0]
    names = {name for name, _ in Settings(IniStore(path)).saved_filters()}
    assert names == {f"{who} {number}" for who in "abc" for number in range(8)}
    assert os.listdir(tmp_path) == ["ggscope.ini"]


SWEEP = """
import os, signal, sys
from pathlib import Path
from ggscope.session.settings import Settings
from ggscope.session.settings_store import IniStore
os.fsync = lambda handle: None  # what a killed process wrote, the system still has
path = Path(sys.argv[1])
STEPS = ("open", "os.mkdir", "os.rename", "os.remove", "os.chmod", "os.scandir",
         "fcntl.flock")
old = Settings(IniStore(path))
old.change("appearance", theme="dark")
old.sync()
before = path.read_bytes()
number, seen = 1, set()
while True:
    path.write_bytes(before)
    pid = os.fork()
    if pid == 0:
        settings, count = Settings(IniStore(path)), 0
        settings.change("appearance", font_scale=150)
        def hook(event, arguments):
            global count
            count += event in STEPS
            if event in STEPS and count == number:
                os.kill(os.getpid(), signal.SIGKILL)
        sys.addaudithook(hook)
        settings.store.sync()
        os._exit(0)
    if os.waitpid(pid, 0)[1] == 0:
        break
    again = Settings(IniStore(path))
    assert again.problems == [] and again.appearance.theme == "dark", again.problems
    seen.add(again.appearance.font_scale)
    number += 1
assert seen == {100, 150}, seen
assert os.listdir(path.parent) == [path.name], os.listdir(path.parent)
"""


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_kill_at_any_step_leaves_old_or_new_settings(tmp_path: Path) -> None:
    done = subprocess.run(
        [sys.executable, "-c", SWEEP, str(tmp_path / "ggscope.ini")],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert done.returncode == 0, done.stderr[-2000:]
