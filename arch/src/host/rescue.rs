//! Calls that can be abandoned. `rescue_call` saves the registers that calls preserve on the
//! caller's stack and stores its stack pointer; `rescue_landing`, entered by a trap frame with that
//! stack pointer, restores them.

#[cfg(target_arch = "x86_64")]
core::arch::global_asm!(
    ".global rescue_call, rescue_landing",
    "rescue_call:",
    "  push rbp",
    "  push rbx",
    "  push r12",
    "  push r13",
    "  push r14",
    "  push r15",
    "  sub rsp, 8",
    "  mov [rdi], rsp",
    "  mov rdi, rdx",
    "  call rsi",
    "  xor eax, eax",
    "  jmp 1f",
    "rescue_landing:",
    "  mov eax, 1",
    "1:",
    "  add rsp, 8",
    "  pop r15",
    "  pop r14",
    "  pop r13",
    "  pop r12",
    "  pop rbx",
    "  pop rbp",
    "  ret",
);
