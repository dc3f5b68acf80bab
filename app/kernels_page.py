"""The visualizer's page "Kernels": which blocks a decode kernel reads, and what it does with them."""

from typing import Any

import streamlit as st

from app.fields import MOST
from app.kernels_picture import caption, merge_rows, numbers, pool_picture, scores_picture, table_picture
from app.linked import check, one_of, settle, whole
from app.look import page_head, say, show, show_table
from app.online_softmax import NUM_HEADS, NUM_KV_HEADS, Case, Walk, Walked, make_case, walk, walks
from app.sequences import Held, sequences
from sim import InputError, Trace

MOST_BLOCK = 256
TRACES = {"demo": 4096, "four-requests": 8192, "long-tail": 15_728, "thrashing": 4096}  # and their pools
KEYS = {
    "read": "read before",
    "now": "read in this step",
    "later": "comes later",
    "others": "another's, or free: holds NaN here, never read",
}


@st.cache_data(max_entries=16, show_spinner="Simulating the trace ...")
def held_by(trace: str, block_size: int) -> dict[str, Held]:
    """The sequences of a built-in trace."""
    return sequences(Trace.read(trace), pool_tokens=TRACES[trace], block_size=block_size)


def page() -> None:
    """Choose a sequence, then step through its blocks."""
    page_head(
        "Block tables and kernels",
        "One sequence, one query. The kernel follows the block table from block to block and keeps only a "
        "maximum, a sum and one vector; at the end it has what attention over contiguous memory gives.",
    )
    chosen = choose()
    if chosen is None:
        return
    case, how, head = chosen
    walked = walk(case, how, head)
    at = choose_step(len(walked.steps))
    show_step(case, walked, how, at)
    if at == len(walked.steps) - 1:
        show_end(walked, how)
    else:
        say(
            f"{len(walked.steps) - 1 - at} more to come; the last shows the merge and the comparison.",
            "quiet",
        )


def choose() -> tuple[Case, Walk, int] | None:
    """The sequence with its tensors, the walk and the head; None with the reason said beside the field."""
    check(kernel_trace=one_of(TRACES), kernel_block=whole(1, MOST_BLOCK), kernel_head=whole(0, NUM_HEADS - 1))
    one, two, three, four = st.columns([3, 3, 2, 2])
    trace = one.selectbox("Trace", list(TRACES), key="kernel_trace", bind="query-params")
    block_size = three.number_input("Block size", 1, MOST_BLOCK, 16, key="kernel_block", bind="query-params")
    head = four.number_input("Query head", 0, NUM_HEADS - 1, key="kernel_head", bind="query-params")
    try:
        known = held_by(trace, block_size)
    except InputError as error:
        three.error(str(error))
        return None
    names = list(known)
    usual = next((place for place, name in enumerate(names) if known[name].num_tokens <= 320), 0)
    key = f"kernel_sequence_{trace}_{block_size}"
    settle("kernel_sequence", key, names[usual], one_of(names))
    name = two.selectbox(
        "Sequence",
        names,
        format_func=lambda name: f"{name}: {known[name].num_tokens:,} tokens",
        key=key,
        persist_state="session",
    )
    held = known[name]
    left, right = st.columns([3, 2])
    ways = walks(block_size, held.num_tokens)
    check(kernel_walk=one_of(ways))
    way = left.segmented_control(
        "How it walks",
        list(ways),
        default="block by block",
        required=True,
        key="kernel_walk",
        bind="query-params",
    )
    key, last = f"kernel_needle_{name}_{held.num_tokens}", max(1, held.num_tokens - 1)
    settle("kernel_needle", key, held.num_tokens * 5 // 8, whole(0, last))
    needle = right.slider(
        "Token that the query looks for",
        0,
        last,
        key=key,
        persist_state="session",
        help="Its key points along the query, so that it gets most of the weight. The others are random.",
    )
    how = ways[way or "block by block"]
    tiles = "once a block" if way == "block by block" else f"every {how.tile} tokens"
    parted = f", in chunks of {how.chunk} tokens" if how.chunk < held.num_tokens else ", in one chunk"
    say(
        f"{name} at step {held.step}: {held.num_tokens:,} tokens in {len(held.table)} blocks. The maximum is "
        f"looked at {tiles}{parted}. Head {head} of {NUM_HEADS} reads kv head "
        f"{head * NUM_KV_HEADS // NUM_HEADS} of {NUM_KV_HEADS}.",
        "quiet",
    )
    num_blocks = TRACES[trace] // block_size
    needle = min(needle, held.num_tokens - 1)
    return make_case(held.table, held.num_tokens, block_size, num_blocks, needle=needle), how, head


def choose_step(num_steps: int) -> int:
    """Which step to look at, from 0; the last, where the address or another walk had more."""
    key = "kernel_step"
    settle(key, key, 1, whole(1, MOST))
    st.session_state[key] = min(st.session_state[key], num_steps)
    if num_steps == 1:
        say("One step reads it all.", "quiet")
        return 0

    def move(by: int) -> None:
        st.session_state[key] = min(max(st.session_state[key] + by, 1), num_steps)

    buttons, bar = st.columns([2, 5], vertical_alignment="bottom")
    with buttons.container(horizontal=True):
        st.button("Back", on_click=move, args=(-1,), shortcut="Shift+Left")
        st.button("Next", on_click=move, args=(1,), shortcut="Shift+Right")
    return bar.slider("Step", 1, num_steps, key=key, persist_state="session") - 1


def show_step(case: Case, walked: Walked, how: Walk, at: int) -> None:
    """One step: table, pool, scores, numbers."""
    step = walked.steps[at]
    show(f'<p aria-live="polite">{caption(step, case)}</p>')
    st.markdown("**Block table**, in the order in which it is read: logical over physical block")
    show(table_picture(case, walked, at))
    st.markdown("**The pool**, where they lie")
    key = "".join(f'<li><i class="{name}"></i>{text}</li>' for name, text in KEYS.items())
    show(f'{pool_picture(case, walked, at)}<ul class="key">{key}</ul>')
    unit = "scores, times log2 e" if how.is_base_2 else "scores"
    st.markdown(f"**Query · key** of every token so far ({unit}), and the running maximum")
    show(scores_picture(walked, at))
    st.markdown("**Online softmax**, after this step")
    show_table(("", "how", "is now"), numbers(step, how), numeric=(2,))


def show_end(walked: Walked, how: Walk) -> None:
    """The merge of the chunks, and the result against other ways."""
    if len(walked.parts) > 1:
        st.markdown("**Merge** of the chunks, which were walked apart from one another")
        headings = ("", "tokens", "maximum", "sum", "counts", "share of all weight")
        show_table(headings, merge_rows(walked.parts, how), numeric=(2, 3, 5))
    st.markdown("**Against dense attention**: softmax over all scores at once, keys and values contiguous")
    rows: list[tuple[str, Any]] = [(name, f"{error:.2e}") for name, error in walked.errors.items()]
    show_table(("computed by", "largest difference of any element"), rows, numeric=(1,))
