#include <weft/base/outcome.hpp>

#include <memory>

#include <gtest/gtest.h>

namespace weft {
namespace {

// Cancellation must not be swallowed by code that handles errors.
static_assert(!std::is_base_of_v<std::exception, Cancelled>);
static_assert(std::is_base_of_v<std::exception, CancelledError>);

std::exception_ptr boom() {
  return std::make_exception_ptr(std::runtime_error("boom"));
}

template <class T>
void expect_only(const Outcome<T>& o, bool ok, bool failed, bool cancelled) {
  EXPECT_EQ(o.ok(), ok);
  EXPECT_EQ(o.failed(), failed);
  EXPECT_EQ(o.cancelled(), cancelled);
  EXPECT_EQ(o.error() != nullptr, failed);
  EXPECT_EQ(o.reason() != CancelReason::none, cancelled);
}

TEST(Outcome, F2_AValue) {
  auto o = Outcome<int>::of([] { return 7; });
  expect_only(o, true, false, false);
  EXPECT_EQ(o.value(), 7);
  o.value() = 8;
  EXPECT_EQ(std::as_const(o).value(), 8);
  EXPECT_EQ(std::move(o).value(), 8);
}

TEST(Outcome, F2_AnErrorIsRethrown) {
  auto o = Outcome<int>::of([]() -> int { throw std::runtime_error("boom"); });
  expect_only(o, false, true, false);
  EXPECT_THROW(o.value(), std::runtime_error);
  EXPECT_THROW(std::as_const(o).value(), std::runtime_error);
  EXPECT_THROW(std::move(o).value(), std::runtime_error);
  EXPECT_EQ(describe(o.error()), "boom");
}

TEST(Outcome, F2_CancelIsNotAnError) {
  auto o = Outcome<int>::of([]() -> int { throw Cancelled(CancelReason::timeout); });
  expect_only(o, false, false, true);
  EXPECT_EQ(o.reason(), CancelReason::timeout);
  try {
    static_cast<void>(o.value());
    FAIL() << "value() of a cancelled outcome must throw";
  } catch (const CancelledError& error) {
    EXPECT_EQ(error.reason(), CancelReason::timeout);
    EXPECT_NE(std::string(error.what()).find("timeout"), std::string::npos);
  }
}

// Whoever looks at another's outcome was not cancelled: that is an ordinary error of its own.
TEST(Outcome, F2_AnothersCancellationIsAnErrorHere) {
  auto theirs = Outcome<int>::cancel(CancelReason::killed);
  auto mine = Outcome<int>::of([&] { return theirs.value(); });
  expect_only(mine, false, true, false);
}

TEST(Outcome, ThrownThingsThatAreNotExceptions) {
  const auto o = Outcome<void>::of([] { throw 3; });
  expect_only(o, false, true, false);
  EXPECT_NE(describe(o.error()).find("not a std::exception"), std::string::npos);
  EXPECT_EQ(describe(nullptr), "no error");
}

TEST(Outcome, Void) {
  int calls = 0;
  auto o = Outcome<void>::of([&] { ++calls; });
  EXPECT_EQ(calls, 1);
  expect_only(o, true, false, false);
  o.value();
  std::move(o).value();
  static_assert(std::is_void_v<decltype(o.value())>);
  EXPECT_THROW(Outcome<void>::failure(boom()).value(), std::runtime_error);
  EXPECT_THROW(Outcome<void>::cancel(CancelReason::killed).value(), CancelledError);
}

TEST(Outcome, Reference) {
  int n = 1;
  auto o = Outcome<int&>::of([&]() -> int& { return n; });
  EXPECT_EQ(&o.value(), &n);
  EXPECT_EQ(&std::as_const(o).value(), &n);
  std::move(o).value() = 5;
  EXPECT_EQ(n, 5);
  static_assert(std::is_same_v<decltype(std::move(o).value()), int&>);
  const auto c = Outcome<const int&>::of([&]() -> const int& { return n; });
  static_assert(std::is_same_v<decltype(c.value()), const int&>);
  EXPECT_EQ(&c.value(), &n);
}

TEST(Outcome, MoveOnly) {
  auto o = Outcome<std::unique_ptr<int>>::of([] { return std::make_unique<int>(9); });
  EXPECT_EQ(*o.value(), 9);
  auto moved = std::move(o);
  std::unique_ptr<int> out = std::move(moved).value();
  EXPECT_EQ(*out, 9);
}

// The arms are told apart by position, not by type.
TEST(Outcome, ValuesThatLookLikeTheOtherArms) {
  const auto reason = Outcome<CancelReason>::success(CancelReason::killed);
  expect_only(reason, true, false, false);
  const auto error = Outcome<std::exception_ptr>::success(boom());
  expect_only(error, true, false, false);
  const auto nested = Outcome<Outcome<int>>::success(Outcome<int>::cancel(CancelReason::killed));
  expect_only(nested, true, false, false);
  EXPECT_TRUE(nested.value().cancelled());
}

TEST(Outcome, EveryReasonHasAWord) {
  for (int r = 0; r <= static_cast<int>(CancelReason::deadlock); ++r) {
    EXPECT_STRNE(to_string(static_cast<CancelReason>(r)), "unknown");
  }
}

}  // namespace
}  // namespace weft
