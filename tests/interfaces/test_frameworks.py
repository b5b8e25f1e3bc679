"""Functions of JAX and PyTorch: bits of kernels, derivatives of all kinds, batches, errors."""

import numpy as np
import pytest

import tiburon as tb
from tests.fresh_process import run_python
from tiburon.native.code import Code

ARM = tb.load("panda")
ROV = tb.load("bluerov2_heavy")
SEA = tb.Water(current=(0.2, 0.1, 0.0))


def states(model, cases, seed=0):
    generator = np.random.default_rng(seed)
    q = model.integrate(
        np.broadcast_to(model.neutral(), (cases, model.nq)),
        generator.standard_normal((cases, model.nv)),
    )
    return q, *generator.standard_normal((2, cases, model.nv))


def energy_and_force(model, q, v, gain):
    """A function of a user, with two results of different shapes."""
    force = tb.inverse_dynamics(model, q, v, 0.0 * v)
    return {"energy": tb.kinetic_energy(model, q, v), "force": gain * force}


OPTIONS = {
    "arm": (tb.forward_dynamics, ARM, {}),
    "vehicle": (tb.forward_dynamics, ROV, {"fluid": SEA}),
}


class TestJax:
    """Primitives on the CPU."""

    @pytest.fixture(autouse=True)
    def jax(self):
        jax = pytest.importorskip("jax", reason="needs jax: pip install 'tiburon[jax]'")
        jax.config.update("jax_enable_x64", True)
        return jax

    @pytest.mark.parametrize("which", OPTIONS)
    def test_values_are_those_of_the_kernel_in_bits(self, jax, which):
        function, model, options = OPTIONS[which]
        f, kernel = tb.to_jax(function, model, **options), tb.compile(function, model, **options)
        q, v, tau = states(model, 6)
        whole = kernel(q, v, tau)
        for found in (f(q, v, tau), jax.jit(f)(q, v, tau), jax.vmap(f)(q, v, tau)):
            assert np.asarray(found).tobytes() == whole.tobytes()
        shared = jax.vmap(f, in_axes=(0, 0, None))(q, v, tau[0])
        assert np.asarray(shared).tobytes() == kernel(q, v, tau[0]).tobytes()
        assert np.asarray(f(q[2], v[2], tau[2])).tobytes() == whole[2].tobytes()
        # batches of batches, of arguments that differ in one of the two
        inner = jax.vmap(f, in_axes=(0, None, 0))
        nested = jax.vmap(inner, in_axes=(None, 0, None))(q, v, tau)
        expected = kernel(q[None], v[:, None], tau[None])
        assert np.asarray(nested).tobytes() == expected.tobytes()

    @pytest.mark.parametrize("which", OPTIONS)
    def test_derivatives_are_those_of_the_kernel(self, jax, which):
        function, model, options = OPTIONS[which]
        f = tb.to_jax(function, model, **options)
        kernel = tb.compile(function, model, **options).__self__
        q, v, tau = states(model, 3)
        expected = kernel.jacobian()(q, v, tau)
        for how in (jax.jacfwd, jax.jacrev):
            found = jax.jit(jax.vmap(how(f, argnums=(0, 1, 2))))(q, v, tau)
            for a, b in zip(found, expected, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * np.abs(b).max())

    def test_derivatives_of_derivatives_and_of_shared_arguments(self, jax):
        f = tb.to_jax(tb.forward_dynamics, ARM)
        q, v, tau = states(ARM, 4)
        second = np.asarray(jax.hessian(lambda q: f(q, v[0], tau[0])[2])(q[0]))
        np.testing.assert_allclose(second, second.T, atol=1e-11 * np.abs(second).max())
        step = 1e-6 * np.eye(ARM.nq)[1]
        slope = jax.grad(lambda q: f(q, v[0], tau[0])[2])
        by_steps = (slope(q[0] + step) - slope(q[0] - step)) / 2e-6
        np.testing.assert_allclose(second[1], by_steps, rtol=1e-5, atol=1e-5 * abs(second).max())
        one = jax.grad(lambda t: f(q, v, t).sum())(tau[0])
        each = jax.vmap(jax.grad(lambda t, q, v: f(q, v, t).sum()), (None, 0, 0))(tau[0], q, v)
        np.testing.assert_allclose(one, each.sum(0), rtol=1e-12)

    def test_functions_of_users_have_several_results_inside_a_loop(self, jax):
        f = tb.to_jax(energy_and_force, ARM, shapes={"gain": ()})
        kernel = tb.compile(energy_and_force, ARM, shapes={"gain": ()})
        q, v, _ = states(ARM, 5)

        def roll(q, v):
            def step(carry, _):
                energy, force = f(q, carry, 0.01)
                return carry - force, energy

            return jax.lax.scan(step, v, None, length=4)

        last, energies = jax.jit(roll)(q, v)
        now = v
        for row in np.asarray(energies):
            energy, force = kernel(q, now, 0.01)
            np.testing.assert_allclose(row, energy, rtol=1e-12)
            now = now - force
        np.testing.assert_allclose(last, now, rtol=1e-9, atol=1e-12)

    def test_errors_are_raised_by_jax_and_types_are_refused(self, jax):
        f = tb.to_jax(tb.forward_dynamics, ARM)
        q, v, tau = states(ARM, 2)
        q[1, 3] = np.nan
        wrong = (jax.errors.JaxRuntimeError, ValueError)
        with pytest.raises(wrong, match="forward_dynamics: an argument or a result is not"):
            jax.jit(f)(q, v, tau).block_until_ready()
        with pytest.raises(tb.DomainError, match="jax_enable_x64"):
            f(q.astype(np.float32), v, tau)
        with pytest.raises(tb.ShapeError, match="v: expected shape"):
            f(q, v[:, :3], tau)
        with pytest.raises(tb.ShapeError, match="3 arguments"):
            f(q, v)

    def test_portable_functions_agree_and_large_ones_are_refused(self, jax):
        model = tb.load("double_pendulum")
        f = tb.to_jax(tb.forward_dynamics, model, portable=True)
        kernel = tb.compile(tb.forward_dynamics, model)
        arrays = states(model, 3)
        expected = kernel(*arrays)
        np.testing.assert_allclose(jax.jit(f)(*arrays), expected, rtol=1e-12)
        mapped = jax.vmap(f)(*arrays)
        np.testing.assert_allclose(mapped, expected, rtol=1e-12)
        shared = f(arrays[0], arrays[1][0], arrays[2])
        both = kernel(arrays[0], np.broadcast_to(arrays[1][0], arrays[1].shape), arrays[2])
        np.testing.assert_allclose(shared, both, rtol=1e-12)
        slope = jax.jacfwd(f, argnums=2)(*(x[0] for x in arrays))
        np.testing.assert_allclose(
            slope, kernel.__self__.jacobian()(*(x[0] for x in arrays))[2], rtol=1e-12
        )
        with pytest.raises(tb.DomainError, match="at most 1000 operations"):
            tb.to_jax(tb.forward_dynamics, ARM, portable=True)


