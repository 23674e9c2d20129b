"""SQLite databases as GPU profilers write them, and what they hold."""

import random
import sqlite3
import tempfile
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count
from pathlib import Path

PID, TID = 7 << 24, (7 << 24) | 70
"""Of a process and its thread, as ``globalPid`` and ``globalTid`` pack them."""


@dataclass
class Made:
    """A database and what it holds.

    Attributes
    ----------
    kernels, copies, calls : (name, start, end), copies with bytes.
    launches : numbers of (call, kernel) of one correlation id.
    rows : rows of each table.
    """

    data: bytes = b""
    kernels: list[tuple[str, int, int]] = field(default_factory=list)
    copies: list[tuple[str, int, int, int]] = field(default_factory=list)
    calls: list[tuple[str, int, int]] = field(default_factory=list)
    rows: dict[str, int] = field(default_factory=dict)


def plain_names() -> Iterator[str]:
    """Yield names of kernels."""
    return (f"kernel_{i}" for i in count())


def nsys(seed: int = 1, n: int = 40, *, names: Iterator[str] | None = None) -> Made:
    """Return an export of Nsight Systems: calls that launch kernels and copies."""
    rng = random.Random(seed)
    made, names = Made(), plain_names() if names is None else names
    texts = {i + 1: next(names) for i in range(6)}
    texts[20], texts[21] = "cudaLaunchKernel", "cudaMemcpyAsync"
    texts[22] = next(names)

    def fill(db: sqlite3.Connection) -> None:
        db.executescript(_NSYS)
        db.executemany("insert into StringIds values(?,?)", texts.items())
        db.execute(
            "insert into META_DATA_EXPORT values('EXPORT_SCHEMA_VERSION','3.25.0')"
        )
        db.execute("insert into META_DATA_CAPTURE values('PROCESS_0:COMMAND','run')")
        db.execute(
            "insert into META_DATA_CAPTURE values(?,?)",
            ("PROCESS_0:ENVIRONMENT_VARIABLE", "KEY=s"),
        )
        db.execute("insert into TARGET_INFO_SESSION_START_TIME values(?)", (10**18,))
        db.execute(
            "insert into TARGET_INFO_GPU values(0,?,360048000000,12000000000,28)",
            (texts[22],),
        )
        db.execute("insert into PROCESSES values(?,7,?)", (PID, "llama-cli"))
        db.execute("insert into ThreadNames values(22,?)", (TID,))
        db.execute("insert into DIAGNOSTIC_EVENT values(5,2,?)", (texts[1],))
        now = busy = 1_000
        for i in range(n):
            now += rng.randint(50, 500)
            end = now + rng.randint(10, 60)
            is_copy = rng.random() < 0.25
            name = texts[21 if is_copy else 20]
            made.calls.append((name, now, end))
            db.execute(
                "insert into CUPTI_ACTIVITY_KIND_RUNTIME values(?,?,0,?,?,?,0)",
                (now, end, TID, i + 1, 21 if is_copy else 20),
            )
            start = max(busy, end + rng.randint(1, 100))
            busy = start + rng.randint(5, 300)
            if is_copy:
                size, kind = rng.randint(1, 1 << 20), rng.choice((1, 2, 8))
                word = {1: "HtoD", 2: "DtoH", 8: "DtoD"}[kind]
                made.copies.append((f"memcpy {word}", start, busy, size))
                db.execute(
                    "insert into CUPTI_ACTIVITY_KIND_MEMCPY values(?,?,0,1,7,?,?,?,?)",
                    (start, busy, i + 1, PID, size, kind),
                )
            else:
                text = rng.randint(1, 6)
                made.kernels.append((texts[text], start, busy))
                db.execute(
                    "insert into CUPTI_ACTIVITY_KIND_KERNEL values(?,?,0,1,7,?,?,?,?)",
                    (start, busy, i + 1, PID, text, text),
                )
            now = end
        db.execute(
            "insert into NVTX_EVENTS values(1000,?,59,'decode, op_id = 3',?,null)",
            (now, TID),
        )
        db.execute("insert into NVTX_EVENTS values(1100,null,59,null,?,22)", (TID,))
        db.execute("insert into NVTX_EVENTS values(1200,null,34,'mark',?,null)", (TID,))
        db.executemany(
            "insert into SCHED_EVENTS values(?,?,?,?)",
            ((1000, 3, 1, TID), (1500, 3, 0, TID), (1500, 3, 1, TID)),
        )
        db.executemany(
            "insert into CUDA_GPU_MEMORY_USAGE_EVENTS values(?,?,?,0,2)",
            ((1000, 64, 0), (1400, 32, 0), (1500, 64, 1)),
        )
        db.executemany(
            "insert into GPU_METRICS values(?,256,1,?)", ((1000, 5), (2000, 50))
        )
        db.execute("insert into TARGET_INFO_GPU_METRICS values(256,1,'SM active')")

    return _filled(made, fill)


