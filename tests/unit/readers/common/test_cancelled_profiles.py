"""Reading of sampled profiles ends wherever it is cancelled, and says how far it is."""

import json
import random
import threading
from pathlib import Path

import pytest

from ggscope.errors import Cancelled
from ggscope.readers.api import ReadContext
from ggscope.readers.registry import open_trace

N_SAMPLES = 9_000
RANDOM = random.Random(7)
STACKS = [
    [RANDOM.randrange(40) for _ in range(RANDOM.randrange(1, 12))]
    for _ in range(N_SAMPLES)
]


def folded() -> bytes:
    lines = (";".join(f"f{x}" for x in stack) + " 3" for stack in STACKS)
    return "\n".join(lines).encode()


def speedscope(kind: str = "sampled") -> bytes:
    profile = {"type": kind, "name": "a", "unit": "seconds", "startValue": 0}
    if kind == "sampled":
        profile |= {"samples": STACKS, "weights": [0.25] * N_SAMPLES}
    else:
        profile["events"] = [
            {"type": "OC"[i % 2], "frame": i // 2 % 40, "at": i} for i in range(9_000)
        ]
    frames = [{"name": f"f{i}"} for i in range(40)]
    schema = "https://www.speedscope.app/file-format-schema.json"
    file = {"$schema": schema, "shared": {"frames": frames}, "profiles": [profile]}
    return json.dumps(file).encode()


def pprof() -> bytes:
    def block(number: int, data: bytes) -> bytes:
        return bytes([number << 3 | 2, len(data)]) + data

    parts = [block(1, b"\x08\x01\x10\x02")]
    parts += [
        block(2, block(1, bytes(x + 1 for x in stack)) + block(2, b"\x03"))
        for stack in STACKS
    ]
    for i in range(1, 41):
        parts.append(block(4, bytes([8, i]) + block(4, bytes([8, i]))))
        parts.append(block(5, bytes([8, i, 16, i + 2])))
    texts = ["", "samples", "count", *(f"f{i}" for i in range(40))]
    return b"".join((*parts, *(block(6, text.encode()) for text in texts)))


class Counting(ReadContext):
    """Cancels itself at a check.

    Attributes
    ----------
    n : checks so far.
    done : progress so far, and of how much.
    """

    def __init__(self, at: int | None) -> None:
        self.at, self.n = at, 0
        self.done: list[tuple[int, int]] = []
        self.event = threading.Event()
        super().__init__(cancel=self.event, progress=self.note)

    def note(self, done: int, total: int) -> None:
        self.done.append((done, total))

    def check_cancelled(self) -> None:
        self.n += 1
        if self.n == self.at:
            self.event.set()
        super().check_cancelled()


@pytest.mark.parametrize(
    "data",
    [folded(), speedscope(), speedscope("evented"), pprof()],
    ids=["folded", "speedscope", "evented", "pprof"],
)
def test_reading_ends_where_it_is_cancelled(data: bytes, tmp_path: Path) -> None:
    path = tmp_path / "x"
    path.write_bytes(data)
    whole = Counting(None)
    open_trace(path, context=whole)

    assert whole.n > 5
    assert all(0 <= done <= total == len(data) for done, total in whole.done)
    assert whole.done == sorted(whole.done)
    for at in range(1, whole.n + 1, max(whole.n // 20, 1)):
        context = Counting(at)
        with pytest.raises(Cancelled):
            open_trace(path, context=context)
        assert context.n == at
