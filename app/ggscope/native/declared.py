"""Declarations of the C structures and functions that Python calls.

The build turns this into C (`checks`) and compiles it behind each source: a field that
lies elsewhere or is of another type, and a function with other arguments, do not build.
The same declarations make the calls: a pointer takes an array of its type, or None, and
refuses others; a structure keeps the arrays that it points to.

Only the standard library is needed here, as the build imports this file alone.
"""

import ctypes
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar, cast

try:
    # As the standard library's random does: hashlib loads OpenSSL, at every start.
    from _sha256 import sha256  # type: ignore[import-not-found]  # has no stub
except ImportError:
    from hashlib import sha256

FOLDER = Path(__file__).parent
NAME = "_native.so"
"""The library; it lies beside its sources, where there are any."""

_DTYPES = {
    "void": None, "double": ("<f8",), "float": ("<f4",),
    "uint8_t": ("|u1", "|b1"), "uint16_t": ("<u2",), "uint32_t": ("<u4",),
    "uint64_t": ("<u8",), "int16_t": ("<i2",), "int32_t": ("<i4",),
    "int64_t": ("<i8",), "int8_t": ("|i1",),
}  # fmt: skip
"""What numpy calls a C type; None: any, whose width goes beside it."""
_NUMBERS = {ctypes.c_int32: "int32_t", ctypes.c_int64: "int64_t",
            ctypes.c_uint64: "uint64_t", ctypes.c_double: "double"}  # fmt: skip


class Pointer(ctypes.c_void_p):
    """The address of numbers, or of structures.

    Attributes
    ----------
    target : the C type.
    dtypes : of the arrays that it takes, as `numpy.dtype.str`; None: any.
    is_const : whether C only reads there.
    seen : the types of arrays that have passed the check.
    """

    target: ClassVar[str]
    dtypes: ClassVar[tuple[str, ...] | None]
    is_const: ClassVar[bool]
    seen: ClassVar[set[Any]]

    @classmethod
    def address(cls, array: Any) -> int:  # a numpy array; this file has no numpy
        """Return where the values of an array lie.

        Raises
        ------
        TypeError
            If they are of another type, not next to each other, or must not be
            written where C writes.
        """
        flags, dtype = array.flags, array.dtype
        # numpy makes the text of a type anew each time.
        if cls.dtypes is not None and dtype not in cls.seen:
            if dtype.str not in cls.dtypes:
                raise TypeError(f"values of type {dtype}, not {cls.target}")
            cls.seen.add(dtype)
        if not flags.c_contiguous or not flags.aligned:
            raise TypeError("the values are not next to each other")
        if not cls.is_const and not flags.writeable:
            raise TypeError("the values must not be written")
        # Not array.ctypes, which imports a module each time: as dear as all else here.
        return int(array.__array_interface__["data"][0])

    @classmethod
    def from_param(cls, value: Any) -> Any:  # whatever stands in a call
        """Return what ctypes hands over for an array, a structure, several, or None."""
        if value is None:
            return None
        kind = value._type_ if isinstance(value, ctypes.Array) else type(value)
        if issubclass(kind, Struct) and kind.__name__ == cls.target:
            return ctypes.byref(value)
        return ctypes.c_void_p(cls.address(value))


def _pointer(target: str, dtypes: tuple[str, ...] | None, is_const: bool) -> Any:
    facts: dict[str, Any] = {
        "target": target,
        "dtypes": dtypes,
        "is_const": is_const,
        "seen": set(),
    }
    return type(f"{'In' if is_const else 'Out'}_{target}", (Pointer,), facts)


class In:
    """Pointers through which C reads."""

    void, f64, f32, u8, u16, u32, u64, i16, i32, i64, i8 = (
        _pointer(target, dtypes, is_const=True) for target, dtypes in _DTYPES.items()
    )


class Out:
    """Pointers through which C writes, and may read."""

    void, f64, f32, u8, u16, u32, u64, i16, i32, i64, i8 = (
        _pointer(target, dtypes, is_const=False) for target, dtypes in _DTYPES.items()
    )


i32, i64, u64 = ctypes.c_int32, ctypes.c_int64, ctypes.c_uint64
f64 = ctypes.c_double


_SET = ctypes.Structure.__setattr__


def _pointed(kind: Any, value: Any) -> Any:
    """Return what a field that holds addresses is set to for an array, or arrays."""
    if issubclass(kind, Pointer):
        return kind.address(value)
    return kind(*map(kind._type_.address, value))


class Struct(ctypes.Structure):
    """A structure of a C file: pointers in it are set to arrays, which it keeps."""

    _pointers: ClassVar[dict[str, Any]] = {}

    def __init_subclass__(cls) -> None:
        """Note the types of the fields that hold addresses."""
        super().__init_subclass__()
        fields: Any = cls._fields_
        cls._pointers = {
            name: kind
            for name, kind in fields
            if issubclass(kind, Pointer | ctypes.Array)
        }

    def __init__(self, *first: Any, **values: Any) -> None:
        """Set the first fields, and others by name; the rest are nothing."""
        super().__init__(*first)
        # Hundreds are set for each picture: a call for each would be as dear again.
        pointers, held = self._pointers, self.__dict__
        for name, value in values.items():
            kind = pointers.get(name)
            if kind is None:
                _SET(self, name, value)
            elif value is not None:
                _SET(self, name, _pointed(kind, value))
                held[name] = value

    def __setattr__(self, name: str, value: Any) -> None:  # a number, array, or arrays
        # Arrays stand under the field's own name in the dictionary, which attributes
        # pass by.
        kind = self._pointers.get(name)
        if kind is None or value is None:
            self.__dict__.pop(name, None)
            _SET(self, name, value)
            return
        _SET(self, name, _pointed(kind, value))
        self.__dict__[name] = value

    def let_go(self, *names: str) -> None:
        """Keep the arrays of these fields no longer; set them before the next call."""
        for name in names:
            self.__dict__.pop(name, None)