def rocpd(
    seed: int = 1,
    n: int = 40,
    *,
    stamps: bool = False,
    names: Iterator[str] | None = None,
    uuid: str = "_00a1_b2",
) -> Made:
    """Return a database of rocprofv3; `stamps`: times and places in tables."""
    rng = random.Random(seed)
    made, names = Made(), plain_names() if names is None else names
    kernels = {i + 1: next(names) for i in range(5)}

    def fill(db: sqlite3.Connection) -> None:
        db.executescript((_ROCPD + (_STAMPED if stamps else _DIRECT)).format(u=uuid))

        def insert(table: str, *values: object) -> None:
            marks = ",".join("?" * len(values))
            db.execute(f'insert into "{table}{uuid}" values({marks})', values)

        number = count(1)

        def stamp(value: int) -> int:
            at = next(number)
            insert("rocpd_timestamp", at, value)
            return at

        for at, text in enumerate(("hipLaunchKernel", "MEMORY_COPY_HOST_TO_DEVICE",
                                   "HIP_RUNTIME_API", "hipMemcpy"), 1):  # fmt: skip
            insert("rocpd_string", at, text)
        insert("rocpd_metadata", 1, "schema_version", "3")
        insert("rocpd_info_process", 1, 4242, None, "./run")
        insert("rocpd_info_thread", 1, 4243, None)
        insert("rocpd_info_agent", 1, "CPU", 0, None, "EPYC")
        insert("rocpd_info_agent", 2, "GPU", 0, "MI300X", "gfx942")
        for at, text in kernels.items():
            insert("rocpd_info_kernel_symbol", at, text, text)
        insert("rocpd_info_pmc", 1, "SQ_WAVES")
        if stamps:
            insert("rocpd_track", 1, 1, 1, None, None, None)
            insert("rocpd_track", 2, 1, None, 2, 9, None)
        now = busy = 5_000_000_000
        for i in range(1, n + 1):
            now += rng.randint(50, 500)
            end = now + rng.randint(10, 60)
            is_copy = rng.random() < 0.25
            insert("rocpd_event", 2 * i, 3, i)
            insert("rocpd_event", 2 * i + 1, None, i)
            name = 4 if is_copy else 1
            made.calls.append(("hipMemcpy" if is_copy else "hipLaunchKernel", now, end))
            call = (stamp(now), stamp(end), 1) if stamps else (now, end, 1, 1)
            insert("rocpd_region", i, *call, name, 2 * i)
            start = max(busy, end + rng.randint(1, 100))
            busy = start + rng.randint(5, 300)
            work = (
                (stamp(start), stamp(busy), 2)
                if stamps
                else (start, busy, 1, 2, 9, None)
            )
            if is_copy:
                size = rng.randint(1, 1 << 20)
                if not stamps:
                    work = (start, busy, 1, 9, None)
                made.copies.append(("MEMORY_COPY_HOST_TO_DEVICE", start, busy, size))
                insert("rocpd_memory_copy", i, *work, 2, 2, size, 2 * i + 1)
            else:
                kernel = rng.randint(1, 5)
                made.kernels.append((kernels[kernel], start, busy))
                insert("rocpd_kernel_dispatch", i, *work, kernel, 2 * i + 1)
                insert("rocpd_pmc_event", i, 2 * i + 1, 1, float(i))
            now = end

    return _filled(made, fill)


def _filled(made: Made, fill: Callable[[sqlite3.Connection], None]) -> Made:
    """Return `made` with the bytes of a database and the rows of its tables."""
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "made.sqlite"
        db = sqlite3.connect(path)
        fill(db)
        db.commit()
        listed = db.execute("select name from sqlite_master where type='table'")
        for (name,) in listed.fetchall():
            (rows,) = db.execute(f'select count(*) from "{name}"').fetchone()
            if rows and not name.startswith(("sqlite_", "ENUM_")):
                made.rows[name] = rows
        db.close()
        made.data = path.read_bytes()
    return made


