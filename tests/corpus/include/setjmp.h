// WASI's libc has no setjmp: what would jump ends the program. Lua jumps only when a script fails.
#pragma once

#include <stdlib.h>

typedef int jmp_buf;

#define setjmp(buffer) (0)
#define longjmp(buffer, value) abort()
