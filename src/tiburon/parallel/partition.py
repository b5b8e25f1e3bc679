"""Where a robot is cut into parts, what they exchange, and what that is predicted to cost."""

import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import cached_property
from typing import Any

import numpy as np

from tiburon.algorithms.cost import articulated_cost
from tiburon.algorithms.surroundings import world_with
from tiburon.algorithms.tape_calls import JointVector, scalars, taping
from tiburon.argument_checks import at_least
from tiburon.arguments import public
from tiburon.arrays import Array, ArrayLike
from tiburon.errors import ModelError, OptionError, ShapeError, UnknownNameError, shown
from tiburon.functions.closed_loops import check_closed
from tiburon.functions.kernel_source import INLINED_BODIES
from tiburon.functions.library import closure_options
from tiburon.loops.constraints import jacobian_pattern
from tiburon.loops.loop_method import LoopMethod
from tiburon.loops.methods import cheaper_loop_method
from tiburon.loops.metric import ArticulatedMetric
from tiburon.loops.stabilization import (
    PROJECTION,
    Baumgarte,
    DeNOC,
    Embedding,
    Penalty,
    Projection,
)
from tiburon.loops.star import arm_numbers, layout, part_of, star
from tiburon.model import Model, Plan, Water, World
from tiburon.model.configuration import as_batch
from tiburon.model.plan import WORLD_BODY
from tiburon.parallel.branches import BRANCH_NUMBERS, BranchLayout, branch_layout
from tiburon.parallel.cut import BASE_Q, CutLayout, CutPart, Joined, Key, message_numbers, part_plan
from tiburon.trace.array import as_traced
from tiburon.trace.program import Input

SECONDS_PER_OPERATION = 0.17e-9
"""Time of one operation of a chain's recursion in optimized code: 46 ns per link."""

PART_COST = 0.7
HANDLE_COST = 55.0
"""Operations of a part that is cut anywhere, relative to `articulated_cost`, and those per row of
its message and body; with `TAPE_COST` fitted to chains of 10 to 1000 links in 2 and 4 parts, to
30 %."""

TAPE_COST = 1.5
"""Cost of a part that is too large for one piece of code, relative to the same in one."""

ASSEMBLY_SECONDS = 0.1e-6
"""Time of joining two parts with two handles each."""

EXCHANGE_SECONDS = {
    "threads of one process": 5e-6,
    "ranks on one host": 5e-6,
    "ranks on two hosts": 50e-6,
}
"""Time of one exchange of some hundred numbers, by where parts run; `tiburon bench processes`
measures it anew."""

EXCHANGES = 2
"""Exchanges per evaluation of the dynamics: messages of handles, then accelerations."""

SMALLEST_INERTIA = 1e-12
"""Smallest inertia along a joint direction of a part, relative to the largest."""


