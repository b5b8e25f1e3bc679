"""Operation counts as the sources print them.

Counts are polynomials in the number of joints. Rows are kept beside totals where the source prints
both, so that a total can be checked against its rows. Polynomials in m chains and N links (stars:
chains on a floating body) are written for one m at a time.

Sources:
    Featherstone, Robot Dynamics Algorithms, 1987: Tables 4-1 and 8-2 to 8-6.
    McMillan, Computational Dynamics for Robotic Systems on Land and Under Water, 1994: Tables 2,
        8, 9, 12, 16, 19, 21 to 24, 26, 28 and 30.
    McMillan, Orin and McGhee, Efficient Dynamic Simulation of an Underwater Vehicle with a Robotic
        Manipulator, 1995: Table II.
"""

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from fractions import Fraction
from typing import NamedTuple


class Cost(NamedTuple):
    """Multiplications, with divisions and square roots, and additions, with subtractions."""

    multiplications: int
    additions: int

    @property
    def total(self) -> int:
        """Sum of both."""
        return self.multiplications + self.additions

    def __str__(self) -> str:
        return f"{self.multiplications}m + {self.additions}a"


class Polynomial:
    """A polynomial in the number of joints with exact coefficients, highest power first."""

    def __init__(self, *coefficients: int | str) -> None:
        self.coefficients = tuple(Fraction(c) for c in coefficients)

    def __call__(self, n: float) -> float:
        """Return the value; exact for whole n."""
        value: Fraction | float = Fraction(0)
        for c in self.coefficients:
            value = value * n + c
        return float(value)

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Polynomial) and self.coefficients == other.coefficients

    def __hash__(self) -> int:
        return hash(self.coefficients)

    def __add__(self, other: "Polynomial") -> "Polynomial":
        longest = max(len(self.coefficients), len(other.coefficients))
        padded = [(Fraction(0),) * (longest - len(p.coefficients)) for p in (self, other)]
        a, b = padded[0] + self.coefficients, padded[1] + other.coefficients
        sums = [x + y for x, y in zip(a, b, strict=True)]
        while len(sums) > 1 and sums[0] == 0:
            del sums[0]
        return Polynomial(*map(str, sums))

    def __str__(self) -> str:
        """Format as printed: ``10N^2 + 9N - 25``."""
        text = ""
        degree = len(self.coefficients) - 1
        for power, c in zip(range(degree, -1, -1), self.coefficients, strict=True):
            if c == 0 and degree > 0:
                continue
            sign = "-" if c < 0 else "+"
            text += f" {sign} " if text else sign.strip("+")
            number, letter = str(abs(c)), {0: "", 1: "N"}.get(power, f"N^{power}")
            if letter and "/" in number:
                number = f"({number}) "
            text += letter if letter and number == "1" else number + letter
        return text


Rows = Mapping[str, tuple[Polynomial, Polynomial]]


@dataclass(frozen=True)
class PublishedCount:
    """Published cost of an algorithm."""

    table: str
    """Source and table."""

    algorithm: str
    """Name of the algorithm."""

    multiplications: Polynomial
    additions: Polynomial

    smallest: int = 2
    """Smallest number of joints the polynomials hold for."""

    largest: int | None = None
    """Largest number of joints that is counted; None for any."""

    rows: Rows = field(default_factory=dict)
    """By quantity, multiplications and additions; empty if the source prints totals only."""

    printed: int | None = 6
    """Number of joints for which the source prints the value beside the polynomial; None if it
    prints none, or one that the polynomial does not give."""

    def at(self, n: int) -> Cost:
        """Return the cost for n joints."""
        return Cost(round(self.multiplications(n)), round(self.additions(n)))


def linear(rows: Mapping[str, Sequence[int]]) -> Rows:
    """Return rows from slope and constant of multiplications, then of additions."""
    return {name: (Polynomial(a, b), Polynomial(c, d)) for name, (a, b, c, d) in rows.items()}


FEATHERSTONE = "Featherstone 1987, Table 8-6"
THESIS = "McMillan 1994, Table"
PAPER = "McMillan, Orin and McGhee 1995, Table II"

_ARTICULATED = {
    "w": (8, -12, 5, -9),
    "zeta": (22, -33, 10, -18),
    "beta": (27, -19, 15, -15),
    "1/m*": (1, -1, 0, 0),
    "n/m*": (5, -5, 0, 0),
    "N": (15, -30, 15, -30),
    "tau*": (0, 0, 1, 0),
    "I*": (70, -80, 86, -96),
    "beta*": (50, -54, 49, -49),
    "abar": (20, -18, 17, -19),
    "qdd": (6, -2, 6, -3),
    "a'": (0, 0, 1, -2),
}
"""Rows of McMillan 1994, Table 30."""

