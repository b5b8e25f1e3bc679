"""A column of a run on disk as xarray sees it: read, and refused where damaged, when it is used."""

from typing import TYPE_CHECKING, Any

import numpy as np
from xarray.backends import BackendArray
from xarray.core.indexing import IndexingSupport, explicit_indexing_adapter

if TYPE_CHECKING:
    from tiburon.results.store import RunStore

__all__ = ["StoredColumn"]


class StoredColumn(BackendArray):
    """Reads the part of a column that is asked for, through its store."""

    dtype = np.dtype(np.float64)

    def __init__(self, store: "RunStore", key: str, shape: tuple[int, ...]) -> None:
        """Keep where the column is.

        Args:
            store: The run on disk.
            key: Key of the column.
            shape: Shape of all its rows.
        """
        self.store, self.key, self.shape = store, key, shape

    def __getitem__(self, key: Any) -> Any:
        return explicit_indexing_adapter(key, self.shape, IndexingSupport.BASIC, self._select)

    def _select(self, place: tuple[int | slice, ...]) -> Any:
        rows = place[0]
        if isinstance(rows, slice):
            # rows after the last that counts may be on disk too
            place = (slice(*rows.indices(self.shape[0])), *place[1:])
        return self.store.select(self.key, place)
