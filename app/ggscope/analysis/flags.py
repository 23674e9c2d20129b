"""Flags of llama.cpp that a trace gives evidence for, and what each rests on.

A flag without a value is None, with a reason in `Flags.unknown`.
"""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import pairwise
from typing import TypeVar

import numpy as np
import numpy.typing as npt

from ggscope.analysis.completeness.coverage import TraceCoverage, trace_coverage
from ggscope.analysis.experts.experts import (
    COUNTED,
    Choices,
    ExpertSource,
    distinct,
    expert_choices,
)
from ggscope.analysis.heat.file_map import FileMap, file_map
from ggscope.analysis.links import stack_name
from ggscope.analysis.reads.hotness import Heat, heat
from ggscope.analysis.summary.barriers import CoreSharing
from ggscope.analysis.summary.bottleneck import Cause, Evidence, cause_of
from ggscope.analysis.summary.thread_estimate import NoEstimate, ThreadEstimate
from ggscope.analysis.summary.threads import thread_times
from ggscope.model.tables import I64, Phase, Quality, ranges
from ggscope.model.trace import LaneKind, Trace

Bools = npt.NDArray[np.bool_]
Flag = TypeVar("Flag")
UNKNOWN_FLAGS = ("override_tensor", "n_cpu_moe", "moe_cache_profile", "threads")
"""Flags that may be unknown, by the names of ``ggscope flags --json``."""
_INPUTS = ("token_embd.", "token_types.", "position_embd.", "per_layer_token_embd.")
"""Beginnings of the names of tensors that llama.cpp leaves on the CPU by itself."""
_TIED, _OUTPUT = "token_embd.weight", "output.weight"
"""Without an output tensor the first is used as such, and copied to the device."""
_EXPERTS = re.compile(
    r"^blk\.(0|[1-9]\d{0,3})\.ffn_(?:up|down|gate|gate_up)_(?:ch|)exps"
)
"""What ``--n-cpu-moe`` moves: names of llama.cpp's ``LLM_FFN_EXPS_REGEX``."""
_IN_LAYER = re.compile(r"blk\.(0|[1-9]\d{0,3})\.(.+)", re.DOTALL)
_PLAIN = re.compile(r"[A-Za-z0-9_.-]{1,256}")
"""Names that an expression can hold; "," and "=" would end it."""
_GGML_OPS = frozenset({"MUL_MAT", "MUL_MAT_ID"})
"""Ops of ggml that every model runs: a trace that knows neither is of other threads."""
MAX_TENSORS = 1 << 16
_MAX_COUNTED = 1 << 20
"""Choices that a profile of counts has at most, about: 4 MB."""
_IDS_PER_LINE = 64
"""The reader of a cache profile takes lines of at most 4096 bytes."""


class Reason(Enum):
    """Why a flag has no value."""

    NO_DEVICE_SIZE = auto()
    NO_TENSOR_LIST = auto()
    TOO_MANY_TENSORS = auto()
    DUPLICATE_TENSOR_NAMES = auto()
    READS_UNKNOWN = auto()
    ALL_TENSORS_FIT = auto()
    NO_TENSOR_FITS = auto()
    UNSUPPORTED_NAMES = auto()
    NO_EXPERT_TENSORS = auto()
    REST_DOES_NOT_FIT = auto()
    NO_EXPERT_DATA = auto()
    CHOICES_UNKNOWN = auto()
    PROMPT_CHOICES_ONLY = auto()
    COUNTS_ALL_ZERO = auto()
    NO_THREADS = auto()
    NO_GGML_OPS = auto()


@dataclass(frozen=True, slots=True)
class NoFlag:
    """Stands for a flag without a value.

    Attributes
    ----------
    n_tensors : how many tensors fit, for ``ALL_TENSORS_FIT``.
    """

    reason: Reason
    n_tensors: int = 0


@dataclass(frozen=True, slots=True, eq=False)
class DeviceWeights:
    """Tensors of the model that llama.cpp puts on a device, one row each.

    Attributes
    ----------
    names : as in the model file.
    size : int64[n], bytes.
    read : int64[n], known bytes that ops read.
    layer : int64[n], -1 none.
    expert_layer : int64[n], layer of a stack that ``--n-cpu-moe`` moves, else -1.
    is_open : bool[n], whether reads of it may be missing.
    """

    names: tuple[str, ...]
    size: I64
    read: I64
    layer: I64
    expert_layer: I64
    is_open: Bools


