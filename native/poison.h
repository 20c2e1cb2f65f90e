/*
 * poison.h — which bytes may be touched, told to AddressSanitizer. In other builds this is nothing.
 */
#ifndef MMSB_NATIVE_POISON_H
#define MMSB_NATIVE_POISON_H

#if defined(__SANITIZE_ADDRESS__)
#include <sanitizer/asan_interface.h>
#define MMSB__POISON(address, length) __asan_poison_memory_region(address, length)
#define MMSB__UNPOISON(address, length) __asan_unpoison_memory_region(address, length)
#else
#define MMSB__POISON(address, length) ((void)sizeof(address), (void)sizeof(length)) /* not evaluated */
#define MMSB__UNPOISON(address, length) ((void)sizeof(address), (void)sizeof(length))
#endif

#endif
