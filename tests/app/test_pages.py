"""The pages beside the playground, under Streamlit's AppTest."""

from streamlit.testing.v1 import AppTest

from app.claims import CLAIMS


def calculator() -> None:
    from app.calculator import page

    page()


def claims() -> None:
    from app.claims_page import page

    page()


def open_page(script) -> AppTest:
    page = AppTest.from_function(script, default_timeout=120).run()
    assert not page.exception
    return page


def test_the_calculator_writes_out_the_formula():
    page = open_page(calculator)
    assert {metric.label: metric.value for metric in page.metric}["KV of a token"] == "131,072 B"
    assert [caption.value for caption in page.caption] == [
        "A sequence takes 32 blocks of 16. Source: meta-llama/Meta-Llama-3-8B config.json."
    ]
    assert "2 x 32 layers x 8 kv heads x 128 dims x 2 B" in page.code[0].value


def test_sequences_are_whole_blocks():
    page = open_page(calculator)
    page.number_input[0].set_value(512)
    page.number_input[1].set_value(513)
    page.run()
    metrics = {metric.label: metric.value for metric in page.metric}
    blocks = int(metrics["Blocks beside the weights"].replace(",", ""))
    assert metrics["Sequences of 513 tokens"] == f"{blocks // 2:,}"


def test_memory_that_does_not_hold_the_weights_is_told_beside_the_fields():
    page = open_page(calculator)
    page.text_input[0].set_value("1GiB")
    page.run()
    assert not page.exception
    assert len(page.error) == 1
    page.text_input[0].set_value("much")
    page.run()
    assert len(page.error) == 1


def test_the_claims_page_shows_every_verdict_and_one_claim_in_full():
    page = open_page(claims)
    assert sum(int(metric.value) for metric in page.metric) == len(CLAIMS)
    assert page.code[0].value.startswith("pagelab ")
    page.multiselect[0].set_value([])
    page.run()
    assert not page.exception
