"""Reader of GGUF model files: where which tensor lies; no weight is read.

By default the head is walked by our own reader, which needs neither a map of the
file nor an object per token string and keeps what it can of damaged files. Option
``header=package`` reads undamaged ones with the ``gguf`` package; tests hold both
equal. The package maps the whole file into memory and makes an object of each token
string, so it serves comparisons, not everyday reading. It trusts what it reads: a
damaged count keeps it busy for ever, and a file that shrinks under its map ends the
process. So it sees whole heads only, and those in a private file.
"""

import re
import tempfile
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import cast

import numpy as np

from ggscope.errors import CorruptError, ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.ggml.types import file_type_name, fills_blocks, find_type
from ggscope.model.tables import I64
from ggscope.model.tensors import ModelFile, Place, SizeSource, Tensors
from ggscope.model.trace import (
    DeclaredMetric,
    Severity,
    Trace,
    TraceInfo,
    stated_figure,
)
from ggscope.model.units import format_bytes, format_offset
from ggscope.readers.api import NOT_MINE, Head, ReadContext, Sniff
from ggscope.readers.common.gguf_header import (
    HEAD_BYTES,
    IS_IMATRIX,
    MAGIC,
    VERSIONS,
    GgufField,
    GgufHeader,
    GgufTensor,
    Scalar,
    read_header,
)
from ggscope.readers.common.tensor_rows import MAX_OFFSET, TensorRows, stated_size
from ggscope.readers.gguf import HEADER_OPTION, INFO, PACKAGE, WALK
from ggscope.readers.source import Source

COUNT_KEY = "split.count"
NUMBER_KEY = "split.no"
TENSORS_KEY = "split.tensors.count"
_NAME = re.compile(r"(?P<stem>.+)-(?P<no>\d{5})-of-(?P<count>\d{5})(?P<end>\.gguf)$")
_SHOWN = 3


@dataclass(frozen=True, slots=True)
class SplitFile:
    """One part of a split model that exists.

    Attributes
    ----------
    number : from 0.
    """

    path: Path
    number: int


@dataclass(frozen=True, slots=True)
class SplitModel:
    """What lies in a folder of a split model.

    Attributes
    ----------
    count : parts that there should be; 1 for a model that is not split.
    number : of the opened one, from 0.
    files : parts that exist, by number; the opened one among them.
    missing : names of files that do not.
    """

    count: int
    number: int
    files: tuple[SplitFile, ...]
    missing: tuple[str, ...] = ()


def find_split(path: Path, header: GgufHeader) -> SplitModel:
    """Return the parts that belong to the opened file `path`.

    The file name decides which files are parts; the head is asked whether it agrees.
    """
    named = _NAME.match(path.name)
    stated = max(header.integer(COUNT_KEY), 1)
    if named is None:
        number = header.integer(NUMBER_KEY)
        if stated > 1:
            header.warn(
                Severity.DATA_LOSS,
                "gguf_part_alone",
                f"Part {number + 1} of {stated:,} of a split model, but its "
                "name does not follow the pattern; the other parts were not "
                "loaded.",
                header.fields[COUNT_KEY].offset,
                remedy="Name the parts …-00001-of-00003.gguf and open one of them.",
            )
        inside = 0 <= number < stated
        number = number if inside else 0
        return SplitModel(stated, number, (SplitFile(path, number),))
    count, number = int(named["count"]), int(named["no"]) - 1
    if not 0 <= number < count:
        return SplitModel(1, 0, (SplitFile(path, 0),))
    _compare(header, count, number)
    present = _present(path, named)
    present[number] = path
    missing = [
        f"{named['stem']}-{i + 1:05d}-of-{count:05d}{named['end']}"
        for i in range(count)
        if i not in present
    ]
    files = tuple(SplitFile(present[i], i) for i in sorted(present))
    return SplitModel(count, number, files, tuple(missing))


def note_missing(parts: SplitModel, header: GgufHeader) -> None:
    """Note the parts that are not there."""
    if not parts.missing:
        return
    names = ", ".join(parts.missing[:_SHOWN])
    more = len(parts.missing) - _SHOWN
    header.warn(
        Severity.DATA_LOSS,
        "gguf_missing_part",
        f"{len(parts.missing):,} of {parts.count:,} parts of this split model are "
        f"missing: {names}" + (f" and {more:,} more" if more > 0 else "") + ". Their "
        "tensors are not listed.",
        count=len(parts.missing),
        remedy="Put all parts into one folder and open any of them.",
    )


