"""``ggscope export``: figures without a display."""

import os
import sys
from argparse import Namespace
from collections import Counter
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from ggscope.analysis.filters.text import parse_range
from ggscope.atomic_write import (
    check_folder,
    check_target,
    make_folder,
    refuse_inputs,
    write_file,
)
from ggscope.cli import output
from ggscope.cli.output import GOOD, USAGE, code_of
from ggscope.cli.reading import Results, coloring, for_each_file, load
from ggscope.errors import ExportError, NothingToDrawError
from ggscope.model.units import format_duration
from ggscope.render.figures import FIGURES, figure_of
from ggscope.sanitize import file_name, one_line

if TYPE_CHECKING:
    import numpy as np
    import numpy.typing as npt

    from ggscope.model.notes import Note
    from ggscope.model.trace import Trace
    from ggscope.model.units import TimeRange
    from ggscope.render.export import Figure
    from ggscope.render.figure_style import FigureStyle

_STDOUT = Path("-")
_FLAGS = {
    "range": None,
    "where": "",
    "rows": None,
    "by": None,
    "measure": None,
    "include_estimated": False,
    "color_by": None,
    "graph": 0,
    "expanded": False,
}
"""Defaults of the command-line options that only some figures have."""


def run(arguments: Namespace) -> int:
    """Write the figures of each file; return the exit code."""
    if "compare" in arguments.view:
        from ggscope.cli import export_compare

        return export_compare.run(arguments)
    views, folder = arguments.view, _as_folder(arguments.output)
    if folder is None and len(arguments.files) * len(views) > 1:
        of = "views" if len(arguments.files) == 1 else "files"
        output.complain(f"several {of} need a folder: -o DIR/")
        return USAGE
    targets = _targets(arguments, folder)
    if folder is None:
        from ggscope.render.export import check_suffix

        more = (".dot",) if views == ("graph",) else ()
        check_suffix(arguments.output, more)
    else:
        check_folder(folder)
    paths = tuple(dict.fromkeys(arguments.files))
    done = {t for t in targets.values() if arguments.resume and os.path.lexists(t)}
    if arguments.only is not None:  # one process of several, whose parent checks
        arguments.files = [paths[arguments.only]]
        results = for_each_file(arguments, _work(arguments, targets, done))
        results.emit_json()
        return results.code
    for target in set(targets.values()) - done:
        refuse_inputs(target, arguments.files)
        if folder is None or os.path.isdir(folder):
            check_target(target, overwrite=arguments.force)

    if arguments.caption not in (None, _STDOUT):
        refuse_inputs(arguments.caption, arguments.files)
        check_target(arguments.caption, overwrite=arguments.force)

    if len(paths) > 1:
        from ggscope.cli.jobs import run_files

        results = run_files(arguments, paths)
    else:
        results = for_each_file(arguments, _work(arguments, targets, done))
    captions = _captions(results)
    if arguments.caption is not None and captions:
        write_captions("\n\n".join(captions) + "\n", arguments)
    if arguments.json:
        results.emit_json()
    return results.code


def _work(
    arguments: Namespace,
    targets: dict[tuple[Path, str], Path],
    done: set[Path],
) -> Callable[[Path], tuple[int, object]]:
    """Return a function that writes the figures of a file, except those in `done`."""
    views = arguments.view
    is_all = len(views) == len(FIGURES)
    captions: dict[Path, str] = {}
    noted: set[str] = set()

    def note(sentence: str) -> None:
        if sentence not in noted:  # each view of a file finds the same
            noted.add(sentence)
            output.say(f"note: {sentence}")

    def say(message: str) -> None:
        if not arguments.quiet:
            output.say(message)

    def work(path: Path) -> tuple[int, object]:
        todo = [(v, targets[path, v]) for v in views if targets[path, v] not in done]
        code, trace = GOOD, None
        noted.clear()
        records: list[dict[str, str]] = []
        for view, target in todo:
            if target not in captions:  # the same file may be named twice
                trace = load(path, arguments) if trace is None else trace
                if is_all and not FIGURES[view].has_data(trace):
                    continue
                try:
                    captions[target] = _export(trace, view, target, arguments, note)
                except ExportError as error:
                    if is_all and isinstance(error, NothingToDrawError):
                        say(f"{view} is left out: {error}")
                        continue
                    if len(views) == 1:
                        raise
                    # One view with nothing to draw does not stop the others.
                    output.complain(f"{view}: {error}")
                    code = max(code, code_of(error))
                    records.append({"view": view, "error": str(error)})
                    continue
                say(f"{target} written.")
            caption = captions[target]
            records.append({"view": view, "output": str(target), "caption": caption})
        if n_left := len(views) - len(todo):
            are = "is" if n_left == 1 else "are"
            say(f"{path}: {n_left} of {len(views)} {are} there already.")
        if len(views) > 1 or not records:
            return code, {"path": str(path), "figures": records}
        del records[0]["view"]
        return code, {"path": str(path), **records[0]}

    return work


