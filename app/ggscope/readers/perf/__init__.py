"""Samples of Linux perf, as `perf script` prints them."""

from ggscope.readers.api import ReaderInfo

INFO = ReaderInfo(
    "perf-script",
    "perf script",
    (".txt", ".perf", ".linux-perf", ".script"),
    "Samples with call stacks of Linux perf, as perf record -g and perf script print "
    "them.",
    line=(
        r"^(# captured on *: |[ \t]*\S[^\n]{0,80}[ \t]\d+(/\d+)?[ \t]+(\[\d+\][ \t]+)?"
        r"([^ \t\n]+[ \t]+)?\d+\.\d+:[ \t]+(\d+[ \t]+)?[^ \t\n]+:([ \t]|\r?$))"
    ),
)
