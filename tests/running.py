"""Ways to run the same algorithms: on floats, on their graph, by kernels with raw tables."""

import numpy as np

import tiburon as tb
from tiburon.algorithms import energy
from tiburon.algorithms.aba import aba
from tiburon.algorithms.crba import crba
from tiburon.algorithms.rnea import rnea
from tiburon.algorithms.setting import forces_on_bodies
from tiburon.functions.kernel_source import LibrarySource
from tiburon.functions.keywords import external_options
from tiburon.native.kernel import make_kernel
from tiburon.trace.interpret import interpret


class OnFloats:
    """The algorithms on plain numbers, as one steps through them in a debugger."""

    def __init__(self, model, gravity=(0.0, 0.0, -9.81)):
        self.model, self.gravity = model, gravity

    def _forces(self, q, external, axes):
        wrenches = {name: wrench.tolist() for name, wrench in (external or {}).items()}
        return forces_on_bodies(self.model.plan, q.tolist(), wrenches, axes)

    def forward_dynamics(self, q, v, tau, external=None, axes="frame"):
        outside = self._forces(q, external, axes)
        plan = self.model.plan
        return np.array(aba(plan, q.tolist(), v.tolist(), tau.tolist(), self.gravity, outside))

    def inverse_dynamics(self, q, v, vd, external=None, axes="frame"):
        outside = self._forces(q, external, axes)
        plan = self.model.plan
        return np.array(rnea(plan, q.tolist(), v.tolist(), vd.tolist(), self.gravity, outside))

    def mass_matrix(self, q):
        return np.array(crba(self.model.plan, q.tolist()), dtype=float)

    def kinetic_energy(self, q, v):
        return energy.kinetic(self.model.plan, q.tolist(), v.tolist())

    def potential_energy(self, q):
        return energy.potential(self.model.plan, q.tolist(), self.gravity)


class Interpreted:
    """The traced graphs of the public functions, evaluated by NumPy."""

    def __init__(self, model, gravity=(0.0, 0.0, -9.81)):
        self.model, self.world = model, tb.World(gravity=gravity)
        self._traced = {}

    def run(self, name, arguments, options=()):
        """Trace a public function once and interpret it; arguments may have batch dimensions."""
        source = LibrarySource(self.model, (name,), self.world, options)
        if (name, options) not in self._traced:
            self._traced[name, options] = source.program()
        program = self._traced[name, options]
        return interpret(program, [*arguments, *source.parameters().values()])

    def forward_dynamics(self, q, v, tau, external=None, axes="frame"):
        wrenches = (external or {}).values()
        options = external_options(external, axes)
        return self.run("forward_dynamics", (q, v, tau, *wrenches), options)

    def inverse_dynamics(self, q, v, vd, external=None, axes="frame"):
        wrenches = (external or {}).values()
        options = external_options(external, axes)
        return self.run("inverse_dynamics", (q, v, vd, *wrenches), options)

    def mass_matrix(self, q):
        return self.run("mass_matrix", (q,))

    def kinetic_energy(self, q, v):
        return self.run("kinetic_energy", (q, v))

    def potential_energy(self, q):
        return self.run("potential_energy", (q,))


WAYS = [OnFloats, Interpreted]


def raw_kernel(*args, **kwargs):
    """Compile as `tb.compile`; the kernel takes tables of parameters, as code has them."""
    own = tb.compile(*args, **kwargs).__self__
    return make_kernel(own.source, own.parameters)
