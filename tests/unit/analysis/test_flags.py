"""Flags of llama.cpp against plain loops: what fits, what matches, what was chosen."""

import re
from collections import Counter
from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import imatrix_files
from builders import empty_trace, npu_like_trace, op_number, spans_trace
from expert_traces import moe_file, random_choices, routed, routing
from ggscope.analysis.flags import (
    UNKNOWN_FLAGS,
    CacheProfile,
    Flags,
    NoFlag,
    Reason,
    ThreadCount,
    cache_profile,
    flags,
    layer_patterns,
    patterns,
    thread_count,
)
from ggscope.descriptions.flags import reason_text
from ggscope.model.tables import Phase, Quality
from ggscope.model.trace import OpTable, Trace
from ggscope.readers.registry import open_trace
from reads_builder import Op, Read, TensorRow, moe_reads, reads_trace
from wait_traces import barrier_trace, random_waits, recorded_wait

EXPERTS = r"\.ffn_(up|down|gate|gate_up)_(ch|)exps"
"""As llama.cpp writes it, for ``--n-cpu-moe``."""


def random_model(seed: int) -> tuple[list[TensorRow], list[Op]]:
    """Return tensors of a mixture of experts, and ops that read some of them."""
    rng = np.random.default_rng(seed)
    tensors = [TensorRow("token_embd.weight", 0, 512)]
    if seed % 3:
        tensors.append(TensorRow("output.weight", 512, int(rng.integers(1, 900))))
    at, first_expert = 2000, int(rng.integers(0, 2))
    for layer in range(int(rng.integers(2, 25))):
        rests = ["attn_q.weight", "ffn_norm.weight", "ffn_gate_inp.weight"]
        rests += ["ffn_up_exps.weight", "ffn_down_exps.weight"] * (
            layer >= first_expert
        )
        for rest in rests:
            n = 4 if "exps" in rest else 0
            size = 4 * int(rng.integers(1, 300))
            tensors.append(TensorRow(f"blk.{layer}.{rest}", at, size, layer, n))
            at += size + int(rng.integers(0, 9))
    ops = []
    for i in range(150):
        row = int(rng.integers(1, len(tensors)))
        one = tensors[row]
        if one.n_experts:
            chosen = rng.choice(4, int(rng.integers(1, 4)), replace=False)
            reads = [Read(row, one.size // 4, expert=int(e)) for e in chosen]
            ops.append(Op(12 * i, tuple(reads), "MUL_MAT_ID"))
        else:
            ops.append(Op(12 * i, (Read(row, one.size),)))
    return tensors, ops


def matched(expression: str, names: list[str]) -> list[str]:
    """Return what llama.cpp moves: it cuts at commas, searches by what is before =."""
    partitions = [override.partition("=") for override in expression.split(",")]
    assert {target for _, _, target in partitions} == {"CPU"}
    return [n for n in names if any(re.search(p, n) for p, _, _ in partitions)]


@pytest.mark.parametrize("seed", range(12))
@pytest.mark.parametrize("share", [0.05, 0.4, 0.9])
def test_hottest_tensors_stay_on_the_device(seed: int, share: float) -> None:
    tensors, ops = random_model(seed)
    names = [one.name for one in tensors]
    on_device = [
        one
        for one in tensors
        if one.name != "token_embd.weight" or "output.weight" not in names
    ]
    limit = int(share * sum(one.size for one in on_device))
    read = Counter()
    for op in ops:
        for one in op.reads:
            read[tensors[one.tensor].name] += one.size
    items, size = [], limit
    for one in sorted(on_device, key=lambda t: (-read[t.name] / t.size, t.layer)):
        if one.size <= size:
            items.append(one)
            size -= one.size

    placement = flags(reads_trace(tensors, ops), limit).placement

    assert placement is not None
    assert list(placement.device) == [one.name for one in items]
    rest = [one for one in on_device if one not in items]
    assert sorted(placement.host) == sorted(one.name for one in rest)
    assert placement.device_size == sum(one.size for one in items) <= limit
    assert placement.host_size == sum(one.size for one in rest)
    assert placement.device_read == sum(read[one.name] for one in items)
    assert placement.host_read == sum(read[one.name] for one in rest)
    others = [f"{name}.x" for name in names] + [f"x.{name}" for name in names]
    others += [name.replace("blk.", "blk.1") for name in names if "blk." in name]
    others = [name for name in others if name not in names]
    assert sorted(matched(placement.expression, names + others)) == sorted(
        placement.host
    )


@pytest.mark.parametrize("seed", range(12))
def test_least_number_of_layers_has_its_experts_on_the_cpu(seed: int) -> None:
    tensors, ops = random_model(seed)
    trace = reads_trace(tensors, ops)
    names = [one.name for one in tensors]
    tied = "output.weight" not in names
    on_device = [t for t in tensors if tied or t.name != "token_embd.weight"]

    def size_with(n: int) -> int:
        moved = [rf"blk\.{i}{EXPERTS}" for i in range(n)]
        return sum(
            t.size for t in on_device if not any(re.search(p, t.name) for p in moved)
        )

    for limit in range(0, size_with(0) + 500, 401):
        fits = [n for n in range(30) if size_with(n) <= limit]
        result = flags(trace, limit)

        if fits:
            assert result.cpu_layers is not None
            assert result.cpu_layers.n == fits[0]
            assert result.cpu_layers.device_size == size_with(fits[0])
            assert result.cpu_layers.host_size == size_with(0) - size_with(fits[0])
        else:
            assert result.cpu_layers is None
            reason = result.unknown["n_cpu_moe"].reason
            assert reason is Reason.REST_DOES_NOT_FIT


@pytest.mark.parametrize("seed", range(40))
def test_patterns_of_layers_match_these_numbers_only(seed: int) -> None:
    rng = np.random.default_rng(seed)
    high = (9, 30, 120, 1300)[seed % 4]
    numbers = {int(i) for i in rng.integers(0, high, int(rng.integers(1, high)))}
    if seed % 5 == 0:
        numbers = set(range(int(rng.integers(1, high)), high + 1))

    result = re.compile("|".join(layer_patterns(sorted(numbers))))

    assert {i for i in range(2000) if result.fullmatch(str(i))} == numbers


def test_tensors_of_the_same_layers_share_a_pattern() -> None:
    names = [f"blk.{i}.ffn_{x}.weight" for i in range(4, 13) for x in ("up", "down")]

    assert patterns([*names, "output.weight"]) == [
        r"^blk\.(?:[4-9]|1[0-2])\.(?:ffn_up\.weight|ffn_down\.weight)$",
        r"^output\.weight$",
    ]


@pytest.mark.parametrize(
    "name", ["blk.0.a,b=c", "blk.0.(", "x\n", "blk.0." + "y" * 999]
)
def test_names_that_the_flag_cannot_hold_give_no_flag(name: str) -> None:
    tensors = [TensorRow(name, 0, 900), TensorRow("output.weight", 900, 10)]

    result = flags(reads_trace(tensors, [Op(0, (Read(1, 10),))]), 100)

    assert result.placement is None
    reason = result.unknown["override_tensor"].reason
    assert reason is Reason.UNSUPPORTED_NAMES


def choices_read(data: bytes) -> tuple[Counter, Counter]:
    """Return choices by (layer, expert) as the fork counts them, and those it skips."""
    counted: tuple[Counter, Counter] = (Counter(), Counter())
    for line in data.decode().splitlines():
        assert len(line) < 4095
        position, layer, *ids = map(int, line.split(","))
        counted[position < 0].update((layer, expert) for expert in ids)
    return counted


@pytest.mark.parametrize("seed", range(4))
def test_cache_profile_has_every_choice(seed: int) -> None:
    chosen = random_choices(seed, 30, 3, 150, 100)
    trace = routed(chosen)

    profile = cache_profile(trace)

    assert isinstance(profile, CacheProfile)
    expected = Counter(
        (layer, expert)
        for token in chosen.tolist()
        for layer, experts in enumerate(token)
        for expert in experts
    )
    counted, skipped = choices_read(b"".join(profile.lines()))
    assert counted == expected
    assert not skipped
    assert profile.hits == expected.total()
    assert profile.n_experts == len(expected)
    assert profile.quality is Quality.MEASURED


def with_phases(trace: Trace, n_prompt: int) -> Trace:
    """Return a trace whose first tokens are of a prompt."""
    token = trace.spans.token
    assert token is not None
    phase = np.where(token < n_prompt, Phase.PROMPT, Phase.GENERATE).astype(np.int8)
    return replace(trace, spans=replace(trace.spans, phase=phase))


def test_choices_of_prompts_have_negative_positions() -> None:
    tokens, layers, chosen, experts = 6, 3, 2, 4
    trace = with_phases(moe_reads(), 2)

    profile = cache_profile(trace)

    assert isinstance(profile, CacheProfile)
    rows = {
        (token, layer, (layer + token + i) % experts)
        for token in range(tokens)
        for layer in range(layers)
        for i in range(chosen)
    }
    counted, skipped = choices_read(b"".join(profile.lines()))
    assert counted == Counter((la, e) for t, la, e in rows if t >= 2)
    assert skipped == Counter((la, e) for t, la, e in rows if t < 2)
    assert profile.hits == counted.total()
    assert profile.quality is Quality.DERIVED  # of accesses
    no_profile = cache_profile(with_phases(moe_reads(), 99))
    assert no_profile == NoFlag(Reason.PROMPT_CHOICES_ONLY)


def test_choices_that_are_not_listed_are_counted() -> None:
    trace = routed(random_choices(0, 5, 2, 8, 2))
    more = np.zeros(len(trace.routing), np.int32)
    more[:2] = 3  # of one token and layer
    profile = cache_profile(replace(trace, routing=replace(trace.routing, n_more=more)))

    assert isinstance(profile, CacheProfile)
    assert profile.n_more == 3
    assert profile.quality is Quality.DERIVED
    more[:2] = -1
    profile = cache_profile(replace(trace, routing=replace(trace.routing, n_more=more)))
    assert isinstance(profile, CacheProfile)
    assert profile.n_more is None


def test_ranked_experts_that_do_not_compute_are_left_out() -> None:
    chosen = random_choices(1, 5, 2, 8, 4)
    trace = routed(chosen, used=2)

    profile = cache_profile(trace)

    assert isinstance(profile, CacheProfile)
    expected = Counter(
        (layer, expert)
        for token in chosen[:, :, :2].tolist()
        for layer, experts in enumerate(token)
        for expert in experts
    )
    assert choices_read(b"".join(profile.lines()))[0] == expected


@pytest.mark.parametrize("seed", range(6))
@pytest.mark.parametrize("n_cores", [0, 1, 2, 8])
def test_threads_are_fewer_only_where_they_wait_for_cores(
    seed: int, n_cores: int
) -> None:
    trace = random_waits(seed, 200, 4)
    if n_cores:
        core = (np.arange(200) % n_cores).astype(np.int16)
        trace = replace(trace, spans=replace(trace.spans, core=core))
    wait = recorded_wait(trace)
    s = trace.spans
    used = sorted({int(lane) for lane in s.lane})

    count = thread_count(trace)

    assert isinstance(count, ThreadCount)
    assert count.n_threads == len(used) == 4
    assert count.n_cores == n_cores
    waited = int(wait[wait >= 0].sum())
    is_crowded = 0 < n_cores < 4
    assert count.waiting is not None
    if is_crowded and count.waiting >= 0.3:
        assert (count.n, count.quality) == (n_cores, Quality.DERIVED)
        assert waited > 0
    else:
        assert (count.n, count.quality) == (4, Quality.MEASURED)


@pytest.mark.parametrize(
    ("cores", "n"),
    [
        ([[0, 1], [0, 1]], 2),  # each on its own
        ([[0, 0], [1, 1]], 1),  # seen on two, on one at a time
        ([[0, 1, 2, 2], [1, 0, 0, 2], [2, 2, 1, 1]], 3),
        ([[0, 1, 1, 3], [3, 3, 0, 2]], 3),
    ],
)
def test_threads_are_as_many_as_the_cores_they_had_at_once(
    cores: list[list[int]], n: int
) -> None:
    at, n_threads = np.array(cores).T, len(cores[0])
    start = np.tile(np.arange(len(cores)) * 100, (n_threads, 1))
    end = start + 20
    end[0] += 60
    trace = barrier_trace(start, end)
    core = at.ravel().astype(np.int16)
    trace = replace(trace, spans=replace(trace.spans, core=core))

    count = thread_count(trace)

    assert isinstance(count, ThreadCount)
    assert count.n == n
    assert (count.n < n_threads) is (count.quality is Quality.DERIVED)


def test_threads_without_waits_are_those_of_the_trace() -> None:
    core = np.zeros(4, np.int16)
    op = op_number("MUL_MAT")
    trace = spans_trace([0, 0, 10, 10], [9, 9, 19, 19], [0, 1, 0, 1], op=op, core=core)

    count = thread_count(trace)

    assert isinstance(count, ThreadCount)
    assert (count.n, count.n_cores, count.waiting) == (2, 1, None)


def test_threads_of_other_programs_give_no_count() -> None:
    trace = spans_trace([0, 10], [9, 19], [0, 1], op=1)
    table = OpTable("chrome", ("cudaLaunchKernel", "aten::mm"), "spelled")

    count = thread_count(replace(trace, ops=table))

    assert count == NoFlag(Reason.NO_GGML_OPS)
    assert isinstance(thread_count(trace), ThreadCount)


def _missing(flags: Flags) -> set[str]:
    values = (flags.placement, flags.cpu_layers, flags.profile, flags.threads)
    return {n for n, v in zip(UNKNOWN_FLAGS, values, strict=True) if v is None}


@pytest.mark.parametrize("limit", [None, 0, 10_000, 1 << 40])
def test_what_is_none_has_a_reason(limit: int | None, tmp_path) -> None:
    traces = [
        empty_trace(),
        npu_like_trace(),
        moe_reads(),
        routed(random_choices(0, 3, 2, 8, 2)),
        open_trace(moe_file(tmp_path, [(0, 1), ()])),
        random_waits(0, 50),
    ]
    for trace in traces:
        result = flags(trace, limit)

        assert _missing(result) == set(result.unknown)
        assert all(map(reason_text, result.unknown.values()))


def test_a_model_without_experts_has_no_layers_of_them() -> None:
    tensors = [TensorRow("blk.0.ffn_up.weight", 0, 900, 0)]

    result = flags(reads_trace(tensors, [Op(0, (Read(0, 900),))]), 100)

    assert result.unknown["n_cpu_moe"].reason is Reason.NO_EXPERT_TENSORS


def test_without_reads_no_tensor_is_called_hot() -> None:
    tensors, _ = random_model(1)

    result = flags(reads_trace(tensors, [Op(0)]), 100)

    assert result.placement is None
    assert result.unknown["override_tensor"].reason is Reason.READS_UNKNOWN


def test_routing_of_unknown_tokens_counts() -> None:
    chosen = random_choices(0, 4, 2, 8, 2)
    trace = routed(chosen)
    open_tokens = routing(chosen, tokens=np.full(4, -1))

    profile = cache_profile(replace(trace, routing=open_tokens))

    assert isinstance(profile, CacheProfile)
    assert profile.hits == chosen.size


@pytest.mark.parametrize("factor", [1, 100_000])
def test_profile_of_counts_has_them_and_no_expert_that_was_never_chosen(
    factor: int, tmp_path: Path
) -> None:
    some = [
        replace(entry, counts=entry.counts * factor)
        for entry in imatrix_files.entries(4)
    ]
    path = tmp_path / "imatrix.gguf"
    path.write_bytes(imatrix_files.gguf(some))

    profile = cache_profile(open_trace(path))

    assert isinstance(profile, CacheProfile)
    counts = {
        (layer, expert): int(count)
        for layer, entry in enumerate(e for e in some if "up_exps" in e.name)
        for expert, count in enumerate(entry.counts)
    }
    counted, skipped = choices_read(b"".join(profile.lines()))
    assert not skipped
    assert set(counted) == {key for key, count in counts.items() if count}
    assert profile.hits == sum(counts.values())
    assert profile.quality is Quality.DERIVED
    assert (profile.divisor == 1) == (factor == 1)
    for key, n in counted.items():
        assert abs(n - counts[key] / profile.divisor) <= 0.5
    assert counted.total() <= 1.1 * (1 << 20)


@pytest.mark.parametrize("reason", Reason)
def test_every_reason_has_a_text(reason: Reason) -> None:
    assert reason_text(NoFlag(reason))


def test_tensors_that_all_fit_are_counted() -> None:
    tensors, ops = random_model(1)

    no_flag = flags(reads_trace(tensors, ops), 1 << 40).unknown["override_tensor"]

    assert no_flag == NoFlag(Reason.ALL_TENSORS_FIT, len(tensors) - 1)


def test_tensors_that_are_all_too_large_give_no_flag() -> None:
    tensors, ops = random_model(1)

    no_flag = flags(reads_trace(tensors, ops), 0).unknown["override_tensor"]

    assert no_flag.reason is Reason.NO_TENSOR_FITS


def test_missing_size_and_missing_tensors_have_different_reasons() -> None:
    trace = spans_trace([0], [9])

    without_size = flags(trace).unknown["override_tensor"]
    without_tensors = flags(trace, 100).unknown["override_tensor"]

    assert without_size.reason is Reason.NO_DEVICE_SIZE
    assert without_tensors.reason is Reason.NO_TENSOR_LIST
