// What befalls hosts, links and disks of a simulation, beyond being there or not.
#include <weft/sim/explore.hpp>
#include <weft/sim/network.hpp>

#include "support/everywhere.hpp"

#include <set>
#include <string>

namespace weft::test {
namespace {

sim::Options quietly(std::uint64_t runs) {
  return {.runs = runs, .paranoid = 20, .save_tape = false, .progress = false};
}

void wait_for(sim::Host& host) {
  while (host.processes() > 0) sleep(10ms);
}

/// All bytes of the first connection to port 7, and when the end came.
struct Heard {
  std::string text;
  Instant at{};
};
void listen_to_one(Heard& heard) {
  TcpListener listener = TcpListener::bind("0.0.0.0:7");
  TcpStream stream = listener.accept();
  heard.text = Reader(stream).read_all(std::size_t{1} << 24);
  heard.at = now();
}

void send_and_close(const std::string& bytes) {
  TcpStream stream = TcpStream::connect("server:7");
  stream.write(as_bytes(bytes));
}

TEST(Hosts, B2_LastBytesOfAClosedSocketWaitOutAPartition) {
  const auto report = sim::explore(quietly(100), [] {
    Heard heard;
    sim::Host& server = sim::host("server");
    server.start([&] { listen_to_one(heard); });
    sleep(1ms);
    TcpStream stream = TcpStream::connect("server:7");
    sim::network().partition({"server"}, {"test"});
    stream.write(as_bytes("last words"));
    stream.close();
    sleep(10s);
    sim::check(heard.text.empty(), "nothing gets through");
    sim::network().heal();
    wait_for(server);
    sim::check(heard.text == "last words", "what was written before the close arrives");
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Hosts, S8_APausedHostStandsStill) {
  const auto report = sim::explore(quietly(100), [] {
    int beats = 0;
    sim::Host& host = sim::host("server");
    host.start([&] {
      for (;;) {
        sleep(100ms);
        ++beats;
      }
    });
    sleep(1050ms);
    sim::check(beats == 10, "it runs");
    host.pause();
    host.pause();
    sleep(10s);
    sim::check(beats == 10 && host.paused(), "it stands still");
    host.resume();
    sleep(1s);
    sim::check(beats == 10, "it was paused twice");
    host.resume();
    sleep(1050ms);
    sim::check(beats >= 11 && beats <= 21, "it goes on, and does not make up for it");
    host.pause();
    host.crash();  // does not wait for ever
    sim::check(!host.up() && !host.paused(), "it is gone");
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Hosts, S8_WhoWaitsForAPausedHostIsToldSo) {
  const auto report = sim::explore(quietly(5), [] {
    Channel<int> answers;
    sim::Host& host = sim::host("server");
    host.start([&] {
      sleep(1s);
      answers.send(1);
    });
    sleep(10ms);
    host.pause();
    static_cast<void>(answers.recv());
  });
  ASSERT_TRUE(report.found);
  EXPECT_EQ(report.found->failure.kind, sim::Failure::Kind::deadlock);
  EXPECT_NE(report.found->failure.what.find("on a host that is paused"), std::string::npos);
}

TEST(Hosts, S8_HostsArePausedAtRandom) {
  std::set<bool> late;
  const auto report = sim::explore(quietly(400), [&] {
    sim::network().allow({.pauses = true});
    Heard heard;
    sim::Host& server = sim::host("server");
    server.start([&] { listen_to_one(heard); });
    sleep(1ms);
    const Instant start = now();
    {
      TcpStream stream = TcpStream::connect("server:7");
      for (int i = 0; i < 20; ++i) {
        stream.write(as_bytes("x"));
        sleep(10ms);
      }
    }
    wait_for(server);
    sim::check(heard.text.size() == 20, "nothing is lost");
    late.insert(heard.at - start > 500ms);
  });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_EQ(late, (std::set<bool>{false, true}));
}

TEST(Hosts, S8_RestartRunsTheSameProgramsOnTheSameDisk) {
  const auto report = sim::explore(quietly(50), [] {
    int starts = 0;
    sim::Host& host = sim::host("db");
    const auto program = [&starts] {
      ++starts;
      if (!file_exists("/f")) write_file_atomically("/f", as_bytes("kept"));
      sleep(1h);
    };
    host.start(program);
    sleep(1s);
    for (int i = 0; i < 3; ++i) {
      host.restart();
      sleep(1s);
    }
    sim::check(starts == 4 && host.processes() == 1, "once each time");
    host.start([] { sim::check(read_file("/f") == "kept", "its disk is as it was"); });
    sleep(1s);
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Hosts, S8_WhatAProcessHasCapturedEndsWithIt) {
  const auto report = sim::explore(quietly(20), [] {
    auto [sender, in] = ends<int>(4);
    sim::host("a").start([out = std::move(sender)] { out.send(1); });
    int received = 0;
    while (in.recv()) ++received;  // until nobody is left who could send
    sim::check(received == 1, "one value, then the end");
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Hosts, S8_APauseThatWasDrawnDoesNotEndAnother) {
  const auto report = sim::explore(quietly(300), [] {
    sim::Host& host = sim::host("server");
    sim::network().allow({.short_transfers = false, .pauses = true});
    host.start([] { sleep(1h); });
    UdpSocket socket = UdpSocket::bind("0.0.0.0:9");
    for (int i = 0; i < 400 && !host.paused(); ++i) {
      socket.send_to(as_bytes("x"), Address::parse("10.0.0.2:9"));
    }
    if (!host.paused()) return;
    sim::network().allow(sim::Faults::none());
    host.restart();
    sim::check(!host.paused(), "a crash ends it");
    host.pause();
    sleep(20s);
    sim::check(host.paused(), "nobody has resumed it");
    host.resume();
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Hosts, S8_CrashesMayOverlapWithEachOtherAndWithPauses) {
  const auto report = sim::explore(quietly(200), [] {
    sim::Host& host = sim::host("a");
    host.start([] {
      try {
        sleep(1h);
      } catch (const Cancelled&) {
        const Shield shield;
        sleep(20ms);
        throw;
      }
    });
    sleep(1ms);
    Scope scope;
    for (int i = 0; i < 2; ++i) scope.spawn([&] { host.restart(); });
    scope.spawn([&] {
      sleep(10ms);
      host.pause();
    });
    scope.join();
    while (host.paused()) host.resume();
    sleep(100ms);
    sim::check(host.up() && host.processes() == 1, "one program, restarted");
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Hosts, S8_WhoIsStoppedMayNameNewHosts) {
  const auto report = sim::explore(quietly(20), [] {
    for (int i = 0; i < 3; ++i) {
      sim::host("h" + std::to_string(i)).start([i] {
        try {
          sleep(1h);
        } catch (const Cancelled&) {
          for (int k = 0; k < 20; ++k) {
            static_cast<void>(sim::host("n" + std::to_string(i * 100 + k)));
          }
          throw;
        }
      });
    }
    sleep(1ms);
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Hosts, S8_AClockMayChangeItsPaceAndNeverGoesBack) {
  const auto report = sim::explore(quietly(20), [] {
    sim::Host& host = sim::host("other");
    host.start([] {
      Instant last = now();
      for (int i = 0; i < 1'000; ++i) {
        sleep(1ms);
        sim::check(now() - last > 500us, "forward; by less, if it has become slower meanwhile");
        last = now();
      }
    });
    for (const int ppm : {100'000, -100'000, 0, -400'000, 3}) {
      sleep(150ms);
      host.clock(ppm);
    }
    wait_for(host);
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Hosts, S8_TheTimeOfDayJumps) {
  std::set<bool> back;
  const auto report = sim::explore(quietly(200), [&] {
    sim::network().allow({.clock_jumps = true});
    const auto world = this_task()->io().kernel().world();
    std::int64_t last = world->wall_clock();
    for (int i = 0; i < 20; ++i) {
      sleep(1ms);
      const std::int64_t time = world->wall_clock();
      back.insert(time < last);
      last = time;
    }
  });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_EQ(back, (std::set<bool>{false, true}));
}

TEST(Links, S8_BandwidthIsShared) {
  const auto report = sim::explore(quietly(10), [] {
    sim::network().bandwidth(1'000'000);
    Heard heard;
    sim::Host& server = sim::host("server");
    server.start([&] { listen_to_one(heard); });
    sleep(1ms);
    const Instant start = now();
    send_and_close(std::string(3'000'000, 'x'));
    wait_for(server);
    const Duration took = heard.at - start;
    sim::check(heard.text.size() == 3'000'000, "all of it");
    sim::check(took >= 3s && took < 10s, "at about a million bytes a second");
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Links, S8_DatagramsTakeTheirTimeToo) {
  const auto report = sim::explore(quietly(10), [] {
    sim::network().bandwidth(1'000);
    Duration took{};
    sim::host("server").start([&] {
      UdpSocket socket = UdpSocket::bind("0.0.0.0:9");
      std::array<std::byte, 2'000> buffer;
      const Instant start = now();
      static_cast<void>(socket.recv_from(buffer));
      took = now() - start;
    });
    sleep(1ms);
    UdpSocket socket = UdpSocket::bind("0.0.0.0:9");
    socket.send_to(as_bytes(std::string(960, 'x')), Address::parse("10.0.0.2:9"));
    sleep(10s);
    sim::check(took >= 990ms && took < 1100ms, "a second for 1,000 bytes");
  });
  EXPECT_TRUE(report.ok()) << report.text();
}

TEST(Links, S8_SwizzledHostsComeBack) {
  std::set<int> cut_off;
  const sim::Network::Names names{"a", "b", "c"};
  const auto report = sim::explore(quietly(200), [&] {
    for (const std::string& name : names) {
      sim::host(name).start([] {
        TcpListener listener = TcpListener::bind("0.0.0.0:7");
        for (;;) static_cast<void>(listener.accept());
      });
    }
    sleep(1ms);
    sim::network().swizzle(names, 10s);
    sleep(5s);  // those that are clogged are, and none has been let go
    int unreachable = 0;
    for (const std::string& name : names) {
      if (!sim::network().connected(sim::this_host(), sim::host(name))) ++unreachable;
    }
    cut_off.insert(unreachable);
    sleep(6s);
    for (const std::string& name : names) static_cast<void>(TcpStream::connect(name + ":7"));
  });
  EXPECT_TRUE(report.ok()) << report.text();
  EXPECT_EQ(cut_off, (std::set<int>{0, 1, 2, 3}));
}

/// Blocks with a mark of their own, as a log or a database would have them; what a restart finds.
std::set<std::string> blocks_after_a_crash(const sim::Faults& faults) {
  constexpr std::size_t size = 512;
  std::set<std::string> found;
  const auto report = sim::explore(quietly(300), [&] {
    sim::network().allow(faults);
    sim::Host& host = sim::host("db");
    host.start([] {
      File file = File::open("/blocks", OpenMode::write | OpenMode::create);
      for (char mark = 'a'; mark < 'e'; ++mark) file.write(as_bytes(std::string(size, mark)));
      file.sync();
    });
    wait_for(host);
    host.crash();
    std::string text;
    bool failed = false;
    host.start([&] {
      try {
        text = read_file("/blocks");
      } catch (const std::system_error& e) {
        failed = e.code().value() == EIO;
      }
    });
    wait_for(host);
    if (failed) {
      found.insert("EIO");
      return;
    }
    std::string marks;
    for (std::size_t i = 0; i < text.size(); i += size) {
      const std::string block = text.substr(i, size);
      const bool whole = block.find_first_not_of(block[0]) == std::string::npos;
      marks += whole ? block[0] : '?';
    }
    found.insert(marks);
  });
  EXPECT_TRUE(report.ok()) << report.text();
  return found;
}

TEST(Disk, S8_WritesGoAstray) {
  sim::Faults faults = sim::Faults::none();
  EXPECT_EQ(blocks_after_a_crash(faults), (std::set<std::string>{"abcd"}));
  faults.misdirected_writes = true;
  const auto found = blocks_after_a_crash(faults);
  EXPECT_TRUE(found.contains("abcd"));
  EXPECT_GT(found.size(), 1U) << "some block lies where another should be";
  for (const std::string& marks : found) EXPECT_EQ(marks.find('?'), std::string::npos) << marks;
}

TEST(Disk, S8_BitsRotAndReadsFail) {
  sim::Faults faults = sim::Faults::none();
  faults.bit_rot = faults.failing_reads = true;
  const auto found = blocks_after_a_crash(faults);
  EXPECT_TRUE(found.contains("abcd"));
  EXPECT_TRUE(found.contains("EIO"));
  bool rotten = false;
  for (const std::string& marks : found) rotten |= marks.find('?') != std::string::npos;
  EXPECT_TRUE(rotten);
}

}  // namespace
}  // namespace weft::test
