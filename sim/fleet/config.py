"""The dials of a fleet, beside those of each of its servers."""

from dataclasses import dataclass, fields

from sim.config import Config
from sim.dials import dial, flag
from sim.errors import InputError, unknown_name
from sim.fleet.router import ROUTERS

MOST_REPLICAS = 1024


@dataclass(frozen=True, kw_only=True, slots=True)
class Fleet:
    """How many servers there are, all with the same `Config`, and how they work together."""

    replicas: int = dial(1, "servers with the same dials, each with its own pool, on one clock")
    router: str = dial("round-robin", "which replica a request goes to", choices=lambda: list(ROUTERS))
    borrow: bool = dial(
        False, "a replica that is short of blocks takes free ones of a neighbour, over a link"
    )

    def __post_init__(self) -> None:
        for item in fields(self):
            choices = item.metadata["choices"]
            if choices and getattr(self, item.name) not in choices():
                raise unknown_name(item.name, str(getattr(self, item.name)), choices())
        if not 1 <= self.replicas <= MOST_REPLICAS:
            bound = "at least 1" if self.replicas < 1 else f"at most {MOST_REPLICAS}"
            raise InputError(f"replicas {self.replicas}: must be {bound}")
        if self.borrow and self.replicas == 1:
            raise InputError(
                "--borrow without --replicas: a single server has no neighbour; add --replicas 2"
            )

    def check_with(self, config: Config) -> None:
        """Raises InputError for dials of a server that do not go together with these."""
        if not self.borrow:
            return
        if config.allocator != "paged":
            raise InputError(
                f"--borrow with --allocator {config.allocator}: only blocks can lie anywhere; a contiguous "
                "range has no part on another device"
            )
        if config.prefix_cache != "off":
            raise InputError(
                f"--borrow with --prefix-cache {config.prefix_cache}: a borrowed block goes back as soon as "
                "nobody uses it, so what it held could never be found again; drop one of them"
            )
        for name in ("window", "keep_recent"):
            if (value := getattr(config, name)) is not None:
                raise InputError(
                    f"--borrow with {flag(name)} {value}: a step would be charged for borrowed tokens that "
                    "no query reads any more; drop one of them"
                )
        if config.timing not in ("unit", "roofline"):
            raise InputError(
                f"--borrow with --timing {config.timing}: the file says nothing of the link between "
                "replicas; use roofline or unit"
            )