@dataclass(frozen=True, slots=True, eq=False)
class Placement:
    """Which tensors stay on the device and which do not: ``--override-tensor``.

    Attributes
    ----------
    device, host : names, those on the device hottest first.
    expression : value of the flag; matches all of `host` and nothing else.
    device_size, host_size : bytes.
    device_read, host_read : known bytes that ops read of them.
    n_open : tensors of which reads may be missing.
    quality : measured where none may be missing, else derived.
    """

    device: tuple[str, ...]
    host: tuple[str, ...]
    expression: str
    device_size: int
    host_size: int
    device_read: int
    host_read: int
    n_open: int
    quality: Quality


@dataclass(frozen=True, slots=True)
class CpuLayers:
    """How many layers' experts stay on the CPU: ``--n-cpu-moe``.

    Attributes
    ----------
    n : the least number with which the rest fits; layers count from 0.
    n_layers : layers with experts.
    device_size, host_size : bytes on the device, and of the experts on the CPU.
    host_read : known bytes that ops read of these; None where no reads are recorded.
    """

    n: int
    n_layers: int
    device_size: int
    host_size: int
    host_read: int | None


@dataclass(frozen=True, slots=True, eq=False)
class CacheProfile:
    """Which experts each generated token chose: ``--moe-cache-profile``.

    Attributes
    ----------
    position, layer, expert : int64[n], one row per choice, ascending; positions of
        prompt tokens are negative.
    hits : choices of other tokens.
    divisor : of the counts of a calibration text: what is written is a count over it,
        at least 1; 0 where each choice of the trace is written.
    n_experts : different experts among these, counted per layer.
    n_slots : experts of all layers.
    n_more : further choices of such tokens that no list names; None = nobody knows
        how many.
    quality : measured where the router's lists name all, else derived.
    """

    position: I64
    layer: I64
    expert: I64
    hits: int
    n_experts: int
    n_slots: int
    n_more: int | None
    quality: Quality
    divisor: int = 0

    def lines(self) -> Iterator[bytes]:
        """Return the lines of the CSV file that ``--moe-cache-profile`` reads.

        The form is that of ``llama-moe-trace`` in the fork thecodacus/llama.cpp (pull
        request 5; ``tools/moe-trace/moe-trace.cpp`` writes it,
        ``init_moe_expert_cache`` in ``src/llama-model.cpp`` counts it): no heading,
        ``pos,layer,id0,id1,…`` in each line, rows of prompts with a negative position,
        which the reader skips. It takes no counts, so each choice is written; of mere
        counts line k of a layer has the experts that were chosen more than k times.
        """
        n = len(self.expert)
        is_new = np.ones(n, np.bool_)
        is_new[1:] = (np.diff(self.position) != 0) | (np.diff(self.layer) != 0)
        bounds = [*np.flatnonzero(is_new).tolist(), n]
        for begin, end in pairwise(bounds):
            head = f"{self.position[begin]},{self.layer[begin]},"
            for low in range(begin, end, _IDS_PER_LINE):
                ids = self.expert[low : min(low + _IDS_PER_LINE, end)].tolist()
                yield (head + ",".join(map(str, ids)) + "\n").encode()


@dataclass(frozen=True, slots=True)
class ThreadCount:
    """How many threads to use: ``--threads``.

    Attributes
    ----------
    n : that number.
    n_threads : threads that computed in the trace.
    n_cores : different cores on which they were seen; 0 = not recorded.
    waiting : waits as a share of work and waits; None = not recorded.
    quality : measured where `n` is the number of the trace, else derived.
    estimate : what one thread more or fewer would do, or why that is not known.
    sharing : how threads that compute an op share cores; None where that is not known.
    """

    n: int
    n_threads: int
    n_cores: int
    waiting: float | None
    quality: Quality
    estimate: ThreadEstimate | NoEstimate
    sharing: CoreSharing | None = None


@dataclass(frozen=True, slots=True)
class Flags:
    """Flags of llama.cpp, None where unknown.

    Attributes
    ----------
    limit : bytes for weights on the device; None = not given.
    unknown : why a flag is None, by the names of `UNKNOWN_FLAGS`.
    """

    limit: int | None
    placement: Placement | None
    cpu_layers: CpuLayers | None
    profile: CacheProfile | None
    threads: ThreadCount | None
    coverage: TraceCoverage
    unknown: dict[str, NoFlag] = field(default_factory=dict)


