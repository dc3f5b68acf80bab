"""What the paper printed: figures' labels and bars, and its text (arXiv 2309.06180v1).

Bars without a printed label were read from the vector paths of the figures by third parties.
"""

SYSTEMS = {
    "ft": "FasterTransformer",
    "max": "Orca (Max)",
    "pow2": "Orca (Pow2)",
    "oracle": "Orca (Oracle)",
    "paged": "vLLM",
}

# What a server has, in GB, and how many slots it is said to have room for: table 1.
TABLE_1 = {
    "OPT-13B": {"parameters": 26, "cache": 12, "slots": 15_700},
    "OPT-66B": {"parameters": 132, "cache": 21, "slots": 9_700},
    "OPT-175B": {"parameters": 346, "cache": 264, "slots": 60_100},
}

FIGURE_1 = {
    "parameters on an A100-40GB": 65.0,  # %
    "KV cache on an A100-40GB": 30.0,  # %
    "memory of a request, reserved": 1.625,  # GB
    "memory of a request, paged": 0.339,  # GB
}
# Tokens per second by number of batched requests: figure 1, on the right.
FIGURE_1_THROUGHPUT = {4: 146.9, 8: 267.3, 16: 482.6, 24: 659.5, 32: 811.0, 40: 921.9}
# Token states, reservation, internal fragmentation, external fragmentation and others: % of the pool.
FIGURE_2 = {
    "max": (20.4, 13.3, 57.3, 8.9),
    "pow2": (26.8, 17.9, 13.6, 41.6),
    "oracle": (38.2, 25.2, 0.0, 36.6),
    "paged": (96.3, 1.05, 1.04, 1.65),
}
GROUPS = ("token states", "reservation", "internal", "external and others")
# Requests per second at which the normalized latency passes 0.5 s a token; OPT-13B.
FIGURE_12 = {
    "sharegpt": {"ft": 0.23, "max": 0.52, "pow2": 0.77, "oracle": 1.10, "paged": 1.93},
    "alpaca": {"ft": 2.53, "max": 3.85, "pow2": 16.1, "oracle": 21.1, "paged": 28.1},
}
# The same for larger models.
FIGURE_12_LARGER = {
    ("OPT-66B", "sharegpt"): {"ft": 0.10, "max": 0.20, "pow2": 0.27, "oracle": 0.40, "paged": 0.94},
    ("OPT-66B", "alpaca"): {"ft": 1.26, "max": 1.25, "pow2": 6.29, "oracle": 10.5, "paged": 18.7},
    ("OPT-175B", "sharegpt"): {"ft": 0.115, "max": 0.92, "pow2": 1.28, "oracle": 1.62, "paged": 2.38},
    ("OPT-175B", "alpaca"): {"ft": 0.87, "max": 5.11, "pow2": 17.1, "oracle": 19.2, "paged": 20.2},
}
# What section 6.2 says of them for ShareGPT: vLLM's rate over Orca's, and over FasterTransformer's at most.
SECTION_6_2 = {"oracle": (1.7, 2.7), "max": (2.7, 8.0)}
SECTION_6_2_FT = 22
# Mean number of batched requests, at 2 and 30 requests/s.
FIGURE_13 = {
    "sharegpt": {"max": 7.00, "pow2": 9.81, "oracle": 13.62, "paged": 30.42},
    "alpaca": {"max": 7.00, "pow2": 43.24, "oracle": 72.75, "paged": 132.44},
}
# Memory saved by sharing, %, by number of samples or beam width; ShareGPT as a range in section 6.3.
FIGURE_15 = {
    ("alpaca", "n"): {2: 6.09, 4: 8.53, 6: 9.79},
    ("alpaca", "beam"): {2: 37.56, 4: 53.13, 6: 55.16},
}
SECTION_6_3 = {("sharegpt", "n"): (16.2, 30.5), ("sharegpt", "beam"): (44.3, 66.3)}
# Throughput over Orca (Oracle) with a shared prefix of so many tokens, LLaMA-13B.
FIGURE_16 = {80: 1.67, 341: 3.58}
# Chatbot: the rate at 0.5 s a token over Orca (Oracle)'s. The text says 2; the figure gives this.
FIGURE_17 = 1.49
# Normalized latency, s a token, by block size.
FIGURE_18B = {
    "sharegpt": {1: 2.30, 2: 1.95, 4: 1.98, 8: 0.568, 16: 0.085, 32: 0.069, 64: 0.086, 128: 0.159, 256: 1.36},
    "alpaca": {1: 3.62, 2: 1.90, 4: 2.12, 8: 0.725, 16: 0.594, 32: 0.532, 64: 1.90, 128: 4.80, 256: 18.2},
}
# Milliseconds to bring a request back, by block size: swap out and in; recomputation is flat.
FIGURE_19_SWAP = {1: 137.4, 2: 89.3, 4: 61.0, 8: 47.1, 16: 40.1, 32: 36.6, 64: 34.9, 128: 33.9, 256: 33.4}
FIGURE_19_RECOMPUTE = (36.3, 39.1)
# Normalized latency, s a token, by block size: recomputation, swap.
FIGURE_19B = {
    1: (2.01, 2.56),
    16: (0.073, 0.072),
    32: (0.063, 0.059),
    64: (0.067, 0.064),
    128: (0.169, 0.120),
    256: (1.12, 0.66),
}
