"""The published operation counts beside ours, with a verdict for each.

The rules are the sources': divisions and square roots count as multiplications; sines, cosines and
what depends on constants alone are free; a fused multiply-add counts as its product and its sum;
chains have revolute joints only, in modified Denavit-Hartenberg frames with general constants, and
their base frame stands on joint 1, or at the mass center where there are several chains. A verdict
compares multiplications and additions together.

The floating bodies of the sources have three angles, and their classical acceleration is found; a
joint like that is counted for the verdict. The `Free` joint of models has a quaternion, and the
rate of its velocity in its own axes is found, which costs more: its counts stand beside the others.
Vehicles that move as given are counted there as `hybrid_dynamics` has them.
"""

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from functools import partial

from tiburon.model import Free
from tiburon.reproduce import chains, stars
from tiburon.reproduce.kernels import KERNELS, MATRIX_SIZES, STORAGE, matrix_products
from tiburon.reproduce.published import ALGORITHMS, Cost, PublishedCount, crossover
from tiburon.reproduce.published_stars import CHAINS, STARS

__all__ = ["CountRow", "CountTable", "Crossover", "count_tables", "crossovers"]

LARGEST = 12
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
"""How each algorithm of the sources is counted here, on the floating body of the sources."""

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
"""The same of floating bodies, on the `Free` joint that models have."""


@dataclass(frozen=True, slots=True)
class CountRow:
    """One number of the sources and ours."""

    label: str
    """Number of joints, or what is done."""

    published: Cost
    ours: Cost
    public: Cost | None = None
    """Ours on the `Free` joint, which has a quaternion where the sources have three angles, and the
    rate of its velocity in its own axes where they have the classical acceleration; None where
    nothing floats."""

    @property
    def gap(self) -> int:
        """By how many operations ours is above what is published; negative if below."""
        return self.ours.total - self.published.total

    @property
    def public_gap(self) -> int | None:
        """The same of the count on the `Free` joint; None where nothing floats."""
        return None if self.public is None else self.public.total - self.published.total

    @property
    def verdict(self) -> str:
        """The comparison in words."""
        return _in_words(self.gap)

    @property
    def public_verdict(self) -> str:
        """The comparison of the count on the `Free` joint; nothing where nothing floats."""
        return "" if self.public_gap is None else _in_words(self.public_gap)


@dataclass(frozen=True, slots=True)
class CountTable:
    """Numbers that belong together."""

    source: str
    """Source and table."""

    title: str
    """What is counted, with the polynomial if there is one."""

    label: str
    """What the rows are named by."""

    rows: tuple[CountRow, ...]
    unit: str = "operations"
    """What is counted: operations, products of matrices, or stored numbers."""


@dataclass(frozen=True, slots=True)
class Crossover:
    """Number of joints above which articulated bodies beat composite rigid bodies."""

    counted: str
    """Which operations are compared."""

    published: float
    """Where the published polynomials meet."""

    ours: float
    """Where our counts meet."""


def count_tables(largest: int = LARGEST) -> tuple[CountTable, ...]:
    """Count everything and set it beside what is published.

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
            CountRow(str(n), published.at(n), counted(n), on_free and on_free(n))
            for n in range(published.smallest, last + 1)
        ),
    )


def _in_words(gap: int) -> str:
    if gap == 0:
        return "equal"
    return f"above by {gap}" if gap > 0 else f"below by {-gap}"


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
    """Return Table 4-1; costs are products of matrices, kept as multiplications."""
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
                CountRow(str(n), Cost(both[way][0], 0), Cost(both[way][1], 0))
                for n, both in zip(MATRIX_SIZES, counts, strict=True)
            ),
            unit="products of matrices",
        )
        for way, name in enumerate(names)
    ]


def _storage() -> CountTable:
    rows = [CountRow(s.quantity, Cost(s.published, 0), Cost(s.ours, 0)) for s in STORAGE]
    return CountTable(
        "Featherstone 1987, Table 8-2", "numbers stored", "quantity", tuple(rows), unit="numbers"
    )


def crossovers() -> tuple[Crossover, ...]:
    """Return where forward dynamics by articulated bodies becomes the cheaper way."""
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


def _our_crossover(measure: Callable[[Cost], int], sizes: Iterable[int] = range(2, 40)) -> float:
    """Return where our counts meet, a straight line between whole numbers of joints."""
    before = 0
    for n in sizes:
        composite, articulated = (
            measure(counted(n))
            for counted in (chains.forward_by_composite_rigid_body, chains.articulated_body)
        )
        gap = articulated - composite
        if gap <= 0:
            return n - gap / (gap - before) if before != gap else float(n)
        before = gap
    return float("inf")
