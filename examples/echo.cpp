// An echo server, one fiber per connection, and clients for it.
//
//     echo                        both in one process: a burst of clients, then numbers
//     echo serve 127.0.0.1:7777   the server alone; ends on Ctrl-C
//     echo talk 127.0.0.1:7777    sends each line typed, prints what comes back
#include <weft/weft.hpp>

#include <array>
#include <csignal>
#include <cstdio>
#include <iostream>
#include <string>
#include <string_view>

namespace {

void serve(const weft::TcpStream& client) {
  std::array<std::byte, 4096> buffer;
  while (const std::size_t n = client.read(buffer)) client.write(weft::Bytes(buffer).first(n));
}

// Runs until cancelled; closing the scope ends the connections that are left.
void serve_all(const weft::TcpListener& listener) {
  weft::Scope connections({.on_failure = weft::OnFailure::isolate});
  for (;;) {
    connections.spawn([client = listener.accept()] {
      try {
        serve(client);
      } catch (const std::system_error& error) {
        std::fprintf(stderr, "a client was lost: %s\n", error.what());
      }
    });
  }
}

int serve_until_interrupted(std::string_view address) {
  weft::Loop loop;
  loop.run([&] {
    const auto listener = weft::TcpListener::bind(address);
    std::printf("listening on %s\n", listener.local().to_string().c_str());
    std::fflush(stdout);
    weft::Signals interrupts({SIGINT, SIGTERM});
    weft::Scope scope;
    auto server = scope.spawn([&] { serve_all(listener); });
    interrupts.next();
    std::puts("goodbye");
    server.cancel();
  });
  return 0;
}

int talk(std::string_view address) {
  weft::Loop loop;
  loop.run([&] {
    const auto server = weft::TcpStream::connect(address);
    weft::Reader replies(server);
    for (;;) {
      auto line = weft::blocking([] {  // the terminal may block; the loop must not
        std::string text;
        return std::getline(std::cin, text) ? std::optional(text + "\n") : std::nullopt;
      });
      if (!line) break;
      server.write(*line);
      const auto reply = replies.line();
      if (!reply) break;
      std::printf("%.*s\n", static_cast<int>(reply->size()), reply->data());
    }
  });
  return 0;
}

// A client as a coroutine: the same operations, awaited.
weft::Coro<int> ask(weft::Address server, int questions) {
  const auto stream = co_await weft::TcpStream::connect_op(server);
  int right = 0;
  for (int i = 0; i < questions; ++i) {
    const std::string question = "question " + std::to_string(i);
    co_await stream.write_op(weft::as_bytes(question));
    std::array<std::byte, 64> buffer;
    std::size_t got = 0;
    while (got < question.size()) {
      const std::size_t n = co_await stream.read_op(weft::Bytes(buffer).subspan(got));
      if (n == 0) break;
      got += n;
    }
    right += weft::as_text(weft::Bytes(buffer).first(got)) == question ? 1 : 0;
  }
  co_return right;
}

int demonstrate() {
  constexpr int clients = 100;
  constexpr int questions = 100;
  weft::Loop loop;
  loop.run([] {
    const auto listener = weft::TcpListener::bind("127.0.0.1:0");
    weft::Scope scope;
    auto server = scope.spawn([&] { serve_all(listener); });
    int right = 0;
    {
      std::vector<weft::JoinHandle<int>> asking;
      for (int i = 0; i < clients; ++i)
        asking.push_back(scope.spawn(ask(listener.local(), questions)));
      for (auto& client : asking) right += client.get();
    }
    std::printf("%d clients asked %d questions each; %d came back as they were sent\n", clients,
                questions, right);
    server.cancel();
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  const std::string_view what = argc > 1 ? argv[1] : "";
  if (argc == 1) return demonstrate();
  if (argc == 3 && what == "serve") return serve_until_interrupted(argv[2]);
  if (argc == 3 && what == "talk") return talk(argv[2]);
  std::fprintf(stderr, "usage: echo [serve ADDRESS | talk ADDRESS]\n");
  return 2;
}
