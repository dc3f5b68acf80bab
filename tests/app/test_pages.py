"""The pages beside the playground, under AppTest: what they show, and what they say to nonsense."""

from importlib import import_module

import pytest
from streamlit.testing.v1 import AppTest

from app.claims import CLAIMS
from app.engine_job import Told
from app.quiz import sheet
from app.visualizer import PAGES
from tests.app.visiting import address, beside, go, open_page, shown
from tests.waiting import wait_for


def html(page: AppTest) -> str:
    return "".join(element.value for element in page.get("html"))


def errors(page: AppTest) -> list[str]:
    assert not page.exception
    told = [error.value for error in page.error]
    assert all("\n" not in text and "Traceback" not in text for text in told)
    return told


def test_every_page_of_the_navigation_is_there():
    for module in PAGES:
        assert callable(import_module(f"app.{module}").page)


# What a link says.

LINKS = {  # every field that a page's address carries, with a value that is not the usual one
    "predict_page": {"seed": "7"},
    "measured_page": {
        "run_trace": "thrashing", "run_allocator": "max", "run_first": "3", "run_pool_tokens": "2048",
        "run_block_size": "8", "run_max_len": "256", "run_timing": "roofline", "run_seed": "7",
    },
    "kernels_page": {
        "kernel_trace": "thrashing", "kernel_block": "32", "kernel_head": "3", "kernel_sequence": "r3",
        "kernel_needle": "2", "kernel_step": "2", "kernel_walk": "CPU kernel",
    },
    "sweeps_page": {
        "sweep": "my own", "own_lengths": "demo", "own_dial": "pool, slots", "own_requests": "20",
        "own_policies": "paged,mixed", "own_values": "4096",
    },
    "calculator": {"calc_model": "opt-13b", "calc_dtype": "int8", "calc_block": "32", "calc_length": "7",
                   "calc_memory": "40GiB"},
    "claims_page": {"verdicts": "holds", "claim": "linear-growth"},
}  # fmt: skip
# What makes no sense without the field that cannot be read.
ALONE = {"own_dial": {"own_values": "64"}, "verdicts": {"claim": "kv-8kb"}}
FREE_TEXT = ("own_values", "calc_memory")  # nonsense in it is told beside the field


@pytest.mark.parametrize("module", LINKS)
def test_a_link_carries_every_field_of_a_page(module):
    page = open_page(module, **LINKS[module])
    assert [warning.value for warning in page.warning] == []
    assert address(page) == LINKS[module]
    page.run()
    assert address(page) == LINKS[module]


def test_the_kernels_fields_hold_what_their_link_says():
    """Their keys follow from one another's values: nothing but the page itself puts the link's into them."""
    page = open_page("kernels_page", **LINKS["kernels_page"])
    assert [one.value for one in page.slider if one.key.startswith("kernel_needle_r3_")] == [2]
    assert page.session_state["kernel_step"] == 2
    assert page.session_state["kernel_sequence_thrashing_32"] == "r3"


@pytest.mark.parametrize(
    ("module", "name"), [(page, name) for page in LINKS for name in LINKS[page] if name not in FREE_TEXT]
)
def test_nonsense_in_a_link_is_told_and_passed_over(module, name):
    page = open_page(module, **{**LINKS[module], **ALONE.get(name, {}), name: "zzz"})
    (warning,) = page.warning
    assert warning.value.startswith(f"address, {name}=zzz: ")
    assert not errors(page)
    page.run()
    assert not page.warning, "it is told once"


@pytest.mark.parametrize(("module", "name", "value"), [
    ("predict_page", "seed", "-1"), ("measured_page", "run_first", "99999"),
    ("calculator", "calc_block", "0"), ("kernels_page", "kernel_needle", "99999"),
    ("sweeps_page", "own_requests", "5000"),
])  # fmt: skip
def test_a_number_out_of_range_in_a_link_is_told_with_the_range(module, name, value):
    page = open_page(module, **{**LINKS[module], name: value})
    assert [": must be from " in warning.value for warning in page.warning] == [True]


