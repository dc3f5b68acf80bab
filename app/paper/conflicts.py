"""Where the paper's text and its figures say different things, in sentences computed from both."""

from app.paper.published import (
    FIGURE_12,
    FIGURE_12_LARGER,
    FIGURE_19_RECOMPUTE,
    FIGURE_19_SWAP,
    SECTION_6_2,
    SECTION_6_2_FT,
    SYSTEMS,
    TABLE_1,
)
from sim.models import get_model

GIB = 2**30


def gains(lengths: str, over: str) -> dict[str, float]:
    """vLLM's rate over another's in figure 12, by model."""
    plots = {"OPT-13B": FIGURE_12[lengths]}
    plots |= {model: rates for (model, of), rates in FIGURE_12_LARGER.items() if of == lengths}
    return {model: rates["paged"] / rates[over] for model, rates in plots.items()}


def figure_12_text() -> str:
    """What section 6.2 says of ShareGPT's plots, against the rates at 0.5 s a token."""
    told: list[str] = []
    for system, (low, high) in SECTION_6_2.items():
        found = gains("sharegpt", system)
        least = min(found, key=lambda name: found[name])
        told.append(
            f"{low} to {high} times {SYSTEMS[system]}'s rate, the plots {found[least]:.2f} ({least}) to "
            f"{max(found.values()):.2f}"
        )
    most = max(gains("sharegpt", "ft").values())
    by_size = ", ".join(f"{gain:.2f} for {name}" for name, gain in gains("sharegpt", "oracle").items())
    return (
        f"For ShareGPT the text says {'; '.join(told)}; up to {SECTION_6_2_FT} times {SYSTEMS['ft']}'s, the "
        f"plots {most:.1f} at 0.5 s a token, and something else at another latency. The gain over Oracle "
        f"does not grow with the model: {by_size}."
    )


def table_1_text() -> str:
    """What table 1 prints of the larger servers, against its own numbers."""
    printed, slots = TABLE_1["OPT-175B"]["parameters"], TABLE_1["OPT-66B"]["slots"]
    needed = slots * get_model("opt-66b").kv_bytes_per_token("fp16") / GIB
    return (
        f"Table 1 has {printed} GB of parameters for OPT-175B, where 175 billion of 2 bytes are {2 * 175} "
        f"GB, and {slots:,} slots for OPT-66B, whose KV takes {needed:.1f} GiB, in "
        f"{TABLE_1['OPT-66B']['cache']} GB."
    )


def figure_19_text() -> str:
    """Recomputation over swap, which section 7.3 says is never above 20 %."""
    least, most = FIGURE_19_RECOMPUTE
    shares = 100 * least / max(FIGURE_19_SWAP.values()), 100 * most / min(FIGURE_19_SWAP.values())
    return (
        "The text says that recomputation is 'never higher than 20 %' of swapping's latency; in the figure "
        f"it is {shares[0]:.0f} % of it with blocks of 1 and {shares[1]:.0f} % with blocks of 256. At most "
        f"{shares[1] - 100:.0f} % slower would be true."
    )


FIGURE_12_TEXT, TABLE_1_TEXT, FIGURE_19_TEXT = figure_12_text(), table_1_text(), figure_19_text()