def flags(trace: Trace, limit: int | None = None) -> Flags:
    """Return the flags that a trace gives evidence for.

    Parameters
    ----------
    limit : bytes that weights may take on the device.
    """
    unknown: dict[str, NoFlag] = {}
    coverage = trace_coverage(trace)
    places = file_map(trace)
    placement = layers = None
    weights: DeviceWeights | NoFlag
    if limit is None:
        weights = NoFlag(Reason.NO_DEVICE_SIZE)
    elif not places.is_listed:
        weights = NoFlag(Reason.NO_TENSOR_LIST)
    else:
        weights = device_weights(trace, heat(trace, places=places))
    if limit is None or isinstance(weights, NoFlag):
        assert isinstance(weights, NoFlag)
        unknown |= dict.fromkeys(("override_tensor", "n_cpu_moe"), weights)
    else:
        placement = _value(
            "override_tensor", _placement(weights, limit, coverage), unknown
        )
        layers = _value("n_cpu_moe", _cpu_layers(weights, limit), unknown)
    profile = _value("moe_cache_profile", cache_profile(trace), unknown)
    threads = _value("threads", thread_count(trace), unknown)
    return Flags(limit, placement, layers, profile, threads, coverage, unknown)


def _value(name: str, flag: Flag | NoFlag, unknown: dict[str, NoFlag]) -> Flag | None:
    """Return a flag, or None where it has no value, and add the reason to `unknown`."""
    if isinstance(flag, NoFlag):
        unknown[name] = flag
        return None
    return flag


# -- which tensors stay on the device --------------------------------------------


def device_weights(trace: Trace, heat: Heat) -> DeviceWeights | NoFlag:
    """Return the tensors that llama.cpp would put on a device, or why not."""
    places = heat.places
    rows = np.unique(places.tensor[~places.is_traced]).astype(np.int64)
    rows = rows[trace.tensors.name[rows] >= 0]
    if len(rows) > MAX_TENSORS:
        return NoFlag(Reason.TOO_MANY_TENSORS)
    index: dict[str, int] = {}
    of_row = np.full(len(trace.tensors), -1, np.int64)
    for row in rows.tolist():
        of_row[row] = index.setdefault(stack_name(trace, row), len(index))
    n = len(index)
    is_whole = trace.tensors.expert[rows] < 0
    if (np.bincount(of_row[rows][is_whole], minlength=n) > 1).any():
        return NoFlag(Reason.DUPLICATE_TENSOR_NAMES)
    size, read, is_open = _sums(places, heat, of_row, rows, n)
    in_layer = [_IN_LAYER.match(name) for name in index]
    moved = [_EXPERTS.match(name) for name in index]
    layer = np.array([int(m[1]) if m else -1 for m in in_layer], np.int64)
    expert_layer = np.array([int(m[1]) if m else -1 for m in moved], np.int64)
    is_movable = np.array(
        [
            not name.startswith(_INPUTS) or (name == _TIED and _OUTPUT not in index)
            for name in index
        ],
        np.bool_,
    )
    candidates = np.flatnonzero(is_movable & (size > 0))
    names = tuple(index)
    return DeviceWeights(
        tuple(names[i] for i in candidates.tolist()),
        size[candidates],
        read[candidates],
        layer[candidates],
        expert_layer[candidates],
        is_open[candidates],
    )


def _sums(
    places: FileMap, heat: Heat, of_row: I64, rows: I64, n: int
) -> tuple[I64, I64, Bools]:
    """Return size, known bytes read, and whether reads may be missing, by name."""
    size, read = np.zeros((2, n), np.int64)
    is_open = np.zeros(n, np.bool_)
    np.add.at(size, of_row[rows], places.stop[rows] - places.first[rows])
    of_unit = of_row[places.tensor]
    unit = np.flatnonzero(of_unit >= 0)
    np.add.at(read, of_unit[unit], heat.unit_bytes[unit])
    missing = heat.unit_unrecorded | heat.unit_cut | (heat.unit_maybe > 0)
    is_open[of_unit[unit[missing[unit]]]] = True
    is_open[of_row[rows[heat.unknown_read[rows] > 0]]] = True
    return size, read, is_open


