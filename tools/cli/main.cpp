// weft: the command-line tool. One verb per file; this one parses and dispatches.
#include "demo.hpp"
#include "doctor.hpp"

#include <cstdio>
#include <exception>

#include <CLI/CLI.hpp>

int main(int argc, char** argv) {
  CLI::App app("weft: concurrent programs that can be replayed", "weft");
  app.set_version_flag("--version", WEFT_VERSION);
  app.require_subcommand(1);
  app.failure_message(CLI::FailureMessage::help);

  CLI::App* demo = app.add_subcommand("demo", "Run the examples, with explanations and numbers");
  std::string only;
  demo->add_option("example", only, "Run just this one: " + weft::cli::demo_names());

  CLI::App* doctor =
      app.add_subcommand("doctor", "Show what was found on this machine, and what was chosen");
  bool json = false;
  doctor->add_flag("--json", json, "For programs to read");

  CLI11_PARSE(app, argc, argv);
  try {
    if (demo->parsed()) return weft::cli::run_demo(only);
    if (doctor->parsed()) return weft::cli::run_doctor(json);
  } catch (const std::exception& error) {
    std::fprintf(stderr, "weft: %s\n", error.what());
    return 1;
  }
  return 0;
}
