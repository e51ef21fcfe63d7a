// expect: await_ready|awaitable type .int. is not a structure|member reference base type
// Only operations, coroutines and awaitables can be awaited.
#include <weft/weft.hpp>

weft::Coro<int> use() {
#ifdef WEFT_CONTROL
  co_return co_await weft::always(42);
#else
  co_return co_await 42;
#endif
}
