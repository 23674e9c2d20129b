"""Flags of llama.cpp as texts: ready to paste, what they do, and what they rest on."""

import shlex
from dataclasses import dataclass

from ggscope.analysis.flags import (
    MAX_TENSORS,
    CacheProfile,
    CpuLayers,
    Flags,
    NoFlag,
    Placement,
    Reason,
    ThreadCount,
)
from ggscope.analysis.summary.thread_estimate import ThreadEstimate
from ggscope.descriptions.coverage import coverage_text
from ggscope.descriptions.threads import (
    no_estimate_text,
    other_count_text,
    sharing_text,
)
from ggscope.model.tables import Quality
from ggscope.model.units import (
    format_bytes,
    format_count,
    format_counted,
    format_share,
)

NAMES = {
    "override_tensor": "-ot",
    "n_cpu_moe": "--n-cpu-moe",
    "moe_cache_profile": "--moe-cache-profile",
    "threads": "-t",
}
"""Flags as llama.cpp has them, by the names of ``--json``."""

_REASONS = {
    Reason.NO_DEVICE_SIZE: "no memory size of the device is given",
    Reason.NO_TENSOR_LIST: "no model file or map lists the tensors",
    Reason.TOO_MANY_TENSORS: f"more than {MAX_TENSORS:,} tensors are listed",
    Reason.DUPLICATE_TENSOR_NAMES: "several model files have tensors of the same name",
    Reason.READS_UNKNOWN: "the trace does not record what ops read",
    Reason.NO_TENSOR_FITS: "no tensor fits into this size",
    Reason.UNSUPPORTED_NAMES: "tensor names have characters that the flag cannot hold",
    Reason.NO_EXPERT_TENSORS: "the model has no expert tensors",
    Reason.REST_DOES_NOT_FIT: "the rest does not fit, even with the experts of all "
    "layers on the CPU",
    Reason.NO_EXPERT_DATA: "the trace has no expert routing and no reads of experts",
    Reason.CHOICES_UNKNOWN: "the trace does not record which experts a token chose",
    Reason.PROMPT_CHOICES_ONLY: "the trace has the experts of prompt tokens only",
    Reason.COUNTS_ALL_ZERO: "the counts of all experts are 0",
    Reason.NO_THREADS: "the trace records no threads",
    Reason.NO_GGML_OPS: "the threads of the trace run no ggml ops",
}


_REMEDIES = {
    Reason.NO_DEVICE_SIZE: ("--vram SIZE adds it", "enter it above"),
    Reason.NO_TENSOR_LIST: (
        "--gguf MODEL adds it",
        "add the model file with File ▸ Add to session…",
    ),
}
"""What to do, on the command line and in the window."""


@dataclass(frozen=True, slots=True)
class FlagText:
    """One flag: ``-t 2``.

    Attributes
    ----------
    key : its name in ``--json``.
    argument : flag and value as a shell takes them.
    effect : what it does.
    quality : how what it rests on is known.
    rests_on : that, as a text.
    """

    key: str
    argument: str
    effect: str
    quality: Quality
    rests_on: str


def flag_texts(flags: Flags, profile: str = "FILE.csv") -> list[FlagText]:
    """Return the flags that the trace gives evidence for.

    Parameters
    ----------
    profile : name of the file of the cache profile.
    """
    texts = []
    if flags.placement is not None:
        texts.append(_placement(flags.placement, flags))
    if flags.cpu_layers is not None:
        texts.append(_cpu_layers(flags.cpu_layers))
    if flags.profile is not None:
        texts.append(_profile(flags.profile, flags, profile))
    if flags.threads is not None:
        texts.append(_threads(flags.threads))
    return texts


def reason_text(no_flag: NoFlag, *, in_window: bool = False) -> str:
    """Return why a flag has no value, and what to do, if anything.

    ``no memory size of the device is given; --vram SIZE adds it``
    """
    if no_flag.reason is Reason.ALL_TENSORS_FIT:
        return f"nothing has to move: all {no_flag.n_tensors:,} tensors fit"
    text, remedies = _REASONS[no_flag.reason], _REMEDIES.get(no_flag.reason)
    return text if remedies is None else f"{text}; {remedies[in_window]}"


