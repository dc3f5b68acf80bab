"""Claims about the paper itself, held against what it and its authors published."""

from app.claims.claim import GUIDE, TOPIC, Claim, Finding, between, close, unknowable, where
from app.claims.runs import RESERVING, saturated, waste

# Kwon et al., "Efficient Memory Management for Large Language Model Serving with PagedAttention",
# arXiv 2309.06180; vLLM's announcement of 2023-06-20 on its blog.
PAPER = {
    "venue": "SOSP 2023",
    "arxiv": "2309.06180",
    "blog": "2023-06-20",
    "models": ("OPT-13B", "OPT-66B", "OPT-175B", "LLaMA-13B"),
    "hardware": ("A100-40GB", "A100-80GB"),
    "block_size": 16,  # section 7.2
    "vllm_block_size": 16,  # default of its engine's arguments, v0.1.7
    "throughput": (2, 4),  # abstract, over FasterTransformer and Orca
    "waste_percent": 3.7,  # Figure 2: 100 - 96.3
    "beam_saving_percent": 55.2,  # section 6.3
}


def venue(claimed: str) -> Finding:
    why = f"Proceedings of the 29th Symposium on Operating Systems Principles; arXiv {PAPER['arxiv']}."
    return where({claimed: claimed == PAPER["venue"]}, str(PAPER["venue"]), why)


def introduced() -> Finding:
    year, month = str(PAPER["arxiv"])[:2], str(PAPER["arxiv"])[2:4]
    dates = {"the announcement": str(PAPER["blog"])[:7], "the paper": f"20{year}-{month}"}
    shown = ", ".join(f"{name} {date}" for name, date in dates.items())
    return where(
        {name: date == "2023-06" for name, date in dates.items()}, shown, "vLLM came before the paper."
    )


def default_block() -> Finding:
    default = int(str(PAPER["vllm_block_size"]))
    why = "512 is a common size of other things; the paper finds that blocks above 128 cost throughput."
    return close(512, default, f"{default} in vLLM 0.1.7, {PAPER['block_size']} in the paper (7.2)", why)


def typical_block() -> Finding:
    found = {"vLLM 0.1.7": PAPER["vllm_block_size"], "the paper (7.2)": PAPER["block_size"]}
    shown = ", ".join(f"{name} {size}" for name, size in found.items())
    why = "Both defaults, as published."
    return where({name: size == 16 for name, size in found.items()}, shown, why)


def benchmark_model() -> Finding:
    shown = "the paper's models: " + ", ".join(PAPER["models"])  # type: ignore[arg-type]
    why = "Llama 2 was published a month after vLLM's announcement; the paper has no such table."
    return where({"Llama 2 70B": "Llama-2-70B" in PAPER["models"]}, shown, why)  # type: ignore[operator]


def paper_throughput() -> Finding:
    low, high = PAPER["throughput"]  # type: ignore[misc]
    why = "The table is said to be from the paper, whose abstract claims 2 to 4 times the systems before it."
    return where({"10 to 20x": low <= 10 and high >= 20}, f"{low} to {high}x", why)  # type: ignore[operator]


def efficiency() -> Finding:
    waste = 100 - 58
    why = (
        f"An efficiency of 58 % is a waste of {waste} %: the guide's own table says 5 to 10 %, "
        f"the paper {PAPER['waste_percent']} %."
    )
    return where({"both of the guide's figures": 5 <= waste <= 10}, f"{waste} % waste", why)


def pytorch_efficiency() -> Finding:
    found = {name: 100 - waste(saturated("sharegpt", name)) for name in RESERVING}
    why = (
        "What is live of the slots that reservations hold, ShareGPT lengths. The guide has two other figures "
        f"for it: {100 - 88} % where 88 % are wasted, and 20 to 40 % where 60 to 80 % are."
    )
    return between(0.95 * 28, 1.05 * 28, found, " %", why)


SOURCES = (
    Claim("venue-osdi", GUIDE, "where the paper appeared", "OSDI 2023", lambda: venue("OSDI 2023")),
    Claim(
        "venue-sosp",
        TOPIC,
        "where the paper appeared, in the other document",
        "SOSP 2023",
        lambda: venue("SOSP 2023"),
    ),
    Claim("june-2023", GUIDE, "when paging was introduced", "June 2023", introduced),
    Claim("block-512", GUIDE, "vLLM's default page", "512 tokens", default_block),
    Claim("block-16", TOPIC, "vLLM's usual block", "16 tokens", typical_block),
    Claim("benchmark-70b", GUIDE, "the paper measured Llama 2 70B on two A100-40GB", "yes", benchmark_model),
    Claim("benchmark-20x", GUIDE, "the paper's table shows", "10 to 20x", paper_throughput),
    Claim("efficiency-58", GUIDE, "memory efficiency of vLLM in that table", "58 %", efficiency),
    Claim("efficiency-28", GUIDE, "memory efficiency of PyTorch in that table", "28 %", pytorch_efficiency),
    Claim(
        "adopted-by",
        GUIDE,
        "other servers have adopted paging",
        "vLLM, TGI",
        lambda: unknowable("A statement about other projects at some time: nothing here computes it."),
    ),
    Claim(
        "tokens-per-second",
        GUIDE,
        "tokens per second of PyTorch, TensorRT and vLLM",
        "50 to 2,000",
        lambda: unknowable("No trace, batch or length is given with which a run could be compared."),
    ),
)
