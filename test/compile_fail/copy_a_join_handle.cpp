// expect: deleted (function|constructor)|use of deleted|implicitly deleted
// A result is moved out once; share() is for many joiners.
#include <weft/weft.hpp>

int use(weft::JoinHandle<int> handle) {
#ifdef WEFT_CONTROL
  weft::JoinHandle<int> other = std::move(handle);
#else
  weft::JoinHandle<int> other = handle;  // NOLINT
#endif
  return other.get();
}