def _names(kind: Any, *names: str) -> tuple[tuple[str, Any], ...]:
    """Return fields of one type."""
    return tuple((name, kind) for name in names)


class Row(Struct):
    """A row of spans under one colouring and filter."""

    _fields_ = (
        *_names(In.i64, "start", "end", "top", "coarse", "prefix"),
        ("ids", In.void), ("category", In.void), ("number", In.u16), ("names", In.i32),
        ("fine", In.u32), ("base", In.i64), ("keep", In.u8), ("kept", In.u32),
        ("kept_covered", In.i64), ("bounds", In.i64), ("element_category", In.void),
        ("wait", In.u32), ("waited", In.i64),
        *_names(i64, "n_waits", "n", "first_id", "n_names", "n_elements"),
        *_names(i32, "id_bytes", "category_bytes", "bucket_bits", "group_bits"),
    )  # fmt: skip


class ColumnTable(Struct):
    """The columns of several rows of spans."""

    _fields_ = (
        ("busy", In.f64), ("category", In.i32), *_names(In.i64, "count", "first"),
        ("waited", In.i64), ("levels", In.u16), ("level_at", In.i64), ("px", i64),
    )  # fmt: skip


class StackLook(Struct):
    """What stacked columns look like."""

    _fields_ = (
        *_names(In.u32, "hue", "foot_hue", "colors", "foot_colors"), ("n_colors", i64),
        ("strength", f64), ("idle", In.u8), *_names(i64, "tone", "waiting"),
        *_names(i64, "least", "has_feet", "is_premultiplied"),
    )  # fmt: skip


class Selection(Struct):
    """Which spans count for statistics, for which group, and how much of each."""

    _fields_ = (
        *_names(In.i64, "start", "end"), *_names(In.void, "flags", "column", "op"),
        ("mask", In.u8), ("pattern", In.void), ("table", In.i32),
        *_names(In.i64, "bytes", "unknown"), ("is_open", In.u8),
        ("op_ticks", In.i64), ("wait", In.u32),
        *_names(In.i64, "split_first", "split_group", "split_bytes", "split_unknown"),
        *_names(In.i64, "split_before", "split_after", "split_whole"),
        *_names(In.i64, "window_start", "window_end", "window_before"),
        ("n_windows", i64), ("key", Out.i32),
        *_names(i64, "low", "n_table", "n_groups", "n_patterns"),
        *_names(i64, "time_start", "time_end"),
        *_names(i32, "column_width", "op_width", "flags_width", "pattern_width"),
        *_names(i32, "has_time", "worst_used", "mantissa"),
    )  # fmt: skip


class Plain(Struct):
    """What the first pass of the statistics adds up of most spans of a group."""

    _fields_ = _names(
        i64, "n", "total", "min", "max", "outside", "bytes", "open", "op_ticks"
    )


class Figures(Struct):
    """What the first pass of the statistics adds up."""

    _fields_ = (
        *_names(Out.i64, "spans", "bytes", "total", "inside", "min", "max"),
        *_names(Out.i64, "unknown", "ops", "wait", "waits", "longest"),
        *_names(Out.i64, "open", "op_ticks", "op_bytes", "op_open"),
        ("plain", _pointer("Plain", _DTYPES["int64_t"], is_const=False)),
        ("histogram", Out.u32),
    )  # fmt: skip


class Order(Struct):
    """Sorted runs of spans that are gone over in the order of time."""

    _fields_ = (
        ("stop", In.i64), *_names(Out.i64, "cursor", "heap"), ("n_runs", i64),
        ("turns", In.u8),
    )  # fmt: skip


class Moment(Struct):
    """How far the time has passed in which groups share it."""

    _fields_ = _names(i64, "now", "stretch", "due")


class Open(Struct):
    """A span that is open while self times are added up."""

    _fields_ = _names(i64, "span", "end", "own")


class Field(Struct):
    """Where a field lies in an event of a .ggmlviz file."""

    _fields_ = _names(i32, "offset", "width")


class Intake(Struct):
    """Where the events of a .ggmlviz file come from, and the columns they go to."""

    _fields_ = (
        ("data", In.u8), ("end", i64), ("body", In.i64),
        ("fields", _pointer("Field", _DTYPES["int32_t"], is_const=True)),
        ("max_label", i64), ("secret", In.u64),
        *_names(i64, "at", "skip", "row", "names_every"),
        *_names(i64, "n_starts", "start_room"), ("starts", Out.i64),
        *_names(i64, "n", "room"), ("kind", Out.u8), ("time", Out.u64),
        ("place", Out.i32), ("pointer", Out.u64), ("number", Out.u32),
        ("label", Out.i32),
        *_names(i64, "n_sizes", "size_room"), ("sizes", Out.u64),
        *_names(i64, "n_places", "place_room", "place_mask"),
        ("place_slots", Out.i32), ("place_hashes", Out.u64),
        ("threads", Out.u32), ("backends", Out.u64),
        *_names(i64, "n_labels", "label_room", "label_mask", "letter_room"),
        ("label_slots", Out.i32), ("label_hashes", Out.u64), ("label_ends", Out.i64),
        ("letters", Out.u8),
    )  # fmt: skip


