"""Numbers as people read them: durations, bytes, counts, shares.

The rules are those of the interface reference: four significant digits, exact
form on demand, KiB/MiB/GiB, shares with one decimal and "<0.1 %", "N/A" for
what is not known.
"""

from ggscope.model.time import Unit

NOT_AVAILABLE = "N/A"
THIN = "\u202f"
_NS_STEPS = ((1_000, "ns"), (1_000_000, "µs"), (1_000_000_000, "ms"))
_BYTE_UNITS = ("B", "KiB", "MiB", "GiB", "TiB", "PiB", "EiB")


def _significant(value: float) -> str:
    """Return `value` with four significant digits and no exponent."""
    magnitude = abs(value)
    decimals = 3 if magnitude < 9.9995 else 2 if magnitude < 99.995 else 1
    if magnitude >= 999.95:
        decimals = 0
    return f"{value:.{decimals}f}"


def format_duration(ticks: int | float, unit: Unit = "ns") -> str:
    """Return a duration such as ``123 ns``, ``12.34 µs`` or ``2:03.4``."""
    if unit == "cycle":
        return f"{format_count(round(ticks))} cyc"
    magnitude = abs(ticks)
    if magnitude < 1_000:
        return f"{ticks:.0f} ns" if float(ticks).is_integer() else f"{ticks:.1f} ns"
    if magnitude < 999_950:
        return f"{_significant(ticks / 1e3)} µs"
    if magnitude < 999_950_000:
        return f"{_significant(ticks / 1e6)} ms"
    if magnitude < 59_999_500_000:
        return f"{_significant(ticks / 1e9)} s"
    sign = "-" if ticks < 0 else ""
    tenths = round(magnitude / 1e8)
    minutes, rest = divmod(tenths, 600)
    if minutes < 60:
        return f"{sign}{minutes}:{rest // 10:02d}.{rest % 10}"
    hours, minutes = divmod(minutes, 60)
    return f"{sign}{hours}:{minutes:02d}:{rest // 10:02d}.{rest % 10}"


def format_exact(ticks: int, unit: Unit = "ns") -> str:
    """Return every digit: ``1.234 567 890 s`` or ``12,345 cycles``."""
    if unit == "cycle":
        return f"{ticks:,} cycle" + ("" if abs(ticks) == 1 else "s")
    sign = "-" if ticks < 0 else ""
    seconds, ns = divmod(abs(ticks), 1_000_000_000)
    digits = f"{ns:09d}"
    return f"{sign}{seconds}.{digits[:3]}{THIN}{digits[3:6]}{THIN}{digits[6:]}{THIN}s"


def format_bytes(n: int | float) -> str:
    """Return a size such as ``24.8 MiB``; below 1 KiB the exact count."""
    if abs(n) < 1024:
        return f"{n:.0f} B"
    value, unit = float(n), 0
    while abs(value) >= 1023.95 and unit < len(_BYTE_UNITS) - 1:
        value /= 1024
        unit += 1
    return f"{value:.1f} {_BYTE_UNITS[unit]}"


def format_exact_bytes(n: int) -> str:
    """Return ``26,004,480 bytes``."""
    return f"{n:,} byte" + ("" if abs(n) == 1 else "s")


def format_offset(offset: int) -> str:
    """Return a file offset in hex with groups of four: ``0x0C4A_8800``."""
    if offset < 0:
        return NOT_AVAILABLE
    digits = f"{offset:X}"
    digits = digits.rjust(-(-len(digits) // 4) * 4, "0")
    return "0x" + "_".join(digits[i : i + 4] for i in range(0, len(digits), 4))


def format_count(n: int) -> str:
    """Return ``1,048,576``."""
    return f"{n:,}"


def format_share(share: float) -> str:
    """Return a share (0..1) as per cent with one decimal: ``97.2 %``."""
    if share != share:
        return NOT_AVAILABLE
    if 0 < share < 0.0005:
        return "<0.1 %"
    if 0.9995 <= share < 1:
        return ">99.9 %"
    return f"{share * 100:.1f} %"


def format_rate(bytes_per_second: float) -> str:
    """Return ``116.0 GiB/s``."""
    return f"{format_bytes(bytes_per_second)}/s"


def parse_duration(text: str, unit: Unit = "ns") -> int:
    """Return the ticks that `text` names: ``12.5ms``, ``3us``, ``100``, ``2s``.

    A bare number is ticks. Raises ValueError where it is not understood.
    """
    factors = {
        "ns": 1,
        "us": 10**3,
        "µs": 10**3,
        "ms": 10**6,
        "s": 10**9,
        "cyc": 1,
        "cycles": 1,
        "cycle": 1,
    }
    stripped = text.strip().lower().replace(",", "").replace("_", "")
    for suffix in sorted(factors, key=len, reverse=True):
        if stripped.endswith(suffix):
            if unit == "cycle" and not suffix.startswith("cyc"):
                raise ValueError(f"this trace counts cycles, not {suffix}: {text!r}")
            number = stripped[: -len(suffix)].strip()
            factor = factors[suffix]
            break
    else:
        number, factor = stripped, 1
    try:
        return int(number) * factor
    except ValueError:
        return round(float(number) * factor)