def note_total(header: GgufHeader, n_tensors: int) -> None:
    """Note where all parts together hold other than the stated tensors.

    Only to be asked where every part was read.
    """
    stated = header.integer(TENSORS_KEY)
    if stated < 0 or stated == n_tensors:
        return
    header.warn(
        Severity.DATA_LOSS,
        "gguf_split_count",
        f"Tensor count does not match: the parts have {n_tensors:,} tensors, "
        f"{TENSORS_KEY} says {stated:,}.",
        header.fields[TENSORS_KEY].offset,
        remedy="The folder may have parts of different models; download them again.",
    )


def _compare(header: GgufHeader, count: int, number: int) -> None:
    """Note where the head's part number contradicts the file's name."""
    stated = header.integer(COUNT_KEY), header.integer(NUMBER_KEY)
    if header.end >= 0 and stated != (count, number):
        says = (
            f"its header says part {stated[1] + 1:,} of {stated[0]:,}"
            if stated[0] > 0
            else "its header does not"
        )
        header.warn(
            Severity.NOTICE,
            "gguf_part_number",
            f"The file name says part {number + 1:,} of {count:,}, {says}; "
            "using the name.",
        )


def _present(path: Path, named: re.Match[str]) -> dict[int, Path]:
    """Return the parts beside `path` by number."""
    present: dict[int, Path] = {}
    try:
        siblings = list(path.parent.iterdir())
    except OSError:
        return present
    for other in siblings:
        match = _NAME.match(other.name)
        if (
            match
            and (match["stem"], match["count"]) == (named["stem"], named["count"])
            and 0 < int(match["no"]) <= int(match["count"])
        ):
            present[int(match["no"]) - 1] = other
    return present


_REFETCH = (
    "The file is damaged or was written incorrectly; download or convert it again."
)
_OWN = "GGUF."
"""What the package puts among the keys by itself begins so."""
_SECONDS = 120.0
"""A vocabulary of 200,000 tokens takes the package 12 s."""
_HINT = "Remove the reader option header=package."
MAX_FACTS = 512
_MAX_TEXT = 200
_N_SHOWN = 8
"""Elements shown of long arrays."""
_ARCHITECTURE = "general.architecture"
_TOKENS = "tokenizer.ggml.tokens"
_EMBEDDING = "token_embd.weight"
_DERIVED = (
    ("n_layers", "block_count"),
    ("n_vocab", "vocab_size"),
    ("n_embd", "embedding_length"),
    ("n_experts", "expert_count"),
    ("n_experts_used", "expert_used_count"),
    ("n_ctx", "context_length"),
)
"""(our name, key behind the architecture)."""


@dataclass(frozen=True, slots=True, eq=False)
class Layout:
    """Tensors of one file, in the order of its table.

    Attributes
    ----------
    name : as the file spells them.
    offset : int64[n], from the start of the file; -1 unknown.
    size : int64[n], bytes; -1 unknown.
    file_size : bytes of the file.
    """

    name: list[str]
    offset: I64
    size: I64
    file_size: int


def check_layout(layout: Layout, header: GgufHeader) -> None:
    """Note in `header` what is wrong with the places of its tensors."""
    known = np.flatnonzero(layout.offset >= 0)
    if not len(known):
        return
    _check_alignment(layout, header, known)
    _check_order(layout, header, known)
    _check_overlaps(layout, header, known)
    _check_end(layout, header, known)


def _check_alignment(layout: Layout, header: GgufHeader, known: I64) -> None:
    relative = layout.offset[known] - header.data_offset
    odd = known[relative % header.alignment != 0]
    if len(odd):
        first = int(odd[0])
        header.warn(
            Severity.NOTICE,
            "gguf_misaligned",
            f"{layout.name[first]} is not aligned to {header.alignment} bytes "
            "in the data section.",
            header.tensors[first].at,
            count=len(odd),
            place=layout.name[first],
        )


def _check_order(layout: Layout, header: GgufHeader, known: I64) -> None:
    steps = np.diff(layout.offset[known])
    back = np.flatnonzero(steps < 0)
    if len(back):
        first = int(known[back[0] + 1])
        header.warn(
            Severity.NOTICE,
            "gguf_out_of_order",
            f"{layout.name[first]} is out of offset order; offsets are shown "
            "as stored.",
            header.tensors[first].at,
            count=len(back),
            place=layout.name[first],
        )


