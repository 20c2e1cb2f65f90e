"""Bugs in tensors as arrays of Arrow: what an array says, and what ends it. tests/c/arrow_test.c must show each."""

from mutation import Mutant
from subject import Library

STEPS = "arrow_test steps"

ARROW = Library(
    name="arrow",
    folders=(),
    package="",
    mode=STEPS,
    sound=(STEPS,),
    seconds=60,
    programs=(("tests/c/arrow_test.c",),),
    mutants=(
        Mutant(
            "lanes",
            "items of many lanes are numbers",
            "format_of",
            "&& tensor->lanes == 1",
            "",
        ),
        Mutant(
            "any-strides",
            "items that do not lie row by row are taken as if they did",
            "check_rows",
            "tensor->strides[i] != step",
            "0",
        ),
        Mutant(
            "stride-of-one",
            "the stride of one item counts",
            "check_rows",
            "tensor->shape[i] != 1 &&",
            "",
        ),
        Mutant(
            "list-size",
            "a list has the size of its own dimension",
            "fill_schema",
            "tensor->shape[i + 1]",
            "tensor->shape[i]",
        ),
        Mutant(
            "lengths",
            "the length of a child is that of its dimension",
            "fill_array",
            "length *= tensor",
            "length = tensor",
        ),
        Mutant(
            "device-of-the-host",
            "the host has the number of a device",
            "fill_array",
            "info->device_type == ARROW_DEVICE_CPU ? -1 : info->device",
            "info->device",
        ),
        Mutant(
            "children-stay",
            "the release of an array leaves its children",
            "release_array",
            "array->children[0]->release(array->children[0]);",
            "",
        ),
        Mutant(
            "moved-children",
            "the end of a parent ends a child that was moved",
            "drop",
            "__atomic_sub_fetch(&shared->nodes, 1, __ATOMIC_ACQ_REL) != 0",
            "0",
        ),
        Mutant(
            "released-twice",
            "a second release counts",
            "release_array",
            "if (!array->release) return;",
            "",
        ),
        Mutant(
            "not-marked",
            "a schema does not say that it is released",
            "release_schema",
            "schema->release = NULL;",
            "",
        ),
        Mutant(
            "tensor-is-kept",
            "the last release leaves the tensor",
            "drop",
            "mmsb__tensor_delete(shared->tensor, shared->versioned);",
            "",
        ),
    ),
)
