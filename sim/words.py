"""Numbers in the sentences that people read."""


def counted(number: int, nouns: str) -> str:
    """`2 blocks`, and `1 block`."""
    return f"{number} {nouns.removesuffix('s') if number == 1 else nouns}"
