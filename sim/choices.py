"""What dials can be set to, each with one line that says what it means."""

TIMINGS = ("unit", "roofline")
BATCHING = {
    "continuous": "requests join and leave at every step (Orca, vLLM)",
    "static": "a batch is filled, then runs until its last member has ended",
    "sequential": "one request at a time",
}
STEP_RULES = {
    "mixed": "prefills and decodes share a step (vLLM v1)",
    "prefill-first": "a step that admits prompts runs only prompts (vLLM 0.1 to 0.7)",
}
PREEMPT = {
    "recompute": "drop the blocks, prefill again later",
    "swap": "move the blocks to host memory and back",
}
COMPACTION = {
    "off": "a range stays where it is",
    "on-shortage": "ranges are copied together when the free slots are enough but lie apart",
}
TABLES = {
    "flat": "a row for the longest sequence",
    "two-level": "a directory, and leaves as far as they are used",
}
