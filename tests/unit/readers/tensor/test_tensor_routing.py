"""Which experts were chosen, from records and from token traces."""

import struct
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from ggscope.analysis.completeness.coverage import Cause, trace_coverage
from ggscope.analysis.completeness.expected import completeness
from ggscope.analysis.reads.op_io import op_accesses
from ggscope.analysis.sessions.concatenate import concatenate
from ggscope.analysis.statistics.table import stat_table
from ggscope.descriptions.completeness import completeness_text
from ggscope.model.routing import Routing
from ggscope.model.trace import Trace
from ggscope.readers.api import ReadContext
from ggscope.readers.source import Source
from ggscope.readers.tensor.reader import TensorAccessReader
from tensor_files import Rec, Src, encode, encode_one, weight
from token_files import document, read_object

N_EXPERTS = 32


def moe_pass(
    time: int,
    *,
    token: int = 0,
    n_tokens: int = 1,
    n_used: int = 4,
    n_layers: int = 2,
    topk: str = "strided",
    seed: int = 0,
) -> list[Rec]:
    """Return one pass whose ops list 16 experts each, as the last tracer does."""
    rng = np.random.default_rng(seed + token)
    sizes = {
        "strided": 4 * (n_used + (n_tokens - 1) * N_EXPERTS),
        "packed": 4 * n_used * n_tokens,
    }
    embedding = (weight("token_embd.weight"), Src("leaf_2", size=4 * n_tokens))
    rows: list[Rec] = [Rec(0, "inp_embd", 40, embedding)]
    for layer in range(n_layers):
        experts = tuple(rng.permutation(N_EXPERTS)[:16].tolist())
        probs = Src(f"ffn_moe_probs-{layer}", size=4 * N_EXPERTS * n_tokens)
        rows.append(Rec(0, f"ffn_moe_argsort-{layer}", 68, (probs,)))
        for part in ("gate", "up", "down"):
            sources = [
                weight(f"blk.{layer}.ffn_{part}_exps.weight", layer),
                Src(f"ffn_norm-{layer}"),
            ]
            if topk in sizes:
                sources.append(Src(f"ffn_moe_topk-{layer}", size=sizes[topk]))
            rows.append(
                Rec(0, f"ffn_moe_{part}-{layer}", 30, tuple(sources), layer=layer,
                    experts=experts)
            )  # fmt: skip
    return [replace(r, time=time + 1000 * i, token=token) for i, r in enumerate(rows)]


def read(tmp_path: Path, data: bytes, **options: str) -> Trace:
    path = tmp_path / "t.bin"
    path.write_bytes(data)
    with Source(path) as source:
        trace = TensorAccessReader().read(source, ReadContext(options=options))
    assert trace.check() == []
    return trace


def rows_of(r: Routing) -> list[tuple[object, ...]]:
    columns = (r.time, r.token, r.layer, r.expert, r.rank, r.is_used)
    return list(zip(*(c.tolist() for c in columns), strict=True))


def expected(records: list[Rec], n_used: int) -> list[tuple[object, ...]]:
    """Return the choices, one by one: of the first op per token and layer."""
    first = min(r.time for r in records)
    seen, expected = set(), []
    for r in records:
        if not r.experts or (r.token, r.layer) in seen:
            continue
        seen.add((r.token, r.layer))
        expected += [
            (r.time - first, r.token, r.layer, expert, rank, rank < n_used)
            for rank, expert in enumerate(r.experts)
        ]
    return expected


def codes(trace: Trace) -> set[str]:
    return {w.code for w in trace.warnings}


def some_passes(n: int = 3, **options: object) -> list[Rec]:
    return [r for k in range(n) for r in moe_pass(10**9 * (k + 1), token=k, **options)]


@pytest.mark.parametrize(
    ("n_tokens", "topk"), [(1, "strided"), (5, "strided"), (5, "packed")]
)
def test_lists_of_records_become_choices_once_per_layer_and_pass(
    tmp_path: Path, n_tokens: int, topk: str
) -> None:
    records = some_passes(n_tokens=n_tokens, topk=topk)

    trace = read(tmp_path, encode(records, "1024"))

    assert rows_of(trace.routing) == expected(records, 4)
    assert np.isnan(trace.routing.score).all()
    assert ("routing_of_first_token" in codes(trace)) == (n_tokens > 1)
    assert "expert_lists_differ" not in codes(trace)