def _placement(
    weights: DeviceWeights, limit: int, coverage: TraceCoverage
) -> Placement | NoFlag:
    """Return what stays on the device: the most bytes read per byte of size first.

    Of equal ones those of lower layers go first. One that no longer fits is passed
    over, so a smaller one after it may stay.
    """
    size, read = weights.size, weights.read
    if not read.any():
        return NoFlag(Reason.READS_UNKNOWN)
    if int(size.sum()) <= limit:
        return NoFlag(Reason.ALL_TENSORS_FIT, len(size))
    order = np.lexsort((weights.layer, -(read / size)))
    free_bytes = limit
    is_device = np.zeros(len(size), np.bool_)
    for i in order.tolist():
        if size[i] <= free_bytes:
            is_device[i] = True
            free_bytes -= int(size[i])
    if not is_device.any():
        return NoFlag(Reason.NO_TENSOR_FITS)
    names = weights.names
    host = tuple(names[i] for i in np.flatnonzero(~is_device).tolist())
    if not all(map(_PLAIN.fullmatch, host)):
        return NoFlag(Reason.UNSUPPORTED_NAMES)
    n_open = int(np.count_nonzero(weights.is_open))
    is_sure = not n_open and not coverage.may_hide_reads
    return Placement(
        device=tuple(names[i] for i in order[is_device[order]].tolist()),
        host=host,
        expression=",".join(f"{pattern}=CPU" for pattern in patterns(host)),
        device_size=int(size[is_device].sum()),
        host_size=int(size[~is_device].sum()),
        device_read=int(read[is_device].sum()),
        host_read=int(read[~is_device].sum()),
        n_open=n_open,
        quality=Quality.MEASURED if is_sure else Quality.DERIVED,
    )


def patterns(names: Sequence[str]) -> list[str]:
    r"""Return regular expressions that match these names and no others.

    Tensors of the same layers share one: ``^blk\.[0-3]\.ffn_up\.weight$``. They are
    what both C++ (ECMAScript, which llama.cpp searches by) and Python understand.
    """
    by_rest: dict[str, set[int]] = {}
    single = []
    for name in names:
        match = _IN_LAYER.fullmatch(name)
        if match is None:
            single.append(name)
        else:
            by_rest.setdefault(match[2], set()).add(int(match[1]))
    by_layers: dict[tuple[int, ...], list[str]] = {}
    for rest, layers in by_rest.items():
        by_layers.setdefault(tuple(sorted(layers)), []).append(rest)
    patterns = [
        rf"^blk\.{_any_of(layer_patterns(layers))}\.{_any_of(map(_escaped, rests))}$"
        for layers, rests in sorted(by_layers.items())
    ]
    if single:
        patterns.append(f"^{_any_of(map(_escaped, single))}$")
    return patterns


