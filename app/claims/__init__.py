"""The claims ledger: what the two documents that PageLab grew from state, and what this project finds."""

from app.claims.claim import Claim, Finding, Verdict
from app.claims.ledger import CLAIMS, examine

__all__ = ["CLAIMS", "Claim", "Finding", "Verdict", "examine"]
