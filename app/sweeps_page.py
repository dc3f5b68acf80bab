"""The visualizer's page "Sweeps": what block size, pool, rate and policy change, over the paper's points."""

from collections.abc import Sequence
from typing import Any

import streamlit as st

from app.linked import check, one_of, settle, some_of, whole
from app.look import page_head, say, show_table
from app.paper import FIGURES
from app.paper.published import FIGURE_12
from app.small_sweep import (
    DIALS,
    MEASURES,
    MOST_REQUESTS,
    PAPER_POLICIES,
    PAPER_RATE,
    Sweep,
    crossing,
    parse_values,
    policy_names,
    published,
    rows,
)
from app.sweep_charts import alternative, chart
from sim import InputError
from sim.trace import list_builtins

RATES = {"sharegpt": (0.5, 1, 2, 3, 4, 6, 8, 12), "alpaca": (2, 4, 8, 16, 24, 32, 64, 128)}
BLOCK_SIZES = (1, 2, 4, 8, 16, 32, 64, 128, 256)
POOLS = (4096, 8192, 15_728, 32_768, 65_536)
PAPER_BLOCK_RATE = {"sharegpt": 1.75, "alpaca": 28.1}  # requests/s behind Figure 18b
USUAL_VALUES = {"block_size": "8, 16, 32, 64, 128", "pool_tokens": "4096, 8192, 16384", "rate": "1, 2, 4, 8"}
PAPERS, OWN = "the paper's", "my own"
Rows = list[dict[str, Any]]


@st.cache_data(max_entries=64, show_spinner="Simulating ...")
def simulated(sweep: Sweep) -> Rows:
    """The rows of a sweep, once for all visitors."""
    return rows(sweep)


def page() -> None:
    """The paper's four dials, or one's own."""
    page_head(
        "Sweeps",
        "One dial at a time, every point simulated now, here. Lines and bars are ours; diamonds are "
        "what the PagedAttention paper printed (Kwon et al., SOSP 2023).",
    )
    check(sweep=one_of([PAPERS, OWN]), lengths=one_of(PAPER_RATE))
    kind = st.segmented_control(
        "Whose sweep", [PAPERS, OWN], default=PAPERS, required=True, key="sweep", bind="query-params"
    )
    if kind == OWN:
        own_sweep()
        return
    lengths = st.segmented_control(
        "Lengths of requests",
        list(PAPER_RATE),
        default="sharegpt",
        required=True,
        key="lengths",
        bind="query-params",
    )
    papers_sweep(lengths or "sharegpt")


def papers_sweep(lengths: str) -> None:
    """Policy, pool, rate, block size: OPT-13B on an A100-40GB."""
    st.header("Policy", anchor=False)
    show(Sweep(lengths=lengths), ("live_percent", "batch"))
    limits("2" if lengths == "sharegpt" else "13", "13")
    st.header("Pool size", anchor=False)
    show(Sweep(lengths=lengths, dial="pool_tokens", values=POOLS), ("batch", "live_percent"))
    say("The paper has one pool: 15,728 slots, on which its Figure 13 stands.", "quiet")
    st.header("Rate", anchor=False)
    by_rate = Sweep(lengths=lengths, dial="rate", values=RATES[lengths], num_requests=MOST_REQUESTS)
    found = show(by_rate, ("latency", "batch"))
    say(rates_told(found), "quiet")
    limits("12")
    st.header("Block size", anchor=False)
    share = PAPER_BLOCK_RATE[lengths] / FIGURE_12[lengths]["paged"]
    rate = round(share * (crossing(found, "paged") or RATES[lengths][-1]), 3)
    by_size = Sweep(
        lengths=lengths,
        dial="block_size",
        values=BLOCK_SIZES,
        policies=("paged",),
        rate=rate,
        num_requests=600,
    )
    show(by_size, ("latency", "waste_percent"))
    say(f"At {rate:g} requests/s: the same share of what paged keeps up with as in the paper.", "quiet")
    limits("18b")


def limits(*figures: str) -> None:
    """What a model of memory cannot say of these figures."""
    for name in dict.fromkeys(figures):
        say(f"Figure {name}: {FIGURES[name].limits}", "quiet")


def rates_told(found: Rows) -> str:
    """The rate that each policy keeps up with."""
    told = [
        f"{policy} {rate:.3g}/s"
        if (rate := crossing(found, policy))
        else f"{policy} beyond the last rate here"
        for policy in PAPER_POLICIES
    ]
    return f"0.5 s a token is passed at: {', '.join(told)}. Diamonds: the paper's rates at 0.5 s a token."


def show(sweep: Sweep, measures: Sequence[str]) -> Rows:
    """One small chart a measure, and the numbers behind them; or why it cannot be run."""
    try:
        found = simulated(sweep)
    except InputError as error:
        st.error(str(error))
        return []
    for column, measure in zip(st.columns(len(measures)), measures, strict=True):
        paper, y = published(sweep, measure), MEASURES[measure]
        drawn = chart(found, paper, measure=measure, x=DIALS[sweep.dial], y=y)
        column.altair_chart(drawn, width="stretch", alt=alternative(found, paper, measure=measure, y=y))
    with st.expander("The numbers"):
        headings = ("policy", DIALS[sweep.dial], *(MEASURES[measure] for measure in measures))
        cells = [
            (row["policy"], shown(row["x"]), *(shown(row[measure]) for measure in measures)) for row in found
        ]
        show_table(headings, cells, numeric=range(1, len(headings)))
    return found


def shown(value: Any) -> str:
    """A number in four digits, a name as it is, a dash for nothing."""
    if value is None:
        return "-"
    return value if isinstance(value, str) else f"{value:,.4g}"


def own_sweep() -> None:
    """One dial over values of one's own, all measures."""
    traces = [*PAPER_RATE, *(name for name, _ in list_builtins())]
    check(own_lengths=one_of(traces), own_dial=one_of(DIALS.values()), own_requests=whole(1, MOST_REQUESTS))
    one, two, three = st.columns(3)
    lengths = one.selectbox("Requests like", traces, key="own_lengths", bind="query-params")
    dial = two.selectbox(
        "Dial", list(DIALS), format_func=DIALS.__getitem__, key="own_dial", bind="query-params"
    )
    requests = three.number_input("Requests", 1, MOST_REQUESTS, 200, key="own_requests", bind="query-params")
    usual = ["paged"] if dial == "block_size" else list(PAPER_POLICIES)
    settle("own_policies", f"own_policies_{dial}", usual, some_of(policy_names()))
    settle("own_values", f"own_values_{dial}", USUAL_VALUES.get(dial, ""), lambda text: (text, None))
    left, right = st.columns([2, 1])
    policies = left.multiselect(
        "Policies", policy_names(), key=f"own_policies_{dial}", persist_state="session"
    )
    below = left.container()
    text = right.text_input(
        "Values", disabled=dial == "allocator", key=f"own_values_{dial}", persist_state="session"
    )
    beside = right.container()
    try:
        values = parse_values(text, dial) if dial != "allocator" else ()
    except InputError as error:
        beside.error(str(error))
        return
    try:
        sweep = Sweep(
            lengths=lengths, dial=dial, values=values, policies=tuple(policies), num_requests=requests
        )
    except InputError as error:
        (beside if str(error).startswith("values") else below).error(str(error))
        return
    show(sweep, ("live_percent", "waste_percent"))
    show(sweep, ("batch", "latency"))
