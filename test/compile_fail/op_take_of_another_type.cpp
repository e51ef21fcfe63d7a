// expect: op\.take\(\)
// take() gives exactly what Result promises: a race stores it in a variant.
#include <weft/wait/perform.hpp>

namespace {

struct Liar {
#ifdef WEFT_CONTROL
  using Result = long;
#else
  using Result = int;
#endif
  static constexpr weft::Reason reason{"liar"};
  weft::ObjectId object() const noexcept { return weft::ObjectId::none; }
  bool try_now() { return false; }
  weft::Armed arm(weft::Arm&) { return weft::Armed::waiting; }
  void disarm(weft::Arm&) noexcept {}
  long take() { return 1; }
};

}  // namespace

static_assert(weft::LeafOp<Liar>);

void use() {
  weft::select(Liar{}, weft::never());
}
