"""Where CPython and NumPy keep the fields that native code reads, checked before use."""

from __future__ import annotations

import ctypes
import functools
import sys
from dataclasses import dataclass
from typing import Any

import numpy as np

# flags of numpy/ndarraytypes.h: NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED
CONTIGUOUS_ALIGNED = 0x0001 | 0x0100
# type number of float64 (NPY_DOUBLE), and the place of PyArray_New in NumPy's function table
FLOAT64_NUMBER = 12
_PYARRAY_NEW = 93


@dataclass(frozen=True, slots=True)
class Layout:
    """Byte offsets in an array object, and addresses of what trampolines call.

    Attributes:
        type: Offset of an object's type.
        data: Offset of the pointer to an array's numbers.
        nd: Offset of an array's number of dimensions.
        dims: Offset of the pointer to an array's dimensions.
        descr: Offset of an array's dtype.
        flags: Offset of an array's flags.
        array_type: Address of numpy.ndarray.
        float64: Address of the float64 dtype.
        array_new: Address of PyArray_New.
        vectorcall: Address of PyObject_Vectorcall.
        decref: Address of Py_DecRef.
        tuple_new: Address of PyTuple_New.
        tuple_set: Address of PyTuple_SetItem.
    """

    type: int
    data: int
    nd: int
    dims: int
    descr: int
    flags: int
    array_type: int
    float64: int
    array_new: int
    vectorcall: int
    decref: int
    tuple_new: int
    tuple_set: int


def _address(name: str) -> int:
    return int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)


def _array_new() -> int:
    capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    return int(table[_PYARRAY_NEW] or 0)


@functools.cache
def object_layout() -> Layout | None:
    """Return the layout of this interpreter, or None if it is not the known one."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    try:
        # reference count and type come first; their size differs between builds
        head = object.__basicsize__
        layout = Layout(
            type=head - 8,
            data=head,
            nd=head + 8,
            dims=head + 16,
            descr=head + 40,
            flags=head + 48,
            array_type=id(np.ndarray),
            float64=id(np.dtype(np.float64)),
            array_new=_array_new(),
            vectorcall=_address("PyObject_Vectorcall"),
            decref=_address("Py_DecRef"),
            tuple_new=_address("PyTuple_New"),
            tuple_set=_address("PyTuple_SetItem"),
        )
    except (AttributeError, TypeError, ValueError):
        return None
    return layout if _agrees(layout) else None


def _agrees(layout: Layout) -> bool:
    """Compare what the offsets point at with what NumPy says, on three different arrays."""

    def read(array: Any, offset: int, kind: Any) -> int:
        return int(kind.from_address(id(array) + offset).value or 0)

    base = np.arange(12.0).reshape(3, 4)
    for array in (base, base[:, ::2], np.zeros(5, dtype=np.float32)):
        dims = read(array, layout.dims, ctypes.c_void_p)
        shape = tuple(ctypes.c_longlong.from_address(dims + 8 * k).value for k in range(array.ndim))
        flags = read(array, layout.flags, ctypes.c_int)
        contiguous = bool(array.flags.c_contiguous and array.flags.aligned)
        facts = (
            read(array, layout.type, ctypes.c_void_p) == layout.array_type,
            read(array, layout.data, ctypes.c_void_p) == array.ctypes.data,
            read(array, layout.nd, ctypes.c_int) == array.ndim,
            shape == array.shape,
            (read(array, layout.descr, ctypes.c_void_p) == layout.float64)
            == (array.dtype == np.float64),
            ((flags & CONTIGUOUS_ALIGNED) == CONTIGUOUS_ALIGNED) == contiguous,
        )
        if not all(facts):
            return False
    return True
