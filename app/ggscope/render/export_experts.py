"""Figures of experts, without any display."""

from pathlib import Path

from ggscope.analysis.expert_pictures import Beside, ExpertsRequest
from ggscope.analysis.experts import ExpertSource
from ggscope.errors import ExportError
from ggscope.model.trace import Trace
from ggscope.render.colormap import ScaleKind
from ggscope.render.compose_experts import ExpertsScene, Measure, compose_experts
from ggscope.render.export import CSS_DPI, ensure_gui_application, export_display_list
from ggscope.render.theme import theme as theme_named

_HIDDEN = {
    ExpertSource.NONE: "Nothing in this trace has to do with experts.",
    ExpertSource.STACKS: "Ops of this trace touch whole stacks of experts; which "
    "experts worked was not recorded.",
}


def export_experts(
    trace: Trace,
    path: Path | str,
    *,
    size: tuple[int, int] = (1400, 560),
    dpi: float = CSS_DPI,
    theme: str = "light",
    measure: Measure = Measure.COUNT,
    kind: ScaleKind = ScaleKind.LINEAR,
    beside: Beside | None = Beside.OVERLAP,
    overwrite: bool = True,
) -> None:
    """Write a figure of the layer × expert matrix and the picture beside it.

    Parameters
    ----------
    path : ends in ``.png``, ``.svg`` or ``.pdf``.
    size : width and height in device-independent pixels (96 per inch).
    dpi : dots per inch: a PNG has ``size * dpi / 96`` pixels.

    Raises
    ------
    ExportError
        If the trace does not tell which experts worked, the suffix is unknown or
        the file cannot be written.
    """
    ensure_gui_application()
    result = ExpertsRequest(trace, None, None, None, beside or Beside.OVERLAP)()
    choices, figures = result.base.choices, result.figures
    if choices.source in _HIDDEN:
        raise ExportError(_HIDDEN[choices.source])
    scene = ExpertsScene(
        width=float(size[0]),
        height=float(size[1]),
        theme=theme_named(theme),
        scale=dpi / CSS_DPI,
        result=result,
        measure=measure,
        kind=kind,
        with_second=beside is not None,
    )
    name = trace.info.paths[0].name if trace.info.paths else "trace"
    export_display_list(
        compose_experts(scene),
        path,
        title=f"{name} · experts",
        description=(
            f"{figures.n_active:,} of {figures.n_slots:,} (layer, expert) slots "
            f"active, {len(choices.tokens):,} tokens, known from "
            f"{choices.source.value}."
        ),
        dpi=dpi,
        overwrite=overwrite,
    )


__all__ = ["export_experts"]
