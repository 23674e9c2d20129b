"""``ggscope convert``: write a trace in another format."""

import contextlib
import os
from argparse import Namespace
from collections.abc import Iterable, Iterator
from pathlib import Path

from ggscope.analysis.token_json import TokenFile, TokenJson
from ggscope.cli import output
from ggscope.cli.exits import GOOD
from ggscope.cli.reading import Progress, for_each_file, load
from ggscope.cli.targets import spare_inputs
from ggscope.errors import ExportError


def run(arguments: Namespace) -> int:
    """Write the token files of a trace; return the exit code."""

    def work(path: Path) -> tuple[int, object]:
        writer = TokenJson(load(path, arguments), arguments.schema)
        folder = _folder(arguments.output)
        targets = [folder / file.name for file in writer.files]
        _check(targets, arguments)
        counts = _write(writer, targets)
        for sentence in writer.losses:
            output.say(f"note: {sentence}")
        total = sum(counts)
        output.say(
            f"{len(targets):,} file{'' if len(targets) == 1 else 's'} with {total:,} "
            f"entries written to {folder} ({writer.schema}-byte schema)."
        )
        return GOOD, {
            "path": str(path),
            "schema": writer.schema,
            "outputs": [str(target) for target in targets],
            "entries": counts,
            "losses": list(writer.losses),
        }

    results = for_each_file(arguments, work)
    if arguments.json:
        results.emit_json()
    return results.code


def _folder(target: Path) -> Path:
    try:
        target.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ExportError(f"{target}: {error.strerror or error}.") from error
    return target


def _check(targets: list[Path], arguments: Namespace) -> None:
    """Refuse to write over the input, and over other files without ``--force``."""
    for target in targets:
        spare_inputs(target, arguments.files)
    present = [] if arguments.force else [t for t in targets if t.exists()]
    if present:
        more = f" and {len(present) - 1:,} more" if len(present) > 1 else ""
        raise ExportError(
            f"{present[0]}{more} exists already. Choose another folder, or replace "
            "what is there with --force."
        )


def _write(writer: TokenJson, targets: list[Path]) -> list[int]:
    """Write all files; return how many entries each has."""
    counts = [writer.n_entries(file) for file in writer.files]
    n_spans = sum(len(file.spans) for file in writer.files)
    with Progress(f"writing to {targets[0].parent if targets else ''}") as progress:
        n_bytes = n_done = 0

        def told(chunks: Iterable[bytes], file: TokenFile) -> Iterator[bytes]:
            nonlocal n_bytes
            before = n_done
            for number, chunk in enumerate(chunks):
                yield chunk
                n_bytes += len(chunk)
                done = max(before + min(number * 4096, len(file.spans)), 1)
                progress.update(n_bytes, n_bytes * n_spans // done)

        for file, target in zip(writer.files, targets, strict=True):
            _replace(target, told(writer.chunks(file), file))
            n_done += len(file.spans)
    return counts


def _replace(target: Path, chunks: Iterable[bytes]) -> None:
    """Write a file whole or not at all."""
    part = target.with_name(f".{target.name}.{os.getpid()}.part")
    try:
        with part.open("wb") as stream:
            stream.writelines(chunks)
        part.replace(target)
    except OSError as error:
        raise ExportError(
            f"{target} cannot be written: {error.strerror or error}."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            part.unlink(missing_ok=True)
