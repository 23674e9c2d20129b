"""Licence texts, list of third parties and SBOM of a finished bundle.

Called by packaging/package.py with the interpreter that the bundle was made with. Texts
come from the metadata of the wheels, from their source distribution where a wheel has
none, and from the documents of Debian's packages. Where there are no such packages
(macOS) the texts are taken from the folder GGSCOPE_LICENSE_TEXTS, which a build on
Debian has written.
"""

import fnmatch
import importlib.metadata
import json
import os
import platform
import re
import shutil
import subprocess
import sys
import tarfile
import tempfile
import uuid
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path

from components import COMPONENTS, OWN, Component

FOLDER = "licenses"
SBOM = "bom.cdx.json"
"""CycloneDX; the window's About dialog reads it."""
_COMMON = Path("/usr/share/common-licenses")
_IS_TEXT = re.compile(r"(licen[cs]e|copying|notice|copyright|authors)", re.IGNORECASE)
_METADATA = re.compile(r"^([\w.-]+)-[^-/]+\.dist-info/")


class UnlistedError(ValueError):
    """Files of the bundle belong to no component of the list."""


class NoTextError(ValueError):
    """The licence text of a component is not to be had here."""


@dataclass(frozen=True, slots=True)
class Part:
    """A component as it lies in the bundle."""

    component: Component
    version: str
    package: str
    """Package of the system that it comes from; "" = none."""


def component_of(name: str) -> Component | None:
    """Return the component that a path below _internal or ``module:NAME`` is of."""
    for one in COMPONENTS:
        if any(fnmatch.fnmatchcase(name, pattern) for pattern in one.files):
            return one
    return None


def present(names: Iterable[str]) -> list[Component]:
    """Return the components of a bundle's files and modules, in the list's order.

    Raises
    ------
    UnlistedError
        If some belong to none.
    """
    inside: set[str] = set()
    unlisted = []
    for name in sorted(names):
        if any(fnmatch.fnmatchcase(name, own) for own in OWN):
            continue
        one = _of_metadata(name) or component_of(name)
        if one is None:
            unlisted.append(name)
        else:
            inside.add(one.name)
    if unlisted:
        raise UnlistedError(
            "no component in packaging/bundle/components.py has:\n"
            + "\n".join(f"  {name}" for name in unlisted)
        )
    return [one for one in COMPONENTS if inside & {one.name, one.within}]


def _of_metadata(name: str) -> Component | None:
    metadata = _METADATA.match(name)
    if metadata is None:
        return None
    distribution = _normal(metadata[1])
    return next(
        (one for one in COMPONENTS if _normal(one.distribution) == distribution), None
    )


def _normal(name: str) -> str:
    return re.sub(r"[-_.]+", "-", name).lower()


def names_of(inside: Path, modules: Iterable[str]) -> set[str]:
    """Return what is in a bundle: files below _internal, modules of its archive.

    Modules of Python's own library are left out: they are Python.
    """
    files = {
        path.relative_to(inside).as_posix()
        for path in inside.rglob("*")
        if path.is_file()
    }
    tops = {name.partition(".")[0] for name in modules}
    return files | {f"module:{top}" for top in tops - sys.stdlib_module_names}


# -- versions and texts --------------------------------------------------------


def part_of(component: Component, files: Iterable[str]) -> Part:
    """Return a component with the version that is in the bundle; "" = not known."""
    if component.name == "Python":
        return Part(component, platform.python_version(), "")
    is_whole = any(name.startswith("module:") for name in component.files)
    if component.distribution and (is_whole or component.license.startswith("LGPL")):
        return Part(component, importlib.metadata.version(component.distribution), "")
    if component.packages or component.distribution:
        numbers = [re.search(r"\.so\.(\d[\d.]*)$", name) for name in files]
        version = next((match[1] for match in numbers if match), "")
        return Part(component, version if component.name == "ICU" else "", "")
    for name in files:
        package, version = _debian_owner(Path(name).name)
        if package:
            return Part(component, version, package)
    return Part(component, "", "")


def _debian_owner(file: str) -> tuple[str, str]:
    """Return name and version of the package that has a library; "" = none."""
    owner = _output("dpkg", "-S", f"*/{file}").partition(":")[0].splitlines()
    package = owner[0] if owner else ""
    version = _output("dpkg-query", "-W", "-f", "${Version}", package)
    return package, version if package else ""


