"""Rotors of motors: bodies geared to the joint they drive."""

from tiburon.arguments import public
from tiburon.errors import ModelError
from tiburon.model.body import Body
from tiburon.model.inertia import Inertia
from tiburon.model.joints import Coupled, Joint, Revolute
from tiburon.model.pose import Pose
from tiburon.model.value_checks import Vec3, check_name, finite_array


@public
def rotor(
    name: str,
    housing: str,
    drives: Joint | str,
    *,
    ratio: float,
    inertia: float,
    mass: float,
    axis: Vec3 = (0.0, 0.0, 1.0),
    pose: Pose | None = None,
    transverse: float | None = None,
) -> Body:
    """Build the rotor of a motor as a body of the robot.

    It rotates by `ratio` times the position of the driven joint, relative to the housing. It adds
    its inertia times ratio^2 to the joint, its inertia to the housing, and gyroscopic moments. Its
    mass is that of the rotor alone, which must not be part of the housing's.

    Args:
        name: Name of the body; its joint has the suffix "_spin".
        housing: Name of the body that
            carries the motor.
        drives: The joint it drives, or its name.
        ratio: Gear ratio, rotor angle per joint angle (or displacement); negative for opposite
            directions.
        inertia: Moment of inertia about its axis [kg m^2].
        mass: Mass [kg].
        axis: Unit axis of the spin, in axes of `pose`.
        pose: Center of the rotor in the housing's frame.
        transverse: Moment of inertia about a transverse axis [kg m^2]; by default half of
            `inertia`, that of a thin disk.

    Returns:
        A body to list in a model.

    Example:
        ``rotor("elbow_rotor", "upper_arm", "elbow", ratio=100, inertia=2e-5, mass=0.1)``
    """
    check_name(name, "rotor")
    element = f"rotor {name!r}"
    check_name(housing, f"{element}: housing")
    if not isinstance(drives, Joint):
        check_name(drives, f"{element}: drives")
    along, across = (
        float(finite_array(value, (), element, what, name))
        for value, what in ((inertia, "inertia"), (transverse or 0.5 * inertia, "transverse"))
    )
    if along <= 0.0 or across < 0.5 * along:
        raise ModelError(
            f"{element}: inertia must be positive and transverse at least half of it, got "
            f"{along:g} and {across:g} kg m^2; no body of revolution has less",
            name=name,
        )
    leader = drives if isinstance(drives, str) else drives.name
    spin = Revolute(f"{name}_spin", axis)
    x, y, z = spin.axis
    # body of revolution: I = across 1 + (along - across) a a^T
    more = along - across
    tensor = (
        across + more * x * x,
        more * x * y,
        more * x * z,
        across + more * y * y,
        more * y * z,
        across + more * z * z,
    )
    joint = Coupled(f"{name}_spin", spin, leader, ratio, pose=pose or Pose())
    return Body(name, housing, joint=joint, inertia=Inertia(mass, (0.0, 0.0, 0.0), tensor))
