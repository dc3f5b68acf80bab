"""Attention of many shapes on vectors of this process's width, held against the reference; prints that."""

import json

import torch

from engine.attention.cpu_vectors import HAS_F16C, LANES
from tests.engine.attention.cases import assert_near, make_case

for dtype in (torch.float32, torch.float16):
    for group in (1, 2, 3, 4, 5, 6, 7, 9):
        case = make_case([0, 3, 70], num_heads=2 * group, num_kv_heads=2, head_dim=44, cache_dtype=dtype)
        assert_near(case.decode("cpu"), case.exact().decode("torch"))
for group in (1, 3, 5):
    case = make_case([5, 90], query_lens=[5, 40], num_heads=2 * group, num_kv_heads=2, head_dim=44)
    assert_near(case.prefill("cpu"), case.exact().prefill("torch"))
print(json.dumps([LANES, HAS_F16C]))
