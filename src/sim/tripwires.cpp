// weft::tripwires: fails a simulated run that asks the machine for what the simulation should
// decide: clocks, random numbers, threads, sleeps, process numbers. A program that is linked with
// it has these functions of the C library replaced; outside of simulated tasks they do what they
// always do.
#include <weft/sim/engine.hpp>

#include <random>
#include <string>

#include <dlfcn.h>
#include <pthread.h>
#include <sys/random.h>
#include <sys/syscall.h>
#include <sys/time.h>
#include <unistd.h>

namespace {

void trip(const char* what, const char* instead) noexcept {
  weft::sim::Engine* const engine = weft::sim::Engine::here();
  if (engine == nullptr) return;
  engine->fail(weft::sim::Failure::Kind::leak, what,
               std::string(what) + " in a simulation is not repeatable; use " + instead);
}

/// The function of this name behind ours.
template <class F>
F* next(F* /*ours*/, const char* name) noexcept {
  return reinterpret_cast<F*>(::dlsym(RTLD_NEXT, name));
}

constexpr const char* clock_instead = "weft::now(), or World::wall_clock() for the time of day";
constexpr const char* sleep_instead = "weft::sleep()";
constexpr const char* chance_instead = "weft::sim::pick(), or World::random()";

}  // namespace

extern "C" {

int clock_gettime(clockid_t clock, timespec* time) noexcept {
  trip("clock_gettime()", clock_instead);
  return static_cast<int>(::syscall(SYS_clock_gettime, clock, time));
}
int gettimeofday(timeval* time, void* zone) noexcept {
  trip("gettimeofday()", clock_instead);
  return static_cast<int>(::syscall(SYS_gettimeofday, time, zone));
}
time_t time(time_t* out) noexcept {
  trip("time()", clock_instead);
  timespec now{};
  ::syscall(SYS_clock_gettime, CLOCK_REALTIME, &now);
  if (out != nullptr) *out = now.tv_sec;
  return now.tv_sec;
}
int nanosleep(const timespec* wanted, timespec* left) {
  trip("nanosleep()", sleep_instead);
  return static_cast<int>(::syscall(SYS_nanosleep, wanted, left));
}
int clock_nanosleep(clockid_t clock, int flags, const timespec* wanted, timespec* left) {
  trip("clock_nanosleep()", sleep_instead);
  return ::syscall(SYS_clock_nanosleep, clock, flags, wanted, left) == 0 ? 0 : errno;
}
int usleep(useconds_t us) {
  const timespec wanted{.tv_sec = us / 1'000'000, .tv_nsec = long{us % 1'000'000} * 1'000};
  return nanosleep(&wanted, nullptr);
}
ssize_t getrandom(void* buffer, size_t size, unsigned flags) {
  trip("getrandom()", chance_instead);
  return ::syscall(SYS_getrandom, buffer, size, flags);
}
int rand() noexcept {
  static auto* const real = next(&rand, "rand");
  trip("rand()", chance_instead);
  return real();
}
long random() noexcept {
  static auto* const real = next(&random, "random");
  trip("random()", chance_instead);
  return real();
}
pid_t getpid() noexcept {
  trip("getpid()", "something that is the same in every process");
  return static_cast<pid_t>(::syscall(SYS_getpid));
}
int pthread_create(pthread_t* thread, const pthread_attr_t* attributes, void* (*start)(void*),
                   void* argument) noexcept {
  static auto* const real = next(&pthread_create, "pthread_create");
  trip("a thread", "Scope::spawn()");
  return real(thread, attributes, start, argument);
}

}  // extern "C"

// It may use an instruction of the processor, so there is no call to stand before but this one.
std::random_device::result_type std::random_device::_M_getval() {
  trip("std::random_device", chance_instead);
  result_type value = 0;
  ::syscall(SYS_getrandom, &value, sizeof value, 0);
  return value;
}
