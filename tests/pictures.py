"""Small display lists without any trace, for the tests of the painters."""

import numpy as np

from ggscope.render.batch import (
    Align,
    AreaBatch,
    Clip,
    DisplayList,
    Face,
    ImageBatch,
    LineBatch,
    Pattern,
    RectBatch,
    Text,
    TextBatch,
)

BLUE, ORANGE, GREEN = 0xFF0072B2, 0xFFE69F00, 0xFF009E73


def floats(*values: float) -> np.ndarray:
    return np.array(values, np.float32)


def colors(*values: int) -> np.ndarray:
    return np.array(values, np.uint32)


def rect(
    x0: float, y0: float, x1: float, y1: float, fill: int, **look: object
) -> RectBatch:
    """Return a batch of one rectangle."""
    border = look.pop("border", None)
    pattern = look.pop("pattern", None)
    return RectBatch(
        floats(x0),
        floats(x1),
        floats(y0),
        floats(y1),
        colors(fill),
        None if border is None else colors(border),  # type: ignore[arg-type]
        None if pattern is None else np.array([pattern], np.uint8),
        **look,  # type: ignore[arg-type]
    )


def everything(scale: float = 1.0, *, texts: bool = True) -> DisplayList:
    """Return a picture with every kind of batch, pattern, border and clip in it."""
    rng = np.random.default_rng(1)
    columns = round(200 * scale)
    pixels = rng.integers(0, 1 << 32, (3, columns), dtype=np.uint64).astype(np.uint32)
    x = np.linspace(10, 210, 41).astype(np.float32)
    y = (140 + 12 * np.sin(np.arange(40) / 4)).astype(np.float32)
    batches = [
        rect(0, 0, 220, 20, 0xFF252932),
        rect(10, 24, 60, 44, BLUE, border=0xFF004B76),
        rect(62, 24, 110, 44, ORANGE, pattern=int(Pattern.DOTTED)),
        rect(112, 24, 160, 44, GREEN, pattern=int(Pattern.HATCH)),
        rect(162, 24, 210, 44, 0xFF6B7380, pattern=int(Pattern.FAINT_HATCH)),
        ImageBatch(pixels, 8, 208, floats(50, 70, 90), floats(68, 88, 96)),
        rect(20, 100, 120, 122, 0x8056B4E9, border=0xFF56B4E9),
        rect(130, 100, 190, 122, 0xFF252932, border=0xFF9AA2AF, radius=6.0),
        rect(100, 40, 300, 60, 0xFFD55E00, clip=Clip(195, 30, 10, 100)),
        AreaBatch(x, y, 160, 0x80009E73, 0xFF009E73),
        LineBatch(
            floats(15.5, 10),
            floats(0, 165.5),
            floats(15.5, 210),
            floats(180, 165.5),
            colors(0xFFFFFFFF, 0xFFF0E442),
        ),
        LineBatch(
            floats(205.5),
            floats(0),
            floats(205.5),
            floats(180),
            colors(0xFFE69F00),
            dashed=True,
        ),
    ]
    if texts:
        batches.append(
            TextBatch(
                (
                    Text(14, 34, "ffn_down-4", 0xFFFFFFFF, 11.5, width=44),
                    Text(110, 10, "412.5 ms", 0xFF9AA2AF, 11, Face.MONO, Align.CENTER),
                )
            )
        )
    return DisplayList(220, 180, scale, 0xFF1D2026, tuple(batches))
