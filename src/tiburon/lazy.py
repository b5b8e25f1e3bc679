"""Names of a package that are loaded from their modules when first used (PEP 562), quickly.

For what most programs never touch: a module costs a third of a millisecond to import, and a
package with all of its parts some ten times what one call needs. A name must not be that of a
module of the same package: importing the module would put it in the name's place.
"""

import gc
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from importlib import import_module
from typing import Any


@contextmanager
def garbage_collection_paused(*, lasting: bool = False) -> Iterator[None]:
    """Pause the garbage collector while many objects are made that live on: modules and graphs.

    It would visit them again and again, which takes a tenth of the time of importing and tracing.

    Args:
        lasting: Whether they live as long as the process, as modules do. They then join the oldest
            generation, which only full collections visit: the next two collections of young objects
            would take a tenth of the time from start to first result.
    """
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            # objects that the program itself has frozen stay frozen
            if lasting and not gc.get_freeze_count():
                gc.freeze()
                gc.unfreeze()
            gc.enable()


def load_on_use(
    namespace: dict[str, Any], modules: Mapping[str, Sequence[str]]
) -> Callable[[str], Any]:
    """Return the `__getattr__` of a package.

    Args:
        namespace: The package's globals, where names are kept once they are loaded.
        modules: Names by the module that defines them.
    """
    package = namespace["__name__"]
    homes = {name: module for module, names in modules.items() for name in names}

    def __getattr__(name: str) -> Any:
        if name not in homes:
            raise AttributeError(f"module {package!r} has no attribute {name!r}")
        value = namespace[name] = getattr(import_module(homes[name]), name)
        return value

    return __getattr__
