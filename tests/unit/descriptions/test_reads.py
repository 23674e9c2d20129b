"""What is said of hot and cold tensors."""

import pytest

import imatrix_files
import storage_files
from ggscope.analysis.reads.hot_cold import hot_cold, kv_traffic
from ggscope.analysis.reads.hotness import space_totals
from ggscope.api import open as open_trace
from ggscope.descriptions.reads import hot_facts, no_accesses_text
from ggscope.model.tables import AccessKind, Space
from ggscope.model.units import TimeRange, format_bytes
from reads_builder import Op, Read, TensorRow, moe_reads, reads_trace
from statements import new_statements


def words_of(trace) -> dict[str, str]:
    facts = hot_facts(trace, hot_cold(trace))
    return {fact.title: f"{fact.text} | {fact.remark}" for fact in facts}


def test_facts_of_a_run_name_what_is_never_touched():
    texts = words_of(moe_reads())

    # The norms of three layers are never read, 40 bytes each.
    assert texts["Never touched"].startswith("120 B (0.3 %) of 45.0 KiB: 3 of 32")


def test_facts_without_a_map_do_not_claim_anything_to_be_cold():
    trace = reads_trace((TensorRow("a"),), [Op(0, (Read(0, 10, offset=0),))])

    assert words_of(trace)["Never touched"].startswith("unknown")


def test_coverage_of_even_reads_is_no_hot_spot():
    # Small tensors are read as often as large ones: accesses are uneven, bytes are not.
    sizes = [10] * 8 + [10_000] * 2
    starts = [sum(sizes[:i]) for i in range(len(sizes))]
    rows = [TensorRow(f"t{i}", starts[i], n) for i, n in enumerate(sizes)]
    ops = [Op(i, (Read(i, n),)) for i, n in enumerate(sizes)]

    texts = words_of(reads_trace(rows, ops))["Coverage"]

    assert "80.0 % of read bytes hit 15.7 KiB (80.0 % of all tensors)" in texts
    assert "Gini 0.00" in texts


def test_facts_show_an_alphabetical_file():
    texts = words_of(moe_reads(layers=12))["Order on disk"]

    assert "alphabetical" in texts
    assert "0, 1, 10, 11, 2" in texts


def test_facts_of_traces_without_accesses_are_none():
    trace = reads_trace((), [Op(0)])

    assert hot_facts(trace, hot_cold(trace)) == ()


def test_facts_say_how_many_accesses_have_no_place():
    trace = reads_trace((TensorRow("a"),), [Op(i, (Read(0, 10),)) for i in range(3)])

    assert words_of(trace)["Without offset"].startswith("3 accesses")


def test_embedding_rows_are_named_where_accesses_show_them():
    table = TensorRow("token_embd.weight", 1000, 8000, shape=(10, 800, 1, 1))

    def shown(*offsets: int) -> str:
        looks = [(Read(0, 10, offset=offset),) for offset in offsets]
        ops = [Op(i, look, "GET_ROWS") for i, look in enumerate(looks)]
        return words_of(reads_trace([table], ops))["Embedding rows"]

    text = shown(1040, 1090, 1040)
    assert text.startswith("3 look-ups in token_embd.weight; 2 different rows of 800")
    unknown = shown(-1, -1, -1)
    assert new_statements(text, unknown)
    assert unknown.startswith("looked up in token_embd.weight by")


def test_kv_traffic_sums_reads_and_writes_per_token():
    cache = TensorRow("cache_v_l3")
    buffer = {"space": Space.BUFFER}
    ops = [
        Op(0, (Read(0, 100, **buffer),), token=4),
        Op(5, (Read(0, 30, kind=AccessKind.WRITE, **buffer),), token=4),
        Op(9, (Read(0, 200, **buffer), Read(0, -1, **buffer)), token=5),
        Op(12, (Read(1, 7, **buffer),), token=5),
    ]
    trace = reads_trace((cache, TensorRow("Qcur-0")), ops)

    traffic = kv_traffic(trace)
    part = kv_traffic(trace, TimeRange(5, 10))

    assert traffic.tokens.tolist() == part.tokens.tolist() == [4, 5]
    assert (traffic.read.tolist(), traffic.written.tolist()) == ([100, 200], [30, 0])
    assert (part.read.tolist(), part.written.tolist()) == ([0, 200], [30, 0])
    assert (traffic.n_reads.tolist(), traffic.n_writes.tolist()) == ([1, 2], [1, 0])


@pytest.mark.parametrize("size", [3 << 20, 3 << 10])
def test_limits_that_would_look_alike_are_reported_in_bytes(size: int) -> None:
    rows = TensorRow("token_embd.weight", 1000, 8000, shape=(10, 800, 1, 1))
    weight = TensorRow("output.weight", 1 << 16, size)
    ops = [Op(0, (Read(0, 8000),), "GET_ROWS"), Op(20, (Read(1, size),))]
    trace = reads_trace((rows, weight), ops)
    totals = space_totals(trace)
    known_bytes = totals.bytes["weights"]
    weights = known_bytes + totals.unknown_bytes["weights"]

    texts = words_of(trace)["Accesses"]

    assert size <= known_bytes < weights <= size + 8000
    alike = format_bytes(known_bytes) == format_bytes(weights)
    assert alike == (size == 3 << 20)
    assert (f"{known_bytes:,} to {weights:,} bytes" in texts) == alike
    assert (f"{format_bytes(known_bytes)} to {format_bytes(weights)}" in texts) != alike


@pytest.mark.parametrize("chosen", [1, 2])
def test_hot_cold_of_a_range_counts_only_what_starts_in_it(chosen):
    trace = moe_reads(chosen=chosen)
    n_per_token = 1 + 3 * (1 + 2 * chosen) + 1  # embeddings, layers, output

    cold = hot_cold(trace, TimeRange(0, 12 * (2 + 3 * 3)))

    assert int(cold.heat.unit_accesses.sum()) == n_per_token


@pytest.mark.parametrize(
    ("files", "title", "hint"),
    [
        ({"blk": "blkparse"}, "No offsets in a file", "filefrag -v"),
        ({"blk": "blkparse", "map": "filefrag"}, "No model file", "model.gguf"),
        ({"fat": "fatrace"}, "No offsets recorded", "without the offsets"),
        ({"route": "routing"}, "A routing table has no reads", "Experts"),
        ({"im": "imatrix"}, "An importance matrix has no reads", "Experts"),
    ],
)
def test_missing_accesses_are_explained_by_what_the_file_lacks(
    tmp_path, files, title, hint
):
    requests = storage_files.random_io(1, 40)
    first = min(io.sector for io in requests) // 8
    blocks = max(io.sector for io in requests) // 8 + 64 - first
    contents = {
        "blkparse": storage_files.blkparse(requests),
        "filefrag": storage_files.filefrag([(0, first, blocks)], path="/m/model.gguf"),
        "fatrace": storage_files.fatrace(),
        "routing": b"layer,expert\n0,1\n1,2\n",
        "imatrix": imatrix_files.gguf(imatrix_files.entries()),
    }
    paths = [tmp_path / f"{name}.txt" for name in files]
    for path, kind in zip(paths, files.values(), strict=True):
        path.write_bytes(contents[kind])

    headline, advice = no_accesses_text(open_trace(paths[0], beside=paths[1:]))

    assert headline == title
    assert hint in advice
