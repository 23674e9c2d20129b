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
from collections.abc import Iterable, Iterator
from itertools import count
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
    errno.EEXIST: ("it is not a folder", "Choose another name."),
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


def refuse_inputs(target: Path, inputs: Iterable[Path]) -> None:
    """Refuse to write over a file that is read.

    Raises
    ------
    ExportError
        If `target` is one of the inputs, by this or another name.
    """
    for path in inputs:
        with contextlib.suppress(OSError):
            if target.samefile(path):
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
    path, old = _destination(target, overwrite=overwrite)
    if not follows_links and os.path.islink(target):
        raise _refusal(target, "it is a link")
    if old is not None and _is_stream(old):
        _write_stream(target, pieces)
        return
    recover(path.parent)
    # A file that is there may be private; a new one gets what the umask allows.
    mode = 0o666 if old is None else 0o600
    with _temporary(target, path.parent, mode) as (temporary, handle):
        if old is not None:
            with _write_errors(target, old):
                _copy_permissions(temporary, old)
        _fill(handle, pieces, target, old)
        with _write_errors(target, old):
            _sync(handle)
            _publish(temporary, path, target, overwrite=overwrite)
            _sync_folder(path.parent)


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
        with _temporary(folder, parent, None) as (staging, handle):
            names = _stage(staging, files, folder)
            if is_new:
                with _write_errors(folder):
                    _sync(handle)
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
    path, old = _destination(target, overwrite=overwrite)
    if old is None or not _is_stream(old):
        with _write_errors(target, old):
            _require_writable(path.parent)


def check_folder(folder: Path | str) -> None:
    """Refuse a folder that could not be made or written to; raises WriteError."""
    existing = Path(folder)
    while not os.path.lexists(existing):
        existing = existing.parent
    with _write_errors(Path(folder)):
        with contextlib.suppress(FileNotFoundError, NotADirectoryError):
            os.lstat(folder)  # raises where the whole path is too long
        _require_writable(existing)


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
    names = (f"{path.name}.broken{f'-{n}' if n > 1 else ''}" for n in count(1))
    places = (path.with_name(name) for name in names)
    return next(place for place in places if not os.path.lexists(place))


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
            names = [e.name for e in entries if _TEMPORARY.fullmatch(e.name)]
    except OSError:
        return
    for path in (folder / name for name in names):
        with contextlib.suppress(OSError), _abandoned(path):
            if path.suffix == ".tmp":
                _remove(path)
            elif finishes:
                _finish_set(path, folder, overwrite=overwrite)
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


def _destination(
    target: Path, *, overwrite: bool
) -> tuple[Path, os.stat_result | None]:
    """Return the path to write for `target` and what is there; raises WriteError.

    A link is followed, but for one to a pipe or device.
    """
    with _write_errors(target):
        try:
            link_status = os.lstat(target)
        except FileNotFoundError:
            return target, None
        path, old = target, None
        with contextlib.suppress(FileNotFoundError):  # of a link to a missing file
            old = os.stat(target)
        if old is not None and stat.S_ISDIR(old.st_mode):
            raise _os_error(errno.EISDIR)
        if not overwrite:
            raise _exists_error(target, link_status)
        if stat.S_ISLNK(link_status.st_mode) and not (old and _is_stream(old)):
            path = Path(os.path.realpath(target))
        if old is None or _is_stream(old):
            return path, old
        if not stat.S_ISREG(old.st_mode):
            raise _refusal(target, "it is neither a file nor a pipe")
        if _is_own_output(old):
            raise _refusal(target, "it is where the output of this command goes")
        if not os.access(path, os.W_OK):
            raise _os_error(errno.EACCES)
        return path, old


def _refusal(target: Path, reason: str) -> WriteError:
    return WriteError(
        f"{target} cannot be written: {reason}. Choose another name.", path=target
    )


def _is_stream(status: os.stat_result) -> bool:
    return stat.S_ISFIFO(status.st_mode) or stat.S_ISCHR(status.st_mode)


def _require_writable(folder: Path) -> None:
    """Raise the OSError that writing a file in a folder would."""
    os.stat(os.path.join(folder, "."))  # fails where it is missing or a file
    if not os.access(folder, os.W_OK | os.X_OK):
        raise _os_error(errno.EACCES)


def _os_error(number: int) -> OSError:
    return OSError(number, os.strerror(number))


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
    target: Path, folder: Path, mode: int | None
) -> Iterator[tuple[Path, int]]:
    """Make a locked temporary file, None = folder; it goes afterwards unless renamed.

    Yields its path and a handle.
    """
    handle, path = -1, folder
    try:
        with _write_errors(target):
            while handle < 0:
                path = folder / f".ggscope-{secrets.token_hex(8)}.tmp"
                # Before it exists: an interrupt may come at any time.
                _own_temporaries.add(path)
                if mode is None:
                    path.mkdir()
                    handle = os.open(path, os.O_RDONLY)
                else:
                    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL
                    handle = os.open(path, flags, mode)
                _lock(handle)
                if not _is_same_file(path, handle):  # removed before it was locked
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
        _, old = _destination(target, overwrite=overwrite)
        if os.path.islink(target) or (old is not None and _is_stream(old)):
            raise WriteError(
                f"{target} is a link, a pipe or a device, which cannot be one file of "
                "several. Choose another folder.",
                path=target,
            )
        if old is not None:
            with _write_errors(target, old):
                _copy_permissions(staging / name, old)
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
        target, status = folder / staged.name, staged.lstat()
        old = target.lstat() if os.path.lexists(target) else None
        is_newer = old is not None and old.st_mtime_ns > status.st_mtime_ns
        if is_newer or not stat.S_ISREG(status.st_mode):
            continue
        if old is None or (overwrite and stat.S_ISREG(old.st_mode)):
            staged.replace(target)
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
def _abandoned(path: Path) -> Iterator[None]:
    """Lock what a killed process of this user left; OSError for anything else."""
    status = path.lstat()
    is_known = stat.S_ISREG(status.st_mode) or stat.S_ISDIR(status.st_mode)
    if not is_known or status.st_uid != os.geteuid():
        raise _os_error(errno.EPERM)
    handle = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    try:
        if not _lock(handle, if_unknown=False) or not _is_same_file(path, handle):
            raise _os_error(errno.EBUSY)
        yield
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


def _write_stream(target: Path, pieces: Iterable[bytes]) -> None:
    """Write to a pipe or a device, which has no content to lose."""
    with _write_errors(target):
        # Without waiting for a reader: the user would not see why it waits.
        handle = os.open(target, os.O_WRONLY | os.O_NONBLOCK)
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
    try:
        with _write_errors(folder):
            folder.mkdir(parents=True, exist_ok=True)
    except WriteError:
        _remove_empty(missing)
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
