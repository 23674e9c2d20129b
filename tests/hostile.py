"""Files that are no trace, or half of one: what a person may drop by mistake."""

import json
import random
from collections.abc import Callable
from pathlib import Path

from support import ROOT

SAMPLES = ROOT / "resources" / "samples"
GIB = 1 << 30


def hostile_files(folder: Path) -> dict[str, Path]:
    """Return what is wrong -> a file with that fault, written into `folder`."""
    made: dict[str, Path] = {}
    for name, write in _WRITERS.items():
        path = folder / name
        write(path)
        made[name] = path
    return made


def big_files(folder: Path, size: int) -> dict[str, Path]:
    """Return reader id -> a good file of about `size` bytes, written into `folder`."""
    records = (SAMPLES / "tinyllama-256.bin").read_bytes()
    stream = (SAMPLES / "llama.ggmlviz").read_bytes()
    root = json.loads((SAMPLES / "npu-prefill-decode.json").read_text("utf-8"))
    events = ",".join(json.dumps(e) for e in root.pop("timeline_events"))
    text = f'{json.dumps(root)[:-1]}, "timeline_events": ['
    text += ",".join([events] * max(1, size // len(events))) + "]}"
    paths = {
        "tensor-access": folder / "big.bin",
        "ggmlviz": folder / "big.ggmlviz",
        "npu-json": folder / "big.json",
    }
    paths["tensor-access"].write_bytes(records * max(1, size // len(records)))
    # The same run over and over: the clock of the file runs back at every copy.
    body = stream[_GGMLVIZ_HEAD:]
    paths["ggmlviz"].write_bytes(
        stream[:_GGMLVIZ_HEAD] + body * max(1, size // len(body))
    )
    paths["npu-json"].write_text(text, "utf-8")
    return paths


_GGMLVIZ_HEAD = 12
_MAGIC = b"GGMLVIZ1"


def _sample(name: str) -> bytes:
    return (SAMPLES / name).read_bytes()


def _noise(size: int) -> bytes:
    return random.Random(size).randbytes(size)


def _sparse(path: Path) -> None:
    with path.open("wb") as file:
        file.truncate(2 * GIB)


def _preallocated(path: Path) -> None:
    with path.open("wb") as file:
        file.write(_sample("tinyllama-256.bin"))
        file.truncate(2 * GIB)


def _bytes(make: Callable[[], bytes]) -> Callable[[Path], None]:
    def write(path: Path) -> None:
        path.write_bytes(make())

    return write


def _endless_label() -> bytes:
    return _sample("llama.ggmlviz")[:5000] + b"\x01" + b"\xff" * 64


_WRITERS: dict[str, Callable[[Path], object]] = {
    "empty.ggmlviz": _bytes(bytes),
    "empty.bin": _bytes(bytes),
    "empty.json": _bytes(bytes),
    "header-only.ggmlviz": _bytes(lambda: _MAGIC + b"\1\0\0\0"),
    "half-header.ggmlviz": _bytes(lambda: _MAGIC),
    "truncated.ggmlviz": _bytes(lambda: _sample("llama.ggmlviz")[:100_001]),
    "truncated.bin": _bytes(lambda: _sample("tinyllama-256.bin")[:100_001]),
    "truncated.json": _bytes(lambda: _sample("npu-prefill-decode.json")[:100_001]),
    "wrong-magic.ggmlviz": _bytes(lambda: b"GGMLWAT1" + _sample("llama.ggmlviz")[8:]),
    "future.ggmlviz": _bytes(
        lambda: _MAGIC + b"\x63\0\0\0" + _sample("llama.ggmlviz")[12:]
    ),
    "endless-label.ggmlviz": _bytes(_endless_label),
    "noise.ggmlviz": _bytes(lambda: _noise(50_000)),
    "noise.bin": _bytes(lambda: _noise(51_200)),
    "noise.json": _bytes(lambda: _noise(50_001)),
    "noise-after-header.ggmlviz": _bytes(lambda: _MAGIC + b"\1\0\0\0" + _noise(50_002)),
    "deep.json": _bytes(lambda: b'{"timeline_events": ' + b"[" * 100_000),
    "no-events.json": _bytes(lambda: b'{"version": "1.0", "timeline_events": []}'),
    "future.json": _bytes(lambda: b'{"version": "9.9", "timeline_events": [{"a": 1}]}'),
    "other.json": _bytes(lambda: b'{"name": "package", "version": "1.0"}'),
    "text.bin": _bytes(lambda: b"Dear diary, today " * 500),
    "zeros.bin": _bytes(lambda: bytes(65_536)),
    "sparse.bin": _sparse,
    "sparse.ggmlviz": _sparse,
    "preallocated.bin": _preallocated,
    "folder.ggmlviz": Path.mkdir,
}
