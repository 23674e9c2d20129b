"""``ggscope flags``: flags of llama.cpp from recorded reads, experts and waits."""

from argparse import Namespace
from pathlib import Path

from ggscope.analysis.flags import UNKNOWN_FLAGS, Flags, flags
from ggscope.analysis.summary.thread_estimate import NoEstimate
from ggscope.atomic_write import check_target, refuse_inputs, write_file
from ggscope.cli import output
from ggscope.cli.output import GOOD
from ggscope.cli.reading import answer_each, load
from ggscope.descriptions.coverage import coverage_json
from ggscope.descriptions.flags import flag_texts, reason_text, unknown_lines
from ggscope.descriptions.threads import no_estimate_text
from ggscope.errors import ExportError, SuffixError
from ggscope.exporters.summary_json import estimate_json
from ggscope.model.units import format_bytes
from ggscope.sanitize import one_line


def run(arguments: Namespace) -> int:
    """Print the flags of a file, write the cache profile; return the exit code."""
    target: Path | None = arguments.output
    if target is not None:
        if target.suffix.lower() != ".csv":
            raise SuffixError("a cache profile", (".csv",), target)
        refuse_inputs(target, (*arguments.files, *arguments.beside))
        check_target(target, overwrite=arguments.force)

    def work(path: Path) -> tuple[int, object]:
        trace = load(path, arguments)
        result = flags(trace, arguments.vram)
        if target is not None:
            _write(result, target, overwrite=arguments.force)
        if not arguments.json:
            _print(result, target)
        return GOOD, flags_json(path, result, target, trace.clock.unit_name)

    return answer_each(arguments, work)


def _write(flags: Flags, target: Path, *, overwrite: bool) -> None:
    if flags.profile is None:
        reason = reason_text(flags.unknown["moe_cache_profile"])
        raise ExportError(f"no cache profile to write: {reason}.")
    write_file(target, flags.profile.lines(), overwrite=overwrite)
    output.say(f"Saved {target}.")


def flags_json(
    path: Path, flags: Flags, target: Path | None, ticks: str = "ns"
) -> dict[str, object]:
    """Return what ``flags --json`` prints of a file.

    Parameters
    ----------
    ticks : unit of the trace's times.
    """
    facts: dict[str, dict[str, object] | None] = dict.fromkeys(UNKNOWN_FLAGS)
    if (placement := flags.placement) is not None:
        facts["override_tensor"] = {
            "value": placement.expression,
            "device_tensors": list(placement.device),
            "cpu_tensors": list(placement.host),
            "device_bytes": placement.device_size,
            "cpu_bytes": placement.host_size,
            "device_read_bytes": placement.device_read,
            "cpu_read_bytes": placement.host_read,
            "tensors_with_unknown_reads": placement.n_open,
        }
    if (layers := flags.cpu_layers) is not None:
        facts["n_cpu_moe"] = {
            "value": layers.n,
            "expert_layers": layers.n_layers,
            "device_bytes": layers.device_size,
            "cpu_bytes": layers.host_size,
            "cpu_read_bytes": layers.host_read,
        }
    if (profile := flags.profile) is not None:
        facts["moe_cache_profile"] = {
            "value": None if target is None else str(target),
            "choices": profile.hits,
            "experts": profile.n_experts,
            "all_experts": profile.n_slots,
            "choices_not_listed": profile.n_more,
            "divided_by": profile.divisor or None,
        }
    if (threads := flags.threads) is not None:
        facts["threads"] = {
            "value": threads.n,
            "recorded": threads.n_threads,
            "cores": threads.n_cores or None,
            "core_shared": threads.sharing.share if threads.sharing else None,
            "waiting": threads.waiting,
            "estimate": estimate_json(threads.estimate, ticks),
            "no_estimate_because": no_estimate_text(threads.estimate)
            if isinstance(threads.estimate, NoEstimate)
            else None,
        }
    for text in flag_texts(flags):
        entry = facts[text.key]
        assert entry is not None
        entry["rests_on"] = {"quality": text.quality.word, "text": text.rests_on}
    return {
        "path": str(path),
        "vram_bytes": flags.limit,
        **facts,
        "coverage": coverage_json(flags.coverage),
        "unknown": {key: reason_text(why) for key, why in flags.unknown.items()},
    }


def _print(flags: Flags, target: Path | None) -> None:
    if flags.limit is not None and (flags.placement or flags.cpu_layers):
        output.emit(
            f"For {format_bytes(flags.limit)} of weights on the device, with -ngl 99; "
            "KV cache and compute buffers need memory in addition."
        )
    if flags.placement and flags.cpu_layers:
        output.emit("Use -ot or --n-cpu-moe, not both.")
    texts = flag_texts(flags, "FILE.csv" if target is None else str(target))
    for text in texts:
        if text.key == "moe_cache_profile" and target is None:
            effect = f"{text.effect}; -o FILE.csv writes it"
        else:
            effect = text.effect
        output.emit(one_line(text.argument))
        output.emit(one_line(f"  {effect}"))
        output.emit(one_line(f"  rests on ({text.quality.word}): {text.rests_on}"))
    if flags.unknown:
        output.emit("\nNot known" if texts else "Not known")
        for line in unknown_lines(flags):
            output.emit(one_line(f"  {line}"))
