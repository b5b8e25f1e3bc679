"""Code generation for x86-64 with AVX2 and FMA: own scheduling and register allocation.

With 16 vector registers, two in five of the instructions that LLVM generates for a robot are moves.
Long straight-line code therefore gets its instruction schedule, registers and addressing modes
here, and LLVM receives it as inline assembly. LLVM still compiles loops, transposition and short
functions. Every instruction is exact or correctly rounded, so the bits are those of LLVM's code.

`tiburon.native.module` asks once whether the host uses this generator (`function.is_supported`).
"""
