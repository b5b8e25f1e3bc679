"""Nahon 1991, chapters 2 to 4: mobility, redundancy, controllability, sizes (E1-E6)."""

import math
from itertools import pairwise

import numpy as np

from tiburon.arrays import Array
from tiburon.formats.load import load
from tiburon.functions.load_sharing import LoadSharing
from tiburon.functions.mobility import connectivity, cycle_jacobian, mobility, motor_sets
from tiburon.load_sharing.objectives.contact_force import InternalForce
from tiburon.load_sharing.objectives.torque_norm import TorqueNorm
from tiburon.loops.topology import topology
from tiburon.model import Fixed, Ground, World
from tiburon.model.joints import Spherical
from tiburon.reproduce.cells import DERIVED, Cells, cell_table, claim, number
from tiburon.reproduce.nahon_problems import arms_on_object, loaded_walker, planar_hand

_S = math.sqrt(2.0)

JACOBIAN = np.array([
    [1, 1, 1, -1, -1, -1, 0, 0, 0],
    [-_S, -_S / 2, 0, _S, _S / 2, 0, 0, 0, 0],
    [-1, -(2 + _S) / 2, -1, 0, _S / 2, 0, 0, 0, 0],
    [0, 0, 0, 1, 1, 1, -1, -1, -1],
    [0, 0, 0, -_S, -_S / 2, 0, _S, _S / 2, 0],
    [0, 0, 0, 0, -_S / 2, 0, -1, -(2 - _S) / 2, -1],
])  # fmt: skip
"""J_c' of the planar walker, eq. 3.50a, unit lengths."""

JACOBIAN_JOINTS = (7, 4, 1, 8, 5, 2, 9, 6, 3)
"""Joints of its columns."""

CONDITIONS = {
    "124": 27.99, "125": 24.95, "126": 54.92, "134": 15.10, "135": 11.83, "136": 27.86,
    "145": 10.62, "146": 10.39, "156": 26.18, "234": 23.78, "235": 16.47, "236": 30.86,
    "245": 11.51, "246": 11.10, "256": 15.90, "345": 11.32, "346": 10.67, "356": 15.40,
    "123": math.inf, "456": math.inf,
}  # fmt: skip
"""kappa(J_u) of all choices of three motors, recomputed from (3.50a)."""

NESTED = {"135": 11.830, "1235": 11.009, "12345": 7.624, "123456": 3.8208}
"""The same of nested choices."""


@cell_table("E1", "planar walker on three legs")
def _walker_mobility() -> Cells:
    model = load("planar_walker")
    six = mobility(model)
    three = mobility(model, driven=["joint_1", "joint_3", "joint_5"])
    yield number("mobility, d = 3, b = 8, g = 9", 3, six.mobility, 0)
    yield number("redundancy with six motors", 3, six.redundancy, 0)
    yield number("redundancy with three motors", 0, three.redundancy, 0)


@cell_table("E2", "counting examples")
def _counts() -> Cells:
    arms = arms_on_object((4, 5, 6), Fixed)
    found = mobility(arms, arms.neutral(), driven=[])
    yield number("mobility of 3 arms with 4, 5, 6 joints", 3, found.mobility, 0)
    full = arms_on_object((6, 6, 6), Fixed)
    found = mobility(full, full.neutral(), driven=[])
    yield number("mobility of 3 arms with 6 joints: full", 6, found.mobility, 0)
    for title, joint_counts, tie, expected in (
        ("redundancy of 3 arms, rigid grasps", (6, 6, 6), Fixed, 12),
        ("redundancy of 3 fingers, points with friction", (3, 3, 3), Spherical, 3),
    ):
        model = arms_on_object(joint_counts, tie)
        motors = [name for name in model.joint_names if name.startswith("a")]
        at = mobility(model, model.neutral(), driven=motors)
        yield number(title, expected, at.redundancy, 0)
    model = arms_on_object((3,) * 6, Spherical)
    motors = [name for name in model.joint_names if name.startswith("a")]
    at = mobility(model, model.neutral(), driven=motors)
    yield number("mobility of a walker on 6 legs, all feet down", 6, at.mobility, 0)
    sets = math.comb(len(motors), at.mobility)
    yield number("its sets of 6 of 18 motors (3.53)", 18564, sets, 0)
    shape = topology(model)
    cycles = cycle_jacobian(model, shape, model.neutral())
    columns = len(cycles.names) - at.mobility
    yield number("rows and columns of its J_u", (30, 30), (6 * shape.cycle_count, columns), 0)


