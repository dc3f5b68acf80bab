"""The visualizer's calculator: from a model to bytes, blocks and sequences, with the formula written out."""

import streamlit as st

from app.commands.calc import calculate, explain
from app.fields import choices_of
from sim import Config, InputError

MODEL, MEMORY, MEAN_LENGTH = "llama-3-8b", "80GiB", 500


def page() -> None:
    """Five fields, and what follows from them."""
    st.header("Calculator")
    left, right = st.columns(2)
    with left:
        model = st.selectbox("Model", choices_of("model"), index=choices_of("model").index(MODEL))
        dtype = st.selectbox("Type of cached keys and values", choices_of("kv_dtype"))
        memory = st.text_input(
            "Device memory", MEMORY, help="Such as 12GiB or 40GB; the weights are taken off."
        )
    with right:
        block = st.number_input("Block size (tokens)", min_value=1, max_value=4096, value=16)
        length = st.number_input("Length of a sequence (tokens)", 1, 10_000_000, MEAN_LENGTH)
    try:
        config = Config(model=model, kv_dtype=dtype, memory=memory, block_size=block)
        numbers = calculate(config)
    except InputError as error:
        st.error(str(error))
        return
    blocks_each = -(-length // block)
    sequences = int(numbers["max_blocks"]) // blocks_each
    one, two, three, four = st.columns(4)
    one.metric("KV of a token", f"{int(numbers['kv_bytes_per_token']):,} B")
    two.metric("KV of a block", f"{int(numbers['kv_bytes_per_block']):,} B")
    three.metric("Blocks beside the weights", f"{int(numbers['max_blocks']):,}")
    four.metric(f"Sequences of {length:,} tokens", f"{sequences:,}")
    st.code(explain(config.spec, config, numbers), language=None)
    st.caption(f"A sequence takes {blocks_each:,} blocks of {block}. Source: {config.spec.source}.")
