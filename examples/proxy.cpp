// A TCP proxy: two fibers per connection, one for each direction. When one side says that it will
// send no more, that is passed on, and the other direction goes on until it ends too.
//
//     proxy                                    a demonstration with a server and clients of its own
//     proxy 127.0.0.1:8080 example.com:80      until Ctrl-C
#include <weft/weft.hpp>

#include <csignal>
#include <cstdio>
#include <string>
#include <string_view>

namespace {

void pump(const weft::TcpStream& from, const weft::TcpStream& to) {
  weft::copy(from, to);
  to.shutdown_write();
}

void relay(const weft::TcpStream& client, const std::string& target) {
  const auto server = weft::TcpStream::connect(target);
  weft::Scope both;  // if one direction fails, the other is stopped too
  both.spawn([&] { pump(client, server); });
  both.spawn([&] { pump(server, client); });
  both.join();
}

void proxy(const weft::TcpListener& listener, const std::string& target) {
  weft::Scope connections({.on_failure = weft::OnFailure::isolate});
  for (;;) {
    connections.spawn([client = listener.accept(), &target] {
      try {
        relay(client, target);
      } catch (const std::system_error& error) {
        std::fprintf(stderr, "proxy: %s\n", error.what());
      }
    });
  }
}

int proxy_until_interrupted(std::string_view address, const std::string& target) {
  weft::Loop loop;
  loop.run([&] {
    const auto listener = weft::TcpListener::bind(address);
    std::printf("listening on %s\n", listener.local().to_string().c_str());
    std::fflush(stdout);
    weft::Signals interrupts({SIGINT, SIGTERM});
    weft::Scope scope;
    auto running = scope.spawn([&] { proxy(listener, target); });
    interrupts.next();
    running.cancel();
  });
  return 0;
}

// Adds up the bytes of a connection, and answers when the client has said that there are no more.
void count_bytes(const weft::TcpListener& listener) {
  weft::Scope connections;
  for (;;) {
    connections.spawn([client = listener.accept()] {
      std::vector<std::byte> buffer(16384);
      std::size_t total = 0;
      while (const std::size_t n = client.read(buffer)) total += n;
      client.write("counted " + std::to_string(total));
    });
  }
}

std::string upload(const weft::Address& to, std::size_t size) {
  const auto stream = weft::TcpStream::connect(to);
  const std::vector<std::byte> data(size, std::byte{42});
  stream.write(data);
  stream.shutdown_write();  // half closed: the answer is still to come
  std::string answer;
  std::array<std::byte, 64> buffer;
  while (const std::size_t n = stream.read(buffer)) {
    answer += weft::as_text(weft::Bytes(buffer).first(n));
  }
  return answer;
}

int demonstrate() {
  weft::Loop loop;
  loop.run([] {
    const auto back = weft::TcpListener::bind("127.0.0.1:0");
    const auto front = weft::TcpListener::bind("127.0.0.1:0");
    const std::string target = back.local().to_string();
    weft::Scope scope;
    auto server = scope.spawn([&] { count_bytes(back); });
    auto between = scope.spawn([&] { proxy(front, target); });
    for (const std::size_t size : {0UL, 1UL, 1000UL, 10'000'000UL}) {
      std::printf("sent %zu bytes: %s\n", size, upload(front.local(), size).c_str());
    }
    server.cancel();
    between.cancel();
  });
  return 0;
}

}  // namespace

int main(int argc, char** argv) {
  if (argc == 1) return demonstrate();
  if (argc == 3) return proxy_until_interrupted(argv[1], argv[2]);
  std::fprintf(stderr, "usage: proxy [LISTEN TARGET]   for example: proxy :8080 example.com:80\n");
  return 2;
}
