"""Offsets of the fields of Python and NumPy objects that native code reads, checked before use."""

from __future__ import annotations

import ctypes
import functools
import sys
from typing import Any

import numpy as np

from tiburon.record import record

# flags of numpy/ndarraytypes.h: NPY_ARRAY_C_CONTIGUOUS | NPY_ARRAY_ALIGNED, NPY_ARRAY_WRITEABLE
CONTIGUOUS_ALIGNED = 0x0001 | 0x0100
WRITEABLE = 0x0400
# type number of float64 (NPY_DOUBLE), and indices in NumPy's function table, which never change
FLOAT64_NUMBER = 12
_PYARRAY_SCALAR = 60
_PYARRAY_NEW = 93


@record
class Layout:
    """Byte offsets in objects, and addresses of types and functions that trampolines use.

    Attributes:
        type: Offset of an object's type.
        data: Offset of the pointer to an array's data.
        nd: Offset of an array's number of dimensions.
        dims: Offset of the pointer to an array's dimensions.
        descr: Offset of an array's dtype.
        flags: Offset of an array's flags.
        number: Offset of the value of a Python float and of a NumPy float64.
        tuple_size: Offset of the length of a tuple.
        tuple_items: Offset of the first item of a tuple.
        array_type: Address of numpy.ndarray.
        float64: Address of the float64 dtype.
        float_type: Address of Python's float.
        number_type: Address of numpy.float64.
        tuple_type: Address of Python's tuple.
        none: Address of None.
        array_new: Address of PyArray_New.
        number_new: Address of PyArray_Scalar.
        vectorcall: Address of PyObject_Vectorcall.
        incref: Address of Py_IncRef.
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
    number: int
    tuple_size: int
    tuple_items: int
    array_type: int
    float64: int
    float_type: int
    number_type: int
    tuple_type: int
    none: int
    array_new: int
    number_new: int
    vectorcall: int
    incref: int
    decref: int
    tuple_new: int
    tuple_set: int


def _address(name: str) -> int:
    return int(ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p).value or 0)


def _numpy_function(place: int) -> int:
    capsule = np._core._multiarray_umath._ARRAY_API  # type: ignore[attr-defined]
    pointer = ctypes.pythonapi.PyCapsule_GetPointer
    pointer.restype = ctypes.c_void_p
    pointer.argtypes = [ctypes.py_object, ctypes.c_char_p]
    table = ctypes.cast(pointer(capsule, None), ctypes.POINTER(ctypes.c_void_p))
    return int(table[place] or 0)


@functools.cache
def object_layout() -> Layout | None:
    """Return the layout of this interpreter, or None if it is unknown."""
    if sys.implementation.name != "cpython" or ctypes.sizeof(ctypes.c_void_p) != 8:
        return None
    try:
        # the header (reference count and type) differs between builds
        head = object.__basicsize__
        layout = Layout(
            type=head - 8,
            data=head,
            nd=head + 8,
            dims=head + 16,
            descr=head + 40,
            flags=head + 48,
            number=head,
            tuple_size=head,
            tuple_items=tuple.__basicsize__,
            array_type=id(np.ndarray),
            float64=id(np.dtype(np.float64)),
            float_type=id(float),
            number_type=id(np.float64),
            tuple_type=id(tuple),
            none=id(None),
            array_new=_numpy_function(_PYARRAY_NEW),
            number_new=_numpy_function(_PYARRAY_SCALAR),
            vectorcall=_address("PyObject_Vectorcall"),
            incref=_address("Py_IncRef"),
            decref=_address("Py_DecRef"),
            tuple_new=_address("PyTuple_New"),
            tuple_set=_address("PyTuple_SetItem"),
        )
    except (AttributeError, TypeError, ValueError):
        return None
    # functions are called only after the fields are confirmed
    return layout if _fields_agree(layout) and _functions_agree(layout) else None


def _read(thing: Any, offset: int, kind: Any) -> Any:
    return kind.from_address(id(thing) + offset).value or 0


def _fields_agree(layout: Layout) -> bool:
    """Return whether the offsets lead to the right values, in arrays, floats and tuples."""
    base = np.arange(12.0).reshape(3, 4)
    locked = np.zeros(3)
    locked.flags.writeable = False
    for array in (base, base[:, ::2], np.zeros(5, dtype=np.float32), np.array(2.5), locked):
        dims = _read(array, layout.dims, ctypes.c_void_p)
        shape = tuple(ctypes.c_longlong.from_address(dims + 8 * k).value for k in range(array.ndim))
        flags = _read(array, layout.flags, ctypes.c_int)
        contiguous = bool(array.flags.c_contiguous and array.flags.aligned)
        facts = (
            _read(array, layout.type, ctypes.c_void_p) == layout.array_type,
            _read(array, layout.data, ctypes.c_void_p) == array.ctypes.data,
            _read(array, layout.nd, ctypes.c_int) == array.ndim,
            shape == array.shape,
            (_read(array, layout.descr, ctypes.c_void_p) == layout.float64)
            == (array.dtype == np.float64),
            ((flags & CONTIGUOUS_ALIGNED) == CONTIGUOUS_ALIGNED) == contiguous,
            bool(flags & WRITEABLE) == array.flags.writeable,
        )
        if not all(facts):
            return False
    names = ("one", "two", "three")
    items = [_read(names, layout.tuple_items + 8 * k, ctypes.c_void_p) for k in range(len(names))]
    if _read(names, layout.tuple_size, ctypes.c_longlong) != len(names):
        return False
    if items != [id(name) for name in names]:
        return False
    kinds = {-1.75: layout.float_type, np.float64(3.25): layout.number_type}
    return all(
        _read(number, layout.type, ctypes.c_void_p) == kind
        and _read(number, layout.number, ctypes.c_double) == number
        for number, kind in kinds.items()
    )


def _functions_agree(layout: Layout) -> bool:
    """Return whether arrays and floats created as trampolines do are the right ones."""
    thing, pointer, number = ctypes.py_object, ctypes.c_void_p, ctypes.c_int
    new_array = ctypes.PYFUNCTYPE(
        thing, pointer, number, pointer, number, pointer, pointer, number, number, pointer
    )(layout.array_new)
    sizes = (ctypes.c_longlong * 2)(3, 2)
    array = new_array(
        layout.array_type, 2, ctypes.addressof(sizes), FLOAT64_NUMBER, None, None, 0, 0, None
    )
    new_number = ctypes.PYFUNCTYPE(thing, pointer, pointer, pointer)(layout.number_new)
    value = new_number(ctypes.addressof(ctypes.c_double(0.375)), layout.float64, None)
    return (
        type(array) is np.ndarray
        and (array.shape, array.dtype) == ((3, 2), np.float64)
        and bool(array.flags.c_contiguous and array.flags.owndata and array.flags.writeable)
        and type(value) is np.float64
        and value == 0.375
    )