ALGORITHMS: Mapping[str, PublishedCount] = {
    "featherstone_inverse": PublishedCount(
        FEATHERSTONE,
        "inverse dynamics, Newton-Euler",
        Polynomial(130, -68),
        Polynomial(101, -56),
        smallest=1,
    ),
    "featherstone_mass_matrix": PublishedCount(
        FEATHERSTONE,
        "mass matrix, composite rigid bodies",
        Polynomial(10, 31, -41),
        Polynomial(6, 40, -46),
        smallest=1,
    ),
    "featherstone_forward": PublishedCount(
        FEATHERSTONE,
        "forward dynamics by composite rigid bodies",
        Polynomial("1/6", "23/2", "481/3", -109),
        Polynomial("1/6", 7, "833/6", -102),
        smallest=1,
    ),
    "featherstone_articulated": PublishedCount(
        FEATHERSTONE,
        "forward dynamics by articulated bodies",
        Polynomial(300, -267),
        Polynomial(279, -259),
        smallest=1,
    ),
    "thesis_inverse": PublishedCount(
        f"{THESIS} 26",
        "inverse dynamics",
        Polynomial(94, -105),
        Polynomial(82, -92),
        rows=linear(
            {
                "w": (8, -12, 5, -9),
                "wd": (10, -14, 7, -11),
                "a": (17, -14, 13, -14),
                "Omega": (6, -5, 9, -9),
                "u": (15, -14, 15, -14),
                "n'": (6, -4, 6, -4),
                "f'": (12, -12, 9, -9),
                "f": (20, -30, 18, -22),
            }
        ),
    ),
    "thesis_bias": PublishedCount(
        f"{THESIS} 26 at zero joint acceleration",
        "bias force",
        Polynomial(94, -114),
        Polynomial(81, -105),
    ),
    "thesis_mass_matrix": PublishedCount(
        f"{THESIS} 28",
        "mass matrix, composite rigid bodies",
        Polynomial(10, 9, -25),
        Polynomial(6, 34, -50),
        rows={
            "K": (Polynomial(32, -41), Polynomial(48, -61)),
            "X^T f": (Polynomial(10, -23, 16), Polynomial(6, -14, 11)),
        },
    ),
    "thesis_articulated": PublishedCount(
        f"{THESIS} 30",
        "forward dynamics by articulated bodies, fixed base",
        Polynomial(224, -254),
        Polynomial(205, -241),
        rows=linear(_ARTICULATED),
    ),
    "paper_articulated": PublishedCount(
        PAPER,
        "forward dynamics by articulated bodies, fixed base",
        Polynomial(224, -259),
        Polynomial(205, -248),
        # the paper recounts these four and takes the others from the thesis
        rows=linear(
            {
                **_ARTICULATED,
                "I*": (70, -80, 86, -94),
                "beta*": (50, -54, 49, -55),
                "abar": (20, -22, 17, -21),
                "qdd": (6, -3, 6, -4),
            }
        ),
    ),
    "paper_mobile": PublishedCount(
        PAPER,
        "forward dynamics by articulated bodies, mobile base",
        Polynomial(224, -30),
        Polynomial(205, -37),
        smallest=1,
        rows=linear(
            {
                "a_g": (0, 4, 0, 0),
                "beta_0": (0, 27, 0, 15),
                "w": (8, -4, 5, -2),
                "zeta": (22, -20, 10, -10),
                "beta": (27, 0, 15, 0),
                "1/m*": (1, -1, 0, 0),
                "n/m*": (5, -5, 0, 0),
                "N": (15, -15, 15, -15),
                "tau*": (0, 0, 1, 0),
                "I*": (70, -58, 86, -59),
                "beta*": (50, -31, 49, -27),
                "a'_0": (0, 86, 0, 71),
                "a_0": (0, 0, 0, 3),
                "abar": (20, -12, 17, -11),
                "qdd": (6, -1, 6, -1),
                "a'": (0, 0, 1, -1),
            }
        ),
    ),
}
"""Costs of algorithms on a chain of N revolute joints."""


def crossover(
    a: Callable[[float], float], b: Callable[[float], float], low: float = 2.0, high: float = 100.0
) -> float:
    """Return the number of joints, from low to high, above which b costs less than a."""
    for _ in range(60):
        middle = 0.5 * (low + high)
        low, high = (middle, high) if a(middle) < b(middle) else (low, middle)
    return 0.5 * (low + high)


CHAINS = {1: 12, 6: 4}
"""Counted numbers of chains with the most links of each: one arm, or six legs."""

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
"""Rows that the two counts with a freely moving vehicle share."""


def _total(rows: Rows) -> tuple[Polynomial, Polynomial]:
    """Sum the rows."""
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
        # 1359 additions of one chain on land are a misprint of 1361
        printed={1: 6 if wet else None, 6: 3}[m],
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
        printed={1: None, 6: 3}[chains],
    )


def _chains(number: int) -> str:
    return "one chain" if number == 1 else f"{number} chains"


