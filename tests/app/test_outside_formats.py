"""What other tools read: OpenMetrics for Prometheus, Parquet for pandas and DuckDB."""

import json
from pathlib import Path
from random import Random

import numpy as np
import pandas as pd
import pytest

from app.cli import run as pagelab
from app.prometheus import METRICS, write_prometheus
from sim import Config, Run, simulate
from sim.series import COLUMNS
from tests.making import random_dials, random_trace

parser = pytest.importorskip("prometheus_client.openmetrics.parser")
DATA = Path(__file__).parent / "data"
TIGHT = ["--pool-tokens", "1024", "--max-len", "512", "--prefix-cache", "hash", "--quiet"]


def samples(path: Path) -> dict[str, list]:
    """By the sample's name; the parser refuses what breaks the format, such as a time that goes back."""
    families = parser.text_string_to_metric_families(path.read_text())
    return {name: list(rows) for name, rows in _by_name(families).items()}


def _by_name(families) -> dict[str, list]:
    found: dict[str, list] = {}
    for family in families:
        for sample in family.samples:
            found.setdefault(sample.name, []).append(sample)
    return found


def written(run: Run, path: Path) -> dict[str, list]:
    with path.open("wb") as out:
        write_prometheus([(run.config.allocator, run)], out)
    return samples(path)


@pytest.mark.parametrize("seed", range(12))
def test_metrics_are_those_of_the_run_under_any_dials(seed: int, tmp_path: Path):
    random = Random(seed)
    run = simulate(random_trace(random, 12), Config(**random_dials(random)))
    found = written(run, tmp_path / "run.prom")
    report = run.report()
    assert {sample.value for sample in found["vllm:num_requests_running"]} <= set(
        run.series.column("running")
    )
    last = found["vllm:kv_cache_usage_perc"][-1]
    free = sum(run.series.column(name)[-1] for name in ("free", "external", "cached"))
    assert last.value == pytest.approx(1 - free / run.series.column("pool")[-1])
    assert float(last.timestamp) == pytest.approx(run.series.column("time")[-1], abs=6e-4)
    assert found["vllm:num_preemptions_total"][0].value == report["preemptions"]
    assert found["vllm:request_success_total"][0].value == report["requests"]["finished"]
    assert found["vllm:generation_tokens_total"][0].value == sum(r["emitted"] for r in report["per_request"])
    assert found["vllm:iteration_tokens_total_sum"][0].value == run.series.column("tokens").sum()
    if mean := report["latency"]["ttft"]["mean"]:
        total = found["vllm:time_to_first_token_seconds_sum"][0].value
        assert total / found["vllm:time_to_first_token_seconds_count"][0].value == pytest.approx(mean)


def test_slots_by_class_sum_to_the_pool_at_every_sample(tmp_path: Path):
    path = tmp_path / "run.prom"
    assert pagelab(["simulate", "demo", *TIGHT, "--prometheus", str(path)]) == 0
    found = samples(path)
    classes = [rows for name, rows in found.items() if name.startswith("pagelab:kv_slots_")]
    assert len(classes) == 7
    assert {sum(sample.value for sample in step) for step in zip(*classes, strict=True)} == {1024}


def test_a_bucket_counts_what_is_at_most_its_bound(tmp_path: Path):
    run = simulate(random_trace(Random(1), 20), Config(pool_tokens=400, max_len=80, timing="unit"))
    found = written(run, tmp_path / "run.prom")
    ends = np.array([row["finish"] - row["arrival"] for row in run.requests if row["finish"] is not None])
    for sample in found["vllm:e2e_request_latency_seconds_bucket"]:
        assert sample.value == (ends <= float(sample.labels["le"])).sum()


def test_two_runs_share_a_file_and_are_told_apart_by_labels(tmp_path: Path):
    path = tmp_path / "run.prom"
    both = ["--allocator", "max", "--allocator", "paged", "--prometheus", str(path)]
    assert pagelab(["simulate", "demo", "--pool-tokens", "1024", "--max-len", "512", "--quiet", *both]) == 0
    engines = [sample.labels["engine"] for sample in samples(path)["vllm:num_preemptions_total"]]
    assert engines == ["max", "paged"]


def test_names_are_vllms_or_say_that_they_are_ours():
    """`data/vllm_metrics.txt` is what vLLM 0.32 registers: one that it dropped once stood here as its own."""
    known = dict(line.split() for line in (DATA / "vllm_metrics.txt").read_text().splitlines())
    for metric in METRICS:
        if not metric.name.startswith("pagelab:"):
            assert known.get(metric.name) == metric.kind, metric.name


def test_a_model_s_path_with_quotes_and_backslashes_is_escaped(tmp_path: Path):
    from app.prometheus import _escaped

    text = 'a"b\\c\nd'
    line = f'x{{model="{_escaped(text)}"}} 1\n# EOF\n'
    (family,) = parser.text_string_to_metric_families(f"# TYPE x gauge\n{line}")
    assert family.samples[0].labels["model"] == text


def test_parquet_holds_what_csv_and_json_hold(tmp_path: Path):
    names = {kind: tmp_path / f"{kind}.parquet" for kind in ("series", "per-request", "events")}
    plain = {"series": tmp_path / "s.csv", "per-request": tmp_path / "r.csv", "events": tmp_path / "e.jsonl"}
    for places in (names, plain):
        options = [part for kind, path in places.items() for part in (f"--{kind}", str(path))]
        assert pagelab(["simulate", "demo", *TIGHT, *options]) == 0
    pd.testing.assert_frame_equal(
        pd.read_parquet(names["series"])[list(COLUMNS)], pd.read_csv(plain["series"]), check_dtype=False
    )
    requests, rows = pd.read_parquet(names["per-request"]), pd.read_csv(plain["per-request"])
    assert requests["id"].tolist() == rows["id"].tolist()
    assert [" ".join(map(str, one)) for one in requests["prefills"]] == rows["prefills"].astype(str).tolist()
    events = pd.read_parquet(names["events"])
    lines = [json.loads(line) for line in plain["events"].read_text().splitlines()]
    for name in ("kind", "step", "time", "why"):
        assert events[name].tolist() == [line[name] for line in lines]
    blocks = [
        list(one) for one, kind in zip(events["blocks"], events["kind"], strict=True) if kind == "alloc"
    ]
    assert blocks == [line["blocks"] for line in lines if line["kind"] == "alloc"]


def test_a_run_that_fails_leaves_the_old_parquet_file_as_it_was(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
):
    path = tmp_path / "events.parquet"
    path.write_text("earlier")

    def fails(*_):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("app.parquet.events_table", fails)
    assert pagelab(["simulate", "demo", *TIGHT, "--events", str(path)]) == 2
    assert path.read_text() == "earlier"
    assert [one.name for one in tmp_path.iterdir()] == ["events.parquet"]
