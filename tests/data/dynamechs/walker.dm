# DynaMechs V 2.0.3 ascii
# three legs of a walking machine for the sea floor, each of two hinges and a ball-jointed foot pad

Graphics_Models {
    Number_Graphics_Models  4
    "torso.xan"
    "thigh.xan"
    "shank.xan"
    "pad.xan"
}

System {
    DynamicRefMember {
        Graphics_Model_Index            0

        Mass                            210.28
        Inertia                         14.7  0.0   0.0
                                        0.0   14.7  0.0
                                        0.0   0.0   8.72
        Center_of_Gravity               0.0 0.0 0.0

        Number_of_Contact_Points        1
        Contact_Locations               0.0 0.0 -0.5

        Position                        8.0 10.0 3.0
        Orientation_Quat                0.1 0.0 0.2 0.97468    # (x, y, z, w)
        Velocity                        0.0 0.0 0.0 0.0 0.0 0.0
    }

    Articulation {
        RevoluteLink {
            Graphics_Model_Index            1

            Mass                            5.03
            Inertia                         0.02  0.0   0.0
                                            0.0   0.09  0.0
                                            0.0   0.0   0.10
            Center_of_Gravity               0.10 0.0 0.0

            Number_of_Contact_Points        0

            MDH_Parameters                  0.375 0.0 0.0 0.0
            Initial_Joint_Velocity          0.0
            Joint_Limits                    -1.0472 1.0472
            Joint_Limit_Spring_Constant     5000.0
            Joint_Limit_Damper_Constant     500.0

            Actuator_Type                   1
            Motor_Torque_Constant           32.0
            Motor_BackEMF_Constant          32.5
            Motor_Armature_Resistance       3.2
            Motor_Inertia                   5.3
            Motor_Coulomb_Friction_Constant 10.24
            Motor_Viscous_Friction_Constant 6.78
            Motor_Max_Brush_Drop            2.0
            Motor_Half_Drop_Value           3.0
        }

        RevoluteLink {
            Graphics_Model_Index            2

            Mass                            32.61
            Inertia                         0.22 -0.39  0.0
                                           -0.39  3.6   0.0
                                            0.0   0.0   3.7
            Center_of_Gravity               0.2 0.06 0.0    # the products of inertia show that
                                                            # the tensor is about the origin

            Number_of_Contact_Points        0

            MDH_Parameters                  0.20 1.5708 0.0 0.1
            Initial_Joint_Velocity          0.0
            Joint_Limits                    -1.86 1.28
            Joint_Limit_Spring_Constant     5000.0
            Joint_Limit_Damper_Constant     500.0

            Actuator_Type                   0
            Joint_Friction                  0.35
        }

        SphericalLink {
            Graphics_Model_Index            3

            Mass                            10.14
            Inertia                         0.164 0.0   0.0
                                            0.0   0.084 0.0
                                            0.0   0.0   0.084
            Center_of_Gravity               0.015 0.0 0.0

            Number_of_Contact_Points        3
            Contact_Locations               0.03  0.0    0.225
                                            0.03  0.225  0.0
                                            0.03  0.0    0.0

            Position_From_Inboard_Link      1.02 0.0 0.0
            Initial_Joint_Angles            0.1 -0.2 -0.4707
            Initial_Angular_Velocity        0.0 0.0 0.0
            Axes_Limits                     0.5 0.0 0.0
            Joint_Limit_Spring_Constant     800.0
            Joint_Limit_Damper_Constant     10.0
            Joint_Friction                  0.35
        }
    }
    Articulation {
        ZScrewTxLink {
            ZScrew_Parameters   0.0 1.0471976
        }

        RevoluteLink {
            Graphics_Model_Index            1

            Mass                            5.03
            Inertia                         0.02  0.0   0.0
                                            0.0   0.09  0.0
                                            0.0   0.0   0.10
            Center_of_Gravity               0.10 0.0 0.0

            Number_of_Contact_Points        0

            MDH_Parameters                  0.375 0.0 0.0 0.0
            Initial_Joint_Velocity          0.0
            Joint_Limits                    -1.0472 1.0472
            Joint_Limit_Spring_Constant     5000.0
            Joint_Limit_Damper_Constant     500.0

            Actuator_Type                   1
            Motor_Torque_Constant           32.0
            Motor_BackEMF_Constant          32.5
            Motor_Armature_Resistance       3.2
            Motor_Inertia                   5.3
            Motor_Coulomb_Friction_Constant 10.24
            Motor_Viscous_Friction_Constant 6.78
            Motor_Max_Brush_Drop            2.0
            Motor_Half_Drop_Value           3.0
        }

        RevoluteLink {
            Graphics_Model_Index            2

            Mass                            32.61
            Inertia                         0.22 -0.39  0.0
                                           -0.39  3.6   0.0
                                            0.0   0.0   3.7
            Center_of_Gravity               0.2 0.06 0.0    # the products of inertia show that
                                                            # the tensor is about the origin

            Number_of_Contact_Points        0

            MDH_Parameters                  0.20 1.5708 0.0 0.1
            Initial_Joint_Velocity          0.0
            Joint_Limits                    -1.86 1.28
            Joint_Limit_Spring_Constant     5000.0
            Joint_Limit_Damper_Constant     500.0

            Actuator_Type                   0
            Joint_Friction                  0.35
        }

        SphericalLink {
            Graphics_Model_Index            3

            Mass                            10.14
            Inertia                         0.164 0.0   0.0
                                            0.0   0.084 0.0
                                            0.0   0.0   0.084
            Center_of_Gravity               0.015 0.0 0.0

            Number_of_Contact_Points        3
            Contact_Locations               0.03  0.0    0.225
                                            0.03  0.225  0.0
                                            0.03  0.0    0.0

            Position_From_Inboard_Link      1.02 0.0 0.0
            Initial_Joint_Angles            0.1 -0.2 -0.4707
            Initial_Angular_Velocity        0.0 0.0 0.0
            Axes_Limits                     0.5 0.0 0.0
            Joint_Limit_Spring_Constant     800.0
            Joint_Limit_Damper_Constant     10.0
            Joint_Friction                  0.35
        }
    }
    Articulation {
        ZScrewTxLink {
            ZScrew_Parameters   0.0 -2.0943951
        }

        RevoluteLink {
            Graphics_Model_Index            1

            Mass                            5.03
            Inertia                         0.02  0.0   0.0
                                            0.0   0.09  0.0
                                            0.0   0.0   0.10
            Center_of_Gravity               0.10 0.0 0.0

            Number_of_Contact_Points        0

            MDH_Parameters                  0.375 0.0 0.0 0.0
            Initial_Joint_Velocity          0.0
            Joint_Limits                    -1.0472 1.0472
            Joint_Limit_Spring_Constant     5000.0
            Joint_Limit_Damper_Constant     500.0

            Actuator_Type                   1
            Motor_Torque_Constant           32.0
            Motor_BackEMF_Constant          32.5
            Motor_Armature_Resistance       3.2
            Motor_Inertia                   5.3
            Motor_Coulomb_Friction_Constant 10.24
            Motor_Viscous_Friction_Constant 6.78
            Motor_Max_Brush_Drop            2.0
            Motor_Half_Drop_Value           3.0
        }

        RevoluteLink {
            Graphics_Model_Index            2

            Mass                            32.61
            Inertia                         0.22 -0.39  0.0
                                           -0.39  3.6   0.0
                                            0.0   0.0   3.7
            Center_of_Gravity               0.2 0.06 0.0    # the products of inertia show that
                                                            # the tensor is about the origin

            Number_of_Contact_Points        0

            MDH_Parameters                  0.20 1.5708 0.0 0.1
            Initial_Joint_Velocity          0.0
            Joint_Limits                    -1.86 1.28
            Joint_Limit_Spring_Constant     5000.0
            Joint_Limit_Damper_Constant     500.0

            Actuator_Type                   0
            Joint_Friction                  0.35
        }

        SphericalLink {
            Graphics_Model_Index            3

            Mass                            10.14
            Inertia                         0.164 0.0   0.0
                                            0.0   0.084 0.0
                                            0.0   0.0   0.084
            Center_of_Gravity               0.015 0.0 0.0

            Number_of_Contact_Points        3
            Contact_Locations               0.03  0.0    0.225
                                            0.03  0.225  0.0
                                            0.03  0.0    0.0

            Position_From_Inboard_Link      1.02 0.0 0.0
            Initial_Joint_Angles            0.1 -0.2 -0.4707
            Initial_Angular_Velocity        0.0 0.0 0.0
            Axes_Limits                     0.5 0.0 0.0
            Joint_Limit_Spring_Constant     800.0
            Joint_Limit_Damper_Constant     10.0
            Joint_Friction                  0.35
        }
    }
}
