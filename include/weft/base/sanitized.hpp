/// Which sanitizer this is compiled for: WEFT_ASAN or WEFT_TSAN is defined, or none.
#pragma once

#if defined(__SANITIZE_ADDRESS__)
#define WEFT_ASAN 1
#elif defined(__SANITIZE_THREAD__)
#define WEFT_TSAN 1
#elif defined(__has_feature)
#if __has_feature(address_sanitizer)
#define WEFT_ASAN 1
#elif __has_feature(thread_sanitizer)
#define WEFT_TSAN 1
#endif
#endif
