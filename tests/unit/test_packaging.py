"""What goes into the packages is what the program needs, under one name and version."""

import plistlib
import re
import struct
import subprocess
import sys
import tomllib
from functools import cache
from pathlib import Path
from typing import Any

import pytest

import ggscope
from ggscope.assets import APPLICATION_ID
from ggscope.readers.registry import infos
from packaging_scripts import PACKAGING, script
from support import ROOT


@cache
def imported() -> subprocess.CompletedProcess[str]:
    """Import all that the program may import, without what the bundle leaves out."""
    return subprocess.run(
        [sys.executable, str(PACKAGING / "bundle" / "imports.py")],
        capture_output=True, text=True, timeout=100, check=False,
    )  # fmt: skip


@cache
def qt_folder() -> Path:
    import PySide6

    return Path(PySide6.__path__[0])


def needed(path: Path) -> set[str]:
    return set(script("bundle/contents.py").linked_by(path))


def bundled_plugins() -> list[Path]:
    contents = script("bundle/contents.py")
    folder = qt_folder() / "Qt" / "plugins"
    names = [path.relative_to(folder.parents[2]) for path in folder.glob("*/*.so")]
    return [folder.parents[2] / n for n in names if contents.is_kept(n.as_posix())]


def test_packaging_shadows_no_package() -> None:
    assert not (PACKAGING / "__init__.py").exists()


def test_qt_modules_of_the_bundle_are_those_that_are_imported() -> None:
    contents = script("bundle/contents.py")

    qt = {n for n in imported().stdout.split() if n.startswith("PySide6.Qt")}

    assert qt == {f"PySide6.{name}" for name in contents.QT_MODULES}


def test_program_imports_nothing_that_the_bundle_leaves_out() -> None:
    assert imported().stderr == ""
    assert imported().returncode == 0
    names = set(imported().stdout.split())
    assert {"ggscope.views.registry", "ggscope_capture.models", "gguf"} <= names
    assert not names & {"yaml._yaml", "pandas", "pyarrow"}


def test_modules_of_a_bundle_are_found_by_their_files() -> None:
    contents = script("bundle/contents.py")

    modules = contents.modules_of(
        [
            "numpy/linalg/_umath_linalg.cpython-311-x86_64-linux-gnu.so",
            "python3.11/lib-dynload/_json.cpython-311-x86_64-linux-gnu.so",
            "python3.11/lib-dynload/zlib.abi3.so",
            "PySide6/QtCore.abi3.so",
            "ggscope/resources/docs/plugin-example.py",
            "libQt6Core.so.6",
        ]
    )

    assert modules == {"numpy.linalg._umath_linalg", "_json", "zlib", "PySide6.QtCore"}


@pytest.mark.skipif(sys.platform != "linux", reason="reads ELF files")
def test_qt_libraries_of_the_bundle_are_those_that_are_linked_to() -> None:
    contents = script("bundle/contents.py")
    modules = [qt_folder() / f"{name}.abi3.so" for name in contents.QT_MODULES]
    libraries = qt_folder() / "Qt" / "lib"
    expected: set[str] = set()
    fresh = set().union(*map(needed, [*modules, *bundled_plugins()]))
    while fresh - expected:
        expected |= fresh
        fresh = set().union(
            *(needed(libraries / n) for n in fresh if (libraries / n).is_file())
        )

    result = {contents.qt_library(Path(name)) for name in expected} - {""}

    assert result == contents.QT_LIBRARIES


@pytest.mark.skipif(sys.platform != "linux", reason="plugins differ")
def test_plugins_of_the_list_exist() -> None:
    contents = script("bundle/contents.py")

    pairs = {(p.parent.name, p.stem.removeprefix("lib")) for p in bundled_plugins()}

    listed = {(folder, n) for folder, names in contents.PLUGINS.items() for n in names}
    assert listed - pairs == {("platforms", "qcocoa"), ("styles", "qmacstyle")}
    for vital in ("qxcb", "qwayland", "qoffscreen"):
        assert ("platforms", vital) in pairs


