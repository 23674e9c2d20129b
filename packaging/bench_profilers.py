"""Write large traces of other profilers: Chrome JSON as PyTorch's, and an nsys export.

Files depend on their size alone, as those of `bench_traces`.
"""

import sqlite3
from collections.abc import Iterator
from pathlib import Path

N_THREADS = 8
N_NAMES = 300
N_KERNELS = 2_000
N_STREAMS = 4
_LINES = 20_000
_PID = 7 << 24
_TID = _PID | 70
_TABLES = """
create table StringIds(id integer primary key, value text not null);
create table META_DATA_EXPORT(name text, value text);
create table CUPTI_ACTIVITY_KIND_RUNTIME(start integer, end integer, eventClass integer,
  globalTid integer, correlationId integer, nameId integer, returnValue integer);
create table CUPTI_ACTIVITY_KIND_KERNEL(start integer, end integer, deviceId integer,
  contextId integer, streamId integer, correlationId integer, globalPid integer,
  demangledName integer, shortName integer);
create table NVTX_EVENTS(start integer, end integer, eventType integer, text text,
  globalTid integer, textId integer);
"""


def write_chrome(path: Path, n: int) -> None:
    """Write `n` complete events with arguments, some 240 bytes each, on 8 threads."""
    with path.open("w", encoding="ascii") as file:
        file.write('{"traceEvents":[\n')
        for first in range(0, n, _LINES):
            last = min(first + _LINES, n)
            file.write(",\n".join(_event(i) for i in range(first, last)))
            file.write(",\n" if last < n else "\n")
        file.write("]}")


def _event(i: int) -> str:
    part = f"{i % 1000:03d}"
    return (
        f'{{"ph":"X","cat":"cpu_op","name":"aten::op_{i % N_NAMES}","pid":1234,'
        f'"tid":{100 + i % N_THREADS},"ts":{1000 + i // N_THREADS * 3}.{part},'
        f'"dur":2.{part},"args":{{"External id":{i},"Record function id":0,'
        f'"Ev Idx":{i},"Input":"{"y" * 60}"}}}}'
    )


def write_nsys(path: Path, n: int) -> None:
    """Write an export of Nsight Systems with `n` rows: kernels, calls and ranges."""
    path.unlink(missing_ok=True)
    n_ranges = n // 5
    n_kernels = (n - n_ranges) // 2
    with sqlite3.connect(path) as base:
        base.execute("pragma journal_mode=off")
        base.execute("pragma synchronous=off")
        base.executescript(_TABLES)
        names = [(i, f"kernel_{i}_{'x' * 40}") for i in range(N_KERNELS)]
        base.executemany("insert into StringIds values(?,?)", names)
        for table, rows in (
            ("CUPTI_ACTIVITY_KIND_RUNTIME", _calls(n - n_ranges - n_kernels)),
            ("CUPTI_ACTIVITY_KIND_KERNEL", _kernels(n_kernels)),
            ("NVTX_EVENTS", _ranges(n_ranges)),
        ):
            row = next(rows)
            marks = ",".join("?" * len(row))
            base.execute(f"insert into {table} values({marks})", row)
            base.executemany(f"insert into {table} values({marks})", rows)
    base.close()


def _calls(n: int) -> Iterator[tuple[int, ...]]:
    for i in range(n):
        start = 2_000 + i * 1_000
        yield (start, start + 400, 0, _TID, i + 1, i % 50, 0)


def _kernels(n: int) -> Iterator[tuple[int, ...]]:
    for i in range(n):
        start, name = 2_500 + i * 1_000, i % N_KERNELS
        end = start + 700
        yield (start, end, 0, 1, 7 + i % N_STREAMS, i + 1, _PID, name, name)


def _ranges(n: int) -> Iterator[tuple[int | str | None, ...]]:
    for i in range(n):
        start = 2_900 + i * 2_000
        text = f"aten::op_{i % N_NAMES}, op_id = {i}"
        yield (start, start + 1_900, 59, text, _TID, None)
