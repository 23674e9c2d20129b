"""Rings that come with something that would lead a reader to a person's own files.

Each case puts its bait beside a ring and names what has to be as it was afterwards.
"""

import json
import os
import subprocess
from collections.abc import Callable
from pathlib import Path

from ring_writer import Writer

PARTS = ("records", "events", "facts", "ring")
GONE_USER = 4711
"""Some other user, for tests that run as root."""


def ended_ring(path: Path, *, n: int = 10) -> str:
    """Write a ring of a program that has ended; return its identity."""
    writer = Writer(path)
    writer.graph(n)
    writer.end()
    with subprocess.Popen(["true"]) as gone:
        writer.control["pid"] = gone.pid
    identity = bytes(writer.control["identity"][0]).hex()
    writer.close()
    return identity


def note(ring: Path) -> Path:
    return ring.with_name(f"{ring.name}.recording")


def write_note(ring: Path, folder: Path, identity: str) -> None:
    values = {"folder": str(folder), "pid": 1, "identity": identity}
    note(ring).write_text(json.dumps(values))


def own_folder(folder: Path, content: str = "words") -> Path:
    """Make a person's folder, with files named as those of a recording."""
    folder.mkdir(parents=True)
    for name in (*PARTS, "thesis.tex"):
        (folder / name).write_text(content)
    (folder / "chapters").mkdir()
    (folder / "chapters" / "1.tex").write_text(content)
    return folder


def recording(folder: Path, ring: Path, identity: str) -> Path:
    """Make a sound recording of a ring, of which nothing was taken yet."""
    folder.mkdir()
    for name in ("records", "events"):
        (folder / name).touch()
    (folder / "facts").write_text('{"lost": 0, "lost_events": 0}')
    (folder / "ring").write_text(str(ring))
    (folder / "identity").write_text(identity)
    return folder


def content_of(place: Path) -> dict[str, bytes | None]:
    """Return what is below a folder, by path; None stands for a folder or a link."""
    if not place.is_dir():
        return {"": place.read_bytes()}
    return {
        str(path.relative_to(place)): path.read_bytes()
        if path.is_file() and not path.is_symlink()
        else None
        for path in place.rglob("*")
    }


def named_folder(home: Path, ring: Path, identity: str) -> Path:
    mine = own_folder(home / "thesis")
    write_note(ring, mine, identity)
    return mine


def named_like_a_recording(home: Path, ring: Path, identity: str) -> Path:
    mine = own_folder(home / "thesis.partial")
    write_note(ring, mine, identity)
    return mine


def recording_of_another_ring(home: Path, ring: Path, identity: str) -> Path:
    home.mkdir()
    mine = recording(home / "mine.partial", ring, "ab" * 16)
    (mine / "records").write_bytes(bytes(320))
    write_note(ring, mine, identity)
    return mine


def link_to_a_folder(home: Path, ring: Path, identity: str) -> Path:
    mine = own_folder(home / "thesis")
    link = ring.with_name("run.partial")
    link.symlink_to(mine)
    write_note(ring, link, identity)
    return mine


def link_on_the_way(home: Path, ring: Path, identity: str) -> Path:
    mine = own_folder(home / "thesis.partial")
    way = ring.with_name("way")
    way.symlink_to(home)
    write_note(ring, way / "thesis.partial", identity)
    return mine


def note_that_is_a_link(home: Path, ring: Path, identity: str) -> Path:
    home.mkdir()
    mine = home / "notes.json"
    mine.write_text('{"folder": "/", "identity": "words"}')
    note(ring).symlink_to(mine)
    return mine


def note_that_leads_to_a_note(home: Path, ring: Path, identity: str) -> Path:
    mine = own_folder(home / "thesis")
    other = ring.with_name("other")
    write_note(other, mine, identity)
    note(ring).symlink_to(note(other))
    return mine


def linked_parts(home: Path, ring: Path, identity: str) -> Path:
    """A recording whose files are links to a person's."""
    mine = own_folder(home / "thesis")
    folder = recording(ring.with_name("run.partial"), ring, identity)
    for name in ("records", "events", "facts", "ring"):
        (folder / name).unlink()
        (folder / name).symlink_to(mine / name)
    for name in ("control", "lanes", "definitions", "facts.tmp"):
        (folder / name).symlink_to(mine / "thesis.tex")
    write_note(ring, folder, identity)
    return mine


def second_names(home: Path, ring: Path, identity: str) -> Path:
    """A recording whose files are a person's, under a second name."""
    mine = own_folder(home / "thesis")
    folder = recording(ring.with_name("run.partial"), ring, identity)
    for name in ("records", "events"):
        (folder / name).unlink()
        (folder / name).hardlink_to(mine / name)
    write_note(ring, folder, identity)
    return mine


def folder_of_another_user(home: Path, ring: Path, identity: str) -> Path:
    home.mkdir()
    mine = recording(home / "theirs.partial", ring, identity)
    os.chown(mine, GONE_USER, GONE_USER)
    write_note(ring, mine, identity)
    return mine


def marker_of_another_user(home: Path, ring: Path, identity: str) -> Path:
    """A folder that others may write to, and have."""
    mine = own_folder(home / "thesis.partial")
    mine.chmod(0o777)
    (mine / "identity").write_text(identity)
    os.chown(mine / "identity", GONE_USER, GONE_USER)
    write_note(ring, mine, identity)
    return mine


def note_of_another_user(home: Path, ring: Path, identity: str) -> Path:
    """A folder for rings that others may write to, and have."""
    home.mkdir()
    mine = recording(home / "mine.partial", ring, identity)
    write_note(ring, mine, identity)
    ring.parent.chmod(0o1777)
    os.chown(note(ring), GONE_USER, GONE_USER)
    return mine


Case = Callable[[Path, Path, str], Path]
CASES: tuple[Case, ...] = (
    named_folder,
    named_like_a_recording,
    recording_of_another_ring,
    link_to_a_folder,
    link_on_the_way,
    note_that_is_a_link,
    note_that_leads_to_a_note,
    linked_parts,
    second_names,
)
"""Put a bait beside a ring; return what has to stay as it is."""
CASES_OF_ROOT: tuple[Case, ...] = (
    folder_of_another_user,
    marker_of_another_user,
    note_of_another_user,
)
"""Likewise, of several users."""


def pipe(path: Path) -> None:
    os.mkfifo(path)


def link(path: Path) -> None:
    """To a file that is sound, or what was there."""
    target = path.with_name(f"{path.name}-elsewhere")
    target.touch()
    path.symlink_to(target)


def device(path: Path) -> None:
    path.symlink_to("/dev/zero")


def folder(path: Path) -> None:
    path.mkdir()


def hollow(path: Path) -> None:
    """A terabyte that takes no room."""
    path.touch()
    os.truncate(path, 1 << 40)


def nested(path: Path) -> None:
    path.write_bytes(b"[" * 4000)


def nothing(path: Path) -> None:
    path.touch()


def noise(path: Path) -> None:
    path.write_bytes(bytes(range(256)) * 64)


Harm = Callable[[Path], None]
HARMS: tuple[Harm, ...] = (pipe, link, device, folder, hollow, nested, nothing, noise)
"""Put something else in the place of a file; nothing is there."""
FOLDER_FILES = (
    "records", "events", "facts", "ring", "identity", "control", "lanes", "definitions",
)  # fmt: skip


def replaced(path: Path, harm: Harm) -> None:
    path.unlink(missing_ok=True)
    harm(path)
