"""Elementary functions: error against mpmath over their range, special values, and equal bits."""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import dataclass
from functools import cache
from pathlib import Path

import mpmath
import numpy as np
import pytest

from tests.native.emitted import COMPILER, Emitted, Writer, compile_all_c, compile_llvm
from tiburon.native import elementary

INF, NAN, PI = math.inf, math.nan, math.pi
COUNT = 1000  # random points per range


def sin(t, x):
    return elementary.sin_cos(t, x)[0]


def cos(t, x):
    return elementary.sin_cos(t, x)[1]


def uniform(rng: np.random.Generator, low: float, high: float) -> np.ndarray:
    return rng.uniform(low, high, COUNT)


def magnitudes(rng: np.random.Generator, low: float, high: float) -> np.ndarray:
    """Positive numbers with uniformly distributed exponents of two."""
    return np.exp2(rng.uniform(low, high, COUNT))


def signed(rng: np.random.Generator, positive: np.ndarray) -> np.ndarray:
    return positive * rng.choice([-1.0, 1.0], len(positive))


def around(rng: np.random.Generator, center: float) -> np.ndarray:
    """Numbers at all distances from a point, from the last digit to its own size."""
    return center * (1.0 + signed(rng, magnitudes(rng, -53.0, -1.0)))


def angles(rng: np.random.Generator) -> list[np.ndarray]:
    multiples = np.round(rng.uniform(1.0, 6.3e7, COUNT)) * (PI / 2.0)
    return [
        np.concatenate(
            [
                uniform(rng, -4.0, 4.0),
                uniform(rng, -1e3, 1e3),
                uniform(rng, -1e8, 1e8),
                np.arange(-200, 201) * (PI / 4.0),
                multiples,  # where almost all digits of the difference to n pi/2 cancel
                signed(rng, magnitudes(rng, -1022.0, 0.0)),
                [1e8, -1e8],
            ]
        )
    ]


def exponents(rng: np.random.Generator) -> list[np.ndarray]:
    return [
        np.concatenate(
            [
                uniform(rng, -745.2, 709.8),
                uniform(rng, -745.2, -708.0),  # subnormal results
                uniform(rng, -1.0, 1.0),
                signed(rng, magnitudes(rng, -1074.0, 0.0)),
                np.arange(-2150, 2049) * (math.log(2.0) / 2.0),  # ends of the reduced interval
            ]
        )
    ]


def logarithm_arguments(rng: np.random.Generator) -> list[np.ndarray]:
    return [
        np.concatenate(
            [
                magnitudes(rng, -1074.0, 1023.99),
                magnitudes(rng, -1.0, 1.0),
                around(rng, 1.0),
                around(rng, math.sqrt(0.5)),
                around(rng, math.sqrt(2.0)),
                np.exp2(np.arange(-1074, 1024)),
                [5e-324, 2.2250738585072011e-308, 1.7976931348623157e308],
            ]
        )
    ]


def hyperbolic_arguments(rng: np.random.Generator) -> list[np.ndarray]:
    return [
        np.concatenate(
            [
                uniform(rng, -710.47, 710.47),
                uniform(rng, -25.0, 25.0),
                uniform(rng, -1.0, 1.0),
                signed(rng, magnitudes(rng, -1074.0, 0.0)),
                signed(rng, around(rng, 22.0)),
            ]
        )
    ]


def sines(rng: np.random.Generator) -> list[np.ndarray]:
    return [
        np.concatenate(
            [
                uniform(rng, -1.0, 1.0),
                signed(rng, around(rng, 0.5)),
                signed(rng, 1.0 - magnitudes(rng, -53.0, 0.0)),
                signed(rng, magnitudes(rng, -1074.0, 0.0)),
                [1.0, -1.0],
            ]
        )
    ]


