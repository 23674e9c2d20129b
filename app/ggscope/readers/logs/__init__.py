"""Logs of llama.cpp's server and command-line programs, ik_llama.cpp, ollama, vLLM."""

from ggscope.readers.api import LOG, ReaderInfo

INFO = ReaderInfo(
    "llama-log",
    "server log",
    (".log", ".txt", ".jsonl"),
    "What llama-server, llama-cli, ik_llama.cpp or ollama write: requests by slot, "
    "cached and reprocessed tokens, drafts, memory, warnings; vLLM: throughput, queue "
    "and KV cache.",
    role=LOG,
    line=(
        r"^.*(slot +[a-z_]+: id +\d|(eval|load|sampling) time +=|"
        r"llama_model_loader: |build_info: |system_info: n_threads|"
        r"srv +[a-z_()]+: |(?<![\w.])time=\d{4}-\d\d-\d\dT\S+ level=[A-Z]+ source=|"
        r"\[GIN\] \d{4}/|memory_breakdown_print: |"
        r"(?<!\d)\d{1,9}\.\d\d\.\d{3}\.\d{3} [A-Z] |"
        r"(INFO|WARNING|ERROR|DEBUG) \d\d-\d\d \d\d:\d\d:\d\d \[?\w+\.py:\d+\])"
    ),
)