def _check_overlaps(layout: Layout, header: GgufHeader, known: I64) -> None:
    sized = known[layout.size[known] > 0]
    order = sized[np.argsort(layout.offset[sized], kind="stable")]
    start, end = layout.offset[order], layout.offset[order] + layout.size[order]
    over = np.flatnonzero(end[:-1] > start[1:])
    if len(over):
        one, other = int(order[over[0]]), int(order[over[0] + 1])
        shared = int(end[over[0]] - start[over[0] + 1])
        header.warn(
            Severity.DATA_LOSS,
            "gguf_overlaps",
            f"{layout.name[one]} and {layout.name[other]} overlap by "
            f"{shared:,} bytes from {format_offset(int(start[over[0] + 1]))}; "
            "total tensor size "
            f"{format_bytes(layout.size[sized].sum(dtype=np.float64))}.",
            header.tensors[other].at,
            count=len(over),
            place=layout.name[other],
            remedy=_REFETCH,
        )
    gaps = start[1:] - np.maximum.accumulate(end)[:-1]
    wide = np.flatnonzero(gaps >= header.alignment)
    if len(wide):
        header.warn(
            Severity.NOTICE,
            "gguf_gaps",
            f"{int(gaps[wide].sum()):,} bytes between tensors are unused; the "
            f"first {int(gaps[wide[0]]):,} after "
            f"{layout.name[int(order[wide[0]])]}.",
            int(end[wide[0]]),
            count=len(wide),
        )


def _check_end(layout: Layout, header: GgufHeader, known: I64) -> None:
    end = layout.offset[known] + np.maximum(layout.size[known], 0)
    beyond = known[end > layout.file_size]
    if len(beyond):
        first, missing = int(beyond[0]), int(end.max()) - layout.file_size
        header.warn(
            Severity.DATA_LOSS,
            "gguf_data_missing",
            f"{len(beyond):,} of {len(layout.name):,} tensors extend beyond "
            f"the end of the file: {format_bytes(missing)} ({missing:,} bytes) "
            "of weights are missing. Offsets and sizes are those of the "
            "header.",
            layout.file_size,
            place=layout.name[first],
            remedy="The download or copy of the file is probably incomplete.",
        )
        return
    rest = layout.file_size - int(end.max())
    if rest > max(header.alignment, 4096):
        header.warn(
            Severity.NOTICE,
            "gguf_trailing_bytes",
            f"{rest:,} bytes after the last tensor are unused.",
            int(end.max()),
        )


def package_header(
    source: Source, check_cancelled: Callable[[], None] = lambda: None
) -> GgufHeader:
    """Return the head of an undamaged file of version 2 or 3.

    Raises
    ------
    CorruptError, TruncatedError, UnsupportedVersionError
        If our own walk finds any damage, or the package refuses the file or is not
        done in two minutes.
    """
    # Not imported by those who have no plug-in and do not ask for the package.
    from ggscope.readers import plugins

    walked = read_header(source, check_cancelled)
    if walked.end < 0 or walked.warnings:
        why = (
            walked.warnings[0].message
            if walked.warnings
            else "Its header is truncated."
        )
        raise CorruptError(
            f"the gguf package needs a complete header, and this one is damaged: {why}",
            hint=_HINT,
        )
    with tempfile.TemporaryDirectory(
        prefix="ggscope-", ignore_cleanup_errors=True
    ) as folder:
        copy = Path(folder) / "head.gguf"
        with copy.open("wb") as file:
            file.write(source.head(walked.data_offset))
            # The weights are a hole: nobody looks at them.
            file.truncate(source.size)
        try:
            header, _ = plugins.run(
                lambda: _read(copy), seconds=_SECONDS, check=check_cancelled
            )
        except plugins.PluginError as error:
            raise CorruptError(
                f"the gguf package cannot read this file: {error}.", hint=_HINT
            ) from error
    return header


def _read(path: Path) -> GgufHeader:
    """Return what the package reads; it raises whatever numpy or an enum raises."""
    from gguf import GGUFEndian, GGUFReader, GGUFValueType

    reader = GGUFReader(path)
    header = GgufHeader(
        version=int(reader.fields["GGUF.version"].parts[-1][0]),
        is_big_endian=reader.endianess == GGUFEndian.BIG,
        n_tensors=len(reader.tensors),
        n_fields=int(reader.fields["GGUF.kv_count"].parts[-1][0]),
        alignment=int(reader.alignment),
        data_offset=int(reader.data_offset),
    )
    for key, entry in reader.fields.items():
        if not key.startswith(_OWN):
            is_array = entry.types[0] == GGUFValueType.ARRAY
            header.fields[key] = _field(
                entry.contents(), entry.offset, len(entry.data) if is_array else -1
            )
    for tensor in reader.tensors:
        header.tensors.append(
            GgufTensor(
                tensor.name,
                tuple(int(n) for n in tensor.shape),
                int(tensor.tensor_type),
                int(tensor.data_offset - reader.data_offset),
                int(tensor.field.offset),
            )
        )
    header.end = header.data_offset
    return header


