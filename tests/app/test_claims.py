"""The claims ledger: its verdicts follow from what is computed, and every entry's command runs."""

import json
import re
import shlex
from pathlib import Path

import pytest
from click.testing import CliRunner

from app.claims import CLAIMS, Verdict, allocation, sources, waste
from app.claims.allocation import contiguous_allocation, contiguous_ms, first_token
from app.claims.claim import between, close, where
from app.claims.sharing import copied_when_appending
from app.cli import cli

# The faults that the two documents are known for, with the verdict that each deserves.
KNOWN = {
    "waste-88": "holds", "request-5-waits": "wrong", "kv-8kb": "wrong", "kv-256kb": "wrong",
    "pages-16384": "wrong", "pages-122": "wrong", "block-512": "wrong", "saving-7.6x": "wrong",
    "prompt-shared-by-100": "conditional", "modulo-rule": "conditional", "pseudo-kernel": "wrong",
    "concurrent-4s": "conditional", "waste-60-80": "conditional", "waste-5-10": "conditional",
    "near-100": "conditional", "throughput-10-40x": "conditional", "paged-1ms": "wrong",
    "saved-51-percent": "wrong", "batch-of-2": "conditional", "rate-0.2-0.3": "conditional",
    "three-pages-for-512": "wrong", "two-pages-for-512": "conditional", "reallocation": "conditional",
    "before-13b": "conditional", "gb-per-request": "wrong", "ttft-150ms": "conditional", "ttft-51ms": "holds",
    "28-42-sequentially": "conditional", "efficiency-28": "conditional", "table-compression": "wrong",
    "compression-length": "wrong", "sketch-append": "wrong", "sketch-allocate": "wrong",
    "sketch-scheduler": "wrong", "sketch-frees": "wrong", "table-shape": "wrong", "block-16": "holds",
    "table-below-1-percent": "holds", "70b-on-two": "wrong", "70b-on-one": "wrong",
    "kv-14gb": "wrong", "drafts-free-pages": "wrong", "venue-osdi": "wrong", "venue-sosp": "holds",
    "math-unchanged": "holds", "adopted-by": "not-checkable",
}  # fmt: skip


@pytest.fixture(scope="module")
def ledger() -> dict[str, dict[str, str]]:
    result = CliRunner().invoke(cli, ["claims", "--json"])
    assert result.exit_code == 0, result.output
    return {entry["id"]: entry for entry in json.loads(result.output)["claims"]}


def test_there_are_enough_and_each_is_complete(ledger: dict[str, dict[str, str]]):
    assert len(ledger) >= 80
    fields = {"id", "source", "text", "claimed", "computed", "verdict", "why", "command"}
    for entry in ledger.values():
        assert set(entry) == fields
        assert entry["verdict"] in set(Verdict)
        assert all(entry[name] for name in fields - {"computed"})
        assert bool(entry["computed"]) or entry["verdict"] == "not-checkable"


@pytest.mark.parametrize(("id", "verdict"), KNOWN.items())
def test_the_known_faults_are_found(ledger: dict[str, dict[str, str]], id: str, verdict: str):
    assert ledger[id]["verdict"] == verdict, ledger[id]


@pytest.mark.parametrize("id", CLAIMS)
def test_every_command_runs_and_prints_the_figure(ledger: dict[str, dict[str, str]], id: str):
    program, *arguments = shlex.split(CLAIMS[id].command)
    result = CliRunner().invoke(cli, arguments)
    assert program == "pagelab"
    assert result.exit_code == 0, result.output
    computed = ledger[id]["computed"]
    figure = (
        computed if arguments[0] == "claims" else computed.partition(" ")[0]
    )  # others say it in words of theirs
    assert figure in result.output


def test_no_command_prints_a_figure_by_printing_another_claim():
    for claim in CLAIMS.values():
        program, name, *arguments = shlex.split(claim.command)
        assert program == "pagelab"
        assert name != "claims" or arguments == [claim.id]


def test_memory_costs_when_it_is_touched():
    found = contiguous_ms()
    assert found["torch.zeros"] > 3 * found["torch.empty"]
    assert found["torch.empty, written once"] > 3 * found["torch.empty"]


def test_what_the_machine_takes_to_allocate_decides_both_verdicts(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setattr(allocation, "page", lambda: 0.0)
    for milliseconds, of_allocating, of_first_token in (
        ({"untouched": 0.04, "zeros": 1000.0}, "wrong", "wrong"),
        ({"untouched": 0.04, "zeros": 150.0}, "conditional", "wrong"),
        ({"untouched": 0.04, "zeros": 100.0}, "conditional", "conditional"),
        ({"zeros": 100.0}, "holds", "holds"),
    ):
        monkeypatch.setattr(allocation, "contiguous_ms", lambda found=milliseconds: found)
        assert contiguous_allocation().verdict == of_allocating
        assert first_token().verdict == of_first_token


def test_block_sizes_are_judged_by_what_was_published_not_by_our_own_default(monkeypatch: pytest.MonkeyPatch):
    monkeypatch.setitem(sources.PAPER, "vllm_block_size", 512)
    assert sources.default_block().verdict is Verdict.HOLDS
    assert sources.typical_block().verdict is Verdict.CONDITIONAL


def test_verdicts_are_computed_not_written_down():
    assert close(10, 10.4, "", "").verdict is Verdict.HOLDS
    assert close(10, 11, "", "").verdict is Verdict.WRONG
    assert between(1, 2, {"a": 1.5, "b": 2.0}, "", "").verdict is Verdict.HOLDS
    some = between(1, 2, {"a": 1.5, "b": 3.0}, "", "It depends.")
    assert some.verdict is Verdict.CONDITIONAL
    assert some.why == "True for a; not for b. It depends."
    assert where({"a": False}, "", "").verdict is Verdict.WRONG


def test_the_fifth_request_waits_where_it_comes_before_anyone_has_left(monkeypatch: pytest.MonkeyPatch):
    original = waste.request
    monkeypatch.setattr(waste, "request", lambda id, *tokens, **more: original(id, *tokens, arrival_s=1.0))
    assert waste.request_5().verdict is Verdict.HOLDS


def test_a_hundred_samples_of_twelve_tokens_copy_the_block_that_they_begin():
    finding = copied_when_appending()
    assert finding.computed == "blocks of 4: 0 copies, blocks of 16: 99 copies, blocks of 512: 99 copies"


def test_the_readme_counts_the_claims():
    text = (Path(__file__).parents[2] / "README.md").read_text(encoding="utf-8")
    said = re.search(r"`pagelab claims` lists (\d+) statements", text)
    assert said
    assert int(said[1]) == len(CLAIMS)


def test_a_wrong_name_is_refused_with_the_nearest():
    from app.cli import run

    assert run(["claims", "wast-88"]) == 2


def test_the_table_counts_its_verdicts():
    result = CliRunner().invoke(cli, ["claims", "--verdict", "not-checkable"])
    assert "3 claims: 3 not-checkable" in result.output
