"""The one way in which this program writes files: whole, or not at all.

A file is written under another name in the same folder, brought to the disk, and
renamed. Whoever looks, at whatever moment and after whatever crash, finds the old
content or the new one. What may be in the way is treated alike by all commands:

=====================  ==========================================================
nothing                the file appears, with the permissions that the umask leaves
a file                 replaced if the caller may; its permissions and owner stay
a link                 stays; the file it leads to is replaced if the caller may
a pipe or device       the content is written to it, if the caller may replace
a folder, socket, …    refused
=====================  ==========================================================

The names of temporary files are short, whatever the target's name is, and each is
locked by the process that writes it: what a killed process left behind is known by
its name and its free lock, and the next writing in that folder takes it away.
"""

import atexit
import contextlib
import errno
import fcntl
import logging
import os
import re
import secrets
import stat
import time
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path

from ggscope.errors import WriteError

logger = logging.getLogger(__name__)

PATIENCE_S = 5.0
"""So long `locked` waits for other processes, which need milliseconds."""
_OURS = re.compile(r"\.ggscope-[0-9a-f]{16}\.(tmp|set)")
_POLL_S = 0.005
_BUFFER_BYTES = 1 << 20
_mine: set[Path] = set()
"""What this process has made and not yet renamed or removed."""
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
"""What file systems without hard links answer."""
_NO_SYNC = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}
"""What file systems answer that cannot be told to write to the disk."""
_ROOM = "Make room or choose another folder."
_ELSEWHERE = "Choose another folder."
_REASONS = {
    errno.ENOSPC: ("the disk is full", _ROOM),
    errno.EDQUOT: ("your share of this disk is used up", _ROOM),
    errno.EFBIG: ("it would be larger than files may be here", _ELSEWHERE),
    errno.EROFS: ("the disk can only be read", _ELSEWHERE),
    errno.EACCES: ("you may not write there", _ELSEWHERE),
    errno.EPERM: ("you may not write there", _ELSEWHERE),
    errno.ENOENT: ("there is no such folder", "Make it, or choose another folder."),
    errno.ENOTDIR: ("a part of its path is no folder", "Check the path."),
    errno.EISDIR: ("this is a folder", "Give a name inside it."),
    errno.ENAMETOOLONG: ("the name is too long", "Choose a shorter name."),
    errno.ELOOP: ("the links lead in a circle", "Choose another name."),
    errno.EIO: ("the disk reports an error", _ELSEWHERE),
    errno.ENXIO: ("no program reads this pipe", "Start its reader first."),
    errno.EPIPE: (
        "the process reading this pipe has exited",
        "Start its reader first.",
    ),
}


@dataclass(frozen=True, slots=True)
class _Place:
    """Where a target's content goes: `path`, and what is there now, if anything."""

    path: Path
    status: os.stat_result | None
    is_stream: bool = False


def write_file(
    target: Path | str,
    content: bytes | Iterable[bytes],
    *,
    overwrite: bool = True,
    follows_links: bool = True,
) -> None:
    """Write a file whole or not at all.

    Parameters
    ----------
    content : the bytes, or pieces of them, which are asked for one at a time.
    overwrite : whether what is there may be replaced; see the module.
    follows_links : whether a link in its place may lead to another file; else it is
        refused.

    Raises
    ------
    WriteError
        If the file cannot be written. What was there is as it was.

    Notes
    -----
    Whatever `content` raises passes, and leaves no trace either. Other names of a
    file (hard links) keep the old content.
    """
    target = Path(target)
    pieces = (content,) if isinstance(content, bytes) else content
    place = _place(target, overwrite=overwrite)
    if not follows_links and place.path != target:
        raise WriteError(f"{target} cannot be written: it is a link.", path=target)
    if place.is_stream:
        _pour(place.path, pieces, target)
        return
    folder = place.path.parent
    recover(folder)
    with _temporary(target, folder, place.status) as (temporary, handle):
        _fill(handle, pieces, target, place.status)
        with _explained(target, place.status):
            _sync(handle)
            _put(temporary, place.path, target, overwrite=overwrite)
            _sync_folder(folder)


