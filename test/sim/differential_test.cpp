// The simulated network and disk beside the machine's: the same operations, drawn at random, have
// the same results, where the machine's are determined at all.
#include <weft/sim/explore.hpp>
#include <weft/sim/network.hpp>

#include "support/everywhere.hpp"

#include <array>
#include <filesystem>
#include <string>
#include <system_error>
#include <vector>

namespace weft::test {
namespace {

using Log = std::vector<std::string>;

/// What f gives, or its error.
template <class F>
std::string result_of(F f) {
  try {
    return f();
  } catch (const std::system_error& e) {
    return std::string("error ") + std::to_string(e.code().value());
  }
}

std::string history(const Log& log, std::size_t until) {
  std::string text = "\nafter:";
  for (std::size_t i = 0; i < until; ++i) text += "\n  " + log[i].substr(0, 40);
  return text;
}

// Files

class FileProgram {
 public:
  FileProgram(std::string root, std::uint64_t seed) : root_(std::move(root)), rng_(seed) {}

  Log run(int steps) {
    for (int i = 0; i < steps; ++i) log_.push_back(step());
    std::string all;
    show("", all);
    log_.push_back(all);
    return log_;
  }

 private:
  std::string path() {
    static constexpr const char* names[] = {"a", "b", "d", "d/a", "d/e", "d/e/a"};
    return names[rng_.below(std::size(names))];
  }
  [[nodiscard]] std::string full(const std::string& path) const { return root_ + "/" + path; }

  std::string step() {
    const std::string p = path();
    const std::string q = path();
    const std::uint32_t n = rng_.below(3'000);
    const char letter = static_cast<char>('a' + rng_.below(26));
    switch (rng_.below(12)) {
      case 0:
        return "make_dir " + p + ": " + result_of([&] {
                 make_dir(full(p));
                 return std::string("ok");
               });
      case 1:
        return "remove_dir " + p + ": " + result_of([&] {
                 remove_dir(full(p));
                 return std::string("ok");
               });
      case 2:
        return "remove " + p + ": " + result_of([&] {
                 remove_file(full(p));
                 return std::string("ok");
               });
      case 3:
        return "rename " + p + " " + q + ": " + result_of([&] {
                 rename_file(full(p), full(q));
                 return std::string("ok");
               });
      case 4:
      case 5:
        return "write " + p + " " + std::to_string(n) + ": " + result_of([&] {
                 write_file(full(p), std::string(n, letter));
                 return std::string("ok");
               });
      case 6:
        return "write at " + p + ": " + result_of([&] {
                 const File file = File::open(full(p), OpenMode::write);
                 file.write_at(n, std::string(10, letter));
                 return std::to_string(file.status().size);
               });
      case 7:
        return "append " + p + ": " + result_of([&] {
                 File file = File::open(full(p), OpenMode::append | OpenMode::create);
                 file.write(std::string(n % 50, letter));
                 return std::to_string(file.status().size);
               });
      case 8:
        return "create new " + p + ": " + result_of([&] {
                 static_cast<void>(File::open(full(p), OpenMode::write | OpenMode::create_new));
                 return std::string("ok");
               });
      case 9:
        return "truncate " + p + ": " + result_of([&] {
                 const File file = File::open(full(p), OpenMode::write);
                 file.truncate(n);
                 return std::to_string(file.status().size);
               });
      case 10:
        return "read " + p + ": " + result_of([&] { return read_file(full(p)); });
      default:
        return "list " + p + ": " + result_of([&] {
                 std::string names;
                 for (const DirEntry& e : list_dir(full(p))) names += e.name + " ";
                 return names;
               });
    }
  }

  void show(const std::string& directory, std::string& all) {
    for (const DirEntry& e : list_dir(full(directory))) {
      const std::string name = directory + e.name;
      if (e.kind == FileStatus::Kind::directory) {
        all += name + "/\n";
        show(name + "/", all);
      } else {
        all += name + " " + read_file(full(name)) + "\n";
      }
    }
  }

  const std::string root_;
  Rng rng_;
  Log log_;
};

TEST(Differential, B2_FilesAreAsOnTheMachine) {
  const auto root = std::filesystem::temp_directory_path() / "weft-differential";
  for (std::uint64_t seed = 1; seed <= scaled(10, 100, 2'000); ++seed) {
    std::filesystem::remove_all(root);
    std::filesystem::create_directories(root);
    Log real;
    block_on([&] { real = FileProgram(root.string(), seed).run(40); });
    Log simulated;
    sim::Engine engine;
    const sim::Run run = engine.run({}, [&] {
      make_dir("/root");
      simulated = FileProgram("/root", seed).run(40);
    });
    ASSERT_FALSE(run.failure) << run.failure->what;
    ASSERT_EQ(real.size(), simulated.size());
    for (std::size_t i = 0; i < real.size(); ++i) {
      ASSERT_EQ(real[i], simulated[i]) << "seed " << seed << ", step " << i;
    }
  }
  std::filesystem::remove_all(root);
}

// Connections

/// Both ends of one connection, in one task, which waits after each step until what was sent has
/// arrived.
Log connection_program(const std::string& listen, std::uint64_t seed, Duration a_while) {
  Rng rng(seed);
  Log log;
  TcpListener listener = TcpListener::bind(listen);
  const Address at = listener.local();
  const Address to = Address::parse("127.0.0.1:" + std::to_string(at.port()));
  std::array<std::optional<TcpStream>, 2> ends;
  ends[0].emplace(TcpStream::connect(to));
  ends[1].emplace(listener.accept());
  for (int i = 0; i < 25; ++i) {
    const std::size_t which = rng.below(2);
    const std::size_t n = 1 + rng.below(2'000);
    const std::uint32_t action = rng.below(10);
    auto& end = ends[which];
    std::string what = std::to_string(which) + " ";
    if (!end) {
      log.push_back(what + "gone");
      continue;
    }
    if (action < 4) {
      what += "write: " + result_of([&] {
                end->write(std::string(n, static_cast<char>('a' + i)));
                return std::to_string(n);
              });
    } else if (action < 8) {
      std::string buffer(n, ' ');
      what += "read: " + result_of([&] {
                const auto got = perform(
                    timeout(end->read_op(std::as_writable_bytes(std::span(buffer))), a_while));
                return got ? std::to_string(*got) + " " + buffer.substr(0, *got)
                           : std::string("nothing");
              });
    } else if (action == 8) {
      what += "shutdown: " + result_of([&] {
                end->shutdown_write();
                return std::string("ok");
              });
    } else if (i > 12) {
      end.reset();
      what += "close";
    }
    log.push_back(what);
    sleep(a_while);
  }
  return log;
}

TEST(Differential, B2_ConnectionsAreAsOnTheMachine) {
  for (std::uint64_t seed = 1; seed <= scaled(3, 20, 500); ++seed) {
    Log real;
    block_on([&] { real = connection_program("127.0.0.1:0", seed, 3ms); });
    Log simulated;
    sim::Engine engine;
    const sim::Run run =
        engine.run({}, [&] { simulated = connection_program("127.0.0.1:0", seed, 3ms); });
    ASSERT_FALSE(run.failure) << run.failure->what;
    ASSERT_EQ(real.size(), simulated.size());
    for (std::size_t i = 0; i < real.size(); ++i) {
      ASSERT_EQ(real[i], simulated[i]) << "seed " << seed << ", step " << i << history(real, i);
    }
  }
}

}  // namespace
}  // namespace weft::test