def texts_of(part: Part, scratch: Path) -> dict[str, bytes]:
    """Return licence texts by file name.

    Raises
    ------
    NoTextError
        If there is none.
    """
    component = part.component
    texts: dict[str, bytes] = {}
    if component.name == "Python":
        texts |= _python_texts()
    elif component.distribution:
        is_whole = _normal(component.name) == _normal(component.distribution)
        texts |= _wheel_texts(component.distribution, with_parts=is_whole)
        if not texts and not component.texts:
            texts |= _source_texts(component.distribution, scratch)
    for package in (part.package, *component.packages):
        if package and not texts:
            texts |= _debian_texts(package, scratch)
    for name in component.texts:
        if (_COMMON / name).is_file():
            texts[f"{name}.txt"] = (_COMMON / name).read_bytes()
    needed = {f"{name}.txt" for name in component.texts}
    if not texts or needed - texts.keys():
        texts |= _texts_of_other_build(component)
    if not texts or needed - texts.keys():
        raise NoTextError(
            f"no licence text of {component.name} here; build on Debian, or let "
            "GGSCOPE_LICENSE_TEXTS be the folder _internal/licenses of such a build"
        )
    return texts


def slug(component: Component) -> str:
    """Return the name of the folder of a component's texts."""
    return re.sub(r"[^a-z0-9]+", "-", component.name.lower()).strip("-")


def _python_texts() -> dict[str, bytes]:
    minor = f"python3.{sys.version_info.minor}"
    candidates = (
        Path(sys.base_prefix) / "lib" / minor / "LICENSE.txt",
        Path(f"/usr/lib/{minor}/LICENSE.txt"),
        Path(f"/usr/share/doc/{minor}/copyright"),
        Path(f"/usr/share/doc/lib{minor}-stdlib/copyright"),
    )
    license_file = next((path for path in candidates if path.is_file()), None)
    return {"LICENSE.txt": license_file.read_bytes()} if license_file else {}


def _wheel_texts(distribution: str, *, with_parts: bool) -> dict[str, bytes]:
    """Return the texts of a wheel; those of parts of its sources only if asked for."""
    texts = {}
    for file in importlib.metadata.files(distribution) or ():
        is_metadata = file.parts[0].endswith(".dist-info")
        parts = [part for part in file.parts[1:] if part != "licenses"]
        if (
            is_metadata
            and _IS_TEXT.search(file.name)
            and (with_parts or len(parts) == 1)
        ):
            texts["-".join(parts)] = Path(str(file.locate())).read_bytes()
    return texts


def _source_texts(distribution: str, scratch: Path) -> dict[str, bytes]:
    version = importlib.metadata.version(distribution)
    folder = scratch / distribution
    _output(
        sys.executable, "-m", "pip", "download", "--quiet", "--no-deps", "--no-binary",
        ":all:", "--dest", str(folder), f"{distribution}=={version}",
    )  # fmt: skip
    texts = {}
    for archive in folder.glob("*.tar.gz"):
        with tarfile.open(archive) as packed:
            for member in packed:
                path = Path(member.name)
                content = packed.extractfile(member)
                if content and len(path.parts) == 2 and _IS_TEXT.search(path.name):
                    texts[path.name] = content.read()
    return texts


def _debian_texts(package: str, scratch: Path) -> dict[str, bytes]:
    """Return a package's copyright file, of the installed one or of the archive's."""
    installed = Path("/usr/share/doc") / package / "copyright"
    if installed.is_file():
        return {"copyright": installed.read_bytes()}
    folder = scratch / package
    folder.mkdir(exist_ok=True)
    _output("apt-get", "download", "-q", package, folder=folder)
    for archive in folder.glob("*.deb"):
        _output("dpkg-deb", "-x", str(archive), str(folder / "root"))
        path = folder / "root" / "usr" / "share" / "doc" / package / "copyright"
        if path.is_file():
            return {"copyright": path.read_bytes()}
    return {}


def _texts_of_other_build(component: Component) -> dict[str, bytes]:
    other = os.environ.get("GGSCOPE_LICENSE_TEXTS")
    folder = Path(other) / slug(component) if other else None
    if folder is None or not folder.is_dir():
        return {}
    return {path.name: path.read_bytes() for path in folder.iterdir()}


def _output(*command: str, folder: Path | None = None) -> str:
    """Return what a program prints; "" where it fails or is not there."""
    try:
        done = subprocess.run(
            command, capture_output=True, text=True, check=False, cwd=folder
        )
    except OSError:
        return ""
    return done.stdout.strip() if done.returncode == 0 else ""


