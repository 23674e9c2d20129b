"""Take in the entries of a token trace, block by block, as columns."""

import msgspec
import numpy as np

from ggscope.errors import LimitExceededError
from ggscope.model.builder import TraceBuilder
from ggscope.model.tables import I64, Array
from ggscope.model.trace import Severity
from ggscope.readers.api import ReadContext
from ggscope.readers.chunked import ChunkedTable
from ggscope.readers.common.json_cursor import Block, JsonCursor
from ggscope.readers.common.json_records import ElementPlaces
from ggscope.readers.common.json_text import (
    Repeats,
    TolerantDecoder,
    repeats,
    repeats_in,
)
from ggscope.readers.common.json_walk import note_repeated
from ggscope.readers.source import Source
from ggscope.readers.tensor.token_json.entries import (
    ENTRIES,
    ENTRY,
    Entry,
    PatternBook,
    allowance_of,
    expert_list,
    mended,
)

NONE = -1
_PHASES = {"PROMPT": 0, "GENERATE": 1}
_NO_PHASE = 2
_NO_LIST = -1


class TokenParser:
    """Reads the root object of a token trace.

    Attributes
    ----------
    builder : takes the warnings.
    facts : what the file says of itself, ``token_id`` and the metadata.
    columns : one row for each entry, in the order of the file: time, the raw stamp;
        token, -1 where it has none; thread, number in `threads`; phase, 0 prompt, 1
        generate, 2 neither; pattern, number in `book`; experts, number in `lists`, -1
        none; index, number of the entry in the array.
    threads : raw thread ids in the order of the file, -1 for none.
    lists : distinct lists of experts.
    n_entries : entries taken so far.
    n_elements : elements of the array, bad ones too.
    id_shift : what entry ids are ahead of their place; None where that varies.
    """

    def __init__(self, source: Source, context: ReadContext) -> None:
        self.builder = TraceBuilder()
        self.facts: dict[str, object] = {}
        self.book = PatternBook(allowance_of(source.size))
        self.columns = ChunkedTable(
            time=np.int64,
            token=np.int32,
            thread=np.int32,
            phase=np.uint8,
            pattern=np.int32,
            experts=np.int32,
            index=np.int64,
        )
        self.places = ElementPlaces()
        self.threads: list[int] = []
        self.lists: list[tuple[int, ...]] = []
        self.n_entries = 0
        self.n_elements = 0
        self.has_entries = False
        self.has_expert_keys = False
        self.id_shift: int | None = None
        self._ids_vary = False
        self._has_problems = False
        self._source = source
        self._context = context
        self._thread_of: dict[int | None, int] = {}
        self._list_of: dict[tuple[bytes, int | None], int] = {}

    def take(self, cursor: JsonCursor) -> None:
        """Take the whole object. JsonSyntaxError where it is broken."""
        seen: set[str] = set()
        for key in cursor.members():
            if key in seen:
                note_repeated(self.builder, key, cursor.position)
            elif key in ("entries", "token_id", "metadata"):
                seen.add(key)
            if key == "entries" and cursor.peek() == b"[":
                self.has_entries = True
                for block in cursor.blocks():
                    self._context.progress(cursor.position, self._source.size)
                    self._take_block(block)
                continue
            text, offset = cursor.value()
            if key == "entries":
                self._note_bad("is not a list", "entries", offset)
                self.has_entries = True
            elif key in ("token_id", "metadata"):
                self._take_facts(key, text, offset)
        if cursor.peek():
            self.builder.warn(
                Severity.NOTICE,
                "trailing_text",
                "extra text after the end of the JSON object; ignored.",
                cursor.position,
            )

    def note_fault(self, text: str, offset: int, *, is_cut: bool) -> None:
        """Note that only the entries before a fault could be read."""
        loaded = f"the {self.n_entries:,} entries before it were loaded"
        if is_cut:
            self.builder.warn(
                Severity.DATA_LOSS,
                "truncated_json",
                f"the file is truncated: {text}; {loaded}.",
                offset,
                place=f"entries[{self.n_elements}]",
                remedy="The file is an incomplete copy, or was still being written.",
            )
            return
        self.builder.warn(
            Severity.DATA_LOSS,
            "broken_json",
            f"invalid JSON from here: {text}; {loaded}.",
            offset,
            place=f"entries[{self.n_elements}]",
        )

    def note_failure(self, text: str, offset: int) -> None:
        """Note that the file could not be read to its end."""
        self.builder.warn(
            Severity.DATA_LOSS,
            "read_failed",
            f"{text.rstrip('.')}; the {self.n_entries:,} entries before it "
            "were loaded.",
            offset,
        )

    def _take_facts(self, key: str, text: bytes, offset: int) -> None:
        try:
            value = self._parsed(text, key, offset)
        except ValueError:
            self._note_bad("is not JSON", key, offset)
            return
        if key == "token_id":
            self.facts[key] = value
        elif isinstance(value, dict):
            self.facts |= {k: v for k, v in value.items() if k != "token_id"}
        else:
            self._note_bad("is not an object", key, offset)

    def _take_block(self, block: Block) -> None:
        entries = block.decode_array(ENTRIES)
        if entries is None:
            self._take_one_by_one(block)
            return
        self._note_repeats(repeats(block.data, block.start, block.end), block)
        index = np.arange(self.n_elements, self.n_elements + len(entries))
        self.n_elements += len(entries)
        self._add(entries, index, block.start + block.offset, block.end - block.start)

    def _take_one_by_one(self, block: Block) -> None:
        """Take a block that holds something unexpected."""
        entries, index, offsets, lengths = [], [], [], []
        try:
            for text, offset in block.texts():
                entry = self._one(text, f"entries[{self.n_elements}]", offset)
                if entry is not None:
                    entries.append(entry)
                    index.append(self.n_elements)
                    offsets.append(offset)
                    lengths.append(len(text))
                self.n_elements += 1
        finally:
            self._add(
                entries,
                np.array(index, np.int64),
                np.array(offsets, np.int64),
                np.array(lengths, np.int64),
            )

    def _one(self, text: bytes, place: str, offset: int) -> Entry | None:
        try:
            entry = ENTRY.decode(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            pass
        else:
            if repeats := repeats_in(text):
                inner = f"{place}.{repeats.key}"
                note_repeated(self.builder, inner, offset, repeats.count)
            return entry
        try:
            value = self._parsed(text, place, offset)
        except ValueError:
            self._note_bad("is not JSON", place, offset)
            return None

        def note(what: str, where: str) -> None:
            self._note_bad(what, place + where, offset)

        return mended(value, note)

    def _note_repeats(self, repeats: Repeats | None, block: Block) -> None:
        """Note the keys that entries of a block name twice."""
        if repeats is not None:
            place = f"entries[{self.n_elements + repeats.element}].{repeats.key}"
            offset = block.offset + int(block.start[repeats.element])
            note_repeated(self.builder, place, offset, repeats.count)

    def _parsed(self, text: bytes, place: str, offset: int) -> object:
        """Return a value that may hold what JSON does not have. ValueError for none."""
        decoder = TolerantDecoder()
        value = decoder.decode(text.decode("utf-8", "replace"))
        if decoder.n_odd:
            self._note_bad("has an invalid JSON value", place, offset)
        if decoder.n_repeated:
            inner = f"{place}.{decoder.repeated}"
            note_repeated(self.builder, inner, offset, decoder.n_repeated)
        return value

    def _note_bad(self, what: str, place: str, offset: int | None) -> None:
        self.builder.warn(
            Severity.DATA_LOSS,
            "bad_entry",
            f"{place} {what}; that part was skipped.",
            offset,
            place=place,
        )

    def _add(
        self, entries: list[Entry], index: I64, offsets: I64, lengths: I64
    ) -> None:
        """Add entries to the columns."""
        n = len(entries)
        if self.n_entries + n > self._context.limits.records:
            raise LimitExceededError(
                f"the file has more than {self._context.limits.records:,} "
                "entries, which is the limit.",
                path=self._source.path,
            )
        before = len(self.book.patterns)
        number = self.book.number
        pattern = np.fromiter((number(e) for e in entries), np.int32, n)
        self._note_problems(before, pattern, index)
        tokens = (NONE if e.token_id is None else e.token_id for e in entries)
        phases = (_PHASES.get(e.phase or "", _NO_PHASE) for e in entries)
        self.columns.append(
            time=np.fromiter((e.timestamp_ns for e in entries), np.int64, n),
            token=np.fromiter(tokens, np.int32, n),
            thread=np.fromiter(map(self._thread, entries), np.int32, n),
            phase=np.fromiter(phases, np.uint8, n),
            pattern=pattern,
            experts=np.fromiter(map(self._experts, entries), np.int32, n),
            index=index,
        )
        self.places.append(offsets, lengths)
        self._note_ids(entries, index)
        self.n_entries += n

    def _thread(self, entry: Entry) -> int:
        thread = self._thread_of.get(entry.thread_id)
        if thread is None:
            thread = self._thread_of[entry.thread_id] = len(self.threads)
            self.threads.append(NONE if entry.thread_id is None else entry.thread_id)
        return thread

    def _experts(self, entry: Entry) -> int:
        if entry.num_experts is None and not entry.expert_ids:
            return _NO_LIST
        self.has_expert_keys = True
        text = bytes(entry.expert_ids)
        if not entry.num_experts and len(text) <= 2:
            return _NO_LIST
        key = text, entry.num_experts
        number = self._list_of.get(key)
        if number is None:
            number = _NO_LIST
            try:
                experts = expert_list(text, entry.num_experts)
            except ValueError:
                self._note_bad(
                    "has expert ids that are not numbers",
                    f"entries[{entry.entry_id}].expert_ids",
                    None,
                )
            else:
                number = len(self.lists)
                self.lists.append(experts)
            self._list_of[key] = number
        return number

    def _note_ids(self, entries: list[Entry], index: I64) -> None:
        """Notice whether entry ids count on from some number."""
        if self._ids_vary or not entries:
            return
        ids = [e.entry_id for e in entries]
        if self.id_shift is None:
            self.id_shift = (ids[0] or 0) - int(index[0])
        expected = (index + self.id_shift).tolist()
        if any(a is not None and a != b for a, b in zip(ids, expected, strict=True)):
            self._ids_vary, self.id_shift = True, None

    def _note_problems(self, before: int, pattern: Array, index: I64) -> None:
        """Note sources that were left out, for every entry that has them."""
        patterns = self.book.patterns
        if not self._has_problems:
            self._has_problems = any(p.problems for p in patterns[before:])
        if not self._has_problems:
            return
        n_bad = np.array([len(p.problems) for p in patterns], np.int64)
        bad = np.flatnonzero(n_bad[pattern])
        if not len(bad):
            return
        what, where = patterns[int(pattern[bad[0]])].problems[0]
        place = f"entries[{int(index[bad[0]])}]{where}"
        self.builder.warn(
            Severity.DATA_LOSS,
            "bad_source",
            f"{place} {what}; skipped.",
            count=int(n_bad[pattern].sum()),
            place=place,
        )
