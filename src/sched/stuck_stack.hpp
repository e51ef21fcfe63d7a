// What a thread is doing at this moment: asked by a signal, answered by the thread itself, which
// alone can be sure that its task still exists.
#pragma once

#include <weft/io/kernel.hpp>

#include <string>
#include <thread>

namespace weft {

/// By a thread that may be asked.
void admit_stack_signal() noexcept;

/// The running task's name and tid, and its stack, a line each; why not, if it cannot be had.
/// Empty: it runs no task.
[[nodiscard]] std::string stack_of_thread(const std::thread& thread, Kernel& clock);

}  // namespace weft
