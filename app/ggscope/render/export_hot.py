"""Figures of hot and cold tensors and of the what-if cache."""

from pathlib import Path

from ggscope.analysis.hot_facts import hot_cold, hot_facts
from ggscope.analysis.hotness import GroupBy
from ggscope.analysis.what_if import answer, best_possible, what_if
from ggscope.analysis.what_if_words import answer_words, rests_on
from ggscope.errors import ExportError
from ggscope.model.time import TimeRange
from ggscope.model.trace import Trace
from ggscope.render.compose_cache import CacheScene, compose_cache
from ggscope.render.compose_hot import HotPicture, HotScene, Measure, compose_hot
from ggscope.render.export import CSS_DPI, export_display_list
from ggscope.render.theme import theme as theme_named


def export_hot(
    trace: Trace,
    path: Path | str,
    *,
    size: tuple[int, int] = (1200, 640),
    dpi: float = CSS_DPI,
    theme: str = "light",
    picture: HotPicture = "ranking",
    by: GroupBy = "tensor",
    measure: Measure = "bytes",
    visible: TimeRange | None = None,
    title: str | None = None,
    overwrite: bool = True,
) -> None:
    """Write a figure of what is hot and what is cold.

    Parameters
    ----------
    path : ends in ``.png``, ``.svg`` or ``.pdf``.
    size : width and height in device-independent pixels (96 per inch).
    visible : only ops that start in it; None = all.
    title : what the picture shows where None.

    Raises
    ------
    ExportError
        If the trace accesses nothing, or the file cannot be written.
    """
    found = hot_cold(trace, visible)
    if not len(trace.accesses.patterns):
        raise ExportError("This trace does not tell which tensors its ops access.")
    words = f"Tensors, {picture}" if title is None else title
    scene = HotScene(
        trace, found, float(size[0]), float(size[1]), theme_named(theme),
        dpi / CSS_DPI, picture, by, measure, title=words,
    )  # fmt: skip
    facts = " ".join(f"{f.title}: {f.words}." for f in hot_facts(trace, found))
    export_display_list(
        compose_hot(scene),
        path,
        title=words,
        description=facts,
        dpi=dpi,
        overwrite=overwrite,
    )


def export_cache(
    trace: Trace,
    path: Path | str,
    *,
    size: tuple[int, int] = (1200, 520),
    dpi: float = CSS_DPI,
    theme: str = "light",
    capacity: int | None = None,
    visible: TimeRange | None = None,
    title: str | None = None,
    overwrite: bool = True,
) -> None:
    """Write a figure of the miss-ratio curve.

    Parameters
    ----------
    path : ends in ``.png``, ``.svg`` or ``.pdf``.
    size : width and height in device-independent pixels (96 per inch).
    capacity : size of the cache to mark, bytes.
    visible : only reads that begin in it; None = all.

    Raises
    ------
    ExportError
        If the trace tells no reads of a model file, or the figure cannot be written.
    """
    found = what_if(trace, visible)
    if not found.curve.n_reads:
        raise ExportError("This trace tells no reads of a model file.")
    words = "Read from disk by size of the page cache" if title is None else title
    scene = CacheScene(
        found, float(size[0]), float(size[1]), theme_named(theme), dpi / CSS_DPI,
        best_possible(found), -1 if capacity is None else capacity, title=words,
    )  # fmt: skip
    lines = list(rests_on(found))
    if capacity is not None:
        lines = [*answer_words(found, answer(found, capacity)), *lines]
    export_display_list(
        compose_cache(scene),
        path,
        title=words,
        description=" ".join(lines),
        dpi=dpi,
        overwrite=overwrite,
    )


__all__ = ["export_cache", "export_hot"]
