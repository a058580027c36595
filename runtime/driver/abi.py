"""The int64 tables that Python fills and the native driver reads: one name per word.

A Call describes a stretch of steps, one per context and stretch; the pool's block is one per
process.
"""

from __future__ import annotations

from typing import Final

import numpy as np
import numpy.typing as npt

Words = npt.NDArray[np.int64]

# Words of a step: address of the kernel, of its buffer addresses, of its sizes; flags.
STEP_WORDS: Final = 4
SHARED: Final = 1
WAKE: Final = 2  # a shared step that is worth waking sleeping workers for
# A shared step in phases: how many, and into how many parts it is cut, above its other flags.
PARTS_SHIFT, PARTS_MASK, PHASES_SHIFT = 16, 0xFFFF, 32
MAX_PHASES: Final = 1 << 22  # their numbers times MAX_WORKERS are i32
# A kernel that runs long, behind which the driver polls for signals; and one that is cut into
# rounds, their number in place of that of phases: it polls between these.
LONG_STEP, CUT = 8, 16
MAX_ROUNDS: Final = 1 << 20
# A kernel that runs with denormals flushed to zero: operands and results.
FLUSH: Final = 32

# A step of control flow: word 0 is the way to go (in steps; of a loop, the address of its block),
# word 1 as of a kernel, word 2 leads to the most iterations. Its flags say what it is, and which
# addresses word 1 leads to: a count of four bytes or of eight, a condition, an index the same.
CONTROL, KIND_SHIFT, KIND_MASK = 4, 4, 3
KIND_LOOP, KIND_LOOP_END, KIND_BRANCH, KIND_JUMP = range(4)
COUNT, COUNT_SHORT, GO, INDEX, INDEX_SHORT = 64, 128, 256, 512, 1024
# A loop's block: steps to its end, steps back, iterations so far and at most, addresses that move,
# then per such address itself and by how many bytes it moves.
LOOP_EXIT, LOOP_BACK, LOOP_DONE, LOOP_LIMIT, LOOP_MOVES, LOOP_WORDS = range(6)

# Words of a Call. `parts` 1 or `pool` 0: the caller alone. `wake`: some step
# has the flag WAKE. On a failure `step` and `part` say which.
# `mode`: the control word after the last step of the caller, with its sticky flags.
CALL_STEPS, CALL_COUNT, CALL_SCRATCH, CALL_STRIDE, CALL_PARTS, CALL_POOL, CALL_WAKE = range(7)
CALL_BUSY, CALL_STATUS, CALL_STEP, CALL_PART, CALL_MODE = range(8, 13)
CALL_WORDS: Final = 16

# Words of the pool's block, on cache line pairs of their own where they are contended.
# TICKET = sequence << 32 | parts << 16 | next part to claim.
POOL_TICKET, POOL_DONE = 0, 16
POOL_FN, POOL_BUFFERS, POOL_DIMS, POOL_SCRATCH, POOL_STRIDE, POOL_FAILURE = range(32, 38)
POOL_PHASES = 38  # of the step at hand; 0: its parts are independent
# Of the round at hand: its first part, and the parts of all rounds. ABORT: run no more parts.
POOL_FIRST, POOL_TOTAL, POOL_ABORT = 39, 40, 41
POOL_FLUSH = 42  # FLUSH where the step at hand flushes denormals, else 0
POOL_OWNER, POOL_EPOCH, POOL_SLEEPERS = 48, 64, 65
# THREADS: workers started; -1: none can be had. SPIN: pauses before a worker sleeps.
# CPU: the one the last caller ran on, -1 at first; MASK: CPUs the workers may use, a bit each;
# IDS: the workers' thread numbers. UNTIL: the time, in ns, up to which a call comes right after
# the last one that found all workers asleep; STREAK: how many such calls did.
POOL_THREADS, POOL_STOP, POOL_SPIN, POOL_CPU, POOL_UNTIL, POOL_STREAK = range(80, 86)
POOL_MASK, MASK_WORDS = 96, 16
POOL_IDS, MAX_WORKERS = 112, 256
# How far each part of a step in phases is, a word each on a cache line pair of its own: twice the
# phases that it has behind it, and 1 while a thread runs it.
POOL_FAR, FAR_PITCH = POOL_IDS + MAX_WORKERS, 16
POOL_WORDS: Final = POOL_FAR + FAR_PITCH * MAX_WORKERS

# Results of `run` that are not the status of a kernel.
BUSY: Final = -1
NEEDS_WORKERS: Final = -2
ASSERT_FAILED: Final = -3  # a step of control flow whose way is NOWHERE
INTERRUPTED: Final = -4  # a signal's handler raised: only of calls that poll
NOWHERE: Final = -(1 << 62)
NOTHING: Final = -1  # POOL_FAILURE: no part has failed
