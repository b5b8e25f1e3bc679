"""Traced values, the graph they build, regions, primitives, derivatives, counts, interpreter.

An algorithm is a Python function over NumPy values. `trace` runs it once on traced values and
records the computation as a `Program`; everything else here reads programs or creates new ones.
"""

from typing import TYPE_CHECKING

from tiburon.lazy import load_on_use
from tiburon.trace.array import TracedArray
from tiburon.trace.count import OperationCount, count
from tiburon.trace.diagnose import Diagnosis, diagnose
from tiburon.trace.dump import dump, to_graphviz
from tiburon.trace.graph import Graph
from tiburon.trace.interpret import interpret
from tiburon.trace.program import Input, Output, Program, current_graph, trace
from tiburon.trace.regions import WhileResult, fixed_loop, function, while_loop
from tiburon.trace.regions.lanes import lanes
from tiburon.trace.value import Scalar, Value, require
from tiburon.trace.walk import Backend, walk

if TYPE_CHECKING:
    from tiburon.trace.derivative import forward_derivative, jacobian, reverse_derivative, sparsity
    from tiburon.trace.primitives.orthogonal import factor_orthogonal, solve_least_squares
    from tiburon.trace.primitives.primitive import norm
    from tiburon.trace.primitives.quadratic import QPSolution, solve_qp
    from tiburon.trace.primitives.spd import factor_spd, solve_spd
    from tiburon.trace.primitives.table_rows import Table, read_rows
    from tiburon.trace.primitives.tree import (
        factor_tree,
        invert_tree,
        solve_tree,
        solve_tree_columns,
    )
else:
    __getattr__ = load_on_use(
        globals(),
        {
            "tiburon.trace.derivative": (
                "forward_derivative",
                "jacobian",
                "reverse_derivative",
                "sparsity",
            ),
            "tiburon.trace.primitives.orthogonal": ("factor_orthogonal", "solve_least_squares"),
            "tiburon.trace.primitives.primitive": ("norm",),
            "tiburon.trace.primitives.quadratic": ("QPSolution", "solve_qp"),
            "tiburon.trace.primitives.spd": ("factor_spd", "solve_spd"),
            "tiburon.trace.primitives.table_rows": ("Table", "read_rows"),
            "tiburon.trace.primitives.tree": (
                "factor_tree",
                "invert_tree",
                "solve_tree",
                "solve_tree_columns",
            ),
        },
    )

__all__ = [
    "Backend",
    "Diagnosis",
    "Graph",
    "Input",
    "OperationCount",
    "Output",
    "Program",
    "QPSolution",
    "Scalar",
    "Table",
    "TracedArray",
    "Value",
    "WhileResult",
    "count",
    "current_graph",
    "diagnose",
    "dump",
    "factor_orthogonal",
    "factor_spd",
    "factor_tree",
    "fixed_loop",
    "forward_derivative",
    "function",
    "interpret",
    "invert_tree",
    "jacobian",
    "lanes",
    "norm",
    "read_rows",
    "require",
    "reverse_derivative",
    "solve_least_squares",
    "solve_qp",
    "solve_spd",
    "solve_tree",
    "solve_tree_columns",
    "sparsity",
    "to_graphviz",
    "trace",
    "walk",
    "while_loop",
]
