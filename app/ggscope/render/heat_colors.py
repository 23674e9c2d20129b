"""Colours of many cells at once: a table in place of a logarithm per cell."""

from functools import cache

import numpy as np

from ggscope.model.tables import I64
from ggscope.render.batch import U32
from ggscope.render.colormap import ColorScale, ScaleKind, texels

_N_KEYS = 1 << 16
_FRACTION_BITS = 15
_RANKS = 257


def value_keys(values: I64) -> U32:
    """Return a number below 2**16 per value >= 0, monotone in the value.

    It is the exponent and the first 8 bits of the fraction of the value as float32:
    finer than a step of the colours, and a table by it is an order faster than a
    logarithm or a search per cell.
    """
    found: U32 = values.astype(np.float32).view(np.uint32) >> np.uint32(_FRACTION_BITS)
    return found


@cache
def key_values() -> np.ndarray:
    """Return a number that each key stands for, float64[2**16]; 0 for key 0."""
    bits = np.arange(_N_KEYS, dtype=np.uint32) << np.uint32(_FRACTION_BITS)
    with np.errstate(invalid="ignore"):
        numbers = bits.view(np.float32).astype(np.float64)
    return np.where(np.isfinite(numbers), numbers, 0.0)


def cell_scale(values: I64, keys: U32, kind: ScaleKind) -> ColorScale:
    """Return the scale that covers all cells above zero; `keys` are theirs."""
    high = float(values.max(initial=0))
    if not high:
        return ColorScale(kind, 1.0, 1.0)
    if kind is ScaleKind.LINEAR:
        return ColorScale(kind, 0.0, high)
    if kind is ScaleKind.LOG:
        # Key 0 becomes the largest number: the least key above 0 is found at once.
        least = int((keys - np.uint32(1)).argmin())
        low = float(values.flat[least])
        return ColorScale(kind, min(low, high), high)
    seen = np.bincount(keys.ravel(), minlength=_N_KEYS)
    seen[0] = 0
    occurring = np.flatnonzero(seen)
    numbers = key_values()[occurring]
    low = min(float(numbers[0]), high)
    ranks = np.cumsum(seen[occurring])
    wanted = np.linspace(1, ranks[-1], _RANKS)
    quantiles = numbers[np.searchsorted(ranks, wanted)]
    return ColorScale(kind, low, high, quantiles)


def cell_texels(keys: U32, scale: ColorScale, colors: str, background: int) -> U32:
    """Return the colour of each cell, as ``colormap.texels`` within half a per cent."""
    if keys.size < _N_KEYS:
        return texels(key_values()[keys], scale, colors, background)
    table = texels(key_values(), scale, colors, background)
    return np.take(table, keys)


__all__ = ["cell_scale", "cell_texels", "key_values", "value_keys"]
