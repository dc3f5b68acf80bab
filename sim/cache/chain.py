"""Chains of blocks: the identity of a block's content *and of all that precedes it*.

vLLM names a block by a hash over its tokens and its parent's hash. Here equal chains are one object, found
by comparing keys, so that equal hashes of different tokens can never share (a Python dict compares too).

        root -> [tokens 0..15] -> [tokens 16..31] -> ...
                              \\-> [other tokens]
"""

from collections.abc import Hashable


class Chain:
    """One node: the content of a block after the content of its parents.

    Lives while a cached block, a running sequence or a child refers to it (`retain`/`release`).
    """

    __slots__ = ("children", "key", "num_refs", "parent")

    def __init__(self, parent: "Chain | None", key: Hashable) -> None:
        self.parent = parent
        self.key = key
        self.children: dict[Hashable, Chain] = {}
        self.num_refs = 0

    def follow(self, key: Hashable) -> "Chain | None":
        """The child with this key, if anyone knows it."""
        return self.children.get(key)

    def extend(self, key: Hashable) -> "Chain":
        """The child with this key, made if need be. The caller must `retain` it."""
        child = self.children.get(key)
        if child is None:
            child = self.children[key] = Chain(self, key)
        return child

    def retain(self) -> None:
        """Keeps the node and its ancestors."""
        self.num_refs += 1

    def release(self) -> None:
        """Undoes one `retain`; a node that nobody needs leaves its parent."""
        self.num_refs -= 1
        node = self
        while node.parent is not None and not node.num_refs and not node.children:
            del node.parent.children[node.key]
            node = node.parent