class Pairing(Struct):
    """The events of a .ggmlviz file and the intervals they make."""

    _fields_ = (
        ("kind", In.u8), ("time", In.i64), ("place", In.i32), ("pointer", In.u64),
        ("order", In.i64), ("thread_of", In.i32), ("secret", In.u64),
        *_names(In.i64, "innermost", "last", "graph_end"), ("has_end", In.u8),
        ("n_ops", Out.i32), ("seen", Out.u8), ("current", Out.i64),
        *_names(i64, "next_graph", "n", "n_strays"),
        *_names(Out.i32, "begin", "owner", "partner", "link", "strays"),
        *_names(i64, "n_keys", "mask"), ("slots", Out.i32),
    )  # fmt: skip


class RingFacts(Struct):
    """What the graphs and nodes are that the records of a ring name."""

    _fields_ = (
        ("graph", In.u32), *_names(In.i64, "first", "n_nodes"), ("token", In.i32),
        ("phase", In.i8), ("n_graphs", i64), *_names(In.i32, "name", "pattern"),
        ("layer", In.i16), *_names(i64, "n_nodes_all", "origin", "far", "most_ops"),
        *_names(i32, "graph_name", "no_end", "begin_only", "whole_graph"),
        *_names(i64, "no_wait", "longest_wait"),
    )  # fmt: skip


class RingSpans(Struct):
    """The columns that records of a ring become."""

    _fields_ = (
        *_names(Out.i64, "start", "end"), *_names(Out.i32, "name", "token", "pattern"),
        *_names(Out.i16, "op", "layer"), ("flags", Out.u16), ("wait", Out.u32),
        ("phase", Out.i8),
    )  # fmt: skip


class EventRows(Struct):
    """Where the events of an NPU trace go."""

    _fields_ = (
        *_names(i64, "capacity", "deps_capacity", "n_rows", "n_deps", "length"),
        *_names(i64, "n_lines", "status"),
        *_names(Out.u8, "kind", "word", "way"),
        *_names(Out.i32, "begin", "finish", "line", "unit", "dep_count"),
        *_names(Out.i64, "time", "until", "number", "size", "address"),
        ("detail", Out.i64 * 5), ("amount", Out.f64 * 4), ("text", Out.i32 * 4),
        ("deps", Out.i64),
    )  # fmt: skip


class RecordForm(Struct):
    """What to look for in a record of a tensor trace."""

    _fields_ = (
        *_names(i64, "n_words", "key_first", "key_stop", "name_first", "name_stop"),
        *_names(i64, "experts_word", "max_time", "first_extension", "has_durations"),
        *_names(i64, "wait_word", "extra_word", "sample_records", "sample_every"),
        *_names(In.u64, "key_mask", "key_factors", "name_factors"),
    )


class RecordColumns(Struct):
    """Where the header columns of a tensor trace go."""

    _fields_ = (
        ("time", Out.i64), ("token", Out.i32), ("layer", Out.i16), ("thread", Out.u16),
        *_names(Out.u8, "op", "phase", "kind"), ("duration", Out.i64),
        ("wait", Out.u32), ("name_hash", Out.u32), ("pattern", Out.i32),
    )  # fmt: skip


class LogRows(Struct):
    """One row per line of a log that states something."""

    _fields_ = (
        *_names(Out.i64, "line", "offset"), ("length", Out.i32), ("time", Out.i64),
        *_names(Out.u8, "clock", "level", "kind"), ("slot", Out.i32),
        ("task", Out.i64), ("value", Out.f64), ("n_values", Out.u8),
    )  # fmt: skip


class LogTally(Struct):
    """How far a scan of a log came."""

    _fields_ = (
        *_names(i64, "n_rows", "n_lines", "consumed", "n_known", "open_streams"),
    )


class CallRows(Struct):
    """One row per event of a trace of CUDA calls."""

    _fields_ = (
        *_names(Out.i64, "line", "offset"), ("length", Out.i32), ("whole", Out.i64),
        ("nano", Out.i32), *_names(Out.u8, "clock", "form", "phase", "flags"),
        *_names(Out.i64, "id", "pid", "tid"), ("depth", Out.i16),
        *_names(Out.i32, "name", "type", "way", "result"), ("size", Out.i64),
        ("address", Out.u64), *_names(Out.f64, "rate", "duration"),
    )  # fmt: skip


class TextTable(Struct):
    """Texts of lines, each once, by where they stand."""

    _fields_ = (
        *_names(i64, "count", "capacity", "n_slots"), ("secret", u64),
        ("slots", Out.i32), ("offset", Out.i64), ("length", Out.i32),
    )  # fmt: skip


class CallTally(Struct):
    """How far a scan of calls came, and which lines were no events."""

    _fields_ = (
        *_names(i64, "n_rows", "n_lines", "consumed", "n_broken", "n_repaired"),
        *_names(i64, "n_other", "first_broken", "first_repaired", "first_other"),
        *_names(i64, "n_dropped", "n_begun", "n_ended", "n_left_out"),
        *_names(i64, "epoch", "epoch_whole", "epoch_nano"),
    )


