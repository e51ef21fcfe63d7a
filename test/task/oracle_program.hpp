/// Random programs for the oracle: what tasks, scopes and channels can be asked to do.
#pragma once

#include <weft/task/scope.hpp>

#include <cstdint>
#include <vector>

namespace weft::test {

enum class Do { yield, sleep, send, recv, recv_for, spawn, cancel, join, scope, within, fail };

struct Stmt {
  Do what{};
  int a = 0;  // time in ms, channel, or the number of a task
  int b = 0;  // recv_for: time; within: deadline in ms, 0 for none
  OnFailure policy{};
  std::vector<Stmt> body{};
};
using Program = std::vector<Stmt>;

/// Decodes a program from any sequence of numbers; what is left when it runs out is empty.
class Decoder {
 public:
  explicit Decoder(const std::vector<std::uint16_t>& tape) : tape_(tape) {}

  Program program(int depth) {
    Program out;
    for (int n = depth == 0 ? 4 + next(12) : next(6); n > 0 && at_ < tape_.size(); --n)
      out.push_back(stmt(depth));
    return out;
  }
  [[nodiscard]] int tasks() const { return tasks_; }

 private:
  int next(int below) { return at_ < tape_.size() ? static_cast<int>(tape_[at_++]) % below : 0; }
  Stmt spawn(int depth) {
    Stmt s{.what = Do::spawn, .a = ++tasks_};
    s.body = program(depth + 1);
    return s;
  }
  Stmt stmt(int depth) {
    if (depth == 0 && next(2) == 0) return spawn(depth);  // so that there is somebody to meet
    const int kind = next(depth < 4 ? 16 : 10);
    Stmt s;
    if (kind < 2) {
      s = {.what = kind == 0 ? Do::yield : Do::sleep, .a = 1 + next(4)};
    } else if (kind < 7) {
      s = {.what = kind < 4   ? Do::send
                   : kind < 6 ? Do::recv
                              : Do::recv_for,
           .a = next(3),
           .b = 1 + next(4)};
    } else if (kind < 9) {
      s = {.what = kind == 7 ? Do::cancel : Do::join, .a = next(tasks_ + 2)};
    } else if (kind == 9) {
      s.what = next(3) == 0 ? Do::fail : Do::yield;
    } else if (kind < 13) {
      s = spawn(depth);
    } else if (kind == 13) {
      s.what = Do::scope;
      for (int n = next(4); n > 0; --n) s.body.push_back(spawn(depth));
    } else {
      s = {.what = Do::within, .b = next(5), .policy = static_cast<OnFailure>(next(3))};
      s.body = program(depth + 1);
    }
    return s;
  }
  const std::vector<std::uint16_t>& tape_;
  std::size_t at_ = 0;
  int tasks_ = 0;
};

using Trace = std::vector<std::string>;

}  // namespace weft::test