def slopes(rng: np.random.Generator) -> list[np.ndarray]:
    return [
        np.concatenate(
            [
                uniform(rng, -10.0, 10.0),
                signed(rng, magnitudes(rng, -1074.0, 1023.99)),
                signed(rng, around(rng, math.sqrt(2.0) - 1.0)),
                signed(rng, around(rng, math.sqrt(2.0) + 1.0)),
                signed(rng, around(rng, 1.0)),
            ]
        )
    ]


def plane_vectors(rng: np.random.Generator) -> list[np.ndarray]:
    size = signed(rng, magnitudes(rng, -1074.0, 1023.0))
    parts = [
        (uniform(rng, -1.0, 1.0), uniform(rng, -1.0, 1.0)),
        (signed(rng, magnitudes(rng, -1074.0, 1023.0)), size),
        (signed(rng, magnitudes(rng, -20.0, 20.0)), signed(rng, magnitudes(rng, -20.0, 20.0))),
        (size, signed(rng, around(rng, 1.0)) * size),
        (signed(rng, around(rng, math.sqrt(2.0) - 1.0)) * size, size),
    ]
    columns = [np.concatenate(column) for column in zip(*parts, strict=True)]
    # the oracle knows no signed zeros; they are among the special values
    return [np.where(column == 0.0, 5e-324, column) for column in columns]


def common_vectors(rng: np.random.Generator) -> list[np.ndarray]:
    """Vectors without subnormal numbers, in the components and in the angle."""
    y, x = plane_vectors(rng)
    with np.errstate(all="ignore"):
        normal = (np.minimum(abs(x), abs(y)) > 1e-307) & (abs(y / x) > 1e-307)
    return [y[normal], x[normal]]


def powers(rng: np.random.Generator) -> list[np.ndarray]:
    bases = np.concatenate(
        [
            magnitudes(rng, -1074.0, 1023.9),
            magnitudes(rng, -1.0, 1.0),
            around(rng, 1.0),
            around(rng, math.sqrt(2.0)),
        ]
    )
    logs = np.log(bases)
    # exponents that lead to every finite power, for every base that has them
    reaching = rng.uniform(-744.0, 709.0, len(bases)) / np.where(logs == 0.0, 1.0, logs)
    whole = np.round(uniform(rng, -40.0, 40.0))
    parts = [
        (bases, reaching),
        (uniform(rng, 0.0, 10.0), uniform(rng, -20.0, 20.0)),
        (uniform(rng, -1e3, 0.0), whole),
        (magnitudes(rng, -1000.0, 1000.0), np.full(COUNT, 0.5)),
    ]
    return [np.concatenate(column) for column in zip(*parts, strict=True)]


@dataclass(frozen=True)
class Case:
    """A function, its oracle, where it is tried, and the promised bound of its error [ulp]."""

    write: Writer
    exact: Callable[..., mpmath.mpf]
    arguments: Callable[[np.random.Generator], list[np.ndarray]]
    bound: float


# the bounds are those of the docstrings: half an ulp for the last rounding, the rest for the
# argument's reduction and the roundings before the last
CASES = {
    "sin": Case(sin, mpmath.sin, angles, 2.0),
    "cos": Case(cos, mpmath.cos, angles, 2.0),
    "tan": Case(elementary.tan, mpmath.tan, angles, 1.0),
    "exp": Case(elementary.exp, mpmath.exp, exponents, 1.0),
    "expm1": Case(elementary.expm1, mpmath.expm1, exponents, 2.0),
    "log": Case(elementary.log, mpmath.log, logarithm_arguments, 1.0),
    "pow": Case(elementary.pow, mpmath.power, powers, 1.5),
    "tanh": Case(elementary.tanh, mpmath.tanh, hyperbolic_arguments, 3.0),
    "sinh": Case(elementary.sinh, mpmath.sinh, hyperbolic_arguments, 3.0),
    "cosh": Case(elementary.cosh, mpmath.cosh, hyperbolic_arguments, 2.0),
    "asin": Case(elementary.asin, mpmath.asin, sines, 2.0),
    "acos": Case(elementary.acos, mpmath.acos, sines, 2.0),
    "atan": Case(elementary.atan, mpmath.atan, slopes, 1.0),
    "atan2": Case(elementary.atan2, mpmath.atan2, common_vectors, 1.0),
    "atan2_subnormal": Case(elementary.atan2, mpmath.atan2, plane_vectors, 2.0),
    "hypot": Case(elementary.hypot, mpmath.hypot, plane_vectors, 1.5),
}
EVERY_FUNCTION = pytest.mark.parametrize("name", CASES)
FUSED = pytest.mark.parametrize("fused", [True, False], ids=["fused", "unfused"])


