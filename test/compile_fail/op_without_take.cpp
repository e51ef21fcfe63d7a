// expect: op\.take\(\)
// What the wait gives has to come from somewhere.
#include <weft/wait/perform.hpp>

namespace {

struct Empty {
  using Result = int;
  static constexpr weft::Reason reason{"empty"};
  weft::ObjectId object() const noexcept { return weft::ObjectId::none; }
  bool try_now() { return false; }
  weft::Armed arm(weft::Arm&) { return weft::Armed::waiting; }
  void disarm(weft::Arm&) noexcept {}
#ifdef WEFT_CONTROL
  int take() { return 1; }
#endif
};

}  // namespace

static_assert(weft::LeafOp<Empty>);

int use() {
  return weft::perform(Empty{});
}
