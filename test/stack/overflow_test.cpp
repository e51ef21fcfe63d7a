#include <weft/stack/overflow.hpp>

#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <thread>

#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <gtest/gtest.h>

namespace weft::stack {
namespace {

constexpr std::size_t kib = 1024;

// Ends a pattern: nothing more, but an emulator may add its own line.
#define WEFT_TEST_THE_END "(qemu: .*)?$"

// The handler is for ever, so it is only installed in the child processes of death tests.

// What `find` answers.
Running now_running;
bool task_runs = true;

bool find(Running& running) noexcept {
  running = now_running;
  return task_runs;
}

void pretend_to_run(const Stack& stack, const char* name, std::uint64_t tid) {
  now_running.stack = stack;
  now_running.tid = tid;
  std::snprintf(now_running.name, sizeof now_running.name, "%s", name);
}

void touch(const void* address) {
  // Hidden from the compiler, which would see that this cannot work.
  volatile char* volatile target = static_cast<char*>(const_cast<void*>(address));
  *target = 1;
}

[[gnu::noinline]] int recurse(int depth) {
  volatile char frame[200];
  frame[0] = static_cast<char>(depth);
  return depth < 0 ? 0 : recurse(depth + 1) + frame[0];
}

// Some compilers can be told not to protect us here; the others make these tests easier to pass.
#if defined(__GNUC__) && !defined(__clang__)
#define WEFT_TEST_NO_STACK_CLASH_PROTECTION [[gnu::optimize("no-stack-clash-protection")]]
#else
#define WEFT_TEST_NO_STACK_CLASH_PROTECTION
#endif

template <std::size_t size>
WEFT_TEST_NO_STACK_CLASH_PROTECTION [[gnu::noinline]] void large_frame() {
  volatile char frame[size];
  frame[0] = 1;
  asm volatile("" ::"r"(frame) : "memory");  // all of it must exist
}

/// Runs `body` on `stack`, which is not the thread's own.
void run_on(const Stack& stack, void (*body)()) {
  const AltStack alt;
  ucontext_t here = {};
  ucontext_t there = {};
  getcontext(&there);
  there.uc_stack.ss_sp = stack.bottom();
  there.uc_stack.ss_size = stack.size();
  there.uc_link = &here;
  makecontext(&there, body, 0);
  swapcontext(&here, &there);
}

TEST(OverflowDeathTest, C3_NamesTheTask) {
  const auto overflow = [](Guard guard) {
    StackPool pool({.size = 64 * kib, .guard = guard});
    const Stack stack = pool.take();
    pretend_to_run(stack, "deep", 7);
    const AltStack alt;
    install_overflow_handler(find);
    touch(stack.bottom());  // no overflow yet
    touch(stack.bottom() - 1);
  };
  const char* text =
      "^weft: stack overflow in task 'deep' \\(tid 7\\), stack size 65536\n"
      "  raise it with SpawnOptions::stack_size or WEFT_STACK_SIZE\n" WEFT_TEST_THE_END;
  EXPECT_EXIT(overflow(Guard::automatic), testing::KilledBySignal(SIGSEGV), text);
  EXPECT_EXIT(overflow(Guard::mprotect), testing::KilledBySignal(SIGSEGV), text);
}

TEST(OverflowDeathTest, CutsALongName) {
  const auto overflow = [] {
    StackPool pool;
    pretend_to_run(pool.take(), "", UINT64_MAX);
    std::memset(now_running.name, 'n', sizeof now_running.name);  // not even terminated
    const AltStack alt;
    install_overflow_handler(find);
    touch(now_running.stack.guard_bottom());
  };
  EXPECT_EXIT(overflow(), testing::KilledBySignal(SIGSEGV),
              "task 'n+' \\(tid 18446744073709551615\\), stack size 262144\n");
}

TEST(OverflowDeathTest, C3_CatchesRecursion) {
  const auto overflow = [] {
    install_overflow_handler(find);
    StackPool pool;
    pretend_to_run(pool.take(64 * kib), "recursion", 1);
    run_on(now_running.stack, [] { recurse(0); });
  };
  EXPECT_EXIT(overflow(), testing::KilledBySignal(SIGSEGV),
              "overflow in task 'recursion' .tid 1., stack size 65536");
}

TEST(OverflowDeathTest, C3_CatchesALargeArray) {
  const auto overflow = [] {
    install_overflow_handler(find);
    StackPool pool;
    pretend_to_run(pool.take(64 * kib), "array", 2);
    run_on(now_running.stack, [] { large_frame<100 * kib>(); });
  };
  EXPECT_EXIT(overflow(), testing::KilledBySignal(SIGSEGV), "overflow in task 'array' .tid 2.");
}

// Past the whole guard: the stack pointer tells whose frame it is.
TEST(OverflowDeathTest, NamesAFrameThatBeginsBeyondTheGuard) {
  const auto overflow = [] {
    install_overflow_handler(find);
    StackPool pool;
    const Stack below = pool.take(64 * kib);
    pretend_to_run(pool.take(64 * kib), "huge", 3);
    if (below.top() > now_running.stack.bottom()) std::abort();
    // From the top down: stack 64, guard and spacer 68, stack 64: 228 is amid the next guard.
    run_on(now_running.stack, [] { large_frame<228 * kib>(); });
  };
  EXPECT_EXIT(overflow(), testing::KilledBySignal(SIGSEGV), "overflow in task 'huge' .tid 3.");
}

void* forbidden_page() {
  return mmap(nullptr, 4096, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
}

void say(const char* text) {
  static_cast<void>(!write(STDERR_FILENO, text, std::strlen(text)));
}

TEST(OverflowDeathTest, ChainsToThePreviousHandler) {
  const auto fault = [](bool runs, bool in_guard) {
    struct sigaction action = {};
    action.sa_flags = SA_SIGINFO;
    action.sa_sigaction = [](int, siginfo_t* info, void*) {
      say(info->si_addr != nullptr ? "chained with address" : "chained");
      _exit(3);
    };
    sigaction(SIGSEGV, &action, nullptr);
    StackPool pool;
    pretend_to_run(pool.take(), "innocent", 1);
    task_runs = runs;
    const AltStack alt;
    install_overflow_handler(find);
    install_overflow_handler(find);  // once more changes nothing: no chain to ourselves
    touch(in_guard ? now_running.stack.guard_bottom() : forbidden_page());
  };
  EXPECT_EXIT(fault(true, false), testing::ExitedWithCode(3), "^chained with address$");
  EXPECT_EXIT(fault(false, true), testing::ExitedWithCode(3), "^chained with address$");
}

TEST(OverflowDeathTest, ChainsToASimpleHandler) {
  const auto fault = [] {
    signal(SIGBUS, [](int) {
      say("simple");
      _exit(4);
    });
    install_overflow_handler(find);
    task_runs = false;
    raise(SIGBUS);
  };
  EXPECT_EXIT(fault(), testing::ExitedWithCode(4), "^simple$");
}

TEST(OverflowDeathTest, ChainsToTheDefaultAction) {
  const auto fault = [](bool sent) {
    signal(SIGSEGV, SIG_DFL);
    install_overflow_handler(find);
    task_runs = false;
    if (sent) raise(SIGSEGV);
    touch(forbidden_page());
  };
  EXPECT_EXIT(fault(true), testing::KilledBySignal(SIGSEGV), "^" WEFT_TEST_THE_END);
  EXPECT_EXIT(fault(false), testing::KilledBySignal(SIGSEGV), "^" WEFT_TEST_THE_END);
}

TEST(OverflowDeathTest, IgnoresWhatWasIgnored) {
  const auto fault = [] {
    signal(SIGSEGV, SIG_IGN);
    install_overflow_handler(find);
    task_runs = false;
    raise(SIGSEGV);
    say("ignored");
    touch(forbidden_page());
  };
  EXPECT_EXIT(fault(), testing::KilledBySignal(SIGSEGV), "^ignored" WEFT_TEST_THE_END);
}

TEST(AltStack, IsInPlaceWhileItLives) {
  std::thread([] {
    stack_t before = {};
    sigaltstack(nullptr, &before);
    {
      const AltStack alt;
      EXPECT_EQ(alt.installed(), (before.ss_flags & SS_DISABLE) != 0);  // ASan brings its own
      stack_t during = {};
      sigaltstack(nullptr, &during);
      EXPECT_EQ(during.ss_flags & SS_DISABLE, 0);
      const AltStack again;
      EXPECT_FALSE(again.installed());
      stack_t same = {};
      sigaltstack(nullptr, &same);
      EXPECT_EQ(same.ss_sp, during.ss_sp);
    }
    stack_t after = {};
    sigaltstack(nullptr, &after);
    EXPECT_EQ(after.ss_flags, before.ss_flags);
    EXPECT_EQ(after.ss_flags == 0 ? after.ss_sp : nullptr,
              before.ss_flags == 0 ? before.ss_sp : nullptr);
  }).join();
}

}  // namespace
}  // namespace weft::stack
