"""The names of attention heads, `kind.layer.head`, as the configuration writes them."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from seq2seq.errors import UserError


def head_name(kind: str, layer: int, head: int) -> str:
    """The name of a head, such as `cross.2.1`."""
    return f"{kind}.{layer}.{head}"


def removed_in_order(
    removed: Collection[str] | None, sizes: Mapping[str, tuple[int, int]]
) -> list[str]:
    """The names of removed heads in the order of kinds, layers and numbers, each once.

    Args:
        removed: names in any order; None: none.
        sizes: kind → (layers, heads of each layer), before any was removed.

    Raises:
        UserError: a name that is none of a head of this model.

    >>> removed_in_order(["dec.1.0", "enc.0.2", "dec.1.0"], {"enc": (1, 4), "dec": (2, 4)})
    ['enc.0.2', 'dec.1.0']
    """
    every = [
        head_name(kind, layer, head)
        for kind, (layers, heads) in sizes.items()
        for layer in range(layers)
        for head in range(heads)
    ]
    unknown = [name for name in removed or () if name not in every]
    if unknown:
        ends = ", ".join(f"{k}.0.0 to {head_name(k, n - 1, h - 1)}" for k, (n, h) in sizes.items())
        raise UserError(
            f"model.removed_heads names {', '.join(map(repr, unknown))}, but the heads of this "
            f"model are {ends}."
        )
    return [name for name in every if name in (removed or ())]