@cache
def arguments(name: str) -> list[np.ndarray]:
    return CASES[name].arguments(np.random.default_rng(20240611))


@cache
def exact_values(name: str) -> list[mpmath.mpf]:
    with mpmath.workprec(250):
        columns = [[mpmath.mpf(float(a)) for a in column] for column in arguments(name)]
        return [CASES[name].exact(*row) for row in zip(*columns, strict=True)]


@cache
def compiled(name: str, lanes: int, fused: bool = True) -> Emitted:
    if name == "sign":
        return compile_llvm(elementary.sign, arity=1, lanes=lanes, fused=fused)
    return compile_llvm(CASES[name].write, arity=len(arguments(name)), lanes=lanes, fused=fused)


def errors_in_ulp(found: np.ndarray, exact: list[mpmath.mpf]) -> np.ndarray:
    """Distance to the exact value in units of the spacing of floats there."""
    errors = np.empty(len(found))
    with mpmath.workprec(250):
        for index, (a, b) in enumerate(zip(found, exact, strict=True)):
            nearest = float(b)
            if math.isfinite(a) and math.isfinite(nearest):
                errors[index] = abs(mpmath.mpf(float(a)) - b) / float(np.spacing(abs(nearest)))
            else:
                errors[index] = 0.0 if a == nearest else INF
    return errors


def same_bits(a: np.ndarray, b: np.ndarray) -> bool:
    """Whether two arrays agree in all bits; one NaN is as good as another."""
    equal = a.view(np.int64) == b.view(np.int64)
    return bool(np.all(equal | (np.isnan(a) & np.isnan(b))))


def adversarial(name: str) -> list[np.ndarray]:
    """The arguments of the accuracy test and all combinations of special numbers."""
    special = np.array(
        [0.0, 5e-324, 1e-310, 0.5, 1.0, 2.0, 3.0, 22.0, 709.9, 1e8, 1.1e8, 1e300, INF, NAN]
    )
    special = np.concatenate([special, -special])
    grids = np.meshgrid(*[special] * len(arguments(name)))
    return [np.concatenate([a, g.ravel()]) for a, g in zip(arguments(name), grids, strict=True)]


@FUSED
@EVERY_FUNCTION
def test_error_stays_below_the_documented_bound(name: str, fused: bool) -> None:
    found = compiled(name, 1, fused)(*arguments(name))[0]
    errors = errors_in_ulp(found, exact_values(name))
    worst = int(np.argmax(errors))
    at = [float(column[worst]) for column in arguments(name)]
    assert errors[worst] < CASES[name].bound, f"{errors[worst]:.3f} ulp at {at}: {found[worst]}"


def test_documented_bounds_are_the_asserted_ones() -> None:
    """The table in docs/numbers.md lists every function, with the bound used here."""
    text = (Path(__file__).resolve().parents[2] / "docs" / "numbers.md").read_text()
    table = text[text.index("| function | error below") :].split("\n\n")[0]
    documented = {}
    for names, bound in re.findall(r"^\| ([\w, ]+) \| ([\d.]+)", table, re.MULTILINE):
        documented.update(dict.fromkeys(names.split(", "), float(bound)))
    subnormal = re.search(r"\((\d) where .* subnormal\)", table)
    assert subnormal is not None
    documented["atan2_subnormal"] = float(subnormal[1])
    assert documented == {name: case.bound for name, case in CASES.items()}


