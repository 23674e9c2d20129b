"""``ggscope --install-desktop``: double click without a package, and back again.

For programs that came as an archive, an AppImage or by pip. The files of
``resources/desktop`` go below the user's own data folder with the full path of this
program in them; what was written stands in a list there, by which
``--uninstall-desktop`` takes away exactly that.
"""

import contextlib
import hashlib
import json
import os
import re
import shutil
import subprocess
import sys
from argparse import Namespace
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path

from ggscope import assets
from ggscope.assets import APPLICATION_ID
from ggscope.atomic_write import make_folder, write_file
from ggscope.cli import output
from ggscope.cli.output import ERROR, GOOD, USAGE
from ggscope.errors import TraceError

LIST = Path("ggscope", "desktop-files.json")
"""What was installed, below the data folder."""
_FORM = 1
_ENTRY = f"applications/{APPLICATION_ID}.desktop"
_SANDBOX = Path("/.flatpak-info")
_PLAIN = re.compile(r"[\w@%+:,./-]+", re.ASCII)
"""Words of ``Exec=`` that need no quotes; some launchers do not know quotes at all."""
_TOOL_SECONDS = 60.0
_DATABASES = (
    (
        "mime",
        ("update-mime-database",),
        "shared-mime-info",
        "files are not known by their type",
        "mime.cache",
    ),
    (
        "applications",
        ("update-desktop-database", "-q"),
        "desktop-file-utils",
        "the program is not found for a type",
        "mimeinfo.cache",
    ),
)
"""Folder, what is run on it, its package, what is missing without it, what it makes."""
_MADE_BY_TOOLS = {
    "mime": (
        "aliases", "generic-icons", "globs", "globs2", "icons", "magic", "mime.cache",
        "subclasses", "treemagic", "types", "version", "XMLnamespaces",
    ),
    "applications": ("mimeinfo.cache",),
}  # fmt: skip


def run(arguments: Namespace) -> int:
    """Install or remove, and say what was done; return the exit code."""
    if arguments.files:
        output.complain("--install-desktop and --uninstall-desktop take no files.")
        return USAGE
    if sys.platform in ("darwin", "win32"):
        raise TraceError(
            "--install-desktop is for Linux desktops. On macOS the application "
            "registers itself."
        )
    if _SANDBOX.exists():
        raise TraceError(
            "the Flatpak registered ggscope with the desktop when it was installed; "
            "nothing is left to do."
        )
    data = data_home()
    if arguments.install_desktop:
        return install(data, assets.program())
    return uninstall(data)


def data_home() -> Path:
    """Return where the user's desktop looks for programs and types."""
    given = os.environ.get("XDG_DATA_HOME", "")
    # The specification has relative paths ignored.
    return Path(given) if os.path.isabs(given) else Path.home() / ".local" / "share"


def install(data: Path, command: tuple[str, ...]) -> int:
    """Write the files and bring the databases up to date; return the exit code."""
    contents, known = _contents(command), _read_list(data)
    foreign = [
        p for p in contents if _is_foreign(data / p, contents[p], p in known.files)
    ]
    for path in foreign:
        output.complain(
            f"{data / path} was not made by ggscope --install-desktop, and stays as it "
            "is. Remove it and install again."
        )
        del contents[path]
    _remove(data, {p: s for p, s in known.files.items() if p not in contents})
    folders = {*known.folders, *_missing_folders(data, [*contents, str(LIST)])}
    sums = {path: _sum(content) for path, content in contents.items()}
    # First the list: whatever happens then, all that is written can be taken away.
    _write_list(data, _Installed({**known.files, **sums}, sorted(folders)))
    for path, content in contents.items():
        make_folder((data / path).parent)
        write_file(data / path, content)
    _write_list(data, _Installed(sums, sorted(folders)))
    output.say(f"{len(contents)} files written below {data}.")
    output.say(f"{' '.join(command)} is what they start.")
    for line in _update(data):
        output.say(line)
    package = _package(data)
    if package is not None:
        output.say(
            f"{package} is there too, from a package for everybody; for you these "
            "files go before it."
        )
    return ERROR if foreign else GOOD


