"""vLLM's stream of KV-cache events, read into our event log: the player shows a real server's cache."""

from app.kv_events.chains import Chains
from app.kv_events.run import run_of
from app.kv_events.stream import Batch, read_stream

__all__ = ["Batch", "Chains", "read_stream", "run_of"]
