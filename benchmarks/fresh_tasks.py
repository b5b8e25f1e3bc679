"""Tasks that need a process of their own: `python -m benchmarks.fresh_tasks task words...`.

Each prints its answer as JSON. What a task times must not be imported before it begins, so
everything is imported inside.
"""

import inspect
import sys
from time import perf_counter, process_time
from typing import Any

BATCH = 64
"""States in the first batch: enough for every lane, too few for a second thread."""

NOT_IN_WATER = (
    "center_of_mass",
    "center_of_mass_jacobian",
    "forward_kinematics",
    "regressor",
    "project_configuration",
    "project_velocity",
    "share_load",
    "loop_motion_derivatives",
)
"""Functions that take no fluid."""

RUNS: dict[str, dict[str, Any]] = {
    "simulate": {},
    **{
        name: {"method": name}
        for name in ("semi_implicit_euler", "dopri5", "dop853", "rosenbrock", "b1pc5")
    },
    "rigid": {},
    "compliant": {"contact": ("CompliantContact", {})},
    "exact": {"contact": ("ExactContact", {})},
    "convex": {"contact": ("RigidContact", {"law": "convex"})},
}
"""Runs of two milliseconds: options of `simulate`, methods and contacts by name."""

ON_GROUND = (
    *("rigid", "compliant", "exact", "convex"),
    *("contacts", "contact_dynamics", "impact", "linearize_contact", "share_load"),
)
"""Calls of robots with contact."""

WATERS: dict[str, dict[str, Any]] = {
    "still": {},
    "current": {"current": (0.3, 0.1, 0.0)},
    "split": {"current": (0.3, 0.1, 0.0), "split_strips": True},
    "surface": {"surface": 0.5},
}
"""Water by name: what differs from the default."""


def resident_bytes() -> int | None:
    """Return the memory this process holds in RAM [bytes]; None where the system does not tell."""
    try:
        with open("/proc/self/status", encoding="ascii") as status:
            for line in status:
                if line.startswith("VmRSS:"):
                    return 1024 * int(line.split()[1])
    except FileNotFoundError:
        pass
    if sys.platform == "darwin":
        import resource

        # the largest so far; nothing was given back yet
        return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return None


def import_package(extent: str) -> dict[str, Any]:
    """Time importing the package.

    Args:
        extent: "package" for `import tiburon` alone; "dynamics" for everything that a call of
            forward dynamics with its kernel in the cache loads as well, NumPy and LLVM included.
    """
    start = perf_counter()
    import tiburon

    if extent == "dynamics":
        import llvmlite.binding

        import tiburon.native.kernel

        _ = tiburon.forward_dynamics, tiburon.native.kernel, llvmlite.binding
    return {"seconds": perf_counter() - start, "resident": resident_bytes()}


def first_calls(
    robot: str, preload: str = "", tracing: str = "allowed", name: str = "forward_dynamics"
) -> dict[str, Any]:
    """Time the first single call and the first batch of a public function of q, v and tau.

    Args:
        robot: Name of a measured robot.
        preload: Modules to import before the clock starts, joined by commas.
        tracing: "refused" to fail if anything is traced.
        name: Name of the function.

    Returns:
        Wall-clock time of the imports and of both calls, processor time of the calls [s]; their
        results; the modules they imported.
    """
    from importlib import import_module

    start = perf_counter()
    import tiburon

    function = getattr(tiburon, name)
    for module in filter(None, preload.split(",")):
        import_module(module)
    imports = perf_counter() - start

    from benchmarks.robots import ROBOTS
    from benchmarks.states import draw_states

    model = ROBOTS[robot]()
    q, v, tau = draw_states(model)
    many_q, many_v, many_tau = draw_states(model, (BATCH,))
    if tracing == "refused":
        _refuse_tracing()
    loaded = set(sys.modules)

    start, processor = perf_counter(), process_time()
    one = function(model, q, v, tau)
    middle, halfway = perf_counter(), process_time()
    many = function(model, many_q, many_v, many_tau)
    end, last = perf_counter(), process_time()
    return {
        "imports": imports,
        "one_seconds": middle - start,
        "many_seconds": end - middle,
        "one_processor": halfway - processor,
        "many_processor": last - halfway,
        "one": _listed(one),
        "many": _listed(many),
        "modules": sorted(set(sys.modules) - loaded),
    }


