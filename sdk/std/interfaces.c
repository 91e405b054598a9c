/* What std of Rust's target wasm32-wasip2 imports of components' interfaces, for a program that is no
 * component: three functions. Everything else of std there calls the C library.
 *
 * The installed module does not import them: calls lead here (host/passes/src/imports.rs). An interface
 * returns a list as an address and a length, both allocated, which std takes over and frees. */
#include <stddef.h>
#include <stdint.h>
#include <stdlib.h>
#include <string.h>
#include <wasi/api.h>

#define FULFILS(module, name) __attribute__((export_name(module " " name)))

struct list {
    void *first;
    size_t length;
};

/* Memory that std frees, by the C library as all of its memory, if the program has no allocator of
 * its own. What is empty is not freed, and only needs an address. */
static void *allocated(size_t bytes)
{
    static uint64_t empty;
    void *memory = bytes ? malloc(bytes) : &empty;
    if (!memory)
        abort();
    return memory;
}

/* There are as many as the kernel says, each text with a zero at its end, which a list has not. */
FULFILS("wasi:cli/environment", "get-arguments")
void interface_arguments(struct list *result)
{
    size_t count, bytes;
    if (__wasi_args_sizes_get(&count, &bytes) != 0)
        abort();
    uint8_t **texts = allocated(count * sizeof *texts), *all = allocated(bytes);
    if (__wasi_args_get(texts, all) != 0)
        abort();
    struct list *lists = allocated(count * sizeof *lists);
    for (size_t at = 0; at < count; at++) {
        lists[at].length = strlen((char *)texts[at]);
        lists[at].first = allocated(lists[at].length);
        memcpy(lists[at].first, texts[at], lists[at].length);
    }
    if (count)
        free(texts);
    if (bytes)
        free(all);
    result->first = lists;
    result->length = count;
}

static void random_bytes(void *into, size_t bytes)
{
    if (__wasi_random_get(into, bytes) != 0)
        abort();
}

FULFILS("wasi:random/random", "get-random-bytes")
void interface_random(uint64_t bytes, struct list *result)
{
    result->first = allocated((size_t)bytes);
    result->length = (size_t)bytes;
    random_bytes(result->first, result->length);
}

FULFILS("wasi:random/insecure-seed", "insecure-seed")
void interface_seed(uint64_t result[2])
{
    random_bytes(result, 2 * sizeof *result);
}
