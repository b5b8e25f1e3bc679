"""From a graph to native code: LLVM assembly, callable kernels, batches, and C source."""
