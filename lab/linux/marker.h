/* Marks in the instruction stream, for the lab's TCG plugin (host/lab/src/marks.rs). A mark takes
 * no time of the lab.
 *
 * A mark is one instruction, HINT #(0x40 + n). The architecture gives the hints from #0x40 up no
 * meaning and says that they execute as NOP: no register, flag or memory changes, at any exception
 * level, and neither compilers nor Debian's kernel emit them. The plugin recognises the word at
 * translation:
 *
 *     word = 0xd503201f | (0x40 + n) << 5        word & ~0x1e0 == 0xd503281f
 *
 *   n  name          word        where
 *   1  MARK_START    0xd503283f  the measured region begins with the next instruction
 *   2  MARK_END      0xd503285f  the measured region ended with the instruction before
 *   3  MARK_PHASE    0xd503287f  the work is done and recorded in memory; the idle time begins
 *   4  MARK_FINAL    0xd503289f  the idle time is over; records are printed after it
 *
 * On RV64 the same marks are slti x0, x0, 0x40 + n, a hint that is left to custom use; word =
 * 0x04002013 | n << 20.
 *
 * A case may hold several START..END stretches (cleaning up between rounds lies outside of them):
 * its measured region is their sum. Only the measuring process marks, and never in its warm-up.
 */
#ifndef PENUMBRA_MARKER_H
#define PENUMBRA_MARKER_H

#define MARK_START 1
#define MARK_END 2
#define MARK_PHASE 3
#define MARK_FINAL 4

/* "memory": the compiler moves no access of the region across its marks. */
#define mark(n) \
    __asm__ volatile(".inst 0xd503201f | ((0x40 + %0) << 5)" : : "i"(n) : "memory")

#endif