class OpRows(Struct):
    """One row per fact that a line of ggml states about an op."""

    _fields_ = (
        *_names(Out.i64, "line", "offset"), ("length", Out.i32), ("time", Out.i64),
        ("kind", Out.u8), ("text", Out.i32), ("value", Out.i64),
    )  # fmt: skip


class TextArena(Struct):
    """Texts, each once, and their bytes."""

    _fields_ = (
        *_names(i64, "count", "capacity", "n_slots"), ("secret", u64),
        ("slots", Out.i32), ("offset", Out.i64), ("length", Out.i32),
        *_names(i64, "used", "size"), ("arena", Out.u8),
    )  # fmt: skip


class OpTally(Struct):
    """How far a scan for such lines came, and whether a list of Vulkan goes on."""

    _fields_ = (
        *_names(i64, "n_lines", "consumed", "n_broken", "first_broken", "n_other"),
        *_names(i64, "timings", "prefix"),
    )


class StackPairs(Struct):
    """Pairs, each once: a frame of two texts, or a node of its parent and a frame."""

    _fields_ = (
        *_names(i64, "count", "capacity", "n_slots"),
        *_names(Out.i32, "slots", "first", "second"),
    )


class StackRows(Struct):
    """One row per sample of a text."""

    _fields_ = (
        *_names(i64, "capacity", "count"), *_names(Out.i64, "offset", "time", "period"),
        *_names(Out.i32, "comm", "event", "pid", "tid", "cpu", "node"),
    )  # fmt: skip


class StackTally(Struct):
    """How far a scan of samples came, and what it passed over."""

    _fields_ = (
        *_names(i64, "consumed", "status", "n_other", "first_other"),
        *_names(i64, "n_deep", "first_deep", "n_negative", "first_negative"),
    )


class StackWalk(Struct):
    """Frames that are open between samples, outermost first."""

    _fields_ = (
        *_names(i64, "count", "depth"),
        ("node", Out.i32), ("span", Out.i64),
    )  # fmt: skip


class ChromeRows(Struct):
    """One row per Chrome trace event."""

    _fields_ = (
        *_names(Out.i64, "offset", "time", "duration", "id", "number"),
        *_names(Out.i64, "correlation", "external"),
        *_names(Out.i32, "pid", "tid", "name", "category", "text", "word"),
        *_names(Out.i32, "layer", "token", "core", "numa", "span"),
        *_names(Out.u8, "phase", "flags"),
    )  # fmt: skip


class ChromeValues(Struct):
    """One row per value of a counter."""

    _fields_ = (
        *_names(i64, "capacity", "count"), *_names(Out.i32, "row", "key"),
        ("value", Out.f64),
    )  # fmt: skip


class ListTally(Struct):
    """How far a scan of a list of objects came, and what was no object."""

    _fields_ = _names(i64, "consumed", "status", "n_broken", "first_broken", "n_other")


class ChromeTally(Struct):
    """What a scan of events counted."""

    _fields_ = (
        *_names(i64, "n_events", "n_bare", "first_bare"), ("phases", i64 * 128),
    )  # fmt: skip


class FieldPaths(Struct):
    """Fields that are looked for in each object of a list."""

    _fields_ = (
        ("n", i64), ("keys", In.u8), *_names(In.i32, "begin", "length"),
        *_names(In.u8, "depth", "kind"),
    )  # fmt: skip


class FieldRows(Struct):
    """Values of these fields, and where each object begins."""

    _fields_ = (*_names(Out.i64, "number", "offset"), ("real", Out.f64))


class TableLayout(Struct):
    """What each field of a row is, and the column that it goes to."""

    _fields_ = (
        *_names(i64, "n_fields", "n_texts", "delimiter"), ("kind", In.u8),
        ("column", In.i32),
    )  # fmt: skip


class TableRows(Struct):
    """Columns that rows of a table go to."""

    _fields_ = (
        ("capacity", i64), *_names(Out.i64, "offset", "number"), ("real", Out.f64),
        ("text", Out.i32),
    )  # fmt: skip


class TableTally(Struct):
    """How far a scan of rows came, and which lines were none."""

    _fields_ = _names(
        i64, "consumed", "status", "n_stray", "first_stray", "has_open_end"
    )


class PerfettoRows(Struct):
    """One row per slice event and instant."""

    _fields_ = (
        *_names(i64, "count", "capacity"),
        *_names(Out.i64, "offset", "time", "duration"),
        *_names(Out.i32, "clock", "track", "name", "category"),
        *_names(Out.u8, "phase", "flags"),
        *_names(Out.i32, "layer", "token", "core", "numa", "word", "span"),
        ("quality", Out.u8),
    )  # fmt: skip


class PerfettoValues(Struct):
    """One row per sample of a counter."""

    _fields_ = (
        *_names(i64, "count", "capacity"), ("time", Out.i64),
        *_names(Out.i32, "clock", "track", "state"), ("value", Out.f64),
    )  # fmt: skip


class PerfettoFlows(Struct):
    """One row per flow that an event belongs to."""

    _fields_ = (
        *_names(i64, "count", "capacity"), ("row", Out.i32), ("id", Out.u64),
        ("role", Out.u8),
    )  # fmt: skip


