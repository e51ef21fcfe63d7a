#include <weft/sync/lock_watch.hpp>

#include <weft/stack/backtrace.hpp>
#include <weft/stack/sanitizer.hpp>
#include <weft/task/task.hpp>

#include <algorithm>
#include <array>
#include <cstdio>
#include <cstdlib>
#include <map>
#include <mutex>
#include <span>
#include <string_view>
#include <thread>
#include <vector>

namespace weft {

namespace {

constexpr std::size_t frames_kept = 16;
constexpr std::size_t frames_shown = 4;

struct Site {
  std::array<void*, frames_kept> frames{};
  std::size_t count = 0;

  static Site here() noexcept {
    Site site;
    site.count = stack::capture_backtrace(site.frames);
    return site;
  }
  [[nodiscard]] std::string text(const char* indent) const {
    return detail::describe_site(std::span(frames).first(count), indent);
  }
};

/// Who may hold locks: a task, or a plain thread.
struct Holder {
  ObjectId task = ObjectId::none;  // its address may be another's soon
  std::thread::id thread{};

  static Holder me() noexcept {
    const Task* task = this_task();
    return task != nullptr ? Holder{.task = task->id(), .thread = {}}
                           : Holder{.task = ObjectId::none, .thread = std::this_thread::get_id()};
  }
  auto operator<=>(const Holder&) const = default;
};

std::string my_name() {
  const Task* task = this_task();
  if (task == nullptr) return "a plain thread";
  return "task '" + std::string(task->name()) + "' (tid " + std::to_string(task->tid()) + ")";
}

struct Held {
  ObjectId lock;
  bool shared;
  Site taken;
  std::string who;
};

/// `from` was held by somebody who asked for another lock.
struct Edge {
  std::string who;
  Site taken;
  Site asked;
};

std::string name_of(ObjectId lock) {
  return "mutex #" + std::to_string(static_cast<std::uint64_t>(lock));
}

class Watch {
  using HeldBy = std::map<Holder, std::vector<Held>>;

 public:
  void report_to(std::function<void(const std::string&)> report) {
    std::lock_guard guard(mutex_);
    report_ = std::move(report);
    orders_matter_ = true;
  }
  void report(const std::string& text) noexcept {
    std::function<void(const std::string&)> to;
    {
      std::lock_guard guard(mutex_);
      to = report_;
    }
    if (to) {
      to(text);
    } else {
      std::fputs(text.c_str(), stderr);
    }
  }

  void asked(ObjectId lock, bool shared) {
    const Holder me = Holder::me();
    std::string text;
    {
      std::lock_guard guard(mutex_);
      if (!checking_locks()) return;  // switched off meanwhile: nobody would tell of the end
      Site& site = asked_[{me, lock}];
      site = Site::here();
      if (!orders_matter_) return;
      for (const Held& held : held_[me]) {
        if (held.lock == lock && shared && held.shared) continue;  // only with a writer in between
        if (order_[held.lock].contains(lock)) continue;
        order_[held.lock].emplace(lock, Edge{my_name(), held.taken, site});
        std::vector<ObjectId> circle = way(lock, held.lock);
        if (circle.empty() || !text.empty()) continue;
        circle.insert(circle.begin(), held.lock);
        text = describe(circle);
      }
    }
    if (!text.empty()) report(text);
  }
  void taken(ObjectId lock, bool shared) {
    const Holder me = Holder::me();
    std::lock_guard guard(mutex_);
    if (!checking_locks()) return;  // as above
    const auto asked = asked_.find({me, lock});
    held_[me].push_back(
        {lock, shared, asked == asked_.end() ? Site::here() : asked->second, my_name()});
    if (asked != asked_.end()) asked_.erase(asked);
  }
  void released(ObjectId lock) {
    std::lock_guard guard(mutex_);
    if (drop(held_.find(Holder::me()), lock)) return;
    for (auto it = held_.begin(); it != held_.end(); ++it) {  // its guard was handed on
      if (drop(it, lock)) return;
    }
  }
  [[nodiscard]] std::string held(const std::function<std::uint64_t(ObjectId)>& number) {
    HeldBy now;
    {
      std::lock_guard guard(mutex_);
      now = held_;
    }
    std::string text;
    for (const auto& [holder, locks] : now) {
      for (const Held& held : locks) {
        text += held.who + (held.shared ? " reads under" : " holds") + " mutex #" +
                std::to_string(number(held.lock)) + ", taken at\n" + held.taken.text("    ");
      }
    }
    return text;
  }
  void forget() {
    std::lock_guard guard(mutex_);
    asked_.clear();
    held_.clear();
    order_.clear();
    report_ = {};
    orders_matter_ = false;
  }

