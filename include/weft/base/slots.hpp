/// Places for values that come and go in turn: what a bounded queue is made of.
///
/// Their number is a power of two, so that going round is a mask and no comparison; and how many
/// are in use only their owner knows, which looks at that number without them too. A place is raw
/// memory: the owner fills it before it reads it, and empties all before the end.
#pragma once

#include <bit>
#include <cstddef>
#include <memory>
#include <stdexcept>
#include <type_traits>
#include <utility>

namespace weft {

template <class T>
class Slots {
  using Value = std::remove_const_t<T>;
  using Allocator = std::allocator<Value>;

 public:
  /// At least so many; none for 0.
  explicit Slots(std::size_t least = 0)
      : mask_(rounded_up(least) - 1),
        places_(least == 0 ? nullptr : Allocator().allocate(mask_ + 1)) {}
  Slots(Slots&& other) noexcept
      : mask_(other.mask_), first_(other.first_), places_(std::exchange(other.places_, nullptr)) {}
  Slots& operator=(Slots&& other) noexcept {
    std::swap(mask_, other.mask_);
    std::swap(first_, other.first_);
    std::swap(places_, other.places_);
    return *this;
  }
  ~Slots() {
    if (places_ != nullptr) Allocator().deallocate(places_, mask_ + 1);
  }

  [[nodiscard]] std::size_t size() const noexcept { return places_ == nullptr ? 0 : mask_ + 1; }
  /// Counted from the first in use.
  [[nodiscard]] T& operator[](std::size_t i) noexcept { return places_[(first_ + i) & mask_]; }

  /// Fills the place after the `count` that are in use.
  void push(T&& value, std::size_t count) noexcept {
    std::construct_at(&places_[(first_ + count) & mask_], std::move(value));
  }
  /// Empties the first place; the next one is the first then.
  void drop_first() noexcept {
    std::destroy_at(&(*this)[0]);
    ++first_;
  }

 private:
  static std::size_t rounded_up(std::size_t least) {
    if (least > most) throw std::length_error("more places are asked for than there can be memory");
    return std::bit_ceil(least);
  }
  static constexpr std::size_t most = ~std::size_t{0} / 4 / sizeof(T);

  std::size_t mask_;
  std::size_t first_ = 0;  // grows on
  Value* places_;
};

}  // namespace weft