def _captions(results: Results) -> list[str]:
    """Return the captions of all figures that were written, in their order."""
    captions: dict[str, str] = {}
    for value in results.objects:
        names: Any = value
        for figure in names.get("figures", [names]):
            if "caption" in figure:
                captions[figure["output"]] = figure["caption"]
    return list(captions.values())


def write_captions(text: str, arguments: Namespace) -> None:
    """Write captions to the file that was named, or print them."""
    if arguments.caption != _STDOUT:
        content = text.encode("utf-8")
        write_file(arguments.caption, content, overwrite=arguments.force)
        output.say(f"{arguments.caption} written.")
    elif not arguments.json:  # JSON holds it in any case
        output.emit(text)


def need_no_display() -> None:
    """Make Qt draw into memory where there is no display."""
    has_display = sys.platform in ("darwin", "win32") or any(
        os.environ.get(name) for name in ("DISPLAY", "WAYLAND_DISPLAY")
    )
    if not has_display:
        os.environ.setdefault("QT_QPA_PLATFORM", "offscreen")


def _export(
    trace: "Trace",
    view: str,
    target: Path,
    arguments: Namespace,
    note: Callable[[str], None],
) -> str:
    """Write one figure of a file; return its caption."""
    need_no_display()
    if target != arguments.output:  # one of several in a folder
        make_folder(target.parent)
    try:
        figure = make_figure(trace, view, arguments, note)
        return figure.write(target, style_of(arguments), overwrite=arguments.force)
    except (TypeError, ValueError) as error:
        if not arguments.options:
            raise
        raise ExportError(
            f"--options has a value that does not fit: {error}"
        ) from error


def style_of(arguments: Namespace) -> "FigureStyle":
    """Return the style of a figure: the preset, changed by options."""
    from ggscope.render.figure_style import FigureStyle, css_px, preset

    style = preset(arguments.preset) if arguments.preset else FigureStyle()
    if arguments.size is not None:
        width, height = map(css_px, arguments.size)
        style = replace(style, width=width, height=height)
    # "auto" gives None; an option that was not given is no attribute.
    given = vars(arguments)
    sides: dict[str, Any] = {
        n: given[n] for n in ("width", "height", "font") if n in given
    }
    for name in ("dpi", "theme", "title"):
        if given[name] is not None:
            sides[name] = given[name]
    return replace(
        style,
        **sides,
        transparent=arguments.transparent,
        seen=arguments.seen,
        legend=not arguments.no_legend,
        color_bar=not arguments.no_color_bar,
        notes=not arguments.no_notes,
    )


