# %% [markdown]
# # 1. Why a KV cache, and what it weighs
#
# The word `the` takes 3 bytes in a file. On a server that runs OPT-13B it takes **819,200 bytes**, for as long as
# its request runs. A cache of keys and values (KV cache) trades arithmetic for memory. This lesson counts
# both sides of the trade.
#
# *You need*: what attention does with queries, keys and values; a little NumPy.
# *Time*: 40 minutes. *Runs on*: any laptop.

# %%
from collections import Counter

import numpy as np

from lessons import pictures_cache
from lessons.checks import cache as checks
from sim.hardware import HARDWARE
from sim.models import MODELS, parse_bytes

bytes_of_the = MODELS["opt-13b"].kv_bytes_per_token("fp16")
assert f"{bytes_of_the:,}" == "819,200"
print(f"one token of OPT-13B: {bytes_of_the:,} bytes")

# %% [markdown]
# ## Predict
#
# A model gets a prompt of 8 tokens and answers with 24. It makes one token a step, and each new token is part of
# the input of the next step. In every layer each input token needs its **key** and its **value**: one row each.
#
# 1. A server without a cache runs the whole text through the model at every step. How many rows of keys does one
#    layer compute, in all 24 steps?
# 2. Another server keeps the rows that it has computed. How many does it compute?
# 3. How many rows does it hold at the end? Mind the last token.
#
# Write down three numbers.

# %% [markdown]
# ## Run
#
# Here is a decoder with two layers and one head, small enough to count every multiplication. It has no MLP and no
# norms, as those treat each token by itself and would only add to the count.
#
# `forward` takes the **new** tokens and the rows of those before. With an empty cache and the whole text it is a
# model without a cache. With one new token it is a decode step. It is the same function.

# %%
LAYERS, WIDTH, VOCAB = 2, 16, 64
random = np.random.default_rng(7)
embedding = random.normal(size=(VOCAB, WIDTH))
weights = random.normal(size=(LAYERS, 3, WIDTH, WIDTH)) / WIDTH**0.5  # of queries, keys, values
place = random.normal(size=(64, WIDTH))  # what is added to a token for its position
to_token = random.normal(size=(WIDTH, VOCAB))


def attend(query, keys, values):
    """Causal attention: the last query sees all keys, the one before it all but the last, and so on."""
    scores = query @ keys.T / WIDTH**0.5  # [new, total]
    new, total = scores.shape
    scores[np.arange(total) > np.arange(total - new, total)[:, None]] = -np.inf
    shares = np.exp(scores - scores.max(axis=1, keepdims=True))
    return shares / shares.sum(axis=1, keepdims=True) @ values


def empty_cache():
    """No rows yet: keys and values [0, WIDTH] of each layer."""
    return [(np.zeros((0, WIDTH)), np.zeros((0, WIDTH))) for _ in range(LAYERS)]


def forward(tokens, cache, count):
    """The next token. Appends the rows of `tokens` to `cache`, and adds the work done to `count`."""
    num_cached = len(cache[0][0])
    hidden = embedding[tokens] + place[num_cached : num_cached + len(tokens)]
    for layer in range(LAYERS):
        query, key, value = (hidden @ matrix for matrix in weights[layer])
        keys, values = np.vstack([cache[layer][0], key]), np.vstack([cache[layer][1], value])
        cache[layer] = keys, values
        hidden = hidden + 4 * attend(query, keys, values)  # 4: attention outweighs the token
        count["rows"] += len(key)
        count["multiplications"] += 3 * len(key) * WIDTH**2 + 2 * len(query) * len(keys) * WIDTH
    return int((hidden[-1] @ to_token).argmax())


# %%
def generate(prompt, output, keeps):
    """Tokens emitted, the work of each step, and the tokens in the cache after each."""
    text, cache, work, stored = list(prompt), empty_cache(), [], []
    for _ in range(output):
        cache = cache if keeps else empty_cache()
        num_cached, count = len(cache[0][0]), Counter()
        text.append(forward(text[num_cached:], cache, count))
        work.append(count)
        stored.append(len(cache[0][0]))
    return text[len(prompt) :], work, stored


prompt = random.integers(VOCAB, size=8)
answer, slow, _ = generate(prompt, 24, keeps=False)
same_answer, fast, stored = generate(prompt, 24, keeps=True)
assert answer == same_answer and len(set(answer)) > 8  # it does not repeat itself
print("both emit", answer)

