#include "io/machine.hpp"

namespace weft::io {

SysResult Machine::spawn(const ChildSpec&, int&) {
  return -ENOSYS;
}
SysResult Machine::reap(int, int&) {
  return -ENOSYS;
}
SysResult Machine::signal(int, int) {
  return -ENOSYS;
}
SysResult Machine::open_signals(std::span<const int>) {
  return -ENOSYS;
}

}  // namespace weft::io