def make_figure(
    trace: "Trace",
    view: str,
    arguments: Namespace,
    note: Callable[[str], None],
    **more: object,
) -> "Figure":
    """Return the figure of a view with the options of the command line.

    `note` receives messages on what the trace lacks, and on options without effect;
    `more` are options that have no form on the command line.

    Raises
    ------
    ExportError
        If ``--options`` has one that the figure does not have, or the only view takes
        no option that was given: the figure would not be what was asked for.
    """
    from ggscope.render.options import option_flags, option_names, read_options

    visible = _visible_range(trace, arguments, note)
    mask = _filter_mask(trace, arguments, note)
    spec, given = figure_of(view), vars(arguments)
    flags = option_flags(spec.options)
    unused = [
        "--" + flag.replace("_", "-")
        for flag, default in _FLAGS.items()
        if flag not in flags and given[flag] and given[flag] != default
    ]
    if unused:
        message = f"{view} takes no {' and no '.join(unused)}"
        if len(arguments.view) == 1:
            raise ExportError(f"{message}. Leave it out, or choose another view.")
        note(f"{message}; it has no effect there.")
    values: dict[str, object] = {
        name: given[flag] for flag, name in flags.items() if given[flag] is not None
    }
    # Options whose values are not those of the command line as they stand.
    values |= {"visible": visible, "mask": mask, "where": arguments.where or ""}
    values["collapsed"] = not arguments.expanded
    if "color_by" in flags:
        values["color_by"] = coloring(trace, arguments)
    names = option_names(spec.options)
    values = {name: value for name, value in values.items() if name in names}
    if "notes" in names and "notes" not in arguments.options:
        values["notes"] = _notes(trace, arguments, note)
    values |= read_options(spec.options, arguments.options, view) | more
    return spec.figure(trace, **values)


def _notes(
    trace: "Trace", arguments: Namespace, note: Callable[[str], None]
) -> "tuple[Note, ...]":
    """Return the stored bookmarks of a trace, unless none are to be drawn."""
    if arguments.no_notes:
        return ()
    from ggscope.session.bookmarks.stored_notes import stored_notes

    notes, problem = stored_notes(trace)
    if problem:
        note(problem)
    return notes


def _visible_range(
    trace: "Trace", arguments: Namespace, note: Callable[[str], None]
) -> "TimeRange | None":
    if arguments.range is None:
        return None
    extent = trace.extent
    visible = parse_range(arguments.range, extent, trace.clock.unit)
    if visible.start > extent.end or visible.end < extent.start:
        end = format_duration(extent.end - extent.start, trace.clock.unit)
        note(f"the trace is {end} long: nothing of it lies in {arguments.range}.")
    return visible


def _filter_mask(
    trace: "Trace", arguments: Namespace, note: Callable[[str], None]
) -> "npt.NDArray[np.bool_] | None":
    if not arguments.where:
        return None
    from ggscope.analysis.filters.masks import filter_mask, read_filter

    mask = filter_mask(trace, read_filter(arguments.where, trace))
    if mask is not None and not mask.any():
        note(f"no span passes {one_line(arguments.where)}.")
    return mask


def _as_folder(target: Path) -> Path | None:
    """Return `target` where it is a folder, or is to become one."""
    is_new = not target.suffix and not os.path.lexists(target)
    return target if is_new or os.path.isdir(target) else None


def _stems(paths: list[Path]) -> dict[Path, str]:
    """Return the first part of the names of the figures of each file.

    The file name without the suffix; with it, and then with the folder, where several
    files would have the same.
    """
    stems: dict[Path, str] = {}
    for name_of in (
        lambda path: path.stem,
        lambda path: path.name,
        lambda path: f"{Path(os.path.realpath(path)).parent.name}-{path.name}",
    ):
        names = {path: name_of(path) for path in paths if path not in stems}
        counts = Counter([*names.values(), *stems.values()])
        stems |= {path: name for path, name in names.items() if counts[name] == 1}
    return {path: path.name for path in paths} | stems


def _targets(arguments: Namespace, folder: Path | None) -> dict[tuple[Path, str], Path]:
    """Return where each figure goes, by file and view; repeated names get a number."""
    pairs = [(p, v) for p in dict.fromkeys(arguments.files) for v in arguments.view]
    if folder is None:
        return dict.fromkeys(pairs, arguments.output)
    targets: dict[tuple[Path, str], Path] = {}
    taken: set[str] = set()
    stems = _stems(list(dict.fromkeys(arguments.files)))
    for path, view in pairs:
        stem = stems[path]
        name, number = file_name(stem, f".{view}.png"), 1
        while name in taken:
            number += 1
            name = file_name(stem, f".{view}-{number}.png")
        taken.add(name)
        targets[path, view] = folder / name
    return targets