_NSYS = """
create table StringIds(id integer primary key, value text not null);
create table META_DATA_EXPORT(name text, value text);
create table META_DATA_CAPTURE(name text, value text);
create table TARGET_INFO_SESSION_START_TIME(utcEpochNs integer);
create table TARGET_INFO_GPU(id integer, name text, memoryBandwidth integer,
  totalMemory integer, smCount integer);
create table PROCESSES(globalPid integer, pid integer, name text);
create table ThreadNames(nameId integer, globalTid integer);
create table DIAGNOSTIC_EVENT(timestamp integer, severity integer, text text);
create table ENUM_CUDA_MEM_KIND(id integer, label text);
insert into ENUM_CUDA_MEM_KIND values(2, 'Device');
create table CUPTI_ACTIVITY_KIND_RUNTIME(start integer, end integer, eventClass integer,
  globalTid integer, correlationId integer, nameId integer, returnValue integer);
create table CUPTI_ACTIVITY_KIND_MEMCPY(start integer, end integer, deviceId integer,
  contextId integer, streamId integer, correlationId integer, globalPid integer,
  bytes integer, copyKind integer);
create table CUPTI_ACTIVITY_KIND_KERNEL(start integer, end integer, deviceId integer,
  contextId integer, streamId integer, correlationId integer, globalPid integer,
  demangledName integer, shortName integer);
create table NVTX_EVENTS(start integer, end integer, eventType integer, text text,
  globalTid integer, textId integer);
create table SCHED_EVENTS(start integer, cpu integer, isSchedIn integer,
  globalTid integer);
create table CUDA_GPU_MEMORY_USAGE_EVENTS(start integer, bytes integer,
  memoryOperationType integer, deviceId integer, memKind integer);
create table GPU_METRICS(timestamp integer, typeId integer, metricId integer,
  value integer);
create table TARGET_INFO_GPU_METRICS(typeId integer, metricId integer, metricName text);
"""
_ROCPD = """
create table "rocpd_string{u}"(id integer primary key, string text);
create table "rocpd_metadata{u}"(id integer primary key, tag text, value text);
create table "rocpd_info_process{u}"(id integer primary key, pid integer, name text,
  command text);
create table "rocpd_info_thread{u}"(id integer primary key, tid integer, name text);
create table "rocpd_info_agent{u}"(id integer primary key, type text,
  type_index integer, product_name text, name text);
create table "rocpd_info_kernel_symbol{u}"(id integer primary key, kernel_name text,
  display_name text);
create table "rocpd_info_pmc{u}"(id integer primary key, name text);
create table "rocpd_event{u}"(id integer primary key, category_id integer,
  stack_id integer);
create table "rocpd_pmc_event{u}"(id integer primary key, event_id integer,
  pmc_id integer, value real);
create view kernels as select * from "rocpd_kernel_dispatch{u}";
"""
_DIRECT = """
create table "rocpd_region{u}"(id integer primary key, start bigint, end bigint,
  pid integer, tid integer, name_id integer, event_id integer);
create table "rocpd_kernel_dispatch{u}"(id integer primary key, start bigint,
  end bigint, pid integer, agent_id integer, queue_id integer, stream_id integer,
  kernel_id integer, event_id integer);
create table "rocpd_memory_copy{u}"(id integer primary key, start bigint, end bigint,
  pid integer, queue_id integer, stream_id integer, name_id integer,
  dst_agent_id integer, size integer, event_id integer);
"""
_STAMPED = """
create table "rocpd_timestamp{u}"(id integer primary key, value bigint);
create table "rocpd_track{u}"(id integer primary key, pid integer, tid integer,
  agent_id integer, queue_id integer, stream_id integer);
create table "rocpd_region{u}"(id integer primary key, start_id integer, end_id integer,
  track_id integer, name_id integer, event_id integer);
create table "rocpd_kernel_dispatch{u}"(id integer primary key, start_id integer,
  end_id integer, track_id integer, kernel_id integer, event_id integer);
create table "rocpd_memory_copy{u}"(id integer primary key, start_id integer,
  end_id integer, track_id integer, name_id integer, dst_agent_id integer,
  size integer, event_id integer);
"""