def _stars() -> Iterator[tuple[str, PublishedCount]]:
    """Yield all tables in the order of the sources."""
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
        _vehicle(f"{THESIS} 19", "the same, vehicle motion prescribed", decoupled, smallest=2),
    )
    paper = linear({**_COUPLED, "a_fg of the base": (0, 12, 0, 7), "beta*": (50, -27, 49, -23)})
    yield (
        "paper_vehicle",
        _vehicle(PAPER, "vehicle with an arm under water, frame at joint 1", paper),
    )


STARS: Mapping[str, PublishedCount] = dict(_stars())
"""Costs of algorithms on chains of N revolute joints on a floating body."""


# -- arms that hold a load -------------------------------------------------------------------------


def _scaled(rows: Mapping[str, tuple[Sequence[str], Sequence[str]]], arms: int) -> Rows:
    """Return rows of m arms from those of one, coefficients highest power first."""
    return {
        name: tuple(  # type: ignore[misc]
            Polynomial(*(str(Fraction(c) * arms) for c in coefficients)) for coefficients in both
        )
        for name, both in rows.items()
    }


_ARM_ON_LOAD: Mapping[str, tuple[Sequence[str], Sequence[str]]] = {
    "H, J": (("25/2", "11/2", "-18"), ("8", "30", "-38")),
    "H^-1 J^T": (("1/6", "13/2", "-2/3", "0"), ("1/6", "6", "-37/6", "0")),
    "Lambda^-1": (("21", "0"), ("21", "-21")),
    "Lambda": (("141",), ("90",)),
    "qdd_open, xdd'_open": (("1", "100", "-114"), ("1", "87", "-105")),
    "X^T Lambda X": (("84",), ("86",)),
    "X^T Lambda (xdd' - zeta)": (("76",), ("55",)),
    "f": (("56",), ("48",)),
    "qdd": (("6", "0"), ("6", "0")),
}
"""Rows of McMillan 1994, Table 2, for one arm."""


def arms_on_load(arms: int) -> PublishedCount:
    """Return McMillan 1994, Table 2, for a number of arms."""
    rows = dict(_scaled(_ARM_ON_LOAD, arms))
    rows["a'_r, a_r"] = Polynomial(99), Polynomial(27 * arms + 62)
    return PublishedCount(
        f"{THESIS} 2", f"{_chains(arms)} on a load, rigid grasps", *_total(rows), 6, 24, rows
    )


def lilly_orin_arms_on_load(arms: int) -> PublishedCount:
    """Return Lilly and Orin's O(mN) method as McMillan 1994 quotes it (L767)."""
    m = arms
    return PublishedCount(
        "McMillan 1994, L767",
        f"{_chains(m)} on a load by Lilly and Orin",
        Polynomial(656 * m, -171 * m + 128),
        Polynomial(546 * m, -208 * m + 101),
        6,
    )


MASS_MATRIX_AND_JACOBIAN = {
    "original": PublishedCount(
        "McMillan 1994, L698",
        "mass matrix and Jacobian by Lilly and Orin's method III",
        Polynomial("25/2", "49/2", -37),
        Polynomial(8, 40, -48),
    ),
    "improved": PublishedCount(
        "McMillan 1994, L698",
        "the same, composite inertias moved as in appendix A",
        Polynomial("25/2", "11/2", -18),
        Polynomial(8, 30, -38),
    ),
}
"""Mass matrix and Jacobian of a chain together."""

DUAL_ARM: Mapping[str, tuple[str, Mapping[str, Cost], Cost]] = {
    "I": (
        f"{THESIS} 8",
        {
            "Lambda_k": Cost(282, 180),
            "Lambda_k xdd_k": Cost(72, 60),
            "sum - c": Cost(0, 12),
            "Lambda_1 + Lambda_2 + I_r": Cost(0, 27),
            "a_r": Cost(86, 65),
            "xdd_k - a_r": Cost(0, 12),
            "f_k": Cost(72, 60),
        },
        Cost(512, 416),
    ),
    "II": (
        f"{THESIS} 9",
        {
            "Lambda_k^-1 + I_r^-1": Cost(0, 12),
            "I_r^-1 c": Cost(6, 0),
            "xdd_k + I_r^-1 c": Cost(0, 12),
            "(Lambda_1^-1 + I_r^-1)^-1": Cost(141, 90),
            "I_r^-1 (..)^-1": Cost(36, 0),
            "I_r^-1 (..)^-1 I_r^-1": Cost(21, 0),
            "I_r^-1 (..)^-1 [..]": Cost(36, 30),
            "difference of vectors": Cost(0, 6),
            "difference of matrices": Cost(0, 21),
            "f_2": Cost(86, 65),
            "I_r^-1 f_2": Cost(6, 0),
            "[..] - I_r^-1 f_2": Cost(0, 6),
            "f_1": Cost(36, 30),
            "I_r^-1 f_1": Cost(6, 0),
            "a_r": Cost(0, 12),
        },
        Cost(374, 284),
    ),
}
"""Methods for two arms: table, rows, total; arms' own dynamics left out."""
