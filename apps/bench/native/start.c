/* `mark` on the bare machine: an image for `qemu-system -M virt -kernel`, under exact counts. It
 * says its records on the serial line, as a program does, and turns the machine off. */
#include "../mark.h"

extern char stack_top[];

static volatile uint8_t *uart(void);
static uint64_t instructions(void);
_Noreturn static void off(void);

#if defined(__aarch64__)

/* Floating point and vectors are on, as compilers expect; memory is mapped to itself, since
 * without a map only aligned accesses are allowed. */
__attribute__((aligned(4096))) static uint64_t map[512];

__attribute__((naked, section(".text.start"))) void _start(void)
{
    __asm__ volatile("ldr x0, =stack_top\n mov sp, x0\n mov x1, #(3 << 20)\n msr cpacr_el1, x1\n"
                     "isb\n b enter\n");
}

static void prepare(void)
{
    const uint64_t device = 0x401, memory = 0x705; /* accessed; shared; attributes 0 and 1 */
    map[0] = device;
    map[1] = 0x40000000 | memory;
    __asm__ volatile("msr mair_el1, %0\n msr tcr_el1, %1\n msr ttbr0_el1, %2\n isb\n"
                     "mrs x9, sctlr_el1\n orr x9, x9, #1\n orr x9, x9, #4\n bic x9, x9, #2\n"
                     "msr sctlr_el1, x9\n isb\n"
                     :
                     : "r"(0xff00ull), "r"(25ull | 0x3500ull | 1ull << 23), "r"(map)
                     : "x9", "memory");
}

static volatile uint8_t *uart(void)
{
    return (volatile uint8_t *)0x09000000;
}

static uint64_t instructions(void)
{
    uint64_t ticks, hertz;
    __asm__ volatile("isb\n mrs %0, cntvct_el0\n mrs %1, cntfrq_el0" : "=r"(ticks), "=r"(hertz));
    return ticks * (1000000000u / hertz);
}

_Noreturn static void off(void)
{
    register uint64_t call __asm__("x0") = 0x84000008;
    __asm__ volatile("hvc #0" : : "r"(call));
    for (;;)
        ;
}

#else

__attribute__((naked, section(".text.start"))) void _start(void)
{
    __asm__ volatile("la sp, stack_top\n j enter\n");
}

static void prepare(void) {}

static volatile uint8_t *uart(void)
{
    return (volatile uint8_t *)0x10000000;
}

static uint64_t instructions(void)
{
    uint64_t count;
    __asm__ volatile("csrr %0, minstret" : "=r"(count));
    return count;
}

_Noreturn static void off(void)
{
    *(volatile uint32_t *)0x100000 = 0x5555;
    for (;;)
        ;
}

#endif

static void say(const char *words)
{
    while (*words)
        *uart() = (uint8_t)*words++;
}

static void say_number(uint64_t number)
{
    char digits[21];
    char *at = digits + sizeof digits - 1;
    *at = 0;
    do
        *--at = (char)('0' + number % 10);
    while ((number /= 10) != 0);
    say(at);
}

static void say_record(const char *name, uint64_t value, const char *unit)
{
    say("record ");
    say(name);
    say(" ");
    say_number(value);
    say(unit);
}

void enter(void)
{
    enum { ROUNDS = 20 };
    prepare();
    mark(1);
    uint64_t began = instructions();
    uint32_t sum = mark(ROUNDS);
    uint64_t spent = instructions() - began;
    say_record("native.mark", spent / ROUNDS, " ns\n");
    say_record("native.sum", sum, " checksum\n");
    off();
}
