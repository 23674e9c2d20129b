"""What a Linux desktop is stated: valid, named after one id, and claiming no more."""

import configparser
import os
import re
import shutil
import subprocess
import sys
from pathlib import Path
from xml.etree import ElementTree

import pytest

import ggscope
from ggscope.assets import APPLICATION_ID
from ggscope.cli.arguments import make_parser
from support import ROOT

DESKTOP = ROOT / "resources" / "desktop"
ENTRY = DESKTOP / f"{APPLICATION_ID}.desktop"
METAINFO = DESKTOP / f"{APPLICATION_ID}.metainfo.xml"
TYPES = DESKTOP / f"{APPLICATION_ID}.xml"
THUMBNAILER = DESKTOP / f"{APPLICATION_ID}.thumbnailer"
MIME = "{http://www.freedesktop.org/standards/shared-mime-info}"


def read(path: Path) -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment, method-assign]
    parser.read(path, encoding="utf-8")
    return parser


def listed(text: str) -> list[str]:
    return [word for word in text.split(";") if word]


def tool(name: str) -> str:
    tool = shutil.which(name)
    if tool is None:
        pytest.skip(f"{name} is not installed")
    return tool


def test_every_file_is_named_after_the_application_id() -> None:
    files = [path for path in DESKTOP.rglob("*") if path.is_file()]
    named = [path for path in files if path.name != "README.md"]

    assert {path.name.removeprefix(APPLICATION_ID)[:1] for path in named} == {"."}
    assert re.fullmatch(r"[a-z]+(\.[a-z]+){2,}", APPLICATION_ID)
    entry = read(ENTRY)["Desktop Entry"]
    assert entry["Icon"] == APPLICATION_ID
    component = ElementTree.parse(METAINFO).getroot()
    assert component.findtext("id") == APPLICATION_ID
    assert component.findtext("launchable") == ENTRY.name
    assert component.findtext("icon") == APPLICATION_ID


def test_types_are_the_same_in_all_files_and_have_icons() -> None:
    declared = {
        one.attrib["type"]: one
        for one in ElementTree.parse(TYPES).getroot().iter(f"{MIME}mime-type")
    }
    offered = listed(read(ENTRY)["Desktop Entry"]["MimeType"])
    report = ElementTree.parse(METAINFO).getroot().iterfind("provides/mediatype")

    assert list(declared) == offered == [one.text for one in report]
    drawn = listed(read(THUMBNAILER)["Thumbnailer Entry"]["MimeType"])
    assert set(drawn) < set(offered)
    for value in declared.values():
        icon = value.find(f"{MIME}icon")
        if icon is not None:
            name = icon.attrib["name"]
            assert len(list(DESKTOP.glob(f"hicolor/*/mimetypes/{name}.*"))) == 10


def test_nothing_that_belongs_to_everybody_is_claimed() -> None:
    root = ElementTree.parse(TYPES).getroot()
    globs = [one.attrib["pattern"] for one in root.iter(f"{MIME}glob")]

    assert set(globs) == {"*.ggmlviz", "*.gguf", "tensor_trace*.bin"}
    types = listed(read(ENTRY)["Desktop Entry"]["MimeType"])
    assert all(name.startswith("application/x-gg") for name in types)


def test_program_takes_files_and_is_offered_for_any() -> None:
    entry = read(ENTRY)["Desktop Entry"]

    assert entry["Exec"].endswith(" %F")
    assert "NoDisplay" not in entry
    assert not {"OnlyShowIn", "NotShowIn"} & set(entry)


def test_actions_are_there_and_their_commands_are_understood() -> None:
    entry = read(ENTRY)
    sections = [
        f"Desktop Action {a}" for a in listed(entry["Desktop Entry"]["Actions"])
    ]

    assert entry.sections() == ["Desktop Entry", *sections]
    for name in sections:
        program, *text = entry[name]["Exec"].split()
        assert program == "ggscope"
        make_parser(("open",)).parse_args(["open", *text])


def test_release_is_the_program_s_version() -> None:
    release = ElementTree.parse(METAINFO).getroot().find("releases/release")

    assert release is not None
    assert release.attrib["version"] == ggscope.__version__


def test_icons_are_what_their_script_draws(tmp_path: Path) -> None:
    from PySide6.QtGui import QImage

    done = subprocess.run(
        [sys.executable, ROOT / "packaging" / "make_icons.py", tmp_path],
        capture_output=True, text=True, check=False,
        env={**os.environ, "QT_QPA_PLATFORM": "offscreen"},
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    def below(folder: Path) -> list[Path]:
        return sorted(p.relative_to(folder) for p in folder.rglob("*.*g"))

    assert below(tmp_path) == below(DESKTOP / "hicolor")
    for path in below(tmp_path):
        committed, made = DESKTOP / "hicolor" / path, tmp_path / path
        if path.suffix == ".svg":
            assert committed.read_bytes() == made.read_bytes()
            continue
        pictures = [QImage(str(one)) for one in (committed, made)]
        size = int(path.parts[0].partition("x")[0])
        for picture in pictures:
            assert (picture.width(), picture.height()) == (size, size)
            assert picture.pixelColor(0, 0).alpha() < 128, "corners are empty"
        points = [
            (x * size // 16, y * size // 16) for x in range(16) for y in range(16)
        ]
        for x, y in points:
            one, other = (picture.pixelColor(x, y) for picture in pictures)
            away = [
                abs(a - b) for a, b in zip(one.getRgb(), other.getRgb(), strict=True)
            ]
            # Versions of Qt smooth edges differently.
            assert max(away) <= 40, (path, x, y)


def test_desktop_entry_is_valid() -> None:
    checked = subprocess.run(
        [tool("desktop-file-validate"), ENTRY],
        capture_output=True,
        text=True,
        check=False,
    )
    assert (checked.returncode, checked.stdout) == (0, "")


def test_metainfo_is_valid() -> None:
    checked = subprocess.run(
        [tool("appstreamcli"), "validate", "--no-net", METAINFO],
        capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert checked.returncode == 0, checked.stdout


def test_database_of_types_takes_the_declaration(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    packages.mkdir()
    shutil.copy(TYPES, packages)

    made = subprocess.run(
        [tool("update-mime-database"), tmp_path],
        capture_output=True, text=True, check=False,
    )  # fmt: skip

    assert made.returncode == 0, made.stderr
    assert "ggscope" not in made.stderr
    assert "application/x-ggmlviz:*.ggmlviz" in (tmp_path / "globs").read_text()
