"""Everything in the bundle has an entry in the list of components."""

import json
import re
import sys
import tomllib
from pathlib import Path
from typing import Any

import pytest

from packaging_scripts import PACKAGING, script
from support import ROOT


@pytest.fixture
def licenses() -> Any:
    return script("bundle/licenses.py")


def bundle(tmp_path: Path, *names: str) -> Path:
    for name in names:
        path = tmp_path / "_internal" / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(b"x")
    return tmp_path / "_internal"


def test_library_without_an_entry_is_refused(licenses: Any, tmp_path: Path) -> None:
    known = ("libffi.so.8", "numpy/core.so", "ggscope/native/_native.so")
    inside = bundle(tmp_path, *known, "libnew.so.1", "libs/other.so")
    names = licenses.names_of(inside, ["os.path", "numpy.linalg", "fresh.module"])

    with pytest.raises(licenses.UnlistedError) as refused:
        licenses.present(names)

    listed = re.findall(r"^  (\S+)$", str(refused.value), re.MULTILINE)
    assert listed == ["libnew.so.1", "libs/other.so", "module:fresh"]


def test_metadata_of_a_distribution_belongs_to_its_component(licenses: Any) -> None:
    names = {"pyopengl-3.1.10.dist-info/METADATA", "PyYAML-6.0.dist-info/METADATA"}

    assert [one.name for one in licenses.present(names)] == ["PyOpenGL", "PyYAML"]


def test_what_is_compiled_into_qt_is_there_with_it(licenses: Any) -> None:
    with_qt = {one.name for one in licenses.present({"PySide6/Qt/lib/libQt6Core.so"})}

    assert {"Qt", "HarfBuzz", "PCRE2", "libpng", "zlib"} <= with_qt
    assert not licenses.present(set())


def test_each_package_of_the_bundle_has_an_entry(licenses: Any) -> None:
    spec = (PACKAGING / "bundle" / "ggscope.spec").read_text("utf-8")
    block = re.search(r"packages = \[(.*?)\]", spec, re.DOTALL)
    assert block is not None
    bundled = set(re.findall(r'"([\w-]+)"', block[1])) - {"ggscope"}
    project = tomllib.loads((ROOT / "pyproject.toml").read_text("utf-8"))["project"]
    needed = {re.split(r"[<>=]", one)[0] for one in project["dependencies"]}

    entries = {one.distribution for one in licenses.COMPONENTS}

    assert (bundled | needed) - entries == set()


def test_entries_are_distinct_and_can_be_found(licenses: Any) -> None:
    entries = licenses.COMPONENTS
    names = [one.name for one in entries]

    assert len(set(map(licenses.slug, entries))) == len(names)
    for one in entries:
        assert one.url.startswith(("https://", "http://"))
        assert one.files or one.within in names
        first = [name.replace("*", "0") for name in one.files]
        assert all(licenses.component_of(name) for name in first)


def test_written_bundle_has_texts_bill_and_list(
    licenses: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = tmp_path / "other"
    for name in ("libffi", "icu", "gguf"):
        (other / name).mkdir(parents=True)
        (other / name / "copyright").write_text(f"terms of {name}")
    monkeypatch.setenv("GGSCOPE_LICENSE_TEXTS", str(other))
    monkeypatch.setattr(licenses, "_output", lambda *_, **__: "")  # no dpkg, no network
    monkeypatch.setattr(licenses, "_debian_texts", lambda *_: {})
    inside = bundle(tmp_path, "libffi.so.8", "PySide6/Qt/lib/libicudata.so.73.2")
    monkeypatch.setattr(
        licenses, "COMPONENTS", [o for o in licenses.COMPONENTS if o.within == ""
                                 and o.name in ("ICU", "libffi", "gguf")]
    )  # fmt: skip

    parts = licenses.write(inside, ["gguf.reader", "json"], "1.2.3")

    folder = inside / "licenses"
    bill = json.loads((folder / "bom.cdx.json").read_text("utf-8"))
    assert [one["name"] for one in bill["components"]] == ["ICU", "gguf", "libffi"]
    assert bill["components"][0]["version"] == "73.2"
    assert bill["metadata"]["component"]["version"] == "1.2.3"
    assert bill["dependencies"][0]["dependsOn"] == ["icu", "gguf", "libffi"]
    assert (folder / "libffi" / "copyright").read_text() == "terms of libffi"
    assert list((folder / "gguf").iterdir())
    listed = (folder / "THIRD-PARTY.txt").read_text("utf-8")
    assert all(part.component.license in listed for part in parts)
    expression = licenses.license_expression(licenses.terms_of(folder / "bom.cdx.json"))
    assert expression == "MIT AND Unicode-3.0"


def test_component_without_a_text_is_refused(
    licenses: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("GGSCOPE_LICENSE_TEXTS", raising=False)
    monkeypatch.setattr(licenses, "_output", lambda *_, **__: "")

    with pytest.raises(licenses.NoTextError, match="libffi"):
        licenses.write(bundle(tmp_path, "libffi.so.8"), [], "1")


@pytest.mark.skipif(
    not Path("/usr/share/common-licenses/LGPL-3").is_file(), reason="no Debian"
)
def test_qt_comes_with_the_texts_of_lgpl_and_gpl(licenses: Any, tmp_path: Path) -> None:
    (qt,) = (one for one in licenses.COMPONENTS if one.name == "Qt")

    texts = licenses.texts_of(licenses.Part(qt, "6.11", ""), tmp_path)

    assert b"GNU LESSER GENERAL PUBLIC LICENSE" in texts["LGPL-3.txt"]
    assert b"GNU GENERAL PUBLIC LICENSE" in texts["GPL-3.txt"]


def test_python_of_this_machine_has_a_licence_text(
    licenses: Any, tmp_path: Path
) -> None:
    (python,) = (one for one in licenses.COMPONENTS if one.name == "Python")

    part = licenses.part_of(python, ["libpython3.11.so.1.0"])

    assert part.version == sys.version.split()[0].rstrip("+")
    assert licenses.texts_of(part, tmp_path)
