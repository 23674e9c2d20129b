"""``ggscope convert``: write a trace in another format."""

import os
from argparse import Namespace
from collections.abc import Iterator
from functools import partial
from pathlib import Path

from ggscope.analysis.filters.masks import filter_mask, read_filter
from ggscope.analysis.filters.text import parse_range
from ggscope.atomic_write import (
    check_folder,
    check_target,
    refuse_inputs,
    write_file,
    write_files,
)
from ggscope.cli import output
from ggscope.cli.output import GOOD, USAGE
from ggscope.cli.reading import Progress, answer_each, load
from ggscope.errors import ExportError
from ggscope.exporters import forms, perfetto
from ggscope.exporters.events import Events
from ggscope.exporters.spans import SpanOrder
from ggscope.exporters.token_json import TokenFile, TokenJson

_STDOUT = Path("-")
_PARTS = (
    "Files are consecutive in time. A span is whole in the file in which it begins, "
    "its nested spans may be in the next."
)


def run(arguments: Namespace) -> int:
    """Write a trace in another format; return the exit code."""
    are_tokens = arguments.to == "token-json"
    if arguments.output == _STDOUT and (why := _why_not_piped(arguments)):
        output.complain(f"-o - cannot be used: {why}. Name a file or a folder.")
        return USAGE
    if (arguments.sort or arguments.limit) and not (
        arguments.to in forms.FORMS and forms.is_table(arguments.to)
    ):
        output.complain(
            f"--sort and --limit are for tables (csv, tsv, markdown, json, parquet), "
            f"not of {arguments.to}."
        )
        return USAGE
    if are_tokens and (arguments.range is not None or arguments.where):
        output.say("token-json takes whole traces: leave out --range and --where.")
        return USAGE
    work = _token_files if are_tokens else _one_file
    return answer_each(arguments, partial(work, arguments))


def _why_not_piped(arguments: Namespace) -> str:
    """Return why the output of the command cannot be the file; "" where it can."""
    if arguments.to == "token-json":
        return "token-json writes several files"
    if arguments.json:
        return "--json writes there"
    return "this is a terminal" if output.is_terminal() else ""


def _one_file(arguments: Namespace, path: Path) -> tuple[int, object]:
    """Write what other viewers open: one file of the spans that are asked for."""
    target = arguments.output
    is_piped = target == _STDOUT
    if not is_piped:
        refuse_inputs(target, arguments.files)
        check_target(target, overwrite=arguments.force)  # before the long part
    trace = load(path, arguments)
    keep = filter_mask(trace, read_filter(arguments.where, trace))
    time = None
    if arguments.range is not None:
        time = parse_range(arguments.range, trace.extent, trace.clock.unit)
    events = Events(trace, keep, time)
    losses = forms.losses(events, arguments.to)
    order = None
    if arguments.sort or arguments.limit:
        order = SpanOrder(arguments.sort or "", arguments.limit)
    outputs = [target]
    with Progress(f"writing {target}") as progress:

        def with_progress(part: Events) -> Iterator[bytes]:
            n_bytes = 0
            pieces = forms.chunks(part, arguments.to, order)
            for chunk in forms.packed(pieces, arguments.to, target):
                yield chunk
                n_bytes += len(chunk)
                progress.update(n_bytes, 0)

        try:
            if is_piped:
                output.emit_bytes(with_progress(events))
            else:
                write_file(target, with_progress(events), overwrite=arguments.force)
        except perfetto.FileTooLargeError:
            parts = perfetto.parts(events)
            if is_piped or len(parts) < 2 or (target.exists() and not target.is_file()):
                raise  # a pipe takes one file
            outputs = [
                target.with_name(f"{target.stem}.{number}{target.suffix}")
                for number in range(1, len(parts) + 1)
            ]
            _check(outputs, arguments)
            pieces = (with_progress(part) for part in parts)
            files = zip((path.name for path in outputs), pieces, strict=True)
            write_files(target.parent, files, overwrite=arguments.force)
            losses = [*losses, _PARTS]
    for sentence in losses:
        output.say(f"note: {sentence}")
    n, n_all = forms.n_spans(events, arguments.to), len(trace.spans)
    n = n if arguments.limit is None else min(n, arguments.limit)
    of = f" of {n_all:,}" if events.is_part or n < n_all else ""
    where: dict[str, object] = {"output": str(target)}
    if len(outputs) == 1:
        place = "the output" if is_piped else target
        output.say(f"{n:,}{of} spans written to {place}.")
    else:
        where = {"outputs": [str(path) for path in outputs]}
        output.say(
            f"{n:,}{of} spans written to {len(outputs):,} files: {outputs[0]} to "
            f"{outputs[-1].name}."
        )
        if not arguments.json:
            output.emit("\n".join(map(str, outputs)))
    return GOOD, {"path": str(path), **where, "spans": n, "losses": losses}


def _token_files(arguments: Namespace, path: Path) -> tuple[int, object]:
    """Write the token files of a trace."""
    folder = arguments.output
    check_folder(folder)  # before the long part
    writer = TokenJson(load(path, arguments, takes_sidecar=False), arguments.schema)
    targets = [folder / file.name for file in writer.files]
    _check(targets, arguments)
    counts = _write(writer, folder, arguments)
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


def _check(targets: list[Path], arguments: Namespace) -> None:
    """Refuse to write over the input, and over other files without ``--force``."""
    for target in targets:
        refuse_inputs(target, arguments.files)
    present = [] if arguments.force else [t for t in targets if os.path.lexists(t)]
    if present:
        more = f" and {len(present) - 1:,} more" if len(present) > 1 else ""
        raise ExportError(
            f"{present[0]}{more} exists already. Choose another folder, or replace "
            "what is there with --force."
        )


def _write(writer: TokenJson, folder: Path, arguments: Namespace) -> list[int]:
    """Write all files, or none of them; return how many entries each has."""
    counts = [writer.n_entries(file) for file in writer.files]
    n_spans = sum(len(file.spans) for file in writer.files)
    with Progress(f"writing to {folder}") as progress:
        n_bytes = n_done = 0

        def with_progress(file: TokenFile) -> Iterator[bytes]:
            nonlocal n_bytes, n_done
            for number, chunk in enumerate(writer.chunks(file)):
                yield chunk
                n_bytes += len(chunk)
                done = max(n_done + min(number * 4096, len(file.spans)), 1)
                progress.update(n_bytes, n_bytes * n_spans // done)
            n_done += len(file.spans)

        files = ((file.name, with_progress(file)) for file in writer.files)
        write_files(folder, files, overwrite=arguments.force)
    return counts
