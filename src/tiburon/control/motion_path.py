"""Motions of whole robots with contacts: floating bodies, joints, feet, times of contacts.

A `MotionPath` moves floating bodies along Cartesian paths and joints along joint paths; a
`GaitPath` lets a legged robot walk. `LoadSharingControl` follows either.
"""

from collections.abc import Hashable, Mapping, Sequence
from typing import Any, NamedTuple

import numpy as np

from tiburon.actuation.piecewise import PathSample, entries, row_of
from tiburon.argument_checks import is_numeric, positive, vector
from tiburon.arguments import public
from tiburon.arrays import ArrayLike
from tiburon.contact.geometry.height_field import field_size, placed_field, terrain_height
from tiburon.contact.geometry.smooth_height_field import smooth_terrain_height
from tiburon.control.cartesian_path import CartesianPath, PoseSample
from tiburon.control.gait import on_a_stand
from tiburon.control.joint_path import JointPath
from tiburon.errors import DomainError, ModelError, UnknownNameError, shown
from tiburon.functions.contact import Contacts, contacts
from tiburon.functions.inverse_kinematics import FrameTarget, inverse_kinematics
from tiburon.functions.kinematics import forward_kinematics
from tiburon.load_sharing.tracking import FootAim
from tiburon.model import WORLD, Ground, Model, World
from tiburon.model.body import ContactPoint
from tiburon.model.world import GroundGrid
from tiburon.record import record
from tiburon.spatial import Scalar, Scalars
from tiburon.trace.primitives.table_rows import HANDLE, Table
from tiburon.trace.regions import function

UNREACHED_TIME = 1e9
"""Time that never comes [s]."""

CLEARANCE_SHARES = ((0.25, 0.78), (0.5, 1.0), (0.75, 0.78))
"""Where the ground below a swing is looked at: shares of its way, and of its height there."""

TERRAIN_HEIGHTS = (function(terrain_height), function(smooth_terrain_height))
"""Height and tilt of ground of triangles, and of smooth ground; code has them once."""

MOST_ROUNDS = 20
"""Rounds in which feet are put on uneven ground."""

TOUCHING_DEPTH = 1e-8
"""Gap below which a foot stands on the ground [m]."""

LEAST_TILT = 0.1
"""Vertical component of normals of walls, on which no foot stands."""

TRANSFER = 0.1
"""Time in which contacts of a `MotionPath` take up or give up their load [s]."""


class MotionSample(NamedTuple):
    """A motion at a time; scalars, floats or traced."""

    poses: dict[str, PoseSample]
    """Pose of each floating joint that has a path, by name."""

    joints: dict[str, PathSample]
    """Position, velocity and acceleration of other joints with a path, by name."""

    touching: dict[str, Scalar]
    """1 for each contact that may carry load, else 0, by name; others always may."""

    spans: dict[str, tuple[Scalar, Scalar]]
    """Time since a contact was made, and until it ends [s], by name; others neither begin nor
    end."""

    transfer: Scalar
    """Time in which contacts take up their load, and give it up before their end [s]."""

    aims: dict[str, FootAim]
    """Where feet should be in the air, by name of the contact point."""