def test_choices_of_json_equal_those_of_records(tmp_path: Path) -> None:
    records = moe_pass(10**9)

    binary = read(tmp_path, encode(records, "1024"))
    trace = read_object(tmp_path, document(records, "1024-byte v4"))

    assert len(trace.routing) == 32
    assert rows_of(trace.routing) == rows_of(binary.routing)
    assert trace.routing.span.tolist() == binary.routing.span.tolist()
    assert trace.info.format_version == "1024 v4"


def test_all_listed_are_used_where_nothing_shows_how_many(tmp_path: Path) -> None:
    records = some_passes(topk="none")

    trace = read(tmp_path, encode(records, "1024"))

    assert trace.routing.is_used.all()
    assert "routing_used_unknown" in codes(trace)


def test_more_used_than_listed_marks_all(tmp_path: Path) -> None:
    """A warm-up computes all experts, and 16 of 32 fit into a record."""
    trace = read(tmp_path, encode(some_passes(n_used=32, n_tokens=2), "1024"))

    assert trace.routing.is_used.all()
    assert "routing_used_unknown" not in codes(trace)


def test_passes_are_numbered_where_tokens_repeat(tmp_path: Path) -> None:
    records = [replace(r, token=0) for r in some_passes(2)]

    trace = read(tmp_path, encode(records, "1024"))

    assert sorted(set(trace.routing.token.tolist())) == [0, 1]


def test_different_lists_within_a_layer_are_noted(tmp_path: Path) -> None:
    records = moe_pass(10**9)
    records[-1] = replace(records[-1], experts=(3, 2, 1))

    trace = read(tmp_path, encode(records, "1024"))

    counts = {w.code: w.count for w in trace.warnings}
    assert counts["expert_lists_differ"] == 1
    assert rows_of(trace.routing) == expected(records, 4)


def test_impossible_experts_are_left_out_and_counted(tmp_path: Path) -> None:
    records = [
        replace(r, experts=(5, -1, 1 << 20, 6) if r.experts else ())
        for r in moe_pass(10**9, n_layers=1)
    ]

    trace = read(tmp_path, encode(records, "1024"))

    counts = {w.code: w.count for w in trace.warnings}
    assert counts["bad_expert"] == 2
    assert trace.routing.expert.tolist() == [5, 6]
    assert trace.routing.rank.tolist() == [0, 3]


def test_spans_of_choices_are_ops_that_list_them(tmp_path: Path) -> None:
    trace = read(tmp_path, encode(some_passes(), "1024"))

    r = trace.routing
    names = {trace.span_name(i) for i in r.span.tolist()}
    assert names == {"ffn_moe_gate-0", "ffn_moe_gate-1"}
    assert (trace.spans.start[r.span] == r.time).all()
    assert (trace.spans.layer[r.span] == r.layer).all()


def test_records_without_lists_have_no_choices(tmp_path: Path) -> None:
    records = [replace(r, experts=()) for r in some_passes()]

    for layout in ("256", "1024"):
        assert len(read(tmp_path, encode(records, layout)).routing) == 0


def test_without_names_there_are_no_choices(tmp_path: Path) -> None:
    data = encode(some_passes(), "1024")

    assert len(read(tmp_path, data, names="none").routing) == 0


def single(records: list[Rec], fields: list[tuple[int, int, int]]) -> bytes:
    """Return 128-byte records with expert, rank and score of each."""
    parts = []
    for r, (expert, rank, score) in zip(records, fields, strict=True):
        raw = bytearray(encode_one(r, "128"))
        raw[52:56] = struct.pack("<BBH", expert, rank, score)
        parts.append(bytes(raw))
    return b"".join(parts)


