"""Dormand and Prince's method of order 8 with error estimates of orders 5 and 3.

Hairer, Norsett and Wanner 1993, "Solving Ordinary Differential Equations I", secs. II.5, II.6 and
II.10, second edition; digits as in Hairer's code, order conditions are tested. Twelve evaluations a
step; three more where a state inside the step is wanted.
"""

from collections.abc import Sequence
from functools import partial
from typing import ClassVar

import numpy as np

from tiburon.arguments import public
from tiburon.record import record
from tiburon.simulation.integrators.dopri5 import attempted, hermite
from tiburon.simulation.integrators.integrator import (
    DEFAULT_ATOL,
    DEFAULT_DT,
    DEFAULT_RTOL,
    AdaptiveIntegrator,
)
from tiburon.simulation.integrators.manifold import Chart, combine
from tiburon.simulation.integrators.method import Attempt, Pair, Tableau, explicit_step
from tiburon.spatial import Scalar, Scalars
from tiburon.spatial.rotations import select


@public
@record
class Dop853(AdaptiveIntegrator):
    """Dormand and Prince's method of order 8, with steps that adapt to a tolerance.

    Example:
        ``tb.simulate(arm, 0.1, method=tb.Dop853(rtol=1e-10, atol=1e-10))``
    """

    name: ClassVar[str] = "dop853"

    rtol: float | None = DEFAULT_RTOL
    """Relative tolerance of velocities and states; None for equal steps."""

    atol: float | None = DEFAULT_ATOL
    """Absolute tolerance in the units of the states; None for equal steps."""

    dt: float = DEFAULT_DT
    """Spacing of the times that can be recorded and controlled, or equal step [s]."""


NODES = (
    0.0,
    0.05260015195876773,
    0.0789002279381516,
    0.1183503419072274,
    0.2816496580927726,
    0.3333333333333333,
    0.25,
    0.3076923076923077,
    0.6512820512820513,
    0.6,
    0.8571428571428571,
    1.0,
)
"""When the twelve stages are evaluated, in steps."""

ROWS = (
    (0.05260015195876773,),
    (0.0197250569845379, 0.0591751709536137),
    (0.02958758547680685, 0.0, 0.08876275643042054),
    (0.2413651341592667, 0.0, -0.8845494793282861, 0.924834003261792),
    (0.037037037037037035, 0.0, 0.0, 0.17082860872947386, 0.12546768756682242),
    (0.037109375, 0.0, 0.0, 0.17025221101954405, 0.06021653898045596, -0.017578125),
    (
        0.03709200011850479,
        0.0,
        0.0,
        0.17038392571223998,
        0.10726203044637328,
        -0.015319437748624402,
        0.008273789163814023,
    ),
    (
        0.6241109587160757,
        0.0,
        0.0,
        -3.3608926294469414,
        -0.868219346841726,
        27.59209969944671,
        20.154067550477894,
        -43.48988418106996,
    ),
    (
        0.47766253643826434,
        0.0,
        0.0,
        -2.4881146199716677,
        -0.590290826836843,
        21.230051448181193,
        15.279233632882423,
        -33.28821096898486,
        -0.020331201708508627,
    ),
    (
        -0.9371424300859873,
        0.0,
        0.0,
        5.186372428844064,
        1.0914373489967295,
        -8.149787010746927,
        -18.52006565999696,
        22.739487099350505,
        2.4936055526796523,
        -3.0467644718982196,
    ),
    (
        2.273310147516538,
        0.0,
        0.0,
        -10.53449546673725,
        -2.0008720582248625,
        -17.9589318631188,
        27.94888452941996,
        -2.8589982771350235,
        -8.87285693353063,
        12.360567175794303,
        0.6433927460157636,
    ),
)
"""Rates that lead to the stages after the first."""

WEIGHTS = (
    0.054293734116568765,
    0.0,
    0.0,
    0.0,
    0.0,
    4.450312892752409,
    1.8915178993145003,
    -5.801203960010585,
    0.3111643669578199,
    -0.1521609496625161,
    0.20136540080403034,
    0.04471061572777259,
)
"""Rates that lead to the result."""

ERROR_5 = (
    0.01312004499419488,
    0.0,
    0.0,
    0.0,
    0.0,
    -1.2251564463762044,
    -0.4957589496572502,
    1.6643771824549864,
    -0.35032884874997366,
    0.3341791187130175,
    0.08192320648511571,
    -0.022355307863886294,
    0.0,
)
"""Weights of the error estimate of order 5; the last belongs to the end of the step."""

ERROR_3 = (
    -0.18980075407240762,
    0.0,
    0.0,
    0.0,
    0.0,
    4.450312892752409,
    1.8915178993145003,
    -5.801203960010585,
    -0.4226823213237919,
    -0.1521609496625161,
    0.20136540080403034,
    0.02265179219836082,
    0.0,
)
"""Weights of the error estimate of order 3."""

DENSE_NODES = (
    0.1,
    0.2,
    0.7777777777777778,
)
"""When the stages for interpolation are evaluated, in steps."""

