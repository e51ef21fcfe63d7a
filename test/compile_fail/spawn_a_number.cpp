// expect: invoke_result|invocable|no type named|no matching
// A task is something that can be called.
#include <weft/weft.hpp>

void use(weft::Scope& scope) {
#ifdef WEFT_CONTROL
  scope.spawn([] { return 42; });
#else
  scope.spawn(42);
#endif
}
