// A replicated counter: one leader, followers that keep copies, real TCP and files. Its first
// version loses what it has acknowledged, if enough of it loses power at the wrong moment. The
// simulation finds out how, with hosts that crash and networks that break; then the mended version
// runs in the simulation, and the same code on real sockets and files.
#include <weft/sim/explore.hpp>
#include <weft/sim/network.hpp>
#include <weft/weft.hpp>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <functional>
#include <set>
#include <sstream>
#include <string>
#include <vector>

using namespace std::chrono_literals;

namespace {

struct Config {
  std::vector<std::string> nodes;  // addresses; the first is the leader
  std::size_t me = 0;
  std::string log;  // a file
  bool sync_before_answering = true;
};

/// Asks a node, and gives its answer; nothing if there is none in time.
std::optional<std::string> ask(const std::string& node, const std::string& question) {
  try {
    const auto answer = weft::timeout(500ms, [&] {
      const auto stream = weft::TcpStream::connect(node);
      stream.write(question + "\n");
      weft::Reader reader(stream);
      return std::string(reader.line().value_or(""));
    });
    if (answer.ok() && !answer.value().empty()) return answer.value();
  } catch (const std::exception&) {  // it cannot be reached
  }
  return std::nullopt;
}

/// Keeps a list of additions, each of which has a number that its client has given it.
class Node {
 public:
  explicit Node(Config config) : config_(std::move(config)) {}

  void run(weft::TcpListener listener) {
    recover();
    weft::Scope scope({.on_failure = weft::OnFailure::isolate});
    if (config_.me == 0) scope.spawn([this] { become_leader(); }, {.name = "lead"});
    for (;;) {
      auto client = std::make_shared<weft::TcpStream>(listener.accept());
      scope.spawn([this, client] { serve(*client); }, {.name = "serve"});
    }
  }

 private:
  void recover() {
    try {
      std::istringstream text(weft::read_file(config_.log));
      for (int id = 0; text >> id;) list_.push_back(id);
    } catch (const std::system_error&) {  // the first start
    }
    file_ = weft::File::open(
        config_.log, weft::OpenMode::write | weft::OpenMode::append | weft::OpenMode::create);
  }

  // What a majority has seen is known to at least one of any majority: the longest list has it all.
  void become_leader() {
    for (;;) {
      std::size_t heard = 1;
      std::vector<int> longest = list_;
      for (std::size_t i = 1; i < config_.nodes.size(); ++i) {
        const auto answer = ask(config_.nodes[i], "list");
        if (!answer) continue;
        ++heard;
        std::istringstream text(*answer);
        std::vector<int> theirs;
        std::string word;
        text >> word;  // "list"
        for (int id = 0; text >> id;) theirs.push_back(id);
        if (theirs.size() > longest.size()) longest = theirs;
      }
      if (heard > config_.nodes.size() / 2) {
        for (std::size_t i = list_.size(); i < longest.size(); ++i) keep(longest[i]);
        leading_ = true;
        return;
      }
      weft::sleep(100ms);
    }
  }

  void keep(int id) {
    file_.write(std::to_string(id) + "\n");
    if (config_.sync_before_answering) file_.sync();
    list_.push_back(id);
  }

  void serve(const weft::TcpStream& client) {
    try {
      weft::Reader requests(client);
      while (const auto line = requests.line()) {
        std::istringstream request{std::string(*line)};
        client.write(answer(request) + "\n");
      }
    } catch (const std::system_error&) {  // whoever asked is gone
    }
  }

  std::string answer(std::istringstream& request) {
    std::string what;
    request >> what;
    if (what == "list") {
      std::string text = "list";
      for (const int id : list_) text += " " + std::to_string(id);
      return text;
    }
    const auto guard = mutex_.lock();
    int id = 0;
    if (what == "copy") {
      std::size_t at = 0;
      request >> at >> id;
      if (at > list_.size()) return "behind " + std::to_string(list_.size());
      if (at == list_.size()) keep(id);
      return "copied";
    }
    request >> id;
    if (!leading_) return "wait";
    if (std::ranges::find(list_, id) == list_.end()) keep(id);
    return replicate() ? "added" : "wait";
  }

  bool replicate() {
    weft::Scope scope;
    weft::atomic<std::size_t> copies{1};
    for (std::size_t i = 1; i < config_.nodes.size(); ++i) {
      scope.spawn([this, i, &copies] {
        if (bring_up_to_date(config_.nodes[i])) copies.fetch_add(1);
      });
    }
    scope.join();
    return copies.load() > config_.nodes.size() / 2;
  }

  bool bring_up_to_date(const std::string& follower) {
    for (std::size_t at = list_.size() - 1; at < list_.size();) {
      const auto answer =
          ask(follower, "copy " + std::to_string(at) + " " + std::to_string(list_[at]));
      if (!answer) return false;
      if (answer->starts_with("behind")) {
        at = static_cast<std::size_t>(std::stoul(answer->substr(7)));
      } else {
        ++at;
      }
    }
    return true;
  }

  const Config config_;
  std::vector<int> list_;
  weft::File file_;
  weft::Mutex mutex_;
  bool leading_ = false;
};

/// Adds, and tries again until it is told that it has.
bool add(const std::string& leader, int id, int tries) {
  for (int i = 0; i < tries; ++i) {
    if (ask(leader, "add " + std::to_string(id)) == "added") return true;
    weft::sleep(200ms);
  }
  return false;
}

std::set<int> all_of(const std::string& node) {
  std::istringstream text(ask(node, "list").value_or(""));
  std::string word;
  text >> word;
  std::set<int> ids;
  for (int id = 0; text >> id;) ids.insert(id);
  return ids;
}

// In the simulation

std::string host_name(std::size_t i) {
  return "n" + std::to_string(i);
}

/// Of the cluster in a run.
struct Cluster {
  std::size_t hosts;
  bool sync;

