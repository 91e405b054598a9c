/* Versions of functions: a plain one, and one that does the same with SIMD. The installer selects
 * one of them for each ISA, for calls and for pointers (docs/howto/use-simd.md).
 *
 *     PENUMBRA_PLAIN(sum) int sum(const int *values, int count)
 *     {
 *         ...
 *     }
 *
 *     PENUMBRA_SIMD128(sum) int sum_simd128(const int *values, int count)
 *     {
 *         ... with the functions of <wasm_simd128.h>
 *     }
 *
 * Callers call `sum`. Both have the same parameters and the same result. They are exported by these
 * names, so the module may be stripped, and a program has one pair of a name. */
#ifndef PENUMBRA_VERSIONS_H
#define PENUMBRA_VERSIONS_H

/* The plain version, a function that is not static. It is weak, so the compiler neither inlines it
 * nor concludes from its body what its callers get. */
#define PENUMBRA_PLAIN(name) __attribute__((weak, noinline, export_name(#name)))

/* The version of `name` for ISAs with SIMD. Nothing need call it. It may call `name`, and gets the
 * plain version. */
#define PENUMBRA_SIMD128(name) \
    __attribute__((target("simd128"), noinline, export_name(#name "@simd128")))

#endif