class PerfettoTracks(Struct):
    """One row per description of a track, thread or process."""

    _fields_ = (
        *_names(i64, "count", "capacity"), *_names(Out.i32, "track", "parent"),
        *_names(Out.i32, "name", "process", "thread", "unit", "merge_key"),
        *_names(Out.i64, "pid", "tid", "multiplier"), ("rank", Out.i32),
        *_names(Out.u8, "flags", "unit_code", "ordering"),
    )  # fmt: skip


class PerfettoInterned(Struct):
    """One row per interned text, and where it stands."""

    _fields_ = (
        *_names(i64, "count", "capacity"), *_names(Out.i32, "number", "length", "text"),
        ("offset", Out.i64),
    )  # fmt: skip


class PerfettoSnapshots(Struct):
    """One row per clock of a snapshot."""

    _fields_ = (
        *_names(i64, "count", "capacity"), *_names(Out.i32, "snapshot", "clock"),
        ("time", Out.i64),
    )  # fmt: skip


class PerfettoStates(Struct):
    """One row per beginning of what a sequence knows."""

    _fields_ = (
        *_names(i64, "count", "capacity"), ("sequence", Out.i32), ("offset", Out.i64),
    )  # fmt: skip


class PerfettoNumbers(Struct):
    """Small numbers for pairs of large ones."""

    _fields_ = (
        *_names(i64, "count", "capacity", "n_slots"), ("secret", u64),
        ("slots", Out.i32), *_names(Out.u64, "first", "second"), ("space", Out.u8),
    )  # fmt: skip


class PerfettoSequences(Struct):
    """What is known of each sequence of packets."""

    _fields_ = (
        ("state", Out.i32), *_names(Out.u8, "is_valid", "has_track", "has_thread"),
        *_names(Out.u8, "has_time", "n_extra", "n_extra_double"),
        *_names(Out.i64, "clock", "pid", "tid", "time"), ("track", Out.u64),
        *_names(Out.i32, "extra", "extra_double"),
    )  # fmt: skip


class PerfettoKnown(Struct):
    """What is known of each clock and interned text."""

    _fields_ = (
        *_names(Out.i64, "multiplier", "last"), ("is_incremental", Out.u8),
        ("hash", Out.u64), ("note", Out.u8),
    )  # fmt: skip


class PerfettoTally(Struct):
    """How far a scan of packets came, and what it passed over."""

    _fields_ = (
        *_names(i64, "consumed", "status", "needed", "body_at", "body_size"),
        *_names(i64, "n_packets", "n_states", "n_snapshots", "primary_clock"),
        *_names(i64, "n_broken", "first_broken", "n_untimed", "first_untimed"),
        *_names(i64, "n_skipped", "first_skipped", "n_gaps", "first_gap"),
        *_names(i64, "n_left_out", "first_left_out", "n_uncounted"),
        ("first_uncounted", i64), ("kinds", i64 * 2048),
    )  # fmt: skip


class ExportTexts(Struct):
    """Texts by number, one behind the other."""

    _fields_ = (("bytes", In.u8), ("offset", In.i64))


class ExportRows(Struct):
    """One row per event that is written for other viewers."""

    _fields_ = (
        *_names(i64, "n", "n_args"), ("kind", In.u8), *_names(In.i64, "start", "end"),
        *_names(In.i32, "name", "category", "track"), ("args", In.i64),
        ("key", In.i32), ("is_text", In.u8), ("id", In.i64), ("value", In.f64),
        ("flow_at", In.i64), ("flow", In.u64), ("number", In.u8),
    )  # fmt: skip


class ExportSpace(Struct):
    """Where a lane's spans are laid out on tracks."""

    _fields_ = (
        ("capacity", i64), ("tree", Out.i64), *_names(Out.i32, "top", "below", "heap"),
    )  # fmt: skip


class ExportStack(Struct):
    """Slices that are open while packets are written."""

    _fields_ = (("depth", i64), ("end", Out.i64), ("track", Out.i32))


class ExportStacks(Struct):
    """Stacks of frames, each once, with the time of it alone."""

    _fields_ = (
        *_names(i64, "count", "capacity", "n_slots"),
        *_names(Out.i32, "slots", "under", "frame"), ("time", Out.i64),
    )  # fmt: skip


class IoRows(Struct):
    """One row per line about storage: a step of a request, a read call, a fault."""

    _fields_ = (
        *_names(Out.i64, "line", "offset", "time"),
        *_names(Out.u8, "clock", "form", "action", "kind", "phase"),
        *_names(Out.i64, "handle", "place", "size", "extra"), ("pid", Out.i32),
        *_names(Out.i32, "name", "path"),
    )  # fmt: skip


class IoLayout(Struct):
    """Which dialects to look for, and the columns of a table of biosnoop."""

    _fields_ = (("forms", i64), ("n_before", i64), ("n_behind", i64), ("codes", In.u8))


class IoTally(Struct):
    """How far a scan of a storage trace came, and what it passed over."""

    _fields_ = (
        *_names(i64, "n_rows", "n_lines", "consumed", "n_events", "n_other"),
        *_names(i64, "first_other", "n_broken", "first_broken", "n_hidden"),
        ("actions", Out.i64), ("forms", Out.i64),
    )  # fmt: skip


class RecordTally(Struct):
    """What a scan of a tensor trace counted."""

    _fields_ = (
        *_names(i64, "n_records", "n_ops", "n_extension", "n_bad_time", "n_expert"),
        *_names(i64, "n_empty", "first_bad_time", "first_empty", "has_layers"),
        *_names(i64, "has_durations", "has_waits", "status", "error"),
    )


