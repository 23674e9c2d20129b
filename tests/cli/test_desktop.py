"""``--install-desktop``: asked of the tools of the desktop, and undone."""

import hashlib
import json
import os
import shutil
import subprocess
import sys
import time
from pathlib import Path

import pytest

from ggscope import assets
from ggscope.assets import APPLICATION_ID
from ggscope.cli import desktop, main
from statements import new_statements
from support import ROOT

LLAMA = ROOT / "resources" / "samples" / "llama.ggmlviz"
ENTRY = f"applications/{APPLICATION_ID}.desktop"
ODD = "a \"b' $HOME `id` \\n ü;"


DATA = "data"


@pytest.fixture
def data(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return a data folder of a person who has nothing yet, the one that counts."""
    home = tmp_path / "home"
    home.mkdir()
    monkeypatch.setenv("HOME", str(home))
    monkeypatch.setenv("XDG_CONFIG_HOME", str(home / ".config"))
    monkeypatch.delenv("XDG_CURRENT_DESKTOP", raising=False)
    data = home / DATA
    monkeypatch.setenv("XDG_DATA_HOME", str(data))
    return data


def ask(*text: object) -> str:
    """Return what a tool of the desktop says; skip where it is not installed."""
    if shutil.which(str(text[0])) is None:
        pytest.skip(f"{text[0]} is not installed")
    done = subprocess.run(
        list(map(str, text)), capture_output=True, text=True, check=False
    )
    return done.stdout


def tree(folder: Path) -> dict[str, bytes]:
    return {
        str(p.relative_to(folder)): b"" if p.is_dir() else p.read_bytes()
        for p in folder.rglob("*")
    }


def script(folder: Path) -> tuple[Path, Path]:
    """Return a program that writes what it was called with, and where."""
    folder.mkdir(parents=True)
    program, path = folder / "ggscope", folder.parent / "said"
    program.write_text(f'#!/bin/sh\nprintf "%s\\n" "$@" > "{path}"\n')
    program.chmod(0o755)
    return program, path


def test_types_are_known_and_open_with_the_program(
    data: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    ask("update-mime-database", "-v")
    ask("update-desktop-database", "--version")
    assert main(["--install-desktop"]) == 0

    output = capsys.readouterr()
    assert output.out == ""
    assert f"files written below {data}" in output.err
    assert f"{sys.executable} -m ggscope is what they start" in output.err
    nameless = tmp_path / "nameless"
    shutil.copy(LLAMA, nameless)
    assert "type: application/x-ggmlviz" in ask("gio", "info", nameless)
    for kind in ("x-ggmlviz", "x-ggml-tensor-trace"):
        result = ask("xdg-mime", "query", "default", f"application/{kind}")
        assert result.strip() == f"{APPLICATION_ID}.desktop"


@pytest.mark.parametrize("name", ["a.json", "a.jsonl", "a.bin", "trace.bin"])
def test_what_belongs_to_everybody_never_opens_with_the_program(
    data: Path, name: str, tmp_path: Path
) -> None:
    assert main(["--install-desktop"]) == 0
    path = tmp_path / name
    path.write_bytes(bytes(range(256)) if name.endswith("bin") else b'{"a": 1}\n')

    text = ask("gio", "info", "-a", "standard::content-type", path)
    kind = text.partition("standard::content-type: ")[2].split()[0]

    assert not kind.startswith("application/x-gg")
    assert "ggscope" not in ask("gio", "mime", kind)
    assert "ggscope" not in ask("xdg-mime", "query", "default", kind)


def test_program_with_an_odd_path_is_started_with_the_file(
    data: Path, tmp_path: Path
) -> None:
    program, message = script(tmp_path / ODD)
    data = tmp_path / "my data"
    desktop.install(data, (str(program), "an other", "50%"))
    trace = tmp_path / "a trace"
    shutil.copy(LLAMA, trace)

    ask("gio", "launch", data / ENTRY, trace)

    _wait_for(message)
    assert message.read_text().splitlines() == ["an other", "50%", str(trace)]
    checked = subprocess.run(
        ["desktop-file-validate", data / ENTRY], capture_output=True, check=False
    ) if shutil.which("desktop-file-validate") else None  # fmt: skip
    assert checked is None or checked.stdout == b""


def test_xdg_open_starts_the_program_with_the_file(
    data: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    program, message = script(tmp_path / "bin")
    desktop.install(data, (str(program),))
    trace = tmp_path / "x.ggmlviz"
    shutil.copy(LLAMA, trace)
    kind = ask("xdg-mime", "query", "filetype", trace)
    if kind.strip() != "application/x-ggmlviz":
        pytest.skip("xdg-mime knows no types of this person; no File::MimeInfo?")
    monkeypatch.setenv("DISPLAY", ":999")  # asked for by xdg-open, used by nobody

    ask("xdg-open", trace)

    _wait_for(message)
    assert message.read_text().splitlines() == [str(trace)]


def _wait_for(path: Path) -> None:
    deadline = time.monotonic() + 10
    while not (path.exists() and path.stat().st_size):
        assert time.monotonic() < deadline
        time.sleep(0.01)


def test_again_is_the_same_and_undone_it_is_as_before(data: Path) -> None:
    data.parent.joinpath("kept").write_text("mine")
    before = tree(data.parent)

    assert main(["--install-desktop"]) == 0
    once = tree(data)
    assert main(["--install-desktop"]) == 0
    assert tree(data).keys() == once.keys()
    assert main(["--uninstall-desktop"]) == 0

    left = tree(data.parent)
    left.pop(DATA, None)
    assert left == before


def test_what_others_have_there_stays(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    other = data / "applications" / "other.desktop"
    other.parent.mkdir(parents=True)
    other.write_text("[Desktop Entry]\nType=Application\nName=Other\nExec=true\n")
    packages = data / "mime" / "packages"
    packages.mkdir(parents=True)
    (packages / "other.xml").write_text(
        '<mime-info xmlns="http://www.freedesktop.org/standards/shared-mime-info">'
        '<mime-type type="application/x-other"><glob pattern="*.oth"/></mime-type>'
        "</mime-info>"
    )

    main(["--install-desktop"])
    main(["--uninstall-desktop"])

    assert other.is_file()
    assert (packages / "other.xml").is_file()
    assert not list(data.rglob(f"*{APPLICATION_ID}*"))
    assert main(["--uninstall-desktop"]) == 0
    assert "nothing was installed" in capsys.readouterr().err


def test_file_that_was_changed_by_hand_is_not_removed(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--install-desktop"])
    entry = data / ENTRY
    entry.write_text(entry.read_text() + "X-Mine=1\n")

    assert main(["--uninstall-desktop"]) == 0

    assert f"{entry} was changed since, and stays" in capsys.readouterr().err
    assert [p.name for p in data.rglob("*.desktop")] == [entry.name]


def test_file_of_somebody_else_is_not_replaced(
    data: Path, capsys: pytest.CaptureFixture[str], tmp_path: Path
) -> None:
    entry = data / ENTRY
    entry.parent.mkdir(parents=True)
    entry.write_text("mine")
    icon = data / "icons/hicolor/48x48/apps" / f"{APPLICATION_ID}.png"
    icon.parent.mkdir(parents=True)
    icon.symlink_to(tmp_path / "elsewhere")

    assert main(["--install-desktop"]) == 1

    err = capsys.readouterr().err
    assert err.count("was not made by ggscope --install-desktop") == 2
    assert entry.read_text() == "mine"
    assert not (tmp_path / "elsewhere").exists()
    assert main(["--uninstall-desktop"]) == 0
    assert entry.read_text() == "mine"
    assert icon.is_symlink()


def test_half_installed_desktop_is_reported(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("PATH", str(data))

    assert main(["--install-desktop"]) == 0

    err = capsys.readouterr().err
    assert "update-mime-database is not installed" in err
    assert "Install the package shared-mime-info" in err
    assert "update-desktop-database is not installed" in err


def test_half_installed_desktop_is_reported_what_stays_when_files_go(
    data: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    def removed(*made: str) -> str:
        assert main(["--install-desktop"]) == 0
        for path in made:
            (data / path).write_bytes(b"")
        capsys.readouterr()
        assert main(["--uninstall-desktop"]) == 0
        return capsys.readouterr().err

    monkeypatch.setenv("PATH", str(data))
    without = removed()
    with_types = removed("mime/mime.cache")

    assert new_statements(with_types, without)
    assert "update-desktop-database" not in with_types
    assert "is not installed" not in without
    assert "call this again" not in with_types


def test_tool_that_fails_is_reported(
    data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    for name in ("update-mime-database", "update-desktop-database"):
        (tmp_path / name).write_text("#!/bin/sh\necho no room >&2\nexit 3\n")
        (tmp_path / name).chmod(0o755)
    monkeypatch.setenv("PATH", str(tmp_path), prepend=os.pathsep)

    assert main(["--install-desktop"]) == 0

    assert "update-mime-database failed: no room." in capsys.readouterr().err


def test_package_for_everybody_is_reported(
    data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "usr"))
    main(["--install-desktop"])
    assert "from a package" not in capsys.readouterr().err
    shutil.copytree(data / "applications", tmp_path / "usr" / "applications")

    assert main(["--install-desktop"]) == 0

    assert "is there too, from a package for everybody" in capsys.readouterr().err


@pytest.mark.parametrize(
    "text",
    [
        b"", b"[]", b"\xff", b'{"files": {"../../x": ""}, "folders": []}',
        b'{"files": {"/etc/x": ""}, "folders": []}', b'{"files": {}, "folders": [1]}',
        b'{"files": {"thesis/1.tex": "' + hashlib.sha256(b"words").hexdigest().encode()
        + b'"}, "folders": []}',
    ],
)  # fmt: skip
def test_list_that_is_damaged_or_hostile_removes_nothing(
    data: Path, text: bytes, capsys: pytest.CaptureFixture[str]
) -> None:
    main(["--install-desktop"])
    (data / desktop.LIST).write_bytes(text)
    (data / "thesis").mkdir()
    (data / "thesis" / "1.tex").write_bytes(b"words")
    before = tree(data)

    assert main(["--uninstall-desktop"]) == 1

    assert str(data / desktop.LIST) in capsys.readouterr().err
    assert tree(data) == before


def test_file_that_a_newer_version_has_no_more_is_removed(data: Path) -> None:
    main(["--install-desktop"])
    name = f"{APPLICATION_ID}.old.png"
    old, place = data / name, data / desktop.LIST
    old.write_bytes(b"old")
    known = json.loads(place.read_text())
    known["files"][name] = hashlib.sha256(b"old").hexdigest()
    place.write_text(json.dumps(known))

    assert main(["--install-desktop"]) == 0

    assert not old.exists()


@pytest.mark.parametrize("path", ["/a\nExec=rm/ggscope", "/100%/ggscope"])
def test_path_that_no_entry_can_hold_is_refused(
    data: Path,
    path: str,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(assets, "program", lambda: (path,))

    assert main(["--install-desktop"]) == 1

    assert "a desktop entry cannot hold" in capsys.readouterr().err
    assert not data.exists()


def test_files_beside_it_are_a_mistake(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["--install-desktop", str(LLAMA)]) == 2
    assert "take no files" in capsys.readouterr().err
    assert main(["--install-desktop", "--uninstall-desktop"]) == 2


def test_inside_of_a_flatpak_it_is_refused(
    data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    monkeypatch.setattr(desktop, "_SANDBOX", tmp_path)

    assert main(["--install-desktop"]) == 1

    assert "the Flatpak registered ggscope" in capsys.readouterr().err


def test_folder_that_may_not_be_written_is_reported(
    data: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    data.mkdir()
    (data / "ggscope").write_text("a file")

    assert main(["--install-desktop"]) == 1

    assert "cannot be read as the list" in capsys.readouterr().err


def test_relative_data_folder_is_ignored(
    data: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", "here")

    assert desktop.data_home() == data.parent / ".local" / "share"


@pytest.mark.parametrize(
    ("frozen", "appimage", "command"),
    [
        (False, "", (sys.executable, "-m", "ggscope")),
        (True, "", (sys.executable,)),
        (True, "/opt/g.AppImage", ("/opt/g.AppImage",)),
    ],
)
def test_program_is_named_as_it_was_installed(
    frozen: bool,
    appimage: str,
    command: tuple[str, ...],
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(sys, "frozen", frozen, raising=False)
    monkeypatch.setenv("APPIMAGE", appimage)

    assert assets.program() == command


def test_installed_command_is_named_by_its_path(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    program, _ = script(tmp_path / "bin")
    monkeypatch.setattr(sys, "argv", [str(program), "--install-desktop"])

    assert assets.program() == (str(program),)


def test_each_sentence_is_reported_where_it_is_true_and_only_there(
    data: Path,
    capsys: pytest.CaptureFixture[str],
    monkeypatch: pytest.MonkeyPatch,
    tmp_path: Path,
) -> None:
    def stderr_of(*text: str) -> str:
        main(list(text))
        return capsys.readouterr().err

    tools = tmp_path / "tools"
    tools.mkdir()
    monkeypatch.setenv("XDG_DATA_DIRS", str(tmp_path / "usr"))
    monkeypatch.setenv("PATH", str(tools))
    nothing = stderr_of("--uninstall-desktop")
    without_tools = stderr_of("--install-desktop")
    removed = stderr_of("--uninstall-desktop")
    for name in ("update-mime-database", "update-desktop-database"):
        (tools / name).write_text("#!/bin/sh\nexit 3\n")
        (tools / name).chmod(0o755)
    failed = stderr_of("--install-desktop")
    entry = data / ENTRY
    shutil.copytree(data / "applications", tmp_path / "usr" / "applications")
    entry.write_text("mine")
    changed = stderr_of("--uninstall-desktop")
    foreign = stderr_of("--install-desktop")
    with_files = stderr_of("--install-desktop", str(LLAMA))

    for item, unsaid in (
        (nothing, removed),
        (removed, nothing),
        (without_tools, nothing),
        (without_tools, failed),
        (failed, without_tools),
        (changed, removed),
        (foreign, failed),
        (with_files, foreign),
    ):
        assert new_statements(item, unsaid)