 private:
  bool drop(HeldBy::iterator holder, ObjectId lock) {
    if (holder == held_.end()) return false;
    auto& locks = holder->second;
    const auto it = std::ranges::find(locks, lock, &Held::lock);
    if (it == locks.end()) return false;
    locks.erase(it);
    if (locks.empty()) held_.erase(holder);
    return true;
  }

  // A way from `from` to `to` along the order seen so far; empty if there is none. Not recursive: a
  // list that is locked hand over hand is a long way, and fibers' stacks are small.
  [[nodiscard]] std::vector<ObjectId> way(ObjectId from, ObjectId to) const {
    std::map<ObjectId, ObjectId> came_from{{from, from}};
    std::vector<ObjectId> open{from};
    while (!open.empty() && !came_from.contains(to)) {
      const ObjectId here = open.back();
      open.pop_back();
      const auto next = order_.find(here);
      if (next == order_.end()) continue;
      for (const auto& [lock, edge] : next->second) {
        if (came_from.emplace(lock, here).second) open.push_back(lock);
      }
    }
    if (!came_from.contains(to)) return {};
    std::vector<ObjectId> path{to};
    while (path.back() != from) path.push_back(came_from.at(path.back()));
    std::ranges::reverse(path);
    return path;
  }

  [[nodiscard]] std::string describe(const std::vector<ObjectId>& circle) const {
    std::string text =
        "weft: lock order: these locks are taken in a circle, and will deadlock some day\n";
    for (std::size_t i = 0; i + 1 < circle.size(); ++i) {
      const Edge& edge = order_.at(circle[i]).at(circle[i + 1]);
      const bool now = i == 0;
      text += "  " + edge.who + (now ? " holds " : " held ") + name_of(circle[i]) + ", taken at\n" +
              edge.taken.text("      ") + "    and " + (now ? "asks" : "asked") + " for " +
              name_of(circle[i + 1]) + " at\n" + edge.asked.text("      ");
    }
    return text;
  }

  std::mutex mutex_;
  std::map<std::pair<Holder, ObjectId>, Site> asked_;  // and not taken yet
  HeldBy held_;
  std::map<ObjectId, std::map<ObjectId, Edge>> order_;
  std::function<void(const std::string&)> report_;
  bool orders_matter_ = false;
};

Watch& watch() {
  alignas(Watch) static std::byte memory[sizeof(Watch)];
  static Watch& one = *::new (memory) Watch;  // never destroyed: locks may be used to the very end
  return one;
}

[[maybe_unused]] const bool asked_for_by_environment = [] {
  const char* value = std::getenv("WEFT_CHECK_LOCKS");
  if (value == nullptr || std::string_view(value) != "1") return false;
  check_locks();
  return true;
}();

// What is between the program's own code and the look at the stack.
bool of_a_lock(std::string_view frame) {
  static constexpr std::string_view parts[] = {
      "weft::(anonymous namespace)::",
      "weft::detail::note_lock",
      "weft::stack::capture_backtrace",
      "weft::Mutex::",
      "weft::SharedMutex::",
      "weft::PassOp<",
      "weft::perform",
      "weft::Awaiter",
      "std::lock_guard<",
      "std::mutex::",
      "std::unique_lock<",
      "std::scoped_lock<",
      "std::shared_",
      "pthread_",
      "__gthread",
      "(anonymous namespace)::note",
  };
  return std::ranges::any_of(parts, [&](std::string_view part) { return frame.starts_with(part); });
}

}  // namespace

void check_locks(std::function<void(const std::string&)> report) {
  watch().report_to(std::move(report));
  detail::locks_checked.store(true);
}

void stop_checking_locks() noexcept {
  detail::locks_checked.store(false);
  watch().forget();
}

void remember_lock_holders() {
  detail::locks_checked.store(true);
}

std::string describe_held_locks(const std::function<std::uint64_t(ObjectId)>& number) {
  return watch().held(number);
}

namespace detail {

void note_lock_asked(ObjectId lock, bool shared) noexcept {
  const stack::Aside aside;  // it must not order those who use locks
  watch().asked(lock, shared);
}
void note_lock_taken(ObjectId lock, bool shared) noexcept {
  const stack::Aside aside;  // it must not order those who use locks
  watch().taken(lock, shared);
}
void note_lock_released(ObjectId lock) noexcept {
  const stack::Aside aside;  // it must not order those who use locks
  watch().released(lock);
}
void report_locks(const std::string& text) noexcept {
  watch().report(text);
}

std::string describe_site(std::span<void* const> frames, const char* indent) {
  std::string text;
  std::size_t shown = 0;
  for (void* pc : frames) {
    const std::string frame = stack::describe_address(pc);
    if (shown == 0 && of_a_lock(frame)) continue;
    text += indent + frame + "\n";
    if (++shown == frames_shown) break;
  }
  return text.empty() ? std::string(indent) + "(unknown)\n" : text;
}

}  // namespace detail
}  // namespace weft
