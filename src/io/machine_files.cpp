#include "io/machine.hpp"

namespace weft::io {

void Machine::call(SlowCall& call) noexcept {
  World::call(call);
}

}  // namespace weft::io
