/* prefetch.c — asks for memory before it is written, of many places at once. */
#include "prefetch.h"

#if defined(__x86_64__)
__attribute__((target("prfchw")))
#endif
void mmsb__prefetch_to_write(const uintptr_t *places, size_t count) {
    for (size_t i = 0; i < count; i++)
        __builtin_prefetch((const void *)places[i], 1);
}
