"""The one way in which this package writes files: whole, or not at all.

It is the rule of the viewer's own writer, told again because the two packages stand
alone: a temporary file in the same folder, brought to the disk, and renamed.
"""

import contextlib
import os
import secrets
from collections.abc import Iterator
from pathlib import Path


@contextlib.contextmanager
def replacing(target: Path, *, follows_links: bool = True) -> Iterator[Path]:
    """Give a temporary path to write to; rename it to `target` at the end.

    What was there stays as it was until the new content is complete, and for good
    where the body raises. A link stays, and the file it leads to is replaced, unless
    `follows_links` is false. Folders above it are made.

    Raises
    ------
    OSError
        If the file cannot be written.
    """
    if follows_links:
        target = Path(os.path.realpath(target))
    target.parent.mkdir(parents=True, exist_ok=True)
    temporary = target.parent / f".ggscope-{secrets.token_hex(8)}.tmp"
    try:
        yield temporary
        with temporary.open("rb") as written:
            os.fsync(written.fileno())
        if target.exists():
            temporary.chmod(target.stat().st_mode & 0o7777)
        temporary.replace(target)
    finally:
        with contextlib.suppress(FileNotFoundError):
            temporary.unlink()


def write(target: Path, content: bytes, *, follows_links: bool = True) -> None:
    """Write `content` to a file, whole or not at all; raises OSError."""
    with replacing(target, follows_links=follows_links) as temporary:
        temporary.write_bytes(content)