@pytest.mark.parametrize("module", LINKS)
def test_a_page_that_is_come_back_to_is_as_it_was_left(module):
    page = open_page(module, **LINKS[module])
    go(page, "claims_page" if module == "calculator" else "calculator")
    go(page, module)
    assert address(page) == LINKS[module]


def test_every_page_but_the_playground_is_among_these():
    assert {"playground", *LINKS} == set(PAGES)


# Predict.


def test_the_page_plays_the_sheet_that_the_command_prints():
    page = open_page("predict_page", seed="7")
    replay = shown(page)["replay"]
    assert replay["quiz"]["seed"] == 7
    asked = [(one["step"], one["ask"], one["answer"], one["why"]) for one in replay["quiz"]["questions"]]
    assert asked == [(one.step, one.ask, one.answer, one.why) for one in sheet(7)]
    assert page.code[0].value == "pagelab quiz --seed 7"
    page.number_input(key="quiz_seed").set_value(8).run()
    assert [one["ask"] for one in shown(page)["replay"]["quiz"]["questions"]] == [one.ask for one in sheet(8)]
    assert address(page) == {"seed": "8"}


# The calculator.


def test_the_calculator_writes_out_the_formula():
    page = open_page("calculator")
    metrics = {metric.label: metric.value for metric in page.metric}
    assert metrics["KV of a token"] == "131,072 B"
    assert metrics["KV of 500 tokens"] == f"{500 * 131_072:,} B"
    assert "Source: meta-llama/Meta-Llama-3-8B config.json." in html(page)
    assert "2 x 32 layers x 8 kv heads x 128 dims x 2 B" in page.code[0].value
    assert "500 tokens x 131,072 B = 65,536,000 B, held in 32 blocks = 67,108,864 B" in page.code[0].value


def test_sequences_are_whole_blocks():
    page = open_page("calculator")
    page.number_input[0].set_value(512)
    page.number_input[1].set_value(513)
    page.run()
    metrics = {metric.label: metric.value for metric in page.metric}
    blocks = int(metrics["Blocks beside the weights"].replace(",", ""))
    assert metrics["Sequences of 513 tokens"] == f"{blocks // 2:,}"


@pytest.mark.parametrize("memory", ["1GiB", "much", "", "-5GiB"])
def test_memory_that_cannot_be_is_told_beside_the_fields(memory):
    page = open_page("calculator")
    page.text_input[0].set_value(memory)
    page.run()
    assert len(errors(page)) == 1


def test_a_link_restores_the_calculator():
    page = open_page("calculator", calc_memory="40GiB", calc_block="32")
    assert page.text_input[0].value == "40GiB"
    assert page.number_input[0].value == 32


# The claims.


def test_the_claims_page_shows_every_verdict_and_one_claim_in_full():
    page = open_page("claims_page")
    assert sum(int(metric.value) for metric in page.metric) == len(CLAIMS)
    assert page.code[0].value.startswith("pagelab ")
    page.multiselect[0].set_value([])
    page.run()
    assert not errors(page)


def test_a_claim_that_the_filter_hides_makes_room_for_another_without_a_word():
    page = open_page("claims_page", verdicts="holds", claim="linear-growth")
    assert page.selectbox(key="claim").value == "linear-growth"
    page.multiselect(key="verdicts").set_value(["wrong"]).run()
    assert page.selectbox(key="claim").value != "linear-growth"
    assert not page.warning
    assert not errors(page)


# Kernels.


def test_the_kernels_page_steps_through_the_blocks_and_ends_with_dense_attention():
    page = open_page("kernels_page")
    assert "Tokens 0 to 15: block 0" in html(page)
    assert "largest difference" not in html(page).replace("largest difference of any element</td>", "")
    page.button[1].click().run()
    assert "Tokens 16 to 31: block 1" in html(page)
    page.slider(key="kernel_step").set_value(page.slider(key="kernel_step").max).run()
    assert "the engine&#x27;s CPU kernel" in html(page)
    assert not errors(page)