# -- what is written -----------------------------------------------------------


def write(inside: Path, modules: Iterable[str], version: str) -> list[Part]:
    """Write texts, SBOM and list of third parties below _internal/licenses."""
    names = names_of(inside, modules)
    parts = [
        part_of(one, sorted(name for name in names if component_of(name) is one))
        for one in present(names)
    ]
    target = inside / FOLDER
    shutil.rmtree(target, ignore_errors=True)
    with tempfile.TemporaryDirectory() as scratch:
        for part in parts:
            folder = target / slug(part.component)
            folder.mkdir(parents=True)
            for name, text in texts_of(part, Path(scratch)).items():
                (folder / name).write_bytes(text)
    for metadata in inside.glob("*.dist-info/licenses"):
        shutil.rmtree(metadata)  # they are in the folders above now
    (target / SBOM).write_text(json.dumps(sbom(parts, version), indent=1) + "\n")
    (target / "THIRD-PARTY.txt").write_text(third_party(parts), "utf-8")
    return parts


def sbom(parts: Iterable[Part], version: str) -> dict[str, object]:
    """Return the bill of materials in the form of CycloneDX 1.6."""
    parts = list(parts)
    seconds = int(os.environ.get("SOURCE_DATE_EPOCH", "1000000000"))
    made = datetime.fromtimestamp(seconds, UTC).strftime("%Y-%m-%dT%H:%M:%SZ")
    listed = [_sbom_component(part) for part in parts]
    key = json.dumps([version, listed], sort_keys=True)
    return {
        "bomFormat": "CycloneDX",
        "specVersion": "1.6",
        "serialNumber": f"urn:uuid:{uuid.uuid5(uuid.NAMESPACE_URL, key)}",
        "version": 1,
        "metadata": {
            "timestamp": made,
            "component": {
                "type": "application", "bom-ref": "ggscope", "name": "ggscope",
                "version": version, "licenses": [{"license": {"id": "MIT"}}],
            },
        },
        "components": listed,
        "dependencies": [
            {"ref": "ggscope", "dependsOn": [slug(part.component) for part in parts]}
        ],
    }  # fmt: skip


def _sbom_component(part: Part) -> dict[str, object]:
    one = part.component
    listed: dict[str, object] = {
        "type": "library",
        "bom-ref": slug(one),
        "name": one.name,
        "licenses": [{"expression": one.license}],
        "externalReferences": [{"type": "website", "url": one.url}],
    }
    if part.version:
        listed["version"] = part.version
    if (
        part.version
        and one.distribution
        and _normal(one.name) == _normal(one.distribution)
    ):
        listed["purl"] = f"pkg:pypi/{_normal(one.distribution)}@{part.version}"
    elif part.package:
        listed["purl"] = f"pkg:deb/debian/{part.package}@{part.version}"
    if one.within:
        listed["description"] = f"compiled into {one.within}"
    return listed


def third_party(parts: Iterable[Part]) -> str:
    """Return the list of third parties as text."""
    return "".join(_lines(list(parts)))


def _lines(parts: list[Part]) -> Iterator[str]:
    yield "What ggscope is made of, beside itself (MIT, see LICENSE)\n\n"
    yield "The licence texts are in _internal/licenses, a folder for each. The same\n"
    yield f"list for programs is {SBOM} there (CycloneDX).\n\n"
    yield "Qt, PySide6 and shiboken6 (LGPL-3.0-only) lie as separate libraries in\n"
    yield "_internal/PySide6 and _internal/shiboken6. You may replace them by your\n"
    yield "own builds of the same version. Of libicudata only the tables for sorting\n"
    yield "are here.\n\n"
    width = max((len(part.component.name) for part in parts), default=0)
    for part in parts:
        one = part.component
        within = f", compiled into {one.within}" if one.within else ""
        yield f"{one.name:{width}}  {part.version or '-':14}  {one.license}{within}\n"
        yield f"{'':{width}}  {one.url}\n"


def license_expression(terms: Iterable[str]) -> str:
    """Return the licences of parts, and that of ggscope, as one expression."""
    others = {one for each in terms for one in each.split(" AND ")} - {"MIT"}
    return " AND ".join(["MIT", *sorted(others)])


def terms_of(bill: Path) -> list[str]:
    """Return the licence expressions of the components of an SBOM."""
    components = json.loads(bill.read_text("utf-8"))["components"]
    return [each["expression"] for one in components for each in one["licenses"]]
