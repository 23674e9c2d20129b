"""``ggscope self-test``: whether this installation opens traces and draws them."""

import tempfile
from argparse import Namespace
from pathlib import Path
from time import perf_counter

from ggscope import assets
from ggscope.cli import output
from ggscope.cli.export import need_no_display
from ggscope.cli.output import ERROR, GOOD
from ggscope.errors import TraceError
from ggscope.readers.registry import infos, open_trace

_MIN_COLORS = 8
"""A picture with fewer colours shows no spans."""
_STEP = 3
_GL_STRINGS = {"vendor": 0x1F00, "renderer": 0x1F01, "OpenGL": 0x1F02}


def run(arguments: Namespace) -> int:
    """Open every bundled sample and draw it; return the exit code."""
    if arguments.probe_gl:
        output.emit_json(gl_facts())
        return GOOD
    need_no_display()
    for sample in _samples():
        begin = perf_counter()
        try:
            _try_sample(sample)
        except (TraceError, OSError) as error:
            output.complain(f"self-test failed: {error}")
            return ERROR
        _say(f"{sample.name}: good ({perf_counter() - begin:.1f} s)")
    _say("self-test passed.")
    return GOOD


def _say(text: str) -> None:
    try:
        output.emit(text)
    except BrokenPipeError:
        output.abandon()  # the exit code is wanted all the same


def _samples() -> list[Path]:
    suffixes = {suffix for info in infos() for suffix in info.suffixes}
    folder = assets.path("samples")
    found = sorted(p for p in folder.iterdir() if p.suffix in suffixes or p.is_dir())
    if not found:
        raise TraceError("the bundled samples are missing; install ggscope again.")
    return found


def _try_sample(sample: Path) -> None:
    from ggscope.opening import open_bundle
    from ggscope.readers.survey import survey
    from ggscope.render.look import Look, css_px
    from ggscope.render.timeline.figure import timeline_figure

    trace = open_bundle(survey([sample])) if sample.is_dir() else open_trace(sample)
    broken = trace.check()
    if broken:
        raise TraceError(f"{sample.name}: {broken[0]}")
    with tempfile.TemporaryDirectory(prefix="ggscope-") as folder:
        figure = timeline_figure(trace)
        for suffix in (".png", ".svg"):
            target = Path(folder) / f"figure{suffix}"
            figure.write(
                target, Look(width=css_px(800), height=css_px(400), title=sample.name)
            )
            if is_blank(target):
                raise TraceError(f"{sample.name}: the {suffix[1:]} figure is blank.")


def is_blank(figure: Path) -> bool:
    """Tell whether a PNG or SVG figure shows nothing, or cannot be decoded."""
    if figure.suffix == ".svg":
        text = figure.read_text("utf-8")
        return text.count("<rect") + text.count("<path") < _MIN_COLORS
    from PySide6.QtGui import QImage

    image = QImage(str(figure))
    colors: set[int] = set()
    for y in range(0, image.height(), _STEP):
        colors.update(image.pixel(x, y) for x in range(0, image.width(), _STEP))
    return len(colors) < _MIN_COLORS


def gl_facts() -> dict[str, str]:
    """Return what draws OpenGL here: platform, vendor, renderer and version.

    Makes a QGuiApplication; call it in a process of its own, since a broken driver
    may end it.
    """
    from PySide6.QtGui import QGuiApplication, QOffscreenSurface, QOpenGLContext

    application = QGuiApplication(["ggscope"])
    surface, context = QOffscreenSurface(), QOpenGLContext()
    surface.create()
    facts = {"platform": application.platformName()}
    if not (context.create() and context.makeCurrent(surface)):
        return {**facts, "OpenGL": "not available"}
    functions = context.functions()
    for name, number in _GL_STRINGS.items():
        facts[name] = functions.glGetString(number) or "unknown"
    context.doneCurrent()
    return facts
