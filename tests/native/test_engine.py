"""What the compiler knows about the machine, and what it does with refused code."""

import warnings

import pytest

from tiburon.errors import CompileError, TiburonWarning
from tiburon.native import engine


class _Features(dict):
    def flatten(self):
        return ",".join(f"+{name}" for name, there in self.items() if there)


class _Binding:
    """A stand-in for llvmlite on another processor."""

    def __init__(self, triple, *features):
        self.triple, self.features = triple, _Features.fromkeys(features, True)

    def get_process_triple(self):
        return self.triple

    def get_host_cpu_name(self):
        return "generic"

    def get_host_cpu_features(self):
        return self.features


@pytest.mark.parametrize(
    ("triple", "features", "lanes"),
    [
        ("x86_64-unknown-linux-gnu", ("avx2", "fma", "avx512f", "avx512dq"), 8),
        ("x86_64-unknown-linux-gnu", ("avx2", "fma", "avx512f"), 4),
        ("x86_64-unknown-linux-gnu", ("avx2", "fma"), 4),
        ("aarch64-unknown-linux-gnu", ("neon",), 2),
        ("arm64-apple-darwin23.0.0", (), 2),
    ],
)
def test_lanes_and_fused_products_follow_the_processor(triple, features, lanes, monkeypatch):
    """Widest vectors the host has; every 64-bit ARM has the fused multiply-add."""
    monkeypatch.setattr(engine, "llvm_binding", lambda: _Binding(triple, *features))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = engine.host.__wrapped__()
    assert (found.lanes, found.fused) == (lanes, True)


def test_a_host_without_fused_products_says_so(monkeypatch):
    """The bits of its results are its own."""
    binding = _Binding("x86_64-unknown-linux-gnu", "sse4.2", "avx")
    monkeypatch.setattr(engine, "llvm_binding", lambda: binding)
    with pytest.warns(TiburonWarning, match="no fused multiply-add.*the last bits of results"):
        found = engine.host.__wrapped__()
    assert (found.lanes, found.fused) == (2, False)


def test_this_host_is_described_once():
    """The same object every time; nothing is asked again."""
    assert engine.host() is engine.host()
    assert engine.host().lanes in (2, 4, 8)


def test_refused_modules_raise_our_error():
    """LLVM's own exceptions never reach the user: neither grammar nor types nor missing names."""
    for text in (
        "this is no module",
        "define i32 @f() { ret i64 0 }",
        "define i32 @f(i32 %a) {\n  %b = add i32 %a, %missing\n  ret i32 %b\n}",
    ):
        with pytest.raises(CompileError, match="LLVM refused the generated code"):
            engine.compile_module(text)


def test_a_function_that_is_not_there_raises_our_error():
    """Asking for one name too many."""
    loaded = engine.LoadedCode(engine.compile_module("define i32 @f() { ret i32 0 }"))
    assert loaded.address("f")
    with pytest.raises(CompileError, match="holds no function 'g'"):
        loaded.address("g")
