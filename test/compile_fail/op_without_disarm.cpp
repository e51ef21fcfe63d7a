// expect: op\.disarm\(arm\)
// An operation that cannot be withdrawn cannot lose a race.
#include <weft/wait/perform.hpp>

namespace {

struct Stuck {
  using Result = void;
  static constexpr weft::Reason reason{"stuck"};
  weft::ObjectId object() const noexcept { return weft::ObjectId::none; }
  bool try_now() { return false; }
  weft::Armed arm(weft::Arm&) { return weft::Armed::waiting; }
#ifdef WEFT_CONTROL
  void disarm(weft::Arm&) noexcept {}
#endif
  void take() {}
};

}  // namespace

static_assert(weft::LeafOp<Stuck>);

void use() {
  weft::perform(Stuck{});
}
