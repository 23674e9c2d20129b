"""From rows that the compiled kernel has read to columns of events."""

from collections.abc import Sequence

import numpy as np

from ggscope.model.tables import I64, Array
from ggscope.readers.npu_columns import EventColumns, Memo
from ggscope.readers.npu_events import COMMAND_NAME, COMMANDS, NO_REASON, Event
from ggscope.readers.npu_kernel import (
    ACCESS,
    COMMAND,
    ENGINE,
    STALL,
    TOKEN,
    WORDS,
    Numbered,
    Rows,
    Texts,
)


class RowTaker:
    """Adds rows to columns, to the same effect as `EventColumns.add`.

    Parameters
    ----------
    columns : that take the rows.
    texts : what the text numbers of the rows mean.
    """

    def __init__(self, columns: EventColumns, texts: Texts) -> None:
        self._columns = columns
        memos = columns.memos
        self._strings = Numbered(texts, memos.strings)
        self._ops = Numbered(texts, memos.ops)
        self._layers = Numbered(texts, memos.layers)
        self._colors = Numbered(texts, memos.colors)
        self._codes = Numbered(texts, memos.codes)

    def add(
        self, rows: Rows, first: int, others: Sequence[Event | None], at: I64
    ) -> I64:
        """Add the events of a block.

        Parameters
        ----------
        first : record number of row 0.
        others : events for the rows `at`, which hold none themselves.

        Returns
        -------
        Record numbers of events that end before they start; they are left out.
        """
        columns = self._columns
        marks = [(table, table.n_pieces) for table in columns.tables]
        for kind, add in (
            (ENGINE, self._add_engines),
            (ACCESS, self._add_accesses),
            (TOKEN, self._add_tokens),
            (STALL, self._add_stalls),
            (COMMAND, self._add_commands),
        ):
            of_kind = np.flatnonzero(rows.kind == kind)
            if len(of_kind):
                add(rows, of_kind, of_kind + first)
        dropped = [table.drop_reversed(mark) for table, mark in marks]
        if len(others):
            dropped.append(columns.add(others, at + first))
            for table, mark in marks:
                table.merge_since(mark)
        return np.sort(np.concatenate(dropped))

    def _add_engines(self, rows: Rows, i: I64, record: I64) -> None:
        op, layer, tile, hint = (text[i] for text in rows.texts)
        color = self._colors.column(hint, np.uint32)
        columns = self._columns
        columns.n_bad_colors += int(np.count_nonzero(color[hint >= 0] == 0))
        if len(rows.deps):
            dep_record = np.repeat(record, rows.dep_count[i])
            columns.deps.append(record=dep_record, dep=rows.deps.copy())
        columns.engines.append(
            record=record,
            start=rows.time[i],
            end=rows.until[i],
            engine=self._masters(rows.word[i]),
            engine_id=rows.unit[i],
            # Text 0 is empty and as good as none.
            name=self._strings.column(
                np.where(tile > 0, tile, np.where(layer > 0, layer, op)), np.int32
            ),
            op=self._ops.column(op, np.int16),
            layer=self._layers.column(layer, np.int16),
            color=color,
            cmdq=rows.number[i],
        )

    def _add_accesses(self, rows: Rows, i: I64, record: I64) -> None:
        address = rows.address[i]
        self._columns.accesses.append(
            record=record,
            time=rows.time[i],
            memory=self._words(("DRAM", "SPM"), rows.word[i]),
            kind=rows.way[i],
            size=rows.size[i],
            offset=address,
            address=np.maximum(address, 0).astype(np.uint64),
            engine=self._codes.column(rows.texts[0][i], np.int32),
            engine_id=rows.unit[i],
            cmdq=rows.number[i],
        )

    def _add_tokens(self, rows: Rows, i: I64, record: I64) -> None:
        index = rows.number[i].astype(np.int32)
        self._columns.tokens.append(
            record=record,
            start=rows.time[i],
            end=rows.until[i],
            index=index,
            phase=rows.word[i].astype(np.int8),
            name=self._columns.token_names(index),
        )

    def _add_stalls(self, rows: Rows, i: I64, record: I64) -> None:
        strings = self._columns.memos.strings
        reason = rows.texts[0][i]
        name = self._strings.column(np.where(reason > 0, reason, -1), np.int32)
        if (name < 0).any():
            name = np.where(name < 0, strings[NO_REASON], name).astype(np.int32)
        self._columns.stalls.append(
            record=record,
            start=rows.time[i],
            end=rows.until[i],
            engine=self._masters(rows.word[i]),
            engine_id=rows.unit[i],
            name=name,
        )

    def _add_commands(self, rows: Rows, i: I64, record: I64) -> None:
        source, phase = rows.texts[0][i], rows.texts[1][i]
        self._columns.memos.strings[COMMAND_NAME]
        self._columns.commands.append(
            record=record,
            time=rows.time[i],
            id=rows.number[i],
            event=rows.word[i].astype(np.int8),
            name=_worded(self._columns.memos.strings, COMMANDS, rows.word[i]),
            detail=self._strings.column(np.where(phase > 0, phase, source), np.int32),
        )

    def _masters(self, word: Array) -> Array:
        return self._words(WORDS, word)

    def _words(self, names: Sequence[str], word: Array) -> Array:
        return _worded(self._columns.memos.codes, names, word)


def _worded(memo: Memo, names: Sequence[str], word: Array) -> Array:
    """Return what names stand for; those that do not occur are not looked up."""
    numbers = np.full(len(names), -1, np.int32)
    for i in np.flatnonzero(np.bincount(word, minlength=len(names))).tolist():
        numbers[i] = memo[names[i]]
    return numbers[word]


__all__ = ["RowTaker"]
