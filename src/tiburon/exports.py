"""Public names of the package, by the module that defines them.

The block for type checkers in `__init__.py` lists the same, which a test compares.
"""

_NAMES = {
    "actuation.contact_models": """
        CompliantContact ContactModel DefaultContact ExactContact RigidContact
    """,
    "actuation.defaults": "elements_of",
    "actuation.element": "Action Element ElementContext",
    "actuation.force_function": "ForceFunction",
    "actuation.joint_stops": "JointStop JointStops",
    "actuation.loop_switch": "LoopSwitch",
    "actuation.schedules": "JointForceSchedule WrenchSchedule",
    "actuation.stick_slip": "StickSlip",
    "checks.energy_flow": "EnergyFlow energy_flow",
    "checks.model_check": "Finding ModelCheck check_model",
    "contact.compliant": "Touch hunt_crossley_dissipation",
    "contact.covers": "cover_mesh cover_meshes",
    "control.allocation": "ThrusterAllocation",
    "control.cable_control": "CableControl",
    "control.cartesian_path": "CartesianPath",
    "control.combined": "CombinedControl",
    "control.computed_torque": "ComputedTorque GravityCompensation",
    "control.joint_path": "JointPath",
    "control.load_sharing_control": "LoadSharingControl",
    "control.lqr": "LinearQuadraticRegulator lqr",
    "control.motion_path": "GaitPath MotionPath",
    "control.pd": "PD PID",
    "control.replay": "Replay",
    "control.sensors": """
        ContactSensor DepthSensor ForceTorqueSensor InertialSensor JointSensor PoseSensor
        VelocityLog
    """,
    "control.station_keeping": "StationKeeping",
    "drive.session": "Drive",
    "errors": """
        ArgumentError CacheWarning CaseError CompileError DomainError LoopError MissingExtraError
        ModelError ModelFileError ModelWarning NonFiniteError OptionError PartnerError RunFileError
        SecondOrderCollisionError ShapeError TiburonError TiburonWarning TraceError
        UnknownNameError
    """,
    "formats.description": "describe",
    "formats.load": "load load_world",
    "formats.save": "save",
    "functions.assembly": "Assembly AssemblyBranches assemble assembly_branches",
    "functions.balancing": "FrameBalance balance_frame",
    "functions.cables": "CableTensions cable_tensions structure_matrix",
    "functions.closed_loops": """
        LoopDynamics LoopForces LoopReactions ProjectedConfiguration constraint_residual
        loop_dynamics loop_inverse_dynamics loop_jacobian loop_reactions project_configuration
        project_acceleration project_velocity
    """,
    "functions.compilation": "compile",
    "functions.contact": """
        ContactDependence Contacts DependentContacts Impact contact_closure contact_dependence
        contacts impact lift_out
    """,
    "functions.contact_dynamics": "ContactDynamics contact_dynamics",
    "functions.contact_mobility": "Feathering PhaseMobility feathering gait_mobility",
    "functions.derivatives": """
        ForwardDynamicsDerivatives InertiaDerivatives InverseDynamicsDerivatives
        forward_dynamics_derivatives inertia_derivatives inverse_dynamics_derivatives
    """,
    "functions.dynamics": """
        bias_force coriolis_matrix floating_base_inverse_dynamics forward_dynamics gravity_force
        inertial_parameter_names inertial_parameters inverse_dynamics inverse_mass_matrix
        joint_reactions mass_matrix prepare_dynamics regressor
    """,
    "functions.fluid_regressor": """
        fluid_regressor hydrodynamic_parameter_names hydrodynamic_parameters
    """,
    "functions.free_motion": "FreeMotionShare share_free_motion",
    "functions.hybrid_dynamics": "hybrid_dynamics",
    "functions.inverse_kinematics": """
        FrameTarget InverseKinematics InverseKinematicsOutcome inverse_kinematics
    """,
    "functions.keywords": "Conditions Delivery",
    "functions.kinematics": """
        center_of_mass center_of_mass_jacobian forward_kinematics frame_acceleration frame_jacobian
        frame_jacobian_bias frame_velocity kinetic_energy momentum momentum_matrix potential_energy
    """,
    "functions.load_sharing": "GripLimit LoadShare LoadSharing share_load",
    "functions.loop_motion": "LoopMotion loop_motion",
    "functions.mobility": """
        Mobility MobilityMap MotorSet connectivity mobility mobility_map motor_sets
    """,
    "functions.operational_space": """
        ApparentInertia apparent_inertia apparent_inverse_inertia cross_inverse_inertia
        operational_space_inertia operational_space_inverse_inertia
    """,
    "functions.parameter_derivatives": "parameter_derivatives",
    "functions.trim": "Trim TrimOutcome trim",
    "functions.water": """
        CylinderFlow FossenForm cylinder_flows fin_force fossen_form steerable_fins thrust_after
        thruster_force thruster_force_of_thrust
    """,
    "functions.wrench_map": "WrenchMap wrench_map",
    "hydro.coefficients": """
        BodyHydrodynamics HydrodynamicEstimate add_hydrodynamics estimate_hydrodynamics
        hydrodynamics_report
    """,
    "hydro.mesh": "Mesh load_mesh",
    "hydro.panels": "PanelAddedMass panel_added_mass",
    "identification.calibrate": "calibrate",
    "identification.identify": "Identification identify",
    "identification.joint_forces": "identify_dynamics",
    "identification.measured": "MeasuredRun load_measured",
    "interfaces.c_library": "build_library",
    "interfaces.fmu": "export_fmu",
    "interfaces.to_casadi": "to_casadi",
    "interfaces.to_jax": "to_jax",
    "interfaces.to_torch": "to_torch",
    "load_sharing.limits.contact": "NormalForceLimit",
    "load_sharing.limits.joint_wrench": "JointWrenchLimit",
    "load_sharing.objectives.contact_force": """
        EqualShare InternalForce LargestNormalForce LoadTarget
        """,
    "load_sharing.objectives.motor_loss": "MotorLoss",
    "load_sharing.objectives.objective": "Objective Square",
    "load_sharing.objectives.smoothness": "Smoothness TorqueSmoothness",
    "load_sharing.objectives.structure": "BendingEnergy JointWrenchNorm StrainEnergy",
    "load_sharing.objectives.torque_norm": "TorqueNorm",
    "load_sharing.performance": """
        MotorPower PerformanceIndices motor_power performance_indices
    """,
    "load_sharing.sites": "ContactSite",
    "load_sharing.smoothing": "Blending SmoothingPenalty StepBound",
    "loops.constraints": "constraint_names",
    "loops.driven_cut": "drive_cut_joint driven_cut_state",
    "loops.recut": "recut recut_state",
    "loops.topology": "JointLine Topology topology",
    "loops.loop_method": "LoopMethod",
    "loops.stabilization": "Baumgarte DeNOC Embedding Penalty Projection",
    "loops.star": "Star StarArm star",
    "model": """
        Actuator Body BodyFluid BoxDrag BoxShape CapsuleShape ContactPair ContactPoint Coupled
        CylinderDrag CylinderShape EllipsoidDrag EllipsoidShape Fin Fixed Frame Free
        Ground GroundGrid GroundPatch Inertia Joint JointActuation JointCoupling
        JointLimits JointPassive LinearThrust LoopClosure MeshShape Model Motor
        PlaneShape Pose Prismatic QuadraticThrust Revolute Servo Shape SphereDrag SphereShape
        TableFoil TableThrust ThinFoil Thruster Water World actuation_report
        added_mass_from joint_actuation rotor
    """,
    "model.attachments": "Cable HydraulicCylinder Spring",
    "model.closure_kinds": "Blade ConstraintFunction RollingDisc TendonCoupling",
    "model.contact_kinds": "ContactMaterial",
    "model.contact_pads": "contact_pad",
    "model.conversions": """
        JointValues from_fossen from_mujoco from_pinocchio matrix_from_fossen matrix_to_fossen
        motion_from_mujoco motion_to_mujoco six_vector_from_fossen six_vector_from_pinocchio
        six_vector_to_fossen six_vector_to_pinocchio to_fossen to_mujoco to_pinocchio
        wrench_from_mujoco wrench_to_mujoco
    """,
    "model.currents": """
        Current CurrentSum LinearShear PowerShear TableCurrent Tide UniformCurrent Wave Waves
    """,
    "model.denavit_hartenberg": "DHLink",
    "model.flexible_link": "BeamSection flexible_link",
    "model.joints": """
        Cylindrical Driven Harmonic Path Planar Polynomial RollingSphere Screw Spherical Universal
    """,
    "model.model_warnings": "model_warnings",
    "model.parameters": "Parameter",
    "native.c_source": "CFiles c_source",
    "parallel.exchange": "ThreadExchange",
    "parallel.mpi_ranks": "MPIExchange",
    "parallel.partition": "Partition partition",
    "parallel.session": "MessageCount",
    "parallel.sweep": "Study load_sweep sweep",
    "results.contact_summary": "ContactSummary DeepestContact",
    "results.outcome": "EventRecord Outcome",
    "results.record": "Record",
    "results.trajectory": "Trajectory",
    "simulation.events": "Event TimeEvent latch release",
    "simulation.execution": "Execution",
    "simulation.integrate": "StateRecord integrate_rk4",
    "simulation.integrators.dop853": "Dop853",
    "simulation.integrators.dopri5": "DormandPrince",
    "simulation.integrators.euler": "Euler SemiImplicitEuler",
    "simulation.integrators.integrator": "FixedIntegrator",
    "simulation.integrators.predictor_corrector": "PredictorCorrector",
    "simulation.integrators.rk4": "RK4",
    "simulation.integrators.rosenbrock": "Rosenbrock",
    "simulation.linearization": "ContactLinearization Linearization linearize",
    "simulation.modes": "Mode Modes modes",
    "simulation.recorded_run": "load_run",
    "simulation.run_parameters": "ParameterTable parameters with_parameters",
    "simulation.sampled": "Sampled",
    "simulation.sensing": "Sensor",
    "simulation.simulate": "simulate",
    "simulation.state": "State",
    "simulation.stepper": "Stepped Stepper StepperState stepper",
    "simulation.system": "System",
    "trace.declared": "traced",
}

EXPORTS: dict[str, str] = dict(
    sorted(
        (name, f"tiburon.{module}") for module, names in _NAMES.items() for name in names.split()
    )
)
"""Module of each public name, sorted by name."""
