"""Tell which record layout a headerless tensor trace has, by its content.

Every layout is laid over a sample of the file, and each record is judged by how
many of its fields make sense. Names weigh most: text that starts in one place and
is followed by nothing but zeros hardly occurs at the wrong stride. Spare bytes weigh
little, because writers keep data of their own there.
"""

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from ggscope.model.tables import Array, distinct
from ggscope.readers.source import Source
from ggscope.readers.tensor.layouts import (
    FIRST_EXTENSION_OP,
    LAYOUTS,
    NO_INDEX,
    NO_LAYER,
    NO_OFFSET,
    RecordLayout,
)

THRESHOLD = 0.55
"""Below this score nothing is claimed."""

STRONG = 0.8
"""From this score on, hardly anything but a trace looks like that."""

_SAMPLE = 128
_SHORT_RUN = 32
_DAY_NS = 86_400 * 10**9

Bytes = npt.NDArray[np.uint8]
Fetch = Callable[[int, int], Bytes]


@dataclass(frozen=True, slots=True)
class Match:
    """A layout and how well it fits, 0..1."""

    layout: RecordLayout
    score: float


def detect_head(data: bytes, file_size: int) -> Match | None:
    """Return the best layout for the head of a file, or None if none fits."""
    head = np.frombuffer(data, np.uint8)
    used = np.flatnonzero(head)
    if not len(used) or int(np.count_nonzero(head)) == len(head):
        return None

    def fetch(offset: int, length: int) -> Bytes:
        return head[offset : offset + length]

    end = len(head) if len(head) < file_size else int(used[-1]) + 1
    return _best(fetch, int(used[0]), end, len(head), file_size)


def detect(source: Source, begin: int, end: int) -> Match | None:
    """Return the best layout for a whole file, or None if none fits.

    Parameters
    ----------
    begin, end : offsets of the first non-zero byte and behind the last one.
    """
    return _best(source.array, begin, end, source.size, source.size)


def _best(
    fetch: Fetch, begin: int, end: int, available: int, file_size: int
) -> Match | None:
    matches = []
    for layout in LAYOUTS.values():
        score = _score(layout, fetch, begin, end, available)
        if file_size % layout.size:
            score *= 0.97
        matches.append(Match(layout, score))
    best = max(matches, key=lambda match: match.score)
    return best if best.score >= THRESHOLD else None


