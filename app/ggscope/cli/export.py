"""``ggscope export``: figures without a display."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

from ggscope.analysis.filters.text import parse_range
from ggscope.cli import output
from ggscope.cli.output import GOOD, USAGE, spare_inputs
from ggscope.cli.reading import coloring, for_each_file, load
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace
from ggscope.text import file_name
from ggscope.writing import check_folder, check_target, make_folder

Mask = npt.NDArray[np.bool_]


def run(arguments: Namespace) -> int:
    """Write one figure per file; return the exit code."""
    folder = _as_folder(arguments.output)
    if folder is None and len(arguments.files) > 1:
        output.complain("several files need a folder: -o DIR/")
        return USAGE
    targets = _targets(arguments, folder)
    if folder is None:
        from ggscope.render.export import check_suffix

        check_suffix(arguments.output, (".dot",) if arguments.view == "graph" else ())
    else:
        check_folder(folder)
    for target in set(targets.values()):
        spare_inputs(target, arguments.files)
        if folder is None or folder.is_dir():
            check_target(target, overwrite=arguments.force)

    written: set[Path] = set()

    def work(path: Path) -> tuple[int, object]:
        target = targets[path]
        if target not in written:  # the same file may be named twice
            _export(path, target, arguments)
            output.say(f"{target} written.")
            written.add(target)
        return GOOD, {"path": str(path), "output": str(target)}

    results = for_each_file(arguments, work)
    if arguments.json:
        results.emit_json()
    return results.code


def need_no_display() -> None:
    """Make Qt draw into memory where there is no display."""
    has_display = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if not has_display:
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


def _export(path: Path, target: Path, arguments: Namespace) -> None:
    trace = load(path, arguments)
    visible = None
    if arguments.range is not None:
        visible = parse_range(arguments.range, trace.extent, trace.clock.unit)
    mask = None
    if arguments.where:
        from ggscope.analysis.filters.masks import filter_mask, read_filter

        mask = filter_mask(trace, read_filter(arguments.where, trace))
    need_no_display()
    if target != arguments.output:  # one of several in a folder
        make_folder(target.parent)
    draw = _VIEWS[arguments.view]
    draw(trace, target, arguments, visible, mask)


def _look(arguments: Namespace) -> dict[str, Any]:
    """Return what every figure takes; a view's own size where none is given."""
    look: dict[str, Any] = {
        "dpi": arguments.dpi,
        "theme": arguments.theme,
        "overwrite": arguments.force,
    }
    if arguments.size is not None:
        look["size"] = arguments.size
    return look


def _timeline(trace: Trace, target: Path, arguments: Namespace, *part: Any) -> None:
    from ggscope.render.export import export_timeline

    visible, mask = part
    export_timeline(
        trace,
        target,
        visible=visible,
        color_by=coloring(trace, arguments),
        title=arguments.title,
        mask=mask,
        **_look(arguments),
    )


def _heatmap(trace: Trace, target: Path, arguments: Namespace, *part: Any) -> None:
    from ggscope.render.heatmap.figure import export_heatmap

    visible, mask = part
    export_heatmap(
        trace,
        target,
        rows=arguments.rows,
        mask=_within(trace, visible, mask),
        title=arguments.title,
        **_look(arguments),
    )


def _within(trace: Trace, visible: TimeRange | None, mask: Mask | None) -> Mask | None:
    """Return the spans that start in a range, of those in the mask."""
    if visible is None:
        return mask
    start = trace.spans.start
    inside = (start >= visible.start) & (start < visible.end)
    return inside if mask is None else inside & mask


def _experts(trace: Trace, target: Path, arguments: Namespace, *_: Any) -> None:
    from ggscope.render.experts import export_experts

    export_experts(trace, target, **_look(arguments))


def _buffers(trace: Trace, target: Path, arguments: Namespace, *part: Any) -> None:
    from ggscope.render.buffers import export_buffers

    export_buffers(trace, target, visible=part[0], **_look(arguments))


def _graph(trace: Trace, target: Path, arguments: Namespace, *_: Any) -> None:
    from ggscope.render.graph.figure import export_graph

    export_graph(
        trace,
        target,
        graph=arguments.graph,
        collapsed=not arguments.expanded,
        **_look(arguments),
    )


def _hot(trace: Trace, target: Path, arguments: Namespace, *part: Any) -> None:
    from ggscope.render.reads import export_hot

    look = _look(arguments)
    export_hot(trace, target, visible=part[0], title=arguments.title, **look)


def _cache(trace: Trace, target: Path, arguments: Namespace, *part: Any) -> None:
    from ggscope.render.reads import export_cache

    look = _look(arguments)
    export_cache(trace, target, visible=part[0], title=arguments.title, **look)


_VIEWS: dict[str, Callable[..., None]] = {
    "timeline": _timeline,
    "heatmap": _heatmap,
    "experts": _experts,
    "buffers": _buffers,
    "graph": _graph,
    "hot": _hot,
    "cache": _cache,
}


def _as_folder(target: Path) -> Path | None:
    """Return `target` where it is a folder, or is to become one."""
    is_new = not target.suffix and not os.path.lexists(target)
    return target if is_new or target.is_dir() else None


def _targets(arguments: Namespace, folder: Path | None) -> dict[Path, Path]:
    """Return where each file's figure goes; names that repeat get a number."""
    if folder is None:
        return dict.fromkeys(arguments.files, arguments.output)
    targets: dict[Path, Path] = {}
    taken: set[str] = set()
    for path in dict.fromkeys(arguments.files):
        name, number = file_name(path.stem, f".{arguments.view}.png"), 1
        while name in taken:
            number += 1
            name = file_name(path.stem, f".{arguments.view}-{number}.png")
        taken.add(name)
        targets[path] = folder / name
    return targets
