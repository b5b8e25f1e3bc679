"""Public instance methods and some functions raise foreign errors for wrong arguments; the contract test covers constructors and functions only.

Right: an ArgumentError (any TiburonError) that names the argument.
"""
import os
import tempfile

import numpy as np
import tiburon as tb

folder = tempfile.TemporaryDirectory()
os.chdir(folder.name)

robot = tb.load("cart_pole")
run, inertia = tb.simulate(robot, 0.02), tb.Inertia.sphere(1.0, 0.1)
calls = {
    "Trajectory.save(3.0)": lambda: run.save(3.0),
    "Trajectory.to_csv(None)": lambda: run.to_csv(None),
    "Trajectory.get(None)": lambda: run.get(None),
    "Trajectory.get(3)": lambda: run.get(3),
    "Inertia.moved(1.0)": lambda: inertia.moved(1.0),
    "simulate(dt=5e-324)": lambda: tb.simulate(robot, 1.0, method=tb.RK4(dt=5e-324)),
    "simulate(duration=1e308)": lambda: tb.simulate(robot, 1e308),
    "simulate(store='x' * 300)": lambda: tb.simulate(robot, 0.01, record=tb.Record(store="x" * 300)),
    "forward_kinematics(frames=numbers)": lambda: tb.forward_kinematics(robot, robot.neutral(), frames=(x for x in (1.0, 2.0))),
    "Drive(dt=np.float16(1))": lambda: tb.Drive(robot, method=tb.RK4(dt=np.float16(1.0))),
    "load_measured('x' * 300)": lambda: tb.load_measured("x" * 300),
}
foreign = 0
for label, call in calls.items():
    try:
        call()
        print("accepted", label)
    except tb.TiburonError as e:
        print("refused ", label, "->", type(e).__name__)
    except Exception as e:
        foreign += 1
        print("foreign ", label, "->", type(e).__name__, str(e)[:80])
print(f"{foreign} of {len(calls)} calls raise foreign errors; right: 0")
raise SystemExit(int(foreign > 0))
