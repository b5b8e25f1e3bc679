"""Robots with more actuators than degrees of freedom: a five-bar linkage, a platform on cables."""

import itertools

import tiburon as tb
from tiburon.zoo.parts import BLUE, GREY, ORANGE, YELLOW, at, bar_shape, thin_rod, upright
from tools.zoo.closing import close
from tools.zoo.linkages import PLANE, Z, pin, with_pose
from tools.zoo.sheet import Sheet


def five_bar() -> Sheet:
    """Return a five-bar linkage with three motors for two degrees of freedom."""
    upper, lower, spread = 0.25, 0.35, 0.2
    rows = (
        ("left_upper", "world", "left_base", upright(-0.5 * spread), upper, 0.8, ORANGE),
        ("left_lower", "left_upper", "left_elbow", at(upper), lower, 0.6, GREY),
        ("right_upper", "world", "right_base", upright(0.5 * spread), upper, 0.8, BLUE),
        ("right_lower", "right_upper", "right_elbow", at(upper), lower, 0.6, GREY),
    )
    bodies = [
        tb.Body(
            name,
            parent,
            joint=tb.Revolute(joint, Z, pose=pose),
            inertia=thin_rod(mass, length),
            shapes=(bar_shape(length, 0.012, color),),
        )
        for name, parent, joint, pose, length, mass, color in rows
    ]
    model = tb.Model(
        "five_bar",
        bodies,
        [tb.Frame("tool", "left_lower", at(lower))],
        loops=[pin("tip", "left_lower", "right_lower", at(lower), at(lower))],
        actuators=[
            tb.Actuator(f"{joint}_motor", joint, force_limits=(-20.0, 20.0))
            for joint in ("left_base", "left_elbow", "right_base")
        ],
        about="Two arms that meet at their tips: three motors for two degrees of freedom",
    )
    home = close(
        model, {"left_base": 2.3, "left_elbow": -1.2, "right_base": 0.8, "right_elbow": 1.2}
    )
    sources = f"""
Ours: no machine has these numbers. Bases 0.2 m apart, upper arms of 0.25 m and 0.8 kg, lower arms
of 0.35 m and 0.6 kg, uniform thin rods; motors of 20 N m at both bases and at the left elbow. A
five-bar linkage has two degrees of freedom; the third motor leaves one internal force, along the
right lower arm, whose elbow is passive. Angles of the lower arms are relative to the upper ones.
{PLANE.strip()}"""
    notes = {
        "left_upper": "Estimated: lengths, masses and motors are a choice.",
        "left_base_motor": "Estimated.",
    }
    return Sheet(with_pose(model, "home", home), sources, notes)


def cable_robot() -> Sheet:
    """Return a platform on eight cables."""
    platform = tb.Body(
        "platform",
        joint=tb.Free("platform"),
        inertia=tb.Inertia.box(12.0, (0.4, 0.3, 0.2)),
        shapes=(tb.Shape(tb.BoxShape((0.4, 0.3, 0.2)), color=YELLOW),),
    )
    cables = []
    signs = itertools.product((1.0, -1.0), repeat=3)
    for number, (x, y, up) in enumerate(signs, start=1):
        # upper cables end in front and behind, lower ones at the sides, so that they resist turning
        held = (0.2 * x, 0.0, -0.1) if up > 0.0 else (0.0, 0.15 * y, 0.1)
        pulley = (2.0 * x, 1.5 * y, 1.25 + 1.25 * up)
        cables.append(tb.Cable(f"cable_{number}", "world", "platform", pulley, held, (10.0, 600.0)))
    model = tb.Model(
        "cable_robot",
        [platform],
        [tb.Frame("tool", "platform", at(z=-0.1))],
        cables=cables,
        poses={"home": (1.0, 0.0, 0.0, 0.0, 0.0, 0.0, 1.2)},
        about="A platform on eight cables in a frame of 4 x 3 x 2.5 m: two internal tensions",
    )
    sources = """
Ours: no machine has these numbers; the size is that of laboratory machines with eight cables.
Pulleys at the corners of a frame of 4 x 3 x 2.5 m; a platform of 12 kg, a box of 0.4 x 0.3 x 0.2
m. Upper cables hold the middle of its lower edges in front and behind, lower ones that of its
upper edges at the sides: so they resist all six motions. Winches keep 10 N at least, so that
cables do not sag, and give 600 N at most. Six degrees of freedom and eight cables leave two
internal tensions."""
    notes = {
        "platform": "Estimated: a solid box.",
        "cable_1": "Estimated, as all cables: pulley, end on the platform, tensions.",
    }
    return Sheet(model, sources, notes)


def sheets() -> list[Sheet]:
    """Return the robots of this file."""
    return [five_bar(), cable_robot()]
