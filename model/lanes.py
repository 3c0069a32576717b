"""Lanes: the decoding requests of an engine with several steps on their way, apart by the step that they are in."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence

from servecast.model.decode_batch import DecodeBatch
from servecast.model.request import Request


class Lanes:
    """One lane for each of `batches`. Requests that were scheduled together stay together: a token on its way must be
    out before the next can be planned. `index` is the lane that is planned next.
    """

    def __init__(self, batches: Sequence[DecodeBatch]) -> None:
        self._batches = batches
        self.index = 0

    def __len__(self) -> int:
        return len(self._batches)

    @property
    def current(self) -> DecodeBatch:
        """The batch of the lane that is planned next."""
        return self._batches[self.index]

    def turn_from(self, busy: Collection[int]) -> DecodeBatch:
        """Plan next for a lane that is not `busy`: the one that has members, if any. At least one must be free."""
        free = [index for index in range(len(self)) if index not in busy]
        self.index = next((index for index in free if self._batches[index].size), free[0])
        return self.current

    def batch_of(self, request: Request) -> DecodeBatch | None:
        """The batch that `request` is a member of."""
        return next((batch for batch in self._batches if request.id in batch), None)

    def check(self, running: Iterable[Request]) -> None:
        """Raise InvariantError unless the sums of each batch equal those over its members among `running`."""
        everybody = list(running)
        for batch in self._batches:
            batch.check([request for request in everybody if request.id in batch])
