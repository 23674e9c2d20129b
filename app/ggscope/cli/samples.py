"""``ggscope samples [FOLDER]``: lists the traces that come with it, or copies them."""

import os
from argparse import Namespace
from collections.abc import Iterator
from pathlib import Path

from ggscope.atomic_write import check_folder, check_target, write_files
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.self_test import samples
from ggscope.model.units import format_bytes, format_count


def run(arguments: Namespace) -> int:
    """List or copy the samples; return the exit code."""
    folder: Path | None = arguments.folder
    if folder is None:
        return _list(is_json=arguments.json)
    copies = _copies(folder)
    check_folder(folder)
    for files in copies.values():
        for target in files:
            _check(target, overwrite=arguments.force)
    for place, files in copies.items():
        contents = (
            (t.name, iter([source.read_bytes()])) for t, source in files.items()
        )
        write_files(place, contents, overwrite=arguments.force)
    written = [str(target) for files in copies.values() for target in files]
    if arguments.json:
        output.emit_json({"folder": str(folder), "files": written})
    output.say(f"{format_count(len(written))} files written to {folder}.")
    return GOOD


def _check(target: Path, *, overwrite: bool) -> None:
    """Refuse a target whose folder is there and which may not be written."""
    if os.path.isdir(target.parent):
        check_target(target, overwrite=overwrite)


def _list(*, is_json: bool) -> int:
    rows = [(path, sum(os.path.getsize(f) for f in _files(path))) for path in samples()]
    if is_json:
        output.emit_json(
            [{"name": p.name, "path": str(p), "bytes": size} for p, size in rows]
        )
        return GOOD
    table = [(path.name, format_bytes(size), str(path)) for path, size in rows]
    output.emit(output.table(("sample", "size", "path"), table, left=(0, 2)))
    return GOOD


def _copies(folder: Path) -> dict[Path, dict[Path, Path]]:
    """Return what is copied: folders, in each the targets and their sources."""
    copies: dict[Path, dict[Path, Path]] = {}
    for sample in samples():
        for source in _files(sample):
            target = folder / source.relative_to(sample.parent)
            copies.setdefault(target.parent, {})[target] = source
    return copies


def _files(sample: Path) -> Iterator[Path]:
    """Return a sample that is a file, or the files of one that is a folder."""
    if not os.path.isdir(sample):
        yield sample
        return
    for place, folders, names in os.walk(sample):
        folders.sort()
        yield from (Path(place) / name for name in sorted(names))
