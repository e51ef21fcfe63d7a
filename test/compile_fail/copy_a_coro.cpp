// expect: deleted (function|constructor)|use of deleted|implicitly deleted
// A coroutine has one owner, because it runs once.
#include <weft/weft.hpp>

int use(weft::Coro<int> coro) {
#ifdef WEFT_CONTROL
  return weft::await(std::move(coro));
#else
  return weft::await(coro);
#endif
}
