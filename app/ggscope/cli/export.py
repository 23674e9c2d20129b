"""``ggscope export``: figures without a display."""

import os
import sys
from argparse import Namespace
from pathlib import Path

from ggscope.analysis.filter_text import parse_range
from ggscope.cli import output
from ggscope.cli.exits import GOOD, USAGE
from ggscope.cli.reading import for_each_file, load
from ggscope.cli.targets import spare_inputs
from ggscope.errors import ExportError


def run(arguments: Namespace) -> int:
    """Write one figure per file; return the exit code."""
    folder = _as_folder(arguments.output)
    if folder is None and len(arguments.files) > 1:
        output.complain("several files need a folder: -o DIR/")
        return USAGE
    targets = _targets(arguments, folder)
    for target in set(targets.values()):
        spare_inputs(target, arguments.files)

    def work(path: Path) -> tuple[int, object]:
        target = targets[path]
        _export(path, target, arguments)
        output.say(f"{target} written.")
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
        from ggscope.analysis.filtering import filter_mask, parse_filter

        mask = filter_mask(trace, parse_filter(arguments.where, trace.clock.unit))
    need_no_display()
    from ggscope.render.export import export_timeline

    export_timeline(
        trace,
        target,
        size=arguments.size,
        dpi=arguments.dpi,
        theme=arguments.theme,
        visible=visible,
        color_by=arguments.color_by,
        title=arguments.title,
        mask=mask,
    )


def _as_folder(target: Path) -> Path | None:
    """Return `target` where it is a folder, or is to become one."""
    if target.is_dir():
        return target
    if target.suffix or target.exists():
        return None
    try:
        target.mkdir(parents=True)
    except OSError as error:
        raise ExportError(f"{target}: {error.strerror or error}.") from error
    return target


def _targets(arguments: Namespace, folder: Path | None) -> dict[Path, Path]:
    """Return where each file's figure goes; names that repeat get a number."""
    if folder is None:
        return dict.fromkeys(arguments.files, arguments.output)
    targets: dict[Path, Path] = {}
    taken: set[str] = set()
    for path in dict.fromkeys(arguments.files):
        stem, number = f"{path.stem}.{arguments.view}", 1
        while stem in taken:
            number += 1
            stem = f"{path.stem}.{arguments.view}-{number}"
        taken.add(stem)
        targets[path] = folder / f"{stem}.png"
    return targets
