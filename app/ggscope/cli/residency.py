"""``ggscope residency``: how much of a model file is in the page cache now."""

import mmap
from argparse import Namespace
from pathlib import Path

import numpy as np

from ggscope.cli import output
from ggscope.cli.output import ERROR, GOOD
from ggscope.cli.reading import answer_each, load, print_heading
from ggscope.live.residency import CachedFile, resident_bytes
from ggscope.model.tables import I64
from ggscope.model.trace import Trace
from ggscope.model.units import format_bytes, format_count, format_share
from ggscope.sanitize import one_line


def run(arguments: Namespace) -> int:
    """Print what is in memory of each tensor of each file; return the exit code."""

    def work(path: Path) -> tuple[int, object]:
        file = CachedFile(path)
        try:
            pages = file.pages()  # before the header is read, which brings pages in
        finally:
            file.close()
        trace = load(path, arguments)
        rows, begin, stop = _placed(trace, path)
        resident = resident_bytes(pages, file.size, begin, stop)
        everything = np.array([0]), np.array([file.size])
        in_file = int(resident_bytes(pages, file.size, *everything)[0])
        why = file.why
        if not arguments.json:
            print_heading(path, arguments)
            _print(trace, rows, resident, in_file, file, arguments.limit)
        if why:
            output.complain(f"{path}: not known: {why}.")
        report = {
            "path": str(path),
            "known": not why,
            "why": why or None,
            "page_bytes": mmap.PAGESIZE,
            "file_bytes": file.size,
            "file_resident_bytes": _known(in_file),
            "tensors": [
                {
                    "name": trace.strings[int(trace.tensors.name[row])],
                    "offset": int(trace.tensors.offset[row]),
                    "bytes": int(trace.tensors.size[row]),
                    "resident_bytes": _known(int(resident[i])),
                }
                for i, row in enumerate(rows.tolist())
            ],
        }
        return ERROR if why else GOOD, report

    return answer_each(arguments, work)


def _placed(trace: Trace, path: Path) -> tuple[I64, I64, I64]:
    """Return the tensors that lie in the file: row, begin and stop.

    Maps and traces have places in another file, and a model of several parts of
    places in each of them.
    """
    tensors = trace.tensors
    is_model = trace.info.reader_id == "gguf"
    own = [i for i, m in enumerate(trace.models) if is_model and m.name == path.name]
    is_here = np.isin(-1 if tensors.file is None else tensors.file, own)
    rows = np.flatnonzero(is_here & (tensors.offset >= 0) & (tensors.size > 0))
    begin = tensors.offset[rows]
    return rows, begin, begin + tensors.size[rows]


def _print(
    trace: Trace, rows: I64, resident: I64, in_file: int, file: CachedFile, limit: int
) -> None:
    if file.why:
        return
    output.emit(
        f"{format_bytes(in_file)} of {format_bytes(file.size)} of the file "
        f"({format_share(in_file / file.size)}) are in the page cache now, by mincore."
    )
    if not len(rows):
        output.emit("No tensor of a model is known to lie in this file.")
        return
    sizes = trace.tensors.size[rows]
    # One that reaches beyond the end of the file is not known.
    masks = (resident == sizes, resident == 0, resident < 0)
    n_whole, n_none, n_unknown = (int(np.count_nonzero(mask)) for mask in masks)
    n_part = len(rows) - n_whole - n_none - n_unknown
    text = (
        f"Tensors: {format_count(n_whole)} whole, {format_count(n_part)} in part, "
        f"{format_count(n_none)} not at all"
    )
    if n_unknown:
        text += f", {format_count(n_unknown)} beyond the end of the file"
    if len(trace.models) > 1:
        text += "; what its other files hold is left out"
    output.emit(f"{text}.")
    # What is not in memory is what a run would wait for.
    order = np.argsort(resident - sizes, kind="stable")[:limit]
    names = [one_line(trace.strings[int(trace.tensors.name[r])]) for r in rows[order]]
    width = max(len("tensor"), *map(len, names))
    output.emit("")
    output.emit(f"{'tensor':<{width}}  {'in memory':>10}  {'size':>10}   share")
    for name, i in zip(names, order.tolist(), strict=True):
        size, held = int(sizes[i]), int(resident[i])
        cached = "not known" if held < 0 else format_bytes(held)
        share = "" if held < 0 else format_share(held / size)
        output.emit(
            f"{name:<{width}}  {cached:>10}  {format_bytes(size):>10}  {share:>6}"
        )


def _known(n_bytes: int) -> int | None:
    return None if n_bytes < 0 else n_bytes
