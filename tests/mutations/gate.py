"""Bugs in the first call and in what a child of fork may do before, during and after it. The gate without Go must show each."""

from mutation import Mutant
from subject import C

GATE = C(
    name="gate",
    program="gate_test.c",
    mode="steps",
    sound=("steps",),
    mutants=(
        Mutant(
            "child-shut-out", "a child cannot use the library although its parent has not",
            "in_child", "mmsb__gate == MMSB__NOT_STARTED", "0",
        ),
        Mutant(
            "child-let-in", "a child may start the library that its parent was starting",
            "in_child", "mmsb__gate == MMSB__NOT_STARTED", "mmsb__gate < MMSB_OK",
        ),
        Mutant(
            "lock-left-held", "a child waits for a lock that a thread of its parent holds",
            "in_child", "gate_lock = (pthread_mutex_t)PTHREAD_MUTEX_INITIALIZER;", "",
        ),
        Mutant(
            "start-unmarked", "the first call does not say that it has begun to start the library",
            "start", "__atomic_store_n(&mmsb__gate, STARTING, __ATOMIC_RELAXED);", "",
        ),
        Mutant(
            "call-does-not-wait", "a call does not wait for the one that starts the library",
            "mmsb__gate_closed", "code == MMSB__NOT_STARTED || code == STARTING", "code == MMSB__NOT_STARTED",
        ),
        Mutant(
            "started-by-each", "each call that waits for the start starts Go again",
            "start", "code == MMSB__NOT_STARTED || code == STARTING", "code <= MMSB_OK",
        ),
        Mutant(
            "unsafe-handler-unseen", "a handler without SA_ONSTACK is not found",
            "mmsb__signals_unsafe", "(action.sa_flags & SA_ONSTACK)", "!(action.sa_flags & SA_ONSTACK)",
        ),
        Mutant(
            "reserved-from-go", "what the library reserves leaves no addresses for Go",
            "mmsb__reserve_addresses", "left - GO_KEEPS < bytes", "left < bytes",
        ),
        Mutant(
            "more-left-than-there-is", "with fewer addresses than Go keeps there is room for anything",
            "mmsb__reserve_addresses", "left < GO_KEEPS ||", "",
        ),
    ),
)  # fmt: skip
