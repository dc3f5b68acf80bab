"""Claims about bytes: per token, per page, per request, and what fits where."""

from statistics import mean

from app.claims.claim import GUIDE, Claim, Finding, between, close, where
from app.claims.runs import saturated
from app.paper.published import FIGURE_1
from sim.models import get_model

LLAMA = get_model("llama-2-7b")
LLAMA_70B = get_model("llama-2-70b")
LLAMA_13B = get_model("llama-2-13b")
PER_TOKEN = LLAMA.kv_bytes_per_token("fp16")
PER_LAYER = PER_TOKEN // LLAMA.num_layers
KIB, GIB, GB = 2**10, 2**30, 10**9
PAGE = 512  # tokens, the guide's
GUIDES_FOUR = (256, 512, 384, 128)  # tokens of its requests
CALC = "pagelab calc --model llama-2-7b --block-size 512"
CALC_70B = "pagelab calc --model llama-2-70b"
ELEMENTS = "The guide multiplies 2 x heads x head size and calls the product bytes; it counts numbers"


def per_layer() -> Finding:
    why = f"{ELEMENTS}, and in fp16 each takes two bytes. One-byte caches (int8, fp8) would give 8 KiB."
    return close(8 * KIB, PER_LAYER, f"{PER_LAYER:,} B in fp16", why)


def per_token() -> Finding:
    return close(
        256 * KIB, PER_TOKEN, f"{PER_TOKEN:,} B in fp16", f"{ELEMENTS}: the factor of two bytes is missing."
    )


def per_request() -> Finding:
    total = 4096 * PER_TOKEN
    return close(
        GIB, total, f"{total / GIB:g} GiB", "4,096 tokens of 512 KiB each; the missing factor two again."
    )


def four_requests() -> Finding:
    total = 4 * 4096 * PER_TOKEN
    return close(4 * GIB, total, f"{total / GIB:g} GiB reserved", "Four times 4,096 tokens of 512 KiB each.")


def page_bytes() -> Finding:
    page = LLAMA.kv_bytes_per_block(PAGE, "fp16")
    guide = 256 * KIB * PAGE
    why = (
        f"512 tokens of 512 KiB. Even by the guide's own 256 KiB it would be {guide / 1e6:.0f} MB: "
        f"131 is {guide // KIB:,} KiB read as KB."
    )
    return close(131e6, page, f"{page:,} B", why)


def pages_122() -> Finding:
    page = LLAMA.kv_bytes_per_block(PAGE, "fp16")
    whole, beside = 16 * GB // page, (16 * GB - LLAMA.weights_bytes()) // page
    why = f"A page takes {page / 1e6:.0f} MB; and beside the model's weights only {beside} of them fit."
    return close(122, whole, f"{whole} pages of 512 tokens in 16 GB", why)


def pages_16384() -> Finding:
    page = LLAMA.kv_bytes_per_block(PAGE, "fp16")
    needed = 16384 * page / 1e12
    whole = 16 * GB // page
    why = f"16,384 such pages would take {needed:.1f} TB. Elsewhere the same guide counts 122 pages."
    return close(16384, whole, f"{whole} pages of 512 tokens in 16 GB", why)


def four_pages() -> Finding:
    total = 4 * LLAMA.kv_bytes_per_block(PAGE, "fp16")
    return close(524e6, total, f"{total / 1e6:,.0f} MB", "Four pages of 512 tokens at 512 KiB a token.")


