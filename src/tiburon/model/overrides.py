"""Checks that users' subclasses of data classes override nothing."""

from tiburon.errors import ModelError
from tiburon.model.joints.joint import Joint
from tiburon.trace.declared import replaced_names, undeclared_in

__all__ = ["refuse_replaced", "refuse_replaced_inside"]


def refuse_replaced(thing: object, element: str, instead: str) -> None:
    """Raise if users replaced methods or fields of a class that is read as data.

    Args:
        thing: An instance of a class of this package, or of one derived from it.
        element: Which one, for the message.
        instead: What to do.
    """
    names = replaced_names(thing)
    if names:
        raise ModelError(
            f"{element}: {type(thing).__name__} replaces {', '.join(names[:4])} of what it is "
            f"derived from, which compiled code would ignore; {instead}"
        )


def refuse_replaced_inside(part: object, element: str) -> None:
    """Raise if users replaced methods or fields of a part of a robot, or of data that it holds.

    Joints are not data: users may write them.
    """
    for thing in undeclared_in(part, apart=Joint):
        refuse_replaced(thing, element, "add to it, but replace nothing")
