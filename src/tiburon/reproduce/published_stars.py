"""Operation counts that the sources print for chains on a floating body, on land and under water.

Sources:
    McMillan, Computational Dynamics for Robotic Systems on Land and Under Water, 1994: Tables 12,
        16 and 19. Their polynomials in m chains and N links are written for one m at a time.
    McMillan, Orin and McGhee, Efficient Dynamic Simulation of an Underwater Vehicle with a Robotic
        Manipulator, 1995: Table II.
"""

from collections.abc import Iterator, Mapping
from fractions import Fraction

from tiburon.reproduce.published import PAPER, THESIS, Polynomial, PublishedCount, Rows, linear

__all__ = ["CHAINS", "STARS"]

CHAINS = {1: 12, 6: 4}
"""Numbers of chains that are counted, and the most links each has then: one arm, or six legs."""

_ARM = {
    "a_g": (0, 4, 0, 0),
    "w, v^r": (20, -12, 13, -8),
    "a_fg": (8, -4, 4, -2),
    "zeta": (22, -20, 10, -10),
    "1/m*": (1, -1, 0, 0),
    "n/m*": (5, -5, 0, 0),
    "tau*": (0, 0, 1, 0),
    "abar": (20, -12, 17, -11),
    "qdd": (6, 0, 6, 0),
    "a'": (0, 0, 1, -1),
}
"""Rows that all three counts of a submerged vehicle with an arm share."""

_COUPLED = {
    **_ARM,
    "v^r_0": (0, 12, 0, 9),
    "beta_0, beta^H_0": (0, 160, 0, 125),
    "beta, beta^H": (160, 0, 125, 0),
    "N": (15, -15, 15, -15),
    "I*": (70, -48, 92, -52),
    "a'_0": (0, 86, 0, 71),
    "a_0": (0, 0, 0, 3),
}
"""Rows that the two counts with the vehicle's own motion share."""


def _total(rows: Rows) -> tuple[Polynomial, Polynomial]:
    """Add up rows."""
    products, sums = zip(*rows.values(), strict=True)
    zero = Polynomial(0)
    return sum(products, zero), sum(sums, zero)


def _vehicle(table: str, algorithm: str, rows: Rows, smallest: int = 1) -> PublishedCount:
    return PublishedCount(table, algorithm, *_total(rows), smallest=smallest, rows=rows)


def _star_rows(chains: int, *, wet: bool) -> Rows:
    """Return the rows of McMillan 1994, Table 16: per link, per chain and for the base."""
    m = chains
    if wet:
        differing = {
            "v^r_r": (0, 12, 0, 9),
            "a_fg of the base": (0, 12, 0, 9),
            "beta_r": (0, 142, 0, 110),
            "w, v^r of the chains": (0, 10 * m, 0, 6 * m),
            "a_fg of the chains": (0, 4 * m, 0, 2 * m),
            "w, v^r": (20 * m, 0, 13 * m, 0),
            "a_fg": (8 * m, 0, 4 * m, 0),
            "beta": (160 * m, 0, 125 * m, 0),
            "I*": (0, 0, 21 * m, -21 * m),
            "X^T N X": (70 * m, 0, 71 * m, 0),
            "X^T f": (50 * m, 0, 43 * m, 0),
            "a'_r": (0, 86, 0, 27 * m + 71),
        }
    else:
        differing = {
            "beta_r": (0, 9, 0, 3),
            "w of the chains": (0, 4 * m, 0, 2 * m),
            "w": (8 * m, 0, 5 * m, 0),
            "beta": (27 * m, 0, 15 * m, 0),
            "I*": (0, 0, 15 * m, -15 * m),
            "X^T N X": (70 * m, -10 * m, 71 * m, -10 * m),
            "X^T f": (50 * m, -4 * m, 43 * m, -4 * m),
            "a'_r": (0, 86, 0, 27 * m + 62),
        }
    shared = {
        "a_g": (0, 4, 0, 0),
        "zeta of the chains": (0, 10 * m, 0, 3 * m),
        "zeta": (22 * m, 0, 10 * m, 0),
        "1/m*": (m, -m, 0, 0),
        "n/m*": (5 * m, -5 * m, 0, 0),
        "N": (15 * m, -15 * m, 15 * m, -15 * m),
        "beta*": (0, 0, 6 * m, 0),
        "tau*": (0, 0, m, 0),
        "N at the base": (0, 42 * m, 0, 43 * m),
        "f* at the base": (0, 28 * m, 0, 24 * m),
        "a_r": (0, 0, 0, 3),
        "a' of the chains": (0, 10 * m, 0, 9 * m),
        "abar": (20 * m, 0, 17 * m, 0),
        "qdd": (6 * m, 0, 6 * m, 0),
        "a'": (0, 0, m, -m),
    }
    return linear({**shared, **differing})


