"""Files of gguf."""

import gguf_files
from reader_files import Names, ReaderFiles, Seed


def _seeds() -> list[Seed]:
    return [
        ("m.gguf", gguf_files.encode(data_bytes=4096)),
        ("m.gguf", gguf_files.encode(version=1, big=True)),
        ("m-00001-of-00002.gguf", gguf_files.encode(alignment=64)),
    ]


def _hostile(names: Names) -> bytes:
    tensors = [
        gguf_files.T(f"blk.0.{next(names)}.weight"),
        gguf_files.T(next(names)),
        *gguf_files.TENSORS[1:4],
    ]
    text = gguf_files.STRING
    fields = dict(gguf_files.FIELDS) | {
        "general.name": (text, next(names)),
        "general.architecture": (text, next(names)),
        "general.author": (text, next(names)),
        next(names): (text, next(names)),
    }
    return gguf_files.encode(tensors, fields)


FILES = (
    ReaderFiles(
        "gguf",
        valid=("tiny.gguf", gguf_files.encode),
        seeds=_seeds,
        small_seeds=lambda: [
            ("m.gguf", gguf_files.encode(data_bytes=0)),
            ("m.gguf", gguf_files.encode(version=2, data_bytes=64)),
            ("m.gguf", gguf_files.encode(version=1, big=True, data_bytes=0)),
            ("m-00001-of-00002.gguf", gguf_files.encode(alignment=64, data_bytes=0)),
        ],
        hostile=(".gguf", _hostile),
        session="folder",
    ),
)
