"""Zoo: remus100 with rudder and planes at zero turns in circles, pitches by tens of degrees and is 25 % too fast.

Right: the vehicle runs straight. Reference: the remus100 model of PythonVehicleSimulator (the source that the file names), 60 s at constant speed of the propeller: yaw 0,
pitch 0, u 1.34 m/s at 800 rpm, 2.55 m/s at 1525 rpm. Causes seen: the Munk moment is kept while the source zeroes those entries of C_A and nothing here balances it
(fin lift by drift 0.5/rad, no hull lift); propeller torque ten times the source's; thrust does not fall with the speed of advance.
"""
import numpy as np
import tiburon as tb

ANGLE, SPEED = 5.0, 0.05  # deg of yaw and pitch, relative error of speed
robot, sea = tb.load("remus100"), tb.Water(1026.0)
wrong = False
for rpm, u in ((800.0, 1.34), (1525.0, 2.55)):
    run = tb.simulate(robot, 60.0, fluid=sea, command={"propeller": rpm / 60}, method=tb.RK4(dt=0.02), record=tb.Record(dt=0.5))
    w, x, y, z = run.q[:, :4].T
    pitch = np.degrees(np.arcsin(np.clip(2 * (w * y - z * x), -1, 1)))
    yaw = np.degrees(np.unwrap(np.arctan2(2 * (w * z + x * y), 1 - 2 * (y * y + z * z))))
    turned, steep, off = abs(yaw - yaw[0]).max(), abs(pitch).max(), run.v[-1, 3] / u - 1
    wrong |= turned > ANGLE or steep > ANGLE or abs(off) > SPEED
    print(f"{rpm:.0f} rpm, 60 s: turned by {turned:.0f} deg, largest pitch {steep:.0f} deg, u {run.v[-1, 3]:.2f} m/s ({100 * off:+.0f} %); right: 0, 0, {u} m/s (tolerances {ANGLE:g} deg, {100 * SPEED:.0f} %)")
raise SystemExit(int(wrong))
