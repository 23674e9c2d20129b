"""Results of llama-bench in each of its forms."""

from ggscope.readers.api import BENCH, ReaderInfo

INFO = ReaderInfo(
    "llama-bench",
    "llama-bench results",
    (".json", ".jsonl", ".csv", ".md", ".sql"),
    "What llama-bench -o json, jsonl, csv, md or sql prints: a row per test.",
    role=BENCH,
    keys=("avg_ts", "samples_ts"),
    line=r"^[^\w\n]*build_commit\W+build_number|^INSERT INTO (llama_bench|test) \(|"
    r"^\| *model .*\| *t/s *\|",
)
