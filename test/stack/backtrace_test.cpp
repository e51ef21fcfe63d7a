#include <weft/stack/backtrace.hpp>

#include <weft/stack/strand.hpp>

#include <algorithm>
#include <array>
#include <coroutine>
#include <functional>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <malloc.h>

#include <gtest/gtest.h>

namespace weft::stack {
namespace {

constexpr std::size_t kib = 1024;
#if defined(WEFT_ASAN) || defined(WEFT_TSAN)
constexpr std::size_t smallest_stack = 128 * kib;
#else
constexpr std::size_t smallest_stack = min_stack_size;
#endif

/// Runs a body on a stack of its own, which can leave by park().
class Rig {
 public:
  explicit Rig(std::function<void()> body, std::size_t size = 256 * kib)
      : pool_({.size = size}), stack_(pool_.take()), body_(std::move(body)) {
    inside_.context = make_context(stack_.top(), [](void* rig) { static_cast<Rig*>(rig)->run(); });
    adopt_thread(outside_.sanitizer);
    begin_strand(inside_.sanitizer, stack_.bottom(), stack_.size());
  }
  Rig(const Rig&) = delete;
  Rig& operator=(const Rig&) = delete;
  ~Rig() {
    while (!finished_) resume();
    end_strand(inside_.sanitizer);
    pool_.give(stack_);
  }

  void resume() { switch_strand(outside_, inside_, thread_, this); }
  // Inline, so that it is the caller which parks.
  [[gnu::always_inline]] void park() { switch_strand(inside_, outside_, thread_, nullptr); }

  /// The parts of park(), for those who switch by hand.
  [[gnu::always_inline]] void before_park() {
    before_switch(inside_.sanitizer, outside_.sanitizer, false);
  }
  [[gnu::always_inline]] void after_park() { after_switch(inside_.sanitizer); }

  [[nodiscard]] Context& context() { return inside_.context; }
  [[nodiscard]] const Context& outside() const { return outside_.context; }
  [[nodiscard]] const Stack& stack() const { return stack_; }
  [[nodiscard]] bool finished() const { return finished_; }
  [[nodiscard]] std::size_t high_water() const { return pool_.high_water(stack_); }

  [[nodiscard]] std::vector<void*> capture(std::size_t max = 4096) const {
    std::vector<void*> addresses(max);
    addresses.resize(capture_backtrace(inside_.context, stack_, addresses));
    return addresses;
  }
  [[nodiscard]] std::vector<std::string> trace(std::size_t max = 4096) const {
    std::vector<std::string> lines;
    for (void* pc : capture(max)) lines.push_back(describe_address(pc));
    return lines;
  }

 private:
  [[gnu::noinline]] void run() {
    after_switch(inside_.sanitizer);
    body_();
    finished_ = true;
    switch_strand(inside_, outside_, thread_, nullptr, true);
  }