@pytest.mark.parametrize(
    ("name", "is_kept"),
    [
        ("PySide6/Qt/qml/QtQuick/libqtquick2plugin.so", False),
        ("PySide6/Qt/translations/qtbase_de.qm", False),
        ("PySide6/Qt/lib/libQt6Quick.so.6", False),
        ("libQt6Quick.so.6", False),
        ("PySide6/QtDesigner.abi3.so", False),
        ("PySide6/Qt/plugins/platforms/libqvnc.so", False),
        ("libEGL.so.1", False),
        ("libstdc++.so.6", False),
        ("PySide6/Qt/lib/libQt6Core.so.6", True),
        ("PySide6/Qt/plugins/platforms/libqxcb.so", True),
        ("PySide6/Qt/plugins/imageformats/libqsvg.so", True),
        ("PySide6/QtCore.abi3.so", True),
        ("libxcb-cursor.so.0", True),
        ("ggscope/resources/docs/__pycache__/plugin-example.cpython-311.pyc", False),
        ("ggscope/native/_native.so", True),
        ("ggscope/resources/samples/llama.ggmlviz", True),
        ("PySide6/Qt/lib/QtQuick.framework/Versions/A/QtQuick", False),
        ("PySide6/Qt/lib/QtGui.framework/Versions/A/QtGui", True),
    ],
)
def test_what_is_kept(name: str, *, is_kept: bool) -> None:
    assert script("bundle/contents.py").is_kept(name) is is_kept


