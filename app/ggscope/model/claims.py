"""What a file says word for word, where the tables hold what was made of it.

The tables of a trace hold names without suffixes and layers told by names. To write
the file again, or to show a name as it was printed, the file's own words are kept
here, once per access pattern. Figures that a file states of itself stand beside what
follows from its content.
"""

import math
from dataclasses import dataclass, replace
from decimal import Decimal
from typing import Annotated

import numpy as np
import numpy.typing as npt

from ggscope.model.schema import Column
from ggscope.model.tables import I64, Array
from ggscope.model.units import format_bytes, format_count, format_share

_MS_SLACK = 0.001
"""Times in ms are made of stamps that are rounded to a microsecond, or of floats."""
_SHARE_SLACK = 0.005
"""Shares count as equal up to half a percent: what is busy at the edges of a span
differs between programs."""


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class Claims:
    """The file's own words, for each pattern of ``Trace.accesses`` and its rows.

    Attributes
    ----------
    has_results : whether records tell what an op computes and where its sources
        lie; else each record is one access.
    """

    name: Annotated[
        Array,
        Column(
            "int32",
            "the result's name with its suffixes and blanks; where a record describes "
            "one access it is the name of that",
            -1,
            of="strings",
        ),
    ]
    layer: Annotated[
        npt.NDArray[np.int32],
        Column("int32", "as the record says, not as names tell", -1),
    ]
    n_sources: Annotated[
        npt.NDArray[np.int16],
        Column("int16", "may be more than the pattern has accesses"),
    ]
    lists_experts: Annotated[
        npt.NDArray[np.bool_],
        Column("bool", "whether records of it list the router's choice"),
    ]
    source_name: Annotated[
        Array, Column("int32", "as `name`", -1, of="strings", per="pattern rows")
    ]
    source_layer: Annotated[
        npt.NDArray[np.int32],
        Column("int32", "as `layer`", -1, per="pattern rows"),
    ]
    source_index: Annotated[
        I64,
        Column("int64", "number in the tensor registry", -1, per="pattern rows"),
    ]
    has_results: bool

    def __len__(self) -> int:
        return len(self.name)


@dataclass(frozen=True, slots=True, kw_only=True)
class Stated:
    """One figure that a file states of itself, and what its content makes of it.

    Attributes
    ----------
    name : what it is about, e.g. ``TE 0 utilization``.
    stated : the file's figure.
    computed : what follows from the content; None where that does not tell.
    unit : "" for counts, "share" (0..1), "B", "cycle", "ns", "ms" or "MiB".
    basis : what `computed` was made of, e.g. ``its spans over cycles_total``.
    place : where in the file it stands, e.g. ``summary_metrics.te.per_engine[0]``.
    agrees : whether both are equal but for rounding; None where it cannot be told.
    """

    name: str
    stated: float
    computed: float | None = None
    unit: str = ""
    basis: str = ""
    place: str = ""
    agrees: bool | None = None

    @property
    def verdict(self) -> str:
        """What `agrees` means: "agrees", "contradicts", or "cannot be told"."""
        if self.agrees is None:
            return "cannot be told"
        return "agrees" if self.agrees else "contradicts"


def stated_figure(
    name: str,
    stated: object,
    computed: float | None,
    *,
    unit: str = "",
    basis: str = "",
    place: str = "",
    at_least: bool = False,
) -> Stated | None:
    """Return a figure with its verdict; None where the file states no number.

    Parameters
    ----------
    at_least : the stated figure may be larger, as that of a whole run or a capacity:
        then nothing can be told of it.
    """
    number = float(stated) if isinstance(stated, Decimal) else stated
    if isinstance(number, bool) or not isinstance(number, int | float):
        return None
    if not math.isfinite(number):
        return None
    agrees: bool | None = None
    if computed is not None and math.isfinite(computed):
        agrees = is_equal(number, computed, unit)
        if at_least and not agrees and number > computed:
            agrees = None
        if unit != "share" and float(computed).is_integer():
            computed = int(computed)
    else:
        computed = None
    return Stated(
        name=name,
        stated=number,
        computed=computed,
        unit=unit,
        basis=basis,
        place=place,
        agrees=agrees,
    )


def is_equal(stated: float, computed: float, unit: str = "") -> bool:
    """Tell whether a figure is what was computed, but for the rounding of its digits.

    Whole numbers of whole things must be equal. Anything else may be rounded to the
    last digit that the file prints, or cut off behind it.
    """
    slack = {"share": _SHARE_SLACK, "ms": _MS_SLACK}.get(unit, -1.0)
    if abs(computed - stated) <= slack:
        return True
    if float(stated).is_integer() and float(computed).is_integer():
        return stated == computed
    exponent = Decimal(repr(stated)).as_tuple().exponent
    digit = 10.0 ** (exponent if isinstance(exponent, int) else 0)
    if unit == "share" and digit > 0.1:
        return False  # no share is rounded to 0 or 1
    more = computed - stated
    noise = 1e-9 * abs(computed)
    return -digit / 2 - noise <= more <= digit / 2 + noise or 0 <= more < digit - noise


def without_verdict(figure: Stated) -> Stated:
    """Return a figure that is not held against content of which parts were lost."""
    if figure.agrees is not False:
        return figure
    basis = f"{figure.basis}, of which parts were lost".removeprefix(", ")
    return replace(figure, agrees=None, basis=basis)


def contradiction(figure: Stated) -> str:
    """Return "TE 0 utilization: 72.0 % stated, 30.5 % by its spans"."""
    by = f"by {figure.basis}" if figure.basis else "computed"
    found = figure_text(figure.computed, figure.unit)
    return (
        f"{figure.name}: {figure_text(figure.stated, figure.unit)} stated, {found} {by}"
    )


def figure_text(value: float | None, unit: str) -> str:
    """Return a figure as people read it, exactly where it is a whole number."""
    if value is None:
        return "not known"
    if unit == "share":
        return format_share(value)
    is_whole = float(value).is_integer()
    if unit == "B" and is_whole and value >= 1024:
        return f"{format_count(int(value))} bytes ({format_bytes(int(value))})"
    text = format_count(int(value)) if is_whole else f"{value:,.6g}"
    words = {"cycle": "cycles", "B": "bytes"}.get(unit, unit)
    return f"{text} {words}".rstrip()
