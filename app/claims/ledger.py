"""All claims, in the order of their subjects."""

from collections.abc import Iterable, Iterator

from app.claims.allocation import ALLOCATION
from app.claims.claim import Claim
from app.claims.code import CODE
from app.claims.pages import PAGES
from app.claims.sharing import SHARING
from app.claims.sizes import SIZES
from app.claims.sketches import SKETCHES
from app.claims.sources import SOURCES
from app.claims.speed import SPEED
from app.claims.waste import WASTE
from sim.errors import unknown_name

ALL = (*SIZES, *WASTE, *PAGES, *SHARING, *SPEED, *ALLOCATION, *CODE, *SKETCHES, *SOURCES)
CLAIMS = {claim.id: claim for claim in ALL}


def examine(ids: Iterable[str] = ()) -> Iterator[Claim]:
    """The claims of these ids, or all. Raises InputError for one that there is not."""
    chosen = tuple(ids) or tuple(CLAIMS)
    for id in chosen:
        if id not in CLAIMS:
            raise unknown_name("claim", id, CLAIMS)
    return (CLAIMS[id] for id in chosen)
