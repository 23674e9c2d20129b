"""Calls of ``npu.c``: events and bandwidth samples from JSON text straight into rows.

It is the one decoder of both; what it does not take is left to the rules of `schema`,
element by element. Calls release the interpreter lock.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import U8, Array
from ggscope.native.declared import EventRows
from ggscope.native.library import library
from ggscope.readers.common.json_cursor import Block, cut_array, cut_lines
from ggscope.readers.common.text_arena import Texts

WORDS = ("DMA", "TE", "VE", "CTRL", "HOST", "OTHER", "BUS", "TRACE")
"""Engines and masters in the kernel's order; engines are the first six."""
ENGINE, ACCESS, TOKEN, STALL, COMMAND, SAMPLE, STUB, ODD = range(8)
"""Kinds of rows. STUB has a known type without columns, ODD is sound JSON that the
rules have to judge."""
_EVENTS, _LINES, _LAST_LINES, _SAMPLES = range(4)
_MORE, _CLOSED, _FULL, _STRANGE = range(4)

N_ROWS = 1 << 15
"""Events that one scan takes; a block ends where they are used up."""
_DOUBTFUL_BYTES = 64 * 1024
"""Text that is left to the rules where the scan does not know where its first event
ends; behind it the scan goes on."""
_N_DEPS = 1 << 16
_N_TEXTS = 1 << 16
_TEXT_BYTES = 4 << 20
_UNSET = -2

_ROW_COLUMNS = {
    "kind": np.uint8,
    "word": np.uint8,
    "way": np.uint8,
    "begin": np.int32,
    "finish": np.int32,
    "line": np.int32,
    "unit": np.int32,
    "dep_count": np.int32,
    "time": np.int64,
    "until": np.int64,
    "number": np.int64,
    "size": np.int64,
    "address": np.int64,
}
_NUMBERED_COLUMNS = {"detail": (5, np.int64), "amount": (4, np.float64),
                     "text": (4, np.int32)}  # fmt: skip


class Numbered:
    """What each text stands for in one role (an op, a layer …), worked out once.

    Parameters
    ----------
    texts : of the file.
    number : works out the number of a text.
    missing : number of None.
    """

    def __init__(
        self, texts: Texts, number: Callable[[str], int], missing: int = -1
    ) -> None:
        self._texts, self._number = texts, number
        self._numbers: dict[str | None, int] = {None: missing}
        self._generation = texts.generation
        # The first entry is that of "", the last one that of text number -1.
        self._known = np.full(texts.table.capacity + 2, _UNSET, np.int64)
        self._known[-1] = missing

    def __getitem__(self, text: str | None) -> int:
        """Return what a text stands for."""
        number = self._numbers.get(text)
        if number is None:
            number = self._numbers[text] = self._number(str(text))
        return number

    def column(self, numbers: Array, dtype: npt.DTypeLike) -> Array:
        """Return what texts stand for, in the order in which they first occur."""
        if self._generation != self._texts.generation:
            self._generation = self._texts.generation
            self._known[:-1] = _UNSET
        values = self._known[numbers]
        new = numbers[values == _UNSET]
        if len(new):
            for number in dict.fromkeys(new.tolist()):
                text = self._texts[number - 1].decode() if number else ""
                self._known[number] = self[text]
            values = self._known[numbers]
        return values.astype(dtype)


@dataclass(frozen=True, slots=True, eq=False)
class Rows:
    """Events of one block, valid until the next scan.

    Attributes
    ----------
    columns : kind, ENGINE … ODD; word, engine or master (in `WORDS`), memory, phase or
        step; way, direction of an access; unit, number of the engine or master; time,
        until, cycles; number, cmdq_id, cmd_id or token_index; size, address, of an
        access, -1 where unknown; dep_count, how many of `deps` belong to each engine
        event.
        detail0 … 4, of an engine event: bytes moved, bits of a value, bank of the SPM
        and offset in it, and which of `ROLES` is moved, -1 = not stated. amount0 … 3,
        of a sample: bytes read, written, stall cycles and bytes of the KV cache, NaN =
        not stated. text0 … 3, of an engine event: op, layer, tile and colour; of an
        access: the source engine; of a stall: the reason; of a command: source and
        phase; -1 = none.
    deps : int64[k].
    """

    columns: Mapping[str, Array]
    deps: Array

    def __len__(self) -> int:
        return len(self.columns["kind"])

    def __getitem__(self, name: str) -> Array:
        """Return a column."""
        return self.columns[name]

    def part(self, chosen: range) -> "Rows":
        """Return neighbouring rows, of which `deps` are those of the engine events."""
        rows = slice(chosen.start, chosen.stop)
        counts = np.where(self["kind"] == ENGINE, self["dep_count"], 0)
        first = int(counts[: chosen.start].sum())
        n_deps = int(counts[rows].sum())
        columns = {name: values[rows] for name, values in self.columns.items()}
        return Rows(columns, self.deps[first : first + n_deps])


