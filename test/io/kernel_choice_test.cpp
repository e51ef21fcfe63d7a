// Which real kernel is chosen, by whom, and what it says of that.
#include <weft/io/kernel.hpp>

#include "support/real.hpp"

#include <cstdlib>
#include <optional>
#include <string>
#include <system_error>

using namespace weft;
using namespace weft::test;

namespace {

/// Sets a variable of the environment for the time of a block; null takes it out.
class Setting {
 public:
  Setting(const char* name, const char* value) : name_(name) {
    if (const char* old = std::getenv(name)) old_ = old;
    put(value);
  }
  Setting(const Setting&) = delete;
  Setting& operator=(const Setting&) = delete;
  ~Setting() { put(old_ ? old_->c_str() : nullptr); }

 private:
  void put(const char* value) const {
    if (value == nullptr) {
      ::unsetenv(name_);
    } else {
      ::setenv(name_, value, 1);
    }
  }
  const char* name_;
  std::optional<std::string> old_;
};

template <class Error = std::exception>
std::string message_of(auto f) {
  try {
    f();
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

bool contains(const std::string& text, std::string_view part) {
  return text.find(part) != std::string::npos;
}

TEST(KernelChoice, S3_ByOption) {
  const auto epoll = make_real_kernel({.backend = Backend::epoll})->describe();
  EXPECT_EQ(epoll.name, "epoll");
  EXPECT_TRUE(contains(epoll.why, "KernelOptions")) << epoll.why;
  if (!why_no_uring().empty()) {
    const auto why = message_of<std::system_error>(
        [] { static_cast<void>(make_real_kernel({.backend = Backend::uring})); });
    EXPECT_TRUE(contains(why, why_no_uring())) << why;
    GTEST_SKIP() << "no io_uring: " << why_no_uring();
  }
  const auto uring = make_real_kernel({.backend = Backend::uring})->describe();
  EXPECT_EQ(uring.name, "io_uring");
  EXPECT_TRUE(contains(uring.why, "KernelOptions")) << uring.why;
}

TEST(KernelChoice, S3_ByEnvironment) {
  {
    const Setting io("WEFT_IO", "epoll");
    const auto chosen = make_real_kernel()->describe();
    EXPECT_EQ(chosen.name, "epoll");
    EXPECT_TRUE(contains(chosen.why, "WEFT_IO=epoll")) << chosen.why;
    // What the program says counts more.
    if (why_no_uring().empty()) {
      EXPECT_EQ(make_real_kernel({.backend = Backend::uring})->describe().name, "io_uring");
    }
  }
  for (const char* name : {"uring", "io_uring", "mixed"}) {
    const Setting io("WEFT_IO", name);
    if (why_no_uring().empty()) {
      const auto chosen = make_real_kernel()->describe();
      EXPECT_EQ(chosen.name,
                name == std::string_view("mixed") ? "epoll, with io_uring for files" : "io_uring");
      EXPECT_TRUE(contains(chosen.why, std::string("WEFT_IO=") + name)) << chosen.why;
    } else {
      const auto why = message_of([] { static_cast<void>(make_real_kernel()); });
      EXPECT_TRUE(contains(why, why_no_uring()) && contains(why, "WEFT_IO")) << why;
    }
  }
}

TEST(KernelChoice, S3_AutomaticSaysWhy) {
  for (const char* value : {static_cast<const char*>(nullptr), "", "auto"}) {
    const Setting io("WEFT_IO", value);
    const auto chosen = make_real_kernel()->describe();
    if (why_no_uring().empty()) {
      EXPECT_EQ(chosen.name, "epoll, with io_uring for files");
      EXPECT_FALSE(chosen.why.empty());
    } else {
      EXPECT_EQ(chosen.name, "epoll");
      EXPECT_EQ(chosen.why, why_no_uring());
    }
  }
}

TEST(KernelChoice, S3_NonsenseIsAClearError) {
  const Setting io("WEFT_IO", "kqueue");
  const auto why = message_of([] { static_cast<void>(make_real_kernel()); });
  EXPECT_TRUE(contains(why, "WEFT_IO=kqueue") && contains(why, "epoll") && contains(why, "uring"))
      << why;
}

}  // namespace
