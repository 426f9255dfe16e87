//! Stacks and switches between them: eight instructions on x86-64, ucontext elsewhere.

#include "fiber.h"

#include <cstdint>
#include <cstring>
#include <new>
#include <sys/mman.h>

namespace sylvie_emulated {
namespace {
// Kernels keep little on their stack; messages of failures are made on it too.
constexpr size_t STACK_BYTES = 128 * 1024;
// The largest page that a machine is likely to have.
constexpr size_t GUARD_BYTES = 64 * 1024;
}  // namespace

Stack::Stack() {
    void* mapped = mmap(nullptr, GUARD_BYTES + STACK_BYTES, PROT_READ | PROT_WRITE,
                        MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1, 0);
    if (mapped == MAP_FAILED) throw std::bad_alloc();
    memory = static_cast<char*>(mapped);
    mprotect(memory, GUARD_BYTES, PROT_NONE);
}

Stack::~Stack() { munmap(memory, GUARD_BYTES + STACK_BYTES); }

#ifdef SYLVIE_EMULATED_UCONTEXT

void switch_context(Context& from, Context& to) { swapcontext(&from.state, &to.state); }

void Stack::prepare(Context& context, void (*main)()) {
    getcontext(&context.state);
    context.state.uc_stack.ss_sp = memory + GUARD_BYTES;
    context.state.uc_stack.ss_size = STACK_BYTES;
    context.state.uc_link = nullptr;
    makecontext(&context.state, main, 0);
}

#else

// The registers that a function must keep go onto the stack that is left, and come from the one that is
// entered.
extern "C" void sylvie_emulated_switch(void** left, void* entered);
asm(R"(
    .pushsection .text
    .globl sylvie_emulated_switch
    .hidden sylvie_emulated_switch
    .type sylvie_emulated_switch, @function
sylvie_emulated_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
    .size sylvie_emulated_switch, . - sylvie_emulated_switch
    .popsection
)");

void switch_context(Context& from, Context& to) {
    sylvie_emulated_switch(&from.stack_pointer, to.stack_pointer);
}

void Stack::prepare(Context& context, void (*main)()) {
    // Six registers, the address that `ret` goes to, and a word so that `main` finds the stack as a call
    // leaves it.
    uintptr_t* top = reinterpret_cast<uintptr_t*>(memory + GUARD_BYTES + STACK_BYTES) - 8;
    std::memset(top, 0, 8 * sizeof *top);
    top[6] = reinterpret_cast<uintptr_t>(main);
    context.stack_pointer = top;
}

#endif

}  // namespace sylvie_emulated