@public
class Partition:
    """A robot in parts; made by `partition`.

    Attributes:
        model: The robot.
        cuts: Names of the joints at which it is cut, in the order of the robot's joints.
        kind: "legs" or "cuts".
    """

    def __init__(self, model: Model, cuts: Sequence[str], kind: str) -> None:
        """Cut a robot; joints are known and distinct."""
        self.model, self.cuts, self.kind = model, tuple(cuts), kind
        self._kernels: dict[Any, tuple[Any, Any]] = {}
        _check_couplings(model, self.layout(loops=False))
        _check_inertias(model, self.layout(loops=False))

    def __repr__(self) -> str:
        return f"<Partition of {self.model.name!r} into {len(self.names)} parts>"

    def layout(self, *, loops: bool) -> CutLayout:
        """Return the parts and how they are joined; with the constraints of loops, or without."""
        return self._with_loops if loops else self._open

    @cached_property
    def _with_loops(self) -> CutLayout:
        return _layout(self.model, self.cuts, loops=True)

    @cached_property
    def _open(self) -> CutLayout:
        return _layout(self.model, self.cuts, loops=False)

    @cached_property
    def _is_legs(self) -> bool:
        """Whether the robot is cut where `"legs"` would cut it, and nowhere else."""
        if self.kind == "legs":
            return True
        try:
            return self.cuts == tuple(_leg_cuts(self.model))
        except ModelError:
            return False

    @cached_property
    def branches(self) -> BranchLayout | None:
        """Legs on a trunk that the recursion of the undivided tree computes; None for others."""
        if not self._is_legs or self.model.loops:
            return None
        index = {body.joint.name: body.index for body in self.model.plan.bodies}
        return branch_layout(self.model, [index[name] for name in self.cuts])

    @cached_property
    def has_arms(self) -> bool:
        """Whether its legs are arms of a star, and the undivided robot is computed by them."""
        if not self._is_legs or not self.model.loops:
            return False
        return cheaper_loop_method(self.model) == "star"

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the parts, in the order in which sums run."""
        return tuple(part.name for part in self._open.parts)

    @property
    def bodies(self) -> tuple[tuple[str, ...], ...]:
        """Moving bodies of each part, by name."""
        plan = self.model.plan
        return tuple(tuple(plan.bodies[k].name for k in part.bodies) for part in self._open.parts)

    @property
    def numbers(self) -> tuple[int, ...]:
        """How many numbers each part sends per evaluation, with its loops; 0 for what all compute.

        Of a run with the default `loops`, where loops are projected.
        """
        sent = self._legs_numbers
        return tuple(
            message_numbers(part)
            if sent is None
            else sent.get(frozenset(part.bodies), (0, 0, 0))[0]
            for part in self._with_loops.parts
        )

    @cached_property
    def _legs_numbers(self) -> dict[frozenset[int], tuple[int, int, int]] | None:
        """Numbers that legs and arms send, of results, and receive, by their bodies.

        None where the robot is computed as cut anywhere.
        """
        if self.branches is not None:
            legs = self.branches.branches
            return {frozenset(leg.bodies): (BRANCH_NUMBERS, len(leg.v), 6) for leg in legs}
        if not self.has_arms:
            return None
        return {
            arm.own_bodies: (arm_numbers(arm), len(arm.own) + len(arm.rows), len(arm.at))
            for arm in layout(self.model).arms
        }

    @cached_property
    def costs(self) -> tuple[float, ...]:
        """Predicted operations of each part."""
        plan, parts = self.model.plan, self._with_loops.parts
        if self._legs_numbers is not None:
            own = _body_costs(plan)
            return tuple(sum(own[k] for k in part.bodies) for part in parts)
        return tuple(_cost(plan, part) for part in parts)

    def owners(self, processes: int) -> tuple[int, ...]:
        """Return the process that computes each part, for a number of processes.

        Neighboring parts share a process, and the largest sum of predicted costs is as small as
        possible.
        """
        costs = self.costs
        count = min(processes, len(costs))
        return contiguous(costs, count)

    def predicted_seconds(self, processes: int = 1, exchange: float = 0.0) -> float:
        """Return the predicted time of one evaluation of the dynamics [s].

        T(P) = k c / P + 2 e + (parts - 1) assembly, where k c is the largest sum of the costs of
        parts in one process. All processes join all parts; where legs or arms are parts, they
        compute the trunk or the load instead.

        Args:
            processes: Number of processes P.
            exchange: Time of one exchange e [s]; none in one process.
        """
        legs, parts = self._legs_numbers, self._with_loops.parts
        owners = self.owners(processes)
        sums = [0.0] * processes
        shared, joins = 0.0, 0.0
        for part, owner, cost in zip(parts, owners, self.costs, strict=True):
            if legs is not None and frozenset(part.bodies) not in legs:
                shared += cost
            else:
                sums[owner] += cost
        if legs is None:
            joins = (len(owners) - 1) * ASSEMBLY_SECONDS
        return (shared + max(sums)) * SECONDS_PER_OPERATION + joins + EXCHANGES * exchange

    @public
    def forward_dynamics(
        self,
        q: ArrayLike,
        v: ArrayLike,
        tau: ArrayLike,
        *,
        world: World | None = None,
        fluid: Water | None = None,
        time: float = 0.0,
        closure: bool = True,
    ) -> Array:
        """Compute joint accelerations from the parts, one after another in this process.

        Args:
            q: Configuration [m or rad], shape (nq,).
            v: Joint velocity [m/s or rad/s], shape (nv,).
            tau: Joint force [N or N m], shape (nv,).
            world: Surroundings; gravity (0, 0, -9.81) m/s^2 on dry land by default.
            fluid: The water the robot is in.
            time: Time at which driven joints and currents are evaluated [s].
            closure: Whether to refuse states with open loops, and velocities that open them.

        Returns:
            Joint acceleration [m/s^2 or rad/s^2], shape (nv,); that of the undivided robot to
            rounding.
        """
        from tiburon.native.kernel import ProgramSource, make_kernel
        from tiburon.simulation.system import System

        model = self.model
        key = (None if world is None else id(world), None if fluid is None else id(fluid))
        known = self._kernels.get(key)
        if known is None:
            system = System(model, world_with(world, fluid), partition=self.session())

            def accelerations(given: Mapping[str, Any]) -> Any:
                state = tuple(scalars(given["q"])), tuple(scalars(given["v"]))
                found = system.rates(*state, tuple(scalars(given["tau"])), given["when"])
                return as_traced(list(found))

            inputs = [Input("q", (model.nq,)), Input("v", (model.nv,)), Input("tau", (model.nv,))]
            inputs.append(Input("when", ()))
            program = system.trace(accelerations, inputs, "forward_dynamics_in_parts")
            kernel: Any = make_kernel(ProgramSource(program), system.parameters())
            # surroundings are kept alive with the kernel, whose key are their addresses
            known = self._kernels[key] = kernel, (world, fluid, system)
        arrays = (
            as_batch(q, model.nq, "q", model.describe_q()),
            as_batch(v, model.nv, "v", model.describe_v()),
            as_batch(tau, model.nv, "tau", model.describe_v()),
        )
        for name, array in zip(("q", "v", "tau"), arrays, strict=True):
            if array.ndim != 1:
                raise ShapeError(name, "one state", f"shape {array.shape}")
        if closure_options(model, closure):
            check_closed(model, *arrays[:2], time=time)
        found: Array = known[0](*arrays, float(time))
        return found

    def session(self, loops: LoopMethod = PROJECTION, endpoint: Any = None) -> Any:
        """Return the parts of this process in a run that exchanges in every evaluation.

        Arguments as of `tiburon.parallel.session.Session`.
        """
        from tiburon.parallel.session import ArmSession, BranchSession, Session

        if self.branches is not None:
            return BranchSession(self, loops, endpoint)
        if self.has_arms and not (loops.has_springs or loops.is_guided):
            return ArmSession(self, loops, endpoint)
        return Session(self, loops, endpoint)

    def run(
        self, exchange: Any, call: Callable[[], Any], loops: LoopMethod, adaptive: bool = False
    ) -> Any:
        """Carry out a run that `simulate` starts; users pass partition= there.

        Args:
            exchange: Where parts are computed; None for this process.
            call: Starts the run in one process.
            loops: How loops are held.
            adaptive: Whether steps adapt.

        Raises:
            OptionError: If the loop method or `hold_remote` does not fit.
        """
        from tiburon.parallel.exchange import carried_out
        from tiburon.parallel.session import LegSession, StepSession

        held = bool(getattr(exchange, "hold_remote", False))
        if type(loops) not in (Projection, Penalty, Baumgarte, Embedding, DeNOC):
            known = (
                "Projection()",
                "Penalty(...)",
                "Baumgarte(...)",
                "Embedding(...)",
                "DeNOC(...)",
            )
            raise OptionError("loops with partition", known, loops)
        by_step = loops.exchanges_states and self.kind == "legs" and not adaptive
        if held and not (by_step and loops.has_springs):
            given = f"{self.kind}, {loops!r}" + (", adaptive steps" if adaptive else "")
            raise OptionError(
                "hold_remote", ('partition(robot, "legs"), Penalty(...), equal steps',), given
            )
        if loops.exchanges_states and loops.is_guided and not by_step:
            raise OptionError(
                "loops with partition",
                ("Projection()", "Penalty(...)", "Baumgarte(...)", "DeNOC(...)"),
                "Embedding, which needs partition(robot, 'legs') and equal steps",
            )

        def session(endpoint: Any = None) -> Any:
            if loops.legs(self.model) is not None:
                return LegSession(self, loops, endpoint)
            if by_step:
                return StepSession(self, loops, endpoint, held)
            return self.session(loops, endpoint)

        if exchange is None:
            return carried_out(session(), call)
        if not callable(getattr(exchange, "carry_out", None)):
            raise OptionError("exchange", ("None", "ThreadExchange()", "MPIExchange()"), exchange)
        return exchange.carry_out(session, call, len(self.names))

    @property
    def summary(self) -> str:
        """Parts, handles, numbers per message, exchanges per step and predicted times."""
        cut, plan = self._with_loops, self.model.plan
        lines = [
            f"{self.model.name}: {len(cut.parts)} parts, cut at {len(self.cuts)} joints"
            + (f", {len(cut.live)} constraints of loops" if cut.live else "")
        ]
        width = max(len(part.name) for part in cut.parts)
        legs = self._legs_numbers
        for part, numbers in zip(cut.parts, self.numbers, strict=True):
            if legs is not None:
                sent = legs.get(frozenset(part.bodies))
                said = "computed by every process"
                if sent is not None:
                    said = f"sends {sent[0]} and {sent[1]} numbers per evaluation"
                    said += f", receives {sent[2]}"
                lines.append(f"  {part.name:<{width}}  {len(part.v):3d} DoF: {said}")
                continue
            handles = sum(kind != "loop" for kind, _ in part.keys)
            rows = sum(kind == "loop" for kind, _ in part.keys)
            held = f"{handles} handle{'' if handles == 1 else 's'}"
            if rows:
                held += f" and {rows} rows of loops"
            lines.append(
                f"  {part.name:<{width}}  {len(part.v):3d} DoF, {held}: sends {numbers} and "
                f"{len(part.v)} numbers per evaluation, receives {part.rows}"
            )
        whole = articulated_cost(plan) * SECONDS_PER_OPERATION
        joined = f", joined in {_depth(cut.tree)} levels" if legs is None else ""
        lines.append(
            f"{EXCHANGES} exchanges per evaluation ({4 * EXCHANGES} per step of rk4){joined}"
        )
        lines.append(
            f"predicted evaluation: undivided tree {_time(whole)}, in parts "
            f"{_time(self.predicted_seconds())}"
        )
        for where, seconds in EXCHANGE_SECONDS.items():
            count = min(len(cut.parts), 4)
            lines.append(
                f"  {count} {where}: {_time(self.predicted_seconds(count, seconds))} "
                f"({_time(seconds)} per exchange)"
            )
        return "\n".join(lines)


def _time(seconds: float) -> str:
    return f"{seconds * 1e6:.3g} us"


def _depth(node: Joined | int) -> int:
    return 0 if isinstance(node, int) else 1 + max(_depth(node.left), _depth(node.right))


@public
def partition(
    model: Model,
    kind: str | None = None,
    *,
    cuts: Iterable[str] | None = None,
    processes: int | None = None,
) -> Partition:
    """Cut a robot into parts that processes compute, with the motion of the undivided robot.

    Give one of the three. Separate trees on the world are parts without a cut.

    Args:
        model: The robot; any tree, with loops.
        kind: "legs": the arms or legs of a robot, its load, platform or trunk (`star`; without
            loops, the branches of its first body with several).
        cuts: Names of joints. The link that carries a joint is split there, so that its joint may
            be of any kind.
        processes: Number of parts at least as large as that, of about equal predicted cost.

    Returns:
        The parts, for `Execution(partition=)`; `summary` prints them.

    Raises:
        OptionError: If not exactly one of the three is given.
        ModelError: If a part would hold no inertia at its base, or joints that follow each other
            would be in two parts.

    Example:
        ``parts = tb.partition(robot, cuts=["joint_4"])``, ``print(parts.summary)``
    """
    if kind is not None and str(kind) != "legs":
        raise OptionError("kind", ("legs",), kind)
    ways = {"kind": kind, "cuts": cuts, "processes": processes}
    given = [name for name, x in ways.items() if x is not None]
    if len(given) != 1:
        expected = ('"legs"', "cuts=[joints]", "processes=P")
        raise OptionError("partition", expected, " and ".join(given) or "none of them")
    if kind is not None:
        return Partition(model, _leg_cuts(model), "legs")
    if cuts is not None:
        return Partition(model, _named_cuts(model, cuts), "cuts")
    count = at_least("processes", processes, 1)
    return Partition(model, _balanced_cuts(model, count), "cuts")


# -- where to cut ---------------------------------------------------------------------------------


def _joint_of(plan: Plan) -> dict[int, str]:
    return {body.index: body.joint.name for body in plan.bodies}


def _named_cuts(model: Model, cuts: Iterable[str]) -> list[str]:
    """Return given joints in the order of the plan; checked."""
    if isinstance(cuts, (str, bytes)):
        raise ModelError(f"cuts: expected a list of joints, got {shown(cuts)}; write cuts=[...]")
    plan, wanted = model.plan, list(cuts)
    moving = {body.joint.name: body for body in plan.bodies}
    for name in wanted:
        if name not in [joint.name for joint in model.joints]:
            raise UnknownNameError("joint", name, list(moving), where="cuts")
        if name not in moving:
            raise ModelError(
                f"joint {name!r}: does not move, so that nothing lies beyond it; cut at another "
                "joint",
                name=name,
            )
        if wanted.count(name) > 1:
            raise ModelError(f"joint {name!r}: is given twice in cuts", name=name)
    return [body.joint.name for body in plan.bodies if body.joint.name in wanted]


def _leg_cuts(model: Model) -> list[str]:
    """Return the joints between legs and what they carry or stand on."""
    plan = model.plan
    label = dict.fromkeys(range(len(plan.bodies)), -1)
    index = {body.joint.name: body.index for body in plan.bodies}
    if model.loops:
        found = star(model)
        if found.is_star:
            for k, arm in enumerate(found.arms):
                for joint in arm.joints:
                    if joint in index:
                        label[index[joint]] = k
            # a leg that carries the platform in the robot's tree is a leg like the others
            held = {plan.frame(name).body for name in found.reference}
            for joint in found.carriers:
                if joint in index and index[joint] not in held:
                    label[index[joint]] = len(found.arms)
        elif len([body for body in plan.bodies if body.parent == WORLD_BODY]) < 2:
            raise ModelError(
                f"model {model.name!r}: has no legs that meet in one body ({found.reason}); name "
                "joints with cuts=[...], or give processes=",
                name=model.name,
            )
    else:
        trunk = next((body for body in plan.bodies if len(body.children) > 1), None)
        if trunk is None:
            raise ModelError(
                f"model {model.name!r}: is a chain without legs; name joints with cuts=[...], or "
                "give processes=",
                name=model.name,
            )
        for k, child in enumerate(trunk.children):
            for body in plan.bodies[child:]:
                if body.index == child or label.get(body.parent, -1) == k:
                    label[body.index] = k
    return [
        body.joint.name
        for body in plan.bodies
        if body.parent != WORLD_BODY and label[body.index] != label[body.parent]
    ]


def _balanced_cuts(model: Model, count: int) -> list[str]:
    """Return cuts into at least some parts of about equal predicted cost."""
    plan = model.plan
    cost = _body_costs(plan)
    massive = {body.index for body in plan.bodies if _is_massive(body.inertia)}
    cut: set[int] = set()
    while True:
        groups = _groups(plan, cut)
        if len(groups) >= count:
            break
        best: tuple[float, int] | None = None
        for group in groups:
            total = sum(cost[k] for k in group)
            below = _subtree_sums(plan, group, cost)
            for k in group:
                parent = plan.bodies[k].parent
                if parent == WORLD_BODY or parent not in group or parent not in massive:
                    continue
                # the larger half of the group, relative to what other groups cost
                gain = total - max(below[k], total - below[k])
                if best is None or gain > best[0]:
                    best = gain, k
        if best is None:
            raise ModelError(
                f"model {model.name!r}: can be cut into {len(groups)} parts at most, got "
                f"processes={count}; ask for fewer",
                name=model.name,
            )
        cut.add(best[1])
    joints = _joint_of(plan)
    return [joints[k] for k in sorted(cut)]


def _is_massive(inertia: Any) -> bool:
    values = [float(x) for x in inertia]
    return values[0] > 0.0 and min(values[4], values[7], values[9]) > 0.0


def _body_costs(plan: Plan) -> list[float]:
    """Return the predicted operations of each body."""
    total = articulated_cost(plan)
    weights = [1.0 + 0.2 * (body.v.stop - body.v.start) for body in plan.bodies]
    return [total * w / sum(weights) for w in weights]


def _subtree_sums(plan: Plan, group: Sequence[int], cost: Sequence[float]) -> dict[int, float]:
    below = {k: cost[k] for k in group}
    for k in sorted(group, reverse=True):
        parent = plan.bodies[k].parent
        if parent in below:
            below[parent] += below[k]
    return below


def _groups(plan: Plan, cut: set[int]) -> list[list[int]]:
    """Return the bodies of each part, in the order of their first bodies."""
    of: dict[int, int] = {}
    groups: list[list[int]] = []
    for body in plan.bodies:
        if body.parent == WORLD_BODY or body.index in cut:
            of[body.index] = len(groups)
            groups.append([body.index])
        else:
            of[body.index] = of[body.parent]
            groups[of[body.index]].append(body.index)
    return groups


# -- layout ---------------------------------------------------------------------------------------


def _layout(model: Model, cuts: Sequence[str], *, loops: bool) -> CutLayout:
    """Return the parts of a robot, and how they are joined."""
    plan = model.plan
    index = {body.joint.name: body.index for body in plan.bodies}
    cut = {index[name] for name in cuts if plan.bodies[index[name]].parent != WORLD_BODY}
    groups = _groups(plan, cut)
    of = {k: n for n, group in enumerate(groups) for k in group}
    variables = [_variables(plan, group, "v") for group in groups]
    pattern = jacobian_pattern(model) if loops and model.loops else ()
    live = tuple(k for k, used in enumerate(pattern) if used)
    welds: list[tuple[int, int, int]] = []
    parts = []
    for n, group in enumerate(groups):
        first = plan.bodies[group[0]]
        base = first.parent if first.index in cut else None
        path: list[int] = []
        above = WORLD_BODY if base is None else base
        while above != WORLD_BODY:
            path.append(above)
            above = plan.bodies[above].parent
        path.reverse()
        keys: list[Key] = []
        if base is not None:
            keys.append(("base", n))
            welds.append((of[base], base, n))
        handles = sorted({plan.bodies[k].parent for k in cut if of[plan.bodies[k].parent] == n})
        keys += [("handle", k) for k in handles]
        keys += [("loop", k) for k in live if pattern[k] & set(variables[n])]
        parts.append(
            CutPart(
                first.name,
                n,
                tuple(group),
                base,
                tuple(path),
                tuple(keys),
                _variables(plan, group, "q"),
                variables[n],
                _variables(plan, path, "q"),
                _variables(plan, path, "v"),
            )
        )
    pieces: dict[int, int] = {}
    for _, body, _ in welds:
        pieces[body] = pieces.get(body, 1) + 1
    shares = tuple((body, 1.0 / count) for body, count in sorted(pieces.items()))
    tree = _tree(parts, list(range(len(parts))), welds)
    return CutLayout(tuple(parts), tree, live, shares)


def _variables(plan: Plan, bodies: Sequence[int], of: str) -> tuple[int, ...]:
    found: dict[int, None] = {}
    for k in bodies:
        where = getattr(plan.bodies[k], of)
        found.update(dict.fromkeys(range(where.start, where.stop)))
    return tuple(found)


def _tree(
    parts: Sequence[CutPart], group: list[int], welds: Sequence[tuple[int, int, int]]
) -> Joined | int:
    """Return how a group of parts is joined.

    The last join of connected parts is the weld that splits them best; trees that no weld connects
    are joined in halves.
    """
    if len(group) == 1:
        return group[0]
    inside = [weld for weld in welds if weld[0] in group and weld[2] in group]
    components = _components(group, inside)
    weld: tuple[Key, Key] | None = None
    if len(components) > 1:
        middle = len(components) // 2
        left = sorted(k for one in components[:middle] for k in one)
        right = sorted(k for one in components[middle:] for k in one)
    else:
        best: tuple[int, int] | None = None
        for number, one in enumerate(inside):
            sides = _components(group, [other for other in inside if other is not one])
            size = max(len(side) for side in sides)
            if best is None or size < best[0]:
                best = size, number
        assert best is not None
        chosen = inside[best[1]]
        rest = [one for one in inside if one is not chosen]
        sides = _components(group, rest)
        left = next(side for side in sides if chosen[0] in side)
        right = next(side for side in sides if chosen[2] in side)
        weld = ("handle", chosen[1]), ("base", chosen[2])
    outer = [one for one in welds if one not in inside]
    first, second = _tree(parts, left, welds), _tree(parts, right, welds)
    # a handle remains as long as another weld, outside of this group, needs it
    needed: set[Key] = {("handle", body) for here, body, there in outer if here in group}
    needed |= {("base", there) for _, _, there in outer if there in group}
    keys: list[Key] = []
    for node in (first, second):
        for key in parts[node].keys if isinstance(node, int) else node.keys:
            if (key[0] == "loop" or key in needed) and key not in keys:
                keys.append(key)
    return Joined(first, second, weld, tuple(keys))


def _components(group: Sequence[int], welds: Iterable[tuple[int, int, int]]) -> list[list[int]]:
    """Return the connected groups, in the order of their first parts."""
    label = {k: k for k in group}
    for near, _, far in welds:
        old, new = max(label[near], label[far]), min(label[near], label[far])
        label = {k: new if known == old else known for k, known in label.items()}
    return [[k for k in group if label[k] == one] for one in sorted(set(label.values()))]


# -- checks and costs -----------------------------------------------------------------------------


def _check_couplings(model: Model, layout: CutLayout) -> None:
    """Refuse cuts between joints that share a variable."""
    owner: dict[int, tuple[int, str]] = {}
    for part in layout.parts:
        for k in part.bodies:
            body = model.plan.bodies[k]
            for i in range(body.v.start, body.v.stop):
                known = owner.setdefault(i, (part.number, body.joint.name))
                if known[0] != part.number:
                    raise ModelError(
                        f"joint {body.joint.name!r}: follows joint {known[1]!r}, which would be in "
                        f"another part ({layout.parts[known[0]].name!r}); cut elsewhere",
                        name=body.joint.name,
                    )


def _check_inertias(model: Model, layout: CutLayout) -> None:
    """Refuse cuts after which a part has no inertia along a joint or in its base."""
    if model.plan.has_couplings:
        # parts with couplings are factored by their mass matrix, which is checked with the robot
        return
    rng = np.random.default_rng(3)
    q = [x for joint in model.joints for x in joint.random(rng)]
    with taping(None):
        for part in layout.parts:
            if part.base is None and not any(kind == "handle" for kind, _ in part.keys):
                continue
            plan = part_plan(model.plan, part, layout.shares)
            own = JointVector([*(() if part.base is None else BASE_Q), *(q[i] for i in part.q)])
            try:
                inertias = [1.0 / float(x) for x in ArticulatedMetric(plan, own).inverse_D]
            except ZeroDivisionError:
                inertias = [0.0]
            good = all(math.isfinite(d) and d > 0.0 for d in inertias)
            if not good or min(inertias) < SMALLEST_INERTIA * max(inertias):
                body = model.plan.bodies[part.base if part.base is not None else part.bodies[0]]
                raise ModelError(
                    f"body {body.name!r}: has too little inertia of its own to be split, as the "
                    f"cut at joint {model.plan.bodies[part.bodies[0]].joint.name!r} would; cut "
                    "before or after that body, at a link with mass and inertia",
                    name=body.name,
                )


def _cost(plan: Plan, part: CutPart) -> float:
    """Predict the operations of a part that is cut anywhere."""
    tree = part_of(plan, part.bodies, frozenset(part.bodies), part.q, part.v)
    found = PART_COST * articulated_cost(tree) + HANDLE_COST * part.rows * len(part.bodies)
    return found * TAPE_COST if len(part.bodies) > INLINED_BODIES else found


def contiguous(costs: Sequence[float], count: int) -> tuple[int, ...]:
    """Return an owner for each part, in order: as many groups, the largest sum least."""

    def groups(limit: float) -> list[int]:
        owners: list[int] = []
        owner, total = 0, 0.0
        for k, cost in enumerate(costs):
            left = len(costs) - k
            if (
                owners
                and (total + cost > limit or left <= count - owner - 1)
                and owners[-1] == owner
            ):
                owner, total = owner + 1, 0.0
            total += cost
            owners.append(owner)
        return owners

    low, high = max(costs), sum(costs)
    for _ in range(60):
        middle = 0.5 * (low + high)
        if max(groups(middle)) < count:
            high = middle
        else:
            low = middle
    return tuple(groups(high))
