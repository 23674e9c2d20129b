"""Options of figures: typed fields that the command line and JSON can set.

Each figure has a frozen dataclass of options. The metadata of a field, made by
`option`, says which command-line option sets it and how it is read from JSON
(``--options``); a field without any is read as it stands.
"""

from collections.abc import Callable, Mapping, Sequence
from dataclasses import fields
from enum import Enum
from typing import TYPE_CHECKING, Any, get_args

from ggscope.errors import ExportError
from ggscope.model.notes import Note, color_key
from ggscope.model.selection import Gap, MarkedRange, Selection, TableName
from ggscope.model.units import TimeRange
from ggscope.render.export import ExportCommand

if TYPE_CHECKING:
    from ggscope.model.trace import Trace

Notes = tuple[Note, ...]
_MAX_ENTRIES = 10_000


def plain_option(value: object) -> object:
    """Return a parsed JSON value with lists as tuples; TypeError for an object."""
    if isinstance(value, list):
        return tuple(plain_option(entry) for entry in value)
    if isinstance(value, dict):
        raise TypeError(value)
    return value


def option(
    *, flag: str = "", read: Callable[[Any], object] | None = plain_option
) -> dict[str, Any]:
    """Return the metadata of a dataclass field that is an option.

    Parameters
    ----------
    flag : name of the attribute of the command-line option that sets it; "" = none.
    read : makes the value from parsed JSON; None = JSON cannot set it.
    """
    return {"flag": flag, "read": read}


def option_flags(options: type[Any]) -> dict[str, str]:
    """Return the names of options by the command-line option that sets them."""
    flags = ((f.metadata.get("flag", ""), f.name) for f in fields(options))
    return {flag: name for flag, name in flags if flag}


def option_names(options: type[Any]) -> frozenset[str]:
    """Return the names of all options."""
    return frozenset(f.name for f in fields(options))


def read_options(
    options: type[Any], given: Mapping[str, object], figure: str
) -> dict[str, Any]:
    """Return the options of a figure from parsed JSON, by name.

    Raises
    ------
    ExportError
        If the figure has no such option, or it cannot have this value.
    """
    readers = {
        f.name: f.metadata.get("read", plain_option)
        for f in fields(options)
        if f.metadata.get("read", plain_option) is not None
    }
    values = {}
    for name, value in given.items():
        if name not in readers:
            known = ", ".join(sorted(readers))
            raise ExportError(f"{figure} has no option {name!r}. Options: {known}.")
        try:
            values[name] = readers[name](value)
        except (TypeError, ValueError, KeyError) as error:
            raise ExportError(
                f"{figure}: the option {name!r} cannot be {value!r}."
            ) from error
    return values


def changed_options(options: Any, *names: str) -> dict[str, object]:
    """Return the options that differ from their defaults, as JSON, by name.

    Only `names`, in their order; without any, all that JSON can set.
    """
    by_name = {
        f.name: f
        for f in fields(options)
        if f.metadata.get("read", plain_option) is not None
    }
    values = {}
    for name in names or by_name:
        value = _json_value(getattr(options, name))
        if value != _json_value(by_name[name].default):
            values[name] = value
    return values


def export_command(
    view: str, trace: "Trace", options: Any, lacks: Sequence[str] = ()
) -> ExportCommand:
    """Return the command line that makes the figure of a trace.

    Parameters
    ----------
    lacks : see `ExportCommand`.
    """
    values = changed_options(options)
    return ExportCommand(view, trace.info.opened, values, lacks=tuple(lacks))


def _json_value(value: object) -> object:
    if isinstance(value, TimeRange):
        return time_option(value)
    if isinstance(value, Enum):
        return value.value
    return list(value) if isinstance(value, tuple) else value


def time_option(time: TimeRange) -> list[int]:
    """Return a time range as JSON: both ends in ticks."""
    return [time.start, time.end]


def read_time(value: Any) -> TimeRange:
    """Return a time range from JSON, see `time_option`."""
    start, end = value
    return TimeRange(int(start), int(end))


def selection_option(selection: Selection) -> dict[str, object] | None:
    """Return a selection as JSON; None if empty, too long, or a row of statistics."""
    if not selection or selection.group or len(selection.ids) > _MAX_ENTRIES // 10:
        return None
    value: dict[str, object] = {"table": selection.table, "ids": list(selection.ids)}
    if (gap := selection.gap) is not None:
        value["gap"] = {"time": time_option(gap.time), "after": gap.after}
    return value


def read_selection(value: Any) -> Selection:
    """Return a selection from JSON, see `selection_option`."""
    if value["table"] not in get_args(TableName) or len(value["ids"]) > _MAX_ENTRIES:
        raise ValueError(value)
    ids = tuple(int(i) for i in value["ids"])
    if value["table"] != "gaps":
        return Selection(value["table"], ids)
    if len(ids) != 1:
        raise ValueError(value)
    gap = value["gap"]
    time, after = read_time(gap["time"]), int(gap["after"])
    return Selection("gaps", ids, gap=Gap(time, ids[0], after))


def marked_option(marked: MarkedRange) -> dict[str, object]:
    """Return a marked range as JSON."""
    value: dict[str, object] = {"time": time_option(marked.time)}
    if marked.lanes is not None:
        value["lanes"] = sorted(marked.lanes)
    return value


def read_marked(value: Any) -> MarkedRange:
    """Return a marked range from JSON, see `marked_option`."""
    lanes = value.get("lanes")
    return MarkedRange(
        read_time(value["time"]), None if lanes is None else frozenset(map(str, lanes))
    )


def note_option(note: Note) -> list[object]:
    """Return a note as JSON: name and time, text and colour where it has them."""
    more: list[object] = [note.text, note.color] if note.text or note.color else []
    return [note.name, time_option(note.time), *more]


def read_notes(value: Any) -> Notes:
    """Return notes from JSON, see `note_option`."""
    if len(value) > _MAX_ENTRIES:
        raise ValueError(value)
    return tuple(_note(*entry) for entry in value)


def _note(name: object, time: object, text: object = "", color: object = "") -> Note:
    return Note(str(name), read_time(time), str(text), color_key(color))
