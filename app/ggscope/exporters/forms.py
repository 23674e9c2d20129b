"""The forms in which the spans of a trace leave the program, by name.

What the command line and the window offer; what writes one is imported when it is
asked for.
"""

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from importlib import import_module
from types import MappingProxyType
from typing import TYPE_CHECKING

from ggscope.errors import ExportError
from ggscope.exporters.events import Events
from ggscope.model.units import format_count

if TYPE_CHECKING:
    from ggscope.exporters.spans import SpanOrder


@dataclass(frozen=True, slots=True)
class Form:
    """One form.

    Attributes
    ----------
    title : what people call it.
    suffix : of files.
    module : below `ggscope.exporters`; "" = a table of the spans.
    takes : which spans it has a place for; "" = all.
    """

    title: str
    suffix: str
    module: str = ""
    takes: str = ""


FORMS: Mapping[str, Form] = MappingProxyType(
    {
        "csv": Form("CSV table", ".csv"),
        "tsv": Form("TSV table", ".tsv"),
        "markdown": Form("Markdown table", ".md"),
        "json": Form("JSON table", ".json"),
        "parquet": Form("Parquet table", ".parquet"),
        "chrome-json": Form("Chrome trace", ".trace.json", "chrome"),
        "perfetto": Form("Perfetto trace", ".pftrace", "perfetto"),
        "folded": Form("Folded stacks", ".folded", "folded"),
        "tensor-256": Form(
            "Tensor-access trace", ".bin", "tensor_access", "it holds ops alone"
        ),
        "ggmlviz": Form(
            "ggml-viz trace",
            ".ggmlviz",
            "ggmlviz",
            "it holds ops and graphs of threads and engines alone",
        ),
    }
)


def is_table(form: str) -> bool:
    """Tell whether a form is a table of spans, one row each."""
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