@public
@record
class MotionPath:
    """A motion of a robot: a posture, paths of floating bodies and of joints, times of contacts.

    Example:
        ``MotionPath(q, bodies={"glass": CartesianPath.through(...)})``
    """

    posture: tuple[float, ...]
    """Configuration to hold where no path defines another [m or rad], shape (nq,)."""

    bodies: Any = ()
    """Paths of floating bodies in the world, `CartesianPath` by name of their free joint."""

    joints: JointPath | None = None
    """Path of joints, with their names."""

    contacts: Any = ()
    """Times between which a contact carries load [s], by name: begin and end, or several pairs of
    them in order; others always do."""

    transfer: float = TRANSFER
    """Time in which contacts take up their load, and give it up before their end [s]."""

    def __post_init__(self) -> None:
        put = object.__setattr__
        posture = np.asarray(self.posture, dtype=np.float64)
        if posture.ndim != 1 or not np.isfinite(posture).all():
            raise DomainError("posture", "a finite configuration, shape (nq,)", shown(self.posture))
        put(self, "posture", tuple(posture.tolist()))
        put(self, "bodies", _pairs("bodies", self.bodies))
        for name, path in self.bodies:
            if not isinstance(path, CartesianPath):
                raise ModelError(
                    f"bodies[{name!r}]: expected a CartesianPath, got {shown(path)}; write "
                    "CartesianPath.through(times, positions)"
                )
        if self.joints is not None:
            if not isinstance(self.joints, JointPath):
                raise ModelError(f"joints: expected a JointPath, got {shown(self.joints)}")
            if not self.joints.joints:
                raise ModelError(
                    "joints: expected a JointPath that names its joints, got one without; pass "
                    "JointPath.through(..., joints=[...])"
                )
        times = []
        for name, pairs in _pairs("contacts", self.contacts):
            what = f"contacts[{name!r}]"
            count = max(1, np.size(pairs) // 2) if is_numeric(pairs) else 1
            own = vector(what, np.ravel(pairs) if is_numeric(pairs) else pairs, 2 * count)
            if np.isnan(own).any() or not (np.diff(own) > 0.0).all():
                raise DomainError(
                    what,
                    "begin < end, and each interval after the one before",
                    f"{', '.join(f'{x:g}' for x in own)} s",
                )
            times.append((name, tuple(own.tolist())))
        put(self, "contacts", tuple(times))
        put(self, "transfer", positive("transfer", self.transfer, "s"))

    @property
    def feet(self) -> tuple[ContactPoint, ...]:
        """Contact points with aims in the air: none."""
        return ()

    def check(self, model: Model, contacts: Sequence[str]) -> None:
        """Refuse a robot that lacks a joint or contact of the path."""
        if len(self.posture) != model.nq:
            raise DomainError("posture", f"{model.nq} values", f"{len(self.posture)}")
        free = [body.joint.name for body in model.bodies if body.joint.kind == "free"]
        for name, _ in self.bodies:
            if name not in free:
                raise UnknownNameError("free joint", name, free, where=f"model {model.name!r}")
        for name in self.joints.joints if self.joints is not None else ():
            model.joint(name)
        for name, _ in self.contacts:
            if name not in contacts:
                raise UnknownNameError("contact", name, list(contacts))

    def parameters(self) -> tuple[float, ...]:
        """Return the run-time parameters: posture, transfer time and times of contacts."""
        return (*self.posture, self.transfer, *(x for _, pair in self.contacts for x in pair))

    def tables(self) -> tuple[Table, ...]:
        """Return all paths as tables beside compiled code."""
        paths: list[Any] = [path for _, path in self.bodies]
        if self.joints is not None:
            paths.append(self.joints)
        return tuple(table for path in paths for table in path.tables())

    def structure(self) -> Hashable:
        """Return names and forms of all paths, which compiled code depends on."""
        return (
            len(self.posture),
            tuple((name, path.structure()) for name, path in self.bodies),
            None if self.joints is None else self.joints.structure(),
            tuple((name, len(times)) for name, times in self.contacts),
        )

    def sample(
        self, p: Scalars, time: Scalar, handles: Sequence[Any] | None = None
    ) -> MotionSample:
        """Return the motion at a time.

        Args:
            p: Run-time parameters, as `parameters` lists them.
            time: Time [s].
            handles: Handles of the tables; None for the paths themselves.
        """
        at = 0
        poses: dict[str, PoseSample] = {}
        for name, path in self.bodies:
            count = HANDLE * len(path.tables())
            own = None if handles is None else handles[at : at + count]
            poses[name] = path.at(time, own)
            at += count
        joints: dict[str, PathSample] = {}
        if self.joints is not None:
            given = self.joints.at(time, None if handles is None else handles[at:])
            for k, name in enumerate(self.joints.joints):
                joints[name] = PathSample(*(entries(part)[k : k + 1] for part in given))
        transfer, *times = p[len(self.posture) :]
        touching: dict[str, Scalar] = {}
        spans: dict[str, tuple[Scalar, Scalar]] = {}
        at = 0
        for name, given_times in self.contacts:
            own_times = times[at : at + len(given_times)]
            at += len(given_times)
            touching[name], spans[name] = _interval(own_times, time)
        return MotionSample(poses, joints, touching, spans, transfer, {})

    def posture_of(self, p: Scalars) -> Scalars:
        """Return the posture among the run-time parameters."""
        return p[: len(self.posture)]


def _interval(times: Scalars, time: Scalar) -> tuple[Scalar, tuple[Scalar, Scalar]]:
    """Return whether a time is in an interval; time since its begin, and until its end [s].

    Between two intervals both are those of the one before, which has ended.

    Args:
        times: Begin and end of each interval, ascending [s].
        time: Time [s].
    """
    begin, end = times[:2]
    for k in range(2, len(times), 2):
        begun = time >= times[k]
        begin, end = np.where(begun, times[k], begin), np.where(begun, times[k + 1], end)
    inside = np.where((time >= begin) & (time < end), 1.0, 0.0)
    return inside, (time - begin, end - time)


def _pairs(what: str, given: Any) -> tuple[tuple[str, Any], ...]:
    if isinstance(given, Mapping):
        return tuple(given.items())
    try:
        return tuple((str(name), value) for name, value in given)
    except (TypeError, ValueError):
        raise ModelError(
            f"{what}: expected a mapping by name, got {shown(given)}; write {{'name': ...}}"
        ) from None


@public
@record
class GaitPath:
    """Path of a legged robot: motion of its base, footholds and swing motions of a gait.

    Footholds lie below the hips of the reference at the middle of each stance, on the ground. In
    the air feet follow quintic curves that start and end at rest. After a foot has landed it takes
    up its load while the feet that will lift next give theirs up. On uneven ground the base stays
    level, as high above the mean of its footholds as it stands.

    Example:
        ``GaitPath.trot(dog, speed=0.5, duration=10.0)``
    """

    joint: str
    """Free joint of the base."""

    base: tuple[float, ...]
    """Its quaternion (w, x, y, z) and position at the start [m]."""

    posture: tuple[float, ...]
    """Configuration in which the robot stands [m or rad], shape (nq,)."""

    points: tuple[ContactPoint, ...]
    """Contact points of the feet."""

    places: tuple[tuple[float, float, float], ...]
    """Center of each foot at the start, world axes [m]."""

    phases: tuple[float, ...]
    """Phase of each foot, 0 to 1."""

    period: float
    """Time of one cycle [s]."""

    duty: float
    """Share of the cycle on the ground."""

    velocity: tuple[float, float]
    """Of the base in the middle of the walk, world axes x and y [m/s]."""

    lift: float
    """Height of feet in the middle of their swing [m]."""

    start: float
    """Time of the first step [s]."""

    stop: float
    """Time at which the last foot has landed [s]."""

    ramp: float
    """Time in which the base reaches its speed, and stops again [s]."""

    transfer: float
    """Time in which feet take up their load, and give it up before they lift [s]."""

    ground: Ground | None = None
    """Uneven ground under the feet; None where it is level."""

    @classmethod
    @public
    def of(
        cls,
        model: Model,
        phases: Mapping[str, float],
        *,
        world: World | None = None,
        speed: float | tuple[float, float] = 0.3,
        period: float = 0.4,
        duty: float = 0.6,
        lift: float = 0.06,
        posture: ArrayLike | None = None,
        duration: float | None = None,
        start: float = 0.3,
        ramp: float | None = None,
        transfer: float | None = None,
    ) -> "GaitPath":
        """Return the walk of a robot.

        Args:
            model: A robot whose first body floats, with contact points as feet.
            phases: Phase of each foot, 0 to 1, by contact point.
            world: Surroundings whose ground carries the feet; by default level ground where they
                stand. On uneven ground legs of the posture are moved so that all feet touch it:
                start from `posture` of the path.
            speed: Of the base, along its x axis or along x and y [m/s].
            period: Time of one cycle [s].
            duty: Share of the cycle that feet are on the ground.
            lift: Height of feet in the middle of their swing [m].
            posture: Configuration in which it stands [m or rad], shape (nq,); its pose "stand" by
                default.
            duration: Time at which it stands again [s]; it walks on by default.
            start: Time of the first step [s].
            ramp: Time in which the base reaches its speed [s]; two periods by default.
            transfer: Time in which load passes from feet to feet [s]; by default all of the time
                between a landing and the next lift.

        Raises:
            DomainError: If feet lift before others have landed, or legs do not reach the ground.
        """
        q = _standing(model, posture)
        first = model.bodies[0].joint
        if first.kind != "free":
            raise ModelError(
                f"model {model.name!r}: expected a floating first body, got a {first.kind} joint"
            )
        if not isinstance(phases, Mapping) or not phases:  # type: ignore[redundant-expr]
            raise ModelError(
                f"phases: expected a phase by name of a contact point, got {shown(phases)}; write "
                "{'foot': 0.5, ...}"
            )
        known = {point.name: point for point in model.contacts}
        for name in phases:
            if name not in known:
                raise UnknownNameError("contact point", name, list(known))
        turns = tuple(float(x) for x in vector("phases", list(phases.values()), len(phases)))
        period = positive("period", period, "s")
        share = float(vector("duty", duty, 1, spread=True)[0])
        if not 0.0 < share < 1.0:
            raise DomainError("duty", "a value between 0 and 1", f"{share:g}")
        overlap = _overlap(turns, share) * period
        if transfer is None and not overlap > 1e-9:
            raise DomainError(
                "duty",
                "feet that land before others lift",
                f"duty {share:g} without overlap",
                advice="raise the duty, or pass transfer=",
            )
        given = np.asarray(speed, dtype=np.float64)
        ahead = vector("speed", np.array([given, 0.0]) if given.ndim == 0 else given, 2)
        points = tuple(known[name] for name in phases)
        ground = None if world is None else world.ground
        if world is not None and ground is not None:
            q = _on_ground(model, q, points, world)
        base = q[model.slice(first.name)]
        w, x, y, z = base[:4]
        axis = np.array([1.0 - 2.0 * (y * y + z * z), 2.0 * (x * y + w * z)])
        velocity = ahead[0] * axis + ahead[1] * np.array([-axis[1], axis[0]])
        until = UNREACHED_TIME if duration is None else positive("duration", duration, "s")
        return cls(
            first.name,
            tuple(base.tolist()),
            tuple(q.tolist()),
            points,
            tuple(tuple(place.tolist()) for place in _centers(model, q, points)),
            turns,
            period,
            share,
            (float(velocity[0]), float(velocity[1])),
            positive("lift", lift, "m"),
            float(vector("start", start, 1, spread=True)[0]),
            until,
            2.0 * period if ramp is None else positive("ramp", ramp, "s"),
            overlap if transfer is None else positive("transfer", transfer, "s"),
            None if ground is None or ground.grid is None else ground,
        )

    @classmethod
    @public
    def trot(cls, model: Model, **options: Any) -> "GaitPath":
        """Return a trot: diagonal pairs of feet take turns.

        Args:
            model: A robot with four feet, whose first body floats.
            options: Those of `GaitPath.of`.
        """
        if len(model.contacts) != 4:
            raise ModelError(
                f"model {model.name!r}: a trot needs four feet, got {len(model.contacts)} contact "
                "points; write GaitPath.of(model, {'foot': phase, ...})"
            )
        q = _standing(model, options.get("posture"))
        places = _centers(model, q, model.contacts)
        middle = np.mean(places, axis=0)
        phases = {
            point.name: 0.0 if (place - middle)[0] * (place - middle)[1] > 0.0 else 0.5
            for point, place in zip(model.contacts, places, strict=True)
        }
        return cls.of(model, phases, **options)

    @property
    def feet(self) -> tuple[ContactPoint, ...]:
        """Contact points with aims in the air."""
        return self.points

    def check(self, model: Model, contacts: Sequence[str]) -> None:
        """Refuse a robot that lacks the base or a foot of the path."""
        model.joint(self.joint)
        for point in self.points:
            if point.name not in contacts:
                raise UnknownNameError("contact", point.name, list(contacts))

    def parameters(self) -> tuple[float, ...]:
        """Return the run-time parameters: all values."""
        return (
            *self.posture,
            *self.base,
            self.period,
            self.duty,
            *self.velocity,
            self.lift,
            self.start,
            self.stop,
            self.ramp,
            self.transfer,
            *self.phases,
            *(x for place in self.places for x in place),
            *(() if self.ground is None else field_size(self.ground)),
        )

    def tables(self) -> tuple[Table, ...]:
        """Return the table of the heights of uneven ground."""
        return () if self.ground is None else (_grid(self.ground).table,)

    def structure(self) -> Hashable:
        """Return base, feet and kind of ground, which compiled code depends on."""
        kind = None if self.ground is None else _grid(self.ground).smooth
        return (self.joint, len(self.posture), self.points, kind)

    def posture_of(self, p: Scalars) -> Scalars:
        """Return the posture among the run-time parameters."""
        return p[: len(self.posture)]

    def sample(
        self, p: Scalars, time: Scalar, handles: Sequence[Any] | None = None
    ) -> MotionSample:
        """Return the motion at a time; see `MotionPath.sample`."""
        given = p[len(self.posture) :]
        base, rest = given[:7], given[7:]
        period, duty, vx, vy, lift, start, stop, ramp, transfer, *more = rest
        phases, places = more[: len(self.points)], more[len(self.points) :]
        zero = 0.0 * time
        climb: list[list[Scalar]] = []

        def traveled(at: Scalar) -> tuple[Scalar, Scalar, Scalar]:
            """Return the way of the base in units of its speed, and two derivatives."""
            up, down = _eased(at - start, ramp), _eased(at - (stop - ramp), ramp)
            return up[0] - down[0], up[1] - down[1], up[2] - down[2]

        touching: dict[str, Scalar] = {}
        spans: dict[str, tuple[Scalar, Scalar]] = {}
        aims: dict[str, FootAim] = {}
        for k, point in enumerate(self.points):
            phase, place = phases[k], places[3 * k : 3 * k + 3]
            # cycles count from lift to lift: the foot swings in those from the first to the last
            first, last = -np.floor(duty - phase), np.floor((stop - start) / period + phase)
            cycle = (time - start) / period + phase
            n = np.floor(cycle)
            share = cycle - n

            def foothold(n: Scalar, first: Scalar = first, last: Scalar = last,
                         phase: Scalar = phase) -> Scalar:  # fmt: skip
                """Return how far ahead a foot stands in a cycle, in units of the speed."""
                middle = start + (np.minimum(n, last) + 0.5 * duty - phase) * period
                return np.where(n > first, traveled(middle)[0], 0.0)

            swings = (n >= first) & (n < last)
            in_air = swings & (share >= duty)
            s = np.minimum(1.0, np.maximum(0.0, (share - duty) / (1.0 - duty)))
            here, there = foothold(n), foothold(n + 1.0)
            span = 1.0 / ((1.0 - duty) * period)
            blend = (
                s * s * s * (10.0 - 15.0 * s + 6.0 * s * s),
                30.0 * s * s * (1.0 - s) * (1.0 - s) * span,
                60.0 * s * (1.0 - s) * (1.0 - 2.0 * s) * span * span,
            )
            c = s * (1.0 - s)
            bow = (
                64.0 * c * c * c,
                192.0 * c * c * (1.0 - 2.0 * s) * span,
                (384.0 * c * (1.0 - 2.0 * s) * (1.0 - 2.0 * s) - 384.0 * c * c) * span * span,
            )
            ahead = np.where(swings, there - here, 0.0)
            along = [ahead * one for one in blend]
            along[0] = along[0] + here

            def height(x: Scalar, point: ContactPoint = point, place: Any = place) -> Scalar:
                """Return the height of the center of a foot that stands ahead."""
                at = (place[0] + vx * x, place[1] + vy * x)
                return place[2] + self.rise(p, point, *at, place[2], handles)

            low, high = height(here), height(here + ahead)
            up = [(high - low) * one for one in blend]
            climb.append([low - place[2] + up[0], *up[1:]])
            clear = lift
            if self.ground is not None:
                # over what stands between two footholds
                for part, raised in CLEARANCE_SHARES:
                    over = height(here + part * ahead) - low - part * (high - low)
                    clear = np.maximum(clear, lift + over / raised)
            aims[point.name] = FootAim(
                (place[0] + vx * along[0], place[1] + vy * along[0], low + up[0] + clear * bow[0]),
                (vx * along[1], vy * along[1], up[1] + clear * bow[1]),
                (vx * along[2], vy * along[2], up[2] + clear * bow[2]),
                blend,
                (place[0] + vx * (here + ahead), place[1] + vy * (here + ahead), high),
            )
            touching[point.name] = np.where(in_air, 0.0, 1.0)
            landed = start + (np.minimum(n, last) - phase) * period
            since = np.where(n > first, time - landed, UNREACHED_TIME)
            left = np.where(swings, (duty - share) * period, UNREACHED_TIME)
            spans[point.name] = (since, left)
        rises = [sum(parts) / len(self.points) for parts in zip(*climb, strict=True)]
        way, rate, surge = traveled(time)
        pose = PoseSample(
            _vector(base[4] + vx * way, base[5] + vy * way, base[6] + rises[0] + zero),
            _vector(*(x + zero for x in base[:4])),
            _vector(vx * rate, vy * rate, rises[1] + zero),
            _vector(zero, zero, zero),
            _vector(vx * surge, vy * surge, rises[2] + zero),
            _vector(zero, zero, zero),
        )
        return MotionSample({self.joint: pose}, {}, touching, spans, transfer, aims)

    def rise(
        self,
        p: Scalars,
        point: ContactPoint,
        x: Scalar,
        y: Scalar,
        z: Scalar,
        handles: Sequence[Any] | None = None,
    ) -> Scalar:
        """Return how far the center of a foot that stands at a place is above a height [m].

        Args:
            p: Run-time parameters, as `parameters` lists them.
            point: Contact point of the foot.
            x: Place in the world [m].
            y: Likewise.
            z: The height [m]: that of the foot where the ground is level.
            handles: Handles of the tables; None for the ground itself.
        """
        if self.ground is None:
            return 0.0
        grid, size = _grid(self.ground), tuple(p[-len(field_size(self.ground)) :])
        handle = grid.table.handle if handles is None else handles
        height, tilt = TERRAIN_HEIGHTS[grid.smooth](x, y, placed_field(size, tuple(handle)))
        return height + point.radius / tilt - z


def _grid(ground: Ground) -> GroundGrid:
    assert ground.grid is not None
    return ground.grid


def _on_ground(model: Model, q: Any, points: Sequence[ContactPoint], world: World) -> Any:
    """Return a configuration whose feet stand on the ground below them, with the same attitude.

    Raises:
        DomainError: If legs do not reach the ground.
    """
    body = model.bodies[0]
    names = tuple(point.name for point in points)
    pairs = [(name, WORLD) for name in dict.fromkeys(point.body for point in points)]
    found = np.array(q, dtype=np.float64)
    wanted = np.array(_centers(model, found, points))
    for _ in range(MOST_ROUNDS):
        below = _below(contacts(model, found, world=world, pairs=pairs), names)
        if below.min() >= 0.0 and below.max() < TOUCHING_DEPTH:
            return found
        # a little above, so that nothing overlaps
        down = below - 0.5 * TOUCHING_DEPTH
        wanted[:, 2] -= down
        found[model.slice(body.joint.name).start + 6] -= float(np.mean(down))
        R, place = forward_kinematics(model, found, body.name)
        fixed, start = on_a_stand(model, found, names)
        targets = [
            FrameTarget(name, position=R.T @ (center - place))
            for name, center in zip(names, wanted, strict=True)
        ]
        legs = inverse_kinematics(fixed, start, targets)
        found[body.joint.nq :] = legs.q
    raise DomainError(
        "world",
        "ground within the reach of the legs",
        f"feet {np.abs(below).max():.3g} m away from it",
        advice="start at another place, or pass another posture=",
    )


def _below(here: Contacts, feet: Sequence[str]) -> Any:
    """Return how far the ground is below each foot, about [m]."""
    found = []
    for foot in feet:
        own = [
            k for k, name in enumerate(here.names) if name == foot or name.startswith(foot + "[")
        ]
        k = min(own, key=lambda k: float(here.gap[k]))
        found.append(here.gap[k] / max(abs(here.normal[k, 2]), LEAST_TILT))
    return np.array(found)


def _standing(model: Model, posture: ArrayLike | None) -> Any:
    """Return a configuration in which a robot stands."""
    if posture is None:
        if "stand" not in model.poses:
            raise ModelError(
                f'model {model.name!r}: expected a pose "stand", got none; pass posture='
            )
        posture = model.poses["stand"]
    return vector("posture", posture, model.nq)


def _centers(model: Model, q: Any, points: Sequence[ContactPoint]) -> list[Any]:
    """Return the centers of feet, world axes [m]."""
    found = []
    for point in points:
        rotation, origin = forward_kinematics(model, q, point.body)
        found.append(origin + rotation @ np.array(point.position))
    return found


def _vector(*parts: Scalar) -> Any:
    return row_of(list(parts))


def _eased(time: Scalar, ramp: Scalar) -> tuple[Scalar, Scalar, Scalar]:
    """Return the integral of a smooth step from 0 to 1, the step, and its rate."""
    s = np.minimum(1.0, np.maximum(0.0, time / ramp))
    way = ramp * s * s * s * (1.0 - 0.5 * s) + np.maximum(time - ramp, 0.0)
    return way, s * s * (3.0 - 2.0 * s), 6.0 * s * (1.0 - s) / ramp


def _overlap(phases: Sequence[float], duty: float) -> float:
    """Return the shortest time between a landing and the next lift of a foot, in cycles."""
    found = 1.0
    for landing in phases:
        for lifting in phases:
            # the foot lands at -landing and lifts at duty - lifting, modulo one cycle
            found = min(found, (duty - lifting + landing) % 1.0)
    return found