def slices(n: int) -> list[Rec]:
    return [
        Rec(1000 + 10 * k, op=1, layer=k % 2, token=k // 4,
            sources=(weight(f"blk.{k % 2}.ffn_up_exps.weight", k % 2),))
        for k in range(n)
    ]  # fmt: skip


def test_single_choices_of_short_records_are_read_with_their_scores(
    tmp_path: Path,
) -> None:
    fields = [
        (0, 0, 0xFFFF),
        (7, 0, 0x8000),
        (3, 1, 0x4000),
        (9, 1, 0),
        (2, 0, 1),
        (0, 0, 0),
    ]

    trace = read(tmp_path, single(slices(6), fields))

    r = trace.routing
    assert r.expert.tolist() == [0, 7, 3, 9, 2]
    assert r.rank.tolist() == [0, 0, 1, 1, 0]
    assert r.layer.tolist() == [0, 1, 0, 1, 0]
    assert r.score[0] == 1.0
    assert r.score[1] == pytest.approx(0x8000 / 0xFFFF)


def test_unset_marks_of_short_records_are_no_choices(tmp_path: Path) -> None:
    fields = [(255, 255, 0), (0, 0, 0), (255, 255, 0), (4, 255, 0)]

    trace = read(tmp_path, single(slices(4), fields))

    assert trace.routing.expert.tolist() == [0, 4]
    assert trace.routing.rank.tolist() == [0, -1]
    assert np.isnan(trace.routing.score).all()


def test_short_records_that_were_never_set_have_no_choices(tmp_path: Path) -> None:
    for fields in ([(0, 0, 0)] * 6, [(255, 255, 0)] * 6):
        assert len(read(tmp_path, single(slices(6), fields)).routing) == 0


def extension(
    r: Rec,
    code: int,
    experts: list[list[int]],
    scores: list[list[float]] | None = None,
    *,
    row: int = 0,
    n_experts: int = 32,
) -> bytes:
    """Return an extension record of 256 bytes: the experts of some rows of a batch."""
    n_used = len(experts[0])
    head = struct.pack(
        "<QIHHBBBBHBB",
        r.time,
        r.token,
        r.layer,
        row,
        code,
        r.phase,
        n_used,
        len(experts),
        n_experts,
        0,
        0,
    )
    body = b""
    for i, ids in enumerate(experts):
        for k, expert in enumerate(ids):
            body += struct.pack("<H", expert)
            if scores is not None:
                body += struct.pack("<H", round(scores[i][k] * 65535))
    return (head + r.dst.encode().ljust(24, b"\0") + body).ljust(256, b"\0")


def with_extensions(n_tokens: int = 2) -> tuple[bytes, list[Rec]]:
    """Return a file whose router and multiplications are stated, and its op records."""
    records = [replace(r, experts=()) for r in moe_pass(10**12, n_tokens=n_tokens)]
    data = b""
    for r in records:
        layer = int(r.dst.rsplit("-", 1)[1]) if "-" in r.dst else 0
        r = replace(r, layer=layer)
        data += encode_one(r, "256")
        chosen = [[4 + layer, 7], [2, 4]][:n_tokens]
        if "argsort" in r.dst:
            scores = [[0.239, 0.159], [0.388, 0.274]]
            data += extension(r, 0xF1, chosen, scores)
        if "down" in r.dst or "up" in r.dst:  # recorded twice, counted once
            data += extension(r, 0xF0, chosen)
    return data, records


def test_extension_records_show_experts_and_scores_of_each_token(
    tmp_path: Path,
) -> None:
    data, _records = with_extensions()

    trace = read(tmp_path, data)

    r = trace.routing
    assert "bad_extension" not in {w.code for w in trace.warnings}
    actual = zip(r.layer.tolist(), r.expert.tolist(), r.rank.tolist(), strict=True)
    assert list(actual) == [
        (0, 4, 0), (0, 7, 1), (0, 2, 0), (0, 4, 1),
        (1, 5, 0), (1, 7, 1), (1, 2, 0), (1, 4, 1),
    ]  # fmt: skip
    assert r.score.tolist() == pytest.approx([0.239, 0.159, 0.388, 0.274] * 2, abs=1e-4)
    assert {trace.span_name(span) for span in r.span.tolist()} == {
        "ffn_moe_up-0", "ffn_moe_up-1"
    }  # fmt: skip
    assert r.is_used.all()