def cold_call(robot: str, name: str, water: str = "") -> dict[str, Any]:
    """Measure the processor time of the first call of a public function, imports done before.

    A function that refuses a robot, such as one of trees alone, answers why.

    Args:
        robot: Name of a robot of the zoo, or of `robots.LARGE`.
        name: Name of the function, or of one of `OTHER_CALLS`; "linearize_step" is `linearize` with
            a step, "linearize_contact" one on the ground, and a name of `RUNS` is a run with that
            method or contact. With " batch" behind it the first call has `BATCH` states.
        water: A key of `WATERS`, or "land"; by default robots with hydrodynamic coefficients are in
            a current.
    """
    import llvmlite.binding
    import numpy as np

    import tiburon as tb
    import tiburon.native.kernel
    from benchmarks.robots import LARGE
    from benchmarks.states import draw_states

    _ = llvmlite.binding, tiburon.native.kernel
    name, _, batch = name.partition(" ")
    model = LARGE[robot]() if robot in LARGE else tb.load(robot)
    q, v, tau = draw_states(model)
    touches = name in ON_GROUND
    if touches:
        q, v = np.array(model.poses.get("stand", model.neutral())), 0.0 * v
    elif model.loops and (batch or name not in (*RUNS, "cartesian_path")):
        # at rest, velocity and acceleration keep loops closed
        q, v = tb.assemble(model, q).q, 0.0 * v
    options: dict[str, Any] = {}
    if not water:
        water = "current" if any(body.fluid is not None for body in model.bodies) else "land"
    if water != "land" and name not in (*NOT_IN_WATER, *ON_GROUND):
        options["fluid"] = tb.Water(**WATERS[water])
    if touches:
        soft = {"normal_stiffness": 1e4, "normal_damping": 100.0} if name == "compliant" else {}
        options["world"] = tb.World(ground=tb.Ground(**soft))
        if "stand" not in model.poses and isinstance(model.joints[0], tb.Free):
            q = tb.lift_out(model, q, world=options["world"])
    if batch:
        q, v, tau = (np.tile(x, (BATCH, 1)) for x in (q, v, tau))
    given = {"q": q, "v": v, "vd": v, "tau": tau}
    function: Any = OTHER_CALLS.get(name, tb.simulate)
    arguments: list[Any] = []
    if name in RUNS:
        options |= {"duration": 0.002, **RUNS[name]}
        if "method" in options:
            from tiburon.simulation.integrators.methods import integrator_named

            options["method"] = integrator_named(options["method"])
        if "contact" in options:
            kind, how = options["contact"]
            options["contact"] = getattr(tb, kind)(**how)
        if batch or touches:
            options["q"] = q
    elif name in OTHER_CALLS:
        options["given"] = given
    else:
        function = getattr(tb, name.removesuffix("_step").removesuffix("_contact"))
        arguments = [given[key] for key in inspect.signature(function).parameters if key in given]
        if name in ("linearize_step", "linearize_contact"):
            options["dt"] = 0.01
    start = process_time()
    try:
        function(model, *arguments, **options)
    except tb.TiburonError as refusal:
        return {"seconds": None, "nv": model.nv, "refused": str(refusal)}
    return {"seconds": process_time() - start, "nv": model.nv, "refused": None}


def share_load(preload: str = "") -> dict[str, Any]:
    """Time the first sharing of a quadruped's load, from a plan in hand.

    Args:
        preload: Modules to import before the clock starts, joined by commas.
    """
    from importlib import import_module

    import llvmlite.binding

    import tiburon as tb

    _ = llvmlite.binding
    for module in filter(None, preload.split(",")):
        import_module(module)
    dog = tb.load("quadruped")
    plan = tb.LoadSharing.of(dog, friction=0.6)
    q = dog.poses["stand"]
    loaded = set(sys.modules)
    start, processor = perf_counter(), process_time()
    share = plan.share(q)
    return {
        "seconds": perf_counter() - start,
        "processor": process_time() - processor,
        "status": str(share.status),
        "modules": sorted(set(sys.modules) - loaded),
    }