def write_files(
    folder: Path | str,
    files: Iterable[tuple[str, Iterable[bytes]]],
    *,
    overwrite: bool = True,
) -> None:
    """Write a set of files: all of them or none.

    Parameters
    ----------
    folder : made, with those above it, where it is missing.
    files : names in the folder and pieces of content.
    overwrite : whether files that are there may be replaced.

    Raises
    ------
    WriteError
        If one cannot be written. All that was there is as it was.

    Notes
    -----
    A folder that is missing appears by one renaming, with all files in it. In one
    that is there, all files are written and synced in a hidden folder, which then gets
    the name of a complete set; from there they are renamed one by one. Where a
    process is killed in between, the next call for that folder puts the rest in
    place: see `recover`. A link or a pipe cannot be one of the files.
    """
    folder = Path(folder)
    is_new = not os.path.lexists(folder)
    home = folder.parent if is_new else folder
    made = _make_folders(home)
    try:
        recover(home, finishes=not is_new, overwrite=overwrite)
        with _staging(folder, home) as staging:
            names = _stage(staging, files, folder)
            if is_new:
                with _explained(folder):
                    staging.rename(folder)
                    _sync_folder(home)
            else:
                _put_set(staging, names, folder, overwrite=overwrite)
    except BaseException:
        _remove_empty(made)  # as it was: not even an empty folder
        raise


def check_target(target: Path | str, *, overwrite: bool) -> None:
    """Refuse a target before long work for it: raises WriteError as `write_file`."""
    target = Path(target)
    place = _place(target, overwrite=overwrite)
    if not place.is_stream:
        with _explained(target, place.status):
            _check_folder(place.path.parent)


def check_folder(folder: Path | str) -> None:
    """Refuse a folder that could not be made or written to; raises WriteError."""
    here = Path(folder)
    while not os.path.lexists(here):
        here = here.parent
    with _explained(Path(folder)):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(folder)  # raises where the whole path is too long
        _check_folder(here)


def make_folder(folder: Path | str) -> None:
    """Make a folder and those above it; raises WriteError."""
    _make_folders(Path(folder))


def set_aside(path: Path) -> Path:
    """Rename a broken file to the first of ``*.broken``, ``*.broken-2`` that is free.

    Raises
    ------
    WriteError
        If the folder may not be written.
    """
    number = 1
    while True:
        aside = path.with_name(
            f"{path.name}.broken{f'-{number}' if number > 1 else ''}"
        )
        if not os.path.lexists(aside):
            break
        number += 1
    with _explained(aside):
        path.rename(aside)
    return aside


def recover(folder: Path, *, finishes: bool = False, overwrite: bool = False) -> None:
    """Take away what killed processes of this program left in a folder.

    Parameters
    ----------
    finishes : whether complete sets are put in place first (see `write_files`); else
        they stay. Files that are there are replaced only if `overwrite`, and never
        those that are newer than the set.
    """
    try:
        with os.scandir(folder) as entries:
            leftovers = [entry.name for entry in entries if _OURS.fullmatch(entry.name)]
    except OSError:
        return
    for name in leftovers:
        path = folder / name
        with contextlib.suppress(OSError), _abandoned(path) as is_abandoned:
            if not is_abandoned:
                continue
            if name.endswith(".set"):
                if finishes:
                    _finish(path, folder, overwrite=overwrite)
            else:
                _remove(path)
            logger.info("%s, left by a killed process, is dealt with", path)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Keep other processes of this program out while files of a folder are changed.

    For content that is read, changed and written again. File systems without locks
    let everybody in.

    Raises
    ------
    WriteError
        If another process stays in for `PATIENCE_S`.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # a folder that one may write to but not list
        yield
        return
    until = time.monotonic() + PATIENCE_S
    try:
        while not _lock(handle):
            if time.monotonic() > until:
                raise WriteError(
                    f"{folder} is in use by another ggscope, which does not go on. "
                    "End that one and try again."
                )
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(handle)


