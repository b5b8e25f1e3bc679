"""A part of a robot file that is no XML: where it stands, and how it complains."""

from dataclasses import dataclass
from typing import NoReturn

from tiburon.errors import ModelFileError


@dataclass(frozen=True, slots=True)
class FilePart:
    """A place in a file, for messages."""

    file: str
    """Name of the file."""

    line: int | None
    """Line number counted from 1, where known."""

    element: str
    """What stands there, such as "body 'arm'"."""

    def fail(self, message: str) -> NoReturn:
        """Raise `ModelFileError` naming file, line and element."""
        raise ModelFileError(self.file, message, line=self.line, element=self.element)
