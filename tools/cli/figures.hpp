// The closing figures of `weft demo`: what a switch, a yield, a spawn and a parked task cost on
// this machine.
#pragma once

namespace weft::cli {

int print_figures();

}  // namespace weft::cli