DENSE_ROWS = (
    (
        0.056167502283047954,
        0.0,
        0.0,
        0.0,
        0.0,
        0.0,
        0.25350021021662483,
        -0.2462390374708025,
        -0.12419142326381637,
        0.15329179827876568,
        0.00820105229563469,
        0.007567897660545699,
        -0.008298,
    ),
    (
        0.03183464816350214,
        0.0,
        0.0,
        0.0,
        0.0,
        0.028300909672366776,
        0.053541988307438566,
        -0.05492374857139099,
        0.0,
        0.0,
        -0.00010834732869724932,
        0.0003825710908356584,
        -0.00034046500868740456,
        0.1413124436746325,
    ),
    (
        -0.42889630158379194,
        0.0,
        0.0,
        0.0,
        0.0,
        -4.697621415361164,
        7.683421196062599,
        4.06898981839711,
        0.3567271874552811,
        0.0,
        0.0,
        0.0,
        -0.0013990241651590145,
        2.9475147891527724,
        -9.15095847217987,
    ),
)
"""Rates that lead to them: of the stages, of the end of the step, of one another."""

DENSE_WEIGHTS = (
    (
        -8.428938276109013,
        0.0,
        0.0,
        0.0,
        0.0,
        0.5667149535193777,
        -3.0689499459498917,
        2.38466765651207,
        2.117034582445028,
        -0.871391583777973,
        2.2404374302607883,
        0.6315787787694688,
        -0.08899033645133331,
        18.148505520854727,
        -9.194632392478356,
        -4.436036387594894,
    ),
    (
        10.427508642579134,
        0.0,
        0.0,
        0.0,
        0.0,
        242.28349177525817,
        165.20045171727028,
        -374.5467547226902,
        -22.113666853125306,
        7.733432668472264,
        -30.674084731089398,
        -9.332130526430229,
        15.697238121770845,
        -31.139403219565178,
        -9.35292435884448,
        35.81684148639408,
    ),
    (
        19.985053242002433,
        0.0,
        0.0,
        0.0,
        0.0,
        -387.0373087493518,
        -189.17813819516758,
        527.8081592054236,
        -11.57390253995963,
        6.8812326946963,
        -1.0006050966910838,
        0.7777137798053443,
        -2.778205752353508,
        -60.19669523126412,
        84.32040550667716,
        11.99229113618279,
    ),
    (
        -25.69393346270375,
        0.0,
        0.0,
        0.0,
        0.0,
        -154.18974869023643,
        -231.5293791760455,
        357.6391179106141,
        93.40532418362432,
        -37.45832313645163,
        104.0996495089623,
        29.8402934266605,
        -43.53345659001114,
        96.32455395918828,
        -39.17726167561544,
        -149.72683625798564,
    ),
)
"""Rates that make the last four of the seven vectors of the interpolation."""

DOP853 = Tableau(c=NODES, a=ROWS, b=WEIGHTS)
"""The method of order 8."""

INTERPOLATED_STAGES = (0, 5, 6, 7, 8, 9, 10, 11, 12)
"""Rates that interpolation needs: the others have no weight in it."""

dop853_step = partial(explicit_step, DOP853)
"""One step of order 8 without an error estimate."""


class Dop853Pair(Pair):
    """The method of order 8 with estimates of orders 5 and 3."""

    name: ClassVar[str] = "dop853"
    order: ClassVar[int] = 8
    estimate_order: ClassVar[int] = 8
    most_growth: ClassVar[float] = 6.0
    most_shrinking: ClassVar[float] = 3.0
    piece_count: ClassVar[int] = 1 + len(INTERPOLATED_STAGES)
    dense_count: ClassVar[int] = 7
    dense_is_free: ClassVar[bool] = False

    def attempt(self, chart: Chart, w: Scalars, rate: Scalars, h: Scalar, time: Scalar) -> Attempt:
        """Take one step: twelve evaluations, the last of which starts the next step."""
        change, (q, w, rate), rates = attempted(chart, DOP853, w, rate, h, time)
        zero = (0.0,) * len(change)
        errors = tuple(combine(zero, h, weights, rates) for weights in (ERROR_5, ERROR_3))
        return Attempt(
            change, q, w, rate, errors, (change, *(rates[place] for place in INTERPOLATED_STAGES))
        )

    def dense(
        self, chart: Chart, w: Scalars, pieces: Sequence[Scalars], h: Scalar, time: Scalar
    ) -> tuple[Scalars, ...]:
        """Return the vectors of the interpolation of order 7: three evaluations."""
        y = chart.start(w)
        zero = (0.0,) * len(y)
        change, known = pieces[0], dict(zip(INTERPOLATED_STAGES, pieces[1:], strict=True))
        rates = [known.get(place, zero) for place in range(len(NODES) + 1)]
        for c, row in zip(DENSE_NODES, DENSE_ROWS, strict=True):
            rates.append(chart.rates(combine(y, h, row, rates), time + c * h))
        bends = (combine(zero, h, row, rates) for row in DENSE_WEIGHTS)
        return (*hermite(change, rates[0], known[INTERPOLATED_STAGES[-1]], h), *bends)

    def error(self, squares: Scalars, h: Scalar) -> Scalar:
        """Return the estimate of order 5, reduced where that of order 3 allows it.

        e5^2 / sqrt(e5^2 + e3^2 / 100): it falls with the eighth power of the step (sec. II.10).
        """
        fifth, third = squares
        both = fifth + 0.01 * third
        return fifth / np.sqrt(select(both > 0.0, both, 1.0))
