"""Bugs in how calls wait for the disk and hear that it has failed, and in the ends of long errors. The ring of a journal without
Go must show each."""

from mutation import Mutant
from subject import C

JOURNAL = C(
    name="journal",
    program="journal_test.c",
    mode="waits",
    sound=("waits",),
    mutants=(
        Mutant(
            "wait-hides-failure", "a call whose record may not be on disk says that it is",
            "mmsb__ring_wait", "return mmsb__fail_foreign(MMSB_E_NOT_DURABLE,", "return MMSB_OK; return mmsb__fail_foreign(0,",
        ),
        Mutant(
            "wait-as-if-refused", "a call that has been made answers like one that was refused",
            "mmsb__ring_wait", "mmsb__fail_foreign(MMSB_E_NOT_DURABLE,", "mmsb__fail_foreign(failure->error_code,",
        ),
        Mutant(
            "texts-end-anywhere", "a text that is too long ends in the middle of a character",
            "mmsb__text_fits", "((unsigned char)text[most] & 0xc0) == 0x80", "0",
        ),
        Mutant(
            "two-at-the-ring", "a call writes its own records beside the writer",
            "write_own", "!try_seat(ring)", "(try_seat(ring), 0)",
        ),
        Mutant(
            "failed-frame-cleared", "what a call could not write is no longer in the ring for who comes after a kill",
            "write_own", "ring->unwritten = 1;", "",
        ),
        Mutant(
            "what-was-written-stays", "a buffer that is used again has the marks of what was written",
            "change_buffers", "clear_written(next);", "",
        ),
    ),
)  # fmt: skip