@dataclass(frozen=True, slots=True, eq=False, kw_only=True)
class ScannedBlock(Block):
    """A block whose events are already rows.

    Attributes
    ----------
    rows : one for each element.
    """

    rows: Rows


class Scanner:
    """Cuts JSON text into blocks of events and reads these on the way.

    Parameters
    ----------
    n_rows, n_texts, n_bytes : room for events, texts and their bytes (tests make
        it small).
    """

    def __init__(
        self,
        *,
        n_rows: int = N_ROWS,
        n_texts: int = _N_TEXTS,
        n_bytes: int = _TEXT_BYTES,
    ) -> None:
        self.texts = Texts(n_texts, n_bytes)
        self._scan = library().ggscope_npu_scan
        self._columns = {name: np.empty(n_rows, t) for name, t in _ROW_COLUMNS.items()}
        groups = {
            group: tuple(np.empty((n, n_rows), dtype))
            for group, (n, dtype) in _NUMBERED_COLUMNS.items()
        }
        self._deps = np.empty(_N_DEPS, np.int64)
        self._struct = EventRows(
            capacity=n_rows,
            deps_capacity=_N_DEPS,
            deps=self._deps,
            **groups,
            **self._columns,
        )
        for group, columns in groups.items():
            self._columns |= {f"{group}{i}": c for i, c in enumerate(columns)}
        self._is_full = False

    def cut_events(self, buffer: U8, offset: int, first: bool) -> Block:
        """Return the events at the start of a text, as `cut_array` does.

        Where the first one is none that it takes, a short stretch without rows.
        """
        return self._cut_array(buffer, offset, first, _EVENTS)

    def cut_samples(self, buffer: U8, offset: int, first: bool) -> Block:
        """Return the bandwidth samples at the start of a text, as above."""
        return self._cut_array(buffer, offset, first, _SAMPLES)

    def _cut_array(self, buffer: U8, offset: int, first: bool, form: int) -> Block:
        status = self._run(buffer[1:-1], form, first)
        if not self._struct.n_rows:
            part = cut_array(buffer[: _DOUBTFUL_BYTES + 2], offset, first)
            is_some = part.length or part.last
            return part if is_some else cut_array(buffer, offset, first)
        begin, finish = self._bounds()
        return ScannedBlock(
            buffer=buffer,
            offset=offset,
            start=begin,
            end=finish,
            length=self._struct.length,
            last=status == _CLOSED,
            rows=self._rows(),
        )

    def cut_lines(
        self, buffer: U8, offset: int, at_end: bool, number: int
    ) -> tuple[Block, int]:
        """Return the whole lines at the start of a text, and how many line breaks.

        Where the first one is no event that it takes, a short stretch without rows.
        """
        self._run(buffer[1:-1], _LAST_LINES if at_end else _LINES, True)
        if not self._struct.n_rows:
            part = cut_lines(buffer[: _DOUBTFUL_BYTES + 2], offset, False, number)
            is_some = part[0].length
            return part if is_some else cut_lines(buffer, offset, at_end, number)
        begin, finish = self._bounds()
        line = self._columns["line"][: self._struct.n_rows].astype(np.int64)
        block = ScannedBlock(
            buffer=buffer,
            offset=offset,
            start=begin,
            end=finish,
            length=self._struct.length,
            line=line + number,
            rows=self._rows(),
        )
        return block, self._struct.n_lines

    def _run(self, data: U8, form: int, first: bool) -> int:
        self._call(data, form, first)
        if self._is_full and not self._struct.n_rows:
            self._call(data, form, first)  # with all texts forgotten
        return int(self._struct.status)

    def _call(self, data: U8, form: int, first: bool) -> None:
        if self._is_full:
            self.texts.forget()
        struct = self._struct
        self._scan(data, len(data), form, int(first), struct, self.texts.table)
        # Out of rows is no reason to forget texts.
        self._is_full = struct.status == _FULL and struct.n_rows < struct.capacity

    def _bounds(self) -> tuple[Array, Array]:
        n = self._struct.n_rows
        begin, finish = self._columns["begin"][:n], self._columns["finish"][:n]
        return begin.astype(np.int64), finish.astype(np.int64)

    def _rows(self) -> Rows:
        n = self._struct.n_rows
        columns = {name: values[:n] for name, values in self._columns.items()}
        return Rows(columns, self._deps[: self._struct.n_deps])


def scanner(size: int) -> Scanner:
    """Return a scanner for a file.

    Parameters
    ----------
    size : bytes of the file; little ones get little room.
    """
    return Scanner(
        n_rows=min(N_ROWS, size // 2 + 1),
        n_texts=min(_N_TEXTS, size // 8 + 16),
        n_bytes=min(_TEXT_BYTES, size + 1),
    )
