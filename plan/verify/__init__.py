"""Plan verification: a plan that passes reads and writes inside its buffers.

Without sizes: plan.py (constants, slots, bodies), order.py (values are written before they are
read), kernel_steps.py (buffers fit operands), specs.py (what generators rely on). For the sizes of
one set of shapes: values.py, which calls bounds.py, aliasing.py and step_bounds.py.
"""
