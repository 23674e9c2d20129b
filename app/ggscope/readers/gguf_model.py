"""Reader of GGUF model files: where which tensor lies; no weight is read.

By default the head is walked by our own reader, which needs neither a map of the
file nor an object per token string and keeps what it can of damaged files. Option
``header=package`` reads undamaged ones with the ``gguf`` package; tests hold both
equal.
"""

from pathlib import Path

import numpy as np

from ggscope.errors import ReadError
from ggscope.model.builder import TraceBuilder
from ggscope.model.claims import Stated, stated_figure
from ggscope.model.tensors import ModelFile, Place, Tensors
from ggscope.model.trace import Severity, Trace, TraceInfo
from ggscope.readers.api import NOT_MINE, Head, ReadContext, ReaderInfo, Sniff
from ggscope.readers.gguf_checks import Layout, check_layout
from ggscope.readers.gguf_data import GgufHeader
from ggscope.readers.gguf_facts import model_facts, model_name
from ggscope.readers.gguf_header import (
    HEAD_BYTES,
    MAGIC,
    VERSIONS,
    read_header,
)
from ggscope.readers.gguf_package import package_header
from ggscope.readers.gguf_places import check_rows, places
from ggscope.readers.gguf_split import Parts, find_parts, note_missing, note_total
from ggscope.readers.model_rows import TensorRows
from ggscope.readers.source import Source

OPTION = "header"
CHOICES = ("walk", "package")


class GgufReader:
    """Reads the tables of tensors of GGUF files, split ones too."""

    info = ReaderInfo(
        "gguf",
        "GGUF model file",
        (".gguf",),
        "A model of llama.cpp: its metadata and the places of its tensors.",
        {
            OPTION: "walk (default): our own reader; package: the gguf package, "
            "undamaged heads only",
        },
    )

    def sniff(self, head: Head) -> Sniff:
        """Judge a file by its magic number and version."""
        if not head.data.startswith(MAGIC):
            return NOT_MINE
        raw = head.data[4:8]
        version = min(int.from_bytes(raw, "little"), int.from_bytes(raw, "big"))
        if len(head.data) < HEAD_BYTES or version not in VERSIONS:
            return Sniff(60, "it begins with GGUF")
        if not head.data[8:HEAD_BYTES].strip(b"\0"):
            return Sniff(60, "it begins with GGUF, but holds neither keys nor tensors")
        return Sniff(100, f"magic number and version {version} of GGUF")

    def read(self, source: Source, context: ReadContext) -> Trace:
        """Return the tensors and metadata of a model, of all its parts at hand.

        Raises
        ------
        CorruptError, TruncatedError, UnsupportedVersionError
            If nothing can be told of the opened file.
        """
        choice = context.options.get(OPTION, CHOICES[0])
        build = _Build(choice if choice in CHOICES else CHOICES[0])
        header = _header(source, context, choice)
        parts = find_parts(source.path, header)
        for part in parts.found:
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
    if choice == "package":
        return package_header(source, context.check_cancelled)
    return read_header(source, context.check_cancelled)


def _add_sibling(
    build: "_Build",
    opened: GgufHeader,
    parts: Parts,
    path: Path,
    number: int,
    context: ReadContext,
) -> None:
    """Read another part; what is wrong with it is told of the opened one."""
    try:
        with Source(path) as source:
            header = _header(source, context, build.choice)
            build.add(header, source, parts, number)
    except ReadError as error:
        opened.warn(
            Severity.DATA_LOSS,
            "gguf_part_unreadable",
            f"Part {number + 1} ({path.name}) cannot be read: {error.message} Its "
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
        self, header: GgufHeader, source: Source, parts: Parts, number: int
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
                options={OPTION: self.choice} if self.choice != CHOICES[0] else {},
                stated=stated,
                modified_ns=source.modified_ns,
            )
        )


def _stated(header: GgufHeader, tensors: Tensors) -> tuple[Stated, ...]:
    """Return the counts of the metadata beside those of the tensors.

    A model may have more layers than tensors tell of: parts can be missing.
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
            found,
            basis=basis,
            place=f"{architecture}.{key}",
            at_least=True,
        )
        for name, key, found, basis in (
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