@cell_table("E3", "connectivity of palm and object")
def _connectivity() -> Cells:
    for name, joint_counts, expected in (("a", (2, 3, 4), 2), ("b", (3, 3, 3), 3)):
        hand = planar_hand(joint_counts)
        q = hand.neutral()
        text = f"hand ({name}), fingers with {', '.join(map(str, joint_counts))} joints"
        yield number(f"{text}: mobility", 3, mobility(hand, q, driven=[]).mobility, 0)
        yield number(f"{text}: connectivity", expected, connectivity(hand, "world", "object", q), 0)


@cell_table("E4", "controllability of the planar walker")
def _controllability() -> Cells:
    model = load("planar_walker")
    q = model.neutral()
    found = cycle_jacobian(model, topology(model), q)
    order = [found.names.index(f"joint_{k}") for k in JACOBIAN_JOINTS]
    ours, printed = found.matrix[:, order], JACOBIAN
    rows, signs = _signed_rows(ours, printed)
    error = float(np.abs(ours[rows] * signs[0][:, None] * signs[1] - printed).max())
    hips = mobility(model, q, driven=["joint_1", "joint_2", "joint_3"])
    yield claim(
        "J_c' (3.50a), all 54 entries, up to the order and signs of rows and joint axes",
        "(3.50a)",
        f"largest difference {error:.1e}",
        error < 1e-12,
    )
    yield number("nullity of J_u with motors 1, 2, 3", 1, hips.loose_mobility, 0)
    rated = {"".join(n[-1] for n in one.joints): one.condition for one in motor_sets(model, q)}
    for key, value in CONDITIONS.items():
        yield number(f"kappa(J_u), motors {key}", value, rated[key], 0.005, DERIVED)
    for key, value in NESTED.items():
        names = [f"joint_{k}" for k in key]
        ours_rate = mobility(model, q, driven=names).condition
        yield number(f"kappa(J_u), motors {key}", value, ours_rate, 5e-4, DERIVED)
    nested = [mobility(model, q, driven=[f"joint_{k}" for k in key]).condition for key in NESTED]
    yield claim(
        "more motors never have a larger kappa",
        "yes",
        " > ".join(f"{x:.2f}" for x in nested),
        all(a >= b for a, b in pairwise(nested)),
    )


def _signed_rows(ours: Array, printed: Array) -> tuple[list[int], tuple[Array, Array]]:
    """Return rows of ours, their signs and signs of columns that come nearest to a matrix.

    Which direction of a loop and of a joint is positive is a matter of choice. Signs spread from
    the first column along entries that are not zero.
    """
    rows: list[int] = []
    for row in np.abs(printed):
        apart = np.abs(np.abs(ours) - row).max(axis=1)
        apart[rows] = np.inf
        rows.append(int(np.argmin(apart)))
    product = np.sign(np.round(ours[rows] * printed, 9))
    of_rows, of_columns = np.zeros(len(product)), np.zeros(product.shape[1])
    of_columns[0] = 1.0
    for _ in range(sum(product.shape)):
        for i, j in zip(*np.nonzero(product), strict=True):
            if of_columns[j] and not of_rows[i]:
                of_rows[i] = product[i, j] * of_columns[j]
            elif of_rows[i] and not of_columns[j]:
                of_columns[j] = product[i, j] * of_rows[i]
    return rows, (of_rows, of_columns)