def layer_patterns(numbers: Sequence[int]) -> list[str]:
    """Return expressions that match these numbers: 8 to 21 is ``[89]|1[0-9]|2[01]``."""
    by_tens: dict[int, list[int]] = {}
    for number in numbers:
        by_tens.setdefault(number // 10, []).append(number % 10)
    by_units: dict[tuple[int, ...], list[int]] = {}
    for tens, units in by_tens.items():
        if tens:
            by_units.setdefault(tuple(sorted(units)), []).append(tens)
    patterns = [_digits(sorted(by_tens[0]))] if 0 in by_tens else []
    for last, tens_of in by_units.items():
        patterns.append(_any_of(layer_patterns(sorted(tens_of))) + _digits(last))
    return patterns


def _digits(digits: Sequence[int]) -> str:
    """Return a class of ascending digits: ``7``, ``[0-3]`` or ``[02-4]``."""
    if len(digits) == 1:
        return str(digits[0])
    runs: list[list[int]] = []
    for digit in digits:
        if runs and digit == runs[-1][-1] + 1:
            runs[-1].append(digit)
        else:
            runs.append([digit])
    texts = (
        f"{run[0]}-{run[-1]}" if len(run) > 2 else "".join(map(str, run))
        for run in runs
    )
    return f"[{''.join(texts)}]"


def _any_of(expressions: Iterable[str]) -> str:
    options = list(expressions)
    return options[0] if len(options) == 1 else f"(?:{'|'.join(options)})"


def _escaped(name: str) -> str:
    return name.replace(".", r"\.")


def _cpu_layers(weights: DeviceWeights, limit: int) -> CpuLayers | NoFlag:
    """Return the least number of layers whose experts have to stay on the CPU."""
    is_expert = weights.expert_layer >= 0
    layers = np.unique(weights.expert_layer[is_expert])
    if not len(layers):
        return NoFlag(Reason.NO_EXPERT_TENSORS)
    total = int(weights.size.sum())
    for n in (0, *(layers + 1).tolist()):
        moved = is_expert & (weights.expert_layer < n)
        host_size = int(weights.size[moved].sum())
        if total - host_size <= limit:
            read = int(weights.read[moved].sum()) if weights.read.any() else None
            return CpuLayers(n, len(layers), total - host_size, host_size, read)
    return NoFlag(Reason.REST_DOES_NOT_FIT)


# -- experts and threads ---------------------------------------------------------


def cache_profile(trace: Trace) -> CacheProfile | NoFlag:
    """Return which experts each token chose, or why that is not known."""
    choices = expert_choices(trace)
    if choices.source is ExpertSource.NONE:
        return NoFlag(Reason.NO_EXPERT_DATA)
    if choices.source in COUNTED:
        return _profile_of_counts(choices)
    chosen = choices.is_used.copy()
    if choices.source is ExpertSource.ACCESSES:
        # Such a row is all accesses of a token: without it, it is no single choice.
        chosen &= choices.token >= 0
    rows = np.flatnonzero(chosen)
    if not len(rows):
        return NoFlag(Reason.CHOICES_UNKNOWN)
    is_prompt = _of_prompts(trace, choices)
    position = _positions(choices, is_prompt)[rows]
    layer = choices.layers[choices.layer[rows]]
    expert = choices.expert[rows].astype(np.int64)
    order = np.lexsort((layer, position))
    position, layer, expert = position[order], layer[order], expert[order]
    is_hit = position >= 0
    if not is_hit.any():
        return NoFlag(Reason.PROMPT_CHOICES_ONLY)
    _, token, more = choices.open_pairs()
    more = more[~is_prompt[token]]
    is_sure = choices.source is ExpertSource.ROUTING and not (
        choices.n_implied or len(more) or choices.n_left_out
    )
    return CacheProfile(
        position,
        layer,
        expert,
        hits=int(np.count_nonzero(is_hit)),
        n_experts=len(np.unique(layer[is_hit] * choices.n_experts + expert[is_hit])),
        n_slots=choices.n_slots,
        n_more=int(more.sum()) if (more >= 0).all() else None,
        quality=Quality.MEASURED if is_sure else Quality.DERIVED,
    )


def _profile_of_counts(choices: Choices) -> CacheProfile | NoFlag:
    """Return a profile with mere counts, divided if large.

    It holds how often each expert was chosen, and nothing of tokens or their order.
    """
    weight = choices.weight.astype(np.int64)
    total = int(weight.sum())
    if not total:
        return NoFlag(Reason.COUNTS_ALL_ZERO)
    divisor = -(-total // _MAX_COUNTED)
    repeats = np.where(weight > 0, np.maximum(np.rint(weight / divisor), 1), 0)
    repeats = repeats.astype(np.int64)
    rows = np.repeat(np.arange(len(weight)), repeats)
    position = ranges(0, repeats)
    layer = choices.layers[choices.layer[rows]]
    expert = choices.expert[rows].astype(np.int64)
    order = np.lexsort((expert, layer, position))
    return CacheProfile(
        position[order],
        layer[order],
        expert[order],
        hits=total,
        n_experts=int(np.count_nonzero(weight)),
        n_slots=choices.n_slots,
        n_more=0,
        quality=Quality.DERIVED,
        divisor=divisor,
    )


def _of_prompts(trace: Trace, choices: Choices) -> Bools:
    """Return which numbers of ``choices.tokens`` are of prompts alone; last: no token.

    Without recorded phases, none is. Ubatches that mix both count as generated.
    """
    spans = trace.spans
    if spans.phase is None or spans.token is None:
        return np.zeros(len(choices.tokens) + 1, np.bool_)
    is_prompt = spans.phase == Phase.PROMPT
    rest = distinct(spans.token[~is_prompt])
    prompt_only = np.setdiff1d(distinct(spans.token[is_prompt]), rest)
    return np.append(np.isin(choices.tokens, prompt_only), False)


def _positions(choices: Choices, is_prompt: Bools) -> I64:
    """Return a number for the token of each choice, negative for those of prompts."""
    unit, n_units = choices.order.unit, len(choices.order.column)
    position = np.where(unit >= 0, unit, n_units + choices.token + 1).astype(np.int64)
    return np.where(is_prompt[choices.token], -1 - position, position)


def thread_count(trace: Trace) -> ThreadCount | NoFlag:
    """Return the threads that run ggml ops, or fewer where they share cores."""
    times = thread_times(trace)
    n = len(times.lanes)
    if times.kind is not LaneKind.THREAD or not n:
        return NoFlag(Reason.NO_THREADS)
    if trace.ops is None or not _GGML_OPS.intersection(trace.ops.names):
        return NoFlag(Reason.NO_GGML_OPS)  # threads of something else
    waiting, n_cores = times.waiting, times.n_cores
    sharing = times.sharing
    evidence = Evidence(waiting=waiting, n_threads=n, n_cores=n_cores, sharing=sharing)
    if cause_of(evidence) is Cause.SHARED_CORES:
        count, quality = n_cores, Quality.DERIVED
        if n_cores >= n and sharing is not None:  # all were seen, but not at once
            count = min(max(round(sharing.at_once), 1), n - 1)
    else:
        count, quality = n, Quality.MEASURED
    return ThreadCount(count, n, n_cores, waiting, quality, times.estimate, sharing)