def _score(
    layout: RecordLayout, fetch: Fetch, begin: int, end: int, available: int
) -> float:
    """Return how well a layout fits, 0..1."""
    size = layout.size
    first = begin // size
    stop = min(-(-end // size), available // size)
    if stop <= first:
        return 0.0
    near = min(_SAMPLE, stop - first)
    block = fetch(first * size, near * size)
    rows = block[: len(block) // size * size].reshape(-1, size)
    short_zeros = _short_zero_share(_zero(rows))
    if stop - first > near:
        spread = np.linspace(first + near, stop - 1, _SAMPLE).astype(np.int64)
        far = [fetch(int(row) * size, size) for row in distinct(spread)]
        whole = [row for row in far if len(row) == size]
        rows = np.concatenate([rows, *(row[None] for row in whole)])
    rows = np.ascontiguousarray(rows[rows.any(axis=1)])
    if not len(rows):
        return 0.0
    records = rows.view(layout.dtype).reshape(-1)
    # A record that ends with its header has little to say for itself.
    share = _judge(layout, records, rows) * np.where(rows[:, 24:].any(axis=1), 1, 0.5)
    return float(np.mean(share**4) * _share_in_time(records) * (1.0 - short_zeros) ** 2)


def _short_zero_share(is_zero: Array) -> float:
    """Return the share of zero records in short runs.

    A wrong stride leaves single empty records between used ones; a batch that was
    lost leaves hundreds.
    """
    edges = np.flatnonzero(np.diff(is_zero, prepend=False, append=False))
    runs = edges[1::2] - edges[0::2]
    return float(runs[runs < _SHORT_RUN].sum()) / max(len(is_zero), 1)


def _share_in_time(records: Array) -> float:
    """Return the share of time stamps within a day of the median."""
    stamps = np.minimum(records["timestamp_ns"], np.uint64(1 << 62)).astype(np.int64)
    return float(np.mean(np.abs(stamps - int(np.median(stamps))) < _DAY_NS))


class _Tally:
    """Sums up, per record, the weights of the checks passed and of all checks."""

    def __init__(self, n: int) -> None:
        self.passed = np.zeros(n)
        self.total = np.zeros(n)

    def check(self, weight: float, passed: Array, where: Array | bool = True) -> None:
        """Add a check: `passed` is bool or a share, on the records `where`."""
        self.passed += weight * passed * where
        self.total += weight * np.broadcast_to(where, self.total.shape)

    def share(self) -> npt.NDArray[np.float64]:
        """Return the share of the weight that each record has earned."""
        return self.passed / self.total


def _judge(
    layout: RecordLayout, records: Array, rows: Bytes
) -> npt.NDArray[np.float64]:
    tally = _Tally(len(records))
    stamps = records["timestamp_ns"]
    tally.check(2, (stamps > 0) & (stamps < np.uint64(1 << 62)))
    tally.check(2, _good_layer(records["layer_id"]))
    if layout.id == "buffer128":
        _judge_buffer_event(tally, records, rows)
        return tally.share()
    token = records["token_id"]
    op = records["operation_type"]
    tally.check(1, (token < 1 << 20) | (token == NO_INDEX))
    tally.check(
        2, ((op > 0) & (op < 160)) | ((op >= FIRST_EXTENSION_OP) & layout.has_ggml_ops)
    )
    tally.check(2, records["phase"] <= 1)
    if layout.source is not None:
        _judge_sources(tally, layout, records, rows)
    else:
        _judge_single_source(tally, layout, records, rows)
    return tally.share()


def _judge_sources(
    tally: _Tally, layout: RecordLayout, records: Array, rows: Bytes
) -> None:
    assert layout.source is not None
    count = records["num_sources"]
    tally.check(3, count <= 4)
    tally.check(3, _good_name(rows[:, 24 : 24 + layout.dst_width]))
    tally.check(0.5, _zero(rows[:, 19:24]))
    first, size = 24 + layout.dst_width, layout.source.itemsize
    name_width = size - 32
    for k in range(4):
        used = count > k
        part = rows[:, first + k * size : first + (k + 1) * size]
        source = records["sources"][:, k]
        tally.check(2, _good_name(part[:, :name_width]), used)
        tally.check(1, source["tensor_ptr"] < np.uint64(1 << 57), used)
        tally.check(0.5, source["size_bytes"] > 0, used)
        tally.check(1, _good_layer(source["layer_id"]), used)
        tally.check(1, source["memory_source"] <= 1, used)
        tally.check(0.3, _zero(part[:, -4:]), used)
        # Our own tracer uses the last bytes of every source, listed or not.
        tally.check(2, _zero(part[:, :-4]), ~used)
    if layout.has_experts:
        tally.check(1, records["num_experts"] <= 16)
        tally.check(0.5, _zero(rows[:, 857:]))


def _judge_single_source(
    tally: _Tally, layout: RecordLayout, records: Array, rows: Bytes
) -> None:
    offset, pointer = records["file_offset"], records["tensor_ptr"]
    tally.check(2, _zero(rows[:, 18:24]))
    tally.check(
        2, (pointer < np.uint64(1 << 57)) & ((pointer == 0) | (pointer >= 4096))
    )
    tally.check(1, (offset < np.uint64(1 << 48)) | (offset == np.uint64(NO_OFFSET)))
    tally.check(1, records["size_bytes"] > 0)
    for name in ("padding0", "padding2", "padding3"):
        if name in (records.dtype.names or ()):
            tally.check(1, records[name] == np.zeros((), records[name].dtype))
    for name in ("attention_head", "qkv_type", "expert_id", "expert_rank"):
        tally.check(0.5, (records[name] < 128) | (records[name] == 255))
    if layout.dst_width:
        tally.check(6, _good_name(rows[:, 64:128]))
    else:
        op = records["operation_type"]
        tally.check(2, (op >= 1) & (op <= 3) & (pointer != 0))


def _judge_buffer_event(tally: _Tally, records: Array, rows: Bytes) -> None:
    tally.check(2, records["event_type"] <= 1)
    tally.check(2, records["usage"] <= 2)
    tally.check(1, records["buffer_id"] < np.uint64(1 << 57))
    tally.check(1, records["buffer_ptr"] < np.uint64(1 << 57))
    tally.check(1, records["size_bytes"] < np.uint64(1 << 48))
    tally.check(4, _good_name(rows[:, 36:100]))
    tally.check(3, _good_name(rows[:, 100:116]))
    tally.check(1, _zero(rows[:, 116:]))


def _good_layer(layer: Array) -> npt.NDArray[np.bool_]:
    return np.asarray((layer < 1024) | (layer == NO_LAYER))


def _zero(rows: Bytes) -> npt.NDArray[np.bool_]:
    return np.asarray(~rows.any(axis=1))


def _good_name(rows: Bytes) -> npt.NDArray[np.float64]:
    """Return 1 for text followed by zeros, 0.7 for an empty field, else 0."""
    used = rows != 0
    in_text = np.logical_and.accumulate(used, axis=1)
    is_printable = (rows >= 0x20) & (rows != 0x7F)
    is_good = ((used == in_text) & (is_printable | ~used)).all(axis=1)
    return np.asarray(is_good * np.where(used[:, 0], 1.0, 0.7))