@EVERY_FUNCTION
@pytest.mark.parametrize("lanes", [2, 4, 8])
def test_lanes_give_the_bits_of_one_value(name: str, lanes: int) -> None:
    points = adversarial(name)
    assert same_bits(compiled(name, lanes)(*points), compiled(name, 1)(*points))


@EVERY_FUNCTION
def test_elementary_functions_ignore_other_lanes(name: str) -> None:
    points = adversarial(name)
    shifted = [np.roll(column, 3) for column in points]
    function = compiled(name, 4)
    assert same_bits(np.roll(function(*shifted), -3, axis=1), function(*points))


@pytest.fixture(scope="module")
def emitted_c(tmp_path_factory: pytest.TempPathFactory) -> dict[str, Emitted]:
    """Return all functions with products fused and not, by name, from one C library."""
    return compile_all_c(
        {
            f"tb_{name}_{fused}": (CASES[name].write, len(adversarial(name)), fused)
            for name in CASES
            for fused in (True, False)
        },
        tmp_path_factory.mktemp("c"),
    )


@pytest.mark.skipif(COMPILER is None, reason="no C compiler (cc) on this machine")
@FUSED
@EVERY_FUNCTION
def test_emitted_c_gives_the_bits_of_llvm(
    name: str, fused: bool, emitted_c: dict[str, Emitted]
) -> None:
    points = adversarial(name)
    function = emitted_c[f"tb_{name}_{fused}"]
    assert same_bits(function(*points), compiled(name, 1, fused)(*points))


