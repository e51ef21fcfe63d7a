// Runs as text.
#include "sim/explorer.hpp"

#include <algorithm>
#include <cstdio>

namespace weft::sim {

namespace {

constexpr std::size_t most_columns = 8;
constexpr std::size_t most_rows = 120;

std::string padded(std::string text, std::size_t width) {
  if (text.size() > width) text = text.substr(0, width - 1) + "~";
  text.resize(width, ' ');
  return text;
}

std::string name_of(const Run& run, std::uint32_t tid) {
  const auto it = run.names.find(tid);
  return (it == run.names.end() ? "task" : it->second) + " (" + std::to_string(tid) + ")";
}

std::string time_of(Instant at) {
  const double ms = static_cast<double>(at.ns()) / 1e6;
  char text[32];
  if (at.ns() == 0) return "0";
  std::snprintf(text, sizeof text, ms < 1000 ? "%.3f ms" : "%.0f ms", ms);
  return text;
}

/// Those that do something, in the order of their numbers.
std::vector<std::uint32_t> tasks_of(const Run& run) {
  std::vector<std::uint32_t> tids;
  for (const Event& e : run.events) {
    if (std::ranges::find(tids, e.tid) == tids.end()) tids.push_back(e.tid);
  }
  std::ranges::sort(tids);
  return tids;
}

}  // namespace

std::string describe(const Event& event) {
  std::string text = event.what;
  if (event.object == 0) return text;
  const std::string count = std::to_string(event.object / 4);
  switch (static_cast<Thing>(event.object % 4)) {
    case Thing::object:
      return text + " #" + count;
    case Thing::address:
      return text + " @" + count;
    case Thing::task:
      return text == "end" || text == "yield" ? text : text + " (" + count + ")";
    case Thing::older_object:
      return text + " ##" + count;
  }
  return text;
}

std::string timeline(const Run& run) {
  const auto tids = tasks_of(run);
  const bool columns = tids.size() <= most_columns;
  std::size_t width = 12;
  for (const std::uint32_t tid : tids) width = std::max(width, name_of(run, tid).size() + 2);
  for (const Event& e : run.events) width = std::max(width, describe(e).size() + 2);
  width = std::min<std::size_t>(width, columns ? 26 : 40);

  std::string text = "    step  time        ";
  if (columns) {
    for (const std::uint32_t tid : tids) text += padded(name_of(run, tid), width);
  }
  text.erase(text.find_last_not_of(' ') + 1);
  text += "\n";
  const std::size_t first = run.events.size() > most_rows ? run.events.size() - most_rows : 0;
  if (first > 0) text += "    (" + std::to_string(first) + " steps before these are left out)\n";
  std::uint64_t choices = first == 0 ? 0 : run.events[first - 1].choices;
  for (std::size_t i = first; i < run.events.size(); ++i) {
    const Event& e = run.events[i];
    bool decided = false;  // was one of the choices since the last row not the plain one?
    for (; choices < e.choices && choices < run.tape.choices.size(); ++choices) {
      decided |= run.tape.choices[choices].taken != 0;
    }
    char head[48];
    std::snprintf(head, sizeof head, "  %c %4zu  %-11s ", decided ? '*' : ' ', i + 1,
                  time_of(e.at).c_str());
    text += head;
    if (columns) {
      const auto column = static_cast<std::size_t>(std::ranges::find(tids, e.tid) - tids.begin());
      text += std::string(column * width, ' ') + describe(e);
    } else {
      text += padded(name_of(run, e.tid), width) + describe(e);
    }
    text += "\n";
  }
  return text;
}

std::string difference(const Run& run, std::size_t choice) {
  if (choice >= run.tape.choices.size()) return "";
  const Choice& c = run.tape.choices[choice];
  std::size_t step = 0;
  while (step < run.events.size() && run.events[step].choices <= choice) ++step;
  const std::string where = "at step " + std::to_string(step + 1);
  if (c.kind != Kind::task || choice >= run.candidates.size() ||
      run.candidates[choice].size() <= c.taken) {
    return where + ", " + to_string(c.kind) + ": 0 of " + std::to_string(c.among) + " instead of " +
           std::to_string(c.taken);
  }
  const auto& tids = run.candidates[choice];
  return where + " '" + name_of(run, tids[0]) + "' goes on instead of '" +
         name_of(run, tids[c.taken]) + "'";
}

std::string Report::text() const {
  char line[200];
  std::snprintf(line, sizeof line, "%llu runs in %.2f s (%.0f a second, %.1f steps each)%s",
                static_cast<unsigned long long>(runs), seconds,
                seconds > 0 ? static_cast<double>(runs) / seconds : 0.0,
                runs > 0 ? static_cast<double>(steps) / static_cast<double>(runs) : 0.0,
                everything ? "; these are all there are" : "");
  std::string text = name + ": ";
  if (leak) {
    text += "the run with seed " + std::to_string(leak->seed) +
            " depends on something that the simulation does not control.\n  Made twice with the "
            "same decisions" +
            (leak->event == 0 ? "" : ", it differs first in step " + std::to_string(leak->event)) +
            ":\n  once    " + leak->first + "\n  again   " + leak->second +
            "\n  Look for: addresses that are compared, hashed or printed; memory that is not "
            "initialised;\n  clocks, random numbers, threads or statics that are not the "
            "simulation's.\n";
  }
  if (!found) return text + (leak ? "" : "no failure in ") + line + "\n";
  const Found& f = *found;
  text += std::string(to_string(f.failure.kind)) + ", in run " + std::to_string(f.run) + " (seed " +
          std::to_string(f.seed) + (f.tape.strategy.empty() ? "" : ", " + f.tape.strategy) +
          ")\n  " + f.failure.what + "\n";
  if (!f.timeline.empty()) {
    text += "\n  The plainest run that fails like this has " + std::to_string(f.plainest_events) +
            " steps, of which " + std::to_string(f.plainest.edits()) +
            " (*) are not what would happen anyway;\n  it was found with " +
            std::to_string(f.events) + " and " + std::to_string(f.tape.edits()) + ":\n\n" +
            f.timeline + "\n";
  }
  if (!f.difference.empty()) text += "  It passes if " + f.difference + ".\n";
  if (!f.replay.empty()) text += "  Again: " + f.replay + "\n";
  return text + "  " + line + "\n";
}

}  // namespace weft::sim
