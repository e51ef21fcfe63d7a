// expect: noexcept ?\(op\.disarm\(arm\)\)
// Losers are withdrawn while a result is on its way: that cannot fail.
#include <weft/wait/perform.hpp>

namespace {

struct Throwing {
  using Result = void;
  static constexpr weft::Reason reason{"throwing"};
  weft::ObjectId object() const noexcept { return weft::ObjectId::none; }
  bool try_now() { return false; }
  weft::Armed arm(weft::Arm&) { return weft::Armed::waiting; }
#ifdef WEFT_CONTROL
  void disarm(weft::Arm&) noexcept {}
#else
  void disarm(weft::Arm&) {}
#endif
  void take() {}
};

}  // namespace

static_assert(weft::LeafOp<Throwing>);

void use() {
  weft::perform(Throwing{});
}