def uninstall(data: Path) -> int:
    """Remove what `install` wrote and nobody has changed; return the exit code."""
    known = _read_list(data)
    if not known.files:
        output.say(f"nothing was installed below {data}; nothing is removed.")
        return GOOD
    removed, changed = _remove(data, known.files)
    output.say(f"{removed} files removed below {data}.")
    for target in changed:
        output.say(f"{target} was changed since, and stays.")
    for line in _update(data, is_gone=True):
        output.say(line)
    with _explained(data / LIST):
        (data / LIST).unlink()
    _remove_folders(data, known.folders)
    return GOOD


def _contents(command: tuple[str, ...]) -> dict[str, bytes]:
    """Return what is to be installed, by the path below the data folder."""
    source = assets.path("desktop")
    places = {"desktop": _ENTRY, "thumbnailer": f"thumbnailers/{APPLICATION_ID}"}
    places["thumbnailer"] += ".thumbnailer"
    contents = {
        place: _with_program((source / f"{APPLICATION_ID}.{kind}").read_text(), command)
        for kind, place in places.items()
    }
    types = f"{APPLICATION_ID}.xml"
    contents[f"mime/packages/{types}"] = (source / types).read_bytes()
    icons = source / "hicolor"
    for path in sorted(icons.rglob(f"{APPLICATION_ID}.*")):
        contents[f"icons/hicolor/{path.relative_to(icons)}"] = path.read_bytes()
    return contents


def _with_program(text: str, arguments: tuple[str, ...]) -> bytes:
    """Return a key file that starts `arguments` instead of ``ggscope``."""
    # GLib looks for a program whose name has each per cent sign twice.
    if "%" in arguments[0] or not all(map(str.isprintable, arguments)):
        raise TraceError(
            f"{' '.join(arguments)} has characters in its path that a desktop entry "
            "cannot hold. Move the program to another folder."
        )
    command = " ".join(map(_exec_word, arguments)).replace("\\", "\\\\")
    lines = []
    for line in text.splitlines():
        key, _, value = line.partition("=")
        if key == "Exec":
            line = f"Exec={command}{value.removeprefix('ggscope')}"
        elif key == "TryExec":
            line = "TryExec=" + arguments[0].replace("\\", "\\\\")
        lines.append(line + "\n")
    return "".join(lines).encode("utf-8", "surrogateescape")


def _exec_word(word: str) -> str:
    """Return a word as ``Exec=`` wants it, before the escapes of all values."""
    word = word.replace("%", "%%")
    if _PLAIN.fullmatch(word):
        return word
    return '"' + re.sub(r'(["`$\\])', r"\\\1", word) + '"'


def _update(data: Path, *, is_gone: bool = False) -> Iterator[str]:
    """Bring the databases up to date; yield what was done and what could not be.

    `is_gone` : the files were removed; a database that was never made is no loss then.
    """
    for folder, (tool, *flags), package, loss, made in _DATABASES:
        if not (data / folder).is_dir():
            continue
        program = shutil.which(tool)
        if program is None and is_gone:
            if (data / folder / made).exists():
                yield (
                    f"{tool} is not installed: its entries for these files stay until "
                    f"it runs on {data / folder}. It is in the package {package}."
                )
            continue
        if program is None:
            yield (
                f"{tool} is not installed: until it has run, {loss}. Install the "
                f"package {package}, then run this command again."
            )
            continue
        yield _outcome(tool, [program, *flags, str(data / folder)])
    icons = data / "icons" / "hicolor"
    if not icons.is_dir():
        return
    tool = "gtk-update-icon-cache"
    program = shutil.which(tool)
    if program is not None and (icons / "icon-theme.cache").exists():
        yield _outcome(tool, [program, "-q", "-t", "-f", str(icons)])
    else:
        # A cache where there is none hides icons that others add later; desktops look
        # again when the folder is newer.
        os.utime(icons)


def _outcome(tool: str, command: list[str]) -> str:
    try:
        done = subprocess.run(
            command,
            capture_output=True,
            text=True,
            errors="replace",
            stdin=subprocess.DEVNULL,
            timeout=_TOOL_SECONDS,
            check=False,
        )
    except (OSError, subprocess.TimeoutExpired) as error:
        return f"{tool} failed: {error}."
    if done.returncode:
        last = done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"]
        return f"{tool} failed: {last[-1]}."
    return f"{tool} has run."


@dataclass(frozen=True, slots=True)
class _Installed:
    """What an installation wrote: files with the sums of their content, and folders."""

    files: Mapping[str, str] = field(default_factory=dict)
    folders: Sequence[str] = ()


