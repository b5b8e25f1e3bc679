"""The fully specified underwater robots of the digests, whose earth frame has z down."""

import numpy as np

from tiburon import (
    Body,
    BodyFluid,
    CylinderDrag,
    Free,
    Inertia,
    Model,
    Pose,
    Prismatic,
    Revolute,
    Water,
    World,
)

DOWN = World(gravity=(0.0, 0.0, 9.81))
"""The sources' earth frame: z down."""


def passive(axis, angle):
    """Rotation that maps coordinates into a frame turned about an axis (McMillan 1994, A.3)."""
    c, s = np.cos(angle), np.sin(angle)
    i, j = (axis + 1) % 3, (axis + 2) % 3
    R = np.eye(3)
    R[i, i] = R[j, j] = c
    R[i, j], R[j, i] = s, -s
    return R


def modified_dh(a, alpha, d=0.0, theta=0.0):
    """Pose of a link's frame in that of the link before (McMillan 1994, A.1, A.4)."""
    iR = passive(2, theta) @ passive(0, alpha)
    p = (a, -d * np.sin(alpha), d * np.cos(alpha))
    return Pose(iR.T, p)


def earth_to_body(roll, pitch, yaw):
    """Map of earth coordinates into the base frame: three planar rotations."""
    return passive(0, roll) @ passive(1, pitch) @ passive(2, yaw)


def quaternion(R):
    """Quaternion of a body whose map from earth coordinates is R."""
    w = 0.5 * np.sqrt(1.0 + np.trace(R))
    return np.array([w, R[1, 2] - R[2, 1], R[2, 0] - R[0, 2], R[0, 1] - R[1, 0]]) / [
        1,
        *[4 * w] * 3,
    ]


def classical_to_rate(a, w, v):
    """Rate of the base velocity in body axes from its classical acceleration (1994, eq. 6.16)."""
    return np.concatenate([a[:3], np.asarray(a[3:]) - np.cross(w, v)])


# -- McMillan 1994 digest, 6.3, fixture B ----------------------------------------------------------

RHO_B = 1000.0


def fixture_b():
    cylinder = CylinderDrag(
        0.05, 0.4, axis=(1, 0, 0), side_coefficient=1.1, end_coefficients=(1.1, 1.1)
    )

    def fluid(added, displaced, b):
        return BodyFluid(displaced / RHO_B, b, added, (cylinder,), reference_density=RHO_B)

    C = np.array([[0, 0, 0], [0, 0, -0.6], [0, 0.6, 0]])
    link_added = np.block([[np.diag([0.01, 0.2, 0.2]), C], [C.T, np.diag([0.3, 3.0, 3.0])]])
    bodies = [
        Body(
            "base",
            joint=Free("base"),
            inertia=Inertia(50.0, (0, 0, 0), (2, 3, 4)),
            fluid=fluid(np.diag([0.5, 1, 1, 10, 30, 30]), 48.0, (0, 0, -0.05)),
        )
    ]
    chains = [((0.2, 0.0), [(0.3, np.pi / 2, 0.0), (0.4, 0.0, 0.05)])]
    chains.append(((-0.1, 2.0), [(0.25, -np.pi / 2, 0.1), (0.4, np.pi / 6, 0.0)]))
    masses = [
        (Inertia(5.0, (0.2, 0, 0), (0.02, 0.08, 0.08)), 3.0),
        (Inertia(4.0, (0.2, 0.01, 0), (0.015, 0.07, 0.07)), 2.5),
    ]
    for k, ((d0, theta0), rows) in enumerate(chains):
        parent, place = "base", modified_dh(0.0, 0.0, d0, theta0)
        for i, ((a, alpha, d), (inertia, displaced)) in enumerate(zip(rows, masses, strict=True)):
            name = f"link_{k}{i}"
            pose = place @ modified_dh(a, alpha, d)
            bodies.append(
                Body(
                    name,
                    parent,
                    joint=Revolute(f"joint_{k}{i}", (0, 0, 1), pose=pose),
                    inertia=inertia,
                    fluid=fluid(link_added, displaced, (0.2, 0, 0)),
                )
            )
            parent, place = name, Pose()
    return Model("fixture_b", bodies)


