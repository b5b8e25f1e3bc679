# DynaMechs V 4.0 ascii
# a crank, a rod on two ball joints and a piston in a guide: one loop

ClosedArticulation {
    Name                "slider_crank"
    Graphics_Model      ""
    Position            1.0 2.0 0.5
    Orientation_Quat    0.0 0.0 0.0 1.0

    TreeStructure {
        StaticRootLink {
            Name                "base"
            Graphics_Model      ""
        }

        ZScrewTxLink {
            Name                "shaft"
            ZScrew_Parameters   0.25 0.0
        }

        RevoluteLink {
            Name                        "crank"
            Graphics_Model              ""

            Mass                        2.0
            Inertia                     0.022 0.0   0.0
                                        0.0   0.022 0.0
                                        0.0   0.0   0.04
            Center_of_Gravity           0.0 0.0 0.0

            Number_of_Contact_Points    0

            MDH_Parameters              0.25 1.5707963267948966 0.0 0.0
            Initial_Joint_Velocity      5.0
            Joint_Limits                -1e10 1e10
            Joint_Limit_Spring_Constant 0.0
            Joint_Limit_Damper_Constant 0.0

            Actuator_Type               0
            Joint_Friction              0.001
        }

        SphericalLink {
            Name                        "rod"
            Graphics_Model              ""

            Mass                        0.25
            Inertia                     0.000078 0.0  0.0
                                        0.0      0.03 0.0
                                        0.0      0.0  0.03
            Center_of_Gravity           0.3 0.0 0.0

            Number_of_Contact_Points    0

            Position_From_Inboard_Link  0.2 0.0 0.0
            Initial_Joint_Angles        0.0 0.0 0.0
            Initial_Angular_Velocity    0.0 0.0 0.0
            Axes_Limits                 0.0 0.0 0.0
            Joint_Limit_Spring_Constant 0.0
            Joint_Limit_Damper_Constant 0.0
            Joint_Friction              0.0
        }

        SphericalLink {
            Name                        "piston"
            Graphics_Model              ""

            Mass                        0.5
            Inertia                     0.0003 0.0    0.0
                                        0.0    0.0039 0.0
                                        0.0    0.0    0.0039
            Center_of_Gravity           0.075 0.0 0.0

            Number_of_Contact_Points    0

            Position_From_Inboard_Link  0.6 0.0 0.0
            Initial_Joint_Angles        0.0 0.0 0.0
            Initial_Angular_Velocity    0.0 0.0 0.0
            Axes_Limits                 0.0 0.0 0.0
            Joint_Limit_Spring_Constant 0.0
            Joint_Limit_Damper_Constant 0.0
            Joint_Friction              0.0
        }
    }

    SecondaryJoints {
        HardPrismaticJoint {
            Name                "guide"
            Stabilization       BAUMGARTE

            Link_A_Name         "base"
            Link_B_Name         "piston"

            Joint_A_Position    0.25 0.0 0.25
            Rotation_Matrix_A   0.0  0.0 1.0
                                0.0  1.0 0.0
                               -1.0  0.0 0.0

            Joint_B_Position    0.0 0.0 0.0
            Rotation_Matrix_B   0.0  0.0 1.0
                               -1.0  0.0 0.0
                                0.0 -1.0 0.0

            Joint_Friction      0.02

            Position_Constraint_Spring      100.0
            Position_Constraint_Damper       20.0
            Orientation_Constraint_Spring   100.0
            Orientation_Constraint_Damper    20.0
        }
    }
}

# DynaMechs reads no further

SecondaryJoints {
    SoftSphericalJoint {
        Name    "never read"
    }
}
