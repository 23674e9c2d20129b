"""Pictures next to each other: display lists moved and put into one."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from ggscope.render.batch import (
    AreaBatch,
    Batch,
    Clip,
    ColumnBatch,
    DisplayList,
    ImageBatch,
    LineBatch,
    RectBatch,
    TextBatch,
)


def moved(batch: Batch, dx: float, dy: float) -> Batch:
    """Return a batch moved right by `dx` and down by `dy` pixels."""
    x, y = np.float32(dx), np.float32(dy)
    if isinstance(batch, TextBatch):
        return TextBatch(
            tuple(
                replace(t, x=t.x + dx, y=t.y + dy, clip=_clip(t.clip, dx, dy))
                for t in batch.texts
            )
        )
    clip = _clip(batch.clip, dx, dy)
    if isinstance(batch, RectBatch | LineBatch):
        return replace(
            batch, x0=batch.x0 + x, x1=batch.x1 + x, y0=batch.y0 + y,
            y1=batch.y1 + y, clip=clip,
        )  # fmt: skip
    if isinstance(batch, ImageBatch | ColumnBatch):
        return replace(
            batch, x0=batch.x0 + dx, x1=batch.x1 + dx, y0=batch.y0 + y,
            y1=batch.y1 + y, clip=clip,
        )  # fmt: skip
    assert isinstance(batch, AreaBatch)
    return replace(batch, x=batch.x + x, y=batch.y + y, base=batch.base + dy, clip=clip)


def placed(
    width: float,
    height: float,
    scale: float,
    background: int,
    parts: Sequence[tuple[DisplayList, float, float]],
) -> DisplayList:
    """Return one picture of several, each with the place of its upper left corner."""
    batches = [
        moved(batch, dx, dy) for picture, dx, dy in parts for batch in picture.batches
    ]
    return DisplayList(width, height, scale, background, tuple(batches))


def _clip(clip: Clip | None, dx: float, dy: float) -> Clip | None:
    if clip is None:
        return None
    return replace(clip, x=clip.x + dx, y=clip.y + dy)


__all__ = ["moved", "placed"]