def _field(content: object, offset: int, n_items: int) -> GgufField:
    """Return a field; `n_items` is -1 for anything but an array."""
    length = len(content.encode()) if isinstance(content, str) else n_items
    value = tuple(content) if isinstance(content, list) else content
    return GgufField(
        cast("Scalar | tuple[Scalar, ...]", value), length, n_items >= 0, int(offset)
    )


def model_facts(header: GgufHeader) -> dict[str, str]:
    """Return metadata by key: the derived facts first, then the file's own keys.

    Derived are ``n_layers, n_vocab, n_embd, n_experts, n_experts_used, n_ctx`` and
    ``file_type``, each only where the file states it. Of long texts and arrays the
    begin stands, and their length.
    """
    facts: dict[str, str] = {}
    architecture = header.text(_ARCHITECTURE)
    for name, key in _DERIVED:
        value = header.integer(f"{architecture}.{key}")
        if name == "n_vocab" and value < 0:
            value = _n_vocab(header)
        if value >= 0:
            facts[name] = str(value)
    kind = file_type_name(header.integer("general.file_type"))
    if kind:
        facts["file_type"] = kind
    for key, entry in header.fields.items():
        if len(facts) >= MAX_FACTS:
            header.warn(
                Severity.NOTICE,
                "gguf_many_keys",
                f"The file has {len(header.fields):,} metadata keys; the first "
                f"{MAX_FACTS:,} are listed.",
                entry.offset,
            )
            break
        facts[key] = _text(entry)
    return facts


def model_name(header: GgufHeader, file_name: str) -> str:
    """Return what the model calls itself, else the name of its file."""
    return header.text("general.name") or file_name


def _n_vocab(header: GgufHeader) -> int:
    """Return the number of tokens, by the vocabulary or the embedding's rows."""
    tokens = header.fields.get(_TOKENS)
    if tokens is not None:
        return tokens.length
    for tensor in header.tensors:
        if tensor.name == _EMBEDDING and len(tensor.shape) > 1:
            return tensor.shape[1]
    return -1


def _text(entry: GgufField) -> str:
    value = entry.value
    if isinstance(value, tuple):
        text = f"[{', '.join(map(_scalar, value))}]"
        return text if len(text) <= _MAX_TEXT else _begin(value, entry.length)
    if value is None and entry.is_array:
        return _begin(entry.head, entry.length)
    if value is None:
        return f"{entry.length:,} bytes of text"
    text = _scalar(value)
    if len(text) <= _MAX_TEXT:
        return text
    return f"{entry.length:,} bytes of text: {text[:_MAX_TEXT]}…"


def _begin(values: Sequence[Scalar], length: int) -> str:
    """Return how many elements an array has, and as many as there is room for."""
    count, shown = f"{length:,} values", ""
    for value in values[:_N_SHOWN]:
        text = _scalar(value)
        if len(shown) + len(text) > _MAX_TEXT:
            break
        shown += f"{text}, "
    return f"{count}: [{shown}…]" if shown else count


def _scalar(value: Scalar) -> str:
    if isinstance(value, bool):
        return "true" if value else "false"
    if isinstance(value, float):
        return f"{value:.7g}"
    return str(value)


def places(header: GgufHeader, file_size: int) -> tuple[I64, I64, I64]:
    """Return offset, size and `SizeSource` of the tensors of one file, int64[n] each.

    Offsets count from the start of the file; -1 where they cannot be determined. What
    is odd is noted in `header`.
    """
    n = len(header.tensors)
    offset = np.full(n, -1, np.int64)
    size = np.full(n, -1, np.int64)
    impossible: list[int] = []
    for i, tensor in enumerate(header.tensors):
        size[i] = stated_size(tensor.type, tensor.shape or (1,))
        place = header.data_offset + tensor.offset
        if header.data_offset >= 0:
            offset[i] = place if place <= MAX_OFFSET else -1
        is_huge = size[i] < 0 and find_type(tensor.type) is not None
        if is_huge or place > MAX_OFFSET - max(int(size[i]), 0):
            impossible.append(i)
    offset[impossible] = -1
    if impossible:
        first = header.tensors[impossible[0]]
        header.warn(
            Severity.DATA_LOSS,
            "gguf_impossible_tensor",
            f"{first.name} has an invalid shape or offset; it has no file range.",
            first.at,
            count=len(impossible),
            place=first.name,
        )
    return _with_unknown_types(header, offset, size, file_size)