def _step(model: Any, *, given: dict[str, Any], **options: Any) -> Any:
    """Take the first step of a stepper."""
    import tiburon as tb

    prepared = tb.stepper(model, method=tb.RK4(dt=0.002), **options)
    return prepared.step(prepared.start(cases=BATCH))


def _share(model: Any, *, given: dict[str, Any], world: Any) -> Any:
    """Share the load of a robot that stands."""
    import tiburon as tb

    return tb.LoadSharing.of(model, friction=0.6).share(given["q"])


def _run_in_parts(model: Any, *, given: dict[str, Any], **options: Any) -> Any:
    """Run a robot in two parts."""
    import tiburon as tb

    parts = tb.partition(model, processes=2)
    return tb.simulate(model, 0.002, execution=tb.Execution(partition=parts), **options)


def _differentiate_loop_motion(model: Any, *, given: dict[str, Any]) -> Any:
    """Differentiate the configuration of a mechanism by a placement, its motors held."""
    import tiburon as tb

    def joints(model: Any, q: Any) -> Any:
        return tb.loop_motion(model, q).q

    kernel = tb.compile(joints, model, parameters=[f"{model.joints[-1].name}.translation"])
    return tb.parameter_derivatives(kernel, given["q"])


def _follow_path(model: Any, *, given: dict[str, Any]) -> Any:
    """Move a platform on legs along a path, from inverse kinematics to the run."""
    import numpy as np

    import tiburon as tb

    q = np.array(model.poses["home"]) if "home" in model.poses else model.neutral()
    _, p = tb.forward_kinematics(model, q, "platform")
    way = tb.CartesianPath.through([0.0, 0.5, 1.0], [p, np.add(p, (0.02, 0.01, 0.03)), p])
    names, times, points = model.actuated_joint_names, np.linspace(0.0, 1.0, 21), []
    for time in times:
        pose = way.at(time)
        q = tb.assemble(model, q, place={"platform": tb.Pose(pose.rotation, pose.position)}).q
        points.append(q[model.indices(names, of="q")])
    path = tb.JointPath.through(times, points, kind="quintic", joints=names)
    return tb.simulate(model, 0.002, control=tb.ComputedTorque.critical(path, 20.0))


OTHER_CALLS = {
    "cartesian_path": _follow_path,
    "stepper": _step,
    "share_load": _share,
    "parts": _run_in_parts,
    "loop_motion_derivatives": _differentiate_loop_motion,
}
"""First calls that take more than a state: model, arrays by name and options of surroundings."""


def file_to_dynamics(path: str, code: str) -> dict[str, Any]:
    """Time everything from `import` to the first forward dynamics of a robot file.

    Args:
        path: A URDF file.
        code: "tiburon" or "pinocchio".
    """
    start = perf_counter()
    if code == "pinocchio":
        import pinocchio as pin

        robot = pin.buildModelFromUrdf(path)
        result = pin.aba(robot, robot.createData(), pin.neutral(robot), *_zeros(robot.nv))
    else:
        import tiburon as tb

        model = tb.load(path)
        result = tb.forward_dynamics(model, model.neutral(), *_zeros(model.nv))
    return {"seconds": perf_counter() - start, "size": len(result)}


def _zeros(count: int) -> Any:
    import numpy as np

    return np.zeros((2, count))


def _listed(result: Any) -> Any:
    """Return an array, or several, as plain lists."""
    return [part.tolist() for part in result] if isinstance(result, tuple) else result.tolist()


def _refuse_tracing() -> None:
    """Make every attempt to trace a library function fail."""
    from tiburon.functions.kernel_source import LibrarySource

    def refuse(source: LibrarySource) -> Any:
        raise RuntimeError(f"{source.name} was traced, though the cache should hold it")

    LibrarySource.program = refuse  # type: ignore[method-assign]


TASKS = {
    "import": import_package,
    "cold-call": cold_call,
    "first-calls": first_calls,
    "file-to-dynamics": file_to_dynamics,
    "share-load": share_load,
}


def main(words: list[str]) -> None:
    """Run one task and print its answer."""
    name, *arguments = words
    answer = TASKS[name](*arguments)
    import json

    print(json.dumps(answer))


if __name__ == "__main__":
    main(sys.argv[1:])
