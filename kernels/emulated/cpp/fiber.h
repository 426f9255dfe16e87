//! Stacks that work can be left on and come back to.
#ifndef SYLVIE_EMULATED_FIBER_H
#define SYLVIE_EMULATED_FIBER_H

#include <cstddef>

#if !(defined(__x86_64__) && defined(__linux__))
#define SYLVIE_EMULATED_UCONTEXT
#include <ucontext.h>
#endif

namespace sylvie_emulated {

/// Where execution was left.
struct Context {
#ifdef SYLVIE_EMULATED_UCONTEXT
    ucontext_t state;
#else
    void* stack_pointer = nullptr;
#endif
};

/// Leaves `from` here, goes on where `to` was left; comes back when somebody switches to `from`.
void switch_context(Context& from, Context& to);

/// A stack, with a page below it that nothing may touch.
class Stack {
public:
    Stack();
    ~Stack();
    Stack(const Stack&) = delete;
    Stack& operator=(const Stack&) = delete;

    /// Makes `context` the beginning of `main`, which must not return.
    void prepare(Context& context, void (*main)());

private:
    char* memory;
};

}  // namespace sylvie_emulated

#endif