def test_a_link_restores_the_step_and_one_beyond_the_last_is_the_last():
    page = open_page("kernels_page", kernel_step="7")
    assert page.slider(key="kernel_step").value == 7
    beyond = open_page("kernels_page", kernel_walk="CPU kernel", kernel_step="99999")
    assert beyond.slider(key="kernel_step").value == beyond.slider(key="kernel_step").max
    assert "Merge" in "".join(text.value for text in beyond.markdown)
    assert open_page("kernels_page", kernel_step="-1x").slider(key="kernel_step").value == 1


def test_a_block_of_any_size_can_be_looked_at():
    page = open_page("kernels_page")
    for size in (256, 1):
        page.number_input(key="kernel_block").set_value(size).run()
        assert not errors(page)


# Sweeps.


def test_the_papers_sweep_has_two_charts_a_dial_with_words_for_each():
    page = open_page("sweeps_page")
    charts = page.get("vega_lite_chart") or page.get("arrow_vega_lite_chart")
    assert len(charts) == 8
    assert not errors(page)
    assert "0.5 s a token is passed at: max" in html(page)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("8, x", "values, 'x': must be a number"),
        ("", "values: there is none"),
        ("0.5", "must be a whole number"),
    ],
)
def test_values_that_are_none_are_told_beside_the_field(text, told):
    page = open_page("sweeps_page", sweep="my own", own_lengths="demo", own_dial="pool, slots")
    page.text_input(key="own_values_pool_tokens").set_value(text).run()
    (error,) = errors(page)
    assert told in error


def test_policies_without_blocks_have_no_block_size_to_sweep():
    page = open_page("sweeps_page", sweep="my own", own_lengths="demo", own_dial="block_size")
    assert not errors(page)
    page.multiselect(key="own_policies_block_size").set_value(["max"]).run()
    assert errors(page)[0].startswith("policies max: have no blocks")
    page.multiselect(key="own_policies_block_size").set_value([]).run()
    assert errors(page) == ["policies: none is chosen; choose one or more"]


# Simulated vs measured.


def test_nothing_is_measured_before_it_is_asked_for():
    page = open_page("measured_page")
    assert "Nothing has been measured yet" in html(page)
    assert [button.label for button in page.button] == ["Run the engine"]


def test_dials_that_do_not_go_together_stand_with_their_field_and_nothing_can_be_run():
    page = open_page("measured_page")
    page.number_input(key="run_pool_tokens").set_value(8).run()
    assert beside(page.main, "run_pool_tokens") == errors(page) != []
    assert page.button[0].disabled


def test_a_run_is_watched_stopped_and_forgotten_and_no_one_else_sees_it():
    page, other = open_page("measured_page"), open_page("measured_page")
    page.button[0].click().run()
    assert [button.label for button in page.button] == ["Run the engine", "Stop"]
    assert page.button[0].disabled
    other.run()
    assert "engine_job" not in other.session_state
    page.button(key="engine_stop").click().run()
    job = page.session_state["engine_job"]
    job.join(60)
    page.run()
    assert [info.value.split(" at ")[0] for info in page.info] == ["Stopped"]
    assert not page.button[0].disabled


def test_a_finished_run_shows_sentence_bars_residuals_machine_and_player():
    page = open_page("measured_page")
    page.number_input(key="run_first").set_value(2).run()
    page.button[0].click().run()
    job = page.session_state["engine_job"]
    wait_for(lambda: not job.is_active, "the run to end", 120)
    page.run()
    assert isinstance(job.result, Told)
    shown = html(page)
    assert "every block table and every slot agrees" in shown
    assert 'class="badge simulated">simulated<' in shown
    assert 'class="badge measured">measured on a real engine<' in shown
    assert "faulty slots" in shown and "torch" in shown
    assert len(page.get("bidi_component")) == 1
