"""What a million tokens cost, from a price and a power that somebody states: nothing here is measured."""

from dataclasses import dataclass
from typing import Any

from sim.errors import InputError

FORMULAS = {
    "cost_per_million_tokens": "price per hour x devices / 3600 x 1,000,000 / (output tokens/s)",
    "kwh_per_million_tokens": "power in W x devices x 1,000,000 / (output tokens/s) / 3,600,000",
}


@dataclass(frozen=True, slots=True, kw_only=True)
class Costs:
    """What a device costs, as stated: a price for an hour, and the power that it draws while it serves."""

    price_per_hour: float | None = None  # in whatever currency
    power_w: float | None = None

    def __post_init__(self) -> None:
        for name, value in (("price per hour", self.price_per_hour), ("power", self.power_w)):
            if value is not None and not 0 <= value < float("inf"):
                raise InputError(f"{name} {value}: must be at least 0 and finite")

    def of(self, report: dict[str, Any], num_devices: int) -> dict[str, float | None]:
        """Cost and energy of a million output tokens, by the formulas in `FORMULAS`."""
        tokens_per_s = report["throughput"]["tokens_per_s"]
        if not tokens_per_s:
            return {"cost_per_million_tokens": None, "kwh_per_million_tokens": None}
        seconds = 1e6 / tokens_per_s
        cost = None if self.price_per_hour is None else self.price_per_hour * num_devices * seconds / 3600
        energy = None if self.power_w is None else self.power_w * num_devices * seconds / 3.6e6
        return {"cost_per_million_tokens": cost, "kwh_per_million_tokens": energy}
