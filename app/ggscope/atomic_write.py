"""Atomic writing of files: whole, or not at all.

A file is written under a temporary name in the same folder, synced, and renamed.
Readers see the old content or the new one at any moment, also after a crash. All
commands treat what exists at the target alike:

=====================  ==========================================================
nothing                the file appears, with the permissions that the umask leaves
a file                 replaced if the caller may; its permissions and owner stay
a link                 stays; the file it leads to is replaced if the caller may
a pipe or device       the content is written to it, if the caller may replace
a folder, socket, …    refused
=====================  ==========================================================

Temporary files have short names, however long the target's is, and the process that
writes one locks it. Leftovers of killed processes are recognised by name and free
lock, and removed by the next write in that folder.
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

from ggscope.errors import ExportError, WriteError

logger = logging.getLogger(__name__)

LOCK_TIMEOUT_S = 5.0
"""How long `locked` waits for other processes, which need milliseconds."""
_TEMPORARY = re.compile(r"\.ggscope-[0-9a-f]{16}\.(tmp|set)")
_POLL_S = 0.005
_BUFFER_BYTES = 1 << 20
_own_temporaries: set[Path] = set()
"""Temporary files and folders of this process."""
_NO_LINKS = {errno.EPERM, errno.EOPNOTSUPP, errno.ENOSYS, errno.EMLINK, errno.EXDEV}
"""Error codes of file systems without hard links."""
_NO_SYNC = {errno.EINVAL, errno.EOPNOTSUPP, errno.ENOSYS}
"""Error codes of file systems without fsync."""
_FREE_SPACE = "Free some space or choose another folder."
_OTHER_FOLDER = "Choose another folder."
_REASONS = {
    errno.ENOSPC: ("the disk is full", _FREE_SPACE),
    errno.EDQUOT: ("the disk quota is used up", _FREE_SPACE),
    errno.EFBIG: ("the file would exceed the size limit", _OTHER_FOLDER),
    errno.EROFS: ("the file system is read-only", _OTHER_FOLDER),
    errno.EACCES: ("you may not write there", _OTHER_FOLDER),
    errno.EPERM: ("you may not write there", _OTHER_FOLDER),
    errno.ENOENT: ("there is no such folder", "Make it, or choose another folder."),
    errno.ENOTDIR: ("a part of its path is not a folder", "Check the path."),
    errno.EISDIR: ("it is a folder", "Give a name inside it."),
    errno.ENAMETOOLONG: ("the name is too long", "Choose a shorter name."),
    errno.ELOOP: ("its symbolic links form a loop", "Choose another name."),
    errno.EIO: ("the disk reports an error", _OTHER_FOLDER),
    errno.ENXIO: ("no program reads this pipe", "Start its reader first."),
    errno.EPIPE: (
        "the process reading this pipe has exited",
        "Start its reader first.",
    ),
}


@dataclass(frozen=True, slots=True)
class _Destination:
    """Where a target's content goes: `path`, and what is there now, if anything."""

    path: Path
    status: os.stat_result | None
    is_stream: bool = False


