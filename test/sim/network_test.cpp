// Hosts, the network and disks of a simulation, by the code that production uses.
#include <weft/sim/network.hpp>

#include <weft/sim/explore.hpp>

#include "support/everywhere.hpp"

#include <set>
#include <string>
#include <system_error>

namespace weft::test {
namespace {

sim::Options quietly(std::uint64_t runs = 300) {
  return {.runs = runs, .paranoid = 50, .save_tape = false, .progress = false};
}

/// Says what it hears, line by line, to everybody who connects.
void serve_echo() {
  TcpListener listener = TcpListener::bind("0.0.0.0:7");
  Scope scope({.on_failure = OnFailure::isolate});
  for (;;) {
    auto stream = std::make_shared<TcpStream>(listener.accept());
    scope.spawn([stream] {
      try {
        Reader reader(*stream);
        Writer writer(*stream);
        while (auto line = reader.line()) {
          writer.write(std::string(*line) + "\n");
          writer.flush();
        }
      } catch (const std::system_error&) {  // the client is gone
      }
    });
  }
}

std::string ask(TcpStream& stream, const std::string& text) {
  Writer writer(stream);
  writer.write(text + "\n");
  writer.flush();
  Reader reader(stream);
  const auto line = reader.line();
  return line ? std::string(*line) : "(end)";
}

/// The error number that f throws, or 0.
template <class F>
int error_of(F f) {
  try {
    f();
  } catch (const std::system_error& e) {
    return e.code().value();
  }
  return 0;
}

void wait_for(sim::Host& host) {
  while (host.processes() > 0) sleep(10ms);
}

TEST(Network, B2_ServersAndClientsOnManyHosts) {
  const auto report = sim::explore(quietly(), [] {
    sim::network().allow({.short_transfers = true, .slow_links = true});
    sim::host("server").start(&serve_echo);
    for (int i = 0; i < 3; ++i) {
      sim::host("client" + std::to_string(i)).start([i] {
        sleep(1ms);  // or it is refused, which is right too
        TcpStream stream = TcpStream::connect("server:7");
        for (int k = 0; k < 4; ++k) {
          const std::string text = "hello " + std::to_string(10 * i + k);
          sim::check(ask(stream, text) == text, "the echo is what was said");
        }
      });
    }
    for (int i = 0; i < 3; ++i) wait_for(sim::host("client" + std::to_string(i)));
  });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_GT(report.simulated, 1s);
}

TEST(Network, B2_NobodyListensAndNobodyIsThere) {
  const auto report = sim::explore(quietly(50), [] {
    static_cast<void>(sim::host("silent"));
    EXPECT_EQ(error_of([] { TcpStream::connect("silent:80"); }), ECONNREFUSED);
    EXPECT_NE(error_of([] { TcpStream::connect("10.9.9.9:80"); }), 0);
    EXPECT_ANY_THROW(TcpStream::connect("nowhere:80"));
    sim::host("silent").crash();
    const Instant before = now();
    EXPECT_EQ(error_of([] { TcpStream::connect("silent:80"); }), ETIMEDOUT);
    EXPECT_GE(now() - before, 60s);
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Network, B2_APartitionHoldsThingsUpAndHealing) {
  const auto report = sim::explore(quietly(), [] {
    sim::host("server").start(&serve_echo);
    sleep(1ms);
    TcpStream stream = TcpStream::connect("server:7");
    EXPECT_EQ(ask(stream, "one"), "one");
    sim::network().partition({"test"}, {"server"});
    Scope scope;
    const Instant before = now();
    auto answer = scope.spawn([&] { return ask(stream, "two"); });
    sleep(5s);
    EXPECT_FALSE(answer.done());
    sim::network().heal();
    EXPECT_EQ(answer.get(), "two");
    EXPECT_GE(now() - before, 5s);
    // Only one way, and for too long.
    sim::network().cut("server", "test");
    EXPECT_EQ(error_of([&] { ask(stream, "three"); }), ETIMEDOUT);
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Network, B2_ACrashIsNoticedWhenTheHostIsBack) {
  const auto report = sim::explore(quietly(), [] {
    sim::Host& server = sim::host("server");
    server.start(&serve_echo);
    sleep(1ms);
    TcpStream stream = TcpStream::connect("server:7");
    EXPECT_EQ(ask(stream, "one"), "one");
    server.crash();
    EXPECT_EQ(server.processes(), 0U);
    Scope scope;
    auto error = scope.spawn([&] { return error_of([&] { ask(stream, "two"); }); });
    sleep(1s);
    EXPECT_FALSE(error.done());
    server.start(&serve_echo);
    EXPECT_EQ(error.get(), ECONNRESET);
    sleep(1ms);
    TcpStream again = TcpStream::connect("server:7");
    EXPECT_EQ(ask(again, "three"), "three");
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

// What somebody does while he is being crashed has no effect outside.
TEST(Network, B2_TheDyingDoNotSpeak) {
  const auto report = sim::explore(quietly(), [] {
    int heard = 0;
    sim::host("a").start([&] {
      UdpSocket socket = UdpSocket::bind("0.0.0.0:9");
      std::array<std::byte, 16> buffer{};
      for (;;) {
        static_cast<void>(socket.recv_from(buffer));
        ++heard;
      }
    });
    sim::host("b").start([] {
      UdpSocket socket = UdpSocket::bind("0.0.0.0:0");
      struct LastWords {
        UdpSocket& socket;
        ~LastWords() {
          try {
            const Shield shield;
            socket.send_to(as_bytes("x"), Address::parse("10.0.0.2:9"));
          } catch (...) {
          }
        }
      } last_words{socket};
      sleep(1h);
    });
    sleep(1s);
    sim::host("b").crash();
    sleep(1s);
    EXPECT_EQ(heard, 0);
    sim::host("b").stop();
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Network, B2_HalfClosesAndEnds) {
  const auto report = sim::explore(quietly(), [] {
    sim::host("server").start([] {
      TcpListener listener = TcpListener::bind("[::]:7");
      TcpStream stream = listener.accept();
      Reader reader(stream);
      std::string all;
      while (auto line = reader.line()) all += *line;
      Writer writer(stream);  // the other side still listens
      writer.write(all + "\n");
      writer.flush();
    });
    sleep(1ms);
    TcpStream stream = TcpStream::connect("server:7");
    {
      Writer writer(stream);
      writer.write("a\nb\nc\n");
      writer.flush();
    }
    stream.shutdown_write();
    Reader reader(stream);
    const auto line = reader.line();
    sim::check(line && *line == "abc", "an answer after a half close");
    sim::check(!reader.line().has_value(), "and then the end");
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

// Who does not read holds up who writes, at 64 KiB; and then it all arrives.
TEST(Network, B2_BackPressure) {
  const auto report = sim::explore(quietly(20), [] {
    constexpr std::size_t size = 300'000;
    std::size_t written = 0;
    sim::host("source").start([&] {
      TcpListener listener = TcpListener::bind("0.0.0.0:7");
      TcpStream stream = listener.accept();
      const std::string block(1'000, 'x');
      while (written < size) {
        stream.write(as_bytes(block));
        written += block.size();
      }
    });
    sleep(1ms);
    TcpStream stream = TcpStream::connect("source:7");
    sleep(60s);
    EXPECT_GT(written, 60'000U);
    EXPECT_LE(written, 70'000U);
    std::size_t got = 0;
    std::array<std::byte, 5'000> buffer{};
    while (const std::size_t n = stream.read(buffer)) got += n;
    EXPECT_EQ(got, size);
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

// With everything that can go wrong, an answer is right or there is an error.
TEST(Network, B2_WithAllFaultsBytesAreRightOrThereIsAnError) {
  std::uint64_t right = 0;
  std::uint64_t errors = 0;
  const auto report = sim::explore(quietly(scaled(100, 1'000, 20'000)), [&] {
    sim::network().allow(sim::Faults::every());
    sim::host("server").start([] {
      for (;;) {  // also if there are no descriptors for a moment
        try {
          serve_echo();
        } catch (const std::system_error&) {
          sleep(100ms);
        }
      }
    });
    Scope scope;
    for (int i = 0; i < 2; ++i) {
      scope.spawn([&, i] {
        sleep(1ms);
        for (int k = 0; k < 4; ++k) {
          try {
            TcpStream stream = TcpStream::connect("server:7");
            const std::string text(static_cast<std::size_t>(1 + 40 * k),
                                   static_cast<char>('a' + i));
            const std::string answer = ask(stream, text);
            if (answer == "(end)") continue;
            sim::check(answer == text, "a wrong answer");
            ++right;
          } catch (const std::system_error&) {
            ++errors;
          }
        }
      });
    }
    scope.join();
  });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_GT(right, report.runs);
  EXPECT_GT(errors, 20U);
}

TEST(Network, B2_DatagramsGetLostAndDoubled) {
  std::set<int> counts;
  const auto report = sim::explore(quietly(500), [&] {
    sim::network().allow({.lost_datagrams = true, .doubled_datagrams = true});
    int heard = 0;
    sim::host("a").start([&] {
      UdpSocket socket = UdpSocket::bind("0.0.0.0:9");
      std::array<std::byte, 16> buffer{};
      for (;;) {
        const auto got = socket.recv_from(buffer);
        sim::check(as_text(std::span(buffer).first(got.size)) == "ping", "what was sent");
        ++heard;
      }
    });
    sleep(1ms);
    UdpSocket socket = UdpSocket::bind("0.0.0.0:0");
    for (int i = 0; i < 3; ++i) socket.send_to(as_bytes("ping"), Address::parse("10.0.0.2:9"));
    sleep(10s);
    counts.insert(heard);
  });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_TRUE(counts.contains(3));
  EXPECT_GT(counts.size(), 3U);
  EXPECT_LT(*counts.begin(), 3);
  EXPECT_GT(*counts.rbegin(), 3);
}

TEST(Network, S8_ClocksDiffer) {
  const auto report = sim::explore(quietly(20), [] {
    sim::Host& fast = sim::host("fast");
    fast.clock(100'000, 1h);  // a tenth faster
    const Instant before = now();
    bool done = false;
    fast.start([&] {
      const Instant start = now();
      sleep(11s);
      EXPECT_GE(now() - start, 11s);
      done = true;
    });
    sleep(9s);
    EXPECT_FALSE(done);
    sleep(1500ms);
    EXPECT_TRUE(done);
    EXPECT_EQ(now() - before, 10500ms);
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Network, S8_ASlowOrFastClockNeverGoesBack) {
  for (const int ppm : {-1'000, -3, 7, 100, 250'000}) {
    const auto report = sim::explore(quietly(3), [ppm] {
      sim::Host& host = sim::host("other");
      host.clock(ppm);
      host.start([] {
        Instant last = now();
        for (int i = 1; i < 200; ++i) {
          const Duration nap = std::chrono::nanoseconds(997 * i);
          sleep(nap);
          sim::check(now() - last >= nap, "a sleep takes its time");
          last = now();
        }
      });
      wait_for(host);
    });
    EXPECT_TRUE(report.ok()) << ppm << report.text();
  }
  const auto wrong = sim::explore(quietly(1), [] { sim::host("x").clock(-2'000'000); });
  EXPECT_TRUE(wrong.found);
}

TEST(Network, B2_WhoGivesUpWhileConnectingIsNotWaitedFor) {
  const auto report = sim::explore(quietly(50), [] {
    sim::network().latency(1ms, 1ms);
    bool ended = false;
    sim::host("server").start([&] {
      TcpListener listener = TcpListener::bind("0.0.0.0:7");
      const TcpStream stream = listener.accept();
      std::array<std::byte, 10> buffer{};
      try {
        ended = stream.read(buffer) == 0;
      } catch (const std::system_error&) {
        ended = true;
      }
    });
    sleep(1ms);
    const Address address = Address::parse("10.0.0.2:7");
    EXPECT_FALSE(perform(timeout(TcpStream::connect_op(address), 1500us)).has_value());
    sleep(1h);
    sim::check(ended, "the server has been told");
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Network, B2_APipeThatNobodyReads) {
  const auto report = sim::explore(quietly(10), [] {
    Pipe ends = pipe();
    ends.read = Fd();
    for (int i = 0; i < 3; ++i) EXPECT_EQ(error_of([&] { ends.write.write("x"); }), EPIPE);
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

// Disks

TEST(Disk, B2_WhatIsSyncedSurvives) {
  std::set<std::string> survived;
  const auto report = sim::explore(quietly(300), [&] {
    sim::Host& host = sim::host("db");
    host.start([] {
      File file = File::open("/log", OpenMode::write | OpenMode::create);
      file.write(as_bytes("first "));
      file.sync();
      file.write(as_bytes("second "));
      file.write(as_bytes("third"));
      sleep(1h);
    });
    sleep(1s);
    host.crash();
    std::string text;
    host.start([&] { text = read_file("/log"); });
    wait_for(host);
    sim::check(text.starts_with("first "), "what was synced is there");
    survived.insert(text);
  });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_EQ(survived, (std::set<std::string>{"first ", "first second ", "first second third"}));
}

// The file is the old or the new one, whole, wherever the crash comes. And a twin that forgets to
// sync is found.
void replace_file(bool carefully) {
  sim::network().allow({.torn_writes = true});
  sim::Host& host = sim::host("db");
  const std::string before(1'500, 'a');
  const std::string after(1'500, 'b');
  host.start([&] { write_file_atomically("/state", as_bytes(before)); });
  wait_for(host);
  host.start([&] {
    if (carefully) {
      write_file_atomically("/state", as_bytes(after));
    } else {
      File file = File::open("/new", OpenMode::write | OpenMode::create);
      file.write(as_bytes(after));
      weft::rename_file("/new", "/state");
    }
    sleep(1h);
  });
  sleep(std::chrono::microseconds(100 * sim::pick(40)));
  host.crash();
  std::string text;
  host.start([&] { text = read_file("/state"); });
  wait_for(host);
  sim::check(text == before || text == after, "one or the other, whole");
}

TEST(Disk, B2_ReplacingAFileSurvivesACrashAtAnyMoment) {
  const auto right = sim::explore(quietly(scaled(200, 3'000, 50'000)), [] { replace_file(true); });
  EXPECT_TRUE(right.ok()) << right.text();
  const auto wrong = sim::explore(quietly(3'000), [] { replace_file(false); });
  ASSERT_TRUE(wrong.found);
  EXPECT_EQ(wrong.found->failure.kind, sim::Failure::Kind::check);
}

TEST(Disk, B2_FilesAndDirectories) {
  const auto report = sim::explore(quietly(30), [] {
    EXPECT_EQ(error_of([] { static_cast<void>(File::open("/no", OpenMode::read)); }), ENOENT);
    make_dir("/d");
    EXPECT_EQ(error_of([] { make_dir("/d"); }), EEXIST);
    EXPECT_EQ(error_of([] { make_dir("/x/y"); }), ENOENT);
    write_file("/d/one", as_bytes("1"));
    write_file("/d/two", as_bytes("22"));
    EXPECT_EQ(error_of([] { remove_dir("/d"); }), ENOTEMPTY);
    EXPECT_EQ(list_dir("/d").size(), 2U);
    EXPECT_EQ(error_of([] { File::open("/d/one", OpenMode::read).write("x"); }), EBADF);
    weft::rename_file("/d", "/e");
    EXPECT_EQ(read_file("/e/two"), "22");
    EXPECT_EQ(file_status("/e/two").size, 2U);
    remove_file("/e/one");
    remove_file("/e/two");
    remove_dir("/e");
    EXPECT_TRUE(list_dir("/").empty());
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Disk, B2_SyncsFailAndDisksAreFull) {
  std::set<int> errors;
  const auto report = sim::explore(quietly(500), [&] {
    sim::network().allow({.failing_syncs = true, .full_disk = true, .slow_disk = true});
    errors.insert(error_of([] {
      File file = File::open("/f", OpenMode::write | OpenMode::create);
      file.write(as_bytes("x"));
      file.sync();
    }));
  });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_EQ(errors, (std::set<int>{0, EIO, ENOSPC}));
}

}  // namespace
}  // namespace weft::test
