"""What every command says that the reference traces read, against the records' bytes.

The records are decoded and added up in plain Python, by the definitions of the ops;
nothing is shared with the program.
"""

import json
import statistics
from collections import Counter
from dataclasses import dataclass, field
from itertools import pairwise
from pathlib import Path

import pytest

from ggscope.analysis.buffers import buffer_use
from ggscope.analysis.heat.heatmap import heat_base
from ggscope.readers.registry import open_trace
from support import corpus_path, need_corpus
from tensor_files import Rec, Src, decode

PRIVATE = {1: "MUL_MAT", 2: "ADD", 3: "ROPE"}


def entries() -> list[dict]:
    folder = corpus_path()
    if folder is None:
        return []
    index = json.loads((folder / "INDEX.json").read_text())
    return [
        entry
        for entry in index
        if entry["format"] == "tensor-trace-json"
        or (
            entry["format"] == "tensor-trace-bin"
            and entry["expect"].get("records")
            and entry["expect"]["layout"] in ("64p", "128", "256", "1024")
        )
    ]


def decoded_json(path: Path) -> tuple[list[Rec], str]:
    """Return the entries of a token trace as records, ops by name; and their schema."""
    records = []
    for entry in json.loads(path.read_text("utf-8"))["entries"]:
        listed = entry.get("sources")
        name = entry.get("dst_name", "")
        report = listed if listed is not None else [entry]
        sources = tuple(
            Src(
                source.get("name") or source.get("tensor_name"),
                int(source["tensor_ptr"], 16),
                source["size_bytes"],
                mem=0 if source.get("memory_source") == "DISK" else 1,
                where=source.get("buffer_id") or 0,
            )
            for source in report
        )
        op, time = entry["operation_type"], entry["timestamp_ns"]
        record = Rec(time, name, op, sources, thread=entry["thread_id"])
        records.append(record)
    is_new = "sources" in json.loads(path.read_text("utf-8"))["entries"][0]
    return records, "256" if is_new else "128"


def op_names(table: str) -> dict[int, str]:
    """Return the names of op numbers of a table of the corpus."""
    tables = json.loads((need_corpus() / "ggml_op_tables.json").read_text())
    rows = tables if isinstance(tables, list) else tables["tables"]
    (names,) = (row["ops"] for row in rows if row["id"] == table)
    parts = names.split() if isinstance(names, str) else names
    return dict(enumerate(parts))


@dataclass
class Sums:
    """What a trace reads and writes: known bytes, and what is open."""

    known: int = 0
    unknown: int = 0
    accesses: int = 0
    ops: int = 0
    by_op: Counter = field(default_factory=Counter)
    open_by_op: Counter = field(default_factory=Counter)
    file: int = 0
    file_open: int = 0
    requested: int = 0
    cache_read: int = 0
    cache_read_open: int = 0
    cache_written_open: int = 0
    buffers: Counter = field(default_factory=Counter)