def icu_package(tables: dict[str, bytes]) -> bytes:
    """Return a package of ICU's data as genccode lays it out."""
    head = struct.pack("<HBB", 32, 0xDA, 0x27) + b"\x14\0\0\0\0\0\2\0" + b"CmnD"
    head = head.ljust(32, b"\0")
    names = b"".join(f"icudt73l/{name}\0".encode() for name in tables)
    at = 4 + 8 * len(tables)
    begin = -(-(at + len(names)) // 16) * 16
    toc, body = struct.pack("<I", len(tables)), b""
    for name, content in tables.items():
        toc += struct.pack("<II", at, begin + len(body))
        at += len(f"icudt73l/{name}") + 1
        body += content.ljust(-(-len(content) // 16) * 16, b"\0")
    return head + (toc + names).ljust(begin, b"\0") + body


def test_icu_keeps_what_sorts_and_nothing_else() -> None:
    icu = script("bundle/icu.py")
    tables = {"cnvalias.icu": b"a" * 20, "coll/root.res": b"b" * 33,
              "coll/zh.res": b"c", "curr/de.res": b"d" * 100, "de.res": b"e" * 7,
              "ibm-1047.cnv": b"f" * 5, "nfkc.nrm": b"g" * 16}  # fmt: skip

    result = icu.trimmed(icu_package(tables))

    values = {name: tables[name] for name in tables if icu.is_kept(name)}
    assert list(values) == ["cnvalias.icu", "coll/root.res", "coll/zh.res", "nfkc.nrm"]
    whole = icu_package(values)
    assert len(result) == len(whole)
    assert result.replace(b"\xaa", b"\0") == whole


def test_icu_refuses_other_data() -> None:
    with pytest.raises(ValueError, match="no data of ICU"):
        script("bundle/icu.py").trimmed(b"\0" * 64)


def test_version_is_one() -> None:
    document = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))

    assert "version" in document["project"]["dynamic"]
    assert (ROOT / document["tool"]["hatch"]["version"]["path"]).samefile(
        ggscope.__file__
    )
    assert script("package.py").version() == ggscope.__version__
    assert ggscope.__version__ == script("macos/info.py").VERSION


def test_version_has_a_section_of_the_changelog() -> None:
    changelog = (ROOT / "CHANGELOG.md").read_text("utf-8")

    assert script("release_notes.py").section(changelog, ggscope.__version__)


def test_home_page_is_one() -> None:
    import yaml

    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    home = project["urls"]["Homepage"]
    metainfo = ROOT / "resources" / "desktop" / f"{APPLICATION_ID}.metainfo.xml"
    citation = yaml.safe_load((ROOT / "CITATION.cff").read_text("utf-8"))
    named = re.findall(r"https://ggscope[^<\s]*", metainfo.read_text("utf-8"))

    assert script("package.py").home_page() == home
    assert f"site_url: {home}/\n" in (ROOT / "mkdocs.yml").read_text("utf-8")
    assert (citation["url"], citation["version"]) == (home, ggscope.__version__)
    assert all(url == home or url.startswith(f"{home}/") for url in named)
    assert f'<url type="homepage">{home}</url>' in metainfo.read_text("utf-8")
    assert all(url.startswith(home) for url in project["urls"].values())
    # Reversed it is the beginning of the application id, which stores verify.
    domain = home.removeprefix("https://")
    assert APPLICATION_ID.startswith(".".join(reversed(domain.split("."))) + ".")


def test_readme_of_the_package_has_absolute_links_only() -> None:
    links = script("readme_links.py")
    text = "[a](LICENSE) [b](resources/docs/views/graph.md) [c](https://x.org/y) "
    text += "![d](resources/docs/pictures/p.png) [e](CONTRIBUTING.md) [f](#g)"

    assert links.with_absolute_links(text, "https://h") == (
        "[a](https://h/license.html) [b](https://h/views/graph.html) "
        "[c](https://x.org/y) ![d](https://h/pictures/p.png) "
        "[e](https://h/contributing.html) [f](#g)"
    )


def test_application_id_is_one() -> None:
    import yaml

    flatpak = PACKAGING / "linux" / f"{APPLICATION_ID}.yml"
    manifest = yaml.safe_load(flatpak.read_text("utf-8"))

    assert manifest["app-id"] == APPLICATION_ID
    assert script("package.py").application_id() == APPLICATION_ID
    assert script("macos/info.py").APPLICATION_ID == APPLICATION_ID


def test_info_plist_shows_types_that_it_opens() -> None:
    info = script("macos/info.py")

    data = plistlib.loads(plistlib.dumps(info.plist()))

    exported, imported = (
        {one["UTTypeIdentifier"]: one for one in data[f"UT{kind}TypeDeclarations"]}
        for kind in ("Exported", "Imported")
    )
    documents = data["CFBundleDocumentTypes"]
    ranks = {t: d["LSHandlerRank"] for d in documents for t in d["LSItemContentTypes"]}
    assert data["CFBundleIdentifier"] == APPLICATION_ID
    assert {t for t in ranks if not t.startswith("public.")} == {*exported, *imported}
    assert [ranks[name] for name in exported] == ["Owner"]
    # What belongs to everybody is offered, never claimed.
    assert {rank for t, rank in ranks.items() if t not in exported} == {"Alternate"}
    assert {d["CFBundleTypeRole"] for d in documents} == {"Viewer"}
    known = {suffix.lstrip(".") for one in infos() for suffix in one.suffixes}
    values = {
        suffix
        for one in (*exported.values(), *imported.values())
        for suffix in one["UTTypeTagSpecification"]["public.filename-extension"]
    }
    values |= {s for one in documents for s in one.get("CFBundleTypeExtensions", ())}
    assert values <= known
    types = (ROOT / "resources" / "desktop" / f"{APPLICATION_ID}.xml").read_text()
    for one in (*exported.values(), *imported.values()):
        for mime in one["UTTypeTagSpecification"]["public.mime-type"]:
            assert f'"{mime}"' in types


def test_entitlements_are_a_property_list() -> None:
    data = plistlib.loads((PACKAGING / "macos" / "entitlements.plist").read_bytes())

    assert all(value is True for value in data.values())


def test_icons_of_the_disk_image_exist() -> None:
    text = (PACKAGING / "macos" / "build.sh").read_text("utf-8")
    (sizes,) = re.findall(r"for size in ([\d ]+)", text)
    for size in sizes.split():
        icon = f"hicolor/{size}x{size}/apps/{APPLICATION_ID}.png"
        assert (ROOT / "resources" / "desktop" / icon).is_file()


def test_desktop_files_go_where_their_document_says() -> None:
    package = script("package.py")
    source = ROOT / "resources" / "desktop"
    table = dict(
        re.findall(r"\| `([^`]+)`.*\| `([^`]+)` \|", (source / "README.md").read_text())
    )

    for path in source.iterdir():
        if path.name != "README.md":
            name = path.name + ("/" if path.is_dir() else "")
            one = next(path.rglob("*.png")) if path.is_dir() else path
            result = package.place_of(one.relative_to(source)).as_posix()
            assert result.startswith(table.pop(name))
    assert not table


def test_packages_ask_for_what_the_bundle_takes_from_the_system() -> None:
    contents = script("bundle/contents.py")

    debian = list(contents.dependencies(["libEGL.so.1", "libGL.so.1", "libc.so.6"], 0))
    fedora = list(contents.dependencies(["libxcb.so.1", "libxcb-shm.so.0"], 1))

    assert debian == ["libc6", "libegl1", "libgl1"]
    assert fedora == ["libxcb"]


@pytest.mark.parametrize("name", ["linux/control", "linux/ggscope.spec.in"])
def test_templates_are_filled_whole(name: str) -> None:
    package = script("package.py")
    matches = re.findall(r"@([A-Z]+)@", (PACKAGING / name).read_text("utf-8"))

    text = package.filled(PACKAGING / name, **{word.lower(): "x" for word in matches})

    assert "@" not in text.replace("<ggscope@ggscope.org>", "")
    with pytest.raises(SystemExit, match="asks for @VERSION@"):
        package.filled(PACKAGING / name, summary="x")


def test_scripts_are_programs_that_parse() -> None:
    scripts = [*PACKAGING.rglob("*.sh")]

    assert len(scripts) >= 7
    for path in scripts:
        assert path.stat().st_mode & 0o111, path.name
        shell = path.read_text("utf-8").splitlines()[0].rpartition("/")[2]
        subprocess.run([shell, "-n", str(path)], check=True)


WORKFLOWS = sorted((ROOT / ".github" / "workflows").glob("*.yml"))
RUNNERS = {"ubuntu-24.04", "ubuntu-24.04-arm", "macos-15", "macos-15-intel"}
"""Runners that GitHub has, with a version: `latest` changes under a release."""


def jobs_of(path: Path) -> dict[str, Any]:
    import yaml

    jobs: dict[str, Any] = yaml.safe_load(path.read_text("utf-8"))["jobs"]
    return jobs


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_workflow_calls_what_exists(path: Path) -> None:
    text = path.read_text("utf-8")
    makefile = (ROOT / "Makefile").read_text("utf-8")

    called = re.findall(r"\bpackaging/[\w/.-]+", text)
    called += re.findall(r"uses: \./(\S+)", text)

    assert [name for name in called if not (ROOT / name).is_file()] == []
    for target in re.findall(r"^(?:.*run:)? +make ([\w-]+)", text, re.M):
        assert f"\n{target}:" in makefile


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_workflow_runs_on_runners_that_are_there_and_after_its_needs(
    path: Path,
) -> None:
    jobs = jobs_of(path)

    for job in jobs.values():
        matrix = job.get("strategy", {}).get("matrix", {})
        listed = [*matrix.get("runner", ()), job.get("runs-on", "ubuntu-24.04")]
        listed += [one["runner"] for one in matrix.get("include", ())]
        assert {name for name in listed if "${{" not in name} <= RUNNERS
        needs = job.get("needs", [])
        assert set([needs] if isinstance(needs, str) else needs) <= set(jobs)


@pytest.mark.parametrize("path", WORKFLOWS, ids=lambda p: p.stem)
def test_actions_of_a_workflow_are_pinned_by_commit(path: Path) -> None:
    used = re.findall(r"uses: ([^.\s]\S+)(.*)", path.read_text("utf-8"))

    for action, comment in used:
        assert re.fullmatch(r"[\w-]+/[\w-]+@[0-9a-f]{40}", action)
        assert re.fullmatch(r" # v\d+\.\d+\.\d+", comment)


def test_release_is_drafted_after_tests_and_all_packages() -> None:
    jobs = jobs_of(ROOT / ".github" / "workflows" / "release.yml")

    others = set(jobs) - {"draft"}
    assert set(jobs["draft"]["needs"]) == others
    assert jobs["tests"]["uses"] == "./.github/workflows/ci.yml"
    assert jobs["draft"]["permissions"]["attestations"] == "write"
    assert all("tests" in jobs[name]["needs"] for name in ("linux", "macos"))


def test_notes_of_a_release_are_its_section_of_the_changelog() -> None:
    notes = script("release_notes.py")
    text = "# C\n\n## [Unreleased]\n\n- a\n\n## [0.2.0] - 2026\n\n- b\n\n## [0.1.0]\n"

    assert notes.section(text, "0.2.0") == "- b"
    assert notes.section(text, "Unreleased") == "- a"
    for version in ("0.1.0", "0.3.0", "0.2"):
        with pytest.raises(ValueError, match="no section"):
            notes.section(text, version)


@pytest.mark.skipif(sys.platform != "linux", reason="plug-ins differ")
def test_bundle_without_a_display_plugin_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = script("package.py")
    monkeypatch.setattr(package, "BUNDLE", tmp_path)
    folder = tmp_path / "_internal" / "PySide6" / "Qt" / "plugins" / "platforms"
    folder.mkdir(parents=True)
    for name in ("qxcb", "qoffscreen", "qwayland-egl"):  # those of Qt 6.8
        (folder / f"lib{name}.so").touch()

    with pytest.raises(SystemExit, match="qwayland"):
        package.display_plugins()

    (folder / "libqwayland.so").touch()
    package.display_plugins()


def entry(*text: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run what the bundle begins with, as a program of some name."""
    code = (
        "import sys; path, *sys.argv = sys.argv[1:]; "
        "exec(compile(open(path).read(), path, 'exec'), {'__name__': '__main__'})"
    )
    return subprocess.run(
        [sys.executable, "-c", code, str(PACKAGING / "bundle" / "entry.py"), *text],
        capture_output=True, text=True, timeout=60, check=False, env=variables,
    )  # fmt: skip


def test_packages_bring_the_documents() -> None:
    documents = [Path(name).name for name in script("package.py").DOCUMENTS]

    assert {"README.md", "guide", "limits.md"} <= set(documents)
    assert len(documents) == len(set(documents))
    assert all((ROOT / name).exists() for name in script("package.py").DOCUMENTS)


def test_bundle_is_both_commands() -> None:
    viewer = entry("/usr/bin/ggscope", "--version")
    capture = entry("/usr/bin/ggscope-capture", "--help")
    module = entry("/usr/bin/ggscope", "-m", "ggscope_capture", "--help")

    assert viewer.stdout.strip() == f"ggscope {ggscope.__version__}"
    assert "usage: ggscope-capture" in capture.stdout
    assert module.returncode == 0
    assert "rings" in module.stdout


def test_bundle_runs_no_modules_of_others() -> None:
    done = entry("ggscope", "-m", "pip", "install", "x")

    assert done.returncode == 2
    assert done.stderr == (
        "ggscope: pip is no part of this program. Install Python for it.\n"
    )


def test_bundle_keeps_its_libraries_from_other_programs() -> None:
    command = ("ggscope-capture", "run", "-o", "/nonexistent/x", "--", "env")

    result = entry(
        *command, PATH="/usr/bin:/bin", LD_LIBRARY_PATH="/bundle",
        LD_LIBRARY_PATH_ORIG="/mine",
    )  # fmt: skip
    without = entry(*command, PATH="/usr/bin:/bin", LD_LIBRARY_PATH="/bundle")

    assert "LD_LIBRARY_PATH=/mine" in result.stdout.splitlines()
    assert "LD_LIBRARY_PATH" not in without.stdout


@pytest.mark.parametrize(
    "path", sorted((ROOT / "packaging").glob("bench*.py")), ids=lambda p: p.name
)
def test_what_benches_import_is_there(path: Path) -> None:
    code = f"import sys; sys.path.insert(0, {str(path.parent)!r}); import {path.stem}"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True)

    assert done.returncode == 0, done.stderr


def test_folders_of_the_builder_are_those_of_one_machine_only() -> None:
    neutral = script("bundle/neutral.py")

    distinct = neutral.distinct(
        ["/usr", "/usr/local/", "/home/x", "/home/x/py/", "", "."]
    )

    assert distinct == ["/home/x/py", "/home/x"]


def test_libraries_are_rid_of_folders_and_nothing_in_them_moves() -> None:
    neutral = script("bundle/neutral.py")
    data = b"\x7fELF\0-L/home/x/3.11/lib:/home/x/3.11/lib64\0next\0/home/x/3.11\0\1"

    result = neutral.without_folders(data, ["/home/x/3.11"])

    assert result == (
        b"\x7fELF\0-L/usr////3.11/lib:/usr////3.11/lib64\0next\0/usr////3.11\0\1"
    )
    assert neutral.without_folders(b"/ab/c", ["/ab/c"]) == b"/ab/c"  # no room


def test_sysconfig_of_the_bundle_names_no_folder_of_the_builder(tmp_path: Path) -> None:
    neutral = script("bundle/neutral.py")
    folders = neutral.python_folders()

    (written,) = neutral.write_sysconfig(tmp_path).iterdir()

    text = written.read_text("utf-8")
    values: dict[str, dict[str, object]] = {}
    exec(text, values)
    assert values["build_time_vars"].keys() == neutral.build_values().keys()
    assert not [folder for folder in folders if folder in text]


def locked() -> dict[str, list[tuple[str, int]]]:
    """Return the versions of the lock file with their number of hashes, by name."""
    pins: dict[str, list[tuple[str, int]]] = {}
    for block in re.split(r"\n(?=[a-z])", script("package.py").LOCK.read_text("utf-8")):
        pin = re.match(r"([a-z0-9-]+)==(\S+)", block)
        if pin is not None:
            one = (pin[2], block.count("--hash=sha256:"))
            pins.setdefault(pin[1], []).append(one)
    return pins


def test_lock_has_a_pin_with_hashes_for_each_requirement() -> None:
    from packaging.requirements import Requirement
    from packaging.utils import canonicalize_name

    document = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))
    extras = document["project"]["optional-dependencies"]
    listed = [
        *document["project"]["dependencies"],
        *document["build-system"]["requires"],
    ]
    listed += [one for name in ("build", "sql") for one in extras[name]]
    pins = locked()

    for requirement in map(Requirement, listed):
        versions = pins.get(canonicalize_name(requirement.name), [])
        assert versions, f"{requirement} is not locked; run make lock"
        assert all(requirement.specifier.contains(v) for v, _ in versions), requirement
    assert [name for name, one in pins.items() if not all(n for _, n in one)] == []


def test_bundle_that_names_a_folder_of_the_builder_is_refused(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    package = script("package.py")
    monkeypatch.setattr(package, "BUNDLE", tmp_path)
    name = str(PACKAGING.parent).encode()
    inside = {"a/good.txt": b"/usr/lib", "a/bad.so": b"\0" + name + b"/lib\0"}
    monkeypatch.setattr(package, "_files_inside", lambda: iter(inside.items()))

    with pytest.raises(SystemExit, match=r"a/bad\.so"):
        package.no_trace_of_the_builder()

    inside.pop("a/bad.so")
    package.no_trace_of_the_builder()
