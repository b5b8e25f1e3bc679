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
    monkeypatch.setenv("TIBURON_CACHE_DIR", "off")
    monkeypatch.setattr(engine, "llvm_binding", lambda: _Binding(triple, *features))
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        found = engine.host.__wrapped__()
    assert (found.lanes, found.fused) == (lanes, True)


def test_a_host_without_fused_products_is_reported(monkeypatch):
    """The bits of its results are its own."""
    binding = _Binding("x86_64-unknown-linux-gnu", "sse4.2", "avx")
    monkeypatch.setenv("TIBURON_CACHE_DIR", "off")
    monkeypatch.setattr(engine, "llvm_binding", lambda: binding)
    with pytest.warns(TiburonWarning, match="no fused multiply-add.*the last bits of results"):
        found = engine.host.__wrapped__()
    assert (found.lanes, found.fused) == (2, False)


def test_this_host_is_described_once():
    """The same object every time; the host is queried once."""
    assert engine.host() is engine.host()
    assert engine.host().lanes in (2, 4, 8)


def refuse_llvm():
    raise AssertionError("asked LLVM")


@pytest.fixture
def described(kernel_directory):
    """Let LLVM describe this host, in a cache of its own."""
    if engine.processor_description() is None:
        pytest.skip("this system does not describe its processor")
    engine.host.__wrapped__()
    return kernel_directory


def test_host_description_is_cached(described, monkeypatch):
    """LLVM is queried once per machine, not in every process."""
    monkeypatch.setattr(engine, "llvm_binding", refuse_llvm)
    assert engine.host.__wrapped__() == engine.host()


def test_other_processor_or_compiler_invalidates_the_host_description(described, monkeypatch):
    """A directory may be shared by machines, and LLVM may be updated."""
    monkeypatch.setattr(engine, "llvm_binding", refuse_llvm)
    for name in ("processor_description", "llvm_stamp"):
        with monkeypatch.context() as patch:
            patch.setattr(engine, name, lambda: "another")
            with pytest.raises(AssertionError, match="asked LLVM"):
                engine.host.__wrapped__()


def test_damaged_host_description_is_rebuilt(described):
    """As every file of the cache."""
    (path,) = described.glob("*.link")
    content = path.read_bytes()
    path.write_bytes(content[:-1] + bytes([content[-1] ^ 1]))
    assert engine.host.__wrapped__() == engine.host()
    assert path.read_bytes() == content


def test_modules_that_llvm_rejects_raise_compile_error():
    """LLVM's own exceptions never reach the user: neither grammar nor types nor missing names."""
    for text in (
        "this is no module",
        "define i32 @f() { ret i64 0 }",
        "define i32 @f(i32 %a) {\n  %b = add i32 %a, %missing\n  ret i32 %b\n}",
    ):
        with pytest.raises(CompileError, match="LLVM refused the generated code"):
            engine.compile_module(text)


def test_missing_function_raises_compile_error():
    """Asking for one name too many."""
    loaded = engine.LoadedCode(engine.compile_module("define i32 @f() { ret i32 0 }"))
    assert loaded.address("f")
    with pytest.raises(CompileError, match="holds no function 'g'"):
        loaded.address("g")


def test_quick_code_has_fences_between_loads():
    """A fence follows every 64th load, right behind its line; nothing else changes."""
    loads = [f"  %t{k} = load double, ptr %in" for k in range(150)]
    text = "\n".join(["define void @f(ptr %in) {", *loads, "  ret void", "}", ""])
    lines = engine._fenced(text).split("\n")
    fences = [k for k, line in enumerate(lines) if line.startswith("  fence ")]
    assert [lines[k - 1] for k in fences] == [loads[63], loads[127]]
    assert [line for line in lines if not line.startswith("  fence ")] == text.split("\n")