def _articulated(chains: int, *, wet: bool) -> PublishedCount:
    m = chains
    if wet:
        products, sums = Polynomial(377 * m, 83 * m + 256), Polynomial(333 * m, 77 * m + 202)
    else:
        products, sums = Polynomial(224 * m, 59 * m + 99), Polynomial(205 * m, 63 * m + 68)
    where = "under water" if wet else "on land"
    return PublishedCount(
        f"{THESIS} 16",
        f"forward dynamics by articulated bodies, base with {_chains(m)} {where}",
        products,
        sums,
        smallest=1,
        largest=CHAINS[m],
        rows=_star_rows(m, wet=wet),
    )


def _composite(chains: int) -> PublishedCount:
    """Return the totals of McMillan 1994, Table 12."""

    def scaled(per_chain: tuple[str, ...], once: int) -> Polynomial:
        *powers, constant = (Fraction(c) * chains for c in per_chain)
        return Polynomial(*map(str, (*powers, constant + once)))

    return PublishedCount(
        f"{THESIS} 12",
        f"forward dynamics by composite rigid bodies, base with {_chains(chains)} on land",
        scaled(("1/6", "35/2", "526/3", "35"), 102),
        scaled(("1/6", "13", "989/6", "31"), 62),
        smallest=1,
        largest=CHAINS[chains],
    )


def _chains(number: int) -> str:
    return "one chain" if number == 1 else f"{number} chains"


def _stars() -> Iterator[tuple[str, PublishedCount]]:
    """Go through all tables, in the order of the sources."""
    for m in CHAINS:
        yield f"thesis_composite_star_{m}", _composite(m)
    for place in ("land", "water"):
        for m in CHAINS:
            yield f"thesis_star_{place}_{m}", _articulated(m, wet=place == "water")
    coupled = linear({**_COUPLED, "a_fg of the base": (0, 12, 0, 9), "beta*": (50, -25, 49, -23)})
    yield (
        "thesis_vehicle",
        _vehicle(f"{THESIS} 19", "vehicle with an arm under water, frame at joint 1", coupled),
    )
    decoupled = linear(
        {
            **_ARM,
            "v^r_0": (0, 12, 0, 9),
            "a_fg of the base": (0, 12, 0, 9),
            "beta, beta^H": (160, -79, 125, -70),
            "N": (15, -30, 15, -30),
            "I*": (70, -70, 92, -92),
            "beta*": (50, -60, 49, -59),
        }
    )
    yield (
        "thesis_decoupled",
        _vehicle(f"{THESIS} 19", "the same, its vehicle moved as given", decoupled, smallest=2),
    )
    paper = linear({**_COUPLED, "a_fg of the base": (0, 12, 0, 7), "beta*": (50, -27, 49, -23)})
    yield (
        "paper_vehicle",
        _vehicle(PAPER, "vehicle with an arm under water, frame at joint 1", paper),
    )


STARS: Mapping[str, PublishedCount] = dict(_stars())
"""Costs of whole algorithms on chains of N revolute joints on a floating body."""