rows = [sum(count["rows"] for count in work) // LAYERS for work in (slow, fast)]
products = [sum(count["multiplications"] for count in work) for work in (slow, fast)]
print(f"rows of keys in one layer: {rows[0]} without a cache, {rows[1]} with one")
print(f"multiplications: {products[0]:,} and {products[1]:,}, {products[0] / products[1]:.1f} times as many")
print(f"rows held at the end: {stored[-1]}")
assert (rows[0], rows[1], stored[-1]) == (468, 31, 31)

# %% [markdown]
# The same 24 tokens, from **468** rows or from **31**. The cache changes no number in the result: a token's
# key and value depend on it and on the tokens before it alone, and those do not change.
#
# It holds 31 rows and not 32. The last token is emitted and never fed back, so nobody needs its row. A request with
# `p` prompt and `o` output tokens stores `p + o - 1` tokens. You will meet this number in every lesson.

# %% [markdown]
# ## Look
#
# Step by step. Without a cache each step costs more than the one before it. With one the first step (the **prefill**
# of the prompt) does the work of 8 tokens and each later step (a **decode**) the work of one.

# %%
pictures_cache.work_and_memory(
    [count["multiplications"] for count in slow], [count["multiplications"] for count in fast], stored
)

# %% [markdown]
# The right picture is the price. Room for the keys and values of one token in all layers is called a
# **slot**, and the memory that a server sets aside for slots is its **pool**. A slot's size follows from the
# model's shape alone:
#
# $$\text{bytes per token} = 2 \times \text{layers} \times \text{KV heads} \times \text{head size} \times \text{bytes per number}$$
#
# The 2 is for keys *and* values. People forget it, and then plan with half of what they need. A number takes
# 2 bytes in fp16. KV heads are the heads that have keys and values of their own.

# %%
names = ("opt-13b", "llama-2-7b", "llama-3-8b", "llama-2-70b", "qwen2.5-0.5b")
sizes = {name: MODELS[name].kv_bytes_per_token("fp16") for name in names}
pictures_cache.sizes(sizes)

# %% [markdown]
# LLaMA-2-70B is ten times as large as LLaMA-2-7B, and its tokens are smaller. Its 64 query heads share 8 KV heads
# (grouped-query attention), and the formula counts KV heads. LLaMA-3-8B has as many layers as LLaMA-2-7B and a
# quarter of its KV heads: a token takes a quarter of the bytes.
#
# <details><summary>Check: OPT-13B's weights take about 26 GB in fp16. An A100 has 40 GB. If 12 GiB of them
# are left for the cache (a GiB is 2^30 bytes), how many tokens fit? How many requests of 2,048
# tokens?</summary>
#
# 15,728 tokens, and so 7 requests. The next cell computes it. This is the pool of the experiments in the
# PagedAttention paper (Kwon et al., SOSP 2023), which brought paging to LLM servers. "The paper" in this
# course is that one.
# </details>

# %%
assert MODELS["llama-2-7b"].num_layers == MODELS["llama-3-8b"].num_layers
assert MODELS["llama-2-7b"].num_kv_heads == 4 * MODELS["llama-3-8b"].num_kv_heads
assert sizes["llama-2-7b"] == 4 * sizes["llama-3-8b"]
assert sizes["llama-2-70b"] < sizes["llama-2-7b"]
assert f"{MODELS['llama-2-70b'].num_parameters / MODELS['llama-2-7b'].num_parameters:.0f}" == "10"
assert MODELS["llama-2-70b"].num_heads == 64 and MODELS["llama-2-70b"].num_kv_heads == 8
llama = MODELS["llama-3-8b"]
scales = 4 * 2 * llama.num_layers * llama.num_kv_heads
assert llama.kv_bytes_per_token("fp8") == sizes["llama-3-8b"] // 2 + scales  # stretch 2
slots = parse_bytes("12GiB") // MODELS["opt-13b"].kv_bytes_per_token("fp16")
assert f"{MODELS['opt-13b'].weights_bytes('fp16') / 1e9:.0f}" == "26"
assert (f"{slots:,}", slots // 2048) == ("15,728", 7)
a100 = HARDWARE["a100-40gb"]
assert a100.memory_bytes == parse_bytes("40GiB") and a100.bandwidth_bytes_per_s == 1555e9  # stretch 3
print(f"12 GiB hold {slots:,} tokens of OPT-13B, {slots // 2048} requests of 2,048 tokens")

# %% [markdown]
# Seven requests at a time is little for such a device. Whether it must be seven is what this course is about.

# %% [markdown]
# ## Build
#
# **First**, the answer to *Predict* for any request. A layer computes one row of keys for each token that it gets.
# Count them over all steps.


# %% tags=["stub"]
def rows_computed(prompt: int, output: int, has_cache: bool) -> int:
    """Rows of keys that one layer computes until `output` tokens (at least 1) are emitted."""
    ### BEGIN SOLUTION
    if has_cache:
        return prompt + output - 1
    return sum(prompt + step for step in range(output))
    ### END SOLUTION


# %% tags=["check"]
checks.counted_rows(rows_computed)

# %% [markdown]
# **Second**, the bytes of a slot.


# %% tags=["stub"]
def kv_bytes_per_token(layers: int, kv_heads: int, head_dim: int, element_bytes: int) -> int:
    """Bytes of the keys and values of one token in all layers."""
    ### BEGIN SOLUTION
    return 2 * layers * kv_heads * head_dim * element_bytes
    ### END SOLUTION


# %% tags=["check"]
checks.bytes_per_token(kv_bytes_per_token)

# %% [markdown]
# **Third**, the decode step of one head: append the new token's row, then attend. One query needs no causal
# mask. Each request has a cache of its own; for the first token of its text `keys` and `values` have no rows.


# %% tags=["stub"]
def decode(query, key, value, keys, values):
    """One new token: `query`, `key`, `value` [D]; `keys`, `values` [tokens, D] of those before it.

    Returns (output [D], keys [tokens + 1, D], values [tokens + 1, D]). Scores are divided by sqrt(D).
    """
    ### BEGIN SOLUTION
    keys, values = np.vstack([keys, key]), np.vstack([values, value])
    scores = np.exp(keys @ query / len(query) ** 0.5)
    return scores @ values / scores.sum(), keys, values
    ### END SOLUTION


# %% tags=["check"]
checks.decode_step(decode)

# %% [markdown]
# ## Stretch
#
# 1. Your `decode` copies the whole cache to append one row. How many rows does it copy in 24 steps? Lesson 2 shows
#    how servers avoid it: they reserve the room beforehand. What must they know for that?
# <!-- installed -->
# 2. In a terminal, `pagelab calc --model llama-3-8b --memory 24GiB --json` gives the slots that fit beside
#    the weights. Try `--kv-dtype fp8`, with 1 byte a number. Why does a token take a little more than half
#    then? One number of 4 bytes says how the keys of one KV head are scaled, and another the values. Does it
#    add up?
# <!-- page -->
# 2. `(parse_bytes("24GiB") - llama.weights_bytes()) // llama.kv_bytes_per_token("fp16")` in any cell gives the slots
#    that fit beside the weights. Try `"fp8"`, with 1 byte a number. Why does a token take a little more than half
#    then? One number of 4 bytes says how the keys of one KV head are scaled, and another the values. Does it
#    add up?
# <!-- end -->
# 3. A decode step reads every row of the cache once. At 2,048 tokens of OPT-13B, how many bytes is that? Which is
#    the longer: reading them at an A100's 1,555 GB/s, or reading the weights?
#
# <!-- installed -->
# **In the ledger**: two documents that explain paging, a guide and a forum topic, stand at the beginning of this project.
# `pagelab claims` lists what they state, each with a verdict that is computed. The guide says that a token of LLaMA-2-7B
# takes 256 KB, and one sequence of it 14 GB. What did its author forget in the first, and what did he mean by the second?
# Look at your sizes, then at `pagelab claims kv-256kb kv-14gb`.
#
# **In the app**: `pagelab app`, then open <http://localhost:8501/?trace=four-requests&a=oracle&b=paged&step=1>. Every
# cell is room for tokens. Step on: each running request fills one slot a step.
# <!-- page -->
# 4. A guide to paging says that a token of LLaMA-2-7B takes 256 KB, and one sequence of it 14 GB. What did its author
#    forget in the first, and what did he mean by the second?
#
# **In [the simulator](#simulator)**: put
# `pictures.memory_map(simulate(Trace.read("four-requests"), Config(pool_tokens=4096, max_len=2048)), 1)` into a cell.
# Every cell of the picture is a slot. Take other steps: each running request fills one slot a step.
# <!-- end -->
#
# ## What you proved, and what you did not
#
# You proved that the cache gives the same tokens for far fewer multiplications, and what it weighs. You did not
# prove that the cached server is faster by the same factor. A decode reads the whole cache and all weights to make one
# token, so it waits for memory more than for arithmetic. Lesson 6 shows how batching shares those reads.
