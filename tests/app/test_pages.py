"""The pages beside the playground, under AppTest: what they show, and what they say to nonsense."""

from importlib import import_module

import pytest
from streamlit.testing.v1 import AppTest

from app.claims import CLAIMS
from app.engine_job import Told
from app.visualizer import PAGES
from tests.waiting import wait_for


def show(module: str) -> None:
    from importlib import import_module

    import_module(f"app.{module}").page()


def open_page(module: str, **query: str) -> AppTest:
    page = AppTest.from_function(show, kwargs={"module": module}, default_timeout=240)
    for name, value in query.items():
        page.query_params[name] = value
    page.run()
    assert not page.exception
    return page


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


# The calculator.


def test_the_calculator_writes_out_the_formula():
    page = open_page("calculator")
    assert {metric.label: metric.value for metric in page.metric}["KV of a token"] == "131,072 B"
    assert "A sequence takes 32 blocks of 16. Source: meta-llama/Meta-Llama-3-8B config.json." in html(page)
    assert "2 x 32 layers x 8 kv heads x 128 dims x 2 B" in page.code[0].value


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
    assert errors(page)
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