class RecordPatterns(Struct):
    """The distinct patterns of a tensor trace."""

    _fields_ = (
        *_names(i64, "count", "capacity", "n_slots"), *_names(Out.i32, "slots", "next"),
        *_names(Out.u64, "hashes", "exemplars"), ("first_record", Out.i64),
        ("last", i64),
    )  # fmt: skip


def _in(struct: type[Struct]) -> Any:
    return _pointer(struct.__name__, (), is_const=True)


def _out(struct: type[Struct]) -> Any:
    return _pointer(struct.__name__, (), is_const=False)


_spans = (In.i64, In.i64, In.i32)
_codes = (In.void, i32, In.void, i32, i64)
_runs = (_in(ColumnTable), In.i64, i64, i64, *[Out.i64] * 4)

SOURCES: dict[str, dict[str, tuple[Any, ...]]] = {
    "calls": {
        "ggscope_scan_calls": (
            i64, In.u8, i64, i64, i64, _in(CallRows), _out(TextTable),
            _out(CallTally),
        )
    },
    "chrome": {
        "ggscope_chrome_scan": (
            i64, In.u8, i64, i64, i64, i64, _in(ChromeRows), _out(ChromeValues),
            _out(TextTable), _out(ListTally), _out(ChromeTally),
        ),
        "ggscope_chrome_pair": (
            i64, i64, In.i32, In.u8, In.i32, Out.i32, Out.i32,
        ),
        "ggscope_chrome_nest": (
            i64, i64, In.i32, In.i64, In.i64, Out.i32, Out.u8,
        ),
        "ggscope_chrome_enclosing": (
            None, i64, In.i32, In.i64, In.i64, In.i32, i64, In.i32, In.i64, In.u8,
            Out.i32,
        ),
    },
    "fields": {
        "ggscope_json_fields": (
            i64, In.u8, i64, i64, i64, i64, _in(FieldPaths), _in(FieldPaths),
            _in(FieldRows), Out.i64, _out(ListTally),
        ),
        "ggscope_json_member": (i64, In.u8, i64, i64, Out.i64),
        "ggscope_json_skip": (i64, In.u8, i64, Out.i64),
        "ggscope_table_rows": (
            i64, In.u8, i64, i64, _in(TableLayout), _in(TableRows),
            _out(TextTable), _out(TableTally),
        ),
    },
    "perfetto": {
        "ggscope_perfetto_scan": (
            None, In.u8, i64, i64, i64, i64, _out(PerfettoRows),
            _out(PerfettoValues), _out(PerfettoFlows), _out(PerfettoTracks),
            _out(PerfettoInterned), _out(PerfettoSnapshots), _out(PerfettoStates),
            _out(TextTable), *[_out(PerfettoNumbers)] * 4, _out(PerfettoSequences),
            _out(PerfettoKnown), _out(PerfettoTally),
        ),
        "ggscope_perfetto_rehash": (None, _out(PerfettoNumbers)),
    },
    "export": {
        "ggscope_export_tracks": (
            i64, i64, In.i64, In.i64, _in(ExportSpace), Out.i32,
        ),
        "ggscope_export_nest": (
            i64, i64, In.i32, In.i64, In.i64, Out.i32, Out.i64, Out.i64,
        ),
        "ggscope_export_json": (
            i64, _in(ExportRows), _in(ExportTexts), _in(ExportTexts), i64, i64,
            Out.u8, Out.i64,
        ),
        "ggscope_export_packets": (
            i64, _in(ExportRows), i64, i64, _out(ExportStack), i64, Out.u8, Out.i64,
        ),
        "ggscope_export_stacks": (
            i64, i64, In.i32, In.i64, In.i64, In.i32, In.i32, In.u8, In.i32,
            _out(ExportStacks), Out.i32, Out.i32,
        ),
    },
    "storage": {
        "ggscope_scan_storage": (
            i64, In.u8, i64, i64, i64, _in(IoLayout), _in(IoRows), _out(TextTable),
            _out(IoTally),
        ),
        "ggscope_storage_places": (
            i64, In.i64, In.i64, i64, Out.i64, i64, Out.i32,
        ),
    },
    "stacks": {
        "ggscope_stacks_rehash_pairs": (None, _out(StackPairs)),
        "ggscope_stacks_rehash_texts": (None, _out(TextArena)),
        "ggscope_stacks_put": (
            i64, _out(StackPairs), In.i32, In.i64, i64, Out.i32,
        ),
        "ggscope_stacks_spans": (
            None, In.i32, In.i32, In.u8, i64, i64, _out(StackWalk), Out.i32,
            Out.i32, Out.i32,
        ),
        "ggscope_stacks_perf": (
            None, In.u8, i64, i64, _out(TextArena), _out(StackPairs),
            _out(StackPairs), _out(StackRows), Out.i32, _out(StackTally),
        ),
        "ggscope_stacks_folded": (
            None, In.u8, i64, i64, _out(TextArena), _out(StackPairs),
            _out(StackPairs), _out(StackRows), _out(StackTally),
        ),
    },
    "logs": {
        "ggscope_scan_log": (
            i64, In.u8, i64, i64, i64, _in(LogRows), _out(LogTally),
        ),
        "ggscope_log_lines_done": (i64, In.u8, i64, i64),
        "ggscope_number_tasks": (
            i64, In.i64, In.i64, i64, u64, Out.i32, i64, Out.i64, Out.i64,
        ),
    },
    "ops": {
        "ggscope_scan_ops": (
            i64, In.u8, i64, i64, i64, _in(OpRows), _out(TextArena), _out(OpTally),
        )
    },
    "machine": {
        "ggscope_machine_read": (u64, In.u64, i64),
        "ggscope_machine_multiply_add": (None, Out.f32, i64),
    },
    "columns": {
        "ggscope_columns": (
            None, _in(Row), i64, In.i64, i64, Out.f64, Out.i32, Out.i64, Out.i64,
            Out.i64, Out.i64, In.i64, Out.u16, Out.i64, Out.i32, Out.i64, i64, i64,
        ),
        "ggscope_columns_waits": (None, _in(Row), i64, Out.i64),
    },
    "points": {
        "ggscope_points_draw": (
            None, In.f32, i64, i64, In.f64, i64, i64, f64, Out.u64,
        ),
        "ggscope_points_resolve": (None, In.u64, i64, In.u32, Out.u32),
    },
    "texels": {
        "ggscope_texels": (
            None, _in(ColumnTable), In.i64, i64, *[In.u32] * 4, i64, f64, In.u8,
            u64, i32, Out.u32,
        ),
        "ggscope_texels_weights": (
            None, _in(ColumnTable), In.i64, i64, i64, Out.u8,
        ),
        "ggscope_texels_levels": (None, In.f64, i64, i64, i64, Out.u16),
        "ggscope_texels_steps": (
            None, In.i32, In.i32, i64, i32, i32, u64, Out.u32,
        ),
        "ggscope_texels_stacks": (
            None, _in(ColumnTable), _in(StackLook), In.i64, i64, In.i64, In.u8,
            In.u32, Out.u32, Out.u32, i64,
        ),
        "ggscope_texels_filled": (i64, *_runs),
        "ggscope_texels_empty": (i64, *_runs),
    },
    "rows": {
        "ggscope_rows_are_sorted": (i32, In.i64, In.i64, i64),
        "ggscope_rows_prefix": (None, In.i64, In.i64, i64, Out.i64),
        "ggscope_rows_depths": (i32, i64, In.i32, In.i64, In.i64, Out.i32),
        "ggscope_rows_kept": (
            None, In.i64, In.i64, In.u8, i64, Out.u32, Out.i64,
        ),
        "ggscope_rows_longest": (
            None, In.i64, In.i64, i64, In.i64, i64, In.i64, In.i64, Out.i64,
        ),
        "ggscope_rows_sums": (
            None, In.i64, In.i64, In.void, i32, In.u16, In.u8, i64, i64, i64, i64,
            Out.i64, Out.u32, Out.i64,
        ),
    },
    "codes": {
        "ggscope_codes_seen": (None, In.void, i32, i64, Out.u8),
        "ggscope_codes_count": (None, *_codes, Out.i64),
        "ggscope_codes_place": (None, *_codes, i64, Out.i64, In.i64, Out.i32),
        "ggscope_codes_map": (None, In.void, i32, i64, In.u16, Out.void, i32),
        "ggscope_codes_arrange": (
            None, In.u16, In.i32, i64, i64, Out.i64, Out.i32, i64,
        ),
    },
    "merge": {
        "ggscope_merge_runs": (i64, *_spans, i64, i64, Out.i64),
        "ggscope_merge_order": (None, *_spans, In.i64, i64, Out.i32),
        "ggscope_merge_flatten": (
            i64, *_spans, In.i64, i64, Out.i64, Out.i64, Out.i32,
        ),
    },
    "heat": {
        "ggscope_heat_sums": (
            None, In.void, i32, i64, In.i64, i64, *[In.i64] * 3, i64, i32, Out.u64,
            Out.i64,
        ),
        "ggscope_heat_spread": (
            None, In.i64, In.i64, i64, i64, *[In.i64] * 3, i64, i32, Out.i64,
        ),
    },
    "reuse": {
        "ggscope_reuse_distances": (
            None, In.i32, i64, In.i64, i64, i64, *[Out.i64] * 5,
        ),
        "ggscope_reuse_next": (None, In.i32, i64, i64, Out.i64, Out.i64),
        "ggscope_reuse_optimum": (
            None, In.i32, In.i64, i64, i64, In.i64, i64, i64, i64, *[Out.i64] * 3,
        ),
        "ggscope_reuse_ahead": (
            None, In.i32, i64, In.i64, i64, In.i64, i64, i64, *[Out.i64] * 4,
        ),
    },
    "statistics": {
        "ggscope_statistics_count": (None, _in(Selection), i64, i64, _in(Figures)),
        "ggscope_statistics_cross": (
            None, _in(Selection), _in(Selection), i64, i64, Out.i64,
        ),
        "ggscope_statistics_bucket": (None, In.i64, i64, i32, Out.i64),
        "ggscope_statistics_find": (
            None, In.u32, i64, i32, i64, In.i64, Out.i64, Out.i64,
        ),
        "ggscope_statistics_collect": (
            None, _in(Selection), i64, i64, In.u32, i64, Out.i64, In.i64, Out.i64,
        ),
        "ggscope_statistics_sort": (None, Out.i64, In.i64, i64),
        "ggscope_statistics_reach": (
            None, _in(Selection), i64, i64, i32, Out.i64,
        ),
        "ggscope_statistics_meets": (i32, _in(Selection), In.void, i32, i64, i64),
        "ggscope_statistics_turns": (
            i64, In.i64, In.i64, Out.i64, Out.i64, i64, i64, Out.u8,
        ),
        "ggscope_statistics_cover": (
            i64, _in(Selection), _in(Order), i64, Out.i64, Out.i64,
        ),
        "ggscope_statistics_share": (
            i64, _in(Selection), _in(Order), i64, In.i64, i64, _out(Moment),
            Out.i64, Out.i64,
        ),
        "ggscope_statistics_pass": (
            None, _out(Moment), i64, In.i64, i64, In.i64, i64, Out.i64,
        ),
        "ggscope_statistics_qualities": (i32, _in(Selection), i64, i64),
        "ggscope_statistics_own": (
            i32, _in(Selection), i64, i64,
            _pointer("Open", _DTYPES["int64_t"], is_const=False), i64, Out.i64,
        ),
    },
    "json_elements": {
        "ggscope_json_elements": (
            i64, In.u8, i64, i64, i64, Out.i64, Out.i64, Out.i64,
        )
    },
    "json_repeats": {"ggscope_json_repeats": (i64, In.u8, i64, Out.i64)},
    "ggmlviz": {
        "ggscope_ggmlviz_take": (i32, _out(Intake), i64),
        "ggscope_ggmlviz_fill": (None, Out.i32, i64, In.u64, i64),
        "ggscope_ggmlviz_pair": (i64, _out(Pairing), i64, i64),
        "ggscope_ggmlviz_live": (i64, _in(Pairing)),
        "ggscope_ggmlviz_move": (None, _out(Pairing), Out.i32, i64),
        "ggscope_ggmlviz_finish": (
            None, _in(Pairing), In.i64, i64, Out.i32, i64, i64, Out.i64, Out.i64,
            Out.u8,
        ),
    },
    "npu": {
        "ggscope_npu_scan": (
            None, In.u8, i64, i32, i32, _out(EventRows), _out(TextArena),
        ),
    },
    "ring": {
        "ggscope_ring_spans": (
            None, In.u8, i64, _in(RingFacts), _in(RingSpans),
        ),
    },
    "tensor": {
        "ggscope_tensor_scan": (
            i64, i32, i64, i64, Out.u64, i64, _in(RecordForm), _in(RecordColumns),
            _out(RecordPatterns), Out.i64, _out(RecordTally),
        ),
        "ggscope_tensor_order": (
            i32, In.u16, i64, i64, In.u16, Out.i64, In.i64, Out.i32,
        ),
        "ggscope_tensor_gather": (i32, In.void, i64, In.i32, i64, Out.void, i64),
    },
}  # fmt: skip
"""The functions of each C file beside this one: result (None: void) and arguments."""