def test_lists_of_contexts_that_begin_at_the_same_tick_stay_with_their_own(
    tmp_path: Path,
) -> None:
    experts = {5: [[1, 2]], 6: [[3, 4]]}
    data = b""
    for r in moe_pass(10**12, n_tokens=1):
        layer = int(r.dst.rsplit("-", 1)[1]) if "-" in r.dst else 0
        for token in experts:
            own = replace(r, layer=layer, token=token, thread=token, experts=())
            data += encode_one(own, "256")
            if "up" in r.dst:
                data += extension(own, 0xF0, experts[token])

    trace = read(tmp_path, data)

    routing, spans = trace.routing, trace.spans
    assert (routing.span >= 0).all()
    assert np.array_equal(spans.token[routing.span], routing.token)
    for token, [chosen] in experts.items():
        assert set(routing.expert[routing.token == token].tolist()) == set(chosen)


def test_router_alone_shows_what_it_chose(tmp_path: Path) -> None:
    data, _ = with_extensions()
    values = [data[i : i + 256] for i in range(0, len(data), 256)]
    values = [record for record in values if record[16] != 0xF0]

    trace = read(tmp_path, b"".join(values))

    assert len(trace.routing) == 8
    assert not np.isnan(trace.routing.score).any()
    assert trace.span_name(int(trace.routing.span[0])) == "ffn_moe_argsort-0"


@pytest.mark.parametrize(
    ("change", "place"),
    [(b"\0", 19), (b"\xff", 19), (b"\0", 18), (b"\xff\x7f", 48), (b"\xff\xff", 12)],
    ids=["no rows", "too many rows", "no experts", "expert beyond", "no layer"],
)
def test_senseless_extension_records_are_left_out_and_reported(
    tmp_path: Path, change: bytes, place: int
) -> None:
    data, _ = with_extensions()
    at = next(i for i in range(0, len(data), 256) if data[i + 16] == 0xF0)
    data = data[: at + place] + change + data[at + place + len(change) :]

    trace = read(tmp_path, data)

    (bad,) = (w for w in trace.warnings if w.code == "bad_extension")
    assert bad.count == 1
    assert len(trace.routing) == 8  # the other multiplication has it too


def test_router_that_differs_from_what_was_computed_is_reported(tmp_path: Path) -> None:
    data, records = with_extensions()
    extra = extension(replace(records[-1], layer=0), 0xF0, [[9, 7]])

    trace = read(tmp_path, data + extra)

    (warning,) = (w for w in trace.warnings if w.code == "expert_lists_differ")
    assert warning.count == 1
    assert 9 in trace.routing.expert.tolist()


def listed_passes(n_rows: list[int], kinds: tuple[int, ...] = (0xF0, 0xF1)):
    """Return records of passes of so many rows; both kinds list each layer's rows."""
    parts: list[bytes] = []
    for number, n in enumerate(n_rows):
        rng = np.random.default_rng(number)
        for r in moe_pass(10**12 + 10**9 * number, token=number, n_layers=4):
            layer = int(r.dst.rsplit("-", 1)[1]) if "-" in r.dst else 0
            r = replace(r, layer=layer, experts=())
            parts.append(encode_one(r, "256"))
            code = {"argsort": 0xF1, "up": 0xF0}.get(r.dst.split("-")[0][8:], 0)
            if code not in kinds:
                continue
            chosen = [rng.permutation(N_EXPERTS)[:4].tolist() for _ in range(n)]
            value = 13 if code == 0xF1 else 26
            for first in range(0, n, value):
                part = chosen[first : first + value]
                scores = [[0.25] * 4] * len(part) if code == 0xF1 else None
                parts.append(extension(r, code, part, scores, row=first))
    return parts


def missing(tmp_path: Path, parts: list[bytes]) -> int:
    trace = read(tmp_path, b"".join(parts))
    return sum(w.count for w in trace.warnings if w.code == "choices_missing")