  StackPool pool_;
  Stack stack_;
  std::function<void()> body_;
  ThreadState thread_ = ThreadState::capture();
  Strand outside_;
  Strand inside_;
  bool finished_ = false;
};

Rig* rig = nullptr;  // of the running test

/// Do the lines contain these words, in this order, the first in the first line?
::testing::AssertionResult shows(const std::vector<std::string>& lines,
                                 std::initializer_list<std::string_view> words) {
  auto line = lines.begin();
  for (const auto word : words) {
    line = std::find_if(line, lines.end(), [&](const auto& text) { return text.contains(word); });
    const bool is_first = word.data() == words.begin()->data();
    if (line == lines.end() || (is_first && line != lines.begin())) {
      auto result = ::testing::AssertionFailure() << "no '" << word << "' in its place in:";
      for (const auto& text : lines) result << "\n  " << text;
      return result;
    }
    ++line;
  }
  return ::testing::AssertionSuccess();
}

// A function is in the trace only if it has something to do after the call.
volatile int sink = 0;

[[gnu::noinline]] static int parks_c(int depth) {
  int locals[8] = {1, 2, 3, 4, 5, 6, 7, depth};
  asm volatile("" : : "r"(locals) : "memory");
  rig->park();
  int sum = 0;
  for (const int value : locals) sum += value;
  return sum;
}
[[gnu::noinline]] static int parks_b(int depth) {
  return parks_c(depth + 1) + sink;
}
[[gnu::noinline]] static int parks_a(int depth) {
  return parks_b(depth + 1) * 2 + sink;
}

TEST(Backtrace, B6_ShowsWhereAParkedContextIs) {
  int result = 0;
  Rig mine([&result] { result = parks_a(10) + sink; });
  rig = &mine;
  mine.resume();
  const auto lines = mine.trace();
  EXPECT_TRUE(
      shows(lines, {"parks_c(int)+0x", "parks_b(int)+0x", "parks_a(int)+0x", "Rig::run()"}));
  // Nothing of ours before, nothing below the base of the stack.
  EXPECT_EQ(mine.capture().front(), mine.context().pc);
  for (const auto& line : lines) {
    EXPECT_FALSE(line.contains("weft_context_entry") || line.contains("bridge")) << line;
  }
  EXPECT_EQ(mine.trace(2).size(), 2u);
  EXPECT_TRUE(mine.trace(0).empty());
  mine.resume();
  EXPECT_TRUE(mine.finished());
  EXPECT_EQ(result, (28 + 12) * 2);
}

TEST(Backtrace, ShowsLambdas) {
  Rig mine([] {
    const auto lambda = [](int value) __attribute__((noinline)) {
      rig->park();
      return value + sink;
    };
    sink = lambda(0);
  });
  rig = &mine;
  mine.resume();
  // "...::{lambda(int)#1}::operator()(int) const", or for clang "...::$_0::operator()..."
  EXPECT_TRUE(shows(mine.trace(), {"::operator()(int) const+0x", "Rig::run()"}));
}

struct Coroutine {
  struct promise_type {
    Coroutine get_return_object() {
      return {std::coroutine_handle<promise_type>::from_promise(*this)};
    }
    std::suspend_always initial_suspend() { return {}; }
    std::suspend_always final_suspend() noexcept { return {}; }
    void return_void() {}
    void unhandled_exception() {}
  };
  std::coroutine_handle<promise_type> handle;
};

Coroutine parks_in_coroutine(std::string text) {
  rig->park();
  sink = sink + (text == "x" ? 0 : 1);
  co_return;
}

TEST(Backtrace, ShowsTheBodiesOfCoroutines) {
  static std::coroutine_handle<> handle;  // hides from the compiler which one it is
  const auto coroutine = parks_in_coroutine("x");
  handle = coroutine.handle;
  Rig mine([] {
    handle.resume();
    sink = sink + 0;
  });
  rig = &mine;
  mine.resume();
  EXPECT_TRUE(
      shows(mine.trace(), {"parks_in_coroutine(std::string) [coroutine]+0x", "Rig::run()"}));
  mine.resume();
  coroutine.handle.destroy();
}

// Calls nobody, so on x86-64 its locals may lie below the stack pointer.
__attribute__((noinline, no_sanitize("address", "thread", "undefined"))) static bool parks_in_leaf(
    Context& from, const Context& to) {
  volatile std::uint64_t locals[12];
  for (std::size_t i = 0; i < 12; ++i) locals[i] = i * 0x0123456789abcdefu;
  switch_context(from, to, nullptr);
  bool intact = true;
  for (std::size_t i = 0; i < 12; ++i) intact = intact && locals[i] == i * 0x0123456789abcdefu;
  return intact;
}

TEST(Backtrace, LeavesTheRedZoneAlone) {
  bool intact = false;
  Rig mine([&intact] {
    rig->before_park();
    intact = parks_in_leaf(rig->context(), rig->outside());
    rig->after_park();
  });
  rig = &mine;
  mine.resume();
  for (int i = 0; i < 10; ++i) EXPECT_TRUE(shows(mine.trace(), {"parks_in_leaf", "Rig::run()"}));
  mine.resume();
  EXPECT_TRUE(intact);
}

[[gnu::noinline]] static int parks_deep_down() {
  void* const here = __builtin_frame_address(0);
  const auto room = static_cast<std::byte*>(here) - rig->stack().bottom();
  if (room < 3 * 1024) {
    rig->park();
    return sink;
  }
  const int below = parks_deep_down();
  asm volatile("" : : "r"(here) : "memory");  // keeps the recursion from becoming a loop
  return below + 1;
}

TEST(Backtrace, NeedsNoRoomOnTheParkedStack) {
  int depth = 0;
  Rig mine([&depth] { depth = parks_deep_down(); }, smallest_stack);
  rig = &mine;
  mine.resume();
  const auto used = mine.high_water();
  const auto lines = mine.trace();
  const auto count =
      std::ranges::count_if(lines, [](const auto& line) { return line.contains("deep_down"); });
  EXPECT_TRUE(shows(lines, {"parks_deep_down()", "Rig::run()"}));
  EXPECT_EQ(mine.high_water(), used);
  mine.resume();
  EXPECT_EQ(count, depth + 1);
  EXPECT_GT(count, 10);
}

TEST(Backtrace, IsEmptyForWhatNeverRan) {
  Rig mine([] {});
  EXPECT_TRUE(mine.trace().empty());
  std::array<void*, 8> out{};
  EXPECT_EQ(capture_backtrace(Context{}, mine.stack(), out), 0u);
  // Not on that stack at all.
  EXPECT_EQ(capture_backtrace(Context{&mine, &mine, &mine}, mine.stack(), out), 0u);
}

TEST(Backtrace, SurvivesNonsense) {
  // Neither the pc nor the frame pointer means anything; what they point to is on the stack.
  Rig mine([] {});
  auto* words = reinterpret_cast<void**>(mine.stack().top()) - 64;
  for (int i = 0; i < 62; ++i) words[i] = &words[i];
  std::array<void*, 100> out{};
  for (const std::size_t fp : {0u, 1u, 8u, 500u, 504u, 508u, 512u, 600u}) {
    auto* frame = reinterpret_cast<std::byte*>(words) + fp;
    EXPECT_EQ(capture_backtrace(Context{words, frame, mine.stack().bottom()}, mine.stack(), out),
              fp <= 8 && fp % 8 == 0 ? 2u : 1u)
        << fp;
  }
}

extern "C" void weft_test_call_without_cfi(void (*function)());
#if defined(__x86_64__)
asm(R"(
    .text
    .type weft_test_call_without_cfi, @function
weft_test_call_without_cfi:
    pushq %rbp
    movq %rsp, %rbp
    call *%rdi
    popq %rbp
    ret
    .size weft_test_call_without_cfi, . - weft_test_call_without_cfi
)");
#elif defined(__aarch64__)
asm(R"(
    .text
    .type weft_test_call_without_cfi, %function
weft_test_call_without_cfi:
    stp x29, x30, [sp, #-16]!
    mov x29, sp
    blr x0
    ldp x29, x30, [sp], #16
    ret
    .size weft_test_call_without_cfi, . - weft_test_call_without_cfi
)");
#endif

[[gnu::noinline]] static void parks_below_assembly() {
  rig->park();
  sink = sink + 0;
}

TEST(Backtrace, FollowsFramePointersWhereThereIsNoUnwindInformation) {
  Rig mine([] {
    weft_test_call_without_cfi(&parks_below_assembly);
    sink = sink + 0;
  });
  rig = &mine;
  mine.resume();
  EXPECT_TRUE(shows(mine.trace(), {"parks_below_assembly()", "weft_test_call_without_cfi+0x",
                                   "FollowsFramePointers", "Rig::run()"}));
  for (const auto& line : mine.trace()) EXPECT_FALSE(line.contains("weft_context_entry")) << line;
}

[[gnu::noinline]] static std::vector<std::string> own_trace() {
  std::array<void*, 64> addresses{};
  const auto count = capture_backtrace(addresses);
  std::vector<std::string> lines;
  for (std::size_t i = 0; i < count; ++i) lines.push_back(describe_address(addresses[i]));
  return lines;
}

TEST(Backtrace, ShowsTheCaller) {
  EXPECT_TRUE(shows(own_trace(), {"own_trace()+0x", "ShowsTheCaller", "main"}));
  std::vector<std::string> lines;
  Rig mine([&lines] { lines = own_trace(); }, smallest_stack);  // describing fits there too
  mine.resume();
  EXPECT_TRUE(shows(lines, {"own_trace()+0x", "Rig::run()"}));
  EXPECT_TRUE(lines.back().contains("Rig")) << lines.back();  // and not the entry
  EXPECT_EQ(capture_backtrace(std::span<void*>()), 0u);
}

TEST(Backtrace, IsCapturedByAnyThread) {
  Rig mine([] { sink = parks_a(1) * 0; });
  rig = &mine;
  mine.resume();
  std::vector<std::thread> threads;
  for (int i = 0; i < 4; ++i) {
    threads.emplace_back([&mine] {
      for (int n = 0; n < 50; ++n) {
        EXPECT_TRUE(shows(mine.trace(), {"parks_c", "parks_b", "parks_a", "Rig::run()"}));
      }
    });
  }
  for (auto& thread : threads) thread.join();
}

TEST(Backtrace, LeaksNothing) {
  int result = 0;
  Rig mine([&result] { result = parks_a(10); });
  rig = &mine;
  mine.resume();
  const auto first = mine.trace();
  (void)describe_address(mine.context().pc);  // malloc caches what it frees, and counts it as used
  const auto used = ::mallinfo2().uordblks;
  const auto high_water = mine.high_water();
  for (int i = 0; i < 1000; ++i) {
    std::array<void*, 64> addresses;
    ASSERT_EQ(capture_backtrace(mine.context(), mine.stack(), addresses), first.size());
  }
  EXPECT_EQ(::mallinfo2().uordblks, used);
  EXPECT_EQ(mine.high_water(), high_water);
  for (int i = 0; i < 1000; ++i) ASSERT_EQ(describe_address(mine.context().pc), first.front());
  EXPECT_EQ(::mallinfo2().uordblks, used);
  mine.resume();
  EXPECT_EQ(result, (28 + 12) * 2);
}

}  // namespace
}  // namespace weft::stack
