"""The visualizer's calculator: from a model to bytes, blocks and sequences, with the formula written out."""

import streamlit as st

from app.commands.calc import calculate, explain
from app.fields import choices_of
from app.linked import check, one_of, whole
from app.look import page_head, say
from sim import Config, InputError

MODEL, MEMORY, MEAN_LENGTH = "llama-3-8b", "80GiB", 500
MOST_BLOCK, MOST_LENGTH = 4096, 10_000_000


def page() -> None:
    """Five fields, and what follows from them."""
    page_head("Calculator", "From a model to bytes, blocks and sequences, with the formula written out.")
    models, dtypes = choices_of("model"), choices_of("kv_dtype")
    check(
        calc_model=one_of(models),
        calc_dtype=one_of(dtypes),
        calc_block=whole(1, MOST_BLOCK),
        calc_length=whole(1, MOST_LENGTH),
    )
    left, right = st.columns(2)
    model = left.selectbox("Model", models, index=models.index(MODEL), key="calc_model", bind="query-params")
    dtype = left.selectbox("Type of cached keys and values", dtypes, key="calc_dtype", bind="query-params")
    block = right.number_input(
        "Block size (tokens)", 1, MOST_BLOCK, 16, key="calc_block", bind="query-params"
    )
    length = right.number_input(
        "Length of a sequence (tokens)", 1, MOST_LENGTH, MEAN_LENGTH, key="calc_length", bind="query-params"
    )
    help_text = "Such as 12GiB or 40GB; the weights are taken off."
    memory = left.text_input("Device memory", MEMORY, help=help_text, key="calc_memory", bind="query-params")
    try:
        config = Config(model=model, kv_dtype=dtype, memory=memory, block_size=block)
        numbers = calculate(config)
    except InputError as error:
        left.error(str(error))
        return
    token_bytes, block_bytes = int(numbers["kv_bytes_per_token"]), int(numbers["kv_bytes_per_block"])
    num_blocks, blocks_each = int(numbers["max_blocks"]), -(-length // block)
    with st.container(horizontal=True, gap="large"):
        st.metric("KV of a token", f"{token_bytes:,} B", width="content")
        st.metric("KV of a block", f"{block_bytes:,} B", width="content")
        st.metric(f"KV of {length:,} tokens", f"{length * token_bytes:,} B", width="content")
        st.metric("Blocks beside the weights", f"{num_blocks:,}", width="content")
        st.metric(f"Sequences of {length:,} tokens", f"{num_blocks // blocks_each:,}", width="content")
    sequence = (
        f"  one sequence  {length:,} tokens x {token_bytes:,} B = {length * token_bytes:,} B, "
        f"held in {blocks_each:,} blocks = {blocks_each * block_bytes:,} B\n"
        f"  sequences     {num_blocks:,} blocks / {blocks_each:,} = {num_blocks // blocks_each:,}"
    )
    formula = f"{explain(config.spec, config, numbers)}\n{sequence}"
    st.code(formula, language=None, wrap_lines=True)
    say(f"Source: {config.spec.source}.", "quiet")
