#include <weft/sim/sim.hpp>

#include <exception>

namespace weft::sim {

void fail(std::string_view what, const std::source_location& place) {
  const std::string where = std::string(place.file_name()) + ":" + std::to_string(place.line());
  const std::string text = where + ": " + std::string(what);
  if (Engine* engine = Engine::here()) engine->fail(Failure::Kind::check, where, text);
  throw CheckFailed(text);
}

always::always(std::string name, std::function<bool()> holds)
    : engine_(Engine::here()), monitor_{std::move(name), std::move(holds)} {
  if (engine_ != nullptr) engine_->add_monitor(monitor_);
}

always::~always() {
  if (engine_ != nullptr) engine_->remove_monitor(monitor_);
}

eventually::eventually(std::string name, std::function<bool()> holds)
    : engine_(Engine::here()),
      monitor_{std::move(name),
               [this] {
                 held_ = held_ || holds_();
                 return true;
               }},
      holds_(std::move(holds)) {
  if (engine_ != nullptr) engine_->add_monitor(monitor_);
}

eventually::~eventually() {
  if (engine_ == nullptr) return;
  engine_->remove_monitor(monitor_);
  if (held_ || std::uncaught_exceptions() > 0 || holds_()) return;
  engine_->fail(Failure::Kind::monitor, monitor_.name, monitor_.name + ": this never happened");
}

}  // namespace weft::sim
