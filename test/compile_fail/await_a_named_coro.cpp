// expect: passing .* discards qualifiers|no (match|viable|matching)|await_ready|rvalue
// Awaiting consumes the coroutine, so it has to be given away: co_await std::move(coro).
#include <weft/weft.hpp>

weft::Coro<int> use(weft::Coro<int> coro) {
#ifdef WEFT_CONTROL
  co_return co_await std::move(coro);
#else
  co_return co_await coro;
#endif
}
