"""A kernel as a handler of XLA's typed foreign function interface, without Python in the call.

XLA calls a handler with one call frame. Its layout is that of `xla/ffi/api/c_api.h`, version 0.x,
as jaxlib ships it; the handler finds the buffers there, writes the tables of addresses and strides
that the batch function of the kernel takes (docs/engine.md), and calls it. It is emitted as LLVM
assembly, because a pure Python package has no compiler.
"""

from collections.abc import Iterator

from tiburon.native.engine import LoadedCode, compile_module
from tiburon.native.kernel import NativeKernel

# XLA_FFI_CallFrame: struct_size, extension_start, api, ctx, stage; args and rets with their own
# struct_size, extension_start, size, types and table of pointers; attrs
EXTENSION, API, ARGUMENTS, RESULTS = 8, 16, 72, 112
# XLA_FFI_Buffer
DTYPE, DATA, RANK, DIMS = 16, 24, 32, 40
# XLA_FFI_Extension_Base and XLA_FFI_Metadata_Extension; the version is in XLA_FFI_Metadata
KIND, METADATA, MAJOR, MINOR, TRAITS = 8, 24, 24, 28, 32
# XLA_FFI_Api and XLA_FFI_Error_Create_Args, whose size does not count padding
ERROR_CREATE, ERROR_SIZE = 48, 28
FLOAT64, METADATA_KIND, INVALID_ARGUMENT = 12, 1, 3

_HELPERS = f"""
define i64 @elements(ptr %buffer) {{
entry:
  %rank_at = getelementptr i8, ptr %buffer, i64 {RANK}
  %rank = load i64, ptr %rank_at
  %dims_at = getelementptr i8, ptr %buffer, i64 {DIMS}
  %dims = load ptr, ptr %dims_at
  br label %head
head:
  %k = phi i64 [ 0, %entry ], [ %next, %body ]
  %count = phi i64 [ 1, %entry ], [ %product, %body ]
  %more = icmp slt i64 %k, %rank
  br i1 %more, label %body, label %done
body:
  %at = getelementptr i64, ptr %dims, i64 %k
  %size = load i64, ptr %at
  %product = mul i64 %count, %size
  %next = add i64 %k, 1
  br label %head
done:
  ret i64 %count
}}

define ptr @failure(ptr %frame, ptr %message) {{
entry:
  %api_at = getelementptr i8, ptr %frame, i64 {API}
  %api = load ptr, ptr %api_at
  %create_at = getelementptr i8, ptr %api, i64 {ERROR_CREATE}
  %create = load ptr, ptr %create_at
  %arguments = alloca [4 x i64], align 8
  store i64 {ERROR_SIZE}, ptr %arguments
  %extension = getelementptr i64, ptr %arguments, i64 1
  store i64 0, ptr %extension
  %text = getelementptr i64, ptr %arguments, i64 2
  store ptr %message, ptr %text
  %code = getelementptr i64, ptr %arguments, i64 3
  store i32 {INVALID_ARGUMENT}, ptr %code
  %error = call ptr %create(ptr %arguments)
  ret ptr %error
}}
"""


def write_handler(native: NativeKernel, name: str, version: tuple[int, int]) -> LoadedCode:
    """Return machine code whose function `handler` calls the batch function of a kernel.

    Args:
        native: The kernel; it must live as long as the handler.
        name: Of the kernel, for messages.
        version: Of the interface, major and minor, that the caller has.
    """
    texts: list[str] = []
    body = "\n".join(_body(native, name, version, texts))
    listed = "\n".join(
        f'@text{k} = private constant [{len(text)} x i8] c"{_escaped(text)}"'
        for k, text in enumerate(map(_terminated, texts))
    )
    # not cached: addresses differ from process to process
    return LoadedCode(compile_module(f"{listed}\n{_HELPERS}\n{body}\n", optimize=True))


def _terminated(text: str) -> bytes:
    return text.encode() + b"\0"


def _escaped(text: bytes) -> str:
    return "".join(f"\\{byte:02X}" for byte in text)


def _load(target: str, base: str, offset: int, kind: str = "ptr") -> str:
    at = f"{target}_at"
    return (
        f"  {at} = getelementptr i8, ptr {base}, i64 {offset}\n  {target} = load {kind}, ptr {at}"
    )


