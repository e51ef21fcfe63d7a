"""The parts of tools/bench. The command is tools/bench --help; the protocol that the contenders
speak is written in bench/suite/protocol.hpp."""
