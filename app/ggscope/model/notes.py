"""Notes: what the user wrote on a time of a trace, and the colours it can have."""

import re
from dataclasses import dataclass
from typing import NamedTuple

from ggscope.model.units import TimeRange

_COLOR_KEY = re.compile("[a-z]{1,20}")


class Note(NamedTuple):
    """A name on a time of a trace, with a text and a colour.

    Attributes
    ----------
    time : ticks; start == end is a point.
    text : what was written about it, in one line; "" = nothing.
    color : key of a `NoteColor`; one that is not known counts as the first.
    """

    name: str
    time: TimeRange
    text: str = ""
    color: str = ""

    @property
    def label(self) -> str:
        """The name, followed by the text where there is one."""
        return f"{self.name}: {self.text}" if self.text else self.name


@dataclass(frozen=True, slots=True)
class NoteColor:
    """A colour that notes can have: its key in files, title, and 0xRRGGBB.

    The first one has no hue of its own: it is the theme's colour of caution.
    """

    key: str
    title: str
    rgb: int | None = None


NOTE_COLORS = (
    NoteColor("", "Amber"),
    NoteColor("red", "Red", 0xE5484D),
    NoteColor("green", "Green", 0x30A46C),
    NoteColor("blue", "Blue", 0x3E8BF5),
    NoteColor("violet", "Violet", 0xA05EDB),
    NoteColor("grey", "Grey", 0x8B8D98),
)


def color_key(value: object) -> str:
    """Return the key of a colour from a file; "" where it can be none.

    A key that this version does not know is kept: a newer one may have written it.
    """
    return value if isinstance(value, str) and _COLOR_KEY.fullmatch(value) else ""
