"""The name of one attention head, `kind.layer.head`, as in `cross.2.1`."""

from __future__ import annotations

import re
from typing import NamedTuple

from seq2seq.attention_maps import KINDS
from seq2seq.errors import UserError

Place = tuple[str, int]
"""The attention of one layer: its kind and the layer's number."""

_NAME = re.compile(rf"({'|'.join(KINDS)})\.([0-9]+)\.([0-9]+)")


class HeadId(NamedTuple):
    """The name of one head."""

    kind: str  # enc, dec or cross
    layer: int  # from 0
    head: int  # from 0, its number before any pruning

    def __str__(self) -> str:
        return f"{self.kind}.{self.layer}.{self.head}"

    @property
    def place(self) -> Place:
        """The attention that the head belongs to."""
        return self.kind, self.layer

    @property
    def rank(self) -> tuple[int, int, int]:
        """Sorts heads as tables list them: enc, dec, cross; by layer; by number."""
        return KINDS.index(self.kind), self.layer, self.head

    @classmethod
    def parse(cls, text: str) -> HeadId:
        """Read a name such as `cross.2.1`.

        Raises:
            UserError: it is none.
        """
        found = _NAME.fullmatch(text.strip())
        if found is None:
            raise UserError(
                f"{text.strip()!r} names no head: write kind.layer.head such as cross.2.1, "
                f"with a kind of {', '.join(KINDS)} and numbers from 0."
            )
        return cls(found[1], int(found[2]), int(found[3]))
