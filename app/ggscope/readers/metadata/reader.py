"""Reads ``trace_metadata.json``: facts of a run, under keys that nobody fixed.

No writer of it is known; what the first tracer's notes call by that name lies beside
its records. So every value is a fact that people read, and the counts among them are
held against the trace when both are joined.
"""

import json
from collections.abc import Iterator

from ggscope.errors import CorruptError
from ggscope.model.builder import TraceBuilder
from ggscope.model.trace import Severity, Trace
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.file_facts import refuse_larger, trace_info
from ggscope.readers.metadata import INFO
from ggscope.readers.source import Source

_MAX_BYTES = 1 << 20
_MAX_FACTS = 200
_MAX_DEPTH = 6
_MAX_TEXT = 200


class MetadataReader:
    """Reads the metadata of a trace."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its name and its first letter."""
        begins = head.data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1]
        if head.name.lower() not in INFO.names or begins != b"{":
            return NOT_MINE
        return Sniff(50, "file name of trace metadata, JSON object")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return a trace without records; `producer` holds the facts.

        Raises
        ------
        CorruptError
            If the file is no JSON object.
        LimitExceededError
            If it is larger than any metadata.
        """
        refuse_larger(source, _MAX_BYTES, "Is this the metadata of a trace?")
        data = source.read(0, source.size)
        try:
            value = json.loads(data.decode("utf-8-sig", "replace"))
        except (ValueError, RecursionError) as error:
            raise CorruptError(
                f"invalid JSON: {error}.", offset=getattr(error, "pos", 0)
            ) from None
        if not isinstance(value, dict):
            raise CorruptError("not a JSON object.", offset=0)
        builder = TraceBuilder()
        facts: dict[str, str] = {}
        n_left = 0
        for key, text in _flat(value, "", 0):
            if len(facts) < _MAX_FACTS:
                facts[key] = text
            else:
                n_left += 1
        builder.warn(
            Severity.NOTICE,
            "metadata_left",
            f"only the first {_MAX_FACTS} values are shown.",
            count=n_left,
        )
        context.progress(source.size, source.size)
        info = trace_info(INFO, source, len(facts), producer=facts)
        return builder.snapshot(info)


def _flat(value: object, name: str, depth: int) -> Iterator[tuple[str, str]]:
    """Yield (key, text) of every plain value; keys of inner objects with dots."""
    if isinstance(value, dict) and depth < _MAX_DEPTH:
        for key, inner in value.items():
            yield from _flat(inner, f"{name}.{key}" if name else key, depth + 1)
        return
    text = value if isinstance(value, str) else _json(value)
    shown = text if len(text) <= _MAX_TEXT else text[: _MAX_TEXT - 1] + "…"
    yield _whole(name[:_MAX_TEXT]), _whole(shown)


def _json(value: object) -> str:
    try:
        return json.dumps(value, ensure_ascii=False)
    except RecursionError:
        return "(nested too deeply)"


def _whole(text: str) -> str:
    """Return `text` without halves of surrogate pairs, which no file can hold."""
    return text.encode("utf-16", "surrogatepass").decode("utf-16", "replace")
