"""From a graph to native code: LLVM assembly, callable kernels, batches, and C source.

Arguments that functions of this room share, unless they say otherwise: `program` is what code is
written for, `target` or `t` where to emit, `fused` whether the host has a fused multiply-add, and
`stack_lines` the lines at the start of a function for its stack arrays.
"""
