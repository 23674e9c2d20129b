"""The export formats of spans, by name, for the command line and the window.

The module that writes a format is imported when it is first used.
"""

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from pathlib import Path
from types import MappingProxyType
from typing import TYPE_CHECKING

from ggscope.errors import ExportError
from ggscope.exporters.events import Events
from ggscope.model.units import format_count

if TYPE_CHECKING:
    from ggscope.exporters.spans import SpanOrder


PACKED = ".gz"
_LEVEL, _GZIP = 3, 31
"""Of zlib: a level that costs less than what makes the text, and gzip's own frame."""


@dataclass(frozen=True, slots=True)
class Form:
    """An export format.

    Attributes
    ----------
    title : its name in the window.
    suffix : of files.
    module : that writes it, below `ggscope.exporters`; "" = a table of the spans.
    takes : which spans it can hold; "" = all.
    is_packed : whether files whose names end in .gz are compressed by gzip.
    """

    title: str
    suffix: str
    module: str = ""
    takes: str = ""
    is_packed: bool = True


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "csv": Form("CSV table", ".csv"),
        "tsv": Form("TSV table", ".tsv"),
        "markdown": Form("Markdown table", ".md"),
        "json": Form("JSON table", ".json"),
        "parquet": Form("Parquet table", ".parquet", is_packed=False),
        "chrome-json": Form("Chrome trace", ".trace.json", "chrome"),
        "perfetto": Form("Perfetto trace", ".pftrace", "perfetto"),
        "folded": Form("Folded stacks", ".folded", "folded"),
        "tensor-256": Form(
            "Tensor-access trace",
            ".bin",
            "tensor_access",
            "it holds ops alone",
            is_packed=False,
        ),
        "ggmlviz": Form(
            "ggml-viz trace",
            ".ggmlviz",
            "ggmlviz",
            "it holds ops and graphs of threads and engines alone",
            is_packed=False,
        ),
    }
)


def is_table(form: str) -> bool:
    """Return whether a form is a table of spans, one row each."""
    return not FORMS[form].module


def chunks(
    events: Events, form: str, order: "SpanOrder | None" = None
) -> Iterator[bytes]:
    """Yield a file in pieces.

    Parameters
    ----------
    order : of the rows of a table.

    Raises
    ------
    ExportError
        If what writes this form is not installed, or it has no place for any of them.
    """
    if len(events.spans) and not n_spans(events, form):
        raise ExportError(
            f"format {form} takes none of the {format_count(len(events.spans))} spans: "
            f"{FORMS[form].takes}."
        )
    module = FORMS[form].module
    if module:
        output: Iterator[bytes] = import_module(f"ggscope.exporters.{module}").chunks(
            events
        )
        return output
    from ggscope.exporters import spans

    return spans.chunks(events, form, order or spans.SpanOrder())


def packed(pieces: Iterable[bytes], form: str, path: Path) -> Iterator[bytes]:
    """Yield a file in pieces, packed by gzip where its name ends in .gz."""
    if path.suffix.lower() != PACKED or not FORMS[form].is_packed:
        yield from pieces
        return
    import zlib

    packer = zlib.compressobj(_LEVEL, wbits=_GZIP)
    for piece in pieces:
        yield packer.compress(piece)
    yield packer.flush()


def n_spans(events: Events, form: str) -> int:
    """Return how many of the spans a file of this form holds."""
    module = FORMS[form].module
    counted = None
    if module:
        counted = getattr(import_module(f"ggscope.exporters.{module}"), "n_spans", None)
    return len(events.spans) if counted is None else int(counted(events))


def losses(events: Events, form: str) -> list[str]:
    """Return what a file of this form does not hold, in sentences."""
    module = FORMS[form].module
    if not module:
        return []
    messages: list[str] = import_module(f"ggscope.exporters.{module}").losses(events)
    return messages
