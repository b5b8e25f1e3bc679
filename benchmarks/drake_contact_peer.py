"""A robot on its feet by Drake: discrete contact of spheres with a floor, joints held in place."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray
from pydrake.geometry import HalfSpace, Sphere
from pydrake.math import RigidTransform
from pydrake.multibody.plant import (
    AddMultibodyPlantSceneGraph,
    CoulombFriction,
    DiscreteContactApproximation,
)
from pydrake.multibody.tree import PdControllerGains
from pydrake.systems.analysis import Simulator
from pydrake.systems.framework import DiagramBuilder

import tiburon as tb
from benchmarks.drake_peer import add_body

Array = NDArray[np.float64]

APPROXIMATIONS = ("Sap", "Lagged", "Similar")
"""Drake's discrete approximations of contact; the fastest counts."""


class DrakeFeet:
    """A robot whose contact points are spheres on a level floor."""

    def __init__(
        self,
        model: tb.Model,
        stand: Array,
        *,
        approximation: str,
        step: float,
        friction: float,
        gravity: tuple[float, float, float],
        gains: tuple[float, float],
    ) -> None:
        """Build the robot and put it on the floor.

        Args:
            model: A tree on a free joint, else with revolute joints.
            stand: Its configuration, which the joints are held in.
            approximation: One of `APPROXIMATIONS`.
            step: Of time [s].
            friction: Coefficient of all contacts.
            gravity: World axes [m/s^2].
            gains: Stiffness and damping of the joints [N m/rad, N m s/rad].
        """
        builder = DiagramBuilder()
        self.plant, _ = AddMultibodyPlantSceneGraph(builder, step)
        plant = self.plant
        kind = getattr(DiscreteContactApproximation, f"k{approximation}")
        plant.set_discrete_contact_approximation(kind)
        plant.mutable_gravity_field().set_gravity_vector(np.array(gravity))
        surface = CoulombFriction(friction, friction)
        place = {"world": plant.world_body()}
        for body in model.bodies:
            place[body.name] = add_body(plant, body, place[body.parent])
        for point in model.contacts:
            plant.RegisterCollisionGeometry(
                place[point.body],
                RigidTransform(np.array(point.position)),
                Sphere(point.radius),
                point.name,
                surface,
            )
        plant.RegisterCollisionGeometry(
            plant.world_body(), RigidTransform(), HalfSpace(), "ground", surface
        )
        held = [joint for joint in model.joints if joint.kind == "revolute"]
        for joint in held:
            drive = plant.AddJointActuator(joint.name, plant.GetJointByName(joint.name))
            drive.set_controller_gains(PdControllerGains(p=gains[0], d=gains[1]))
        plant.Finalize()
        self.simulator = Simulator(builder.Build())
        context = self.simulator.get_mutable_context()
        self.context = plant.GetMyMutableContextFromRoot(context)
        q = np.zeros(plant.num_positions())
        for joint in model.joints:
            theirs = plant.GetJointByName(joint.name)
            first = theirs.position_start()
            q[first : first + joint.nq] = stand[model.slice(joint.name, of="q")]
        plant.SetPositions(self.context, q)
        wanted = np.array([stand[model.slice(joint.name, of="q")][0] for joint in held])
        for instance in {plant.GetJointByName(joint.name).model_instance() for joint in held}:
            port = plant.get_desired_state_input_port(instance)
            port.FixValue(self.context, np.r_[wanted, np.zeros(len(held))])
        self.simulator.Initialize()

    def advance(self, duration: float) -> None:
        """Run on for a while [s]."""
        self.simulator.AdvanceTo(self.simulator.get_context().get_time() + duration)

    def carried(self) -> float:
        """Return the sum of the vertical contact forces [N]."""
        found = self.plant.get_contact_results_output_port().Eval(self.context)
        forces = [
            found.point_pair_contact_info(k).contact_force()[2]
            for k in range(found.num_point_pair_contacts())
        ]
        return float(np.abs(forces).sum())
