"""Bugs in tensors of DLPack: what is checked of those of others, what an export says, and what ends it. tests/c/tensor_test.c
must show each."""

from mutation import Mutant
from subject import Library

STEPS = "tensor_test steps"

TENSORS = Library(
    name="tensors",
    folders=(),
    package="",
    mode=STEPS,
    sound=(STEPS,),
    seconds=60,
    programs=(("tests/c/tensor_test.c",),),
    mutants=(
        # What is checked.
        Mutant(
            "product-of-shape",
            "a product of the shape may be more than there are addresses",
            "count_items",
            "|| *items > INT64_MAX",
            "",
        ),
        Mutant(
            "overlap",
            "strides that overlap are not seen",
            "measure",
            "(uint64_t)strides[i] < span",
            "0",
        ),
        Mutant(
            "span",
            "what strides reach is counted from the widest one only",
            "measure",
            "__builtin_add_overflow(span, wide, &span)",
            "__builtin_add_overflow(1, wide, &span)",
        ),
        Mutant(
            "strides-of-one",
            "the strides of dimensions with one item count",
            "measure",
            "shape[i] == 1",
            "0",
        ),
        Mutant(
            "gaps",
            "a tensor with gaps is adopted, with what lies in them",
            "mmsb__tensor_info",
            "layout.span != layout.items",
            "0",
        ),
        Mutant(
            "newer-version",
            "a tensor of a version that nobody knows is read",
            "mmsb__tensor_info",
            "new->major != MMSB__TENSOR_MAJOR",
            "new->major < MMSB__TENSOR_MAJOR",
        ),
        Mutant(
            "byte-offset",
            "the offset of a tensor's bytes is left out",
            "mmsb__tensor_info",
            "tensor->byte_offset, &address",
            "0, &address",
        ),
        Mutant(
            "no-memory",
            "a tensor without memory is adopted",
            "mmsb__tensor_info",
            "|| !tensor->data",
            "",
        ),
        Mutant(
            "device-memory",
            "memory of a device is adopted as the host's",
            "check_device",
            "!host",
            "1",
        ),
        Mutant(
            "addresses-as-numbers",
            "items that are addresses are taken for numbers",
            "item_size",
            "|| code == MMSB_TENSOR_CODE_HANDLE",
            "",
        ),
        Mutant(
            "parts-of-bytes",
            "items of parts of bytes are rounded down",
            "item_size",
            "|| bits * lanes % 8 != 0",
            "",
        ),
        Mutant(
            "read-only-memory",
            "read-only memory of another library is adopted for writing",
            "mmsb_page_adopt_tensor",
            "info.read_only && !adopt.read_only",
            "0",
        ),
        # What an export is.
        Mutant(
            "past-the-end",
            "an export reaches past the page's end",
            "fill_shape",
            "|| bytes > size - options->offset",
            "",
        ),
        Mutant(
            "rest-of-an-item",
            "a rest of the page that is no item is left out",
            "fill_shape",
            "|| (size - options->offset) % item != 0",
            "",
        ),
        Mutant(
            "column-major",
            "the strides of an export count from the first dimension",
            "fill_shape",
            "int32_t i = ndim - 1; i >= 0; i--",
            "int32_t i = 0; i < ndim; i++",
        ),
        Mutant(
            "says-not-read-only",
            "an export does not say that nobody may write",
            "make_export",
            "options->read_only ? MMSB__TENSOR_READ_ONLY : 0",
            "0",
        ),
        Mutant(
            "cannot-say-read-only",
            "a tensor that cannot say so is made of what nobody may write",
            "mmsb__page_export_tensor",
            "options->read_only && !options->versioned",
            "0",
        ),
        Mutant(
            "pinned-by-a-failure",
            "an export that fails leaves its pin",
            "mmsb__page_export_tensor",
            "(void)mmsb__page_unpin(page, mode);",
            "",
        ),
        Mutant(
            "on-the-host",
            "managed memory is taken for the host's",
            "device_type",
            "return MMSB__TENSOR_CUDA_MANAGED;",
            "return MMSB__TENSOR_CPU;",
        ),
        # What ends it.
        Mutant(
            "ends-another-pin",
            "the deleter ends a pin of the other mode",
            "make_export",
            "export->mode = options->read_only ? MMSB_PIN_READ : MMSB_PIN_WRITE;",
            "export->mode = MMSB_PIN_WRITE;",
        ),
        Mutant(
            "deleter-waits",
            "a deleter waits for a call that has the page",
            "end_export",
            "!mmsb__page_try_unpin(export->page, export->mode)",
            "mmsb__page_unpin(export->page, export->mode) != MMSB_OK",
        ),
        Mutant(
            "memory-of-ended-contexts",
            "the last deleter does not free the memory of a page whose context has ended",
            "mmsb__page_try_unpin",
            "!lives && !mmsb__record_pinned(record)",
            "0",
        ),
        Mutant(
            "exports-wait-for-ever",
            "what ends while memory is given back waits, though the locks are free",
            "gave_back",
            "mmsb__tensors_end_waiting();",
            "",
        ),
        Mutant(
            "one-round",
            "exports that end because others have ended are forgotten",
            "mmsb__tensors_end_waiting_slow",
            "some = 1; else",
            "some = 0; else",
        ),
        Mutant(
            "deleter-not-called",
            "a page over a tensor does not give it back",
            "mmsb__tensor_delete",
            "new->deleter(new);",
            "",
        ),
    ),
)
