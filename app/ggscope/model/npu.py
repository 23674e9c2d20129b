"""Names of an NPU trace's counters, and what its configuration states."""

from dataclasses import dataclass

from ggscope.model.trace import Trace

DRAM_READ = "DRAM read"
DRAM_WRITE = "DRAM write"
STALL_CYCLES = "Stall cycles"
KV_BYTES = "KV bytes"
"""Counters of bandwidth samples: amounts within windows."""
HIGH_UTILISATION = 0.8
"""Above this share of the peak the format speaks of a bottleneck."""
_CONFIG = "config."


@dataclass(frozen=True, slots=True, kw_only=True)
class NpuConfig:
    """What a trace states of the machine; None where it does not.

    Attributes
    ----------
    peak_bytes : that DRAM moves per cycle at most.
    n_banks : of the scratchpad memory (SPM).
    bank_bytes : size of each.
    """

    peak_bytes: float | None = None
    n_banks: int | None = None
    bank_bytes: int | None = None


def npu_config(trace: Trace) -> NpuConfig:
    """Return what the trace's configuration states of memory."""
    peak = _number(trace, "memory.dram_peak_bw_bytes_per_cycle")
    banks = _number(trace, "memory.spm_banks")
    size = _number(trace, "memory.spm_bank_size_bytes")
    return NpuConfig(
        peak_bytes=peak,
        n_banks=None if banks is None else int(banks),
        bank_bytes=None if size is None or size < 1 else int(size),
    )


def _number(trace: Trace, key: str) -> float | None:
    """Return a number above 0 of the configuration; None where there is none."""
    try:
        value = float(trace.info.producer.get(_CONFIG + key, ""))
    except ValueError:
        return None
    return value if 0 < value < 1 << 62 else None
