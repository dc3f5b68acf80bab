"""Prefix caching: which finished keys and values a new prompt can use again, found in two ways."""

from sim.cache.chain import Chain
from sim.cache.content import block_key
from sim.cache.eviction import EVICTIONS
from sim.cache.index import PrefixIndex
from sim.cache.prefix import HashCache, PrefixCache, RadixCache

PREFIX_CACHES = {"hash": HashCache, "radix": RadixCache}

__all__ = [
    "EVICTIONS",
    "PREFIX_CACHES",
    "Chain",
    "HashCache",
    "PrefixCache",
    "PrefixIndex",
    "RadixCache",
    "block_key",
]
