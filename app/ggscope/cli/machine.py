"""``ggscope machine``: what the memory and the processor of this machine reach."""

from argparse import Namespace
from datetime import datetime

from ggscope.analysis.summary.machine import MachinePeak, measure, store, stored
from ggscope.cli import output
from ggscope.cli.output import ERROR, GOOD
from ggscope.model.units import format_counted, format_number, format_rate
from ggscope.sanitize import one_line

_GIB = 1 << 30


def run(arguments: Namespace) -> int:
    """Measure, keep and print; with ``--show`` print what was measured before."""
    peak = stored() if arguments.show else measure(arguments.threads)
    if peak is None:
        output.complain("nothing was measured on this machine; run ggscope machine.")
        return ERROR
    path = None if arguments.show else store(peak)
    if arguments.json:
        output.emit_json(machine_json(peak))
    else:
        _print(peak)
    if path is not None:
        output.say(f"kept in {path} for ggscope summary.")
    return GOOD


def machine_json(peak: MachinePeak) -> dict[str, object]:
    """Return what ``machine --json`` prints."""
    return {
        "host": peak.host,
        "cpu": peak.cpu,
        "threads": peak.n_threads,
        "read_gib_per_s": peak.read / _GIB,
        "gflops": peak.flops / 1e9,
        "measured": peak.measured,
    }


def _print(peak: MachinePeak) -> None:
    when = datetime.fromtimestamp(peak.measured).astimezone().isoformat(" ", "seconds")
    rows = [
        ("processor", one_line(peak.cpu)),
        ("threads", format_counted(peak.n_threads, "thread")),
        ("memory read", format_rate(peak.read)),
        ("float32", f"{format_number(peak.flops / 1e9)} GFLOP/s"),
        ("measured", when),
    ]
    width = max(len(title) for title, _ in rows)
    for title, value in rows:
        output.emit(f"{title:<{width}}  {value}")