def sums_of(records: list[Rec], names: dict[int, str], layout: str) -> Sums:
    """Add the sources of records up, one by one."""
    sums = Sums()
    probs = {
        (s.name.split("-")[1].split(" ")[0], s.size)
        for r in records
        for s in r.sources
        if s.name.startswith("ffn_moe_probs-")
    }
    last = None
    for r in records:
        op = names[r.op]
        key = (r.thread, r.time, r.op)
        # A record per source: those of one op share thread, stamp and op.
        is_op = layout in ("256", "1024") or key != last
        last = None if not is_op else key
        sums.ops += is_op
        for slot, s in enumerate(r.sources):
            known, open_ = s.size, 0
            if op == "GET_ROWS" and slot == 0:
                known, open_ = 0, s.size  # how long a row is nobody says
            elif op == "SET_ROWS" and slot == 2:
                # Some rows are written: those of source 0, at most twice as wide.
                known, open_ = 0, min(s.size, 2 * r.sources[0].size or s.size)
            elif op == "FLASH_ATTN_EXT" and slot in (1, 2) and len(r.sources) > 3:
                known, open_ = 0, s.size  # positions that the mask leaves
            elif op in ("MUL_MAT_ID", "ADD_ID") and "_exps" in s.name:
                ids = next(x for x in r.sources if x.name.startswith("ffn_moe_topk-"))
                layer = ids.name.split("-")[1]
                # As many ids as probabilities: each token chose every expert.
                every = (layer, ids.size) in probs
                known, open_ = (s.size, 0) if every else (0, s.size)
            sums.accesses += 1
            sums.known += known
            sums.unknown += open_
            sums.by_op[op] += known
            sums.open_by_op[op] += open_
            in_file = layout in ("256", "1024") and s.mem == 0
            if in_file:
                sums.file += known
                sums.file_open += open_
                sums.requested += known if op != "GET_ROWS" else 0
            elif s.name.startswith("cache_"):
                if op == "SET_ROWS":
                    sums.cache_written_open += open_
                else:
                    sums.cache_read += known
                    sums.cache_read_open += open_
            if layout in ("256", "1024") and s.mem == 1:
                sums.buffers[s.where] += known
    return sums


@pytest.fixture(scope="module", params=entries(), ids=lambda e: e["path"])
def case(request) -> tuple[Path, Sums]:
    path = need_corpus() / request.param["path"]
    expect = request.param["expect"]
    if path.suffix == ".json":
        records, layout = decoded_json(path)
        return path, sums_of(records, {r.op: r.op for r in records}, layout)
    layout = expect["layout"]
    table = expect.get("op_table", "ggml-2025-11-25-95").split()[0]
    names = PRIVATE if layout in ("64p", "128") else op_names(table)
    return path, sums_of(decode(path.read_bytes(), layout), names, layout)


def json_of(run, *text: object) -> dict:
    result = run(*text, "--json")
    assert result.code == 0, result.err
    return json.loads(result.out)


@pytest.mark.parametrize("by", ["op", "tensor", "layer", "token", "thread"])
def test_statistics_by_anything_add_up_to_the_records(run, case, by) -> None:
    path, truth = case

    rows = json_of(run, "stats", "--by", by, "--limit", 100_000, path)["rows"]

    assert sum(row["bytes"] for row in rows) == truth.known
    assert sum(row["bytes_unknown"] for row in rows) == truth.unknown
    assert sum(row["ops"] for row in rows) == truth.ops
    if by == "op":
        assert {row["key"]: row["bytes"] for row in rows} == dict(truth.by_op)
        values = {row["key"]: row["bytes_unknown"] for row in rows}
        assert values == {op: truth.open_by_op[op] for op in truth.by_op}


@pytest.mark.parametrize("name", ["64packed", "128"])
def test_records_of_one_multiplication_are_one_op_with_all_of_its_time(run, name):
    """Both records of an op bear its stamp; pauses between passes are no op time."""
    path = need_corpus() / "tracer" / f"trace_{name}_71099aab.bin"
    begins: dict[int, list[tuple[int, int]]] = {}
    own_pass, first = -1, None
    for r in decode(path.read_bytes(), "64p" if name == "64packed" else name):
        pointer = r.sources[0].ptr
        first = first or pointer  # a pass begins where its first weight comes again
        own_pass += pointer == first and r.time not in begins
        begins.setdefault(r.time, []).append((own_pass, pointer))
    stamps = [(time, rows[0][0]) for time, rows in begins.items()]
    lasted = sorted(
        after - time
        for (time, own), (after, next_one) in pairwise(stamps)
        if own == next_one
    )

    (row,) = json_of(run, "stats", "--by", "op", path)["rows"]

    assert (row["key"], row["count"]) == ("MUL_MAT", len(begins)) == ("MUL_MAT", 105)
    assert {len(rows) for rows in begins.values()} == {2}
    assert row["total_ns"] == sum(lasted)
    assert row["p50"] == statistics.median(lasted) == 782_500