def checks(source: str) -> str:
    """Return C code that does not compile behind a source that is something else."""
    lines, functions = ["#include <stddef.h>"], SOURCES[source]
    known = {struct.__name__: struct for struct in Struct.__subclasses__()}
    for struct in _structs((k for kinds in functions.values() for k in kinds), known):
        lines += _struct_checks(struct)
    for name, (result, *arguments) in functions.items():
        types = ", ".join(_c_type(kind) for kind in arguments)
        returned = "void" if result is None else _c_type(result)
        lines.append(f"{returned} {name}({types});")
    return "\n".join([*lines, ""])


def fingerprint() -> str:
    """Return a digest of all that is declared here."""
    text = "".join(f"{name}\n{checks(name)}" for name in SOURCES)
    return str(sha256(text.encode()).hexdigest()[:16])


def sources_digest(folder: Path) -> list[str]:
    """Return a digest of the C files of a folder, none where it has none."""
    paths = sorted(path for path in folder.iterdir() if path.suffix in (".c", ".h"))
    if not paths:
        return []
    digest = sha256()
    for path in paths:
        digest.update(path.name.encode() + b"\0" + path.read_bytes())
    return [digest.hexdigest()[:16]]


def _structs(
    kinds: Iterable[Any], known: dict[str, type[Struct]]
) -> dict[type[Struct], None]:
    """Return the structures that pointers lead to, also by way of others."""
    there: dict[type[Struct], None] = {}
    for kind in kinds:
        struct = known.get(getattr(kind, "target", ""))
        if struct is not None and struct not in there:
            fields: Any = struct._fields_
            there |= {struct: None} | _structs((of for _, of in fields), known)
    return there


def _struct_checks(struct: type[Struct]) -> Iterator[str]:
    name, fields = struct.__name__, cast(Any, struct._fields_)
    for field, kind in fields:
        is_array = issubclass(kind, ctypes.Array)
        place = f"(({name} *)0)->{field}{'[0]' if is_array else ''}"
        c_type = _c_type(kind._type_ if is_array else kind)
        yield (
            f"_Static_assert(offsetof({name}, {field}) == "
            f"{getattr(struct, field).offset} && sizeof((({name} *)0)->{field}) == "
            f"{ctypes.sizeof(kind)} && _Generic(&{place}, {c_type} *: 1, default: 0), "
            f'"{name}.{field} is not as declared.py says");'
        )
    yield (
        f"_Static_assert(sizeof({name}) == {ctypes.sizeof(struct)}, "
        f'"{name} has not the fields that declared.py says");'
    )


def _c_type(kind: Any) -> str:
    if issubclass(kind, Pointer):
        return f"{'const ' if kind.is_const else ''}{kind.target} *"
    return _NUMBERS[kind]