def _with_unknown_types(
    header: GgufHeader, offset: I64, size: I64, file_size: int
) -> tuple[I64, I64, I64]:
    """Give tensors of unknown types the space up to the next one."""
    source = np.where(size >= 0, SizeSource.STATED, SizeSource.UNKNOWN).astype(np.int64)
    unknown = [i for i, t in enumerate(header.tensors) if find_type(t.type) is None]
    if not unknown:
        return offset, size, source
    starts = np.unique(np.append(offset[offset >= 0], file_size))
    rows = np.asarray(unknown, np.int64)
    rows = rows[(offset[rows] >= 0) & (offset[rows] < file_size)]
    following = starts[np.searchsorted(starts, offset[rows], side="right")]
    size[rows] = following - offset[rows]
    source[rows] = SizeSource.REPAIRED
    first = header.tensors[unknown[0]]
    numbers = sorted({header.tensors[i].type for i in unknown})
    header.warn(
        Severity.NOTICE,
        "gguf_unknown_type",
        f"Unknown tensor types (number {', '.join(map(str, numbers[:4]))}); "
        "sizes are the space up to the next tensor.",
        first.at,
        count=len(unknown),
        place=first.name,
    )
    return offset, size, source


def check_rows(header: GgufHeader, names: list[str]) -> None:
    """Note repeated names and rows that are no whole blocks of their type."""
    first_row = {name: i for i, name in reversed(list(enumerate(names)))}
    repeated = [i for i, name in enumerate(names) if first_row[name] != i]
    if repeated:
        first = header.tensors[repeated[0]]
        header.warn(
            Severity.NOTICE,
            "gguf_repeated_tensor",
            f"Duplicate tensor {first.name}.",
            first.at,
            count=len(repeated),
            place=first.name,
        )
    odd = [t for t in header.tensors if not fills_blocks(t.type, t.shape)]
    if odd:
        header.warn(
            Severity.NOTICE,
            "gguf_odd_rows",
            f"Row size of {odd[0].name} is not a multiple of its block size; ggml "
            "rejects such tensors.",
            odd[0].at,
            count=len(odd),
            place=odd[0].name,
        )


class GgufReader:
    """Reads the tables of tensors of GGUF files, split ones too."""

    info = INFO

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its magic number and version."""
        if not head.data.startswith(MAGIC):
            return NOT_MINE
        if IS_IMATRIX.search(head.data):
            return Sniff(20, "GGUF with general.type = imatrix: no weights")
        raw = head.data[4:8]
        version = min(int.from_bytes(raw, "little"), int.from_bytes(raw, "big"))
        if len(head.data) < HEAD_BYTES or version not in VERSIONS:
            return Sniff(60, "magic number GGUF")
        if not head.data[8:HEAD_BYTES].strip(b"\0"):
            return Sniff(60, "magic number GGUF, but no keys or tensors")
        return Sniff(100, f"magic number GGUF, version {version}")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the tensors and metadata of a model, of all its parts at hand.

        Raises
        ------
        CorruptError, TruncatedError, UnsupportedVersionError
            If nothing can be determined of the opened file.
        """
        choice = INFO.option_values(context.options)[HEADER_OPTION]
        build = _Build(choice)
        header = _header(source, context, choice)
        parts = find_split(source.path, header)
        for part in parts.files:
            context.check_cancelled()
            if part.number == parts.number:
                build.add(header, source, parts, part.number)
                continue
            _add_sibling(build, header, parts, part.path, part.number, context)
        context.progress(source.size, source.size)
        note_missing(parts, header)
        if build.n_files == parts.count > 1:
            note_total(header, len(build.rows))
        return build.trace(source, header)


def _header(source: Source, context: ReadContext, choice: str) -> GgufHeader:
    if choice == PACKAGE:
        return package_header(source, context.check_cancelled)
    return read_header(source, context.check_cancelled)


