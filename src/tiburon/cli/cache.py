"""`tiburon cache`: inspect and clear the cache of compiled kernels."""

from datetime import datetime

import typer

from tiburon.cli.console import AsJson

application = typer.Typer(
    help="Inspect and clear the cache of compiled kernels.",
    no_args_is_help=True,
    rich_markup_mode=None,
)

EXAMPLES = """
tiburon cache size
tiburon cache list --json
tiburon cache clear
"""


def format_size(size: int) -> str:
    """Format a size for display.

    Returns:
        The size with at most one decimal and its unit, such as "1.5 MB" (decimal prefixes).
    """
    value = float(size)
    for unit in ("B", "kB", "MB"):
        # 999.95 would be shown as 1000.0
        if value < 999.95:
            return f"{value:.0f} {unit}" if unit == "B" else f"{value:.1f} {unit}"
        value /= 1000.0
    return f"{value:.1f} GB"


@application.command("path")
def print_path() -> None:
    """Print the directory of the cache (set it with TIBURON_CACHE_DIR)."""
    from tiburon.native.cache import cache_directory

    print(cache_directory())


@application.command("size")
def print_size(as_json: AsJson = False) -> None:
    """Print the number of cached kernels and their size on disk."""
    from tiburon.native.cache import cache_directory, cache_entries

    entries = cache_entries()
    if as_json:
        import json

        taken = {"kernels": len(entries), "bytes": sum(entry.size for entry in entries)}
        print(json.dumps({"directory": str(cache_directory()), **taken}, indent=2))
        return
    noun = "kernel" if len(entries) == 1 else "kernels"
    print(f"{len(entries)} {noun}, {format_size(sum(entry.size for entry in entries))}")


@application.command("list")
def print_entries(as_json: AsJson = False) -> None:
    """List the cached kernels, most recently used first (to the day)."""
    from rich.console import Console
    from rich.table import Table

    from tiburon.native.cache import cache_directory, cache_entries

    entries = sorted(cache_entries(), key=lambda entry: entry.modified, reverse=True)
    if as_json:
        import json

        rows = [{"kernel": e.label, "bytes": e.size, "used": e.modified} for e in entries]
        print(json.dumps(rows, indent=2))
        return
    if not entries:
        print(f"no kernels in {cache_directory()}")
        return
    table = Table(box=None, pad_edge=False)
    table.add_column("kernel")
    table.add_column("size", justify="right")
    table.add_column("used")
    for entry in entries:
        used = datetime.fromtimestamp(entry.modified).isoformat(" ", "minutes")
        table.add_row(entry.label, format_size(entry.size), used)
    Console().print(table)


@application.command("clear")
def clear() -> None:
    """Remove all kernels from the cache; they are compiled again when needed."""
    from tiburon.native.cache import cache_directory, clear_cache

    removed = clear_cache()
    noun = "kernel" if removed == 1 else "kernels"
    print(f"removed {removed} {noun} from {cache_directory()}")