def state_b():
    R = earth_to_body(0.1, -0.2, 0.3)
    w, v = np.array([0.1, 0.2, -0.3]), np.array([0.5, -0.2, 0.1])
    q = np.concatenate([quaternion(R), (1.0, 2.0, 3.0), (0.4, -0.3, -0.6, 0.9)])
    speeds = np.concatenate([w, v, (0.5, -1.0, 0.2, 0.7)])
    tau = np.array([1.0, 2.0, 3.0, 10.0, -5.0, 4.0, 3.0, -2.0, 1.0, 0.5])
    # the tip force is the one of the link on the environment
    external = {"link_11": (0.0, 0.0, 0.0, -1.0, -2.0, -3.0)}
    return q, speeds, tau, external


def water_b(time):
    """A current whose velocity and acceleration at a time are those of the fixture."""
    v, a = np.array([0.3, 0.1, 0.0]), np.array([0.05, 0.0, 0.02])
    return Water(RHO_B, lambda t, p: tuple(v[k] + a[k] * (t - time) for k in range(3)))


# -- McMillan 1995 digest, 3.6 ---------------------------------------------------------------------

RHO_1995 = 1025.0


def reference_1995(links):
    A0 = np.diag([2.0, 6, 7, 40, 90, 110])
    A0[1, 5] = A0[5, 1] = -12.0
    A0[2, 4] = A0[4, 2] = 9.0

    def drag(C, r, length, start=(0, 0, 0), axis=(1, 0, 0)):
        return (
            CylinderDrag(
                r, length, start=start, axis=axis, side_coefficient=C, end_coefficients=(C, C)
            ),
        )

    def fluid(added, displaced, b, shapes):
        return BodyFluid(displaced / RHO_1995, b, added, shapes)

    bodies = [
        Body(
            "base",
            joint=Free("base"),
            inertia=Inertia(100.0, (-0.5, 0, 0.1), (8, 20, 22)),
            fluid=fluid(A0, 102.0, (-0.5, 0, 0), drag(0.8, 0.3, 1.0, start=(-1, 0, 0))),
        ),
        Body(
            "one",
            "base",
            joint=Revolute("joint_1", (0, 0, 1), pose=modified_dh(0, 0)),
            inertia=Inertia(6.0, (0.2, 0, 0), (0.02, 0.1, 0.1)),
            fluid=fluid(
                np.diag([0.01, 0.12, 0.12, 0.5, 5, 5]), 4.0, (0.2, 0, 0), drag(1.1, 0.06, 0.4)
            ),
        ),
        Body(
            "two",
            "one",
            joint=Revolute("joint_2", (0, 0, 1), pose=modified_dh(0.4, np.pi / 2)),
            inertia=Inertia(5.0, (0.15, 0.01, 0), (0.015, 0.08, 0.08)),
            fluid=fluid(
                np.diag([0.01, 0.08, 0.08, 0.4, 4, 4]), 3.0, (0.15, 0, 0), drag(1.1, 0.05, 0.3)
            ),
        ),
        Body(
            "three",
            "two",
            # the angle of a prismatic link comes before its slide, about the same axis
            joint=Prismatic("joint_3", (0, 0, 1), pose=modified_dh(0.3, -np.pi / 2, 0.0, 0.2)),
            inertia=Inertia(2.0, (0, 0, 0.1), (0.01, 0.01, 0.002)),
            fluid=fluid(
                np.diag([0.02, 0.02, 0.001, 1.5, 1.5, 0.2]),
                1.2,
                (0, 0, 0.1),
                drag(1.1, 0.03, 0.2, axis=(0, 0, 1)),
            ),
        ),
    ]
    return Model(f"reference_{links}", bodies[: links + 1])


def state_1995(links):
    R = earth_to_body(0.1, -0.2, 0.3)
    q = np.concatenate([quaternion(R), (0.5, -1.0, 2.0), (0.4, -0.7, 0.25)[:links]])
    v = np.concatenate([(0.1, -0.2, 0.3, 0.5, 0.1, -0.2), (0.5, -0.6, 0.15)[:links]])
    tau = np.concatenate([(1.0, -2, 3, 40, -5, 6), (3.0, -1.5, 4.0)[:links]])
    return q, v, tau


def water_1995(time):
    v, a = np.array([0.2, -0.1, 0.05]), np.array([0.02, 0.01, -0.03])
    return Water(RHO_1995, lambda t, p: tuple(v[k] + a[k] * (t - time) for k in range(3)))