def _read_list(data: Path) -> _Installed:
    """Return the list of an earlier installation; empty where there was none."""
    place = data / LIST
    try:
        text = json.loads(place.read_bytes())
        files, folders = dict(text["files"]), list(text["folders"])
    except FileNotFoundError:
        return _Installed()
    except (OSError, ValueError, TypeError, KeyError, RecursionError) as error:
        raise TraceError(
            f"{place} cannot be read as the list of what was installed. Remove it, and "
            "the files of ggscope beside it."
        ) from error
    if not all(map(_is_below, (*files, *folders))) or not all(map(_is_own, files)):
        raise TraceError(
            f"{place} names files that are not ggscope's; nothing is removed. Remove "
            "it."
        )
    return _Installed(files, folders)


def _is_below(path: object) -> bool:
    """Return whether `path` leads to something below the data folder."""
    return (
        isinstance(path, str)
        and path not in ("", ".")
        and not os.path.isabs(path)
        and ".." not in Path(path).parts
        and "\0" not in path
    )


def _is_own(path: str) -> bool:
    """Return whether a file has a name that only `install` gives."""
    return Path(path).name.startswith(f"{APPLICATION_ID}.")


def _write_list(data: Path, installed: _Installed) -> None:
    make_folder((data / LIST).parent)
    text = json.dumps({"ggscope": _FORM, **asdict(installed)}, indent=1)
    write_file(data / LIST, text.encode("ascii") + b"\n")


@contextlib.contextmanager
def _explained(path: Path) -> Iterator[None]:
    try:
        yield
    except OSError as error:
        reason = error.strerror or str(error)
        raise TraceError(f"{path} cannot be removed: {reason}.") from error


def _remove(data: Path, files: Mapping[str, str]) -> tuple[int, list[Path]]:
    """Remove files that are as they were written; return how many, and the others."""
    removed, changed = 0, []
    for path, written in files.items():
        target = data / path
        if not os.path.lexists(target):
            continue
        if target.is_symlink() or _sum_of(target) != written:
            changed.append(target)
            continue
        with _explained(target):
            target.unlink()
        removed += 1
    return removed, changed


def _missing_folders(data: Path, paths: Sequence[str]) -> set[str]:
    """Return the folders below `data` that have to be made for `paths`."""
    parents = {parent for path in paths for parent in Path(path).parents}
    return {str(p) for p in parents if p.parts and not (data / p).exists()}


def _remove_folders(data: Path, folders: Sequence[str]) -> None:
    """Remove folders that `install` made and that hold nothing of others."""
    for folder, names in _MADE_BY_TOOLS.items():
        if folder in folders and _holds_only(data / folder, names):
            for name in names:
                with _explained(data / folder / name):
                    (data / folder / name).unlink(missing_ok=True)
            below = [path for path in (data / folder).rglob("*") if path.is_dir()]
            _remove_empty(below)
    _remove_empty([data / folder for folder in folders])


def _remove_empty(folders: Sequence[Path]) -> None:
    """Remove those of these folders that are empty, or become so."""
    for folder in sorted(folders, key=lambda path: len(path.parts), reverse=True):
        if folder.is_dir() and not folder.is_symlink() and not any(folder.iterdir()):
            with _explained(folder):
                folder.rmdir()


def _holds_only(folder: Path, names: tuple[str, ...]) -> bool:
    """Return whether there are only these files in a folder, and empty folders."""
    return (
        folder.is_dir()
        and not folder.is_symlink()
        and all(
            path.parent == folder and path.name in names and not path.is_symlink()
            for path in folder.rglob("*")
            if path.is_symlink() or not path.is_dir()
        )
    )


def _package(data: Path) -> Path | None:
    """Return the entry of a package that is installed for everybody."""
    folders = os.environ.get("XDG_DATA_DIRS") or "/usr/local/share:/usr/share"
    for folder in folders.split(":"):
        package = Path(folder) / _ENTRY
        if folder and Path(folder) != data and package.is_file():
            return package
    return None


def _is_foreign(path: Path, content: bytes, is_listed: bool) -> bool:
    """Return whether something is at `path` that was not put there by `install`."""
    if path.is_symlink():
        return True
    return not is_listed and path.exists() and _sum_of(path) != _sum(content)


def _sum_of(path: Path) -> str:
    try:
        return _sum(path.read_bytes())
    except OSError:
        return ""


def _sum(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
