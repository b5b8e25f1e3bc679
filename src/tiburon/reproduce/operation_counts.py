"""Published operation counts beside ours, with a verdict for each.

Rules of the sources: divisions and square roots count as multiplications; sines, cosines and
operations on constants are free; a fused multiply-add counts as one product and one sum; chains
have revolute joints only, in modified Denavit-Hartenberg frames with general constants, and their
base frame is at joint 1, or at the mass center with several chains. A verdict compares the sum of
multiplications and additions.

Floating bodies of the sources have three angles, and their classical acceleration is computed;
verdicts count a joint of this kind. The `Free` joint of models has a quaternion and the rate of its
velocity in body axes, which costs more: its counts are listed separately. Vehicles with prescribed
motion are counted there by `hybrid_dynamics`.
"""

from collections.abc import Callable, Iterator, Mapping
from functools import partial
from typing import NamedTuple

from tiburon.model import Free
from tiburon.reproduce import chains, stars
from tiburon.reproduce.cells import DERIVED, PRINTED, CellTable, measured, operations
from tiburon.reproduce.kernels import KERNELS, MATRIX_SIZES, STORAGE, matrix_products
from tiburon.reproduce.published import ALGORITHMS, CHAINS, STARS, Cost, PublishedCount, crossover

MAX_JOINTS = 12
"""Largest number of joints in the tables."""

COUNTED: Mapping[str, Callable[[int], Cost]] = {
    "featherstone_inverse": chains.inverse_dynamics,
    "featherstone_mass_matrix": chains.composite_rigid_body,
    "featherstone_forward": chains.forward_by_composite_rigid_body,
    "featherstone_articulated": chains.articulated_body,
    "thesis_inverse": chains.inverse_dynamics,
    "thesis_bias": chains.bias_force,
    "thesis_mass_matrix": chains.composite_rigid_body,
    "thesis_articulated": chains.articulated_body,
    "paper_articulated": chains.articulated_body,
    "paper_mobile": chains.mobile_articulated_body,
    **{f"thesis_composite_star_{m}": partial(stars.composite_star, m) for m in CHAINS},
    **{f"thesis_star_land_{m}": partial(stars.articulated_star, m, wet=False) for m in CHAINS},
    **{f"thesis_star_water_{m}": partial(stars.articulated_star, m, wet=True) for m in CHAINS},
    "thesis_vehicle": stars.vehicle_with_arm,
    "thesis_decoupled": stars.decoupled_vehicle,
    "paper_vehicle": stars.vehicle_with_arm,
}
"""Counting function of each algorithm, with the floating body of the sources."""

PUBLIC: Mapping[str, Callable[[int], Cost]] = {
    "paper_mobile": partial(chains.mobile_articulated_body, base=Free("base")),
    **{f"thesis_composite_star_{m}": partial(stars.composite_star, m, public=True) for m in CHAINS},
    **{
        f"thesis_star_{place}_{m}": partial(stars.articulated_star, m, wet=wet, public=True)
        for place, wet in (("land", False), ("water", True))
        for m in CHAINS
    },
    "thesis_vehicle": partial(stars.vehicle_with_arm, public=True),
    "thesis_decoupled": partial(stars.decoupled_vehicle, public=True),
    "paper_vehicle": partial(stars.vehicle_with_arm, public=True),
}
"""Counting functions of algorithms with floating bodies on the `Free` joint."""


class CountRow(NamedTuple):
    """One published count and ours."""

    label: str
    """Number of joints, or name of the operation."""

    published: Cost
    ours: Cost
    public: Cost | None = None
    """Our count on the `Free` joint, with a quaternion instead of three angles and the rate of its
    velocity in body axes instead of the classical acceleration; None without a floating body."""

    printed: bool = True
    """Whether the source prints this value, not only a polynomial that gives it."""

    @property
    def excess(self) -> int:
        """Our total minus the published one."""
        return self.ours.total - self.published.total

    @property
    def public_excess(self) -> int | None:
        """Excess of the count on the `Free` joint; None without a floating body."""
        return None if self.public is None else self.public.total - self.published.total


class CountTable(NamedTuple):
    """Counts of one published table."""

    source: str
    """Source and table."""

    title: str
    """Algorithm or operations, with the polynomial if there is one."""

    label: str
    """Heading of the row labels."""

    rows: tuple[CountRow, ...]
    unit: str = "operations"
    """Counted quantity: operations, matrix products, or stored values."""


class Crossover(NamedTuple):
    """Number of joints above which articulated bodies need fewer operations."""

    counted: str
    """Compared operations."""

    published: float
    """Intersection of the published polynomials."""

    ours: float
    """Intersection of our counts."""


_REMARKS = ("fewer: neither multiplications nor additions are more; fewer in sum: one of them is",)


