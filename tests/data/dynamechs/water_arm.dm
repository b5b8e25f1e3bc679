# DynaMechs V 4.0 ascii
# an arm under water on a slide: all kinds of links, a branch, hydrodynamic numbers

Articulation {
    Name                "water_arm"
    Graphics_Model      ""
    Position            0.5 -0.25 2.0
    Orientation_Quat    0.0 0.0 0.7071067811865476 0.7071067811865476

    PrismaticLink {
        Name                            "carriage"
        Graphics_Model                  ""

        Mass                            12.0
        Inertia                         0.5 0.0 0.0
                                        0.0 0.6 0.0
                                        0.0 0.0 0.7
        Center_of_Gravity               0.0 0.0 0.0

        Volume                          0.004
        Added_Mass                      0 0 0 0 0 0
                                        0 0 0 0 0 0
                                        0 0 0 0 0 0
                                        0 0 0 3 0 0
                                        0 0 0 0 3 0
                                        0 0 0 0 0 3
        Center_of_Buoyancy              0.0 0.0 0.05
        Drag_Axis                       1
        Cylinder_Bounds                 -0.2 0.2
        Cylinder_Radius                 0.0
        Drag_Coefficient                0.0

        Number_of_Contact_Points        0

        MDH_Parameters                  0.1 -0.4 0.3 0.2
        Initial_Joint_Velocity          0.0
        Joint_Limits                    0.0 1.5
        Joint_Limit_Spring_Constant     0.0
        Joint_Limit_Damper_Constant     0.0
        Joint_Friction                  4.0
    }

    Branch {
        ZScrewTxLink {
            Name                "mount"
            ZScrew_Parameters   -0.1 0.7
        }

        QuaternionLink {
            Name                        "float"
            Graphics_Model              ""

            Mass                        1.5
            Inertia                     0.02 0.0  0.0
                                        0.0  0.03 0.0
                                        0.0  0.0  0.03
            Center_of_Gravity           0.05 0.0 0.0

            Number_of_Contact_Points            0
            Number_of_Dynamic_Contact_Points    1
            Dynamic_Contact_Locations           0.1 0.0 0.0

            Position_From_Inboard_Link  0.0 0.2 0.1
            Orientation_Quat            0.5 0.5 -0.5 0.5
            Initial_Angular_Velocity    0.0 0.0 0.0
            Joint_Friction              0.0
        }
    }

    RevoluteLink {
        Name                            "arm"
        Graphics_Model                  ""

        Mass                            6.0
        Inertia                         0.05 0.0 0.0
                                        0.0  1.0 0.0
                                        0.0  0.0 1.0
        Center_of_Gravity               0.3 0.0 0.0

        Volume                          0.0055
        Added_Mass                      0.02 0 0 0 0 0
                                        0 0.9 0 0 0 -0.6
                                        0 0 0.9 0 0.6 0
                                        0 0 0 0.3 0 0
                                        0 0 0.6 0 2.4 0
                                        0 -0.6 0 0 0 2.4
        Center_of_Buoyancy              0.28 0.0 0.01
        Drag_Axis                       0
        Cylinder_Bounds                 -0.05 0.6
        Cylinder_Radius                 0.06
        Drag_Coefficient                1.1

        Number_of_Contact_Points        0

        MDH_Parameters                  0.4 1.1 0.15 -0.6
        Initial_Joint_Velocity          0.25
        Joint_Limits                    -2.0 2.0
        Joint_Limit_Spring_Constant     100.0
        Joint_Limit_Damper_Constant     1.0

        Actuator_Type                   0
        Joint_Friction                  0.8
    }
}
