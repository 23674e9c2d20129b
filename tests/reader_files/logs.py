"""Files of llama-log."""

import log_files
import op_files
from log_files import FORMS
from reader_files import Names, ReaderFiles


def _valid() -> bytes:
    return log_files.log(log_files.random_requests(1, 12), "no clock")


def _seeds() -> list[tuple[str, bytes]]:
    requests = log_files.random_requests(1, 3)
    forms = [(f"{i}.log", log_files.log(requests, f)) for i, f in enumerate(FORMS)]
    others = (log_files.ik_log, log_files.json_log)
    made = [(f"{i}.txt", make(requests)) for i, make in enumerate(others)]
    lists = op_files.scheduler(op_files.graphs(1, 2), clock=True)
    lists += op_files.hexagon(op_files.npu_ops(1, 4), clock=True)
    made.append(("lists.log", log_files.log(requests) + lists))
    made.append(("drafts.log", log_files.log_with_draft_sums(requests)))
    made += [("load.log", log_files.loading_log()), ("v.log", log_files.vllm_log(3))]
    return [*forms, *made, ("ollama.log", log_files.ollama_log())]


def _hostile(names: Names) -> bytes:
    lines = log_files.log(log_files.random_requests(1, 6)).decode().split("\n")
    lines.insert(6, f"0.00.001.000 W srv load_model: {next(names)}")
    lines.insert(7, f"srv load_model: loading model '{next(names)}'")
    lines.insert(8, f"  - GPU{next(names)} : {next(names)} (9 MiB, 8 MiB free)")
    return "\n".join(lines).encode()


FILES = (
    ReaderFiles(
        "llama-log",
        valid=("server.log", _valid),
        seeds=_seeds,
        hostile=(".log", _hostile),
    ),
)