def saving() -> Finding:
    reserved, paged = 4 * 4096, 4 * PAGE
    used = sum(GUIDES_FOUR)
    blocks = 16 * sum(-(-tokens // 16) for tokens in GUIDES_FOUR)
    why = (
        f"{reserved:,} slots against {paged:,}: bytes per token cancel out; 7.6 divides GiB by MB. With "
        f"blocks of 16, {blocks:,} slots would do for the {used:,} tokens: {reserved / blocks:.1f}x."
    )
    return close(7.6, reserved / paged, f"{reserved / paged:.1f}x", why, tolerance=0.02)


def one_page_each() -> Finding:
    pages = [-(-tokens // PAGE) for tokens in GUIDES_FOUR]
    return close(
        4, sum(pages), f"{sum(pages)} pages", "Each of 256, 512, 384 and 128 tokens fits one page of 512."
    )


def kv_14gb() -> Finding:
    longest = LLAMA.max_positions * PER_TOKEN
    why = (
        f"{LLAMA.max_positions:,} tokens of 512 KiB are {longest / GIB:g} GiB. The weights take "
        f"{LLAMA.weights_bytes() / GB:.1f} GB: it seems that they were meant."
    )
    return close(14 * GB, longest, f"{longest / GB:.2f} GB", why)


def two_requests() -> Finding:
    total = 2 * LLAMA.max_positions * PER_TOKEN
    return close(
        28 * GB, total, f"{total / GB:.2f} GB", "Twice the longest sequence; 14 GB each is not its KV cache."
    )


def one_gb_each() -> Finding:
    lengths = {"the guide's four": mean(GUIDES_FOUR), "the longest": LLAMA.max_positions}
    for name in ("sharegpt", "alpaca"):
        lengths[name] = mean(row.prompt + row.output - 1 for row in saturated(name, "paged").trace.requests)
    found = {name: length * PER_TOKEN / GB for name, length in lengths.items()}
    why = f"1 GB holds {GB // PER_TOKEN:,} tokens: paged, a request costs what it stores, not a fixed sum."
    return between(0.95, 1.05, found, " GB", why)


def largest_before() -> Finding:
    memory = 40 * GB
    sequence = LLAMA_13B.max_positions * LLAMA_13B.kv_bytes_per_token("fp16")
    room = {
        "weights alone": memory,
        "beside the KV of a longest sequence of a 13B model": memory - sequence,
        "weights in the share that Figure 1 of the paper gives them": memory
        * FIGURE_1["parameters on an A100-40GB"]
        / 100,
    }
    found = {name: num_bytes / 2 / 1e9 for name, num_bytes in room.items()}
    why = (
        "The most parameters of two bytes that fit. A larger model runs, but the KV of hardly a request fits "
        "beside it; and paging changes nothing of what the weights take."
    )
    return between(7, 13.5, found, " billion parameters", why)


def fits_70b(memory: int) -> Finding:
    weights = LLAMA_70B.weights_bytes()
    why = f"The weights alone take {weights / GB:.0f} GB in fp16; no way to hold KV makes them smaller."
    four_bits = weights // 4
    why += f" At 4 bits they would take {four_bits / GB:.0f} GB, which is quantization, not paging."
    shown = f"{weights:,} B of weights, {memory / GB:.0f} GB of memory"
    return where({"fp16": weights < memory}, shown, why)


def grows_linearly() -> Finding:
    sizes = [LLAMA.kv_bytes_per_token("fp16") * tokens for tokens in (1, 1000, 2000)]
    is_linear = sizes[2] == 2 * sizes[1] == 2000 * sizes[0]
    return where(
        {"every length": is_linear}, f"{sizes[0]:,} B for each token", "Keys and values of a token, once."
    )


def table_overhead() -> Finding:
    shares: dict[str, float] = {}
    for name, block in (("llama-2-7b", 16), ("llama-2-7b", 1), ("opt-13b", 16), ("qwen2.5-0.5b", 1)):
        shares[f"{name}, blocks of {block}"] = 100 * 4 / get_model(name).kv_bytes_per_block(block, "fp16")
    shown = ", ".join(f"{name} {share:.2g} %" for name, share in shares.items())
    return where(
        {name: share < 1 for name, share in shares.items()},
        shown,
        "An entry takes 4 bytes, a block far more.",
    )


def peak_savings() -> Finding:
    weights, peaks = LLAMA_70B.weights_bytes(), (78, 38)
    saved = 100 * (peaks[0] - peaks[1]) / peaks[0]
    why = (
        "The table is of Llama 2 70B: in fp16 its weights fit in neither peak, whatever the KV cache takes. "
        f"The subtraction is right: {peaks[0]} - {peaks[1]} GB are {saved:.1f} % less. At 8 bits the weights "
        f"take {weights / 2 / GB:.0f} GB, at 4 bits {weights / 4 / GB:.0f}, but it says nothing of that."
    )
    cases = {f"{peak} GB": weights <= peak * GB for peak in peaks}
    return where(cases, f"{weights:,} B of weights", why)


SIZES = (
    Claim("kv-8kb", GUIDE, "KV of a token in a layer of Llama 7B", "8 KB", per_layer),
    Claim("kv-256kb", GUIDE, "KV of a token of Llama 7B", "256 KB", per_token, CALC),
    Claim("kv-1gb", GUIDE, "KV reserved for 4,096 tokens of Llama 7B", "1 GB", per_request),
    Claim("kv-4gb", GUIDE, "KV reserved for four such requests", "4 GB", four_requests),
    Claim("page-131mb", GUIDE, "KV of a page of 512 tokens", "131 MB", page_bytes, CALC),
    Claim("pages-122", GUIDE, "pages of 512 tokens in 16 GB", "122", pages_122),
    Claim("pages-16384", GUIDE, "pages of 512 tokens in 16 GB, in another place", "16,384", pages_16384),
    Claim("pages-524mb", GUIDE, "four requests of at most 512 tokens take four pages", "524 MB", four_pages),
    Claim("saving-7.6x", GUIDE, "memory that paging saves for those four", "7.6x", saving),
    Claim(
        "one-page-each",
        GUIDE,
        "requests of 256, 512, 384 and 128 tokens take a page each",
        "4 pages",
        one_page_each,
    ),
    Claim("kv-14gb", GUIDE, "KV of one Llama 2 7B sequence at its maximum length", "14 GB", kv_14gb),
    Claim("two-need-28gb", GUIDE, "two such sequences", "28 GB", two_requests),
    Claim("gb-per-request", GUIDE, "paged, four to six requests take 4 to 6 GB", "1 GB each", one_gb_each),
    Claim(
        "before-13b", GUIDE, "the largest model on an A100-40GB without paging", "7B to 13B", largest_before
    ),
    Claim(
        "70b-on-one",
        GUIDE,
        "with paging one A100-40GB serves a 70B model",
        "yes",
        lambda: fits_70b(40 * GB),
        CALC_70B,
    ),
    Claim(
        "70b-on-two",
        GUIDE,
        "Llama 2 70B was run on two A100-40GB",
        "yes",
        lambda: fits_70b(80 * GB),
        CALC_70B,
    ),
    Claim("linear-growth", GUIDE, "the cache grows with the length of the sequence", "O(n)", grows_linearly),
    Claim(
        "table-below-1-percent",
        GUIDE,
        "block tables take less than 1 % of the KV cache",
        "< 1 %",
        table_overhead,
    ),
    Claim(
        "saved-51-percent",
        GUIDE,
        "Llama 2 70B had peaks of 78 GB, and with paging of 38 GB",
        "51 % saved",
        peak_savings,
        CALC_70B,
    ),
)
