"""``ggscope self-test``: whether this installation opens traces and draws them."""

import tempfile
from argparse import Namespace
from collections.abc import Callable
from pathlib import Path
from time import perf_counter
from typing import TypeVar

from ggscope import assets
from ggscope.cli import output
from ggscope.cli.export import need_no_display
from ggscope.cli.output import ERROR, GOOD
from ggscope.errors import ExportError, TraceError
from ggscope.readers.registry import infos, open_trace

_T = TypeVar("_T")


def run(arguments: Namespace) -> int:
    """Open every bundled sample and draw it; return the exit code."""
    if arguments.probe_gl:
        from ggscope.render.probe import gl_facts

        output.emit_json(gl_facts())
        return GOOD
    need_no_display()
    results = list[dict[str, object]]()
    for sample in samples():
        begin = perf_counter()
        error = _error_of(sample)
        seconds = perf_counter() - begin
        results.append(
            {"sample": sample.name, "ok": not error, "error": error or None}
            | {"seconds": round(seconds, 3)}
        )
        if error:
            output.complain(f"self-test failed: {error}")
            break
        if not arguments.json:
            _emit(output.emit, f"{sample.name}: good ({seconds:.1f} s)")
    is_good = all(result["ok"] for result in results)
    if arguments.json:
        _emit(output.emit_json, {"ok": is_good, "samples": results})
    elif is_good:
        _emit(output.emit, "self-test passed.")
    return GOOD if is_good else ERROR


def _error_of(sample: Path) -> str:
    """Return why a sample cannot be opened or drawn; "" if it can."""
    try:
        _try_sample(sample)
    except (TraceError, OSError) as error:
        return str(error)
    return ""


def _emit(emit: Callable[[_T], None], value: _T) -> None:
    try:
        emit(value)
    except BrokenPipeError:
        output.abandon()  # the exit code is still due


def samples() -> list[Path]:
    """Return the files and folders that come with the program to be opened."""
    suffixes = {suffix for info in infos() for suffix in info.suffixes}
    folder = assets.path("samples")
    paths = sorted(p for p in folder.iterdir() if p.suffix in suffixes or p.is_dir())
    if not paths:
        raise TraceError("bundled samples are missing; reinstall ggscope.")
    return paths


def _try_sample(sample: Path) -> None:
    from ggscope.readers.discovery import survey
    from ggscope.render.figure_style import FigureStyle, css_px
    from ggscope.render.figures import FIGURES
    from ggscope.render.probe import is_blank
    from ggscope.session_loading import open_bundle

    trace = open_bundle(survey([sample])) if sample.is_dir() else open_trace(sample)
    broken = trace.check()
    if broken:
        raise TraceError(f"{sample.name}: {broken[0]}")
    with tempfile.TemporaryDirectory(prefix="ggscope-") as folder:
        style = FigureStyle(width=css_px(800), height=css_px(400), title=sample.name)
        for name, spec in FIGURES.items():
            if not spec.has_data(trace):
                continue
            figure = spec.figure(trace)
            try:
                figure.image(style)
            except ExportError:  # it says why there is nothing to draw
                if name == "timeline":
                    raise
                continue
            for suffix in (".png", ".svg"):
                target = Path(folder) / f"{name}{suffix}"
                figure.write(target, style)
                # Bars and curves are few shapes in an SVG.
                is_busy = suffix == ".png" or name == "timeline"
                if is_busy and is_blank(target):
                    raise TraceError(
                        f"{sample.name}: the {suffix[1:]} figure of {name} is blank."
                    )
