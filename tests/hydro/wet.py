"""Random water numbers, several waters, and dynamics in them without machine code."""

from dataclasses import replace
from typing import NamedTuple

import numpy as np

import tiburon as tb
from tests.model.samples import random_pose
from tests.running import Interpreted
from tiburon.algorithms import energy
from tiburon.algorithms.aba import aba
from tiburon.algorithms.crba import crba
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import Setting
from tiburon.algorithms.surroundings import surroundings

DENSITY = 1025.0
STREAM, SHEAR = np.array([0.7, -0.5, 0.3]), np.array([0.9, 0.4, 0.2])
SWING = np.array([0.5, 0.8, -0.6])


class Sea(NamedTuple):
    """A water, and its velocity as a function of time and place that takes complex numbers."""

    water: tb.Water
    flow: object


def _wave(t, x):
    # one train: height 2 m, period 4 s, phase 0.4, running 0.5 rad from x; crests at z = 30
    omega = 2.0 * np.pi / 4.0
    k = omega**2 / 9.81
    along = np.array([np.cos(0.5), np.sin(0.5)])
    angle = k * (along[0] * x[0] + along[1] * x[1]) - omega * t + 0.4
    size = omega * np.exp(k * (x[2] - 30.0))
    return np.array(
        [size * np.cos(angle) * along[0], size * np.cos(angle) * along[1], size * np.sin(angle)]
    )


SEAS = {
    "still": Sea(tb.Water(DENSITY), lambda t, x: np.zeros(3)),
    "stream": Sea(tb.Water(DENSITY, tuple(STREAM)), lambda t, x: STREAM),
    "tide": Sea(
        tb.Water(DENSITY, tb.Tide(tuple(SWING), 3.0, 0.7, tuple(STREAM))),
        lambda t, x: STREAM + SWING * np.sin(2.0 * np.pi * t / 3.0 + 0.7),
    ),
    "shear": Sea(
        # wide enough for all states that are drawn
        tb.Water(DENSITY, tb.LinearShear(tuple(SHEAR), 200.0, surface=100.0)),
        lambda t, x: SHEAR * (0.5 + x[2] / 200.0),
    ),
    "wave": Sea(
        tb.Water(DENSITY, tb.Waves((tb.Wave(2.0, 4.0, direction=0.5, phase=0.4),), surface=30.0)),
        _wave,
    ),
}


def random_fluid(rng):
    """Return water numbers of the size of the bodies that are drawn."""
    scale = np.diag([0.15, 0.15, 0.15, 1.0, 1.0, 1.0])

    def positive():
        G = rng.normal(size=(6, 6))
        return 0.3 * scale @ G @ G.T @ scale

    kind, axis = rng.integers(4), rng.normal(size=3)
    if kind == 0:
        shape = tb.CylinderDrag(
            rng.uniform(0.02, 0.05),
            rng.uniform(0.2, 0.5),
            1.1,
            (0.8, 0.3),
            rng.uniform(-0.2, 0.2, 3),
            axis / np.linalg.norm(axis),
        )
    elif kind == 1:
        shape = tb.SphereDrag(rng.uniform(0.05, 0.1), 0.5, rng.uniform(-0.2, 0.2, 3))
    else:
        solid = tb.BoxDrag if kind == 2 else tb.EllipsoidDrag
        shape = solid(rng.uniform(0.05, 0.2, 3), (1.1, 0.9, 1.3), random_pose(rng))
    return tb.BodyFluid(
        volume=rng.uniform(2e-4, 2e-3),
        center_of_buoyancy=rng.uniform(-0.1, 0.1, 3),
        added_mass=positive(),
        drag=(shape,),
        linear_damping=positive(),
        quadratic_damping=positive(),
        fins=(random_fin(rng),),
    )


def random_fin(rng):
    """Return a fin of either kind, anyhow turned."""
    span = rng.normal(size=3)
    foil = tb.ThinFoil(drag_coefficient=0.02, stall=(0.2, 0.6))
    if rng.random() < 0.4:
        angles = (0.0, 0.3, 0.5 * np.pi, np.pi)
        foil = tb.TableFoil(angles, (0.0, rng.uniform(0.5, 1.2), 0.1, 0.0), rng.uniform(0, 1.5, 4))
    return tb.Fin(
        rng.uniform(0.002, 0.02),
        rng.uniform(1.0, 6.0),
        rng.uniform(-0.2, 0.2, 3),
        span,
        np.cross(span, rng.normal(size=3)),
        foil,
        rng.normal() if rng.random() < 0.5 else None,
    )


def immersed(model, seed):
    """Return the model with random water numbers on every body."""
    rng = np.random.default_rng(seed)
    bodies = [replace(body, fluid=random_fluid(rng)) for body in model.bodies]
    return tb.Model(model.name, bodies, model.frames)


def without_drag(model):
    """Return the model with added mass and buoyancy alone: drag has no energy."""
    bodies = [
        tb.Body(
            body.name,
            body.parent,
            joint=body.joint,
            inertia=body.inertia,
            fluid=tb.BodyFluid(
                body.fluid.volume, body.fluid.center_of_buoyancy, body.fluid.added_mass
            ),
        )
        for body in model.bodies
    ]
    return tb.Model(model.name, bodies, model.frames)


class OnFloats:
    """The algorithms on plain numbers, in water."""

    def __init__(self, model, gravity, water, time=0.0):
        self.model, self.gravity = model, gravity
        world = tb.World(gravity=gravity, fluid=water)
        plan, gravity, around = surroundings(model, world)
        around = around._replace(time=time)
        self.setting = Setting(model, (), (), plan, gravity, around)
        self.plan = plan

    def external(self, q, v):
        """Return what water does to each plan body beyond added mass times acceleration."""
        return self.setting.at(q.tolist(), v.tolist()).external

    def forward_dynamics(self, q, v, tau):
        state = q.tolist(), v.tolist(), tau.tolist()
        return np.array(aba(self.plan, *state, self.gravity, self.external(q, v)), dtype=float)

    def inverse_dynamics(self, q, v, vd):
        state = q.tolist(), v.tolist(), vd.tolist()
        return np.array(rnea(self.plan, *state, self.gravity, self.external(q, v)), dtype=float)

    def mass_matrix(self, q):
        return np.array(crba(self.plan, q.tolist()), dtype=float)

    def kinetic_energy(self, q, v):
        return float(energy.kinetic(self.plan, q.tolist(), v.tolist(), self.setting.water))

    def potential_energy(self, q):
        return float(energy.potential(self.plan, q.tolist(), self.gravity, self.setting.water))


class OnGraph(Interpreted):
    """The traced graphs of the public functions in water, evaluated by NumPy."""

    def __init__(self, model, gravity, water):
        super().__init__(model, gravity)
        self.world = tb.World(gravity=gravity, fluid=water)


WAYS = [OnFloats, OnGraph]