class TestTorch:
    """Operators on the CPU."""

    @pytest.fixture(autouse=True)
    def torch(self):
        return pytest.importorskip("torch", reason="needs torch: pip install 'tiburon[torch]'")

    @pytest.mark.parametrize("which", OPTIONS)
    def test_values_and_gradients_are_those_of_the_kernel(self, torch, which):
        function, model, options = OPTIONS[which]
        f = tb.to_torch(function, model, **options)
        kernel = tb.compile(function, model, **options)
        arrays = states(model, 5)
        tensors = [torch.from_numpy(x.copy()).requires_grad_() for x in arrays]
        found = f(*tensors)
        assert found.detach().numpy().tobytes() == kernel(*arrays).tobytes()
        weight = np.random.default_rng(1).standard_normal(found.shape)
        got = torch.autograd.grad(found, tensors, torch.from_numpy(weight))
        expected = kernel.__self__.reverse()(*arrays, weight)
        for a, b in zip(got, expected, strict=True):
            np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * np.abs(b).max())
        one = f(*[tensor[2] for tensor in tensors])
        assert one.detach().numpy().tobytes() == kernel(*(x[2] for x in arrays)).tobytes()

    def test_the_checks_of_pytorch_pass(self, torch):
        f = tb.to_torch(tb.forward_dynamics, ARM)
        tensors = [torch.from_numpy(x).requires_grad_() for x in states(ARM, 2)]
        assert torch.autograd.gradcheck(f, tensors)
        assert torch.autograd.gradgradcheck(f, tensors)
        shared = tensors[2][0].detach().clone().requires_grad_()
        assert torch.autograd.gradcheck(f, [*tensors[:2], shared])
        from tiburon.interfaces.framework_function import KernelFunction, compiled_kernel
        from tiburon.interfaces.to_torch import _operator

        own = _operator(KernelFunction.of(compiled_kernel(tb.forward_dynamics, ARM, {})), None)
        results = torch.library.opcheck(own._own, tensors)
        assert set(results.values()) == {"SUCCESS"}

    def test_transforms_of_torch_func(self, torch):
        f = tb.to_torch(tb.forward_dynamics, ARM)
        kernel = tb.compile(tb.forward_dynamics, ARM)
        arrays = states(ARM, 5)
        q, v, tau = (torch.from_numpy(x) for x in arrays)
        expected = kernel(*arrays)
        assert torch.func.vmap(f)(q, v, tau).numpy().tobytes() == expected.tobytes()
        # one argument shared, one mapped over its last dimension
        found = torch.func.vmap(f, in_dims=(0, None, 1))(q, v[2], tau.T.contiguous())
        shared = np.broadcast_to(arrays[1][2], arrays[1].shape)
        assert found.numpy().tobytes() == kernel(arrays[0], shared, arrays[2]).tobytes()
        # cases that are batches themselves
        found = torch.func.vmap(f, in_dims=(None, None, 0))(q, v, tau[:3])
        assert found[1].numpy().tobytes() == kernel(*arrays[:2], arrays[2][1]).tobytes()
        slopes = kernel.__self__.jacobian()(*arrays)
        for way in (torch.func.jacrev, torch.func.jacfwd):
            blocks = torch.func.vmap(way(f, argnums=(0, 1, 2)))(q, v, tau)
            for a, b in zip(blocks, slopes, strict=True):
                np.testing.assert_allclose(a, b, rtol=1e-12, atol=1e-12 * np.abs(b).max())

    def test_tangents_of_forward_mode_are_carried(self, torch):
        f = tb.to_torch(tb.forward_dynamics, ARM)
        q, v, tau = states(ARM, 1)
        slopes = tb.compile(tb.forward_dynamics, ARM).__self__.jacobian()(q[0], v[0], tau[0])
        direction = np.random.default_rng(2).standard_normal(ARM.nv)
        tensors = [torch.from_numpy(x[0]) for x in (q, v, tau)]
        forward = torch.autograd.forward_ad
        for k, slope in enumerate(slopes):
            with forward.dual_level():
                given = list(tensors)
                given[k] = forward.make_dual(given[k], torch.from_numpy(direction))
                found = forward.unpack_dual(f(*given)).tangent
            expected = slope @ direction
            np.testing.assert_allclose(found, expected, atol=1e-12 * np.abs(expected).max())
        double = [tensor.clone().requires_grad_() for tensor in tensors]
        assert torch.autograd.gradcheck(f, double, check_forward_ad=True, check_batched_grad=True)

    def test_functions_of_users_and_strided_tensors(self, torch):
        f = tb.to_torch(energy_and_force, ARM, shapes={"gain": ()})
        kernel = tb.compile(energy_and_force, ARM, shapes={"gain": ()})
        q, v, _ = states(ARM, 4)
        strided = torch.from_numpy(np.asfortranarray(q))
        energy, force = f(strided, torch.from_numpy(v), torch.tensor(2.0, dtype=torch.float64))
        for a, b in zip((energy, force), kernel(q, v, 2.0), strict=True):
            assert a.numpy().tobytes() == b.tobytes()

    def test_one_case_is_computed_by_the_code_of_batches(self, torch, monkeypatch):
        """Code for one case would be compiled beside it, and its call takes twice as long."""
        f = tb.to_torch(energy_and_force, ARM, shapes={"gain": ()})
        q, v, _ = (torch.from_numpy(x) for x in states(ARM, 6))
        gain = torch.linspace(0.5, 2.0, 6, dtype=torch.float64)
        whole = f(q, v, gain)
        with monkeypatch.context() as patch:
            patch.setattr(Code, "run", lambda *given: pytest.fail("not the fast path"))
            one = f(q[3], v[3], gain[3])
            several = f(*(x.reshape(2, 3, *x.shape[1:]) for x in (q, v, gain)))
        for a, b, c in zip(one, several, whole, strict=True):
            assert a.numpy().tobytes() == c[3].numpy().tobytes()
            assert b.shape == (2, 3, *c.shape[1:])
            assert b.numpy().tobytes() == c.numpy().tobytes()
        bad = v.reshape(2, 3, -1).clone()
        bad[1, 2, 0] = torch.inf
        for given, place in (
            ((q.reshape(2, 3, -1), bad, gain.reshape(2, 3)), r"\(1, 2, 0\)"),
            ((q[0], bad[1, 2], gain[0]), "at index 0;"),
        ):
            with pytest.raises(tb.NonFiniteError, match=place):
                f(*given)

    def test_wrong_tensors_are_refused(self, torch):
        f = tb.to_torch(tb.forward_dynamics, ARM)
        q, v, tau = (torch.from_numpy(x) for x in states(ARM, 2))
        for wrong, message in (
            ((q.float(), v, tau), "q: expected a tensor of float64 on the CPU"),
            ((q, v.numpy(), tau), "v: expected a tensor"),
            ((q, v, tau[:, :2]), "tau: expected shape"),
            ((q, v * torch.nan, tau), "v: every value must be finite"),
        ):
            with pytest.raises(tb.TiburonError, match=message):
                f(*wrong)


@pytest.mark.parametrize(("package", "call"), [("jax", "to_jax"), ("torch", "to_torch")])
def test_a_missing_package_is_named_with_the_command_that_installs_it(package, call):
    """Imports fail as if the package were not installed; the library itself loads neither."""
    text = run_python(
        "import sys\n"
        "import tiburon as tb\n"
        f"tb.{call}\n"
        f"assert {package!r} not in sys.modules\n"
        f"sys.modules[{package!r}] = None\n"
        "try:\n"
        f"    tb.{call}(tb.forward_dynamics, tb.load('pendulum'))\n"
        "except tb.MissingExtraError as error:\n"
        "    print(error)\n"
    )
    assert f"pip install 'tiburon[{package}]'" in text