def _add_sibling(
    build: "_Build",
    opened: GgufHeader,
    parts: SplitModel,
    path: Path,
    number: int,
    context: ReadContext,
) -> None:
    """Read another part; what is wrong with it is reported of the opened one."""
    try:
        with Source(path) as source:
            header = _header(source, context, build.choice)
            build.add(header, source, parts, number)
    except ReadError as error:
        opened.warn(
            Severity.DATA_LOSS,
            "gguf_part_unreadable",
            f"Cannot read part {number + 1} ({path.name}): {error.message} Its "
            "tensors are not listed.",
            error.offset,
            place=path.name,
            remedy=error.hint,
        )


class _Build:
    """Tensors and model files of all parts."""

    def __init__(self, choice: str) -> None:
        self.choice = choice
        self.rows = TensorRows()
        self._builder = TraceBuilder()
        self._models: list[ModelFile] = []
        self._source: list[int] = []
        self._paths: list[Path] = []
        self._n_bytes = 0
        self._headers: list[tuple[GgufHeader, str]] = []

    @property
    def n_files(self) -> int:
        """Parts that could be read."""
        return len(self._models)

    def add(
        self, header: GgufHeader, source: Source, parts: SplitModel, number: int
    ) -> None:
        """Add the tensors of one part."""
        file = len(self._models)
        self._models.append(
            ModelFile(
                source.path.name,
                source.size,
                header.data_offset,
                number,
                parts.count,
                model_facts(header),
            )
        )
        self._paths.append(source.path)
        self._n_bytes += source.size
        self._headers.append((header, source.path.name if parts.count > 1 else ""))
        offsets, sizes, sources = places(header, source.size)
        for tensor, offset, size in zip(
            header.tensors, offsets.tolist(), sizes.tolist(), strict=True
        ):
            self.rows.add(
                tensor.name,
                offset=offset,
                size=size,
                type_number=tensor.type,
                shape=tensor.shape or (1,),
                file=file,
                at=tensor.at,
            )
        self._source += sources.tolist()
        names = [t.name for t in header.tensors]
        check_rows(header, names)
        check_layout(Layout(names, offsets, sizes, source.size), header)

    def trace(self, source: Source, opened: GgufHeader) -> Trace:
        """Return the trace of all parts."""
        builder = self._builder
        builder.models = tuple(self._models)
        builder.tensors = self.rows.table(
            builder.strings,
            place=Place.STATED,
            size_source=np.asarray(self._source, np.uint8),
        )
        for header, part in self._headers:
            for w in header.warnings:
                builder.warn(
                    w.severity,
                    w.code,
                    f"{part}: {w.message}" if part else w.message,
                    w.offset,
                    w.count,
                    place=w.place,
                    remedy=w.remedy,
                )
        stated = _stated(opened, builder.tensors)
        builder.warn_stated(stated)
        others = [p for p in self._paths if p != source.path]
        return builder.snapshot(
            TraceInfo(
                paths=(source.path, *others),
                reader_id=GgufReader.info.id,
                format=GgufReader.info.title,
                format_version=str(opened.version)
                + (", big-endian" if opened.is_big_endian else ""),
                byte_size=self._n_bytes,
                n_records=len(self.rows),
                producer=_producer(self._headers[0][0], source.path.name),
                options={HEADER_OPTION: self.choice} if self.choice != WALK else {},
                stated=stated,
                modified_ns=source.modified_ns,
            )
        )


def _stated(header: GgufHeader, tensors: Tensors) -> tuple[DeclaredMetric, ...]:
    """Return the counts of the metadata beside those of the tensors.

    A model may have more layers than tensors show: parts can be missing.
    """
    architecture = header.text("general.architecture")
    layers = np.unique(tensors.layer[tensors.layer >= 0])
    n_experts = (
        None if tensors.n_experts is None else int(tensors.n_experts.max(initial=0))
    )
    figures = (
        stated_figure(
            name,
            None if (n := header.integer(f"{architecture}.{key}")) < 0 else n,
            counted,
            basis=basis,
            place=f"{architecture}.{key}",
            at_least=True,
        )
        for name, key, counted, basis in (
            ("layers", "block_count", len(layers), "layers of its tensors"),
            ("experts", "expert_count", n_experts, "its stacks of experts"),
        )
    )
    return tuple(figure for figure in figures if figure is not None)


def _producer(header: GgufHeader, file_name: str) -> dict[str, str]:
    facts = {
        "model": model_name(header, file_name),
        "architecture": header.text("general.architecture"),
        "quantized_by": header.text("general.quantized_by"),
    }
    return {key: value for key, value in facts.items() if value}
