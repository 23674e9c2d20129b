"""How different two colours look: CIEDE2000, for three kinds of colour vision.

Sharma, Wu, Dalal: The CIEDE2000 color-difference formula (2005). Dichromats after
Machado, Oliveira, Fernandes: A physiologically-based model for simulation of color
vision deficiency (2009), severity 1.
"""

from math import atan2, cos, degrees, exp, hypot, radians, sin, sqrt

Triple = tuple[float, float, float]

VISIONS: dict[str, tuple[Triple, Triple, Triple]] = {
    "usual": ((1, 0, 0), (0, 1, 0), (0, 0, 1)),
    "deuteranope": (
        (0.367322, 0.860646, -0.227968),
        (0.280085, 0.672501, 0.047413),
        (-0.011820, 0.042940, 0.968881),
    ),
    "protanope": (
        (0.152286, 1.052583, -0.204868),
        (0.114503, 0.786281, 0.099216),
        (-0.003882, -0.048116, 1.051998),
    ),
}
_TO_XYZ = (
    (0.4124564, 0.3575761, 0.1804375),
    (0.2126729, 0.7151522, 0.0721750),
    (0.0193339, 0.1191920, 0.9503041),
)
_WHITE = (0.95047, 1.0, 1.08883)


def lab(color: int, vision: str = "usual") -> Triple:
    """Return L*, a*, b* of 0xAARRGGBB as somebody sees it."""
    channels = [((color >> shift) & 255) / 255 for shift in (16, 8, 0)]
    linear = [
        c / 12.92 if c <= 0.04045 else ((c + 0.055) / 1.055) ** 2.4 for c in channels
    ]
    seen = [min(max(part, 0.0), 1.0) for part in _times(VISIONS[vision], linear)]
    x, y, z = (
        _root(part / white)
        for part, white in zip(_times(_TO_XYZ, seen), _WHITE, strict=True)
    )
    return 116 * y - 16, 500 * (x - y), 200 * (y - z)


def difference(one: Triple, other: Triple) -> float:
    """Return the CIEDE2000 difference of two colours; 1 is just to be seen."""
    (l1, a1, b1), (l2, a2, b2) = one, other
    c_mean = (hypot(a1, b1) + hypot(a2, b2)) / 2
    g = (1 - sqrt(c_mean**7 / (c_mean**7 + 25**7))) / 2
    a1, a2 = (1 + g) * a1, (1 + g) * a2
    c1, c2 = hypot(a1, b1), hypot(a2, b2)
    h1, h2 = (degrees(atan2(b, a)) % 360 for a, b in ((a1, b1), (a2, b2)))
    dh, h_sum = h2 - h1, h1 + h2
    if not c1 * c2:
        dh, h_mean = 0.0, h_sum
    elif abs(dh) <= 180:
        h_mean = h_sum / 2
    else:
        h_mean = (h_sum + (360 if h_sum < 360 else -360)) / 2
        dh += -360 if dh > 0 else 360
    d_hue = 2 * sqrt(c1 * c2) * sin(radians(dh / 2))
    l_mean, c_mean = (l1 + l2) / 2, (c1 + c2) / 2
    t = (
        1
        - 0.17 * cos(radians(h_mean - 30))
        + 0.24 * cos(radians(2 * h_mean))
        + 0.32 * cos(radians(3 * h_mean + 6))
        - 0.20 * cos(radians(4 * h_mean - 63))
    )
    s_l = 1 + 0.015 * (l_mean - 50) ** 2 / sqrt(20 + (l_mean - 50) ** 2)
    s_c, s_h = 1 + 0.045 * c_mean, 1 + 0.015 * c_mean * t
    turn = 60 * exp(-(((h_mean - 275) / 25) ** 2))
    r_t = -sin(radians(turn)) * 2 * sqrt(c_mean**7 / (c_mean**7 + 25**7))
    parts = (l2 - l1) / s_l, (c2 - c1) / s_c, d_hue / s_h
    return sqrt(sum(part**2 for part in parts) + r_t * parts[1] * parts[2])


def _times(matrix: tuple[Triple, Triple, Triple], vector: list[float]) -> list[float]:
    return [sum(a * b for a, b in zip(row, vector, strict=True)) for row in matrix]


def _root(t: float) -> float:
    return t ** (1 / 3) if t > 0.008856 else 7.787 * t + 16 / 116
