// A chat room: what one says, all others hear. Each member has an outbox of bounded size and a
// fiber that empties it; somebody who does not read fills only his own, and is shown the door.
// Nobody else waits for him.
//
//     chat                         a demonstration with members of its own, one of them asleep
//     chat 127.0.0.1:7000          a server; join with `nc 127.0.0.1 7000`. Ends on Ctrl-C
#include <weft/weft.hpp>

#include <chrono>
#include <csignal>
#include <cstdio>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

namespace {

using namespace std::chrono_literals;

constexpr auto patience = 1s;
using Message = std::shared_ptr<const std::string>;  // one copy for all outboxes

class Room {
 public:
  struct Member {
    std::string name;
    weft::TcpStream stream;
    weft::Channel<Message> outbox{1024};
  };

  void say(const Member* from, std::string text) {
    const auto message = std::make_shared<const std::string>(std::move(text));
    const std::vector all(members_.begin(), members_.end());  // who comes and goes meanwhile
    for (const auto& to : all) {
      if (to.get() == from) continue;
      if (!weft::perform(weft::timeout(to->outbox.send_op(message), patience))) dismiss(to);
    }
  }

  // One member, from joining to leaving: a fiber that reads, and one that writes.
  void host(weft::TcpStream stream) {
    const auto me = std::make_shared<Member>();
    me->stream = std::move(stream);
    weft::Reader lines(me->stream);
    const auto name = lines.line();
    if (!name) return;
    me->name = *name;
    members_.insert(me);
    weft::Scope scope({.on_failure = weft::OnFailure::isolate});
    scope.spawn([&] { deliver(*me); });
    try {
      while (const auto line = lines.line()) {
        say(me.get(), me->name + ": " + std::string(*line) + "\n");
      }
    } catch (const std::system_error&) {
      // dismissed, or the line went dead
    }
    members_.erase(me);
    me->outbox.close();
  }

  [[nodiscard]] std::size_t size() const { return members_.size(); }
  [[nodiscard]] const std::vector<std::string>& dismissed() const { return dismissed_; }

 private:
  // All that is in the outbox goes out in one write.
  static void deliver(Member& to) try {
    while (const auto first = to.outbox.recv()) {
      std::string text = **first;
      for (;;) {
        auto more = weft::perform(weft::first_of(to.outbox.recv_op(), weft::always(0)));
        auto* message = std::get_if<0>(&more);
        if (message == nullptr || !*message) break;
        text += ***message;
      }
      to.stream.write(text);
    }
    to.stream.shutdown_write();
  } catch (const std::system_error&) {
    // dismissed, or the line went dead
  }

  void dismiss(const std::shared_ptr<Member>& member) {
    if (members_.erase(member) == 0) return;  // another speaker was faster
    dismissed_.push_back(member->name);
    member->outbox.close();
    member->stream.close();  // wakes both of its fibers, with an error
  }

  std::set<std::shared_ptr<Member>> members_;
  std::vector<std::string> dismissed_;
};

void open_house(Room& room, const weft::TcpListener& listener) {
  weft::Scope guests({.on_failure = weft::OnFailure::isolate});
  for (;;) {
    guests.spawn([&room, s = std::make_shared<weft::TcpStream>(listener.accept())] {
      room.host(std::move(*s));
    });
  }
}

int serve(std::string_view address) {
  weft::Loop loop;
  loop.run([&] {
    const auto listener = weft::TcpListener::bind(address);
    std::printf("listening on %s; the first line you send is your name\n",
                listener.local().to_string().c_str());
    std::fflush(stdout);
    weft::Signals interrupts({SIGINT, SIGTERM});
    Room room;
    weft::Scope scope;
    auto house = scope.spawn([&] { open_house(room, listener); });
    interrupts.next();
    house.cancel();
  });
  return 0;
}

// The demonstration: ann talks, bob and cid listen, and sloth never reads.

constexpr int messages = 20'000;

weft::TcpStream join(const weft::TcpListener& listener, const Room& room, std::string_view name) {
  const std::size_t before = room.size();
  auto stream = weft::TcpStream::connect(listener.local());
  stream.write(std::string(name) + "\n");
  while (room.size() == before) weft::sleep(1ms);
  return stream;
}

int count_lines(const weft::TcpStream& stream) {
  weft::Reader lines(stream);
  int count = 0;
  while (count < messages && lines.line()) ++count;
  return count;
}

int demonstrate() {
  weft::Loop loop;
  loop.run([] {
    const auto listener = weft::TcpListener::bind("127.0.0.1:0");
    Room room;
    weft::Scope scope;
    auto house = scope.spawn([&] { open_house(room, listener); });
    {
      const auto ann = join(listener, room, "ann");
      const auto bob = join(listener, room, "bob");
      const auto cid = join(listener, room, "cid");
      const auto sloth = join(listener, room, "sloth");
      auto bobs = scope.spawn([&] { return count_lines(bob); });
      auto cids = scope.spawn([&] { return count_lines(cid); });
      const std::string news(1000, 'x');
      for (int i = 0; i < messages; ++i) ann.write(news + "\n");
      std::printf("bob heard %d, cid heard %d of %d messages\n", bobs.get(), cids.get(), messages);
    }
    for (const auto& name : room.dismissed()) std::printf("%s was shown the door\n", name.c_str());
    house.cancel();
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) return demonstrate();
  if (argc == 2) return serve(argv[1]);
  std::fprintf(stderr, "usage: chat [ADDRESS]   for example: chat :7000\n");
  return 2;
}