@pytest.mark.parametrize("seed", range(8))
def test_lists_that_were_taken_out_are_counted(tmp_path: Path, seed: int) -> None:
    parts = listed_passes([40, *[1] * 12])
    places = [i for i, record in enumerate(parts) if record[16] >= 0xF0]
    gone = set(np.random.default_rng(seed).choice(places, 16, False).tolist())

    assert missing(tmp_path, parts) == 0
    result = missing(tmp_path, [p for i, p in enumerate(parts) if i not in gone])

    # The last rows of a prompt are not missed where both lists lost them.
    assert len(gone) - 1 <= result <= len(gone)


@pytest.mark.parametrize("seed", range(4))
def test_many_lists_that_were_taken_out_are_counted(tmp_path: Path, seed: int) -> None:
    """Layers of which one kind of list has lost most are missed by the other kind."""
    parts = listed_passes([1] * 12)
    places = [i for i, record in enumerate(parts) if record[16] >= 0xF0]
    n = 2 * len(places) // 5
    gone = set(np.random.default_rng(seed).choice(places, n, False).tolist())

    assert missing(tmp_path, [p for i, p in enumerate(parts) if i not in gone]) == n


@pytest.mark.parametrize("kinds", [(0xF0,), (0xF1,)])
def test_tracer_that_lists_one_kind_lacks_nothing(tmp_path: Path, kinds) -> None:
    assert missing(tmp_path, listed_passes([40, *[1] * 12], kinds)) == 0


def test_layers_that_few_tokens_list_lack_nothing(tmp_path: Path) -> None:
    parts = listed_passes([1] * 12)
    few = [p for p in parts if p[16] < 0xF0 or p[12] < 3 or p[8] < 4]

    assert len(few) < len(parts)
    assert missing(tmp_path, few) == 0


def test_lost_lists_are_reported_beside_complete_ops(tmp_path: Path) -> None:
    parts = listed_passes([1] * 12)
    at = next(i for i in range(20, len(parts)) if parts[i][16] == 0xF0)
    trace = read(tmp_path, b"".join(parts[:at] + parts[at + 1 :]))

    result = completeness(trace)

    assert (result.n_missing, result.n_lists) == (0, 1)
    assert "at least 1 expert list missing" in completeness_text(result)
    (omission,) = trace_coverage(trace).of(Cause.EVENTS_LOST)
    assert omission.is_located


def test_records_of_ops_are_counted_apart_from_lists_of_experts(tmp_path: Path) -> None:
    """Live views and `save` count the records of ops, a file has both."""
    parts = listed_passes([1] * 12)

    info = read(tmp_path, b"".join(parts)).info

    n_lists = sum(part[16] >= 0xF0 for part in parts)
    assert n_lists > 0
    assert (info.n_records, info.n_op_records) == (len(parts), len(parts) - n_lists)


def test_lists_of_experts_of_joined_files_are_counted_together(tmp_path: Path) -> None:
    parts = listed_passes([1] * 12)
    half = len(parts) // 2
    n_lists = sum(part[16] >= 0xF0 for part in parts)

    pieces = [read(tmp_path, b"".join(part)) for part in (parts[:half], parts[half:])]

    assert all(piece.info.records_by_kind for piece in pieces)
    assert concatenate(pieces).info.records_by_kind == {
        "ops": len(parts) - n_lists,
        "graphs": 0,
        "lists of experts": n_lists,
    }