def _body(
    native: NativeKernel, name: str, version: tuple[int, int], texts: list[str]
) -> Iterator[str]:
    inputs, outputs = native.inputs, native.outputs
    ni, no = len(inputs), len(outputs)
    major, minor = version
    yield "define ptr @handler(ptr %frame) {\nentry:"
    yield f"  %table = alloca [{2 * ni + 2 * no} x i64], align 16"
    yield _load("%extension", "%frame", EXTENSION)
    yield "  %asked = icmp ne ptr %extension, null"
    yield "  br i1 %asked, label %question, label %run\nquestion:"
    yield _load("%kind", "%extension", KIND, "i32")
    yield f"  %metadata_asked = icmp eq i32 %kind, {METADATA_KIND}"
    yield "  br i1 %metadata_asked, label %answer, label %run\nanswer:"
    yield _load("%metadata", "%extension", METADATA)
    for place, value in ((MAJOR, major), (MINOR, minor), (TRAITS, 0)):
        yield f"  %a{place} = getelementptr i8, ptr %metadata, i64 {place}"
        yield f"  store i32 {value}, ptr %a{place}"
    yield "  ret ptr null\nrun:"
    yield _load("%args", "%frame", ARGUMENTS)
    yield _load("%rets", "%frame", RESULTS)
    yield _load("%first", "%rets", 0)
    yield "  %total = call i64 @elements(ptr %first)"
    size = max(1, _size(outputs[0].shape))
    yield f"  %cases = sdiv i64 %total, {size}"

    def put(slot: int, value: str) -> str:
        at = f"%slot{slot}"
        return f"  {at} = getelementptr i64, ptr %table, i64 {slot}\n  store i64 {value}, ptr {at}"

    place = 0
    for k, item in enumerate(inputs):
        if item.parameter:
            yield put(k, str(native.parameters[item.name]))
            yield put(ni + k, "0")
            continue
        yield _load(f"%b{k}", "%args", 8 * place)
        place += 1
        yield _load(f"%d{k}", f"%b{k}", DTYPE, "i32")
        yield f"  %float{k} = icmp eq i32 %d{k}, {FLOAT64}"
        yield f"  br i1 %float{k}, label %sized{k}, label %dtype{k}\ndtype{k}:"
        texts.append(f"{name}: {item.name}: expected float64, got another type")
        yield f"  %e{k} = call ptr @failure(ptr %frame, ptr @text{len(texts) - 1})"
        yield f"  ret ptr %e{k}\nsized{k}:"
        yield f"  %n{k} = call i64 @elements(ptr %b{k})"
        yield f"  %whole{k} = mul i64 %cases, {item.size}"
        yield f"  %full{k} = icmp eq i64 %n{k}, %whole{k}"
        yield f"  %lone{k} = icmp eq i64 %n{k}, {item.size}"
        yield f"  %good{k} = or i1 %full{k}, %lone{k}"
        yield f"  br i1 %good{k}, label %taken{k}, label %wrong{k}\nwrong{k}:"
        texts.append(f"{name}: {item.name}: expected one row per case, or one for all")
        yield f"  %f{k} = call ptr @failure(ptr %frame, ptr @text{len(texts) - 1})"
        yield f"  ret ptr %f{k}\ntaken{k}:"
        yield _load(f"%p{k}", f"%b{k}", DATA, "i64")
        yield put(k, f"%p{k}")
        yield f"  %step{k} = select i1 %full{k}, i64 {item.size}, i64 0"
        yield put(ni + k, f"%step{k}")
    for k, output in enumerate(outputs):
        yield _load(f"%r{k}", "%rets", 8 * k)
        yield _load(f"%o{k}", f"%r{k}", DATA, "i64")
        yield put(2 * ni + k, f"%o{k}")
        yield put(2 * ni + no + k, str(_size(output.shape)))
    for k, start in enumerate((0, ni, 2 * ni, 2 * ni + no)):
        yield f"  %t{k} = getelementptr i64, ptr %table, i64 {start}"
    yield f"  %many = inttoptr i64 {native.many} to ptr"
    tables = ", ".join(f"ptr %t{k}" for k in range(4))
    yield f"  %status = call i32 %many({tables}, i64 0, i64 %cases)"
    yield "  %finite = icmp eq i32 %status, 0"
    yield "  br i1 %finite, label %done, label %failed\nfailed:"
    texts.append(
        f"{name}: an argument or a result is not finite; call the kernel of tiburon.compile with "
        "the same arguments for the case and the reason"
    )
    yield f"  %error = call ptr @failure(ptr %frame, ptr @text{len(texts) - 1})"
    yield "  ret ptr %error\ndone:\n  ret ptr null\n}"


def _size(shape: tuple[int, ...]) -> int:
    count = 1
    for size in shape:
        count *= size
    return count