@cell_table("E5", "planar walker under a moving load of 1000 N")
def _loads() -> Cells:
    negative = [False, False]
    for x in (-1.0, -0.5, 0.0, 0.5, 1.0):
        model = loaded_walker(x)
        q = model.neutral()
        shared, few = (
            LoadSharing.of(
                model, driven=motors, objective=InternalForce(length=1.0), torque_limits=False
            )
            .share(q)
            .x
            for motors in (None, [f"joint_{k}" for k in (1, 3, 5)])
        )
        shared = shared[1::2]
        closed = 1000.0 / 3.0 + 500.0 * x * np.array([1.0, 0.0, -1.0])
        title = f"load at {x:g} m"
        yield number(f"six motors, {title}: vertical forces [N]", closed, shared, 5e-5, DERIVED)
        expected = (500.0 * x, 500.0 * x, 0.0, 1000.0, -500.0 * x, -500.0 * x)
        yield number(f"motors 1, 3, 5, {title}: foot forces [N]", expected, few, 5e-5, DERIVED)
        negative = [
            a or bool(f.min() < -1e-6) for a, f in zip(negative, (shared, few[1::2]), strict=True)
        ]
    yield claim("negative forces occur in both", "yes", f"{negative}", all(negative))
    model = loaded_walker(0.5)
    all_twelve = LoadSharing.of(
        model, objective=InternalForce(length=1.0) + TorqueNorm(), torque_limits=False
    ).share(model.neutral())
    # torques of the source act on the body, not on the legs
    torques = [-all_twelve.tau[model.slice(f"joint_{k}", of="v")][0] for k in range(1, 7)]
    x12 = np.array([*all_twelve.x, *torques])
    feet = (35.7143, 583.3333, 0.0, 333.3333, -35.7143, 83.3333)
    expected_torques = (50.5076, 0.0, -50.5076, -387.2251, -235.7023, -84.1794)
    yield number("12 unknowns, load at 0.5 m: foot forces [N]", feet, x12[:6], 5e-5, DERIVED)
    yield number("torques 1 to 6 [N m]", expected_torques, x12[6:], 5e-5, DERIVED)
    yield number("x^T x / 2", 339285.714, 0.5 * x12 @ x12, 5e-4, DERIVED)
    yield "through LoadSharing of the zoo's planar_walker, legs without weight"
    yield "curves of Fig. 2.13 are lost; geometry of Fig. 3.4 stands for that of Fig. 2.9"


@cell_table("E6", "sizes of the three formulations")
def _sizes() -> Cells:
    floor = World(ground=Ground(static_friction=0.5))
    for name, title, formulation, size in (
        ("two_finger_hand", "planar two-finger hand", "complete", (15, 16)),
        ("two_finger_hand", "planar two-finger hand", "superposition", (7, 8)),
        ("two_finger_hand", "planar two-finger hand", "compact", (3, 4)),
        ("planar_walker", "planar walker on three legs", "superposition", (9, 12)),
        ("osu_hexapod", "walker on six legs (stick insect)", "superposition", (24, 36)),
        ("three_finger_hand", "three fingers and a glass", "compact", (6, 9)),
    ):
        model = load(name)
        world = floor if model.contacts else None
        plan = LoadSharing.of(model, world=world, torque_limits=False).with_pyramids(4)
        q = np.array(model.poses.get("home", model.poses.get("stand", model.neutral())))
        problem = plan.problem(q, formulation=formulation)
        yield number(f"{title}, {formulation}: equations, unknowns", size, problem.A1.shape, 0)
        if name == "osu_hexapod":
            order = sum(problem.A1.shape)
            yield number("its order with multipliers", 60, order, 0)
            # forces of lifted legs are in no equation, and need one of their own each
            lifted = plan.problem(q, touching=[0, 1] * 3, formulation=formulation)
            open_forces = int(np.sum(~lifted.A1.any(axis=0)))
            yield number("and with three legs lifted", 69, order + open_forces, 0)
        if model.loops:
            r = mobility(model, q).redundancy
            yield claim(
                f"{title}, {formulation}: n - m = r",
                f"{size[1] - size[0]}",
                f"{problem.redundancy} = {r}",
                problem.redundancy == r == size[1] - size[0],
            )


STRUCTURE = {
    "E1": _walker_mobility,
    "E2": _counts,
    "E3": _connectivity,
    "E4": _controllability,
    "E5": _loads,
    "E6": _sizes,
}
"""Tables of chapters 2 to 4 by example."""
