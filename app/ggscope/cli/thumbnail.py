"""``ggscope thumbnail IN OUT [SIZE]``: a small picture of a trace for file managers.

It is the overview strip of the trace, without words. It has to be there within a
second, so at most `MAX_RECORDS` are read; where the file has more, the last part of
the picture is a hatch, and the rest is of the file's first records. What cannot be
drawn in that time is refused, and the file manager shows the icon of the type.
"""

import os
import threading
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from ggscope.atomic_write import check_target, refuse_inputs, write_file
from ggscope.cli import output
from ggscope.cli.export import need_no_display
from ggscope.cli.output import GOOD
from ggscope.errors import Cancelled, ExportError
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.partial_reading import NAMES_OPTION, RANGE_OPTION
from ggscope.readers.registry import estimate, open_trace

MAX_RECORDS = 300_000
"""Read in a third of a second."""
MAX_BYTES = 8 << 20
"""The largest file of a format that cannot be read in parts."""
PATIENCE_S = 5.0
"""File managers kill what takes longer, and show nothing either."""
_PART_CODES = ("range", "range_read")


def run(arguments: Namespace) -> int:
    """Write the picture; return the exit code.

    Raises
    ------
    ReadError, ExportError
        If the file is no trace, has nothing to draw or would take too long, or the
        picture cannot be written.
    """
    source, target = arguments.input, arguments.output
    refuse_inputs(target, [source])
    check_target(target, overwrite=True)
    trace = _load(source)
    if not len(trace.spans):
        raise ExportError(f"{source.name}: no spans to draw.")
    is_part = any(warning.code in _PART_CODES for warning in trace.warnings)
    width, height = arguments.pixels, round(arguments.pixels * 0.75)
    # File managers give names without a suffix.
    write_file(target, draw(trace, width, height, is_part=is_part))
    if arguments.json:
        output.emit_json(
            {
                "path": str(source),
                "output": str(target),
                "width": width,
                "height": height,
                "is_part": is_part,
            }
        )
    return GOOD


def draw(trace: Trace, width: int, height: int, *, is_part: bool) -> bytes:
    """Return the picture of a trace as a PNG."""
    need_no_display()
    from ggscope.analysis.rows.index import TraceIndex
    from ggscope.render.export import ensure_gui_application, png_bytes
    from ggscope.render.theme import theme
    from ggscope.render.timeline.overview import compose_thumbnail
    from ggscope.render.timeline.scene import OverviewScene

    scene = OverviewScene(
        index=TraceIndex(trace),
        visible=trace.extent,
        width=width,
        height=height,
        theme=theme("light"),
    )
    ensure_gui_application()
    return png_bytes(compose_thumbnail(scene, is_part=is_part))


def _load(path: Path) -> Trace:
    """Return the trace, or its first part, or say why not in time."""
    too_long = (
        f"{path.name}: it cannot be read within {PATIENCE_S:g} seconds, and has no "
        "thumbnail. ggscope FILE opens it."
    )
    if os.path.isfile(path) and path.stat().st_size > MAX_BYTES:
        known = estimate(path)
        if known is None or not known.can_range:
            raise ExportError(too_long)
    options = {RANGE_OPTION: f"0:{MAX_RECORDS}", NAMES_OPTION: "none"}
    try:
        with _ended_in_time() as cancel:
            return open_trace(path, context=ReadContext(cancel=cancel, options=options))
    except Cancelled:
        raise ExportError(too_long) from None


@contextmanager
def _ended_in_time() -> Iterator[threading.Event]:
    """Give the event that ends the reading when `PATIENCE_S` have passed."""
    cancel = threading.Event()
    timer = threading.Timer(PATIENCE_S, cancel.set)
    timer.daemon = True
    timer.start()
    try:
        yield cancel
    finally:
        timer.cancel()
        timer.join()