def cell_tables(largest: int = MAX_JOINTS) -> Iterator[CellTable]:
    """Yield all counts up to a number of joints with their verdicts, then the crossovers."""
    for table in count_tables(largest):
        cells = []
        for row in table.rows:
            label = f"{table.label} {row.label}"
            kind = PRINTED if row.printed else DERIVED
            cells.append(operations(label, row.published, row.ours, kind, table.unit))
            if row.public is not None:
                on_free = operations(label, row.published, row.public, kind, table.unit)
                free = f"{label}, with Free"
                cells.append(measured(free, on_free.reference, on_free.ours, kind))
        yield CellTable(table.source, table.title, tuple(cells), _REMARKS)
    yield CellTable(
        "Featherstone 1987, section 8.4",
        "articulated bodies need fewer operations above N joints",
        tuple(
            measured(f"N, by {each.counted}", f"{each.published:.2f}", f"{each.ours:.2f}", DERIVED)
            for each in crossovers()
        ),
    )


def count_tables(largest: int = MAX_JOINTS) -> tuple[CountTable, ...]:
    """Count all algorithms and operations and compare them with published counts.

    Args:
        largest: Largest number of joints.

    Returns:
        The tables, in the order of the sources.
    """
    algorithms = {key: _algorithm(key, largest) for key in (*ALGORITHMS, *STARS)}
    featherstone = [t for key, t in algorithms.items() if key.startswith("featherstone")]
    mcmillan = [t for key, t in algorithms.items() if not key.startswith("featherstone")]
    kernels = _kernels()
    return (
        *_matrices(),
        _storage(),
        *(table for table in kernels if table.source.startswith("Featherstone")),
        *featherstone,
        *(table for table in kernels if table.source.startswith("McMillan")),
        *mcmillan,
    )


def _algorithm(key: str, largest: int) -> CountTable:
    published = ALGORITHMS[key] if key in ALGORITHMS else STARS[key]
    counted, on_free = COUNTED[key], PUBLIC.get(key)
    last = largest if published.largest is None else min(largest, published.largest)
    return CountTable(
        published.table,
        f"{published.algorithm}: {published.multiplications} multiplications, "
        f"{published.additions} additions",
        "N",
        tuple(
            CountRow(
                str(n), published.at(n), counted(n), on_free and on_free(n), n == published.printed
            )
            for n in range(published.smallest, last + 1)
        ),
    )


def _kernels() -> list[CountTable]:
    """Return one table per table of the sources, in their order."""
    rows: dict[str, list[CountRow]] = {}
    for kernel in KERNELS:
        row = CountRow(kernel.operation, kernel.published, kernel.cost())
        rows.setdefault(kernel.table, []).append(row)
    return [
        CountTable(table, "single operations", "operation", tuple(of_table))
        for table, of_table in rows.items()
    ]


def _matrices() -> list[CountTable]:
    """Return Table 4-1; matrix products are stored as multiplications."""
    names = (
        "the rate of a product of n matrices as a sum: n^2 - n products",
        "the same by recurrence: 3n - 4 products",
    )
    counts = [matrix_products(n) for n in MATRIX_SIZES]
    return [
        CountTable(
            "Featherstone 1987, Table 4-1",
            name,
            "n",
            tuple(
                CountRow(str(n), Cost(both[way][0], 0), Cost(both[way][1], 0), printed=False)
                for n, both in zip(MATRIX_SIZES, counts, strict=True)
            ),
            unit="matrix products",
        )
        for way, name in enumerate(names)
    ]


def _storage() -> CountTable:
    rows = [CountRow(s.quantity, Cost(s.published, 0), Cost(s.ours, 0)) for s in STORAGE]
    return CountTable(
        "Featherstone 1987, Table 8-2", "stored values", "quantity", tuple(rows), unit="values"
    )


def crossovers() -> tuple[Crossover, ...]:
    """Return where articulated bodies become cheaper than composite rigid bodies."""
    composite, articulated = (
        ALGORITHMS[f"featherstone_{name}"] for name in ("forward", "articulated")
    )
    by_products = crossover(composite.multiplications, articulated.multiplications)
    by_all = crossover(_both(composite), _both(articulated))
    return (
        Crossover("multiplications", by_products, _our_crossover(lambda c: c.multiplications)),
        Crossover("all operations", by_all, _our_crossover(lambda c: c.total)),
    )


def _both(published: PublishedCount) -> Callable[[float], float]:
    return lambda n: published.multiplications(n) + published.additions(n)


def _our_crossover(measure: Callable[[Cost], int]) -> float:
    """Return where our counts intersect, interpolated linearly between numbers of joints."""
    before = 0
    for n in range(2, 40):
        composite, articulated = (
            measure(counted(n))
            for counted in (chains.forward_by_composite_rigid_body, chains.articulated_body)
        )
        excess = articulated - composite
        if excess <= 0:
            return n - excess / (excess - before) if before != excess else float(n)
        before = excess
    return float("inf")
