"""``ggscope export``: figures without a display."""

import os
import sys
from argparse import Namespace
from collections.abc import Callable
from inspect import signature
from pathlib import Path

from ggscope.analysis.filters.text import parse_range
from ggscope.cli import output
from ggscope.cli.output import GOOD, USAGE, spare_inputs
from ggscope.cli.reading import coloring, for_each_file, load
from ggscope.text import file_name
from ggscope.views.registry import BUILTIN
from ggscope.writing import check_folder, check_target, make_folder


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
    from ggscope.render.export import Look

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
    views = {entry.figure_name: entry for entry in BUILTIN if entry.figure}
    make = views[arguments.view].load_figure()
    options: dict[str, Callable[[], object]] = {
        "visible": lambda: visible,
        "mask": lambda: mask,
        "color_by": lambda: coloring(trace, arguments),
        "rows": lambda: arguments.rows,
        "graph": lambda: arguments.graph,
        "collapsed": lambda: not arguments.expanded,
    }
    # Each figure takes those of the options that mean something to it.
    takes = signature(make).parameters
    figure = make(
        trace, **{name: of() for name, of in options.items() if name in takes}
    )
    look = Look(
        size=arguments.size,
        dpi=arguments.dpi,
        theme=arguments.theme,
        title=arguments.title,
    )
    figure.write(target, look, overwrite=arguments.force)


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