def _place(target: Path, *, overwrite: bool) -> _Place:
    """Return where the content of `target` goes; raises WriteError if nowhere."""
    with _explained(target):
        try:
            here = os.lstat(target)
        except FileNotFoundError:
            return _Place(target, None)
        is_link = stat.S_ISLNK(here.st_mode)
        there: os.stat_result | None = here
        if is_link:
            try:
                there = os.stat(target)
            except FileNotFoundError:  # leads to where nothing is yet
                there = None
        if there is not None and stat.S_ISDIR(there.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not overwrite:
            raise _present(target, here)
        path = Path(os.path.realpath(target)) if is_link else target
        if there is None:
            return _Place(path, None)
        if _is_stream(there):
            return _Place(target, there, is_stream=True)
        if not stat.S_ISREG(there.st_mode):
            raise WriteError(
                f"{target} cannot be written: it is neither a file nor a pipe. Choose "
                "another name.",
                path=target,
            )
        if _is_own_output(there):
            raise WriteError(
                f"{target} is where the output of this command goes. Choose another "
                "name.",
                path=target,
            )
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return _Place(path, there)


def _is_stream(status: os.stat_result) -> bool:
    return stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)


def _check_folder(folder: Path) -> None:
    """Raise the OSError that writing a file in a folder would."""
    number = 0
    if not os.path.lexists(folder):
        number = errno.ENOENT
    elif not os.path.isdir(folder):
        number = errno.ENOTDIR
    elif not os.access(folder, os.W_OK | os.X_OK):
        number = errno.EACCES
    if number:
        raise OSError(number, os.strerror(number))


def _is_own_output(status: os.stat_result) -> bool:
    """Return whether this is the file that stdout or stderr go to."""
    for number in (1, 2):
        with contextlib.suppress(OSError):
            if os.path.samestat(status, os.fstat(number)):
                return True
    return False


def _present(target: Path, here: os.stat_result) -> WriteError:
    what, way = "", "replace what is there"
    if stat.S_ISLNK(here.st_mode):
        what, way = " and is a link", "replace what it leads to"
    elif _is_stream(here):
        what, way = " and is a pipe or device", "write to it"
    return WriteError(
        f"{target} exists already{what}. Choose another name, or {way} with --force.",
        path=target,
    )


@contextlib.contextmanager
def _temporary(
    target: Path, folder: Path, old: os.stat_result | None
) -> Iterator[tuple[Path, int]]:
    """Make a temporary file that is gone afterwards, unless it was renamed."""
    # A file that is there may be private; a new one gets what the umask allows.
    mode = 0o666 if old is None else 0o600

    def make(path: Path) -> int:
        return os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL, mode)

    with _held(target, folder, make) as (path, handle):
        if old is not None:
            with _explained(target, old):
                _take_over(path, old)
        yield path, handle


@contextlib.contextmanager
def _staging(target: Path, home: Path) -> Iterator[Path]:
    """Make a temporary folder that is gone afterwards, unless it was renamed."""

    def make(path: Path) -> int:
        path.mkdir()
        return os.open(path, os.O_RDONLY)

    with _held(target, home, make) as (path, _):
        yield path


@contextlib.contextmanager
def _held(
    target: Path, folder: Path, make: Callable[[Path], int]
) -> Iterator[tuple[Path, int]]:
    """Make something of ours in a folder, lock it, and remove it afterwards."""
    handle, path = -1, folder
    try:
        with _explained(target):
            while handle < 0:
                path = folder / f".ggscope-{secrets.token_hex(8)}.tmp"
                _mine.add(path)  # before it exists: an interrupt may come at any time
                handle = make(path)
                _lock(handle)
                if not _is_still(path, handle):  # taken for a dead process's, and away
                    os.close(handle)
                    handle = -1
        yield path, handle
    finally:
        if path in _mine:
            _clear_away(path)
        if handle >= 0:
            os.close(handle)