def test_info_hot_cache_and_heatmap_agree_with_the_records(run, case) -> None:
    path, truth = case

    info, hot, cache = (json_of(run, word, path) for word in ("info", "hot", "cache"))

    assert info["counts"]["accesses"] == truth.accesses
    assert sum(part["count"] for part in hot["accesses"].values()) == truth.accesses
    assert sum(part["bytes"] for part in hot["accesses"].values()) == truth.known
    spaces = hot["accesses"]
    assert sum(part["bytes_unknown"] for part in spaces.values()) == truth.unknown
    assert spaces["weights"]["bytes"] == truth.file
    assert hot["model_bytes"]["read"] == truth.file
    assert hot["model_bytes"]["unknown"] == truth.file_open
    assert cache["bytes_asked"] == truth.requested
    totals = heat_base(open_trace(path), "pass").totals
    assert (totals.file_bytes, totals.unknown_file_bytes) == (
        truth.file,
        truth.file_open,
    )


def test_kv_cache_and_buffers_agree_with_the_records(run, case) -> None:
    path, truth = case
    trace = open_trace(path)

    kv = json_of(run, "hot", path)["kv_cache"]
    use = buffer_use(trace)

    read = kv["read"]["bytes"] if kv["read"] else 0
    perhaps = kv["read"]["bytes_unknown"] if kv["read"] else 0
    written = kv["written"]["bytes_unknown"] if kv["written"] else 0
    assert (read, written) == (truth.cache_read, truth.cache_written_open)
    assert perhaps == truth.cache_read_open
    rows = zip(trace.buffers.address.tolist(), use.bytes.tolist(), strict=True)
    assert {address: n for address, n in rows if n} == {
        where: n for where, n in truth.buffers.items() if n and where
    }


def test_statistics_by_expert_are_those_of_the_stacks(run, case) -> None:
    path, _ = case

    rows = json_of(run, "stats", "--by", "expert", "--limit", 100_000, path)["rows"]

    stacks = sum(row["bytes"] for row in rows if row["key"].isdecimal())
    records = decode(path.read_bytes(), "1024") if "1024" in path.name else []
    if path.suffix == ".json":
        records = decoded_json(path)[0]
    assert stacks == sum(
        s.size for r in records for s in r.sources if "_exps" in s.name
    )


@pytest.mark.parametrize("n_threads", [2, 3])
def test_ops_that_threads_share_count_once(run, case, tmp_path, n_threads) -> None:
    path, truth = case
    if "_256_" not in path.name and "_1024" not in path.name:
        pytest.skip("records of one source each are of one thread")
    size = 256 if "_256_" in path.name else 1024
    data = path.read_bytes()
    records = [data[i : i + size] for i in range(0, len(data) // size * size, size)]
    copy = tmp_path / path.name
    copy.write_bytes(
        b"".join(
            r[:14] + (100 + k).to_bytes(2, "little") + r[16:]
            for k in range(n_threads)
            for r in records
            if any(r)
        )
    )

    hot, cache = json_of(run, "hot", copy), json_of(run, "cache", copy)
    info = json_of(run, "info", copy)
    rows = json_of(run, "stats", "--by", "op", "--limit", 100_000, copy)["rows"]
    lanes = json_of(run, "stats", "--by", "thread", copy)["rows"]

    assert info["counts"]["accesses"] == truth.accesses
    assert sum(info["accesses_by_space"].values()) == truth.accesses
    assert info["counts"]["records"] == n_threads * truth.ops
    assert hot["model_bytes"]["read"] == truth.file
    assert sum(part["count"] for part in hot["accesses"].values()) == truth.accesses
    assert cache["bytes_asked"] == truth.requested
    assert {row["key"]: row["bytes"] for row in rows} == dict(truth.by_op)
    assert sum(row["ops"] for row in rows) == truth.ops
    assert sum(row["count"] for row in rows) == n_threads * truth.ops
    report = [(row["count"], row["ops"], row["bytes"]) for row in lanes]
    assert report == [(truth.ops, truth.ops, None)] * n_threads
