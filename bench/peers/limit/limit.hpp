/// The tables of the contender `limit`.
#pragma once

#include "suite/protocol.hpp"

namespace limit {

/// With bare switches between stacks, in assembly.
std::span<const suite::Benchmark> switches();
/// With plain calls.
std::span<const suite::Benchmark> calls();
/// With bare memory that two threads share.
std::span<const suite::Benchmark> shared();
/// On bare system calls.
std::span<const suite::Benchmark> servers();

}  // namespace limit
