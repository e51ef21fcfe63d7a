/// Plants faults in code that the checker has proven, one at a time, and sees whether it notices.
///
///     const Scenario scenario = [](const Options& options) { return explore<State>(options, ...);
///     }; EXPECT_EQ(mutate({scenario}, weakenings, {.in = "queue.hpp"}).unnoticed, "");
///
/// The faults, at every place in the source that the scenarios reach:
///   weakenings  a memory order that is one notch weaker
///   splits      a compare-exchange that is not atomic: a load, then a store
/// A fault that no scenario notices means that the order is stronger than needed, or that the
/// scenarios prove less than one thinks.
#pragma once

#include "support/weak_memory/atomics.hpp"

namespace weft::test::weak {

using Scenario = std::function<Report(const Options&)>;
using Faults = std::vector<Fault> (*)(const Site&);

inline std::vector<Fault> weakenings(const Site& site) {
  std::vector<Order> weaker;
  if (site.order == Order::seq_cst) {
    weaker = {site.operation.ends_with("load")    ? Order::acquire
              : site.operation.ends_with("store") ? Order::release
                                                  : Order::acq_rel};
  } else if (site.order == Order::acq_rel) {
    weaker = {Order::acquire, Order::release};
  } else if (site.order != Order::relaxed) {
    weaker = {Order::relaxed};
  }
  std::vector<Fault> faults;
  for (const Order order : weaker) faults.push_back({.site = site, .order = order, .split = false});
  return faults;
}

inline std::vector<Fault> splits(const Site& site) {
  if (site.operation != "compare_exchange") return {};
  return {{.site = site, .order = site.order, .split = true}};
}

inline std::string describe(const Fault& fault) {
  const Site& site = fault.site;
  return site.file.substr(site.file.rfind('/') + 1) + ":" + std::to_string(site.line) + " " +
         site.operation + " (" + detail::name(site.order) + ") " +
         (fault.split ? "split" : std::string("as ") + detail::name(fault.order));
}

struct Mutation {
  std::size_t planted = 0;
  std::string unnoticed{};  // one line for each, empty: all were
  std::string noticed{};
};

struct Where {
  std::string in{};      // only faults in files whose name contains this
  std::string except{};  // and not those whose description ends with this
};

inline Mutation mutate(const std::vector<Scenario>& scenarios, Faults faults, const Where& where) {
  std::vector<Site> sites;
  for (const Scenario& scenario : scenarios) {
    scenario({.most_runs = 2'000, .fault = {}, .sites = &sites});
  }
  Mutation result;
  for (const Site& site : sites) {
    if (site.file.find(where.in) == std::string::npos) continue;
    for (const Fault& fault : faults(site)) {
      if (!where.except.empty() && describe(fault).ends_with(where.except)) continue;
      ++result.planted;
      std::string violation;
      for (const Scenario& scenario : scenarios) {
        violation = scenario({.fault = fault, .sites = nullptr}).violation;
        if (!violation.empty()) break;
      }
      if (violation.empty()) {
        result.unnoticed += describe(fault) + "\n";
      } else {
        result.noticed += describe(fault) + ": " + violation + "\n";
      }
    }
  }
  return result;
}

}  // namespace weft::test::weak