  void start(std::size_t i) const;
  void cause_trouble() const;
};

void Cluster::start(std::size_t i) const {
  Config config{.nodes = {}, .me = i, .log = "/log", .sync_before_answering = sync};
  for (std::size_t k = 0; k < hosts; ++k) config.nodes.push_back(host_name(k) + ":7000");
  weft::sim::host(host_name(i)).start([config] {
    Node node(config);
    node.run(weft::TcpListener::bind("0.0.0.0:7000"));
  });
}

void Cluster::cause_trouble() const {
  const std::uint32_t times = 1 + weft::sim::pick(8);
  for (std::uint32_t i = 0; i < times; ++i) {
    weft::sleep(std::chrono::milliseconds(100 * weft::sim::pick(20)));
    switch (weft::sim::pick(4)) {
      case 1: {  // one loses power
        const std::size_t one = weft::sim::pick(static_cast<std::uint32_t>(hosts));
        weft::sim::host(host_name(one)).crash();
        weft::sleep(500ms);
        start(one);
        break;
      }
      case 2: {  // one is cut off
        weft::sim::Network::Names others;
        const std::size_t one = weft::sim::pick(static_cast<std::uint32_t>(hosts));
        for (std::size_t k = 0; k < hosts; ++k) {
          if (k != one) others.push_back(host_name(k));
        }
        weft::sim::network().partition({host_name(one)}, others);
        weft::sleep(1s);
        weft::sim::network().heal();
        break;
      }
      case 3:  // the whole room loses power
        for (std::size_t k = 0; k < hosts; ++k) weft::sim::host(host_name(k)).crash();
        for (std::size_t k = 0; k < hosts; ++k) start(k);
        break;
      default:
        break;
    }
  }
}

// How large it all is, the simulation chooses too; so it can look for the smallest that fails.
void simulate(bool sync) {
  const Cluster cluster{.hosts = weft::sim::pick(2) == 0 ? 3U : 5U, .sync = sync};
  const int additions = 1 + static_cast<int>(weft::sim::pick(60));
  for (std::size_t i = 0; i < cluster.hosts; ++i) cluster.start(i);
  std::set<int> acknowledged;
  weft::Scope scope;
  scope.spawn([&] { cluster.cause_trouble(); }, {.name = "trouble"});
  scope.spawn(
      [&] {
        for (int id = 1; id <= additions; ++id) {
          if (add("n0:7000", id, 5)) acknowledged.insert(id);
        }
      },
      {.name = "client"});
  scope.join();
  weft::sim::network().heal();
  // Now that all is well, it has to work, and everything has to be there.
  weft::sim::check(add("n0:7000", additions + 1, 50), "it recovers");
  const std::set<int> there = all_of("n0:7000");
  for (const int id : acknowledged) {
    weft::sim::check(there.contains(id), "an addition is lost that was acknowledged");
  }
}

// In reality

int run_for_real() {
  const auto directory = std::filesystem::temp_directory_path() / "weft-replicated-counter";
  std::filesystem::remove_all(directory);
  std::filesystem::create_directories(directory);
  weft::Pool pool;
  const std::size_t count = pool.run([&] {
    std::vector<weft::TcpListener> listeners;
    Config config{.nodes = {}, .log = "", .sync_before_answering = true};
    for (std::size_t i = 0; i < 3; ++i) {
      listeners.push_back(weft::TcpListener::bind("127.0.0.1:0"));
      config.nodes.push_back(listeners.back().local().to_string());
    }
    std::vector<std::unique_ptr<Node>> nodes;
    weft::Scope scope;
    for (std::size_t i = 0; i < 3; ++i) {
      config.me = i;
      config.log = (directory / ("log" + std::to_string(i))).string();
      nodes.push_back(std::make_unique<Node>(config));
      scope.spawn([&, i] { nodes[i]->run(std::move(listeners[i])); });
    }
    for (int id = 1; id <= 20; ++id) add(config.nodes[0], id, 50);
    const std::size_t there = all_of(config.nodes[0]).size();
    scope.cancel();
    return there;
  });
  std::filesystem::remove_all(directory);
  std::printf("the same code on loopback: %zu of 20 additions are there\n", count);
  return count == 20 ? 0 : 1;
}

}  // namespace

int main(int argc, char** argv) {
  const bool details = argc > 1 && std::string(argv[1]) == "-v";
  const auto wrong = weft::sim::explore(
      {.name = "replicated_counter", .runs = 3'000, .save_tape = false}, [] { simulate(false); });
  if (!wrong.found) {
    std::printf("%s", wrong.text().c_str());
    return 1;
  }
  const std::string what = wrong.found->failure.what;
  std::printf("found: %s\n", what.substr(what.rfind(": ") + 2).c_str());
  if (details) std::printf("%s", wrong.text().c_str());
  const auto right = weft::sim::explore(
      {.name = "replicated_counter", .runs = 300, .save_tape = false}, [] { simulate(true); });
  std::printf("mended: %s\n", right.ok() ? "nothing is lost in 300 runs" : "no");
  if (!right.ok() || details) std::printf("%s", right.text().c_str());
  if (details) {
    std::printf("%.0f simulated seconds in %.2f s\n",
                std::chrono::duration<double>(right.simulated).count(), right.seconds);
  }
  return right.ok() ? run_for_real() : 1;
}
