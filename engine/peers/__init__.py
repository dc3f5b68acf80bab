"""Other systems on our trace and weights: each is asked in an interpreter of its own."""

from engine.peers.ask_vllm import VllmRun, refuse_vllm, serve_with_vllm, vllm_python

PEERS = ("vllm",)

__all__ = ["PEERS", "VllmRun", "refuse_vllm", "serve_with_vllm", "vllm_python"]
