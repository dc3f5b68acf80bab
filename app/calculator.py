"""The visualizer's calculator: from a model to bytes, blocks and sequences, with the formula written out."""

import streamlit as st

from app.commands.calc import calculate, explain
from app.fields import choices_of
from app.look import page_head, say
from sim import Config, InputError

MODEL, MEMORY, MEAN_LENGTH = "llama-3-8b", "80GiB", 500


def page() -> None:
    """Five fields, and what follows from them."""
    page_head("Calculator", "From a model to bytes, blocks and sequences, with the formula written out.")
    left, right = st.columns(2)
    models = choices_of("model")
    model = left.selectbox("Model", models, index=models.index(MODEL), key="calc_model", bind="query-params")
    dtype = left.selectbox(
        "Type of cached keys and values", choices_of("kv_dtype"), key="calc_dtype", bind="query-params"
    )
    block = right.number_input("Block size (tokens)", 1, 4096, 16, key="calc_block", bind="query-params")
    length = right.number_input(
        "Length of a sequence (tokens)", 1, 10_000_000, MEAN_LENGTH, key="calc_length", bind="query-params"
    )
    help_text = "Such as 12GiB or 40GB; the weights are taken off."
    memory = left.text_input("Device memory", MEMORY, help=help_text, key="calc_memory", bind="query-params")
    try:
        config = Config(model=model, kv_dtype=dtype, memory=memory, block_size=block)
        numbers = calculate(config)
    except InputError as error:
        left.error(str(error))
        return
    blocks_each = -(-length // block)
    sequences = int(numbers["max_blocks"]) // blocks_each
    with st.container(horizontal=True, gap="large"):
        st.metric("KV of a token", f"{int(numbers['kv_bytes_per_token']):,} B", width="content")
        st.metric("KV of a block", f"{int(numbers['kv_bytes_per_block']):,} B", width="content")
        st.metric("Blocks beside the weights", f"{int(numbers['max_blocks']):,}", width="content")
        st.metric(f"Sequences of {length:,} tokens", f"{sequences:,}", width="content")
    st.code(explain(config.spec, config, numbers), language=None, wrap_lines=True)
    say(f"A sequence takes {blocks_each:,} blocks of {block}. Source: {config.spec.source}.", "quiet")