def test_lists_show_the_bytes_of_each_expert_without_a_model(tmp_path: Path) -> None:
    """Of a stack of 32 experts each one has as many bytes."""
    parts = listed_passes([1] * 12)

    trace = read(tmp_path, b"".join(parts))
    access_table = op_accesses(trace)
    of_experts = access_table.what.expert >= 0

    assert trace.routing.n_experts == N_EXPERTS
    assert set(access_table.known[of_experts].tolist()) == {2048 // N_EXPERTS}
    assert not access_table.unknown[of_experts].any()
    rows = {row.key: row for row in stat_table(trace, "expert").rows}
    chosen = trace.routing.expert.tolist()
    assert rows.keys() - {"none"} == {str(expert) for expert in chosen}
    assert all(rows[key].unknown_bytes == 0 for key in rows.keys() - {"none"})


@pytest.mark.parametrize("layer", [2, 10, 100])
def test_stack_whose_name_is_cut_is_one_all_the_same(tmp_path: Path, layer: int):
    """Of ``blk.100.ffn_gate_exps`` 19 letters are left, without ``_exps``."""
    parts = [
        replace(
            r,
            experts=(),
            layer=layer,
            sources=(
                weight(f"blk.{layer}.ffn_gate_exps.weight", layer),
                *r.sources[1:],
            ),
        )
        for r in moe_pass(10**12, n_layers=1)
        if r.op == 30
    ]

    access_table = op_accesses(read(tmp_path, encode(parts, "256")))

    assert access_table.is_stack[access_table.what.tensor == 0].all()
    assert not access_table.known[access_table.is_stack].any()
    assert access_table.unknown[access_table.is_stack].all()


@pytest.mark.parametrize(
    ("n_tokens", "n_used", "more"), [(1, 4, 0), (5, 4, 16), (1, 20, 4), (3, 20, 44)]
)
def test_choices_that_no_list_names_are_counted(
    tmp_path: Path, n_tokens: int, n_used: int, more: int
) -> None:
    records = some_passes(n_tokens=n_tokens, n_used=n_used)

    routing = read(tmp_path, encode(records, "1024")).routing

    assert routing.n_more is not None
    assert set(routing.n_more.tolist()) == {more}
    assert routing.n_experts == N_EXPERTS
    assert int(routing.is_used.sum()) == 3 * 2 * min(n_used, 16)


@pytest.mark.parametrize("topk", ["strided", "packed"])
@pytest.mark.parametrize("has_lists", [True, False])
@pytest.mark.parametrize("n_tokens", [1, 2, 7])
def test_where_sizes_show_that_all_experts_computed_all_of_them_are_chosen(
    tmp_path: Path, n_tokens: int, topk: str, has_lists: bool
) -> None:
    records = some_passes(n_tokens=n_tokens, n_used=N_EXPERTS, topk=topk)
    if not has_lists:
        records = [replace(r, experts=()) for r in records]

    routing = read(tmp_path, encode(records, "1024")).routing

    chosen = {(int(t), int(y)): set() for t in range(3) for y in range(2)}
    for token, layer, expert in zip(
        routing.token.tolist(),
        routing.layer.tolist(),
        routing.expert.tolist(),
        strict=True,
    ):
        chosen[token, layer].add(expert)
    assert all(one == set(range(N_EXPERTS)) for one in chosen.values())
    assert len(routing) == 3 * 2 * N_EXPERTS
    assert routing.is_used.all()
    assert routing.n_more is not None
    assert routing.is_implied is not None
    assert not routing.n_more.any()
    listed = 3 * 2 * 16 if has_lists else 0
    assert int((~routing.is_implied).sum()) == int((routing.rank >= 0).sum()) == listed


def test_without_lists_some_of_the_experts_are_no_choice(tmp_path: Path) -> None:
    records = [replace(r, experts=()) for r in some_passes(n_used=4)]

    assert len(read(tmp_path, encode(records, "1024")).routing) == 0


def test_layer_of_fewer_tokens_computes_all_experts_too(tmp_path: Path) -> None:
    # Of the last layer only the wanted tokens are computed.
    records = []
    for r in moe_pass(10**9, n_tokens=2, n_used=N_EXPERTS):
        of_last = r.layer == 1 or "-1" in r.dst
        sources = tuple(
            replace(s, size=s.size // 2)
            if of_last and s.name.startswith("ffn_moe")
            else s
            for s in r.sources
        )
        records.append(replace(r, sources=sources, experts=()))

    routing = read(tmp_path, encode(records, "1024")).routing

    assert np.bincount(routing.layer).tolist() == [N_EXPERTS, N_EXPERTS]
