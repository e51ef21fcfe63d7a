#include <weft/sched/idle.hpp>

#include <mutex>
#include <utility>

namespace weft {

// One more searcher, if there are fewer than `limit`, and the change `also` with it.
bool Idlers::count_searcher(std::uint64_t limit, std::uint64_t also) noexcept {
  std::uint64_t word = word_.load();
  do {
    if (searching(word) >= limit) return false;
  } while (!word_.compare_exchange_weak(word, word + one_searching + also));
  return true;
}

bool Idlers::start_searching(Idler& self) noexcept {
  if (!self.searching) self.searching = count_searcher(most_searching_, 0);
  return self.searching;
}

bool Idlers::stop_searching(Idler& self) noexcept {
  if (!std::exchange(self.searching, false)) return false;
  return searching(word_.fetch_sub(one_searching)) == 1;
}

void Idlers::announce(Idler& self) noexcept {
  std::lock_guard guard(lock_);
  self.asleep.store(1);
  sleepers_.push_front(self);
  const std::uint64_t change =
      one_sleeping - (std::exchange(self.searching, false) ? one_searching : 0);
  const std::uint64_t before = word_.fetch_add(change);
  if (virtual_time_ && sleeping(before) + 1 < everybody_.load()) return;
  if (poller_.load() == nullptr) poller_.store(&self);
}

void Idlers::search_again(Idler& self) noexcept {
  std::lock_guard guard(lock_);
  if (self.asleep.load() == 0) return;
  if (!count_searcher(most_searching_, std::uint64_t{0} - one_sleeping)) return;
  self.searching = true;
  self.unlink();
  self.asleep.store(0);
}

void Idlers::leave(Idler& self) noexcept {
  std::lock_guard guard(lock_);
  if (self.asleep.load() != 0) {
    self.unlink();
    self.asleep.store(0);
    word_.fetch_sub(one_sleeping);
  }
  if (poller_.load() == &self) poller_.store(nullptr);
}

// The one that fell asleep last, whose caches are warmest; the poller only if there is nobody else.
Idler* Idlers::choose() noexcept {
  Idler* const newest = sleepers_.front();
  if (newest == nullptr || newest != poller_.load()) return newest;
  Idler* const other = sleepers_.next(*newest);
  return other == nullptr ? newest : other;
}

void Idlers::wake_one_slow() noexcept {
  Idler* chosen = nullptr;
  {
    std::lock_guard guard(lock_);
    chosen = choose();
    // The count goes up on its behalf: until it runs, the next producer must not wake another.
    if (chosen == nullptr || !count_searcher(1, std::uint64_t{0} - one_sleeping)) return;
    chosen->searching = true;
    chosen->unlink();
    chosen->asleep.store(0);
  }
  rouse(*chosen);
}

void Idlers::wake(Idler& idler) noexcept {
  if (idler.asleep.load() == 0) return;
  {
    std::lock_guard guard(lock_);
    if (idler.asleep.load() == 0) return;
    word_.fetch_sub(one_sleeping);
    idler.unlink();
    idler.asleep.store(0);
  }
  rouse(idler);
}

// It may wake up by itself and be gone elsewhere; then it finds an interrupt too many, no more.
void Idlers::rouse(Idler& idler) noexcept {
  if (poller_.load() == &idler) kernel_.interrupt();
  idler.asleep.notify_one();
}

}  // namespace weft
