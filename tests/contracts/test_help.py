"""Signatures of all exports are readable in `help()`: types by their names, defaults as values."""

import inspect
import pydoc

import tiburon as tb

UNREADABLE = (
    *("_MISSING_TYPE", "_SupportsArray", "_NestedSequence", "Buffer", "dtype[", " at 0x"),
    "*<class ",
)
"""Texts of unions of NumPy, of sentinels, of objects without a repr, and of sets of keywords."""

LONGEST = 250
"""Characters of a parameter with type and default; the longest is a union of seven shapes."""


def test_help_spells_types_and_defaults():
    """No union that NumPy expands, no sentinel, no address in any line of a signature."""
    found = []
    for name in tb.__all__:
        given = getattr(tb, name)
        if isinstance(given, str):
            continue
        lines = pydoc.plain(pydoc.render_doc(given)).splitlines()
        # Python 3.14 lists a cell of its own in named tuples
        found += [
            (name, line)
            for line in lines
            if any(text in line for text in UNREADABLE) and "__classdictcell__" not in line
        ]
    assert not found


def test_parameters_are_short():
    found = []
    for name in tb.__all__:
        try:
            parameters = inspect.signature(getattr(tb, name)).parameters.values()
        except (TypeError, ValueError):
            continue
        found += [(name, str(x)) for x in parameters if len(str(x)) > LONGEST]
    assert not found


def test_arrays_are_spelled_as_such():
    assert "q: ArrayLike," in str(inspect.signature(tb.forward_dynamics))


def test_help_describes_every_argument_of_functions_that_kernels_run():
    """Shared arguments are described once and filled into each docstring."""
    for name in tb.__all__:
        function = getattr(tb, name)
        if not hasattr(function, "library_function"):
            continue
        listed = inspect.signature(inspect.unwrap(function), follow_wrapped=False).parameters
        arguments = inspect.getdoc(function).partition("\nArgs:\n")[2]
        assert "    model: " in arguments
        assert "batch" in function.__doc__
        keywords = function.library_function.keywords
        missing = [x for x in listed if x not in keywords and f"    {x}: " not in arguments]
        assert not missing, (name, missing)