def refuse_inputs(target: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write over a file that is read.

    Raises
    ------
    ExportError
        If `target` is one of the inputs, by this or another name.
    """
    for path in inputs:
        try:
            is_same = target.samefile(path)
        except OSError:
            continue
        if is_same:
            raise ExportError(
                f"{target} is the trace itself; writing would destroy it. Choose "
                "another name."
            )


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
    destination = _destination(target, overwrite=overwrite)
    if not follows_links and destination.path != target:
        raise WriteError(f"{target} cannot be written: it is a link.", path=target)
    if destination.is_stream:
        _write_stream(destination.path, pieces, target)
        return
    folder = destination.path.parent
    recover(folder)
    with _temporary(target, folder, destination.status) as (temporary, handle):
        _fill(handle, pieces, target, destination.status)
        with _write_errors(target, destination.status):
            _sync(handle)
            _publish(temporary, destination.path, target, overwrite=overwrite)
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
    parent = folder.parent if is_new else folder
    made = _make_folders(parent)
    try:
        recover(parent, finishes=not is_new, overwrite=overwrite)
        with _staging(folder, parent) as staging:
            names = _stage(staging, files, folder)
            if is_new:
                with _write_errors(folder):
                    staging.rename(folder)
                    _sync_folder(parent)
            else:
                _publish_set(staging, names, folder, overwrite=overwrite)
    except BaseException:
        _remove_empty(made)  # as it was: not even an empty folder
        raise


def check_target(target: Path | str, *, overwrite: bool) -> None:
    """Refuse a target before long work for it: raises WriteError as `write_file`."""
    target = Path(target)
    destination = _destination(target, overwrite=overwrite)
    if not destination.is_stream:
        with _write_errors(target, destination.status):
            _check_folder(destination.path.parent)


def check_folder(folder: Path | str) -> None:
    """Refuse a folder that could not be made or written to; raises WriteError."""
    existing = Path(folder)
    while not os.path.lexists(existing):
        existing = existing.parent
    with _write_errors(Path(folder)):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(folder)  # raises where the whole path is too long
        _check_folder(existing)


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
    aside = _free_aside(path)
    with _write_errors(aside):
        path.rename(aside)
    return aside


def copy_aside(path: Path) -> Path:
    """Copy a file that is about to be replaced to such a name; raises WriteError."""
    aside = _free_aside(path)
    with _write_errors(aside):
        content = path.read_bytes()
    write_file(aside, content, overwrite=False)
    return aside


def _free_aside(path: Path) -> Path:
    number = 1
    while True:
        aside = path.with_name(
            f"{path.name}.broken{f'-{number}' if number > 1 else ''}"
        )
        if not os.path.lexists(aside):
            return aside
        number += 1


def recover(folder: Path, *, finishes: bool = False, overwrite: bool = False) -> None:
    """Remove what killed processes of this program left in a folder.

    Parameters
    ----------
    finishes : whether complete sets are put in place first (see `write_files`); else
        they stay. Files that are there are replaced only if `overwrite`, and never
        those that are newer than the set.
    """
    try:
        with os.scandir(folder) as entries:
            leftovers = [
                entry.name for entry in entries if _TEMPORARY.fullmatch(entry.name)
            ]
    except OSError:
        return
    for name in leftovers:
        path = folder / name
        with contextlib.suppress(OSError), _lock_if_abandoned(path) as is_abandoned:
            if not is_abandoned:
                continue
            if name.endswith(".set"):
                if finishes:
                    _finish_set(path, folder, overwrite=overwrite)
            else:
                _remove(path)
            logger.info("cleaned up %s, left by a killed process", path)


@contextlib.contextmanager
def locked(folder: Path) -> Iterator[None]:
    """Hold a lock on a folder while its files are read, changed and written.

    Other processes of this program wait. File systems without locks do not exclude
    them.

    Raises
    ------
    WriteError
        If another process holds the lock for `LOCK_TIMEOUT_S`.
    """
    try:
        handle = os.open(folder, os.O_RDONLY)
    except OSError:  # a folder that one may write to but not list
        yield
        return
    until = time.monotonic() + LOCK_TIMEOUT_S
    try:
        while not _lock(handle):
            if time.monotonic() > until:
                raise WriteError(
                    f"{folder} is locked by another ggscope process that does not "
                    "respond. End that process and try again."
                )
            time.sleep(_POLL_S)
        yield
    finally:
        os.close(handle)


def _destination(target: Path, *, overwrite: bool) -> _Destination:
    """Return where the content of `target` goes; raises WriteError if nowhere."""
    with _write_errors(target):
        try:
            link_status = os.lstat(target)
        except FileNotFoundError:
            return _Destination(target, None)
        is_link = stat.S_ISLNK(link_status.st_mode)
        target_status: os.stat_result | None = link_status
        if is_link:
            try:
                target_status = os.stat(target)
            except FileNotFoundError:  # leads to where nothing is yet
                target_status = None
        if target_status is not None and stat.S_ISDIR(target_status.st_mode):
            raise IsADirectoryError(errno.EISDIR, os.strerror(errno.EISDIR))
        if not overwrite:
            raise _exists_error(target, link_status)
        path = Path(os.path.realpath(target)) if is_link else target
        if target_status is None:
            return _Destination(path, None)
        if _is_stream(target_status):
            return _Destination(target, target_status, is_stream=True)
        if not stat.S_ISREG(target_status.st_mode):
            raise WriteError(
                f"{target} cannot be written: it is neither a file nor a pipe. Choose "
                "another name.",
                path=target,
            )
        if _is_own_output(target_status):
            raise WriteError(
                f"{target} is where the output of this command goes. Choose another "
                "name.",
                path=target,
            )
        if not os.access(path, os.W_OK):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES))
        return _Destination(path, target_status)


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


def _exists_error(target: Path, link_status: os.stat_result) -> WriteError:
    what, way = "", "replace what is there"
    if stat.S_ISLNK(link_status.st_mode):
        what, way = " and is a link", "replace what it leads to"
    elif _is_stream(link_status):
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

    with _locked_temporary(target, folder, make) as (path, handle):
        if old is not None:
            with _write_errors(target, old):
                _copy_permissions(path, old)
        yield path, handle


@contextlib.contextmanager
def _staging(target: Path, parent: Path) -> Iterator[Path]:
    """Make a temporary folder that is gone afterwards, unless it was renamed."""

    def make(path: Path) -> int:
        path.mkdir()
        return os.open(path, os.O_RDONLY)

    with _locked_temporary(target, parent, make) as (path, _):
        yield path


@contextlib.contextmanager
def _locked_temporary(
    target: Path, folder: Path, make: Callable[[Path], int]
) -> Iterator[tuple[Path, int]]:
    """Make a temporary file or folder, lock it, and remove it afterwards."""
    handle, path = -1, folder
    try:
        with _write_errors(target):
            while handle < 0:
                path = folder / f".ggscope-{secrets.token_hex(8)}.tmp"
                _own_temporaries.add(
                    path
                )  # before it exists: an interrupt may come at any time
                handle = make(path)
                _lock(handle)
                if not _is_same_file(
                    path, handle
                ):  # another process removed it as abandoned
                    os.close(handle)
                    handle = -1
        yield path, handle
    finally:
        if path in _own_temporaries:
            _remove_temporaries(path)
        if handle >= 0:
            os.close(handle)


def _remove_temporaries(*paths: Path) -> None:
    """Remove what this process has made: `paths`, or at its end whatever is left."""
    for path in paths or tuple(_own_temporaries):
        with contextlib.suppress(OSError):
            _remove(path)
        _own_temporaries.discard(path)


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
atexit.register(_remove_temporaries)


def _is_same_file(path: Path, handle: int) -> bool:
    """Return whether `path` still names the open file."""
    try:
        return os.path.samestat(os.lstat(path), os.fstat(handle))
    except FileNotFoundError:
        return False


def _copy_permissions(path: Path, old: os.stat_result) -> None:
    """Copy owner and permissions of the file that is to be replaced."""
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
            with _write_errors(target, old):
                stream.write(piece)
        with _write_errors(target, old):
            stream.flush()
    finally:
        with contextlib.suppress(OSError):  # the first failure was reported
            stream.close()


def _publish(temporary: Path, path: Path, target: Path, *, overwrite: bool) -> None:
    """Give a file its name; raises WriteError where it is taken meanwhile."""
    if overwrite:
        temporary.replace(path)
        return
    try:
        # Unlike a renaming, a link never replaces.
        os.link(temporary, path, follow_symlinks=False)
    except FileExistsError:
        raise _exists_error(target, path.lstat()) from None
    except OSError as error:
        if error.errno not in _NO_LINKS:
            raise
        if os.path.lexists(path):
            raise _exists_error(target, path.lstat()) from None
        temporary.replace(path)


def _stage(
    staging: Path, files: Iterable[tuple[str, Iterable[bytes]]], folder: Path
) -> list[str]:
    """Write all files of a set into its temporary folder; return their names."""
    names: list[str] = []
    for name, pieces in files:
        target = folder / name
        with _write_errors(target):
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
            handle = os.open(staging / name, flags, 0o666)
        try:
            _fill(handle, pieces, target, None)
        finally:
            os.close(handle)
        names.append(name)
    # Synced after all are written: the first takes most of the others along.
    for name in names:
        with _write_errors(folder / name):
            handle = os.open(staging / name, os.O_RDONLY)
            try:
                _sync(handle)
            finally:
                os.close(handle)
    _sync_folder(staging)
    return names


def _publish_set(
    staging: Path, names: list[str], folder: Path, *, overwrite: bool
) -> None:
    """Move the files of a complete set into a folder that is there."""
    for name in names:
        target = folder / name
        destination = _destination(target, overwrite=overwrite)
        if destination.is_stream or destination.path != target:
            raise WriteError(
                f"{target} is a link, a pipe or a device, which cannot be one file of "
                "several. Choose another folder.",
                path=target,
            )
        if destination.status is not None:
            with _write_errors(target, destination.status):
                _copy_permissions(staging / name, destination.status)
    complete = staging.with_suffix(".set")
    with _write_errors(folder):
        staging.rename(complete)
        _sync_folder(folder)
        try:
            _move(complete, folder)
        except KeyboardInterrupt:
            _move(complete, folder)  # takes milliseconds, then the set is whole
            raise
        finally:
            _sync_folder(folder)


def _move(complete: Path, folder: Path) -> None:
    """Move all files of a folder into another one and remove it."""
    for staged in list(complete.iterdir()):
        staged.replace(folder / staged.name)
    complete.rmdir()


def _finish_set(complete: Path, folder: Path, *, overwrite: bool) -> None:
    """Put the rest of a set in place whose process was killed meanwhile."""
    left = 0
    for staged in list(complete.iterdir()):
        status = staged.lstat()
        if not stat.S_ISREG(status.st_mode):
            continue
        try:
            target_status = (folder / staged.name).lstat()
        except FileNotFoundError:
            staged.replace(folder / staged.name)
            continue
        if target_status.st_mtime_ns > status.st_mtime_ns:
            continue
        if overwrite and stat.S_ISREG(target_status.st_mode):
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
    logger.warning("%s: completed the files that a killed process was writing", folder)


@contextlib.contextmanager
def _lock_if_abandoned(path: Path) -> Iterator[bool]:
    """Lock a temporary file or folder; yield whether no process holds it."""
    status = path.lstat()
    is_known = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    if not is_known or status.st_uid != os.geteuid():
        yield False
        return
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        yield _lock(handle, if_unknown=False) and _is_same_file(path, handle)
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


def _write_stream(path: Path, pieces: Iterable[bytes], target: Path) -> None:
    """Write to a pipe or a device, which has no content to lose."""
    with _write_errors(target):
        # Without waiting for a reader: the user would not see why it waits.
        handle = os.open(path, os.O_WRONLY | os.O_NONBLOCK)
    try:
        with _write_errors(target):
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
    existing = folder
    while not os.path.lexists(existing):
        missing.append(existing)
        existing = existing.parent
    made: list[Path] = []
    with _write_errors(folder):
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
def _write_errors(target: Path, old: os.stat_result | None = None) -> Iterator[None]:
    """Turn an OSError into a WriteError: what failed, why, and what to do."""
    try:
        yield
    except OSError as error:
        why = error.strerror or str(error)
        reason, hint = _REASONS.get(error.errno or 0, ("", _OTHER_FOLDER))
        reason = f"{reason} ({why})" if reason else why
        unchanged = "" if old is None else " What was there is unchanged."
        raise WriteError(
            f"{target} cannot be written: {reason}.{unchanged} {hint}", path=target
        ) from error