def _clear_away(*paths: Path) -> None:
    """Remove what this process has made: `paths`, or at its end whatever is left."""
    for path in paths or tuple(_mine):
        with contextlib.suppress(OSError):
            _remove(path)
        _mine.discard(path)


def _remove(path: Path) -> None:
    """Remove a temporary file, or a folder of them; raises OSError.

    A folder goes file by file, and only those of this user: what else lies there
    stays, with the folder, since nothing here was put into it by this program.
    """
    if os.path.islink(path) or not os.path.isdir(path):
        path.unlink(missing_ok=True)
        return
    flags = os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC
    folder = os.open(path, flags)
    try:
        for name in os.listdir(folder):
            status = os.stat(name, dir_fd=folder, follow_symlinks=False)
            if stat.S_ISREG(status.st_mode) and status.st_uid == os.geteuid():
                os.unlink(name, dir_fd=folder)
    finally:
        os.close(folder)
    path.rmdir()


# Workers that are still writing when the process ends run no code of their own.
atexit.register(_clear_away)


def _is_still(path: Path, handle: int) -> bool:
    """Return whether the file of a name is the one that is open."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _take_over(path: Path, old: os.stat_result) -> None:
    """Give a file the owner and the permissions of the one that it is to replace."""
    new = path.stat()
    if (new.st_uid, new.st_gid) != (old.st_uid, old.st_gid):
        with contextlib.suppress(PermissionError):
            os.chown(path, old.st_uid, old.st_gid)
    path.chmod(stat.S_IMODE(old.st_mode))


def _fill(
    handle: int, pieces: Iterable[bytes], target: Path, old: os.stat_result | None
) -> None:
    """Write pieces to an open file, which stays open."""
    stream = os.fdopen(handle, "wb", _BUFFER_BYTES, closefd=False)
    try:
        for piece in pieces:
            with _explained(target, old):
                stream.write(piece)
        with _explained(target, old):
            stream.flush()
    finally:
        with contextlib.suppress(OSError):  # told already, by the first failure
            stream.close()


def _put(temporary: Path, path: Path, target: Path, *, overwrite: bool) -> None:
    """Give a file its name; raises WriteError where it is taken meanwhile."""
    if overwrite:
        temporary.replace(path)
        return
    try:
        # Unlike a renaming, a link never replaces.
        os.link(temporary, path, follow_symlinks=False)
    except FileExistsError:
        raise _present(target, path.lstat()) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise _present(target, path.lstat()) from None
        temporary.replace(path)


def _stage(
    staging: Path, files: Iterable[tuple[str, Iterable[bytes]]], folder: Path
) -> list[str]:
    """Write all files of a set into its temporary folder; return their names."""
    names: list[str] = []
    for name, pieces in files:
        target = folder / name
        with _explained(target):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            handle = os.open(staging / name, flags, 0o666)
        try:
            _fill(handle, pieces, target, None)
        finally:
            os.close(handle)
        names.append(name)
    # Synced after all are written: the first takes most of the others along.
    for name in names:
        with _explained(folder / name):
            handle = os.open(staging / name, os.O_RDONLY)
            try:
                _sync(handle)
            finally:
                os.close(handle)
    _sync_folder(staging)
    return names


def _put_set(staging: Path, names: list[str], folder: Path, *, overwrite: bool) -> None:
    """Move the files of a complete set into a folder that is there."""
    for name in names:
        target = folder / name
        place = _place(target, overwrite=overwrite)
        if place.is_stream or place.path != target:
            raise WriteError(
                f"{target} is a link, a pipe or a device, which cannot be one file of "
                "several. Choose another folder.",
                path=target,
            )
        if place.status is not None:
            with _explained(target, place.status):
                _take_over(staging / name, place.status)
    complete = staging.with_suffix(".set")
    with _explained(folder):
        staging.rename(complete)
        _sync_folder(folder)
        try:
            _move(complete, folder)
        except KeyboardInterrupt:
            _move(complete, folder)  # a matter of milliseconds, and then it is whole
            raise
        finally:
            _sync_folder(folder)


def _move(complete: Path, folder: Path) -> None:
    """Move all files of a folder into another one and remove it."""
    for staged in list(complete.iterdir()):
        staged.replace(folder / staged.name)
    complete.rmdir()


def _finish(complete: Path, folder: Path, *, overwrite: bool) -> None:
    """Put the rest of a set in place whose process was killed meanwhile."""
    left = 0
    for staged in list(complete.iterdir()):
        status = staged.lstat()
        if not stat.S_ISREG(status.st_mode):
            continue
        try:
            there = (folder / staged.name).lstat()
        except FileNotFoundError:
            staged.replace(folder / staged.name)
            continue
        if there.st_mtime_ns > status.st_mtime_ns:
            continue
        if overwrite and stat.S_ISREG(there.st_mode):
            staged.replace(folder / staged.name)
        else:
            left += 1
    _sync_folder(folder)
    if left:
        logger.warning(
            "%s: a process that replaced files here was killed, and %d of them are "
            "still the old ones; do it again with --force",
            folder,
            left,
        )
        return
    _remove(complete)
    logger.warning("%s: what a killed process was writing here is complete now", folder)


@contextlib.contextmanager
def _abandoned(path: Path) -> Iterator[bool]:
    """Hold something temporary of ours, and tell whether nobody else does."""
    status = path.lstat()
    is_known = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    if not is_known or status.st_uid != os.geteuid():
        yield False
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield _lock(handle, if_unknown=False) and _is_still(path, handle)
    finally:
        os.close(handle)


def _lock(handle: int, *, if_unknown: bool = True) -> bool:
    """Lock an open file until it is closed; False where another process has it.

    `if_unknown` : what to answer where the file system has no locks.
    """
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    except OSError:
        return if_unknown
    return True


def _pour(path: Path, pieces: Iterable[bytes], target: Path) -> None:
    """Write to a pipe or a device, which has no content to lose."""
    with _explained(target):
        # Not waiting for a reader: nobody could say what the program waits for.
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        with _explained(target):
            os.set_blocking(handle, True)
        _fill(handle, pieces, target, None)
    finally:
        os.close(handle)


def _sync(handle: int) -> None:
    """Bring a file to the disk."""
    try:
        os.fsync(handle)
    except OSError as error:
        if error.errno not in _NO_SYNC:
            raise


def _sync_folder(folder: Path) -> None:
    """Bring the names of a folder to the disk, where the system can."""
    with contextlib.suppress(OSError):
        handle = os.open(folder, os.O_RDONLY | os.O_DIRECTORY)
        try:
            os.fsync(handle)
        finally:
            os.close(handle)


def _make_folders(folder: Path) -> list[Path]:
    """Make a folder and those above it; return those made, the innermost first."""
    missing = []
    here = folder
    while not os.path.lexists(here):
        missing.append(here)
        here = here.parent
    made: list[Path] = []
    with _explained(folder):
        try:
            for path in reversed(missing):
                path.mkdir(exist_ok=True)
                made.insert(0, path)
            if not os.path.isdir(folder):
                raise NotADirectoryError(errno.ENOTDIR, os.strerror(errno.ENOTDIR))
        except OSError:
            _remove_empty(made)
            raise
    return missing


def _remove_empty(folders: list[Path]) -> None:
    """Remove folders, the innermost first, up to one that others have put files in."""
    with contextlib.suppress(OSError):
        for path in folders:
            path.rmdir()


@contextlib.contextmanager
def _explained(target: Path, old: os.stat_result | None = None) -> Iterator[None]:
    """Turn a failure of the system into a sentence: what, why, what now."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        reason, hint = _REASONS.get(error.errno or 0, ("", _ELSEWHERE))
        reason = f"{reason} ({why})" if reason else why
        unchanged = "" if old is None else " What was there is unchanged."
        raise WriteError(
            f"{target} cannot be written: {reason}.{unchanged} {hint}", path=target
        ) from error