SPECIAL = [
    ("sin", (0.0,), 0.0),
    ("cos", (-0.0,), 1.0),
    ("sin", (math.nextafter(1e8, INF),), NAN),
    ("cos", (-math.nextafter(1e8, INF),), NAN),
    ("sin", (INF,), NAN),
    ("tan", (-INF,), NAN),
    ("tan", (1.0000001e8,), NAN),
    ("exp", (0.0,), 1.0),
    ("exp", (-0.0,), 1.0),
    ("exp", (709.79,), INF),
    ("exp", (INF,), INF),
    ("exp", (1e300,), INF),
    ("exp", (-745.13,), 5e-324),
    ("exp", (-745.14,), 0.0),
    ("exp", (-INF,), 0.0),
    ("expm1", (-0.0,), -0.0),
    ("expm1", (-INF,), -1.0),
    ("expm1", (-1e300,), -1.0),
    ("expm1", (709.79,), INF),
    ("expm1", (INF,), INF),
    ("log", (0.0,), -INF),
    ("log", (-0.0,), -INF),
    ("log", (-5e-324,), NAN),
    ("log", (-INF,), NAN),
    ("log", (1.0,), 0.0),
    ("log", (INF,), INF),
    ("tanh", (-0.0,), -0.0),
    ("tanh", (INF,), 1.0),
    ("tanh", (-1e300,), -1.0),
    ("sinh", (-0.0,), -0.0),
    ("sinh", (-711.0,), -INF),
    ("sinh", (INF,), INF),
    ("cosh", (0.0,), 1.0),
    ("cosh", (-711.0,), INF),
    ("cosh", (-INF,), INF),
    ("asin", (-0.0,), -0.0),
    ("asin", (math.nextafter(1.0, 2.0),), NAN),
    ("asin", (-INF,), NAN),
    ("acos", (1.0,), 0.0),
    ("acos", (-1.0,), PI),
    ("acos", (-1.0000001,), NAN),
    ("acos", (INF,), NAN),
    ("atan", (-0.0,), -0.0),
    ("atan", (INF,), PI / 2),
    ("atan", (-INF,), -PI / 2),
    ("atan2", (0.0, 0.0), 0.0),
    ("atan2", (-0.0, 0.0), -0.0),
    ("atan2", (0.0, -0.0), PI),
    ("atan2", (-0.0, -0.0), -PI),
    ("atan2", (0.0, -1.0), PI),
    ("atan2", (-0.0, -INF), -PI),
    ("atan2", (1.0, 0.0), PI / 2),
    ("atan2", (-1.0, -0.0), -PI / 2),
    ("atan2", (INF, INF), PI / 4),
    ("atan2", (-INF, INF), -PI / 4),
    ("atan2", (INF, -INF), 3 * PI / 4),
    ("atan2", (-INF, -INF), -3 * PI / 4),
    ("atan2", (INF, -1e300), PI / 2),
    ("atan2", (-3.0, INF), -0.0),
    ("atan2", (3.0, -INF), PI),
    ("atan2", (NAN, INF), NAN),
    ("atan2", (INF, NAN), NAN),
    ("hypot", (3.0, -4.0), 5.0),
    ("hypot", (-0.0, -0.0), 0.0),
    ("hypot", (5e-324, 0.0), 5e-324),
    ("hypot", (3e300, 4e300), 5e300),
    ("hypot", (1.7e308, 1.7e308), INF),
    ("hypot", (-INF, 1.0), INF),
    ("hypot", (NAN, 1.0), NAN),
    ("pow", (0.0, 0.0), 1.0),
    ("pow", (NAN, 0.0), 1.0),
    ("pow", (1.0, NAN), 1.0),
    ("pow", (-1.0, NAN), NAN),
    ("pow", (NAN, 1.0), NAN),
    ("pow", (0.0, 2.5), 0.0),
    ("pow", (0.0, -2.5), INF),
    ("pow", (-0.0, 3.0), -0.0),
    ("pow", (-0.0, -3.0), -INF),
    ("pow", (-0.0, 2.0), 0.0),
    ("pow", (-0.0, 0.5), 0.0),
    ("pow", (-2.0, 3.0), -8.0),
    ("pow", (-2.0, -2.0), 0.25),
    ("pow", (-2.0, 0.5), NAN),
    ("pow", (-1.0, INF), 1.0),
    ("pow", (-1.0, 9007199254740991.0), -1.0),
    ("pow", (-1.0, 9007199254740992.0), 1.0),
    ("pow", (0.5, INF), 0.0),
    ("pow", (0.5, -INF), INF),
    ("pow", (-2.0, INF), INF),
    ("pow", (2.0, -INF), 0.0),
    ("pow", (INF, 0.5), INF),
    ("pow", (INF, -1e-300), 0.0),
    ("pow", (-INF, 3.0), -INF),
    ("pow", (-INF, 0.5), INF),
    ("pow", (-INF, -3.0), -0.0),
    ("pow", (2.0, 1024.0), INF),
    ("pow", (-2.0, 1025.0), -INF),
    ("pow", (2.0, -1074.0), 5e-324),
    ("pow", (2.0, -1076.0), 0.0),
    ("pow", (1.0000000000000002, 1e300), INF),
    ("pow", (3.0, 5e-324), 1.0),
    ("sign", (-3.0,), -1.0),
    ("sign", (5e-324,), 1.0),
    ("sign", (-0.0,), 0.0),
    ("sign", (INF,), 1.0),
    ("sign", (NAN,), NAN),
]


@FUSED
def test_special_values(fused: bool) -> None:
    for name, given, expected in SPECIAL:
        found = compiled(name, 1, fused)(*[[a] for a in given])[0]
        assert same_bits(found, np.array([expected])), (name, given, found[0])


@EVERY_FUNCTION
def test_nan_gives_nan(name: str) -> None:
    given = [[NAN]] * len(arguments(name))
    assert np.isnan(compiled(name, 1)(*given)).all()


@pytest.mark.parametrize("name", ["exp", "log", "sinh", "asin", "atan", "tanh", "expm1"])
def test_elementary_functions_are_monotonic(name: str) -> None:
    """Neighbouring arguments may tie, but over 16 spacings an increase must show as no decrease."""
    rng = np.random.default_rng(5)
    starts = rng.uniform(0.01, 0.99, 500)
    steps = starts[:, None] * (1.0 + 16.0 * np.finfo(float).eps * np.arange(8))
    found = compiled(name, 4)(steps.ravel())[0].reshape(steps.shape)
    assert (np.diff(found, axis=1) >= 0.0).all()
