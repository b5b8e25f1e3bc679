"""Types of arrays in signatures, as short at run time as they are written.

Help and editors print what an annotation evaluates to: NumPy's `ArrayLike` is a union of ten lines,
`NDArray[np.float64]` names a shape and a type of elements. Type checkers see NumPy's own.
"""

from typing import TYPE_CHECKING, Any

import numpy as np

if TYPE_CHECKING:
    from numpy.typing import ArrayLike as ArrayLike
    from numpy.typing import NDArray as NDArray
else:

    class ArrayLike:
        """Anything that NumPy reads as an array of numbers: a number, a list, an array."""

        # printed without the module
        __module__ = "builtins"

    class NDArray:
        """An array with elements of a type."""

        def __class_getitem__(cls, element: Any) -> Any:
            """Return the class of arrays."""
            return np.ndarray


Array = NDArray[np.float64]
"""An array of floats."""
