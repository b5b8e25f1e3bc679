"""Checks that users' subclasses of data classes override nothing."""

from tiburon.errors import ModelError
from tiburon.model.joints.joint import Joint
from tiburon.trace.declared import replaced_names, undeclared_in

__all__ = ["refuse_replaced", "refuse_replaced_inside"]


def refuse_replaced(thing: object, element: str, instead: str) -> None:
    """Raise if a user's subclass overrides methods or fields of a data class.

    Args:
        thing: An instance of a class of this package, or of one derived from it.
        element: Its name, for the message.
        instead: The remedy.
    """
    names = replaced_names(thing)
    if names:
        raise ModelError(
            f"{element}: {type(thing).__name__} overrides {', '.join(names[:4])} of its base "
            f"class, which compiled code would ignore; {instead}"
        )


def refuse_replaced_inside(part: object, element: str) -> None:
    """Raise if a part of a robot, or data that it holds, overrides methods or fields.

    Joints are exempt: users may define them.
    """
    for thing in undeclared_in(part, apart=Joint):
        refuse_replaced(thing, element, "add to it, but override nothing")
