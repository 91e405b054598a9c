/* A test program: functions with a version for SIMD. It ends with the name of the versions that it
 * was installed with, `plain` or `simd128`; all else is the same on every ISA. */
#include <penumbra_versions.h>

#include <stdbool.h>
#include <stdio.h>
#include <stdlib.h>
#include <wasm_simd128.h>

enum { COUNT = 1003 };

PENUMBRA_PLAIN(sum) int sum(const int *values, int count)
{
    int all = 0;
    for (int i = 0; i < count; i++)
        all += values[i];
    return all;
}

/* Leaves to the plain version what is left of four. */
PENUMBRA_SIMD128(sum) int sum_simd128(const int *values, int count)
{
    v128_t all = wasm_i32x4_splat(0);
    int i = 0;
    for (; i + 4 <= count; i += 4)
        all = wasm_i32x4_add(all, wasm_v128_load(values + i));
    return wasm_i32x4_extract_lane(all, 0) + wasm_i32x4_extract_lane(all, 1) +
           wasm_i32x4_extract_lane(all, 2) + wasm_i32x4_extract_lane(all, 3) +
           sum(values + i, count - i);
}

PENUMBRA_PLAIN(which) const char *which(void)
{
    return "plain";
}

PENUMBRA_SIMD128(which) const char *which_simd128(void)
{
    return "simd128";
}

static void must(bool good, const char *what)
{
    printf("%s %s\n", good ? "ok" : "wrong", what);
    if (!good)
        exit(1);
}

int main(void)
{
    static int values[COUNT];
    for (int i = 0; i < COUNT; i++)
        values[i] = i + 1;
    must(sum(values, COUNT) == COUNT * (COUNT + 1) / 2 && sum(values, 3) == 6, "call");
    /* The compiler must not know which functions these are. */
    int (*volatile pointers[])(const int *, int) = {sum, sum_simd128};
    must(pointers[0](values, COUNT) == pointers[1](values, COUNT), "pointers");
    const char *(*volatile pointer)(void) = which;
    must(pointer() == which(), "the same version");
    puts(which());
    return 0;
}
