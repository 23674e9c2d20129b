"""``ggscope npu``: claims beside computed figures, and the tables of an NPU."""

import csv
import io
import json
from pathlib import Path

import pytest

from ggscope.cli.arguments import NPU_TABLES
from ggscope.descriptions.npu import TABLES
from npu_files import access, document, engine, sample, stall, token
from support import need_corpus

PEAK = {"npu": {"num_te": 1}, "memory": {
    "dram_peak_bw_bytes_per_cycle": 64, "spm_banks": 2, "spm_bank_size_bytes": 1024,
}}  # fmt: skip


@pytest.fixture
def path(tmp_path: Path) -> Path:
    """Return a trace whose summary lies about TE 0 and about bytes written."""
    events = [
        engine(0, 50, engine="DMA", op="LOAD",
               details={"bytes": 640, "qbits": 4, "spm_bank": 1}),
        engine(50, 100, op="=GEMM", details={"qbits_weight": 4}),
        stall(60, 70, master="TE", reason="throttle"),
        access(5, mem_type="SPM", addr=1030, bytes=8, source_engine="DMA"),
        token(0, 100),
    ]  # fmt: skip
    values = document(
        *events,
        config_snapshot=PEAK,
        run_metadata={"model_name": "Tiny"},
        bandwidth_samples=[
            sample(0, dram_read_bytes=4096, dram_write_bytes=1024),
            sample(64, dram_read_bytes=64, dram_write_bytes=0),
        ],
        summary_metrics={
            "cycles_total": 100,
            "dram_bytes_read": 4160,
            "dram_bytes_write": 2048,
            "te": {"per_engine": [{"id": 0, "active_cycles": 90}]},
        },
    )
    target = tmp_path / "trace.json"
    target.write_text(json.dumps(values))
    return target


def test_claims_stand_beside_computed_figures(run, path):
    claims = {
        c["claim"]: c for c in json.loads(run("npu", path, "--json").out)["claims"]
    }

    contradicted = claims["dram bytes write"]
    assert (
        contradicted["stated"],
        contradicted["computed"],
        contradicted["difference"],
    ) == (2048, 1024, 1024)
    assert contradicted["agrees"] is False
    assert claims["dram bytes read"]["agrees"] is True
    te = claims["TE 0 active cycles"]
    assert (te["stated"], te["computed"], te["difference"]) == (90, 50, 40)
    assert te["place"] == "summary_metrics.te.per_engine[0].active_cycles"


def test_tables_are_what_the_events_give(run, path):
    value = json.loads(run("npu", path, "--json").out)

    engines = {e["engine"]: e for e in value["engines"]}
    assert (engines["TE 0"]["busy"], engines["TE 0"]["stalled"]) == (50, 10)
    assert engines["TE 0"]["idle"] == 50
    assert engines["DMA 0"]["moved"] == 640
    assert engines["DMA 0"]["stalled"] is None
    assert engines["DMA 0"]["read"] == 8
    assert value["stalls"] == [
        {"engine": "TE 0", "reason": "throttle", "stalls": 1, "time": 10, "share": 0.1}
    ]
    assert value["bandwidth"] == {
        "windows": 2, "peak": 64.0, "highest": 80.0, "above_80_percent": 1,
        "above_peak": 1, "overlapping": 0,
    }  # fmt: skip
    assert [b["accesses"] for b in value["banks"]] == [0, 1]
    assert [b["transfers"] for b in value["banks"]] == [0, 1]
    assert {(b["op"], b["bits"]) for b in value["bits"]} == {("LOAD", 4), ("=GEMM", 4)}


@pytest.mark.parametrize("name", NPU_TABLES)
def test_csv_has_the_rows_of_json_and_no_formulas(run, path, name):
    result = run("npu", path, "--csv", name)

    rows = list(csv.reader(io.StringIO(result.out)))
    value = json.loads(run("npu", path, "--json").out)
    assert result.code == 0
    assert len({len(row) for row in rows}) == 1
    if name in value:
        assert len(rows) - 1 == len(value[name])
    assert not any(cell.startswith("=") for row in rows for cell in row)


def test_windows_of_csv_have_rates_and_the_share_of_the_peak(run, path):
    rows = list(csv.DictReader(io.StringIO(run("npu", path, "--csv", "windows").out)))

    assert [row["total rate"] for row in rows] == ["80.0", "1.0"]
    assert rows[0]["of peak"] == "1.25"


def test_text_shows_every_table_and_what_is_not_recorded(run, path):
    out = run("npu", path).out

    assert "contradicts" in out
    assert "throttle" in out
    assert "125.0 %" in out
    assert run("npu", path, "--limit", "1").out.count("more; --limit") >= 2


def test_names_of_tables_are_those_of_all_tables():
    assert tuple(TABLES) == NPU_TABLES


def test_trace_without_engines_is_refused_with_what_it_holds(run, built):
    result = run("npu", built("llama_like_trace()"))

    assert result.code != 0
    assert "NPU" in result.err


def test_file_with_nothing_recorded_lists_nothing(run, tmp_path):
    target = tmp_path / "bare.json"
    target.write_text(json.dumps(document(engine(0, 1))))

    value = json.loads(run("npu", target, "--json").out)

    assert value["claims"] == value["stalls"] == value["banks"] == value["bits"] == []
    assert value["bandwidth"]["peak"] is None
    assert value["bandwidth"]["above_peak"] is None
    assert {"stalls", "bandwidth", "SPM banks", "bits"} <= set(value["not_recorded"])


def test_corpus_claims_are_those_of_info(run):
    path = need_corpus() / "npu" / "valid_1_llm_all_event_types.json"

    claims = json.loads(run("npu", path, "--json").out)["claims"]
    stated = json.loads(run("info", path, "--json").out)["stated"]

    assert len(claims) == len(stated) > 10
    assert sum(c["agrees"] is False for c in claims) == 7