def unknown_lines(flags: Flags) -> list[str]:
    """Return which flags have no value, and why."""
    return [f"{NAMES[key]}: {reason_text(why)}" for key, why in flags.unknown.items()]


def _argument(key: str, value: str) -> str:
    return f"{NAMES[key]} {shlex.quote(value)}"


def _placement(one: Placement, flags: Flags) -> FlagText:
    n, n_device = len(one.device) + len(one.host), len(one.device)
    share = one.device_read / max(one.device_read + one.host_read, 1)
    effect = (
        f"keeps {format_count(n_device)} of {format_counted(n, 'tensor')} on the "
        f"device ({format_bytes(one.device_size)}), the most bytes read per byte of "
        f"size first: {format_share(share)} of the weights that ops read; "
        f"{format_bytes(one.host_size)} stay on the CPU"
    )
    rests = "sizes of the model file, reads of the trace"
    if one.n_open:
        rests += f"; reads of {format_counted(one.n_open, 'tensor')} may be missing"
    return FlagText(
        "override_tensor",
        _argument("override_tensor", one.expression),
        effect,
        one.quality,
        rests + _left_out(flags),
    )


def _cpu_layers(one: CpuLayers) -> FlagText:
    layers = format_counted(one.n_layers, "layer")
    effect = (
        f"keeps the experts of layers below {one.n} on the CPU "
        f"({format_bytes(one.host_size)}; {layers} have experts); "
        f"{format_bytes(one.device_size)} on the device"
        if one.n
        else f"all experts fit: {format_bytes(one.device_size)} on the device"
    )
    return FlagText(
        "n_cpu_moe",
        _argument("n_cpu_moe", str(one.n)),
        effect,
        Quality.DERIVED,
        "sizes of the model file alone, not on what was read",
    )


def _profile(one: CacheProfile, flags: Flags, name: str) -> FlagText:
    effect = (
        f"{format_counted(one.hits, 'choice')} of {format_count(one.n_experts)} of "
        f"{format_counted(one.n_slots, 'expert')}, for the expert cache of the fork "
        "thecodacus/llama.cpp (with --moe-cache-slots)"
    )
    rests = (
        "the router's lists of experts"
        if one.quality is Quality.MEASURED
        else "accesses, sizes of tensors, or lists that are not whole"
    )
    if one.divisor:
        rests = "counts of choices (imatrix, or by launch): no tokens, no order"
    if one.divisor > 1:
        rests += f"; the file has a {format_count(one.divisor)}th of each count"
    if one.n_more is None:
        rests += "; further choices are not listed"
    elif one.n_more:
        rests += f"; {format_counted(one.n_more, 'further choice')} not listed"
    return FlagText(
        "moe_cache_profile",
        _argument("moe_cache_profile", name),
        effect,
        one.quality,
        rests + _left_out(flags),
    )


def _threads(one: ThreadCount) -> FlagText:
    n_threads = format_counted(one.n_threads, "thread")
    cores = format_counted(one.n_cores, "core")
    waiting = "" if one.waiting is None else format_share(one.waiting)
    if one.n < one.n_threads:
        effect = f"fewer than the {n_threads} of the trace: "
        if one.n_cores < one.n_threads or one.sharing is None:
            effect += f"they share {cores}"
        else:
            effect += f"seen on {cores}, {sharing_text(one.sharing)}"
        rests = f"cores of spans, and waits at barriers: {waiting} of work and waits"
    else:
        effect = "as in the trace"
        if isinstance(one.estimate, ThreadEstimate):
            others = " and ".join(
                f"{other_count_text(other)} with {other.n_threads}"
                for other in (one.estimate.fewer, one.estimate.more)
            )
            effect += f"; ops would take {others} (estimated, 100 % = as now)"
        else:
            effect += (
                f"; no estimate for other numbers: {no_estimate_text(one.estimate)}"
            )
        rests = f"{n_threads} recorded"
        rests += f", seen on {cores}" if one.n_cores else "; cores not recorded"
        rests += f"; waits {waiting}" if waiting else "; waits not recorded"
    return FlagText(
        "threads", _argument("threads", str(one.n)), effect, one.quality, rests
    )


def _left_out(flags: Flags) -> str:
    text = coverage_text(flags.coverage)
    return f"; the trace leaves out: {text}" if text else ""
